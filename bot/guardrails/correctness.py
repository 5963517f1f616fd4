"""Every case right before any case is fast. Where v0 itself fails, the same is not asked of the variant.

That is: v0 beside it, in the same job. Inputs and hidden shapes are drawn anew in each, so what v0 made of those that
were drawn for its profile excuses nobody and accuses nobody.
"""

from __future__ import annotations

from collections.abc import Sequence

from bot.guardrails.hearing import Hearing, info, reject
from bot.model.measurement import CheckResult
from bot.model.verdict import Finding

NAME = "correctness"
MOST_SHOWN = 3
NOTHING = "nothing was checked"
LIMIT = 1.0
"""Of error / limit; the limit itself is v0's own error against float64, with a little air."""


def is_right(check: CheckResult) -> bool:
    """A check that did not run, or whose margin is no number, is not right, whatever it says of itself."""
    return check.passed and check.margin is not None and check.margin <= LIMIT


def no_yardstick(baseline: Sequence[CheckResult]) -> str:
    """Why nothing can be held against what the untouched kernel does; empty where at least one check can."""
    if any(is_right(check) for check in baseline):
        return ""
    return next((f"it passes none of its checks, first {check.case}: {check.detail}" for check in baseline), NOTHING)


def _times(margin: float) -> str:
    """Three figures, and never an exponent where people can read the number."""
    return f"{float(f'{margin:.3g}'):,.0f}" if 1000 <= margin < 1e9 else f"{margin:.3g}"


def _said(check: CheckResult) -> str:
    output = check.worst or "an output"
    if check.margin is None or check.margin <= LIMIT:
        return f"{check.case}: {check.detail or f'{output} cannot be compared'}"
    return f"{check.case}: {output} is off by {_times(check.margin)} times what v0's own error allows"


def _excused(hearing: Hearing) -> tuple[CheckResult, ...]:
    """What is asked of nobody. An old journal does not tell of v0 in the same job, and its profile has to do. Each row
    by itself: one of a case excuses no other."""
    wrong = {check.case for check in hearing.baseline.checks if not is_right(check)}
    told = hearing.candidate.checks
    return tuple(check for check in told if (check.case in wrong if check.excused is None else check.excused))


def correctness(hearing: Hearing) -> list[Finding]:
    if hearing.candidate.fault is not None:  # said by `fault`
        return []
    excused = _excused(hearing)
    asked = [check for check in hearing.candidate.checks if check not in excused]
    wrong = [check for check in asked if not is_right(check)]
    findings = [reject(NAME, _said(check), check.case) for check in wrong[:MOST_SHOWN]]
    if len(wrong) > MOST_SHOWN:
        findings.append(reject(NAME, f"{len(wrong) - MOST_SHOWN} more of {len(asked)} cases are wrong"))
    if not asked:
        findings.append(reject(NAME, "no case could be checked, so nothing shows that it is right"))
    if excused and asked:
        names = {check.case for check in excused}
        many = f"{len(names)} checks" if len(names) > 1 else "1 check"
        of_them = "them either, first" if len(names) > 1 else "it either,"
        findings.append(info(NAME, f"{many} not asked for: v0 does not pass {of_them} {min(names)}"))
    return findings
