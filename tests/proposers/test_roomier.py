"""A rewrite of a kernel that spills races once more with twice the warps."""

from __future__ import annotations

import pytest

from bot.model.measurement import Measurement
from bot.model.race import Racer
from bot.model.variant import SourceFile
from bot.model.verdict import Decision
from bot.proposers import engine, promise
from bot.proposers.brief import Brief
from tests.engine.test_drop_detours import DETOURS
from tests.proposers.scene import PATH, after
from tests.proposers.test_promise import racer, told
from tests.proposers.test_raced import measured

WHOLE, ROOMIER = "drop_detours", "drop_detours:more_warps"
FORWARD, BACKWARD = "drop_detours:_forward", "drop_detours:_backward"


def facts(spill_bytes: int) -> Measurement:
    """Of two kernels of which the second may spill."""
    cases = []
    for case in measured().cases:
        name = "_forward" if case.case.startswith("forward") else "_backward"
        spilled = spill_bytes if name == "_backward" else 0
        launches = [
            one.model_copy(
                update={"kernel": name, "resources": one.resources.model_copy(update={"spill_bytes": spilled})}
            )
            for one in case.launches
            if one.resources is not None
        ]
        cases.append(case.model_copy(update={"launches": tuple(launches)}))
    return measured().model_copy(update={"cases": tuple(cases)})


def detours(*racers: Racer, spill_bytes: int = 4, text: str = DETOURS, **fields: object) -> Brief:
    found, sources = facts(spill_bytes), (SourceFile(path=PATH.format("rms_norm"), text=text),)
    known = told(*racers, original=sources, sources=sources, surveys=(), **fields)
    return Brief(**{**{name: getattr(known, name) for name in Brief.__slots__}, "baseline": found, "facts": found})


def racing(known: Brief) -> list[str]:
    return [idea.hypothesis.technique for idea in engine.openers(known)]


def next_of(known: Brief) -> str:
    idea = engine.propose(known)
    return idea.hypothesis.technique if idea is not None else ""


@pytest.mark.parametrize(("spill_bytes", "races"), [(4, True), (0, False)])
def test_it_races_where_a_thread_holds_too_much_already(spill_bytes: int, races: bool) -> None:
    ideas = racing(detours(spill_bytes=spill_bytes, has_opening_ahead=True))
    assert {WHOLE, FORWARD, BACKWARD} <= set(ideas) and (ROOMIER in ideas) is races


def test_who_spills_gets_twice_the_warps_and_the_idea_says_so() -> None:
    known = detours(has_opening_ahead=True)
    ideas = {idea.hypothesis.technique: idea for idea in engine.openers(known)}
    plain, roomier = ideas[WHOLE], ideas[ROOMIER]
    added = set(roomier.files[0].text.splitlines()) - set(plain.files[0].text.splitlines())
    assert sum("num_warps=" in line for line in added) == 1 and any("Twice the warps" in line for line in added)
    assert roomier.hypothesis.title == f"{plain.hypothesis.title}, with twice the warps"
    assert roomier.hypothesis.why.endswith("_backward spilled before, so it gets twice the warps.")


def test_without_a_race_it_has_no_round() -> None:
    assert next_of(detours()) == WHOLE
    refused, tried = detours(), []
    while (idea := engine.propose(refused)) is not None:
        tried.append(idea.hypothesis.technique)
        refused = after(refused, idea, Decision.REJECTED)
    assert WHOLE in tried and ROOMIER not in tried


def test_it_comes_first_where_the_idea_alone_slows_a_case_down() -> None:
    """As on an H100: a backward pass of mHC took 2.4 times as long in the one shape in which it spilled."""
    known = detours(
        racer(WHOLE, 2.0, 0.41), racer(FORWARD, 2.0, 1.0), racer(BACKWARD, 1.0, 0.41), racer(ROOMIER, 2.0, 2.0)
    )
    assert next_of(known) == ROOMIER
    assert next_of(after(known, engine.propose(known), Decision.REJECTED)) == FORWARD  # type: ignore[arg-type]


def test_what_both_promised_together_is_no_word_once_one_kernel_has_the_idea() -> None:
    known = detours(
        racer(WHOLE, 2.0, 0.41), racer(FORWARD, 2.0, 1.0), racer(BACKWARD, 1.0, 0.41), racer(ROOMIER, 1.2, 1.2)
    )
    first = engine.propose(known)
    assert first is not None and first.hypothesis.technique == FORWARD
    accepted = after(known, first, Decision.ACCEPTED)
    assert promise.of(accepted, ROOMIER) is not None and next_of(accepted) != ROOMIER


def test_who_tunes_itself_keeps_its_own_warps() -> None:
    tuned = DETOURS.replace("@triton.jit\ndef _backward", "@triton.autotune([], key=[])\n@triton.jit\ndef _backward")
    assert tuned != DETOURS
    assert ROOMIER not in racing(detours(text=tuned, has_opening_ahead=True))
