"""The mathematics of further recipes, held against PyTorch's own or against its definition, one element at a time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.distributions import Categorical
from torch.nn import functional

from bot.judge.inputs import fill
from bot.judge.oracle import truth
from bot.judge.plan import call_of, probes_of
from bot.judge.recipes import RECIPES
from bot.targets.suites import suite_of
from bot.worker.contract import Shape


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


@pytest.mark.parametrize(("gate_by", "down_by"), [(1.0, 1.0), (0.5, 3.0)])
def test_mlp_is_three_linear_layers_around_a_gate(gate_by: float, down_by: float) -> None:
    x, gate, up, down = drawn(2, 3, 8), drawn(16, 8, seed=4), drawn(16, 8, seed=5), drawn(8, 16, seed=6)
    tensors = {"x": x, "gate_weight": gate, "up_weight": up, "down_weight": down}
    mixed = functional.silu(gate_by * functional.linear(x, gate)) * functional.linear(x, up)
    found = result("mlp", tensors, gate_multiplier=gate_by, down_multiplier=down_by)
    close(found, down_by * functional.linear(mixed, down))


@pytest.mark.parametrize("block", [64, 128])
def test_mlp_has_a_group_of_blocks_that_is_neither_the_first_nor_whole(block: int) -> None:
    """Its programs take eight blocks of rows together, and a block of columns after the other; whoever counts the last
    few as eight leaves out some."""
    blocks = [
        (-(-c["length"] // block), -(-8 * c["inner"] // 128)) for c in (dict(c.shape) for c in suite_of("mlp").checks)
    ]
    assert any(rows > 8 and rows % 8 and columns > 1 for rows, columns in blocks)


def test_every_row_that_mlp_is_handed_is_of_whole_sixteen_bytes() -> None:
    """In the narrowest type too; the op refuses any other."""
    suite = suite_of("mlp")
    shapes = tuple(Shape(c.id, c.direction, c.shape, c.dtype) for c in (*suite.cases, *suite.checks))
    recipe = RECIPES["mlp"]
    calls = [call_of(recipe, shape, recipe.stock, shape.id) for shape in shapes]
    calls += [probe.call for probe in probes_of(recipe, shapes, 5)]
    specs = [one.tensor for call in calls for one in call.arguments if one.tensor is not None]
    assert specs and all(spec.layout == "dense" and spec.shape[-1] % 8 == 0 for spec in specs)


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


KINDS = ["grpo", "bnpo", "dr_grpo", "dapo", "luspo", "cispo", "sapo", "vespo"]
GROUP_MODE = {
    "temperature": 0.7,
    "beta": 0.3,
    "eps_low": 0.2,
    "eps_high": 0.3,
    "sapo_temperature_pos": 0.8,
    "sapo_temperature_neg": 1.4,
}
MASK = torch.tensor([[1, 1, 1, 0], [0, 1, 1, 1], [1, 0, 0, 0]])


def group(**more: torch.Tensor) -> dict[str, torch.Tensor]:
    """Three completions of four tokens, some of them masked."""
    return {
        "logits": drawn(3, 5, 6).requires_grad_(),
        "ref_logp": drawn(3, 4, seed=5) - 2,
        "completion_ids": torch.tensor([[0, 5, 2, 1], [3, 3, 4, 0], [5, 1, 0, 2]]),
        "advantages": torch.tensor([1.5, -0.5, -2.0]).double(),
        **more,
    }


def grpo(tensors: dict[str, torch.Tensor], **changes: object) -> tuple[torch.Tensor, ...]:
    recipe = RECIPES["grpo_loss"]
    loss, kl_mean, clip_ratio = recipe.reference(tensors, {**recipe.stock, **GROUP_MODE, **changes})  # type: ignore[dict-item]
    return loss, kl_mean, clip_ratio


def own(tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    """The log-probability of each sampled token."""
    heated = tensors["logits"][:, :-1] / GROUP_MODE["temperature"]
    return Categorical(logits=heated, validate_args=False).log_prob(tensors["completion_ids"])


def expected_of_a_token(kind: str, ratio: float, logp: float, good: float, phi: float, delta: float) -> float:
    """Case by case, not by a smallest of two."""
    if kind == "vespo":
        return -phi * good * logp
    if kind == "cispo":
        return -(1.3 if ratio > 1.3 else ratio) * good * logp
    if kind == "sapo":
        heat = 0.8 if good > 0 else 1.4
        return -good * 2 / heat * (1 + float(torch.tensor(heat * (ratio - 1) / 2).tanh()))
    if good > 0:
        return -good * (1.3 if ratio > 1.3 else ratio)
    return -good * (0.8 if ratio < 0.8 else delta if ratio > delta else ratio)


def per_token(tensors: dict[str, torch.Tensor], kind: str, level: str, delta: float, *, corrected: bool) -> list[list]:
    """(loss, penalty) of each token that counts, a sequence at a time."""
    logp = own(tensors).detach()
    found = []
    for b in range(3):
        steps = [t for t in range(4) if MASK[b, t]]
        drifts = {t: float(logp[b, t] - tensors["old_logp"][b, t]) for t in steps}
        if level == "sequence":
            drifts = dict.fromkeys(steps, sum(drifts.values()) / len(steps))
        found.append([])
        for t in steps:
            ratio = float(torch.tensor(drifts[t]).double().exp())
            away = tensors["ref_logp"][b, t] - logp[b, t]
            penalty = float(torch.expm1(away) - away) * (ratio if corrected else 1)
            good, phi = float(tensors["advantages"][b]), float(tensors["phi_seq"][b])
            loss = expected_of_a_token(kind, ratio, float(logp[b, t]), good, phi, delta)
            loss *= 1 if kind == "vespo" else float(tensors["vllm_is_ratio"][b, t])
            found[-1].append((loss + 0.3 * penalty, penalty))
    return found


REDUCED: dict[str, Callable[[list[list[float]]], float]] = {
    "grpo": lambda rows: sum(sum(row) / len(row) for row in rows) / 3,
    "luspo": lambda rows: sum(len(row) * sum(row) for row in rows) / 12,
    "dr_grpo": lambda rows: sum(map(sum, rows)) / 12,
    "dapo": lambda rows: sum(map(sum, rows)) / sum(map(len, rows)),
}
REDUCED |= {"sapo": REDUCED["grpo"], **dict.fromkeys(("bnpo", "cispo", "vespo"), REDUCED["dapo"])}


def ratios(shape: tuple[int, ...]) -> torch.Tensor:
    """On both sides of 0.8, 1.3 and 2."""
    return torch.tensor([0.5, 1.6, 1.0, 0.9, 2.5, 1.2, 0.7]).double().repeat(2)[:12].reshape(shape)


@pytest.mark.parametrize("corrected", [False, True])
@pytest.mark.parametrize(
    ("kind", "level"), [(k, "token") for k in KINDS] + [(k, "sequence") for k in KINDS if k not in KINDS[5:]]
)
def test_grpo_loss_is_what_its_definition_says_a_token_at_a_time(kind: str, level: str, corrected: bool) -> None:
    tensors = group(
        completion_mask=MASK, vllm_is_ratio=0.5 + drawn(3, 4, seed=8).sigmoid(), phi_seq=drawn(3, seed=9).exp()
    )
    tensors["old_logp"] = own(tensors).detach() - ratios((3, 4)).log()
    delta = None if kind in KINDS[5:] else 2.0
    changes = {"eps_high": 1.3} if kind == "cispo" else {}
    loss, kl_mean, _ = grpo(
        tensors,
        loss_type=kind,
        importance_sampling_level=level,
        delta=delta,
        use_bias_correction_kl=corrected,
        **changes,
    )
    found = per_token(tensors, kind, level, 2.0, corrected=corrected)
    close(loss, torch.tensor(REDUCED[kind]([[loss for loss, _ in row] for row in found])).double())
    penalties = [penalty for row in found for _, penalty in row]
    close(kl_mean, torch.tensor(sum(penalties) / len(penalties)).double())


def test_grpo_loss_learns_from_what_is_not_clipped_and_never_from_what_it_is_told_beside() -> None:
    """Of a token a(1 - p) and -a p: a is -advantage times ratio, and nothing where the ratio has gone far enough."""
    tensors = group(completion_mask=MASK)
    logp, ratio = own(tensors).detach(), ratios((3, 4))
    tensors["old_logp"] = logp - ratio.log()
    loss, kl_mean, clip_ratio = grpo(tensors, loss_type="bnpo", delta=2.0)
    good = tensors["advantages"][:, None].expand(3, 4)
    learns = torch.where(good > 0, ratio < 1.3, (ratio > 0.8) & (ratio < 2.0))
    per_logp = -good * ratio * learns + 0.3 * (1 - (tensors["ref_logp"] - logp).exp())
    heated = (tensors["logits"].detach()[:, :-1] / 0.7).softmax(-1)
    chosen = functional.one_hot(tensors["completion_ids"], 6)
    expected = (per_logp * MASK / 7 / 0.7)[..., None] * (chosen - heated)
    (gradient,) = torch.autograd.grad(loss, tensors["logits"], retain_graph=True)
    close(gradient, functional.pad(expected, (0, 0, 0, 1)))
    clipped = torch.where(good > 0, ratio > 1.3, ratio < 0.8) * MASK
    close(clip_ratio, clipped.sum() / torch.tensor(7.0).double())
    (nothing,) = torch.autograd.grad((kl_mean, clip_ratio), tensors["logits"])
    assert not nothing.any()


def test_grpo_loss_on_its_own_samples_is_minus_the_advantage_and_still_learns() -> None:
    tensors = group(ref_logp=torch.zeros(3, 4).double())
    tensors["ref_logp"] = own(tensors).detach()
    loss, kl_mean, clip_ratio = grpo(tensors, loss_type="dr_grpo", max_completion_length=8)
    close(loss, -tensors["advantages"].sum() * 4 / (3 * 8))
    assert not kl_mean.any() and not clip_ratio.any()
    (gradient,) = torch.autograd.grad(loss, tensors["logits"])
    (expected,) = torch.autograd.grad(-(own(tensors) * tensors["advantages"][:, None]).sum() / 24, tensors["logits"])
    close(gradient, expected)


def test_grpo_loss_without_a_penalty_has_none_to_tell_of() -> None:
    tensors = group(completion_mask=MASK)
    loss, _, clip_ratio = grpo(tensors)
    least, *_ = grpo(tensors, beta=1e-9)
    del tensors["ref_logp"]
    alone, kl_mean, told = grpo(tensors, beta=0.0)
    assert kl_mean is None and torch.equal(told, clip_ratio) and not torch.equal(alone, loss)
    torch.testing.assert_close(alone, least, rtol=1e-7, atol=0.0)


def test_the_oracle_leaves_out_what_is_none_and_keeps_the_others_in_their_places() -> None:
    recipe = RECIPES["grpo_loss"]
    sizes = (("batch", 2), ("length", 3), ("cols", 5))
    shapes = tuple(Shape(f"g-{number}", "full", sizes, "float32") for number in range(12))
    places = set()
    for probe in probes_of(recipe, shapes, seed=1):
        told = truth(recipe, probe, fill(recipe, probe))
        assert ("gradient", "logits") in told
        places.add((probe.constants["beta"] == 0.0, *sorted(name for role, name in told if role == "output")))
    assert places == {(True, "0", "2"), (False, "0", "1", "2")}


def test_grpo_loss_counts_by_the_batch_where_it_is_told_and_does_not_look_at_what_is_masked() -> None:
    tensors = group(completion_mask=MASK)
    loss, *_ = grpo(tensors, loss_type="dapo")
    told, *_ = grpo(tensors, loss_type="dapo", num_items_in_batch=21)
    close(told, loss / 3)
    spoilt = tensors["logits"].detach().clone()
    spoilt[:, :-1][MASK == 0] = torch.nan
    spoilt[:, -1] = torch.nan
    close(grpo({**tensors, "logits": spoilt}, loss_type="dapo")[0], loss)


def test_ratios_of_grpo_loss_lie_on_both_sides_of_each_edge_and_near_none_whatever_the_logits() -> None:
    recipe = RECIPES["grpo_loss"]
    sizes = (("batch", 4), ("length", 8), ("cols", 9))
    shapes = tuple(Shape(f"g-{number}", "full", sizes, "float32") for number in range(8))
    sides: set[tuple[str, bool]] = set()
    for seed in range(2):
        for probe in probes_of(recipe, shapes, seed):
            told, filled = probe.constants, fill(recipe, probe)
            if "old_logp" not in filled or probe.kind == "strange":
                continue
            heated = filled["logits"].double()[:, :-1] / told["temperature"]
            logp = heated.log_softmax(-1).gather(-1, filled["completion_ids"][..., None])[..., 0]
            drift = logp - filled["old_logp"]
            if told["importance_sampling_level"] == "sequence":
                drift = drift.mean(dim=1)
            edges = {"low": 1 - told["eps_low"], "high": 1 + told["eps_high"], "delta": told["delta"]}  # type: ignore[operator]
            edges = {"bound": told["eps_high"]} if told["loss_type"] == "cispo" else edges
            for name, edge in edges.items():
                if edge is not None:
                    assert ((drift.exp() / edge).log().abs() > 0.02).all()
                    sides |= {(name, bool(above)) for above in (drift.exp() > edge).flatten()}
    assert sides == {(name, above) for name in ("low", "high", "delta", "bound") for above in (False, True)}


def test_a_dimension_may_be_one_more_than_a_size_and_a_class_is_looked_up_in_the_last_column() -> None:
    recipe = RECIPES["grpo_loss"]
    shape = Shape("g", "full", (("batch", 2), ("length", 3), ("cols", 5)), "float32")
    masks = set()
    for probe in probes_of(recipe, (shape,), seed=1):
        filled = fill(recipe, probe)
        assert filled["logits"].shape == (2, 4, 5) and filled["completion_ids"].shape == (2, 3)
        assert filled["completion_ids"][0, 0] == 4 and int(filled["completion_ids"].min()) >= 0
        if "completion_mask" in filled:
            assert filled["completion_mask"][0, 0] == 1
            masks |= set(filled["completion_mask"].flatten().tolist())
    assert masks == {0, 1}
