"""Ideas that promise too little one by one may have a round together, once a race said that it is worth one."""

from __future__ import annotations

import pytest

from bot.analysis import strategies
from bot.engine import rewriting
from bot.engine.transforms import TRANSFORMS
from bot.engine.transforms.rewrite import Rewrite
from bot.model.commands import Goal
from bot.model.verdict import Decision
from bot.proposers import combined, engine
from bot.proposers.brief import Brief
from tests.engine.library import sample
from tests.engine.test_pairs_at_once import NAMED
from tests.proposers.scene import after
from tests.proposers.test_promise import race, racer, told

WHOLE, PARTS = "fewer_instructions", ("divide_once", "base_two")
SLOW = (0.9, 0.9)
KERNELS = ("_geglu_forward_kernel", "_geglu_backward_kernel")
OTHERS = ("walk_rows", "rows_at_once")


def softmax(*racers: tuple[str, float], **fields: object) -> Brief:
    """What the forward pass promised, and of everything else that it is slower."""
    laps = [racer(idea, forward, 1.0) for idea, forward in racers]
    missing = [idea for idea in (*OTHERS, *PARTS, WHOLE) if idea not in dict(racers)]
    return told(*laps, *(racer(idea, *SLOW) for idea in missing), kernel="softmax", **fields)


def next_of(known: Brief) -> str:
    idea = engine.propose(known)
    return idea.hypothesis.technique if idea is not None else ""


def test_every_part_is_a_rewrite_and_the_whole_has_a_forecast() -> None:
    for whole, parts in strategies.TOGETHER.items():
        assert whole in engine.FORECASTS and whole not in TRANSFORMS and set(parts) <= set(TRANSFORMS)


def test_one_is_made_on_top_of_the_other_and_it_says_what_each_does() -> None:
    found, text = combined.of_file(WHOLE, sample("softmax")), sample("softmax")
    parts = [rewriting.of_file(part, text) for part in PARTS]
    assert found is not None and all(parts)
    assert "tl.math.exp2(" in found.text and "* (1.0 / " in found.text
    assert found.title == "Divide once a row, and take exponentials to the base of two"
    assert all(part is not None and part.why in found.why and part.seen in found.seen for part in parts)


@pytest.mark.parametrize("kernel", ["rms_norm", "geglu"])
def test_where_there_are_no_two_there_is_no_whole(kernel: str) -> None:
    assert combined.of_file(WHOLE, sample(kernel)) is None
    once = rewriting.of_file("base_two", sample("softmax"))
    assert once is not None and combined.of_file(WHOLE, once.text) is None


def test_together_they_are_worth_a_round_where_no_part_is() -> None:
    """1.2 % of a pass that is half of the step is 0.6 % of it, and one percent is asked."""
    known = softmax(("divide_once", 1.012), ("base_two", 1.012), (WHOLE, 1.025))
    assert next_of(known) == WHOLE


def test_together_they_have_no_round_where_they_promise_too_little() -> None:
    assert next_of(softmax(("divide_once", 1.005), ("base_two", 1.005), (WHOLE, 1.01))) == ""


def test_the_better_promise_comes_first_and_the_whole_again_once_its_part_is_judged() -> None:
    assert next_of(softmax(("divide_once", 1.016), ("base_two", 1.001), (WHOLE, 1.03))) == WHOLE
    known = softmax(("divide_once", 1.03), ("base_two", 0.99), (WHOLE, 1.03))
    idea = engine.propose(known)
    assert idea is not None and idea.hypothesis.technique == "divide_once", "as much by itself is simpler"
    assert next_of(after(known, idea, Decision.INCONCLUSIVE)) == WHOLE
    assert next_of(after(known, idea, Decision.ACCEPTED)) != WHOLE


def test_where_the_whole_is_refused_each_may_still_be_right() -> None:
    """An exponential may cost the last digit that a quotient keeps."""
    known = softmax(("divide_once", 1.02), ("base_two", 1.03), (WHOLE, 1.05))
    idea = engine.propose(known)
    assert idea is not None and idea.hypothesis.technique == WHOLE
    assert next_of(after(known, idea, Decision.REJECTED)) == "base_two"
    assert next_of(after(known, idea, Decision.ACCEPTED)) not in PARTS, "it has them"


