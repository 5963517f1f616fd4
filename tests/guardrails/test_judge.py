"""The verdict: which rules speak, in which order, and what follows from what they say."""

from __future__ import annotations

import pytest

from bot import guardrails
from bot.guardrails import AFTER_TIMING, BEFORE_TIMING, MACHINE, Hearing, judge, prescreen
from bot.model.commands import Scope
from bot.model.measurement import Evidence, Fault, Reading, Sanitized, UnderCompile
from bot.model.verdict import Decision
from tests.guardrails import hearings as h

ONLY: dict[str, Hearing] = {
    "scope": h.hearing(text=h.FASTER.replace("    # Where the row ends.\n", "")),
    "honesty": h.hearing(text=h.FASTER.replace("import os\n", "import ctypes\nimport os\n")),
    "duplicate": h.hearing(earlier=(("v2", h.variant().digest),)),
    "fault": h.changed(h.hearing(), fault=Fault(kind="run_timeout", detail="60 s")),
    "complete": h.changed(h.hearing(), checks=h.hearing().candidate.checks[1:]),
    "provenance": h.launching(h.hearing(), h.launch("another text")),
    "correctness": h.changed(h.hearing(), checks=tuple(h.check(c.id, c.id != "check-257", 1.01) for c in h.CHECKS)),
    "sanitizer": h.changed(h.hearing(), sanitized=Sanitized(status="found", detail="Invalid __global__ read")),
    "torch_compile": h.changed(
        h.hearing(), under_compile=UnderCompile(status="wrong", detail="forward-3x8: NameError")
    ),
    "implausible": h.hearing(dict.fromkeys(h.NAMES, 19.0)),
    "regression": h.hearing({h.BIG_FORWARD: 106.0}, scope=Scope.FORWARD),
    "memory": h.hearing(memory={h.SMALL_FORWARD: 1051}),
    "cross_pass": h.modelled({h.BIG_FORWARD: 2.3, h.BIG_BACKWARD: 1.2}),
    "resources": h.launching(h.hearing(), h.launch(h.FASTER, spill=8)),
    "runner": h.pairing(h.hearing(), search=Reading(blocks=(), voided=200)),
    "control": h.pairing(h.hearing(), h.SMALL_FORWARD, control=h.paired(100.0, 98.0).confirm),
    "host_time": h.pairing(h.hearing(), h.BIG_FORWARD, host=((100.0, 100.0, 103.0, 103.0),)),
    "clocks": h.pairing(h.hearing(), h.BIG_FORWARD, burst=(0.96, 0.9)),
    "confirmed": h.pairing(h.hearing(), h.BIG_FORWARD, confirm=h.paired(100.0, 90.0, processes=4).confirm),
    "unseen": h.on_sizes(h.hearing(), (100.0, 90.0), (100.0, 102.5)),
    "gain": h.hearing(dict.fromkeys(h.NAMES, 99.5)),
}
"""For each rule a variant that nobody else stops."""


def test_a_faster_variant_with_nothing_against_it_is_accepted() -> None:
    verdict = judge(h.hearing())
    assert verdict.decision is Decision.ACCEPTED
    assert verdict.findings == ()
    assert verdict.score is not None and verdict.score.value == pytest.approx(100 / 90)
    assert verdict.gain_over_best == pytest.approx(100 / 90 - 1)


def test_every_rule_has_a_variant_that_nobody_else_stops() -> None:
    assert set(ONLY) == set(BEFORE_TIMING) | set(MACHINE) | set(AFTER_TIMING)


