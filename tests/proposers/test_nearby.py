"""The numbers that accepted rewrites brought along race at their neighbours; who does well has a round with the others
that do."""

from __future__ import annotations

import dataclasses
import re

import pytest

from bot.engine import nearby as numbers
from bot.engine import rewriting
from bot.model.race import NEARBY_TECHNIQUE, Lap, Race, Racer
from bot.model.verdict import Decision
from bot.proposers import engine, nearby
from bot.proposers.brief import Brief
from bot.zones.intake import OUR_IDEAS
from tests.proposers.scene import BWD, FWD, after, baseline
from tests.proposers.test_promise import MEMORY, racer, told

STAGES, FORWARD = "2 in place of 3 for row_stages", "16 in place of 8 for block_row"
"""A number of the backward, and one of the forward."""


def rewritten() -> Brief:
    """After three rewrites of the backward were accepted, and one of the forward."""
    known = told()
    for name in ("pipeline_rows", "block_rows", "more_programs", "more_programs"):
        idea = engine._one(known, name)
        assert idea is not None
        known = after(known, idea, Decision.ACCEPTED)
    short = rewriting.of_file("rows_at_once", known.sources[0].text)
    assert short is not None
    forward = idea.model_copy(update={"files": known.with_text(known.sources[0].path, short.text)})
    known = after(known, forward, Decision.ACCEPTED)
    return dataclasses.replace(known, has_race_ahead=False)


def words(said: str) -> str:
    """Without the line, and without what a title begins with."""
    return re.sub(r" \(line \d+\)", "", said).removeprefix("Numbers nearby: ")


def lapped(idea: str, case: str, gain: float, *, left: str = "") -> Racer:
    lap = Lap(case=case, speedup=gain, low=gain, high=gain, blocks=12, peak_bytes=MEMORY)
    return Racer(idea=idea, laps=() if left else (lap,), left=left)


def raced(known: Brief, **gains: float) -> Brief:
    """By what each says, what it gained in the case that it ran in."""
    by_words = {words(near.found.says): near for near in nearby.around(known)}
    racers = [
        lapped(by_words[words].technique, nearby.cases_of(known, by_words[words])[0], gain)
        for words, gain in gains.items()
    ]
    itself = racer("", 1.0, 1.0, peak_bytes=MEMORY)
    return dataclasses.replace(known, race=Race(of=known.incumbent, racers=(itself, *racers)))


def test_they_race_in_the_cases_that_launch_their_kernels() -> None:
    known = rewritten()
    found = list(engine.near(known))
    by_case = {
        case.id: [words(idea.hypothesis.title) for idea, cases in found if cases == (case.id,)] for case in (FWD, BWD)
    }
    assert sum(map(len, by_case.values())) == len(found)
    assert FORWARD in by_case[FWD.id] and {STAGES, "4 in place of 3 for row_stages"} <= {*by_case[BWD.id]}
    names = [idea.hypothesis.technique for idea, _ in found]
    assert len(set(names)) == len(names) <= numbers.MOST
    assert all(name.partition(":")[0] == NEARBY_TECHNIQUE in OUR_IDEAS for name in names)
    assert all(Racer(idea=name) for name in names), "what a journal takes for a name"


def test_they_race_in_no_case_whose_launches_are_given_something_else() -> None:
    """The sample's rows of 4,096 columns are read one a turn: what four or two a turn would be nobody sees."""
    known = rewritten()
    facts = known.facts
    cases = tuple(
        case.model_copy(
            update={
                "launches": tuple(
                    one.model_copy(update={"constants": (*one.constants, ("BLOCK_ROW", "2"), ("ROW_STAGES", "x"))})
                    for one in case.launches
                )
            }
        )
        for case in facts.cases
    )
    known = dataclasses.replace(known, facts=facts.model_copy(update={"cases": cases}))
    titles = [words(idea.hypothesis.title) for idea, cases in engine.near(known) if cases == (BWD.id,)]
    assert "1 in place of 2 for block_row" in titles and "8192 in place of 16384 for the bound of block_row" in titles
    assert "4 in place of 1 for block_row" not in titles and "2 in place of 4 for block_row" not in titles
    assert STAGES in titles, "what is no number says nothing"


def test_nothing_races_where_no_rewrite_was_accepted_or_no_gpu_measures() -> None:
    assert nearby.around(told()) == ()
    known = rewritten()
    static = dataclasses.replace(
        known, baseline=told().baseline.model_copy(update={"runner": baseline("rms_norm").runner})
    )
    assert nearby.around(static) == ()


def test_no_other_sources_than_those_of_the_incumbent_are_asked() -> None:
    known = rewritten()
    unheard = dataclasses.replace(known, sources=known.original)
    assert nearby.around(unheard) == ()


def test_the_best_of_each_kernel_have_one_round() -> None:
    known = raced(
        rewritten(),
        **{
            "4 in place of 3 for row_stages": 1.03,
            "4096 in place of 8192 for the bound of block_row": 1.04,
            STAGES: 1.05,
            FORWARD: 1.02,
            "2 in place of 4 for n_programs": 0.9,
        },
    )
    idea = engine.propose(known)
    assert idea is not None
    said = idea.hypothesis
    assert said.technique == f"{NEARBY_TECHNIQUE}:v5" and said.references == ("v5",)
    assert f"Now {STAGES}; {FORWARD}." in words(said.why)
    assert said.expected.startswith("1.035x over v5"), "half of a step of 1.05 and of 1.02"
    (before,), (now,) = known.sources, idea.files
    assert now.text == before.text.replace("row_stages = 3", "row_stages = 2").replace(
        "block_row = 8", "block_row = 16"
    )


def test_where_that_is_refused_the_best_of_them_has_one_alone() -> None:
    known = raced(rewritten(), **{STAGES: 1.05, FORWARD: 1.02})
    both = engine.propose(known)
    assert both is not None
    refused = after(known, both, Decision.REJECTED)
    alone = engine.propose(refused)
    assert alone is not None and words(alone.hypothesis.title) == STAGES
    assert alone.hypothesis.technique.startswith(f"{NEARBY_TECHNIQUE}:n")
    last = engine.propose(after(refused, alone, Decision.REJECTED))
    assert last is None or not last.hypothesis.technique.startswith(NEARBY_TECHNIQUE)


@pytest.mark.parametrize(("gain", "has_a_round"), [(1.0145, True), (1.0135, False)])
def test_a_round_is_for_what_may_be_accepted(gain: float, has_a_round: bool) -> None:
    """Both passes take 100 us: 1.4 % of one is 0.7 % of the step."""
    idea = engine.propose(raced(rewritten(), **{STAGES: gain}))
    assert has_a_round == (idea is not None and idea.hypothesis.technique.startswith(NEARBY_TECHNIQUE))


@pytest.mark.parametrize(("gain", "counts"), [(1.0065, True), (1.0055, False)])
def test_what_one_process_may_read_of_nothing_is_left_out(gain: float, counts: bool) -> None:
    idea = engine.propose(raced(rewritten(), **{STAGES: 1.05, FORWARD: gain}))
    assert idea is not None and ("block_row = 16" in idea.files[0].text) is counts


def test_who_left_the_race_is_not_tried() -> None:
    known = rewritten()
    technique = next(near.technique for near in nearby.around(known))
    itself = racer("", 1.0, 1.0, peak_bytes=MEMORY)
    late = Race(of=5, racers=(itself, lapped(technique, BWD.id, 1.2, left="there was no time left for it")))
    idea = engine.propose(dataclasses.replace(known, race=late))
    assert idea is None or not idea.hypothesis.technique.startswith(NEARBY_TECHNIQUE)
