"""Losses of group relative policy optimisation (GRPO) and its relatives: sampled tokens, weighted by how much better
than its group their sequence did and by how far the policy has moved since, and a penalty for leaving a reference.

All eight losses of the op are judged, reduced to one number, with ratios of tokens and, where the op has them, of
whole sequences. Not judged is what callers get with `reduce=False`: a loss a token has another shape. The same kernels
make it, and the gradient that arrives at each token is then the caller's rather than one of the reduction. LUSPO is
judged with ratios of sequences alone, as the stock gradient is wrong with those of tokens. A correction for the sampler
is judged one a token, not one a sequence, and a mask as integers, not as truth values. What weighs a sequence in VESPO
is handed over: another function makes it. Nor is anything left out that has a default: `triton_grpo_loss` hands over
all.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from bot.judge.recipe import Constant, Constants, Mode, Operand, Output, Recipe

Named = Mapping[str, Any]
"""Tensors, or constants."""

CLIPPED = ("grpo", "bnpo", "dr_grpo", "dapo", "luspo")
"""Losses that differ only in what a token counts for."""
OF_THE_BATCH = ("dapo", "cispo", "vespo")
"""Divided by the tokens of a batch of which the op may see a part."""
APART, BEYOND = 1.05, 1.15
"""By these factors a ratio is above or below one at which the loss changes: so near that it shows which one is meant,
and so far that no rounding decides on which side it is, which logits of 6e4 leave in doubt by 2 %."""
WOBBLE = 0.02
"""Tokens of a sequence whose ratio is one for all of them are still not the same."""
NEAREST = 0.1
"""By so much log-probabilities are away from the reference's at least: a penalty of next to nothing is all rounding."""
COUNTING = 0.75
"""This share of the tokens is not masked."""
UNLIKELY = -1e4
"""The log-probability of what cannot be."""


def _log_probability(logits: Any, chosen: Any, temperature: Any) -> Any:
    """Of one class a row; step by step, as each step is rounded to see how far honest kernels may differ."""
    heated = logits / temperature
    top = heated.detach().amax(dim=-1, keepdim=True)
    total = top + (heated - top).exp().sum(dim=-1, keepdim=True).log()
    return (heated.gather(-1, chosen[..., None]) - total)[..., 0]


def _bounds(constants: Named) -> tuple[float, float]:
    return 1 - constants["eps_low"], 1 + constants["eps_high"]


def _clipped(ratio: Any, advantage: Any, constants: Named) -> tuple[Any, Any]:
    low, high = _bounds(constants)
    free = ratio if constants["delta"] is None else ratio.clamp(max=constants["delta"])
    loss = -(free * advantage).minimum(ratio.clamp(low, high) * advantage)
    return loss, (ratio < low) & (advantage < 0) | (ratio > high) & (advantage > 0)


def _gated(ratio: Any, advantage: Any, constants: Named) -> Any:
    above, below = constants["sapo_temperature_pos"], constants["sapo_temperature_neg"]
    heat = below + (above - below) * (advantage > 0).to(ratio.dtype)
    return -4 / (heat * (1 + (heat * (1 - ratio)).exp())) * advantage


def of_tokens(logp: Any, ratio: Any, advantage: Any, phi: Any, constants: Named) -> tuple[Any, Any]:
    """The loss of each token, and whether it was clipped."""
    none = ratio > float("inf")
    match constants["loss_type"]:
        case "cispo":
            bound = constants["eps_high"]
            return -ratio.detach().clamp(max=bound) * advantage * logp, (ratio > bound) & (advantage > 0)
        case "sapo":
            return _gated(ratio, advantage, constants), none
        case "vespo":
            return -phi * advantage * logp, none
    return _clipped(ratio, advantage, constants)


def shares(taken: Any, constants: Named, dtype: Any) -> Any:
    """What a token of each sequence counts for."""
    sequences, length = taken.shape
    own = taken.sum(dim=1).to(dtype)
    kind, told = constants["loss_type"], constants["num_items_in_batch"]
    if kind in ("grpo", "sapo"):
        return 1 / (own.clamp(min=1) * sequences)
    if kind == "luspo":
        return own / (sequences * length)
    if kind == "dr_grpo":
        return own.new_ones(sequences) / (sequences * (constants["max_completion_length"] or length))
    if kind in OF_THE_BATCH and told is not None:
        return own.new_ones(sequences) / max(told, 1)
    return own.new_ones(sequences) / own.sum().clamp(min=1)


def beside(value: Any, loss: Any) -> Any:
    """A result that is there to be read: whatever gradient arrives at it goes nowhere."""
    value = value.detach()
    everywhere = value.isnan() | True
    return value.where(everywhere, loss)  # never the loss, but torch asks for a way back to the inputs