@pytest.mark.parametrize("rule", ONLY)
def test_without_its_rule_the_variant_would_be_accepted(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = ONLY[rule]
    verdict = judge(heard)
    assert not verdict.decision.is_accepted
    assert {finding.guardrail for finding in verdict.findings if finding.severity != "info"} >= {rule}
    for table in ("BEFORE_TIMING", "MACHINE", "AFTER_TIMING"):  # copies: what is put back later comes last
        others = {name: asked for name, asked in getattr(guardrails, table).items() if name != rule}
        monkeypatch.setattr(guardrails, table, others)
    assert judge(heard).decision.is_accepted, judge(heard).findings


@pytest.mark.parametrize("rule", BEFORE_TIMING)
def test_what_is_rejected_before_the_stopwatch_has_no_score(rule: str) -> None:
    verdict = judge(ONLY[rule])
    assert verdict.decision is Decision.REJECTED
    assert h.rejections(verdict)[0] == rule
    assert verdict.score is None and verdict.gain_over_best is None


@pytest.mark.parametrize("rule", [name for name in AFTER_TIMING if name not in ("confirmed", "gain")])
def test_what_is_rejected_after_it_keeps_its_score_for_the_record(rule: str) -> None:
    verdict = judge(ONLY[rule])
    assert verdict.decision is Decision.REJECTED
    assert set(h.rejections(verdict)) == {rule}
    assert verdict.score is not None and verdict.gain_over_best is not None


@pytest.mark.parametrize("rule", MACHINE)
def test_a_machine_that_is_not_fit_gives_no_verdict_and_no_number(rule: str) -> None:
    verdict = judge(ONLY[rule])
    assert verdict.decision is Decision.INCONCLUSIVE
    assert verdict.score is None and verdict.gain_over_best is None


def test_what_is_wrong_is_refused_on_a_sick_machine_too() -> None:
    sick = h.changed(ONLY["runner"], checks=tuple(h.check(c.id, False, 2.0) for c in h.CHECKS))
    assert h.rejections(judge(sick))[0] == "correctness"


def test_a_modelled_trade_off_is_a_note_below_five_percent_and_refused_above() -> None:
    """No GPU, no interval: the limits of the source systems stand."""
    assert judge(h.modelled({h.BIG_FORWARD: 2.08})).decision is Decision.ACCEPTED_WITH_NOTE
    assert judge(h.modelled({h.BIG_FORWARD: 2.4})).decision is Decision.REJECTED


def test_no_gain_is_an_answer_and_not_a_failure() -> None:
    verdict = judge(ONLY["gain"])
    assert verdict.decision is Decision.INCONCLUSIVE
    assert verdict.reason == "no significant change: speed +0.50 % over the best so far, at least 1 % is asked"


def test_a_rejection_weighs_more_than_a_missing_gain() -> None:
    verdict = judge(h.hearing(dict.fromkeys(h.NAMES, 99.5), {h.BIG_FORWARD: 2000}))
    assert verdict.decision is Decision.REJECTED
    assert (
        verdict.reason
        == f"{h.BIG_FORWARD} needs +100.0 % memory (2000 B, v0 1000 B); with goal=speed at most 5 % is allowed"
    )


def test_a_trade_off_is_accepted_with_a_note() -> None:
    verdict = judge(h.hearing({h.SMALL_FORWARD: 101.9}))
    assert verdict.decision is Decision.ACCEPTED_WITH_NOTE
    assert verdict.reason == f"{h.SMALL_FORWARD} is 1.90 % slower than v0 (101.9 us, v0 100 us)"


def test_two_runs_of_the_same_hearing_agree() -> None:
    for heard in ONLY.values():
        assert judge(heard) == judge(Hearing.model_validate_json(heard.model_dump_json()))


def test_one_missing_time_means_no_score_at_all() -> None:
    cases = list(h.hearing().candidate.cases)
    cases[2] = h.result(h.SMALL_FORWARD, h.FASTER, None)
    verdict = judge(h.changed(h.hearing(), cases=tuple(cases)))
    assert verdict.decision is Decision.REJECTED and verdict.score is None
    assert verdict.reason == f"no score: the variant was not timed against v0 at {h.SMALL_FORWARD}"


def test_a_machine_nobody_has_a_datasheet_of_is_said_to_be_one() -> None:
    strange = h.H200.model_copy(update={"evidence": Evidence.STATIC, "arch": "sm_61"})
    baseline = h.measurement(h.V0, 100.0).model_copy(update={"runner": strange})
    verdict = judge(h.changed(h.hearing(baseline=baseline), runner=strange))
    assert verdict.decision is Decision.REJECTED
    assert "no datasheet for 'sm_61'" in verdict.reason


@pytest.mark.parametrize(("before", "after"), [(1.7e308, 5e-324), (1.7e308, 1e300), (1e100, 1e-300)])
def test_times_beyond_reason_are_an_answer_and_not_a_crash(before: float, after: float) -> None:
    verdict = judge(h.hearing({h.BIG_FORWARD: after}, baseline=h.measurement(h.V0, before)))
    assert verdict.decision is Decision.REJECTED and verdict.score is None
    assert verdict.reason == "no score: a number is too large or too small to be one"


def test_what_is_said_can_be_written_to_a_file() -> None:
    """A lone surrogate is a legal constant in Python and no character in UTF-8."""
    verdict = judge(h.hearing(text=h.FASTER + "\ngetattr(torch, '__\\ud800__')\n"))
    assert "it looks up '__\\ud800__'" in verdict.reason
    assert verdict.reason.encode()


def test_a_scope_that_the_suite_knows_nothing_of_gives_no_verdict() -> None:
    suite = h.SUITE.model_copy(update={"cases": h.CASES[:1]})
    only = {"cases": h.hearing().candidate.cases[:1]}
    baseline = h.measurement(h.V0, 100.0).model_copy(update=only)
    verdict = judge(h.changed(h.hearing(suite=suite, baseline=baseline, scope=Scope.BACKWARD), **only))
    assert verdict.decision is Decision.REJECTED
    assert verdict.reason == "no score: the suite has no case for the scope backward"


def test_the_tables_are_what_the_package_offers() -> None:
    assert list(guardrails.BEFORE_TIMING)[:2] == ["scope", "honesty"]
    assert list(guardrails.AFTER_TIMING)[-1] == "gain"


def test_what_the_text_condemns_is_not_asked_what_it_did() -> None:
    """It was never run, so that nothing is known of it."""
    sly = ONLY["honesty"]
    unrun = h.changed(sly, checks=(), cases=())
    assert judge(unrun).findings == judge(sly).findings
    assert prescreen(unrun) == list(judge(sly).findings)
    assert prescreen(h.hearing()) == []


def test_without_the_filter_what_it_did_decides() -> None:
    assert judge(ONLY["honesty"], static=False).decision.is_accepted
    assert judge(ONLY["correctness"], static=False).decision is Decision.REJECTED
