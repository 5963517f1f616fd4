"""Several on one replayer share their blocks: one v0 for all, and who is far behind leaves after a glance."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bot.analysis.racing import GLANCE, glanced
from bot.bench.side_by_side import BLOCKS, groups, read_together
from bot.model.measurement import Block


class Table:
    """What each takes beside a v0 of 2 us, and who was asked for how many blocks."""

    def __init__(self, *us: float, silent: Sequence[int] = ()) -> None:
        self._us, self._silent = us, silent
        self.asked: list[tuple[tuple[int, ...], int]] = []

    def __call__(self, places: Sequence[int], blocks: int) -> dict[int, tuple[Block, ...]]:
        self.asked.append((tuple(places), blocks))
        return {place: () if place in self._silent else took(self._us[place], blocks) for place in places}


def took(us: float, blocks: int) -> tuple[Block, ...]:
    return ((2.0, 2.0, us, us), (2.002, 1.999, us + 0.001, us)) * (blocks // 2)


def test_all_who_are_near_each_other_are_read_to_the_end() -> None:
    table = Table(1.0, 1.004)
    found, leader = read_together(2, None, table)
    assert [len(blocks) for blocks in found] == [BLOCKS, BLOCKS]
    assert table.asked == [((0, 1), GLANCE), ((0, 1), BLOCKS - GLANCE)]
    assert leader == glanced(took(1.0, GLANCE))


def test_who_is_far_behind_leaves_whether_the_leader_comes_before_or_after_it() -> None:
    for us, staying in (((1.1, 1.0), 1), ((1.0, 1.1), 0)):
        table = Table(*us)
        found, _ = read_together(2, None, table)
        assert [len(blocks) for blocks in found] == [BLOCKS if place == staying else GLANCE for place in (0, 1)]
        assert table.asked[1] == ((staying,), BLOCKS - GLANCE)


def test_nobody_is_asked_for_more_where_all_are_behind_somebody_else() -> None:
    ahead = glanced(took(0.5, BLOCKS))
    table = Table(1.0, 1.0)
    found, leader = read_together(2, ahead, table)
    assert [len(blocks) for blocks in found] == [GLANCE, GLANCE]
    assert (len(table.asked), leader) == (1, ahead)


def test_where_a_glance_shows_nothing_of_somebody_nothing_is_kept() -> None:
    table = Table(1.0, 1.0, silent=(1,))
    assert read_together(2, None, table) == ([], None)
    assert len(table.asked) == 1


@pytest.mark.parametrize(
    ("many", "sizes"),
    [(0, []), (1, [1]), (7, [7]), (8, [4, 4]), (14, [7, 7]), (15, [5, 5, 5]), (63, [7] * 9)],
)
def test_nobody_is_left_over_to_be_read_alone(many: int, sizes: list[int]) -> None:
    found = groups(range(many))
    assert sorted(map(len, found)) == sizes
    assert [one for some in found for one in some] == list(range(many))
