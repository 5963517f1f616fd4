"""What the blocks of a winner say on the sizes of the library's own benchmark."""

from __future__ import annotations

from bot.analysis.paired import clearly_slower
from bot.analysis.stats import Incomparable, case_readings, unseen_score
from bot.model.harvested import Beside, HarvestedRun


def figures(run: HarvestedRun) -> tuple[Beside, ...] | str:
    """In the order of the suite, or why there are none."""
    if run.measurement.fault is not None:
        return f"{run.measurement.fault.kind}: {run.measurement.fault.detail}"
    if wrong := next((row for row in run.measurement.checks if not row.passed), None):
        return f"not timed, as a check failed: {wrong.case}: {wrong.detail}"
    try:
        found = case_readings(run.measurement, run.suite)
    except Incomparable as error:
        return str(error)
    if not found:
        return "not timed: no block was read"
    names = [case.id for case in run.suite.cases]
    slower = clearly_slower([found[name].estimate for name in names])
    scores = (unseen_score(name, found[name]) for name in names)
    return tuple(Beside(score=score, slower=is_slower) for score, is_slower in zip(scores, slower, strict=True))
