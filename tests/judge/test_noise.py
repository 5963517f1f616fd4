"""Rounding alone: where it moves a result far, nobody is blamed for ending up there; elsewhere everybody is."""

from __future__ import annotations

import torch

from bot.judge.inputs import fill
from bot.judge.known import known_of
from bot.judge.noise import ROUNDING, SAMPLES, Rounding, noisy
from bot.judge.oracle import floor, truth
from bot.judge.plan import Probe, probes_of
from bot.judge.recipes import RECIPES
from bot.worker.contract import Shape

CHECK = Shape("full-8x64-float32", "full", (("rows", 8), ("cols", 64)), "float32")


def probe(kernel: str, kind: str) -> Probe:
    return next(p for p in probes_of(RECIPES[kernel], (CHECK,), 3) if p.kind == kind)


def test_every_step_is_moved_by_less_than_a_rounding() -> None:
    x = torch.full((1000,), 3.0, dtype=torch.float64)
    for alike in (False, True):
        with Rounding(1, alike=alike):
            y = x * 1.0
            z = y.view(10, 100)
        moved = (y / 3.0 - 1).abs()
        assert 0 < float(moved.max()) <= ROUNDING
        assert (len(set(moved.tolist())) == 1) is alike
        assert torch.equal(z.reshape(-1), y), "looking at it from another side rounds nothing"


def test_integers_are_left_alone() -> None:
    with Rounding(1, alike=False):
        assert (torch.tensor([1, 2]) + 1).tolist() == [2, 3]


def test_samples_follow_from_the_seed_and_differ_from_each_other() -> None:
    recipe, one = RECIPES["softmax"], probe("softmax", "normal")
    filled = fill(recipe, one)
    first, again = noisy(recipe, one, filled), noisy(recipe, one, filled)
    assert len(first) == SAMPLES
    key = ("output", "0")
    assert all(torch.equal(a[key], b[key]) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0][key], first[2][key])


def test_a_calm_result_moves_by_a_few_roundings_and_a_cancelling_one_by_many() -> None:
    calm, _ = known_of(RECIPES["softmax"], probe("softmax", "normal"))
    spiky, _ = known_of(RECIPES["softmax"], probe("softmax", "spikes"))
    still, moved = (known.noise[("gradient", "x")].worst.max() for known in (calm, spiky))
    assert ROUNDING / 4 < calm.noise[("output", "0")].worst.max() < 20 * ROUNDING
    assert moved > 20 * still


def test_the_truth_itself_is_not_moved() -> None:
    recipe, one = RECIPES["rms_norm"], probe("rms_norm", "normal")
    filled = fill(recipe, one)
    known, _ = known_of(recipe, one)
    for key, value in truth(recipe, one, filled).items():
        assert torch.equal(value, known.truth[key])


def test_the_floor_follows_the_largest_input() -> None:
    assert floor({"x": torch.tensor([1.0, -50.0]), "i": torch.tensor([10**9])}) == 50.0e-10
    assert floor({"x": torch.zeros(0)}) == 0.0
