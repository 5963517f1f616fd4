"""Wrong kernels are found out. Four of them in `make test`, forty in `make test-judge`, all in `make test-full`.

What survives stands in survivors.toml with the reason why. A hole that was mended does not stay there; one that
computes the same may also be refused, for the time that it takes with some shapes.
"""

from __future__ import annotations

import random

import pytest

from tests.mutants.field import Field, survivors
from tests.mutants.mutate import OPS, RULES, Mutant, all_mutants, mutants
from tests.suites.rooms import Courts

DRAWN, FEW = 10, 1
"""Of each op."""
SEED = 6
KILLED_AT_LEAST = 0.98


def drawn(op: str) -> list[Mutant]:
    """Ten of an op, each of another rule; the ops share out the rules, so that together they meet nearly all. Survivors
    take longest, and are asked for with all the others."""
    rng = random.Random(SEED)
    rules = list(RULES)
    rng.shuffle(rules)
    start = OPS.index(op) * len(rules) // len(OPS)
    found = []
    for rule in rules[start:] + rules[:start]:
        choice = [mutant for mutant in mutants(op) if mutant.rule == rule and mutant.id not in survivors()]
        found += [rng.choice(choice)] if choice else []
    return found[:DRAWN]


def held(courts: Courts, asked: list[Mutant], *, at_once: int) -> None:
    """Who survives is listed, and a listed hole is one."""
    listed = {mutant.id for mutant in asked} & set(survivors())
    found = Field(courts).survive(asked, at_once=at_once)
    missed = [f"{mutant.id} {mutant.what}" for mutant in asked if mutant.id in found - listed]
    mended = sorted(name for name in listed - found if survivors()[name].kind == "hole")
    assert (missed, mended) == ([], []), f"survived and not listed; a hole that is none (seed {courts.seed})"


def test_forty_are_drawn_of_nearly_every_rule() -> None:
    chosen = [mutant for op in OPS for mutant in drawn(op)]
    assert len({mutant.id for mutant in chosen}) == 40
    assert len({mutant.rule for mutant in chosen}) >= 20


def test_survivors_are_mutants_with_a_reason() -> None:
    every = {mutant.id for op in OPS for mutant in all_mutants(op) if not mutant.skipped}
    for name, survivor in survivors().items():
        assert name in every, f"{name} is no mutant (any more)"
        assert survivor.kind in ("equivalent", "hole")
        assert len(survivor.why) > 20


def test_enough_are_killed() -> None:
    """Of those that are wrong: what computes the same result within the rules is not."""
    listed = survivors()
    every = [mutant.id for op in OPS for mutant in mutants(op)]
    equivalent = [name for name in every if name in listed and listed[name].kind == "equivalent"]
    wrong = len(every) - len(equivalent)
    holes = len([name for name in every if name in listed]) - len(equivalent)
    assert len(equivalent) <= 0.1 * len(every)
    assert 1 - holes / wrong >= KILLED_AT_LEAST, f"{holes} of {wrong} are not found out"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("op", OPS)
def test_a_few_wrong_kernels_are_found_out(op: str, courts: Courts) -> None:
    held(courts, drawn(op)[:FEW], at_once=1)


@pytest.mark.judge
@pytest.mark.timeout(600)
@pytest.mark.parametrize("op", OPS)
def test_wrong_kernels_are_found_out(op: str, courts: Courts) -> None:
    held(courts, drawn(op), at_once=1)


@pytest.mark.full
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("op", OPS)
def test_every_wrong_kernel_is_found_out(op: str, fresh_courts: Courts) -> None:
    held(fresh_courts, list(mutants(op)), at_once=2)
