"""A kernel that tunes itself: what changes it does not race, since it would have to be tuned as well."""

from __future__ import annotations

import dataclasses

from bot.model.variant import SourceFile
from bot.model.verdict import Decision
from bot.proposers import engine
from bot.proposers.brief import Brief
from tests.engine.described import TEXT
from tests.engine.test_divide_once import SOFTMAX
from tests.engine.test_sum_behind_loop import ROWS
from tests.proposers.scene import PATH, after
from tests.proposers.test_promise import racer, told

BACKWARD = ROWS[ROWS.index("@triton.jit") :].replace("_k(", "_rms_norm_backward_kernel(").replace("def run", "def more")
FORWARD = SOFTMAX.replace("def _k(", "def _rms_norm_forward_kernel(").replace("_k[", "_rms_norm_forward_kernel[")
CONFIGS = '@triton.autotune(configs=[triton.Config({"BLOCK_SIZE": n}) for n in (32, 64)], key=["n_cols"])\n'
OF_FORWARD = {"divide_once", "base_two", "fewer_instructions"}
OF_BACKWARD = {"pipeline_rows", "sum_behind_loop"}


def two_kernels(*, tuned: bool, **fields: object) -> Brief:
    text = f"{FORWARD}\n\n{CONFIGS if tuned else ''}{BACKWARD.replace('_k[', '_rms_norm_backward_kernel[')}"
    files = (SourceFile(path=PATH.format("rms_norm"), text=text),)
    return dataclasses.replace(told(has_opening_ahead=True, **fields), original=files, sources=files)


def techniques(ideas: tuple[object, ...]) -> set[str]:
    return {idea.hypothesis.technique for idea in ideas}  # type: ignore[attr-defined]


def test_a_brief_names_the_kernels_that_tune_themselves() -> None:
    assert two_kernels(tuned=False).tuned == frozenset()
    assert two_kernels(tuned=True).tuned == {"_rms_norm_backward_kernel"}


def test_there_is_no_opening_where_some_ideas_could_not_race_with_the_others() -> None:
    assert techniques(engine.openers(two_kernels(tuned=False))) >= {*OF_FORWARD, "sum_behind_loop"}
    assert engine.openers(two_kernels(tuned=True)) == ()


def test_beside_launch_numbers_the_others_race() -> None:
    assert techniques(engine.leftovers(two_kernels(tuned=False), ())) >= {*OF_FORWARD, "sum_behind_loop"}
    beside = techniques(engine.leftovers(two_kernels(tuned=True), ()))
    assert beside >= OF_FORWARD and not beside & OF_BACKWARD


def test_what_could_not_race_has_a_round_without() -> None:
    slow = told(*(racer(idea, 0.9, 0.9) for idea in OF_FORWARD)).opening
    known, tried = dataclasses.replace(two_kernels(tuned=True), opening=slow), list[str]()
    while (idea := engine.propose(known)) is not None:
        tried.append(idea.hypothesis.technique)
        known = after(known, idea, Decision.REJECTED)
    assert set(tried) >= OF_BACKWARD and not set(tried) & OF_FORWARD


def tried_of(text: str, *beside: str, relied_on: tuple[str, ...] = ()) -> set[str]:
    """What has a round of a product that tunes itself, with other files of the op."""
    texts = (text.replace("_product_kernel", "_rms_norm_backward_kernel"), *beside)
    files = tuple(SourceFile(path=PATH.format(f"rms_norm{at or ''}"), text=one) for at, one in enumerate(texts))
    site = told().site.model_copy(update={"relied_on": relied_on})
    known, tried = dataclasses.replace(told(), original=files, sources=files, site=site), set[str]()
    while (idea := engine.propose(known)) is not None:
        tried.add(idea.hypothesis.technique)
        known = after(known, idea, Decision.REJECTED)
    return tried


def test_longer_lists_are_for_a_kernel_that_nobody_else_knows() -> None:
    assert "longer_lists" in tried_of(TEXT)
    assert "longer_lists" in tried_of(TEXT, "from .rms_norm import product\n")
    assert "longer_lists" not in tried_of(TEXT, "from .rms_norm import _rms_norm_backward_kernel\n")
    assert "longer_lists" not in tried_of(TEXT, relied_on=("_rms_norm_backward_kernel",))
