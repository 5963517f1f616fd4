"""The mathematics each recipe claims, held against PyTorch's own and against finite differences."""

from __future__ import annotations

import random

import pytest
import torch

from bot.judge.recipe import Constant
from bot.judge.recipes import RECIPES

SHAPE = (4, 6)


def tensors(*names: str) -> dict[str, torch.Tensor]:
    rng = torch.Generator().manual_seed(3)
    return {name: torch.randn(SHAPE, generator=rng, dtype=torch.float64) for name in names}


def test_softmax_is_torchs() -> None:
    found = tensors("x")
    (y,) = RECIPES["softmax"].reference(found, {})
    torch.testing.assert_close(y, torch.softmax(found["x"], -1))


def test_geglu_is_the_tanh_approximation() -> None:
    found = tensors("a", "b")
    (c,) = RECIPES["geglu"].reference(found, {})
    a = found["a"]
    inner = (2 / torch.pi) ** 0.5 * (a + 0.044715 * a**3)
    torch.testing.assert_close(c, 0.5 * a * (1 + torch.tanh(inner)) * found["b"])


@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_rms_norm_uses_eps_and_offset(offset: float) -> None:
    found = {**tensors("X"), "W": torch.linspace(0.5, 1.5, 6, dtype=torch.float64)}
    (y,) = RECIPES["rms_norm"].reference(found, {"eps": 0.25, "offset": offset})
    torch.testing.assert_close(y, torch.nn.functional.rms_norm(found["X"], (6,), found["W"] + offset, eps=0.25))


def test_rms_norm_without_a_weight_ignores_the_offset() -> None:
    found = tensors("X")
    (y,) = RECIPES["rms_norm"].reference(found, {"eps": 0.25, "offset": 7.0})
    torch.testing.assert_close(y, torch.nn.functional.rms_norm(found["X"], (6,), eps=0.25))


def test_layer_norm_is_torchs() -> None:
    found = {**tensors("X"), "W": torch.linspace(0.5, 1.5, 6).double(), "B": torch.linspace(-1, 1, 6).double()}
    (y,) = RECIPES["layer_norm"].reference(found, {"eps": 0.25})
    torch.testing.assert_close(y, torch.nn.functional.layer_norm(found["X"], (6,), found["W"], found["B"], eps=0.25))


def logs(seed: int) -> torch.Tensor:
    return torch.randn(SHAPE, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).log_softmax(-1)


