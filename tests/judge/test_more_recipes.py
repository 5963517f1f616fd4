"""The mathematics of further recipes, held against PyTorch's own or against its definition, one element at a time."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from bot.judge.recipes import RECIPES


def drawn(*shape: int, seed: int = 3) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def distribution(seed: int) -> torch.Tensor:
    return drawn(4, 6, seed=seed).softmax(dim=-1)


def close(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found, expected)


def result(kernel: str, tensors: dict[str, torch.Tensor], **changes: object) -> torch.Tensor:
    recipe = RECIPES[kernel]
    (found,) = recipe.reference(tensors, {**recipe.stock, **changes})  # type: ignore[dict-item]
    return found


def test_fused_add_rms_norm_norms_the_sum_and_hands_both_on() -> None:
    x, r, w = drawn(4, 6), drawn(4, 6, seed=4), drawn(6)
    y, s = RECIPES["fused_add_rms_norm"].reference({"X": x, "R": r, "W": w}, {"eps": 0.25, "offset": 1.0})
    close(s, x + r)
    close(y, functional.rms_norm(x + r, (6,), w + 1.0, eps=0.25))


def test_group_norm_is_torchs() -> None:
    x, w, b = drawn(2, 6, 5), drawn(6), drawn(6, seed=5)
    tensors = {"X": x, "affine_scaling_weight": w, "affine_shifting_bias": b}
    close(result("group_norm", tensors, num_groups=3, eps=0.25), functional.group_norm(x, 3, w, b, eps=0.25))


def test_poly_norm_adds_three_norms() -> None:
    x, w, b = drawn(4, 6), drawn(3), drawn()
    norms = [functional.rms_norm(x**power, (6,), eps=0.25) for power in (3, 2, 1)]
    expected = sum(weight * norm for weight, norm in zip(w, norms, strict=True)) + b
    close(result("poly_norm", {"X": x, "W": w, "B": b}, eps=0.25), expected)


def test_swiglu_scales_its_gate_and_its_result() -> None:
    a, b = drawn(4, 6), drawn(4, 6, seed=4)
    found = result("swiglu", {"a": a, "b": b}, gate_multiplier=0.5, down_multiplier=3.0)
    close(found, functional.silu(0.5 * a) * b * 3.0)


def test_relu_squared() -> None:
    x = drawn(4, 6)
    close(result("relu_squared", {"X": x}), functional.relu(x) ** 2)


@pytest.mark.parametrize("reduction", ["batchmean", "mean", "sum"])
@pytest.mark.parametrize("log_target", [False, True])
def test_kl_div_is_torchs(reduction: str, log_target: bool) -> None:
    predicted, target = distribution(1).log(), distribution(2)
    target = target.log() if log_target else target
    found = result("kl_div", {"y_pred": predicted, "y_true": target}, reduction=reduction, log_target=log_target)
    total = functional.kl_div(predicted, target, reduction="sum", log_target=log_target)
    close(found, total / {"batchmean": 4, "mean": 24, "sum": 1}[reduction])


def test_kl_div_looks_no_deeper_than_eps() -> None:
    target = torch.tensor([[0.0, 0.01, 0.99]]).double()
    found = result("kl_div", {"y_pred": torch.zeros(1, 3).double(), "y_true": target}, eps=0.1)
    close(found, (target * target.clamp(min=0.1).log()).sum())


def test_tvd_is_half_of_what_two_distributions_differ_by_over_the_rows_that_count() -> None:
    p, q = distribution(1), distribution(2)
    rows = 0.5 * (p - q).abs().sum(dim=-1)
    close(result("tvd", {"p": p, "q": q}), rows.mean())
    labels = torch.tensor([1, -1, 2, -1])
    some = {"p": p, "q": q, "shift_labels": labels}
    close(result("tvd", some, ignore_index=-1), rows[::2].mean())
    close(result("tvd", some, ignore_index=-1, reduction="mean"), rows[::2].mean() / 6)
    close(result("tvd", some, ignore_index=-1, reduction="sum"), rows[::2].sum())


def test_sparsemax_is_the_nearest_point_of_the_simplex() -> None:
    x = 2 * drawn(8, 6)
    y = result("sparsemax", {"x": x}, dim=-1)
    close(y.sum(dim=-1), torch.ones(8).double())
    assert (y >= 0).all() and (y == 0).any() and (y > 0).sum(dim=-1).max() > 1
    # Where it is above 0 it differs from x by the same amount, and where it is 0 that would take it below.
    shift = ((x - y) * (y > 0)).sum(dim=-1, keepdim=True) / (y > 0).sum(dim=-1, keepdim=True)
    close(y, (x - shift).clamp(min=0))


def test_attn_res_mixes_by_a_softmax_over_depth() -> None:
    v, query, norm = drawn(3, 4, 6), drawn(6), drawn(6, seed=5)
    keys = functional.rms_norm(v, (6,), norm, eps=0.25)
    weights = torch.einsum("nrc,c->nr", keys, query).softmax(dim=0)
    found = result("attn_res", {"V_stacked": v, "w_query": query, "w_norm": norm}, eps=0.25)
    close(found, torch.einsum("nr,nrc->rc", weights, v))


def test_modulated_rms_norm_modulates_a_sequence_at_a_time() -> None:
    x, w, scale, shift = drawn(2, 3, 6), drawn(6), drawn(2, 6), drawn(2, 6, seed=5)
    tensors = {"X": x, "W": w, "scale": scale, "shift": shift}
    normed = functional.rms_norm(x, (6,), w + 1.0, eps=0.25)
    found = result("modulated_rms_norm", tensors, eps=0.25, offset=1.0)
    for sequence in range(2):
        close(found[sequence], normed[sequence] * (1 + scale[sequence]) + shift[sequence])


def test_rope_turns_each_pair_of_halves_as_a_complex_number() -> None:
    q, k, angle = drawn(2, 4, 3, 6), drawn(2, 2, 3, 6), drawn(1, 3, 3)
    twice = {name: torch.cat([half, half], dim=-1) for name, half in (("cos", angle.cos()), ("sin", angle.sin()))}
    for width in (None, 2):
        changes = {**RECIPES["rope"].stock, "rotary_dim": width}
        found = RECIPES["rope"].reference({"q": q, "k": k, **twice}, changes)
        half = (width or 6) // 2
        factor = torch.polar(torch.ones_like(angle), angle)[:, None, :, :half]
        for x, y in zip((q, k), found, strict=True):
            turned = torch.complex(x[..., :half], x[..., half : 2 * half]) * factor
            close(y, torch.cat([turned.real, turned.imag, x[..., 2 * half :]], dim=-1))


def test_mrope_takes_each_section_from_a_table_of_its_own() -> None:
    q, k, tables = drawn(1, 2, 3, 16), drawn(1, 1, 3, 16), drawn(3, 1, 3, 8)
    chosen = torch.cat([tables[0, ..., :2], tables[1, ..., 2:5], tables[2, ..., 5:]], dim=-1)
    both = {name: torch.cat([t, t], dim=-1) for name, t in (("cos", tables.cos()), ("sin", tables.sin()))}
    found = RECIPES["qwen2vl_mrope"].reference({"q": q, "k": k, **both}, {"mrope_section": (2, 3, 3)})
    factor = torch.polar(torch.ones_like(chosen), chosen)[:, None]
    for x, y in zip((q, k), found, strict=True):
        turned = torch.complex(x[..., :8], x[..., 8:]) * factor
        close(y, torch.cat([turned.real, turned.imag], dim=-1))


def test_llama4_rope_turns_neighbours() -> None:
    q, k, angle = drawn(2, 3, 4, 6), drawn(2, 3, 1, 6), drawn(3, 3)
    factor = torch.polar(torch.ones_like(angle), angle)
    tensors = {"q": q, "k": k, "freqs_cis": torch.view_as_real(factor)}
    found = RECIPES["llama4_rope"].reference(tensors, {})
    for x, y in zip((q, k), found, strict=True):
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], 3, 2)) * factor[:, None]
        close(y, torch.view_as_real(pairs).reshape(x.shape))


def test_fused_linear_losses_are_losses_of_a_projection() -> None:
    x, w, bias, other = drawn(4, 3), drawn(6, 3), drawn(6), drawn(6, 3, seed=5)
    target = torch.tensor([2, -1, 0, 5])
    found = result(
        "fused_linear_cross_entropy",
        {"_input": x, "weight": w, "bias": bias, "target": target},
        ignore_index=-1,
        label_smoothing=0.2,
    )
    logits = functional.linear(x, w, bias)
    close(found, functional.cross_entropy(logits, target, ignore_index=-1, label_smoothing=0.2))
    student, teacher = (x @ w.T / 2.0).log_softmax(-1), (x @ other.T / 2.0).log_softmax(-1)
    both = {"student_input": x, "student_weight": w, "teacher_input": x, "teacher_weight": other}
    alone = result("jsd", {"_input": student, "target": teacher}, beta=0.3)
    close(result("fused_linear_jsd", both, jsd_beta=0.3, temperature=2.0), alone)
    given = distribution(2)
    found = result("fused_linear_kl_div", {"student_input": x, "student_weight": w, "target": given}, temperature=2.0)
    close(found, functional.kl_div(student, given, reduction="batchmean"))


def test_multi_token_attention_shares_weights_among_neighbours_up_to_the_diagonal() -> None:
    scores, weight, bias = drawn(1, 2, 4, 4), drawn(2, 2, 3, 3), drawn(2)
    seen = torch.ones(4, 4, dtype=torch.bool).tril()
    weights = scores.masked_fill(~seen, -torch.inf).softmax(dim=-1)
    expected = functional.conv2d(weights, weight, bias, padding=1).masked_fill(~seen, 0.0)
    close(result("multi_token_attention", {"scores": scores, "weight": weight, "bias": bias}), expected)


@pytest.mark.parametrize(("window", "step"), [(1, 1), (3, 1), (5, 2)])
def test_neighborhood_attention_sees_the_neighbours_alone(window: int, step: int) -> None:
    query, key, value = (drawn(1, 2, 9, 4, seed=seed) for seed in (1, 2, 3))
    tensors = {"query": query, "key": key, "value": value}
    found = result("fused_neighborhood_attention", tensors, kernel_size=window, dilation=step, scale=0.3)
    for place in range(9):
        near = [place + step * by for by in range(-(window // 2), window // 2 + 1) if 0 <= place + step * by < 9]
        weights = (0.3 * torch.einsum("bhd,bhnd->bhn", query[:, :, place], key[:, :, near])).softmax(-1)
        close(found[:, :, place], torch.einsum("bhn,bhnd->bhd", weights, value[:, :, near]))
