"""What raced well and had no round yet is tried as one, once one of them was accepted by itself."""

from __future__ import annotations

import pytest

from bot.model.verdict import Decision
from bot.proposers import engine, gathered
from bot.proposers.brief import Brief, techniques_in
from bot.proposers.warps import ROOMIER
from tests.proposers.scene import after
from tests.proposers.test_promise import race, racer, told

FIRST, BLOCKS, PROGRAMS = "drop_zero_fill", "block_rows", "more_programs"
BOTH = f"gathered:{BLOCKS}+{PROGRAMS}"
SLOW = (0.9, 0.9)


def layer_norm(decision: Decision = Decision.ACCEPTED, **gains: float) -> Brief:
    """After the first idea had its round, which promised most. What is not named is slower."""
    promised = {FIRST: 1.2, "pipeline_rows": 0.9, BLOCKS: 1.14, PROGRAMS: 1.12, **gains}
    known = told(*(racer(name, gain, gain) for name, gain in promised.items()), kernel="layer_norm")
    idea = engine.propose(known)
    assert idea is not None and idea.hypothesis.technique == FIRST
    return after(known, idea, decision)


def judged(known: Brief, decision: Decision) -> Brief:
    """After the next idea had its round."""
    idea = engine.propose(known)
    assert idea is not None
    return after(known, idea, decision)


def next_of(known: Brief) -> str:
    idea = engine.propose(known)
    return idea.hypothesis.technique if idea is not None else ""


def test_all_others_are_one_variant_that_says_what_each_did_in_the_race() -> None:
    known = layer_norm()
    idea = engine.propose(known)
    assert idea is not None
    said = idea.hypothesis
    assert said.technique == BOTH and said.references == ("v1",)
    assert said.title == "Take several short rows a turn, and two programs on each multiprocessor"
    assert said.expected.startswith("Up to 1.28x, if none is in another's way")
    assert said.expected.endswith("block_rows 1.14x, more_programs 1.12x.")
    by_hand = known
    for name in (BLOCKS, PROGRAMS):
        one = engine._one(by_hand, name)
        assert one is not None and one.hypothesis.why in said.why
        by_hand = after(by_hand, one, Decision.ACCEPTED)
    assert by_hand.sources == idea.files, "one on top of the other"


def test_the_first_has_its_round_by_itself_and_where_it_was_not_accepted_so_has_the_next() -> None:
    """What is combined is combined later."""
    refused = layer_norm(Decision.REJECTED)
    idea = engine.propose(refused)
    assert idea is not None and idea.hypothesis.technique == BLOCKS
    assert next_of(after(refused, idea, Decision.ACCEPTED)) == PROGRAMS


def test_where_they_are_refused_as_one_each_has_its_own() -> None:
    known = layer_norm()
    refused = judged(known, Decision.REJECTED)
    idea = engine.propose(refused)
    assert idea is not None and idea.hypothesis.technique == BLOCKS
    assert next_of(after(refused, idea, Decision.REJECTED)) == PROGRAMS
    assert next_of(after(refused, idea, Decision.ACCEPTED)) == "", "one on top of the other was refused"


def test_where_they_are_accepted_none_of_them_has_another() -> None:
    known = layer_norm()
    taken = judged(known, Decision.ACCEPTED)
    assert [len(taken.rounds_with(name)) for name in (BLOCKS, PROGRAMS, BOTH, FIRST, "pipeline_rows")] == [
        1,
        1,
        1,
        1,
        0,
    ]
    assert next_of(taken) == PROGRAMS, "which may be carried further, as after a round of its own"
    again = engine.propose(taken)
    assert again is not None and next_of(after(taken, again, Decision.REJECTED)) == ""


@pytest.mark.parametrize(("gain", "due"), [(1.0069, False), (1.0071, True)])
def test_each_has_to_be_worth_a_round_by_itself(gain: float, due: bool) -> None:
    assert (next_of(layer_norm(more_programs=gain)) == BOTH) is due


def test_one_alone_is_no_company() -> None:
    assert next_of(layer_norm(block_rows=0.9)) == PROGRAMS


def test_an_idea_and_what_it_is_made_of_are_not_tried_on_top_of_each_other() -> None:
    ideas = {"tile_rows": 1.12, "divide_once": 1.14, "fewer_instructions": 1.18, "tiles_in_order": 1.2}
    laps = [racer(name, 1.0, gain) for name, gain in ideas.items()]
    known = told(*laps, racer("drop_zero_fill", 1.0, 1.16), racer("base_two", *SLOW), kernel="cross_entropy")
    first = engine.propose(known)
    assert first is not None and first.hypothesis.technique == "tiles_in_order"
    assert next_of(after(known, first, Decision.ACCEPTED)) == "gathered:fewer_instructions+drop_zero_fill"


@pytest.mark.parametrize("technique", ["try", "launch_parameters", "reduce_loss", "gathered:walk_rows+base_two"])
def test_what_was_accepted_and_did_not_race_is_no_first_of_them(technique: str) -> None:
    """The most promising one has its round by itself, whatever it is built on."""
    well = (racer(name, 1.2, 1.2) for name in (FIRST, BLOCKS, PROGRAMS))
    known = told(*well, racer("pipeline_rows", *SLOW), kernel="layer_norm")
    idea = engine.propose(known)
    assert idea is not None
    other = idea.model_copy(update={"hypothesis": idea.hypothesis.model_copy(update={"technique": technique})})
    brought = after(known, other.model_copy(update={"files": known.sources}), Decision.ACCEPTED)
    assert next_of(brought) in (FIRST, BLOCKS, PROGRAMS)


def test_without_a_race_nobody_knows_what_is_worth_it() -> None:
    known = told(kernel="layer_norm")
    idea = engine.propose(known)
    assert idea is not None
    assert not next_of(after(known, idea, Decision.ACCEPTED)).startswith("gathered")


def test_what_raced_with_more_warps_besides_stays_alone() -> None:
    known = layer_norm()
    roomier = racer(f"{BLOCKS}{ROOMIER}", 1.5, 1.5)
    assert known.opening is not None
    wider = known.opening.model_copy(update={"racers": (*known.opening.racers, roomier)})
    assert next_of(Brief(**{n: getattr(known, n) for n in Brief.__slots__} | {"opening": wider})) == BOTH


def test_the_title_of_many_names_two() -> None:
    two = ["Take several short rows a turn", "Divide once a row"]
    assert gathered.title(two) == "Take several short rows a turn, and divide once a row"
    assert gathered.title([*two, "Ask once"]) == "Take several short rows a turn, and divide once a row, and 1 more"
    assert gathered.title([*two, "Ask once", "X"]).endswith(", and divide once a row, and 2 more")


def test_techniques_in_a_round() -> None:
    assert techniques_in("block_rows") == ("block_rows",)
    assert techniques_in("tile_rows:_a_kernel") == ("tile_rows:_a_kernel",)
    assert techniques_in("gathered:block_rows+tile_rows:_a_kernel") == ("block_rows", "tile_rows:_a_kernel")
    assert techniques_in("together:v1+v2") == ("together:v1+v2",)


def test_a_race_of_the_incumbents_own_has_the_last_word() -> None:
    known = layer_norm()
    later = race(racer(BLOCKS, *SLOW), racer(PROGRAMS, 1.1, 1.1))
    fields = {n: getattr(known, n) for n in Brief.__slots__} | {"race": later, "has_race_ahead": False}
    assert next_of(Brief(**fields)) == PROGRAMS
