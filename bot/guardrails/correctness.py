"""Every case right before any case is fast. Where v0 itself fails, the same is not asked of the variant.

Inputs are drawn anew for each variant, and v0 may be right with those of one day and wrong with those of another: a
product in TF32 is within its limit or not as the values fall.
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


def _is_unlucky(check: CheckResult) -> bool:
    """v0 is right with some inputs and wrong with others, and every one of these was of the latter."""
    return check.passed and check.margin is None and check.excused


def no_yardstick(baseline: Sequence[CheckResult]) -> str:
    """Why nothing can be held against what the untouched kernel does; empty where at least one check can."""
    if any(is_right(check) for check in baseline):
        return ""
    return next((f"it passes none of its checks, first {check.case}: {check.detail}" for check in baseline), NOTHING)


def _said(check: CheckResult) -> str:
    output = check.worst or "an output"
    if check.margin is None or check.margin <= LIMIT:
        return f"{check.case}: {check.detail or f'{output} cannot be compared'}"
    return f"{check.case}: {output} is off by {check.margin:.3g} times what v0's own error allows"


def correctness(hearing: Hearing) -> list[Finding]:
    if hearing.candidate.fault is not None:  # said by `fault`
        return []
    excused = {check.case for check in hearing.baseline.checks if not is_right(check)}
    held = [check for check in hearing.candidate.checks if check.case not in excused]
    asked = [check for check in held if not _is_unlucky(check)]
    wrong = [check for check in asked if not is_right(check)]
    findings = [reject(NAME, _said(check), check.case) for check in wrong[:MOST_SHOWN]]
    if len(wrong) > MOST_SHOWN:
        findings.append(reject(NAME, f"{len(wrong) - MOST_SHOWN} more of {len(asked)} cases are wrong"))
    if not asked:
        findings.append(reject(NAME, "no case could be checked, so nothing shows that it is right"))
    if excused and asked:
        findings.append(
            info(NAME, f"{len(excused)} checks not asked for: v0 does not pass them either, first {min(excused)}")
        )
    if asked and len(asked) < len(held):
        unlucky = min(check.case for check in held if _is_unlucky(check))
        findings.append(
            info(NAME, f"{len(held) - len(asked)} more not asked for: v0 fails with what was drawn, first {unlucky}")
        )
    return findings
