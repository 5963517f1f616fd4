"""Ideas that each gained too little have a round together once both were measured."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from bot.model.campaign import Round
from bot.model.variant import Hypothesis, SourceFile, Variant
from bot.model.verdict import Decision, Score, Verdict
from bot.proposers import engine, merged
from bot.proposers.brief import Brief
from tests.proposers.scene import brief
from tests.proposers.test_raced import measured

HEAD, TAIL = "# measured by hand\n", "\n\nMEANT = True\n"


def played(told: Brief, text: str, gain: float | None, **fields: Any) -> Brief:
    """The brief after a variant of the incumbent with this text that gained so much."""
    number = len(told.rounds) + 1
    technique = fields.get("technique", f"idea_{number}")
    hypothesis = Hypothesis(title=f"Idea {number}", why="", expected="", technique=technique)
    variant = Variant(
        number=number,
        parent=fields.get("parent", told.incumbent),
        files=(SourceFile(path=told.sources[0].path, text=text),),
        hypothesis=hypothesis,
        proposer="engine",
    )
    decision = fields.get("decision", Decision.INCONCLUSIVE)
    score = Score(evidence="measured", value=1.0 + (gain or 0.0))
    verdict = Verdict(decision=decision, score=score, gain_over_best=gain)
    return dataclasses.replace(told, rounds=(*told.rounds, Round(variant=variant, verdict=verdict)))


def scene(first: float | None, second: float | None, **fields: Any) -> Brief:
    """v1 wrote a line at the head of the incumbent and v2 one at its tail."""
    facts = measured()
    told = brief(baseline=facts, facts=facts)
    text = told.sources[0].text
    return played(played(told, HEAD + text, first, **fields), text + TAIL, second)


def test_two_that_gained_enough_together_are_one_variant_that_says_so() -> None:
    told = scene(0.004, 0.009)
    (idea,) = merged.ideas(told, "engine")
    assert idea.files[0].text == HEAD + told.sources[0].text + TAIL
    said = idea.hypothesis
    assert (said.title, said.technique) == ("Idea 2, and idea 1", "together:v1+v2")
    assert said.expected.startswith("1.3% more than the best so far,")
    assert "0.9% by v2 and 0.4% by v1" in said.expected and said.references == ("v1", "v2")


def test_it_comes_before_whatever_may_only_be_hoped_for() -> None:
    found = engine.propose(scene(0.004, 0.009))
    assert found is not None and found.hypothesis.technique == "together:v1+v2"


@pytest.mark.parametrize(("first", "due"), [(0.0059, False), (0.0061, True)])
def test_both_have_to_be_as_much_as_is_asked(first: float, due: bool) -> None:
    assert bool(list(merged.ideas(scene(first, 0.004), "engine"))) is due


@pytest.mark.parametrize(("least", "due"), [(0.0019, False), (0.002, True)])
def test_what_one_process_may_read_of_nothing_does_not_count(least: float, due: bool) -> None:
    assert bool(list(merged.ideas(scene(least, 0.0095), "engine"))) is due


@pytest.mark.parametrize(("most", "due"), [(0.0099, True), (0.01, False)])
def test_who_gained_enough_alone_has_another_reason(most: float, due: bool) -> None:
    assert bool(list(merged.ideas(scene(most, 0.005), "engine"))) is due


def test_what_somebody_brought_may_lack_a_file() -> None:
    told = scene(0.004, 0.009)
    empty = told.rounds[0].variant.model_copy(update={"files": ()})
    rounds = (told.rounds[0].model_copy(update={"variant": empty}), told.rounds[1])
    assert not list(merged.ideas(dataclasses.replace(told, rounds=rounds), "engine"))


def test_what_failed_together_is_not_tried_with_a_third() -> None:
    told = scene(0.004, 0.009)
    (idea,) = merged.ideas(told, "engine")
    failed = played(told, idea.files[0].text, None, technique=idea.hypothesis.technique, decision=Decision.REJECTED)
    middle = told.sources[0].text.replace("import torch\n", "import torch  # in the middle\n", 1)
    assert middle != told.sources[0].text
    assert not list(merged.ideas(played(failed, middle, 0.003), "engine"))
    assert list(merged.ideas(played(told, middle, 0.003), "engine"))


def test_one_alone_has_had_its_round() -> None:
    assert not list(merged.ideas(scene(0.0099, None), "engine"))
    assert not list(merged.ideas(scene(0.0099, -0.02), "engine"))


@pytest.mark.parametrize(
    "fields", [{"decision": Decision.REJECTED}, {"parent": 7}, {"technique": "together:v1+v2"}]
)  # fmt: skip
def test_only_what_was_told_to_be_nothing_and_is_of_the_incumbent_counts(fields: dict[str, Any]) -> None:
    assert not list(merged.ideas(scene(0.009, 0.009, **fields), "engine"))


def test_who_changed_the_same_lines_stays_out_and_the_others_go_together() -> None:
    told = scene(0.004, 0.009)
    third = played(told, "# measured twice\n" + told.sources[0].text, 0.006)
    (idea,) = merged.ideas(third, "engine")
    assert idea.hypothesis.technique == "together:v2+v3"
    assert idea.files[0].text == "# measured twice\n" + told.sources[0].text + TAIL


def test_after_its_round_it_is_not_tried_again() -> None:
    told = scene(0.004, 0.009)
    (idea,) = merged.ideas(told, "engine")
    since = played(told, idea.files[0].text, 0.005, technique=idea.hypothesis.technique)
    found = engine.propose(since)
    assert found is None or found.hypothesis.technique != "together:v1+v2"


def test_without_a_clock_nobody_measured_anything() -> None:
    told = scene(0.004, 0.009)
    modelled = brief().baseline
    assert not list(merged.ideas(dataclasses.replace(told, baseline=modelled), "engine"))


def test_a_function_that_others_call_keeps_its_parameters() -> None:
    told = scene(0.004, 0.009)
    text = told.sources[0].text
    name = next(line for line in text.splitlines() if line.startswith("def _")).removeprefix("def ").split("(")[0]
    site = told.site.model_copy(update={"relied_on": (name,)})
    lost = played(dataclasses.replace(told, site=site), text.replace(name, f"{name}_of_ours"), 0.0095)
    assert not list(merged.ideas(lost, "engine"))
