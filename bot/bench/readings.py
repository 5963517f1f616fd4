"""What was read, in the words of a measurement."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bot.analysis import racing
from bot.bench.take import Take
from bot.model.measurement import Case, CaseResult, CheckResult, Fault, Paired, Reading, Timing, Unseen
from bot.worker.contract import UnseenCase


class Wrong(Exception):
    """A timed slot of the variant held something else than the right result."""

    def __init__(self, case: str, why: str) -> None:
        super().__init__(why)
        self.case = case


@dataclass(frozen=True)
class Clocked:
    """What came of a variant, or of v0, on the clock."""

    cases: tuple[CaseResult, ...]
    rows: tuple[CheckResult, ...]
    """Of its checks, with what was found wrong while it was timed."""
    fault: Fault | None = None
    unseen: tuple[Unseen, ...] = ()
    unread: str = ""
    """Why fresh processes read no size that nobody named."""


def timing_of(times: Sequence[float]) -> Timing:
    ordered = sorted(times)
    tenth = len(ordered) // 10
    return Timing(
        median_us=round(statistics.median(ordered), 3),
        low_us=ordered[tenth],
        high_us=ordered[-1 - tenth],
        samples=len(ordered),
        timer="replay",
    )


def recorded(case: CaseResult, take: Take | None) -> CaseResult:
    """What a recording tells beside the launches."""
    peak, waits = (take.peak_bytes, take.waits) if take is not None else (0, 0)
    return case.model_copy(update={"memory_bytes": peak, "host_waits": waits})


CLOCKED = ("timing", "paired", "roof_us", "memory_bytes", "host_waits")
"""What a GPU's clock and its recordings tell of a case; all else is told by compiling."""


def with_clock(cases: Sequence[CaseResult], clocked: Sequence[CaseResult]) -> tuple[CaseResult, ...]:
    """Cases as compiling shows them, with what was read of them meanwhile."""
    read = {one.case: {name: getattr(one, name) for name in CLOCKED} for one in clocked}
    return tuple(case.model_copy(update=read.get(case.case, {})) for case in cases)


def unseen_of(drawn: Iterable[UnseenCase], read: Mapping[str, Sequence[Reading]]) -> tuple[Unseen, ...]:
    """Those that were read, as cases like any other."""
    return tuple(
        Unseen(case=_hidden(one), confirm=tuple(read[one.call.case])) for one in drawn if read.get(one.call.case)
    )


def _hidden(one: UnseenCase) -> Case:
    shape = one.shape
    told = {"id": shape.id, "direction": shape.direction, "shape": shape.sizes, "dtype": shape.dtype}
    return Case.model_validate({**told, "grad": shape.grad, "hidden": True})


def goes_on(search: Sequence[Reading]) -> bool:
    """Whether a confirmation could end well: the race says so, case weights aside."""
    blocks = [reading.blocks for reading in search]
    if min(len(some) for some in blocks) < racing.LOOKS[0]:
        return True
    return racing.step(racing.standing(blocks)) is not racing.Step.DROP


def all_paired(
    cases: Sequence[CaseResult],
    search: Mapping[str, Reading],
    confirm: Mapping[str, Sequence[tuple[Reading, Reading]]],
    bursts: Mapping[str, tuple[float, float]],
    roofs: Mapping[str, float | None],
) -> tuple[CaseResult, ...]:
    """Each with what was read of it, by the names of the cases."""
    return tuple(
        paired(case, search[case.case], confirm[case.case], bursts.get(case.case), roofs[case.case]) for case in cases
    )


def paired(
    case: CaseResult,
    search: Reading,
    confirm: Sequence[tuple[Reading, Reading]],
    burst: tuple[float, float] | None,
    roof_us: float | None,
) -> CaseResult:
    """`confirm`: what each fresh process read of the variant, and of v0 against itself."""
    readings = [reading for reading, _ in confirm] or [search]
    found = Paired(
        tier="replay",
        search=search,
        confirm=tuple(reading for reading, _ in confirm),
        control=tuple(control for _, control in confirm),
        burst=burst,
    )
    times = [us for reading in readings for block in reading.blocks for us in block[2:]]
    update = {"paired": found, "roof_us": roof_us}
    return case.model_copy(update=update | ({"timing": timing_of(times)} if times else {}))
