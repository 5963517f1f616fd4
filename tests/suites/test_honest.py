"""Every honest rewrite passes: nothing that is right is called a cheat, however it is written."""

from __future__ import annotations

import pytest

from tests.suites import share
from tests.suites.rooms import CHECKS_ALONE, EVERYTHING, HONEST, OPS, Courts, complaint, exhibits


def test_there_are_enough_of_them() -> None:
    found = exhibits(HONEST)
    assert len(found) >= 30
    assert all(not exhibit.reasons for exhibit in found)
    assert {exhibit.op for exhibit in found} == set(OPS)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("op", OPS)
def test_the_first_honest_rewrite_passes(op: str, courts: Courts) -> None:
    heard = list(courts.of(op, "quick").hear_all(share.honest(op), CHECKS_ALONE, 1))
    assert [complaint(outcome) for outcome in heard if not outcome.match] == []
    assert len(heard) == 1


@pytest.mark.judge
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("op", OPS)
def test_honest_rewrites_pass(op: str, courts: Courts) -> None:
    heard = list(courts.of(op, "quick").hear_all(exhibits(HONEST, op), CHECKS_ALONE, 1))
    assert not [complaint(outcome) for outcome in heard if not outcome.match]


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("op", OPS)
def test_honest_rewrites_pass_every_check(op: str, courts: Courts) -> None:
    heard = list(courts.of(op, "full").hear_all(exhibits(HONEST, op), CHECKS_ALONE, 2))
    assert not [complaint(outcome) for outcome in heard if not outcome.match]


@pytest.mark.full
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("op", OPS)
def test_honest_rewrites_pass_when_they_are_compiled_and_timed_too(op: str, fresh_courts: Courts) -> None:
    heard = list(fresh_courts.of(op, "full").hear_all(exhibits(HONEST, op), EVERYTHING, 2))
    assert not [complaint(outcome) for outcome in heard if not outcome.match], f"seed {fresh_courts.seed}"
