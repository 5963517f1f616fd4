"""Which passes are run, with which constants, and what they must move at least."""

from __future__ import annotations

import random

import pytest

from bot.judge.plan import EXTREMES, KINDS, NOT_BF16, ROWS_OF_A_TYPE, Probe, minimum_bytes, plan, probes_of
from bot.judge.recipes import RECIPES
from bot.judge.tolerance import ROWS_FOR_RMS
from bot.targets.sizes import SIZES
from bot.targets.suites import suite_of
from bot.worker.contract import Shape, TensorSpec

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


HANDED_OUT = (
    *("cross_entropy", "jsd", "tvd"),
    *("fused_linear_cross_entropy", "fused_linear_jsd", "fused_linear_kl_div"),
)
"""Losses whose forward pass makes the gradient too."""


@pytest.mark.parametrize("kernel", sorted(kernel for kernel, sizes in SIZES.items() if sizes.loss))
def test_where_the_gradient_of_a_loss_is_one_nothing_is_left_to_move_if_the_forward_pass_made_it(kernel: str) -> None:
    *_, forward, backward, one = suite_of(kernel).cases
    shapes = [Shape(case.id, case.direction, case.shape, case.dtype, case.grad) for case in (forward, backward, one)]
    of_forward, drawn, ones = (minimum_bytes(RECIPES[kernel], shape) for shape in shapes)
    assert (forward.grad, one.grad, one.shape) == ("drawn", "one", backward.shape)
    assert drawn > 0 and ones == (0 if kernel in HANDED_OUT else drawn)
    both = Shape("full", "full", forward.shape, forward.dtype, "one")
    assert minimum_bytes(RECIPES[kernel], both) == of_forward + ones


def test_only_losses_come_with_their_gradients() -> None:
    assert {kernel for kernel, recipe in RECIPES.items() if recipe.comes_ready} == set(HANDED_OUT)


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
    assert {probe.kind for probe in probes} == {*KINDS, "peaks", "huge", "strange"}
    seen = {(p.constants["casting_mode"], p.constants["in_place"], "W" in p.constants) for p in probes}
    drawn = [mode(random.Random(1)) for mode in recipe.modes]
    assert {(c["casting_mode"], c["in_place"], "W" in c) for c in drawn} <= seen


