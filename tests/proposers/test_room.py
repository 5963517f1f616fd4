"""A second program on a multiprocessor is proposed for rows that leave room for one."""

from __future__ import annotations

import pytest

from bot.model.measurement import Launch, Measurement
from bot.model.verdict import Decision
from bot.proposers import engine, room
from bot.proposers.brief import Brief
from bot.proposers.forecast import twice_the_programs
from tests.analysis import made
from tests.proposers.scene import FWD, after, brief, launches_of

BACKWARD = "_rms_norm_backward_kernel"


def facts(*found: tuple[int, int, int]) -> Measurement:
    """Block, warps and registers of the backward's launch in one case each, one program on a multiprocessor."""
    results = [made.result(FWD, launches_of("rms_norm", 8)[0])]
    for block, warps, registers in found:
        launch = made.launch(
            BACKWARD,
            block=block,
            warps=warps,
            grid=(132, 1, 1),
            resources=made.resources(registers=registers, instructions=3000, barriers=40),
        )
        results.append(made.result(made.case("backward", 8192, block), launch, minimum_bytes=96 * 2**20))
    return made.measurement(*results)


def told(*found: tuple[int, int, int]) -> Brief:
    cases = [FWD, *(made.case("backward", 8192, block) for block, _, _ in found)]
    seen = facts(*found)
    return brief(baseline=seen, facts=seen, suite=made.suite(*cases), surveys=())


def launch(found: tuple[int, int, int]) -> Launch:
    return facts(found).cases[1].launches[0]


NARROW, MIDDLE, WIDE = (1024, 4, 56), (4096, 8, 113), (8192, 16, 113)
"""As Liger's backward of rms_norm was compiled for sm_90."""


def test_the_widest_row_with_room_is_read_from_registers_and_warps() -> None:
    assert room.widest(told(NARROW, MIDDLE, WIDE), (BACKWARD,)) == 4096


@pytest.mark.parametrize(
    ("why", "found"),
    [
        ("all have room", (NARROW, MIDDLE)),
        ("none has", (WIDE,)),
        ("a narrow one has none, a wide one has", ((1024, 16, 113), MIDDLE)),
        ("one block has room here and none there", (MIDDLE, (4096, 16, 113))),
    ],
)
def test_no_rule_is_written_where_room_does_not_follow_the_width(
    why: str, found: tuple[tuple[int, int, int], ...]
) -> None:
    assert room.widest(told(*found), (BACKWARD,)) is None, why


def test_room_is_for_twice_as_many_as_there_are() -> None:
    """Two stand beside each other already, and four of the wide ones would need more registers than there are."""
    twice = [one.model_copy(update={"grid": (264, 1, 1)}) for one in (launch(NARROW), launch(MIDDLE))]
    seen = made.measurement(*(made.result(made.case(), one) for one in twice))
    assert room.widest(brief(facts=seen), (BACKWARD,)) == 1024


def test_a_change_is_for_narrow_rows_alone() -> None:
    change = room.up_to(4096, twice_the_programs)
    assert [change(launch(one)).grid[0] for one in (NARROW, MIDDLE, WIDE)] == [264, 264, 132]


def test_the_engine_says_where_the_second_program_runs() -> None:
    def more(brief: Brief) -> str:
        """What the engine makes of the grid."""
        while (proposal := engine.propose(brief)) is not None:
            if proposal.hypothesis.technique == "more_programs":
                return proposal.files[0].text
            brief = after(brief, proposal, Decision.REJECTED)
        return ""

    assert "min((2 if n_cols <= 4096 else 1) * multiprocessor_count(" in more(told(NARROW, MIDDLE, WIDE))
    assert "min(2 * multiprocessor_count(" in more(told(NARROW, MIDDLE))
