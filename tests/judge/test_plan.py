"""Which passes are run, with which constants, and what they must move at least."""

from __future__ import annotations

import pytest

from bot.judge.plan import KINDS, NOT_BF16, minimum_bytes, plan, probes_of
from bot.judge.recipes import RECIPES
from bot.worker.contract import Shape

KIB = 1024


def shape(direction: str, rows: int, cols: int, dtype: str = "float32") -> Shape:
    sizes = (("rows", rows), ("cols", cols))
    return Shape(f"{direction}-{rows}x{cols}-{dtype}", direction, sizes, dtype)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kernel", "direction", "tensors"),
    [
        ("softmax", "forward", 2),
        ("softmax", "backward", 3),
        ("softmax", "full", 5),
        ("geglu", "forward", 3),
        ("geglu", "backward", 5),
        ("jsd", "forward", 3),
        ("jsd", "backward", 2),
    ],
)
def test_the_minimum_is_each_tensor_once(kernel: str, direction: str, tensors: int) -> None:
    found = minimum_bytes(RECIPES[kernel], shape(direction, 1024, 1024, "bfloat16"))
    assert found == pytest.approx(tensors * 1024 * 1024 * 2, abs=8)


def test_a_weight_counts_with_its_own_size() -> None:
    forward = minimum_bytes(RECIPES["rms_norm"], shape("forward", 64, 128))
    assert forward == 2 * 64 * 128 * 4 + 128 * 4
    backward = minimum_bytes(RECIPES["rms_norm"], shape("backward", 64, 128))
    assert backward == 3 * 64 * 128 * 4 + 2 * 128 * 4


def test_scored_cases_use_what_callers_use_and_checks_do_not() -> None:
    planned, probes = plan(RECIPES["rms_norm"], (shape("forward", 8, 64),), (shape("forward", 8, 64),), seed=1)
    stock = {argument.name: argument.value for argument in planned.cases[0].call.arguments if argument.tensor is None}
    assert stock == {"eps": 1e-6, "offset": 0.0, "casting_mode": "llama", "in_place": True, "row_mode": None}
    for probe in probes:
        assert probe.constants["eps"] != 1e-6


def test_arguments_come_in_the_order_of_the_op() -> None:
    planned, _ = plan(RECIPES["jsd"], (shape("full", 8, 64),), (), seed=1)
    call = planned.cases[0].call
    assert [a.name for a in call.arguments] == ["_input", "target", "shift_labels", "beta", "ignore_index"]
    assert [a.name for a in call.arguments if a.tensor is not None] == ["_input", "target"]
    assert [grad.name for grad in call.grads] == ["dloss"]
    assert call.grads[0].shape == ()


def test_bfloat16_is_not_judged_and_says_so() -> None:
    planned, probes = plan(RECIPES["softmax"], (), (shape("forward", 2, 8, "bfloat16"), shape("forward", 2, 8)), seed=1)
    assert planned.skipped == (("forward-2x8-bfloat16", NOT_BF16),)
    assert {probe.shape.dtype for probe in probes} == {"float32"}


def test_every_check_is_run_and_its_first_probe_twice() -> None:
    checks = tuple(shape(direction, rows, 16) for direction in ("forward", "backward") for rows in (1, 5, 9))
    probes = probes_of(RECIPES["softmax"], checks, seed=1)
    for check in checks:
        turns = [probe.call.turns for probe in probes if probe.shape is check]
        assert turns[0] == 2
        assert set(turns[1:]) <= {1}


def test_small_checks_meet_all_kinds_and_all_modes() -> None:
    recipe = RECIPES["rms_norm"]
    checks = tuple(shape("backward", rows, 16) for rows in (1, 2, 3, 4, 5, 6))
    probes = probes_of(recipe, checks, seed=1)
    assert {probe.kind for probe in probes} == set(KINDS)
    seen = {(p.constants["casting_mode"], p.constants["in_place"], "W" in p.constants) for p in probes}
    assert len(seen) == len(recipe.modes)


def test_many_rows_get_one_set_of_values_each() -> None:
    probes = probes_of(RECIPES["softmax"], (shape("forward", 500, 16), shape("forward", 500, 32)), seed=1)
    assert len(probes) == 2


def test_the_seed_decides_everything() -> None:
    checks = (shape("forward", 3, 16),)
    assert probes_of(RECIPES["jsd"], checks, seed=7) == probes_of(RECIPES["jsd"], checks, seed=7)
    assert probes_of(RECIPES["jsd"], checks, seed=7) != probes_of(RECIPES["jsd"], checks, seed=8)


def test_a_case_without_the_sizes_of_the_recipe_is_refused() -> None:
    lacking = Shape("odd", "forward", (("tokens", 4),), "float32")
    with pytest.raises(ValueError, match="case odd has no size 'rows', only tokens"):
        plan(RECIPES["softmax"], (lacking,), (), seed=1)