def test_rows_are_cut_into_tiles_and_numbered_tile_by_tile() -> None:
    """swiglu gains nothing by tiles alone, and its tiles can only be put in order once there are any."""
    text = sample("geglu")
    found, tiled = combined.of_file("tiles_in_order", text), rewriting.of_file("tile_rows", text)
    assert found is not None and tiled is not None and found.kernels == tiled.kernels
    assert rewriting.of_file("last_axis_first", text) is None, "one program a row has no other axis"
    assert "(n_rows, triton.cdiv(n_cols, BLOCK_SIZE))" in found.text
    assert found.text.count("tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)") == len(found.kernels)


def test_several_heads_are_taken_in_pairs_in_one_round() -> None:
    """On an H200 llama4_rope is 1.47x as fast with several heads a program, and 3.64x once their pairs are one access:
    two rounds, of which a night with one for each kernel had the first."""
    found, several = combined.of_file("heads_in_pairs", NAMED), rewriting.of_file("heads_at_once", NAMED)
    assert found is not None and several is not None
    in_pairs = rewriting.of_file("pairs_at_once", several.text)
    assert in_pairs is not None and found.text == in_pairs.text
    assert found.title == "Several heads a program, and pairs in one access"
    assert combined.of_file("heads_in_pairs", in_pairs.text) is None


def test_a_part_that_others_rely_on_is_left_out() -> None:
    """What is known beside the text is asked of each part, as it is of one that has a round by itself."""

    def spared(name: str, text: str, only: str) -> Rewrite | None:
        return None if name == "pairs_at_once" else rewriting.of_file(name, text, only)

    assert combined.of_file("heads_in_pairs", NAMED, making=spared) is None, "one idea is no whole"


def test_all_rows_are_cut_and_the_tiles_of_one_kernel_put_in_order() -> None:
    text = sample("geglu")
    tiled, forward, backward = (rewriting.of_file("tile_rows", text), *KERNELS)
    alone = combined.of_file("tiles_in_order", text, backward)
    assert alone is not None and tiled is not None and alone.kernels == tiled.kernels
    assert alone.text == rewriting.of_file("last_axis_first", tiled.text, backward).text  # type: ignore[union-attr]
    assert alone.text != combined.of_file("tiles_in_order", text, forward).text  # type: ignore[union-attr]


def test_each_kernels_tiles_race_in_order_beside_all_of_them() -> None:
    """Where one gains by it what the other loses."""
    ideas = engine.openers(told(kernel="geglu", has_opening_ahead=True))
    racing = {idea.hypothesis.technique: idea.hypothesis.title for idea in ideas}
    assert {f"tiles_in_order:{kernel}" for kernel in KERNELS} | {"tiles_in_order", "tile_rows"} <= set(racing)
    assert all(racing[f"tiles_in_order:{kernel}"].endswith(f"in {kernel} alone") for kernel in KERNELS)


def test_the_order_of_one_kernels_tiles_has_a_round_where_it_promises_most() -> None:
    one, other = (f"tiles_in_order:{kernel}" for kernel in KERNELS)
    laps = {"tile_rows": 1.27, "tiles_in_order": 1.29, one: 1.26, other: 1.31}
    known = told(*(racer(idea, 1.0, gain) for idea, gain in laps.items()), kernel="geglu")
    idea = engine.propose(known)
    assert idea is not None and idea.hypothesis.technique == other
    assert next_of(after(known, idea, Decision.REJECTED)) == "tiles_in_order"


def test_without_a_race_nobody_tries_two_at_once() -> None:
    known, tried = told(kernel="softmax"), list[str]()
    while (idea := engine.propose(known)) is not None:
        tried.append(idea.hypothesis.technique)
        known = after(known, idea, Decision.REJECTED)
    assert set(PARTS) <= set(tried) and WHOLE not in tried


def test_they_race_as_one_beside_each_of_them() -> None:
    racing = [idea.hypothesis.technique for idea in engine.openers(told(kernel="softmax", has_opening_ahead=True))]
    assert {*PARTS, WHOLE} <= set(racing)


def test_what_the_incumbents_own_race_says_counts() -> None:
    """In the opening, beside another kernel, they promised nothing."""
    later = race(*(racer(idea, *SLOW) for idea in OTHERS), *(racer(idea, 1.01, 1.0) for idea in PARTS))
    together = later.model_copy(update={"racers": (*later.racers, racer(WHOLE, 1.03, 1.0))})
    assert next_of(softmax(race=together, has_race_ahead=False, goal=Goal.SPEED)) == WHOLE
