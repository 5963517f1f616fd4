"""How people write it who use PyTorch and no kernel of their own: what a rival plays where a recipe says it otherwise.

A recipe's mathematics goes step by step, since the judge rounds each step; torch has one function for many of these.
And a rival that multiplied matrices in float32, where people do in the type that they have, would be ten times as slow.
And what a CUDA graph holds may not ask the host for a size, as a recipe may that leaves out rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.nn import functional

from bot.judge.recipe import Constants, Reference
from bot.judge.recipes import fused_linear_jsd, fused_linear_kl_div, fused_neighborhood_attention, grpo_loss

Given = Mapping[str, Any]


def _times(tensor: Any, by: Any) -> Any:
    """Nobody writes down a factor of 1."""
    return tensor if by == 1.0 else tensor * by


def _softmax(given: Given, constants: Constants) -> tuple[Any, ...]:
    return (functional.softmax(given["x"], dim=-1),)


def _layer_norm(given: Given, constants: Constants) -> tuple[Any, ...]:
    x = given["X"]
    eps: Any = constants["eps"]
    return (functional.layer_norm(x, x.shape[-1:], given["W"], given["B"], eps),)


def _group_norm(given: Given, constants: Constants) -> tuple[Any, ...]:
    groups: Any = constants["num_groups"]
    eps: Any = constants["eps"]
    weight, bias = given["affine_scaling_weight"], given["affine_shifting_bias"]
    return (functional.group_norm(given["X"], groups, weight, bias, eps),)


def _geglu(given: Given, constants: Constants) -> tuple[Any, ...]:
    return (functional.gelu(given["a"], approximate="tanh") * given["b"],)


def _swiglu(given: Given, constants: Constants) -> tuple[Any, ...]:
    gate = functional.silu(_times(given["a"], constants["gate_multiplier"]))
    return (_times(gate * given["b"], constants["down_multiplier"]),)


def _mlp(given: Given, constants: Constants) -> tuple[Any, ...]:
    x = given["x"]
    gate = functional.silu(_times(functional.linear(x, given["gate_weight"]), constants["gate_multiplier"]))
    mixed = functional.linear(gate * functional.linear(x, given["up_weight"]), given["down_weight"])
    return (_times(mixed, constants["down_multiplier"]),)


def _logs(x: Any, weight: Any, constants: Constants) -> Any:
    heat: Any = constants["temperature"]
    return functional.log_softmax(_times(functional.linear(x, weight).float(), 1 / heat), dim=-1)


def _fused_linear_jsd(given: Given, constants: Constants) -> tuple[Any, ...]:
    student = _logs(given["student_input"], given["student_weight"], constants)
    teacher = _logs(given["teacher_input"], given["teacher_weight"], constants)
    return fused_linear_jsd.of_logs(student, teacher, given, constants)


def _fused_linear_kl_div(given: Given, constants: Constants) -> tuple[Any, ...]:
    student = _logs(given["student_input"], given["student_weight"], constants)
    return fused_linear_kl_div.of_logs(student, {**given, "target": given["target"].float()}, constants)


def _fused_neighborhood_attention(given: Given, constants: Constants) -> tuple[Any, ...]:
    query, key, value = (given[name] for name in ("query", "key", "value"))
    scale: Any = constants["scale"]
    window, step = constants["kernel_size"], constants["dilation"]
    seen = fused_neighborhood_attention.neighbours(query.shape[-2], window, step, query.device)
    return (functional.scaled_dot_product_attention(query, key, value, attn_mask=seen, scale=scale),)


def _loss(logits: Any, target: Any, weight: Any, constants: Constants) -> tuple[Any, ...]:
    ignored: Any = constants["ignore_index"]
    smoothing: Any = constants["label_smoothing"]
    cap: Any = constants["softcap"]
    logits = logits.float()
    if cap is not None:
        logits = cap * (logits / cap).tanh()
    how = str(constants["reduction"])
    found = functional.cross_entropy(
        logits, target, weight=weight, ignore_index=ignored, label_smoothing=smoothing, reduction=how
    )
    z_scale: Any = constants["lse_square_scale"]
    if z_scale:
        counts = target != ignored
        penalty = (logits.logsumexp(dim=-1).square() * counts).sum() * z_scale
        found = found + (penalty / counts.sum() if how == "mean" else penalty)
    return (found,)


def _cross_entropy(given: Given, constants: Constants) -> tuple[Any, ...]:
    return _loss(given["_input"], given["target"], given.get("weight"), constants)


def _fused_linear_cross_entropy(given: Given, constants: Constants) -> tuple[Any, ...]:
    logits = functional.linear(given["_input"], given["weight"], given.get("bias"))
    return _loss(logits, given["target"], given.get("ce_weight"), constants)


def _grpo_loss(given: Given, constants: Constants) -> tuple[Any, ...]:
    """Every token, and those that are masked count for nothing: how many they are the host need not know."""
    ids, mask = given["completion_ids"], given.get("completion_mask")
    taken = ids >= 0 if mask is None else mask != 0
    temperature: Any = constants["temperature"]
    heated = given["logits"][:, :-1].float() / temperature
    logp = functional.log_softmax(heated, dim=-1).gather(-1, ids.clamp(min=0).long()[..., None])[..., 0]
    drift = (logp - given.get("old_logp", logp.detach())).where(taken, 0.0)
    if constants["importance_sampling_level"] == "sequence":
        drift = drift.sum(dim=1, keepdim=True) / taken.sum(dim=1, keepdim=True).clamp(min=1)
    ratio = drift.exp()
    phi = given["phi_seq"][:, None] if "phi_seq" in given else None
    loss, clipped = grpo_loss.of_tokens(logp, ratio, given["advantages"][:, None], phi, constants)
    if "vllm_is_ratio" in given and constants["loss_type"] != "vespo":
        loss = loss * given["vllm_is_ratio"]
    penalty = grpo_loss.penalty_of(given, logp, ratio, constants)
    penalised = loss if penalty is None else loss + constants["beta"] * penalty
    total = (penalised * grpo_loss.shares(taken, constants, loss.dtype)[:, None]).where(taken, 0.0).sum()
    tokens = taken.sum().clamp(min=1)
    mean = None if penalty is None else grpo_loss.beside(penalty.where(taken, 0.0).sum() / tokens, total)
    return total, mean, grpo_loss.beside((clipped & taken).to(loss.dtype).sum() / tokens, total)


def _fused_moe(given: Given, constants: Constants) -> tuple[Any, ...]:
    """Every token through every expert, weighed by nothing where it was not chosen: who leaves the others out waits for
    how many tokens each expert has."""
    x, index, weights = (given[name] for name in ("x", "top_k_index", "top_k_weights"))
    found = x.new_zeros(x.shape)
    for expert, (projection, back) in enumerate(zip(given["gate_up_proj"], given["down_proj"], strict=True)):
        gate, up = functional.linear(x, projection).chunk(2, dim=-1)
        share = (weights * (index == expert)).sum(dim=-1, keepdim=True)
        found = found + functional.linear(functional.silu(gate) * up, back) * share
    return (found,)


def _multi_token_attention(given: Given, constants: Constants) -> tuple[Any, ...]:
    scores = given["scores"]
    unseen = scores.new_ones(scores.shape[-2:], dtype=torch.bool).tril().logical_not()
    weights = functional.softmax(scores.masked_fill(unseen, -torch.inf), dim=-1)
    mixed = functional.conv2d(weights, given["weight"], given.get("bias"), padding=1)
    return (mixed.masked_fill(unseen, 0.0),)


IDIOMS: dict[str, Reference] = {
    "softmax": _softmax,
    "layer_norm": _layer_norm,
    "group_norm": _group_norm,
    "geglu": _geglu,
    "swiglu": _swiglu,
    "cross_entropy": _cross_entropy,
    "fused_linear_cross_entropy": _fused_linear_cross_entropy,
    "fused_linear_jsd": _fused_linear_jsd,
    "fused_linear_kl_div": _fused_linear_kl_div,
    "fused_neighborhood_attention": _fused_neighborhood_attention,
    "grpo_loss": _grpo_loss,
    "fused_moe": _fused_moe,
    "mlp": _mlp,
    "multi_token_attention": _multi_token_attention,
}
"""By kernel; they get tensors in the types in which the op gets them."""
