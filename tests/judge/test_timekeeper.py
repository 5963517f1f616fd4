"""How many cases the judge keeps on the GPU between their turns."""

from __future__ import annotations

import pytest

from bot.judge.layout import BANKS, MOST_RIGHT, Layout
from bot.judge.timekeeper import Timekeeper, Unplayable, crowded_out
from bot.worker.contract import Call, ContractError

KEPT = {("a", 1): 30, ("b", 1): 30, ("c", 7): 30}


def small(nbytes: int) -> Layout:
    """One that keeps so many bytes: its inputs, and no result."""
    return Layout((), nbytes // BANKS, (), 0, 1)


@pytest.mark.parametrize(
    ("room", "leaving"),
    [
        (120, []),
        (119, [("c", 7)]),
        (90, [("c", 7)]),
        (89, [("c", 7), ("b", 1)]),
        (60, [("c", 7), ("b", 1)]),
        (59, [("c", 7), ("b", 1), ("a", 1)]),
        (1, [("c", 7), ("b", 1), ("a", 1)]),
    ],
)
def test_who_came_last_makes_room(room: float, leaving: list[tuple[str, int]]) -> None:
    assert crowded_out(KEPT, small(30), room) == leaving


def test_nobody_has_to_leave_an_empty_place() -> None:
    assert crowded_out({}, small(300), 1.0) == []


def test_truth_and_what_was_right_count() -> None:
    kept = Layout((), 512, (), 1024, 2)
    assert kept.kept_bytes == kept.shared_bytes + BANKS * 1024 * (4 + 2 * MOST_RIGHT)


class Quiet:
    """A replayer that does nothing."""

    def end_case(self) -> None: ...

    def close(self) -> None: ...


def keeper(*, has_rivals: bool, plays: bool = True) -> Timekeeper:
    made = object.__new__(Timekeeper)
    made._has_rivals = has_rivals
    made._playing = Quiet() if plays else None  # type: ignore[assignment]
    return made


@pytest.mark.parametrize(
    ("variants", "fresh", "had"), [(("v",), True, False), (("v",), True, True), ((), False, False)]
)
def test_a_rival_meets_no_variant_and_no_process_that_played_one(
    variants: tuple[str, ...], fresh: bool, had: bool
) -> None:
    call = Call("c", "c", "forward", (), ())
    with pytest.raises(Unplayable, match="beside v0 alone"):
        keeper(has_rivals=had).open(call, "nowhere", variants, 1, fresh=fresh, rivals=("eager",))


def test_a_process_that_played_a_rival_plays_no_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left, although a fresh one was not asked for."""
    made, started = keeper(has_rivals=True), []
    monkeypatch.setattr(
        Timekeeper, "start", lambda self, count: started.append(count) or setattr(self, "_waiting", [Quiet()])
    )
    with pytest.raises(ContractError):  # there is no tape at "nowhere"
        made.open(Call("c", "c", "forward", (), ()), "nowhere", ("v",), 1, fresh=False)
    assert started == [1]
    same = keeper(has_rivals=False)
    with pytest.raises(ContractError):
        same.open(Call("c", "c", "forward", (), ()), "nowhere", ("v",), 1, fresh=False)
    assert started == [1]
