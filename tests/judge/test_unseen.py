"""Sizes that nobody named, for a clock: in the passes and types that are scored, other ones each time."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.judge import unseen as drawing
from bot.judge.__main__ import Desk
from bot.judge.recipes import RECIPES
from bot.judge.unseen import COUNT, unseen_cases
from bot.targets.sizes import SIZES
from bot.targets.suites import suite_of
from bot.worker.contract import Plan, PlanRequest, Shape, UnseenCase, render


def scored(kernel: str) -> tuple[Shape, ...]:
    return tuple(Shape(c.id, c.direction, c.shape, c.dtype, c.grad) for c in suite_of(kernel).cases)


def drawn(kernel: str, seed: int) -> tuple[UnseenCase, ...]:
    return unseen_cases(RECIPES[kernel], scored(kernel), seed)


@pytest.mark.parametrize("kernel", sorted(SIZES))
def test_each_pass_is_read_on_two_sizes_that_nobody_scores(kernel: str) -> None:
    cases = scored(kernel)
    for seed in range(4):
        found = drawn(kernel, seed)
        sizes = {one.shape.sizes for one in found}
        assert sizes.isdisjoint(case.sizes for case in cases)
        assert {one.shape.dtype for one in found} <= {case.dtype for case in cases}
        passes = {(one.shape.sizes, one.shape.direction, one.shape.grad) for one in found}
        assert len(passes) == len(found) == len(sizes) * len({(case.direction, case.grad) for case in cases})
        assert 1 <= len(sizes) <= COUNT
        assert all(one.call.case == one.call.id == one.shape.id for one in found)
        assert len({one.shape.id for one in found}) == len(found)


def test_they_are_a_quarter_of_what_is_read_and_more() -> None:
    shares = {kernel: len(drawn(kernel, 1)) / len({*scored(kernel), *drawn(kernel, 1)}) for kernel in SIZES}
    assert min(shares.values()) >= 0.2 and sum(shares.values()) / len(shares) >= 0.25


def test_a_loss_meets_both_of_its_gradients_on_each_size() -> None:
    """jsd's winner was 0.57x on odd rows with the one, where the other took a microsecond."""
    found = [one.shape for one in drawn("jsd", 1)]
    odd, whole = dict.fromkeys(shape.sizes for shape in found)
    for sizes in (odd, whole):
        mine = [(shape.direction, shape.grad) for shape in found if shape.sizes == sizes]
        assert mine == [("forward", "drawn"), ("backward", "drawn"), ("backward", "one")]
    assert {shape.id.endswith("-one") for shape in found if shape.grad == "one"} == {True}


def test_sizes_for_which_a_kernel_tunes_itself_are_those_of_a_scored_case() -> None:
    """fused_moe compiles and times 240 configurations for each other pair of widths, and for each other top-k."""
    kept = RECIPES["fused_moe"].tuned
    known = {tuple(size for name, size in case.sizes if name in kept) for case in scored("fused_moe")}
    found = [dict(one.shape.sizes) for seed in range(8) for one in drawn("fused_moe", seed)]
    assert {tuple(sizes[name] for name in kept) for sizes in found} <= known
    assert len({(sizes["tokens"], sizes["spread"]) for sizes in found}) > 8


def test_the_same_seed_draws_the_same_and_another_one_others() -> None:
    assert drawn("softmax", 1) == drawn("softmax", 1) != drawn("softmax", 2)
    assert unseen_cases(RECIPES["softmax"], (), 1) == ()


def test_what_is_scored_is_not_drawn_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    (first, *_), other = scored("softmax"), (("rows", 33), ("cols", 7))
    monkeypatch.setattr(drawing, "unseen_sizes", lambda *_: (first.sizes, other))
    assert {one.shape.sizes for one in drawn("softmax", 1)} == {other}


@pytest.mark.parametrize(("gpu", "count"), [("GPU-1", 4), ("", 0)])
def test_the_judge_plans_them_where_there_is_a_clock(gpu: str, count: int, tmp_path: Path) -> None:
    planned = Desk().answer(render(PlanRequest("plan", "softmax", scored("softmax"), (), 7, str(tmp_path), gpu)))
    assert isinstance(planned, Plan)
    assert len(planned.unseen) == count


def test_the_judge_knows_what_it_planned_when_it_is_to_be_played(tmp_path: Path) -> None:
    desk = Desk()
    planned = desk.answer(render(PlanRequest("plan", "softmax", scored("softmax"), (), 7, str(tmp_path), "GPU-1")))
    names = [one.call.case for one in planned.unseen]
    assert [desk._calls[name] for name in names] == [one.call for one in planned.unseen]