def penalty_of(found: Named, logp: Any, ratio: Any, constants: Named) -> Any:
    """None, as the op then returns, where it weighs nothing."""
    if constants["beta"] == 0.0:
        return None
    away = found["ref_logp"] - logp
    penalty = away.exp() - away - 1
    return penalty * ratio if constants["use_bias_correction_kl"] else penalty


def reference(tensors: Named, constants: Constants) -> tuple[Any, ...]:
    ids, mask = tensors["completion_ids"], tensors.get("completion_mask")
    taken = ids >= 0 if mask is None else mask != 0
    sequence = taken.nonzero()[:, 0]
    # What is masked is never looked at, so that a NaN in it does no harm.
    logp = _log_probability(tensors["logits"][:, :-1][taken], ids[taken], constants["temperature"])
    found = {name: tensors[name][taken] for name in ("old_logp", "ref_logp", "vllm_is_ratio") if name in tensors}
    advantage = tensors["advantages"][sequence]
    drift = logp - found.get("old_logp", logp.detach())
    if constants["importance_sampling_level"] == "sequence":
        whole = drift.new_zeros(taken.shape[0]).index_add(0, sequence, drift)
        drift = (whole / taken.sum(dim=1).clamp(min=1))[sequence]
    ratio = drift.exp()
    phi = tensors["phi_seq"][sequence] if "phi_seq" in tensors else None
    loss, clipped = of_tokens(logp, ratio, advantage, phi, constants)
    if "vllm_is_ratio" in found and constants["loss_type"] != "vespo":
        loss = loss * found["vllm_is_ratio"]
    penalty = penalty_of(found, logp, ratio, constants)
    penalised = loss if penalty is None else loss + constants["beta"] * penalty
    total = (penalised * shares(taken, constants, loss.dtype)[sequence]).sum()
    tokens = taken.sum().clamp(min=1)
    kl_mean = None if penalty is None else beside(penalty.sum() / tokens, total)
    return total, kl_mean, beside(clipped.to(loss.dtype).sum() / tokens, total)


def _edges(constants: Named) -> tuple[tuple[float, float], tuple[float, float]]:
    """Ratios about which there is something to see where the advantage is negative, and where it is not: those at
    which the loss is another function, and one at which it must not be."""
    if constants["loss_type"] == "cispo":
        return (constants["eps_high"],) * 2, (constants["eps_high"],) * 2
    low, high = _bounds(constants)
    return (low, constants["delta"] or high), (high, low)


def _sampled(tensors: Named, constants: Named) -> Any:
    """The log-probability of each token."""
    return _log_probability(tensors["logits"][:, :-1], tensors["completion_ids"], constants["temperature"])