def test_forward_and_backward_of_a_shape_are_given_the_same_constants() -> None:
    """Where a kernel is compiled for them, what both launch is compiled once. Later rounds of the modes have others."""
    recipe = RECIPES["mhc_coeffs"]
    sizes = [(("batch", 1), ("length", rows), ("streams", 2), ("cols", 5)) for rows in range(1, 25)]
    checks = tuple(Shape(f"{d}-{n}", d, one, "float32") for n, one in enumerate(sizes) for d in ("forward", "backward"))
    plain = [probe for probe in probes_of(recipe, checks, seed=1) if probe.kind in KINDS]
    given = {d: [p.constants for p in plain if p.shape.direction == d] for d in ("forward", "backward")}
    assert given["forward"] == given["backward"] and len(given["forward"]) > len(KINDS) * len(recipe.modes)
    told = {tuple(sorted(one.items())) for one in given["forward"]}
    rounds = -(-len(given["forward"]) // (len(KINDS) * len(recipe.modes)))
    assert len(recipe.modes) < len(told) <= len(recipe.modes) * rounds
    other = {tuple(sorted(p.constants.items())) for p in probes_of(recipe, checks, seed=2)}
    assert not told & other, "and other draws have none of them"


def specs(kernel: str, checks: tuple[Shape, ...], name: str) -> list[TensorSpec]:
    return [spec for p in probes_of(RECIPES[kernel], checks, seed=1) for spec in p.call.tensors if spec.name == name]


def test_matrices_lie_in_memory_in_every_way_that_callers_have_them() -> None:
    checks = tuple(shape("backward", rows, 16) for rows in (2, 3, 4, 5))
    for name in ("x", "dy"):
        assert {spec.layout for spec in specs("softmax", checks, name)} == {"dense", "padded", "transposed", "sliced"}
    assert {spec.layout for spec in specs("rms_norm", checks, "W")} == {"dense"}
    assert {spec.layout for spec in specs("jsd", checks, "dloss")} == {"dense"}


def test_rows_are_stacked_where_the_op_takes_them_so() -> None:
    checks = (shape("forward", 12, 16), shape("forward", 6, 16))
    assert {spec.shape for spec in specs("softmax", checks, "x")} == {(12, 16), (6, 16), (3, 2, 16)}
    assert {spec.shape for spec in specs("jsd", checks, "_input")} == {(12, 16), (6, 16)}


def test_some_calls_leave_out_what_has_a_default_and_mean_the_default() -> None:
    checks = tuple(shape("forward", rows, 16) for rows in (2, 3, 4, 5))
    recipe = RECIPES["rms_norm"]
    brief = [p for p in probes_of(recipe, checks, seed=1) if len(p.call.arguments) == 3]
    assert brief
    for probe in brief:
        assert [a.name for a in probe.call.arguments] == ["X", "W", "eps"]
        left_out = {a.name for a in recipe.arguments} - {"X", "W", "eps"}
        assert {name: probe.constants[name] for name in left_out} == {name: recipe.stock[name] for name in left_out}
        assert probe.constants["eps"] != recipe.stock["eps"]


def of_suite(kernel: str) -> tuple[Probe, ...]:
    """What is asked without a GPU."""
    checks = [c for c in suite_of(kernel).checks if c.dtype != "bfloat16"]
    return probes_of(RECIPES[kernel], tuple(Shape(c.id, c.direction, c.shape, c.dtype) for c in checks), seed=1)


def wants_gradients(probe: Probe) -> bool:
    return any(argument.tensor.grad for argument in probe.call.arguments if argument.tensor is not None)


def test_who_wants_no_gradient_is_met_where_the_op_has_a_kernel_for_them() -> None:
    """One of mlp's that forgot gate_multiplier was right in every check: none of them launched it."""
    for kernel, wanted in (("mlp", {True, False}), ("swiglu", {True})):
        probes = of_suite(kernel)
        assert {wants_gradients(p) for p in probes if p.call.direction == "forward"} == wanted
        assert all(wants_gradients(p) for p in probes if p.call.direction != "forward")


def test_who_wants_no_gradient_meets_every_mode() -> None:
    told = [p.constants for p in of_suite("mlp") if not wants_gradients(p)]
    assert {constants["gate_multiplier"] == 1.0 for constants in told} == {True, False}


def test_a_type_that_is_rare_gets_enough_rows_to_tell_its_typical_error() -> None:
    checks = (*(shape("forward", 16, 8) for _ in range(6)), shape("forward", 16, 8, "float16"))
    probes = probes_of(RECIPES["softmax"], checks, seed=1)[: -len(EXTREMES)]
    halves = [p for p in probes if p.shape.dtype == "float16"]
    assert sum(dict(p.shape.sizes)["rows"] for p in halves) == ROWS_OF_A_TYPE == ROWS_FOR_RMS


def test_extremes_are_met_where_they_show() -> None:
    checks = (shape("forward", 3, 1000), shape("forward", 1, 5000), shape("forward", 500, 9000))
    probes = probes_of(RECIPES["softmax"], (*checks, shape("forward", 2, 3000, "float16")), seed=1)
    met = [(p.kind, p.shape.id) for p in probes[-6:]]
    assert met == [
        ("tails", checks[1].id),
        ("peaks", checks[1].id),
        ("huge", checks[0].id),
        ("strange", checks[0].id),
        ("offset", "forward-2x3000-float16"),
        ("loss_scaled", "forward-2x3000-float16"),
    ]
    assert all(p.call.turns == 1 for p in probes[-6:])


def test_hidden_rows_that_the_untouched_kernel_may_not_take_carry_no_extremes() -> None:
    """On an H200 every extreme of rms_norm went to 67,015 columns, at which v0 itself raises: nobody met them."""
    checks = (shape("forward", 3, 1000), shape("forward", 2, 3000, "float16"))
    longest = tuple(shape("forward", 3, 67015, dtype) for dtype in ("float32", "float16"))
    _, probes = plan(RECIPES["softmax"], (), checks, 1, on_gpu=True, hidden=longest)
    asked = [p for p in probes if not p.again]
    assert {p.shape for p in asked[-6:]} == set(checks)
    assert [p.kind for p in asked[-6:]] == [kind for _, _, kind in EXTREMES]
    assert set(longest) < {p.shape for p in asked}


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
