"""Campaigns of sweeps as they stand at an end, for tests of what follows from them."""

from __future__ import annotations

from typing import Any

from bot.model.campaign import Campaign, Origin, Outcome, Profile, Round, Stage
from bot.model.commands import GpuChoice, Mode, Optimize
from bot.model.finalization import Finalization
from bot.model.measurement import CaseResult, Evidence, Runner, Timing
from bot.model.sweep import Cell, cell_of
from bot.model.verdict import Decision
from tests.campaign.story import CASE, DANA, finalization, measurement, profile, pull, source, variant, verdict

GPU = Runner(evidence=Evidence.MEASURED, arch="sm_90", gpu_name="NVIDIA H200", driver="580", torch="2.9", triton="3.5")
NEWER = GPU.model_copy(update={"triton": "3.6"})
HOPPER = Cell(kernel="rms_norm", pool="hopper")


def found(text: str = "# v0\n", us: float = 100.0, roof: float | None = 40.0, runner: Runner = GPU) -> Profile:
    """A profile of this source, which took that long on that machine."""
    timing = Timing(median_us=us, timer="replay")
    baseline = measurement().model_copy(
        update={"runner": runner, "cases": (CaseResult(case=CASE.id, timing=timing),), "seconds": 120.0}
    )
    return profile(roof).model_copy(update={"baseline": baseline, "sources": source(text)})


def night(
    day: int,
    cell: Cell = HOPPER,
    *,
    head: str = "a",
    outcome: Outcome | None = Outcome.NOTHING_TO_DO,
    **fields: Any,
) -> Campaign:
    """One campaign of a sweep, profiled and ended unless told otherwise."""
    base: dict[str, Any] = {
        "id": f"sweep-202601{day:02d}-{cell.pool}-{cell.kernel}",
        "stage": Stage.ENDED if outcome else Stage.OPTIMIZING,
        "origin": Origin.SWEEP,
        "command": Optimize(kernel=cell.kernel, mode=Mode.AUTONOMOUS, gpu=GpuChoice(cell.pool)),
        "requester": DANA,
        "requested_at": f"2026-01-{day:02d}T02:00:00Z",
        "pull": pull(head * 40),
        "profile": found(),
        "outcome": outcome,
    }
    made = Campaign(**(base | fields))
    assert cell_of(made.id) == cell
    return made


def won(day: int, text: str, head: str = "a", pushed: str = "f", **fields: Any) -> Campaign:
    """One whose winner, of that source, was pushed."""
    done: Finalization = finalization().model_copy(update={"files": source(text)})
    return night(
        day, head=head, outcome=Outcome.PUSHED, pushed=pushed * 40, finalization=done, lineage=(0, 1), **fields
    )


def try_of(commit: str, decision: Decision = Decision.ACCEPTED, value: float | None = 1.2) -> Round:
    played = variant(1, references=(commit * 40,), technique="try")
    return Round(variant=played, measurement=measurement(played), verdict=verdict(decision, value=value))