def _old(tensors: Named, constants: Named, rng: Any) -> Any:
    """Of the policy that sampled: such that ratios lie on both sides of every edge, in turn."""
    logp = _sampled(tensors, constants)
    edges = logp.new_tensor(_edges(constants))[(tensors["advantages"] >= 0).long()]
    alike = constants["importance_sampling_level"] == "sequence"
    drawn = logp.new_empty(logp.shape[0], 1 if alike else logp.shape[1]).uniform_(generator=rng)
    first = logp.new_empty(()).uniform_(0, 4, generator=rng)
    place = (drawn.new_ones(drawn.numel()).cumsum(0) + first).long().view(drawn.shape) % 4
    ratio = edges.gather(1, place // 2) * (APART + (BEYOND - APART) * drawn) ** (2 * (place % 2) - 1)
    wobble = logp.new_empty(logp.shape).uniform_(-WOBBLE, WOBBLE, generator=rng)
    return (logp - ratio.log() + wobble).nan_to_num(0.0, 0.0, UNLIKELY)


def _of_reference(tensors: Named, constants: Named, rng: Any) -> Any:
    logp = _sampled(tensors, constants)
    away = logp.new_empty(logp.shape).uniform_(-0.7, 0.7, generator=rng)
    return (logp + away + NEAREST * away.sign()).nan_to_num(0.0, 0.0, UNLIKELY)


def _mask(tensors: Named, constants: Named, rng: Any) -> Any:
    """Anywhere. The first token counts, else a single one would be judged on nothing; the last of several does not."""
    ids = tensors["completion_ids"]
    drawn = ids.new_empty(ids.shape, dtype=tensors["advantages"].dtype).uniform_(generator=rng) < COUNTING
    drawn.view(-1)[-1:] = False
    drawn.view(-1)[:1] = True
    return drawn


STOCK: Constants = {
    "old_logp": None,
    "completion_mask": None,
    "temperature": 1.0,
    "beta": 0.1,
    "eps_low": 0.2,
    "eps_high": 0.2,
    "inplace": False,
    "loss_type": "grpo",
    "max_completion_length": None,
    "reduce": True,
    "importance_sampling_level": "token",
    "sapo_temperature_pos": 1.0,
    "sapo_temperature_neg": 1.05,
    "vllm_is_ratio": None,
    "delta": None,
    "use_bias_correction_kl": False,
    "num_items_in_batch": None,
    "phi_seq": None,
}
"""Of the library's own benchmark: the policy that sampled is the one that learns."""

Draw = Callable[[random.Random], Any]


def _one_of(*values: Any) -> Draw:
    return lambda rng: rng.choice(values)


def _between(least: float, most: float) -> Draw:
    return lambda rng: round(rng.uniform(least, most), 3)


def _delta(rng: random.Random) -> float | None:
    return round(rng.uniform(1.8, 2.2), 3) if rng.random() < 0.75 else None


def _drawn(kind: str, *given: str, **changed: Draw) -> Mode:
    """With the tensors that are given; the others are left out."""
    draws: dict[str, Draw] = {
        "temperature": _between(0.5, 1.5),
        "beta": _between(0.02, 0.5),
        "eps_low": _between(0.1, 0.15),
        "eps_high": _between(0.3, 0.4),
        "inplace": _one_of(False, True),
        "max_completion_length": _one_of(None, 77),
        "num_items_in_batch": _one_of(None, 7),
        "use_bias_correction_kl": _one_of(False, False, True),
        "delta": _delta if kind in CLIPPED else _one_of(None),
        **changed,
    }

    def draw(rng: random.Random) -> Constants:
        drawn = {**STOCK, "loss_type": kind, **{name: made(rng) for name, made in draws.items()}}
        return {name: value for name, value in drawn.items() if name not in given}

    return draw


BOTH = ("old_logp", "completion_mask")
LEVEL = _one_of("token", "sequence")
HEAT = _between(0.5, 2.0)

RECIPE = Recipe(
    arguments=(
        Operand("logits", ("batch", "length+1", "cols")),
        Operand("old_logp", ("batch", "length"), fill="log_probability", grad=False, dtype="float32", follows=_old),
        Operand(
            "ref_logp", ("batch", "length"), fill="log_probability", grad=False, dtype="float32", follows=_of_reference
        ),
        Operand("completion_ids", ("batch", "length"), fill="labels", grad=False),
        # A fill whose numbers are about 0 of whatever kind the others are: one sign alone shows half of each loss.
        Operand("advantages", ("batch",), fill="projection", grad=False, dtype="float32"),
        Operand("completion_mask", ("batch", "length"), fill="labels", classes="2", grad=False, follows=_mask),
        *(Constant(name) for name in ("temperature", "beta", "eps_low", "eps_high", "inplace", "loss_type")),
        *(Constant(name) for name in ("max_completion_length", "reduce", "importance_sampling_level")),
        *(Constant(name) for name in ("sapo_temperature_pos", "sapo_temperature_neg")),
        Operand("vllm_is_ratio", ("batch", "length"), fill="weight", grad=False, dtype="float32"),
        *(Constant(name) for name in ("delta", "use_bias_correction_kl", "num_items_in_batch")),
        Operand("phi_seq", ("batch",), fill="weight", grad=False, dtype="float32"),
    ),
    outputs=(Output("loss", ()), Output("kl_mean", ()), Output("clip_ratio", ())),
    stock=STOCK,
    # Each kind of loss, whatever the dice say. The extremes come with the first, of tokens or of sequences: each has
    # kernels of its own.
    modes=(
        _drawn("grpo", *BOTH, importance_sampling_level=LEVEL),
        _drawn("sapo", *BOTH, "vllm_is_ratio", sapo_temperature_pos=HEAT, sapo_temperature_neg=HEAT),
        _drawn("grpo", "old_logp", "vllm_is_ratio"),
        _drawn("luspo", *BOTH, "vllm_is_ratio", importance_sampling_level=_one_of("sequence")),
        _drawn("cispo", "old_logp", eps_high=_between(1.2, 2.0)),
        _drawn("dapo"),
        _drawn("dr_grpo", *BOTH, importance_sampling_level=LEVEL),
        _drawn("grpo", *BOTH, beta=_one_of(0.0), ref_logp=_one_of(None), importance_sampling_level=LEVEL),
        _drawn("bnpo", *BOTH, use_bias_correction_kl=_one_of(True)),
        _drawn("vespo", "completion_mask", "vllm_is_ratio", "phi_seq"),
    ),
    reference=reference,
    forward_traffic=("logits", "ref_logp", "completion_ids", "advantages", "loss"),
    backward_traffic=("dloss", "logits", "ref_logp", "completion_ids", "advantages", "dlogits"),
    rows="batch*length",
)
