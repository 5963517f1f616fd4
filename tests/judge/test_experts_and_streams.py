"""Recipes of mixtures of experts and of hyper-connections: their mathematics, and the inputs that they need."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch.nn import functional

from bot.judge import scored
from bot.judge.hidden import hidden
from bot.judge.inputs import fill
from bot.judge.plan import Probe, call_of, minimum_bytes, probes_of
from bot.judge.recipes import RECIPES
from bot.targets.sizes import SIZES
from bot.targets.suites import suite_of
from bot.worker import gpu_inputs
from bot.worker.contract import Shape, TensorSpec
from bot.worker.contract.routing import routed
from bot.worker.contract.tape import Item
from bot.worker.device import PretendCuda
from tests.judge.test_arms import X, item, numbers, operation, played, tape
from tests.judge.test_more_recipes import close, drawn, result
from tests.worker.test_taping import steps, taped

MHC = ("mhc_coeffs", "mhc_post_res", "mhc_pre")


def shapes(kernel: str, *, cases: bool = False) -> tuple[Shape, ...]:
    suite = suite_of(kernel)
    return tuple(Shape(c.id, c.direction, c.shape, c.dtype) for c in (suite.cases if cases else suite.checks))


def probes(kernel: str, seed: int = 5) -> tuple[Probe, ...]:
    return probes_of(RECIPES[kernel], shapes(kernel), seed)


# -- mixtures of experts --------------------------------------------------------------------------------------------


def test_a_mixture_is_all_experts_asked_and_all_answers_but_a_few_forgotten() -> None:
    x, up, down = drawn(5, 6), drawn(4, 8, 6), drawn(4, 6, 4, seed=4)
    index, weights = torch.tensor([[0, 2], [3, 0], [2, 3], [0, 3], [3, 2]], dtype=torch.int32), drawn(5, 2, seed=5)
    tensors = {"x": x, "gate_up_proj": up, "down_proj": down, "top_k_index": index, "top_k_weights": weights}
    expected = torch.zeros(5, 6).double()
    for expert in range(4):
        asked = functional.linear(x, up[expert])
        answer = functional.linear(functional.silu(asked[:, :4]) * asked[:, 4:], down[expert])
        expected += answer * (weights * (index == expert)).sum(dim=1, keepdim=True)
    close(result("fused_moe", tensors), expected)


def test_a_check_sends_no_token_to_an_expert_twice_crowds_some_and_leaves_some_alone() -> None:
    alone, crowds = 0, 0
    for probe in probes("fused_moe"):
        index, experts = fill(RECIPES["fused_moe"], probe)["top_k_index"], dict(probe.shape.sizes)
        count = experts["each"] * experts["spread"]
        assert index.dtype is torch.int32 and int(index.min()) >= 0 and int(index.max()) < count
        assert all(len(set(row)) == experts["each"] for row in index.tolist())
        met = Counter(index.flatten().tolist())
        alone += len(met) < count
        crowds += max(met.values()) > 64 and len(met) > 1
    assert alone > 4 and crowds, "an expert with no token, and one with more than a tile of them"


def test_an_index_is_not_handed_over_with_gaps() -> None:
    for probe in probes("fused_moe"):
        (index,) = (a.tensor for a in probe.call.arguments if a.name == "top_k_index" and a.tensor)
        assert index.layout == "dense" and index.dtype == "int32"
    assert {a.tensor.layout for p in probes("fused_moe") for a in p.call.arguments if a.tensor} > {"padded"}


@pytest.mark.parametrize("size", SIZES["fused_moe"].scored)
def test_a_scored_pass_sends_every_expert_about_as_many_tokens_the_same_each_time(size: tuple[int, ...]) -> None:
    tokens, each, spread, *_ = size
    chosen = routed(tokens, each, each * spread)
    assert chosen == routed.__wrapped__(tokens, each, each * spread), "drawn anew"
    assert len(chosen) == tokens and all(len(set(row)) == each for row in chosen)
    met = Counter(expert for row in chosen for expert in row)
    assert len(met) == each * spread and max(met.values()) < 2 * min(met.values())
    assert len({-(-count // 64) for count in met.values()}) > 1, "not all as many tiles, as no router is as even"


def test_more_experts_than_there_are_cannot_be_asked() -> None:
    assert routed(2, 3, 2) in (((0, 1),) * 2, ((1, 0),) * 2, ((0, 1), (1, 0)), ((1, 0), (0, 1)))


def test_what_is_recorded_on_one_routing_fits_those_of_the_judge() -> None:
    """Other tokens, and as many for each expert: what the host decides by is the same."""
    spec, rng = TensorSpec("top_k_index", "int32", (200, 2), below=6), torch.Generator().manual_seed(1)
    with PretendCuda("cpu"):
        found = [gpu_inputs._drawn(spec, "routing") for _ in range(2)]
        found += [scored._values("routing", spec, rng) for _ in range(2)]
    assert all(index.dtype is torch.int32 for index in found)
    assert len({tuple(index.flatten().tolist()) for index in found}) == len(found)
    counts = Counter(expert for row in routed(200, 2, 6) for expert in row)
    assert all(Counter(index.flatten().tolist()) == counts for index in found)
    assert all(sorted(map(tuple, index.tolist())) == sorted(routed(200, 2, 6)) for index in found)


def test_a_projection_from_the_other_side_is_drawn_alike_wherever_it_is_drawn() -> None:
    spec, rng = TensorSpec("phi", "float32", (4000, 8)), torch.Generator().manual_seed(1)
    with PretendCuda("cpu"):
        found = gpu_inputs._drawn(spec, "turned_projection"), scored._values("turned_projection", spec, rng)
    assert all(0.95 < float(phi.double().square().sum(dim=0).mean()) < 1.05 for phi in found)


# -- hyper-connections ----------------------------------------------------------------------------------------------


def coeffs(**changes: object) -> tuple[dict[str, torch.Tensor], tuple[torch.Tensor, ...]]:
    """Three tokens of two streams of five columns."""
    tensors = {"x": drawn(1, 3, 2, 5), "phi": drawn(10, 8, seed=4), "b": drawn(8, seed=5)}
    tensors |= {name: torch.tensor(value).double() for name, value in ALPHAS.items()}
    recipe = RECIPES["mhc_coeffs"]
    return tensors, recipe.reference(tensors, {**recipe.stock, **changes})  # type: ignore[dict-item]


ALPHAS = {"alpha_pre": 0.5, "alpha_post": -1.5, "alpha_res": 0.8}


def logits(tensors: dict[str, torch.Tensor], eps: float) -> torch.Tensor:
    """Of all eight coefficients of each token."""
    mixed = functional.rms_norm(tensors["x"].reshape(3, 10), (10,), eps=eps) @ tensors["phi"]
    scale = torch.tensor([ALPHAS["alpha_pre"]] * 2 + [ALPHAS["alpha_post"]] * 2 + [ALPHAS["alpha_res"]] * 4)
    return mixed * scale.double() + tensors["b"]


def test_what_a_stream_gives_and_gets_are_sigmoids_of_a_normed_projection() -> None:
    tensors, (pre, post, _) = coeffs(rms_eps=0.25, pre_eps=0.125, post_mult=3.0)
    told = logits(tensors, 0.25)
    close(pre, torch.sigmoid(told[:, :2]).reshape(1, 3, 2) + 0.125)
    close(post, 3.0 * torch.sigmoid(told[:, 2:4]).reshape(1, 3, 2))


def test_one_step_of_balancing_makes_columns_of_a_softmax_sum_to_one() -> None:
    tensors, (_, _, res) = coeffs(tmax=1, rms_eps=0.25, sinkhorn_eps=0.125)
    rows = logits(tensors, 0.25)[:, 4:].reshape(3, 2, 2).softmax(dim=-1) + 0.125
    close(res[0], rows / (rows.sum(dim=1, keepdim=True) + 0.125))


def test_many_steps_make_it_doubly_stochastic_and_only_scale_rows_and_columns() -> None:
    tensors, (_, _, res) = coeffs(tmax=200, rms_eps=0.25, sinkhorn_eps=0.0)
    close(res.sum(dim=-1), torch.ones(1, 3, 2).double())
    close(res.sum(dim=-2), torch.ones(1, 3, 2).double())
    change = res[0].log() - logits(tensors, 0.25)[:, 4:].reshape(3, 2, 2)
    close(change[:, 0, 0] + change[:, 1, 1], change[:, 0, 1] + change[:, 1, 0])
    _, (_, _, fewer) = coeffs(tmax=2, rms_eps=0.25, sinkhorn_eps=0.0)
    close(fewer.sum(dim=-2), torch.ones(1, 3, 2).double())
    assert not torch.allclose(fewer.sum(dim=-1), torch.ones(1, 3, 2).double())


def test_a_layer_sees_a_weighted_sum_of_the_streams_and_its_result_is_shared_out() -> None:
    x, pre, post = drawn(1, 3, 2, 5), drawn(1, 3, 2, seed=4), drawn(1, 3, 2, seed=5)
    res, out = drawn(1, 3, 2, 2, seed=6), drawn(1, 3, 5, seed=7)
    close(result("mhc_pre", {"x": x, "h_pre": pre}), torch.einsum("btsc,bts->btc", x, pre))
    found = result("mhc_post_res", {"x": x, "f_out": out, "h_post": post, "h_res": res})
    for stream in range(2):
        kept = res[..., stream, 0, None] * x[:, :, 0] + res[..., stream, 1, None] * x[:, :, 1]
        close(found[:, :, stream], kept + post[..., stream, None] * out)


@pytest.mark.parametrize("kernel", MHC)
def test_hidden_streams_are_powers_of_two_and_not_all_the_same(kernel: str) -> None:
    cases, checks = shapes(kernel, cases=True), shapes(kernel)
    drawn_ = [shape for seed in range(6) for shape in hidden(RECIPES[kernel], cases, checks, seed)]
    assert {dict(shape.sizes)["streams"] for shape in drawn_} == {2, 4}


def test_a_result_that_is_always_float32_gets_such_a_gradient_and_is_counted_as_such() -> None:
    recipe = RECIPES["mhc_coeffs"]
    sizes = (("batch", 2), ("length", 3), ("streams", 4), ("cols", 8))
    half = Shape("half", "forward", sizes, "bfloat16")
    grads = call_of(recipe, half, recipe.stock, "half").grads
    assert [(g.name, g.dtype) for g in grads] == [(n, "float32") for n in ("dh_pre", "dh_post", "dh_res")]
    assert minimum_bytes(recipe, half) == 2 * (6 * 4 * 8 + 32 * 24) + 4 * 6 * (4 + 4 + 16)
    (other,) = call_of(RECIPES["mhc_pre"], half, {}, "half").grads
    assert other.dtype == "bfloat16"


def test_a_projection_that_is_multiplied_from_the_other_side_leaves_the_size_as_it_is() -> None:
    wide = next(probe for probe in probes("mhc_coeffs") if dict(probe.shape.sizes)["cols"] == 1300)
    phi = fill(RECIPES["mhc_coeffs"], wide)["phi"]
    assert phi.shape == (5200, 24) and 0.97 < float(phi.double().square().sum(dim=0).mean()) < 1.03


def test_what_torch_does_in_the_backward_pass_of_coefficients_is_played_as_torch_does_it() -> None:
    assert steps(taped(lambda x: 1.0 - x.sigmoid())) == ["aten::sigmoid", "aten::rsub.Scalar"]
    close(played(tape(operation("aten::sigmoid", item(X))), numbers())[0], numbers().sigmoid())
    step = operation("aten::rsub.Scalar", item(X), Item("float", number=1.0), Item("int", number=2))
    assert torch.equal(played(tape(step), numbers())[0], 1.0 - 2 * numbers())