def kl(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """KL(p || q) of logarithms, summed over classes and averaged over rows."""
    return torch.nn.functional.kl_div(q, p, log_target=True, reduction="batchmean")


@pytest.mark.parametrize("beta", [0.0, 0.3, 0.5, 1.0])
def test_jsd_is_the_mixture_of_two_divergences(beta: float) -> None:
    x, y = logs(1), logs(2)
    (loss,) = RECIPES["jsd"].reference({"_input": x, "target": y}, {"beta": beta, "ignore_index": -100})
    if beta == 0.0:
        expected = kl(y, x)
    elif beta == 1.0:
        expected = kl(x, y)
    else:
        m = (beta * y.exp() + (1 - beta) * x.exp()).log()
        expected = beta * kl(y, m) + (1 - beta) * kl(x, m)
    torch.testing.assert_close(loss, expected)


def test_jsd_counts_the_rows_that_are_not_ignored() -> None:
    x, y = logs(1), logs(2)
    labels = torch.tensor([5, -1, 7, -1])
    constants = {"beta": 0.5, "ignore_index": -1}
    (some,) = RECIPES["jsd"].reference({"_input": x, "target": y, "shift_labels": labels}, constants)
    (alone,) = RECIPES["jsd"].reference({"_input": x[::2], "target": y[::2]}, constants)
    torch.testing.assert_close(some, alone)


@pytest.mark.parametrize("kernel", sorted(RECIPES))
def test_every_mode_names_arguments_of_the_op_and_gives_each_constant(kernel: str) -> None:
    recipe = RECIPES[kernel]
    names = {argument.name for argument in recipe.arguments}
    constants = {a.name for a in recipe.arguments if isinstance(a, Constant) and not a.size}
    for drawn in (recipe.stock, *(mode(random.Random(1)) for mode in recipe.modes)):
        assert set(drawn) <= names
        assert constants <= set(drawn)


def test_constants_are_drawn_anew_and_are_not_the_defaults() -> None:
    draws = [RECIPES["rms_norm"].modes[0](random.Random(seed)) for seed in range(20)]
    assert len({draw["eps"] for draw in draws}) == 20
    assert all(float(draw["eps"]) > 1e-6 for draw in draws if isinstance(draw["eps"], float))
    assert len({draw["offset"] for draw in draws}) == 20


@pytest.mark.parametrize("kernel", sorted(RECIPES))
def test_traffic_names_operands_outputs_and_their_gradients(kernel: str) -> None:
    recipe = RECIPES[kernel]
    known = {operand.name for operand in recipe.operands} | {output.name for output in recipe.outputs}
    for name in (*recipe.forward_traffic, *recipe.backward_traffic):
        assert name in known or name.removeprefix("d") in known


@pytest.mark.parametrize("beta", [True, False])
def test_dyt_is_a_scaled_tanh(beta: bool) -> None:
    found = {**tensors("x"), "alpha": torch.tensor([0.7], dtype=torch.float64), "gamma": torch.linspace(0.5, 1.5, 6)}
    shift = {"beta": torch.linspace(-1, 1, 6)} if beta else {}
    (y,) = RECIPES["dyt"].reference({**found, **shift}, {})
    expected = found["gamma"] * torch.tanh(0.7 * found["x"])
    torch.testing.assert_close(y, expected + shift["beta"] if beta else expected)


TARGET = torch.tensor([2, -1, 0, 5])


def cross_entropy(changes: dict[str, object], **more: torch.Tensor) -> torch.Tensor:
    recipe = RECIPES["cross_entropy"]
    constants = {**recipe.stock, "ignore_index": -1, **changes}
    (loss,) = recipe.reference({**tensors("_input"), "target": TARGET, **more}, constants)  # type: ignore[arg-type]
    return loss


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy_is_torchs(reduction: str, smoothing: float, weighted: bool) -> None:
    weight = torch.linspace(0.5, 1.5, 6, dtype=torch.float64)
    found = cross_entropy(
        {"reduction": reduction, "label_smoothing": smoothing}, **({"weight": weight} if weighted else {})
    )
    expected = torch.nn.functional.cross_entropy(
        tensors("_input")["_input"],
        TARGET,
        weight if weighted else None,
        ignore_index=-1,
        reduction=reduction,
        label_smoothing=smoothing,
    )
    torch.testing.assert_close(found, expected)


def test_cross_entropy_caps_its_logits() -> None:
    capped = 2.0 * torch.tanh(tensors("_input")["_input"] / 2.0)
    expected = torch.nn.functional.cross_entropy(capped, TARGET, ignore_index=-1)
    torch.testing.assert_close(cross_entropy({"softcap": 2.0}), expected)


def test_cross_entropy_adds_the_square_of_the_log_of_the_sum_over_the_rows_that_count() -> None:
    lse = tensors("_input")["_input"].logsumexp(-1)[[0, 2, 3]]
    more = cross_entropy({"lse_square_scale": 0.1}) - cross_entropy({})
    torch.testing.assert_close(more, 0.1 * lse.square().mean())
    summed = cross_entropy({"lse_square_scale": 0.1, "reduction": "sum"}) - cross_entropy({"reduction": "sum"})
    torch.testing.assert_close(summed, 0.1 * lse.square().sum())


@pytest.mark.parametrize("kernel", sorted(RECIPES))
def test_arguments_that_may_be_left_out_are_at_the_end_and_have_a_value(kernel: str) -> None:
    recipe = RECIPES[kernel]
    assert recipe.optional < len(recipe.arguments)
    assert {a.name for a in recipe.arguments[len(recipe.arguments) - recipe.optional :]} <= set(recipe.stock)
