"""Every cheat is refused for a reason it declares. None of it needs a GPU; what does is heard by `make gpu-test`."""

from __future__ import annotations

from collections import Counter

import pytest

from bot.bench.suite_files import Exhibit
from bot.bench.suite_run import Outcome, Steps
from bot.guardrails import AFTER_TIMING
from tests.suites import share
from tests.suites.rooms import (
    BY_TEXT,
    CHEATS,
    CHECKS_ALONE,
    EVERYTHING,
    NUMBER,
    OPS,
    Courts,
    complaint,
    exhibits,
    holes,
    name_of,
)

KNOWN = (*share.SHOWN, "InterpreterError: ")
"""What the judge says. One that is wrong may raise as well, before it is compared."""


def test_there_are_enough_of_them() -> None:
    on_cpu, everywhere = (
        exhibits(CHEATS),
        exhibits(CHEATS) + [e for e in exhibits(CHEATS, tier="gpu") if e.tier == "gpu"],
    )
    assert len(on_cpu) - len(holes()) >= 80
    assert len(everywhere) >= 110
    assert all(exhibit.reasons for exhibit in everywhere)
    numbered = Counter(found[1] for exhibit in everywhere if (found := NUMBER.match(exhibit.path.stem)))
    assert len(numbered) >= 48
    assert max(numbered.values()) <= 3
    assert sum(exhibit.path.stem.startswith("blind_") for exhibit in everywhere) >= 15


def test_most_of_them_have_nothing_in_their_text_to_be_refused_for() -> None:
    """The filter is not the defence: what these do has to be enough."""
    unseen = [exhibit for exhibit in exhibits(CHEATS) if not set(exhibit.reasons) & BY_TEXT]
    assert len(unseen) >= 40


def test_what_is_not_found_out_is_named_with_a_reason() -> None:
    known = {name_of(exhibit) for exhibit in exhibits(CHEATS)}
    assert set(holes()) <= known
    assert all(len(why) > 30 for why in holes().values())


def _heard(courts: Courts, exhibit: Exhibit) -> Outcome:
    """Two shapes are enough to find most of them out; few have to be timed."""
    steps = EVERYTHING if set(exhibit.reasons) <= set(AFTER_TIMING) else CHECKS_ALONE
    outcome = courts.of(exhibit.op, "quick").hear(exhibit, steps)
    return outcome if outcome.match else courts.of(exhibit.op, "full").hear(exhibit, steps)


def test_the_share_of_make_test_meets_every_reason_and_is_no_empty_one() -> None:
    heard = [exhibit for op in OPS for exhibit in share.cheats(op)]
    names = {name_of(exhibit) for exhibit in heard}
    assert {name for shown in share.SHOWN.values() for name in shown} <= names, "a file of the table is not there"
    assert len(heard) >= len(exhibits(CHEATS)) * 0.4
    run = [exhibit for exhibit in heard if not share.given_away(exhibit)]
    assert {exhibit.op for exhibit in run} == set(OPS)
    reasons = {reason for exhibit in exhibits(CHEATS) for reason in exhibit.reasons} - set(AFTER_TIMING)
    assert reasons <= {reason for exhibit in heard for reason in exhibit.reasons}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("op", OPS)
def test_the_share_of_make_test_is_refused_and_each_detector_speaks(op: str, courts: Courts) -> None:
    silent = []
    for exhibit in share.cheats(op):
        outcome = _heard(courts, exhibit)
        assert outcome.match, complaint(outcome)
        silent += [complaint(outcome)] if share.told(name_of(exhibit)) not in outcome.evidence else []
    assert silent == []


@pytest.mark.timeout(600)
@pytest.mark.parametrize("op", share.MANNERS)
def test_who_keeps_something_from_call_to_call_is_found_out_by_what_it_does(op: str, courts: Courts) -> None:
    for stem, words in share.MANNERS[op].items():
        (exhibit,) = (one for one in exhibits(CHEATS, op) if one.path.stem == stem)
        outcome = courts.of(op, "quick").hear(exhibit, Steps(static=False, timing=False))
        assert (outcome.verdict, outcome.reasons) == ("REJECTED", ("correctness",)), complaint(outcome)
        assert words in outcome.evidence


@pytest.mark.judge
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("op", OPS)
def test_cheats_are_refused_for_the_reason_they_declare(op: str, courts: Courts) -> None:
    heard = {name_of(exhibit): _heard(courts, exhibit) for exhibit in exhibits(CHEATS, op)}
    missed = {name for name, outcome in heard.items() if not outcome.match}
    assert not [complaint(heard[name]) for name in sorted(missed - set(holes()))]
    ran = [outcome for outcome in heard.values() if set(outcome.reasons) & {"fault", "correctness"}]
    unknown = [complaint(outcome) for outcome in ran if not any(words in outcome.evidence for words in KNOWN)]
    assert unknown == [], "found out in a way that no file of the share shows: see share.SHOWN"
    assert {name for name in holes() if name.startswith(f"{op}/")} <= missed, "a hole is mended: take it off the list"


@pytest.mark.full
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("op", OPS)
def test_the_judge_needs_no_filter(op: str, fresh_courts: Courts) -> None:
    """The same without a look at the text, for those whose text is not their crime."""
    asked = [exhibit for exhibit in exhibits(CHEATS, op) if set(exhibit.reasons) - BY_TEXT]
    told = fresh_courts.of(op, "full").hear_all(asked, Steps(static=False), 2)
    heard = {name_of(exhibit): outcome for exhibit, outcome in zip(asked, told, strict=True)}
    missed = sorted(name for name, outcome in heard.items() if not outcome.match and name not in holes())
    assert not [complaint(heard[name]) for name in missed], f"seed {fresh_courts.seed}"
