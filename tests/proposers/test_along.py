"""What an idea brings along is part of its files and of what its hypothesis says."""

from __future__ import annotations

from bot.engine import launch_numbers
from bot.engine.transforms import sum_in_float32
from bot.model.variant import Hypothesis, Proposal, SourceFile
from bot.model.verdict import Decision
from bot.proposers import along, engine
from bot.proposers.brief import Brief
from tests.engine.test_sum_in_float32 import HALF
from tests.proposers.scene import FWD, PATH, after, brief

FILE = PATH.format("rms_norm")


def idea(text: str) -> Proposal:
    hypothesis = Hypothesis(title="t", why="As said.", expected="much", technique="numbers", references=("v1",))
    return Proposal(files=(SourceFile(path=FILE, text=text),), hypothesis=hypothesis, proposer="engine")


def told() -> Brief:
    return brief(sources=(SourceFile(path=FILE, text=HALF),))


def with_warps(text: str, *kernels: str) -> str:
    for kernel in kernels:
        text = launch_numbers.with_other_warps(text, kernel, more=True, why="w")
    return text


def test_the_files_and_the_reason_grow_and_all_else_stays() -> None:
    before = idea(with_warps(HALF, "_backward"))
    found = along.whole(told(), before)
    assert found.files[0].text.count(sum_in_float32.WHY) == 2
    assert found.hypothesis.why.startswith("As said. _forward and _backward add up in the type of their rows, where")
    assert found.hypothesis.model_copy(update={"why": "As said."}) == before.hypothesis
    assert found.proposer == before.proposer


def test_what_only_backward_passes_launch_changes_alone() -> None:
    known = brief()
    assert known.backward_only == {"_rms_norm_backward_kernel"}
    text = HALF.replace("_forward", "_rms_norm_forward_kernel").replace("_backward", "_rms_norm_backward_kernel")
    told = brief(sources=(SourceFile(path=FILE, text=text),))
    for kernel, many in {"_rms_norm_backward_kernel": 1, "_rms_norm_forward_kernel": 2}.items():
        found = along.whole(told, idea(with_warps(text, kernel)))
        assert found.files[0].text.count(sum_in_float32.WHY) == many


def test_where_no_forward_pass_was_seen_nothing_is_the_backward_s_alone() -> None:
    cases = tuple(case for case in brief().baseline.cases if case.case != FWD.id)
    assert brief(baseline=brief().baseline.model_copy(update={"cases": cases})).backward_only == frozenset()


def test_it_is_told_in_one_sentence() -> None:
    found = along.whole(told(), idea(with_warps(HALF, "_forward", "_backward")))
    assert found.hypothesis.why == (
        "As said. _forward and _backward add up in the type of their rows, where another order would show in half "
        "precision: now they do so in float32."
    )
    once = getattr(sum_in_float32.rewrite(HALF, "_forward"), "text", "")
    alone = along.whole(brief(sources=(SourceFile(path=FILE, text=once),)), idea(with_warps(once, "_backward")))
    assert alone.hypothesis.why == (
        "As said. _backward adds up in the type of its rows, where another order would show in half precision: now it "
        "does so in float32."
    )


def test_an_idea_that_brings_nothing_along_is_the_idea_itself() -> None:
    host = idea(HALF.replace("torch.zeros_like", "torch.empty_like"))
    assert along.whole(told(), host) is host
    ours = along.whole(told(), idea(with_warps(HALF, "_backward")))
    again = idea(with_warps(ours.files[0].text, "_backward"))
    assert along.whole(brief(sources=ours.files), again) is again


def test_the_engine_hands_back_whole_ideas_and_none_of_them_twice() -> None:
    """Also the one that only differs from a judged one by what it would have brought along."""
    text = HALF.replace("_forward", "_rms_norm_forward_kernel").replace("_backward", "_rms_norm_backward_kernel")
    source = (SourceFile(path=FILE, text=text),)
    first = brief(original=source, sources=source)
    found = engine.propose(first)
    assert found is not None and found.hypothesis.technique == engine.SWEEP
    assert found.files[0].text.count(sum_in_float32.WHY) == 2
    assert found.hypothesis.why.endswith("now they do so in float32.")
    second = engine.propose(after(first, found, Decision.REJECTED))
    assert second is None or second.files != found.files


TWO_OPS = HALF.replace("_forward", "_rms_norm_forward_kernel").replace("_backward", "_other_kernel")


def test_another_op_of_the_file_stays_as_it_is_and_is_not_spoken_of() -> None:
    """rms_norm's kernels are launched; the other's add up in their rows' type as well, and are another campaign's."""
    told = brief(sources=(SourceFile(path=FILE, text=TWO_OPS),))
    both = idea(with_warps(TWO_OPS, "_rms_norm_forward_kernel", "_other_kernel"))
    found = along.whole(told, both)
    alone = getattr(sum_in_float32.rewrite(TWO_OPS, "_rms_norm_forward_kernel"), "text", "")
    assert found.files[0].text == with_warps(alone, "_rms_norm_forward_kernel")
    assert found.hypothesis.why.startswith("As said. _rms_norm_forward_kernel adds up in the type of its rows, where")


def test_an_idea_about_another_op_alone_is_nothing_new() -> None:
    told = brief(sources=(SourceFile(path=FILE, text=TWO_OPS),))
    assert along.whole(told, idea(with_warps(TWO_OPS, "_other_kernel"))).files == told.sources
