"""The guardrails, in order, and the verdict they lead to. Pure: publish repeats it from the raw facts.

The first table is asked of every variant; one rejection there and nothing is timed. The second asks whether the
machine is fit to time anything. The third is asked of those that came as far as the stopwatch. A new guardrail is one
short file and one line in a table.
"""

from __future__ import annotations

from collections.abc import Callable

from bot.analysis.stats import Incomparable
from bot.analysis.stats import score as score_of
from bot.errors import BotError
from bot.guardrails import gain as gains
from bot.guardrails.clocks import clocks
from bot.guardrails.complete import complete
from bot.guardrails.confirmed import confirmed
from bot.guardrails.control import control
from bot.guardrails.correctness import correctness
from bot.guardrails.cross_pass import cross_pass
from bot.guardrails.duplicate import duplicate
from bot.guardrails.fault import fault
from bot.guardrails.hearing import Hearing, Weighed, reject
from bot.guardrails.honesty import honesty
from bot.guardrails.host_time import host_time
from bot.guardrails.implausible import implausible
from bot.guardrails.provenance import provenance
from bot.guardrails.regression import memory, regression
from bot.guardrails.resources import resources
from bot.guardrails.runner import runner
from bot.guardrails.sanitizer import sanitizer
from bot.guardrails.scope import scope
from bot.guardrails.torch_compile import torch_compile
from bot.guardrails.unseen import unseen
from bot.model.verdict import Decision, Finding, Score, Verdict

BEFORE_TIMING: dict[str, Callable[[Hearing], list[Finding]]] = {
    "scope": scope,
    "honesty": honesty,
    "duplicate": duplicate,
    "fault": fault,
    "complete": complete,
    "provenance": provenance,
    "correctness": correctness,
    "sanitizer": sanitizer,
    "torch_compile": torch_compile,
}
STATIC = ("scope", "honesty", "duplicate")
"""Those of the first table that read the text alone: nothing that they refuse is ever run."""
MACHINE: dict[str, Callable[[Hearing], list[Finding]]] = {
    "runner": runner,
    "control": control,
}
"""Of the machine that timed it: where one of these speaks, its times mean nothing and there is no verdict."""
AFTER_TIMING: dict[str, Callable[[Weighed], list[Finding]]] = {
    "implausible": implausible,
    "regression": regression,
    "unseen": unseen,
    "memory": memory,
    "cross_pass": cross_pass,
    "resources": resources,
    "host_time": host_time,
    "clocks": clocks,
    "confirmed": confirmed,
    "gain": gains.gain,
}
UNDECIDED = frozenset({*MACHINE, "clocks", "confirmed", gains.NAME})
"""A note of these leaves it open; any other note is a price to be known."""


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
    if any(finding.guardrail in UNDECIDED and finding.severity == "note" for finding in findings):
        return Decision.INCONCLUSIVE
    return Decision.ACCEPTED_WITH_NOTE if "note" in severities else Decision.ACCEPTED


def prescreen(hearing: Hearing) -> list[Finding]:
    """What the text alone says against a variant. Asked before any of it is run; the measurement is not looked at."""
    asked = [rule for name, rule in BEFORE_TIMING.items() if name in STATIC]
    return [finding for rule in asked for finding in rule(hearing)]


def by_deeds(verdict: Verdict) -> Decision:
    """What the decision would be by what the variant did, whatever its text says."""
    return _decide([finding for finding in verdict.findings if finding.guardrail not in STATIC])


def looked_at_again(hearing: Hearing) -> Verdict:
    """For a source that this repository had or that won before. It is timed whatever its text lacks of today's, and
    still it is rejected for that: it may tell of a regression, and may not be pushed."""
    done, said = judge(hearing, static=False), prescreen(hearing)
    findings = (*said, *done.findings)
    decision = Decision.REJECTED if _decide(said) is Decision.REJECTED else done.decision
    return done.model_copy(update={"findings": findings, "decision": decision})


def judge(hearing: Hearing, *, static: bool = True) -> Verdict:
    """`static=False` leaves the decision to what the variant did, which has to be enough without the filter."""
    findings = prescreen(hearing) if static else []
    if _decide(findings) is Decision.REJECTED:
        return Verdict(decision=Decision.REJECTED, findings=tuple(findings))
    dynamic = [rule for name, rule in BEFORE_TIMING.items() if name not in STATIC]
    findings += [finding for rule in dynamic for finding in rule(hearing)]
    findings += [finding for rule in MACHINE.values() for finding in rule(hearing)]
    if _decide(findings) is Decision.INCONCLUSIVE:
        return Verdict(decision=Decision.INCONCLUSIVE, findings=tuple(findings))
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
