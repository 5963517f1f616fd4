"""The guardrails, in order, and the verdict they lead to. Pure: publish repeats it from the raw facts.

The first table is asked of every variant; one rejection there and nothing is timed. The second is asked of those
that came as far as the stopwatch. A new guardrail is one short file and one line in a table.
"""

from __future__ import annotations

from collections.abc import Callable

from bot.analysis.stats import Incomparable
from bot.analysis.stats import score as score_of
from bot.errors import BotError
from bot.guardrails import gain as gains
from bot.guardrails.complete import complete
from bot.guardrails.correctness import correctness
from bot.guardrails.cross_pass import cross_pass
from bot.guardrails.duplicate import duplicate
from bot.guardrails.fault import fault
from bot.guardrails.hearing import Hearing, Weighed, reject
from bot.guardrails.honesty import honesty
from bot.guardrails.implausible import implausible
from bot.guardrails.provenance import provenance
from bot.guardrails.regression import regression
from bot.guardrails.resources import resources
from bot.guardrails.scope import scope
from bot.model.verdict import Decision, Finding, Score, Verdict

BEFORE_TIMING: dict[str, Callable[[Hearing], list[Finding]]] = {
    "scope": scope,
    "honesty": honesty,
    "duplicate": duplicate,
    "fault": fault,
    "complete": complete,
    "provenance": provenance,
    "correctness": correctness,
}
AFTER_TIMING: dict[str, Callable[[Weighed], list[Finding]]] = {
    "implausible": implausible,
    "regression": regression,
    "cross_pass": cross_pass,
    "resources": resources,
    "gain": gains.gain,
}


def _weigh(hearing: Hearing) -> Score | Finding:
    """The score, from raw facts alone; or why there is none."""
    try:
        return score_of(hearing.baseline, hearing.candidate, hearing.suite, hearing.scope, hearing.goal)
    except (Incomparable, BotError) as error:
        return reject("complete", f"no score: {error}")
    except (ValueError, ArithmeticError):
        return reject("complete", "no score: a number is too large or too small to be one")


def _decide(findings: list[Finding]) -> Decision:
    severities = {finding.severity for finding in findings}
    if "reject" in severities:
        return Decision.REJECTED
    if any(finding.guardrail == gains.NAME for finding in findings):
        return Decision.INCONCLUSIVE
    return Decision.ACCEPTED_WITH_NOTE if "note" in severities else Decision.ACCEPTED


def judge(hearing: Hearing) -> Verdict:
    findings = [finding for rule in BEFORE_TIMING.values() for finding in rule(hearing)]
    score = _weigh(hearing) if _decide(findings) is not Decision.REJECTED else None
    if isinstance(score, Finding):
        findings.append(score)
    if score is None or isinstance(score, Finding):
        return Verdict(decision=Decision.REJECTED, findings=tuple(findings))
    weighed = Weighed(hearing=hearing, score=score)
    findings += [finding for rule in AFTER_TIMING.values() for finding in rule(weighed)]
    return Verdict(
        decision=_decide(findings), findings=tuple(findings), score=score, gain_over_best=gains.over_best(weighed)
    )
