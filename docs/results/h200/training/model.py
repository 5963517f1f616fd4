"""A small decoder that trains with the library's public functions, each where such an op is used.

Import it when the tree whose ops are wanted is first on the path. Its layers take turns in being like eight kinds of
model; the last hidden state is a mixture of what all of them left, and seven losses are added up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import torch
from liger_kernel.transformers import functional as liger
from liger_kernel.transformers.llama4_rope import liger_llama4_text_rotary_pos_emb
from liger_kernel.transformers.swiglu import LigerExperts
from torch import Tensor, nn
from torch.nn.functional import embedding, log_softmax, scaled_dot_product_attention

EPS = 1e-5
IGNORED = -100
SHARES = {"next": 1.0, "after": 0.3, "jsd": 0.5, "kl": 0.1, "tvd": 0.5, "fused_jsd": 0.2, "fused_kl": 0.1}
"""What each loss adds to the one that is trained on."""


@dataclass(frozen=True)
class Size:
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    inner: int
    vocabulary: int
    batch: int
    tokens: int
    dense: bool = False
    """Without a mixture of experts."""


SIZES = {
    "tiny": Size(8, 32, 2, 1, 48, 96, 2, 6),
    "small": Size(8, 1024, 8, 2, 2048, 32000, 8, 512),
    "real": Size(8, 4096, 32, 8, 14336, 128256, 2, 2048),
}
"""Tiny is for the interpreter. Small is as wide as the library's own mini model of Llama 3, real as Llama 3 8B; both
have eight layers."""
CHUNK = 64
"""Positions that multi-token attention sees together: it holds squares of them, and 512 take a compiler 40 s."""
STREAMS = 4
EXPERTS, CHOSEN = 4, 2
"""Of a mixture, and those that a token goes through."""


def drawn(*shape: int) -> nn.Parameter:
    """So that what comes out of a product is as large as what goes in, whatever the size."""
    return nn.Parameter(torch.randn(*shape) * shape[-1] ** -0.5)


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return liger.liger_rms_norm(x, self.weight, EPS)


class LayerNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        return liger.liger_layer_norm(x, self.weight, self.bias, EPS)


class DyT(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.full((1,), 0.5))
        self.gamma, self.beta = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        return liger.liger_dyt(x.contiguous(), self.alpha, self.gamma, self.beta)


class Modulated(nn.Module):
    """What the whole sequence is about scales and shifts it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.scale, self.shift = drawn(width, width), drawn(width, width)

    def forward(self, x: Tensor) -> Tensor:
        about = 0.1 * x.mean(dim=1)
        return liger.liger_modulated_rms_norm(x, self.weight, about @ self.scale.T, about @ self.shift.T, EPS)


class Gated(nn.Module):
    """Two projections up, one of which opens the other, and one down."""

    def __init__(self, size: Size, gate: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.gate = gate
        self.opens, self.up = drawn(size.inner, size.hidden), drawn(size.inner, size.hidden)
        self.down = drawn(size.hidden, size.inner)

    def forward(self, x: Tensor) -> Tensor:
        return self.gate(x @ self.opens.T, x @ self.up.T) @ self.down.T


class Squared(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.up, self.down = drawn(size.inner, size.hidden), drawn(size.hidden, size.inner)

    def forward(self, x: Tensor) -> Tensor:
        return liger.liger_relu_squared(x @ self.up.T) @ self.down.T


class Polynomial(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.up, self.down = drawn(size.inner, size.hidden), drawn(size.hidden, size.inner)
        self.weight, self.bias = nn.Parameter(torch.full((3,), 1 / 3)), nn.Parameter(torch.tensor(1.0))

    def forward(self, x: Tensor) -> Tensor:
        return liger.liger_poly_norm(x @ self.up.T, self.weight, self.bias) @ self.down.T


class Mixture(nn.Module):
    """Of the experts that a token's router likes best. All of them together are as wide as another layer's two."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        inner = size.inner // CHOSEN
        self.router = drawn(EXPERTS, size.hidden)
        shape = {"num_experts": EXPERTS, "hidden_size": size.hidden, "moe_intermediate_size": inner}
        self.experts = LigerExperts(SimpleNamespace(**shape, hidden_act="silu"))
        self.experts.gate_up_proj = drawn(EXPERTS, 2 * inner, size.hidden)
        self.experts.down_proj = drawn(EXPERTS, size.hidden, inner)

    def forward(self, x: Tensor) -> Tensor:
        liked = (x @ self.router.T).softmax(dim=-1, dtype=torch.float32)
        shares, chosen = liked.topk(CHOSEN, dim=-1)
        return self.experts(x.contiguous(), chosen, (shares / shares.sum(-1, keepdim=True)).to(x.dtype))


class Streams(nn.Module):
    """A layer between several residual streams, which it reads from and writes to in shares that it learns."""

    def __init__(self, size: Size, layer: nn.Module) -> None:
        super().__init__()
        self.layer, shares = layer, STREAMS * (STREAMS + 2)
        self.mix = nn.Parameter(torch.randn(STREAMS * size.hidden, shares) * (STREAMS * size.hidden) ** -0.5)
        self.bias = nn.Parameter(torch.linspace(-0.5, 0.5, shares))
        self.before, self.after, self.between = (nn.Parameter(torch.tensor(0.1)) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        wide = (self.bias, self.before, self.after, self.between)
        streams = x[:, :, None].expand(-1, -1, STREAMS, -1).contiguous()
        left = liger.liger_mhc_forward(
            streams, self.layer, self.mix, *(one.float() for one in wide), allow_fp32=x.dtype == torch.float32
        )
        return left.mean(dim=2)


Turn = tuple[Tensor, Tensor]
"""Cosines and sines of the angles by which heads are turned."""


def by_halves(q: Tensor, k: Tensor, angles: Turn) -> tuple[Tensor, Tensor]:
    return liger.liger_rope(q.transpose(1, 2), k.transpose(1, 2), *angles)


def by_pairs(q: Tensor, k: Tensor, angles: Turn) -> tuple[Tensor, Tensor]:
    """Neighbours are complex numbers."""
    cos, sin = (one[0, :, : one.shape[-1] // 2].float() for one in angles)
    q, k = liger_llama4_text_rotary_pos_emb(q, k, torch.complex(cos, sin))
    return q.transpose(1, 2), k.transpose(1, 2)


def by_sections(q: Tensor, k: Tensor, angles: Turn) -> tuple[Tensor, Tensor]:
    """Time, height and width: a head has a section of each."""
    unit = q.shape[-1] // 16
    cos, sin = (torch.stack([one.roll(by, 1) for by in range(3)]).expand(-1, len(q), -1, -1) for one in angles)
    sections = [2 * unit, 3 * unit, 3 * unit]
    return liger.liger_qwen2vl_mrope(q.transpose(1, 2), k.transpose(1, 2), cos.contiguous(), sin.contiguous(), sections)


def fused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return scaled_dot_product_attention(q, k, v, is_causal=True)


def scores(q: Tensor, k: Tensor, later: float) -> Tensor:
    """Written out; of the positions that are `later` this."""
    tokens = q.shape[-2]
    unseen = torch.ones(tokens, tokens, dtype=torch.bool, device=q.device).triu(1)
    return (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).masked_fill(unseen, later)


def by_scores(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return liger.liger_softmax(scores(q, k, float("-inf"))) @ v


def sparsely(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Most weights are exactly none."""
    return liger.liger_sparsemax(scores(q, k, -1e4)) @ v


def nearby(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Each position sees its neighbours, as in a picture: those behind it too."""
    return liger.liger_fused_neighborhood_attention(q.contiguous(), k.contiguous(), v.contiguous(), kernel_size=7)


class Sharing(nn.Module):
    """Weights that neighbours and heads share, a chunk of the sequence at a time."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size.heads, size.heads, 3, 3) * (9 * size.heads) ** -0.5)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        heads, tokens, width = q.shape[1:]
        long = min(CHUNK, tokens)
        chunks = [one.unflatten(2, (-1, long)).transpose(1, 2).reshape(-1, heads, long, width) for one in (q, k, v)]
        seen = chunks[0] @ chunks[1].transpose(-1, -2) * width**-0.5
        found = liger.liger_multi_token_attention(seen, self.weight, padding=1) @ chunks[2]
        return found.unflatten(0, (len(q), -1)).transpose(1, 2).reshape(q.shape)


Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Kind:
    norm: Callable[[int], nn.Module]
    mlp: Callable[[Size], nn.Module]
    attend: Callable[[Size], Attend] = lambda size: fused
    turn: Callable[[Tensor, Tensor, Turn], tuple[Tensor, Tensor]] = by_halves
    normed_heads: bool = False
    """Queries and keys are normed, head by head."""
    grouped: bool = False
    """What the heads found is normed, head by head; in float32, as its backward pass adds up with atomics."""
    added: bool = False
    """The residual is added in the norm."""
    streams: bool = False
    """The last part stands between several residual streams."""


KINDS = (
    Kind(RMSNorm, lambda size: Gated(size, liger.liger_swiglu), added=True),
    Kind(RMSNorm, lambda size: Gated(size, liger.liger_geglu), normed_heads=True),
    Kind(LayerNorm, Squared, attend=lambda size: by_scores),
    Kind(DyT, Polynomial, grouped=True),
    Kind(RMSNorm, lambda size: Gated(size, liger.liger_swiglu), turn=by_pairs, streams=True),
    Kind(RMSNorm, lambda size: Gated(size, liger.liger_swiglu), turn=by_sections, attend=lambda size: sparsely),
    Kind(Modulated, lambda size: Gated(size, liger.liger_geglu), attend=lambda size: nearby),
    Kind(LayerNorm, lambda size: Gated(size, liger.liger_swiglu) if size.dense else Mixture(size), attend=Sharing),
)
"""Like Llama; like Gemma 3; like Nemotron; like Llama 4, with hyper-connections; like Qwen2-VL; like a transformer of
pictures; and what else the library has, with a mixture of experts."""


class Attention(nn.Module):
    def __init__(self, size: Size, kind: Kind) -> None:
        super().__init__()
        self.size, self.kind, self.width = size, kind, size.hidden // size.heads
        self.q, self.o = drawn(size.hidden, size.hidden), drawn(size.hidden, size.hidden)
        self.k, self.v = (drawn(size.kv_heads * self.width, size.hidden) for _ in range(2))
        self.attend = kind.attend(size)
        if kind.normed_heads:
            self.q_norm, self.k_norm = RMSNorm(self.width), RMSNorm(self.width)
        if kind.grouped:
            self.scale, self.shift = nn.Parameter(torch.ones(size.hidden)), nn.Parameter(torch.zeros(size.hidden))

    def _heads(self, x: Tensor, weight: Tensor, heads: int) -> Tensor:
        return (x @ weight.T).view(*x.shape[:2], heads, self.width)

    def forward(self, x: Tensor, angles: Turn) -> Tensor:
        size = self.size
        q, k = self._heads(x, self.q, size.heads), self._heads(x, self.k, size.kv_heads)
        if self.kind.normed_heads:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k = self.kind.turn(q, k, angles)
        v = self._heads(x, self.v, size.kv_heads).transpose(1, 2)
        k, v = (one.repeat_interleave(size.heads // size.kv_heads, dim=1) for one in (k, v))
        found = self.attend(q, k, v).transpose(1, 2).reshape(x.shape)
        if self.kind.grouped:
            flat, scale, shift = found.view(-1, size.hidden, 1).float(), self.scale.float(), self.shift.float()
            normed = liger.liger_group_norm(flat, scale, shift, size.hidden, size.heads, EPS)
            found = normed.view(x.shape).to(x.dtype)
        return found @ self.o.T


class Layer(nn.Module):
    def __init__(self, size: Size, kind: Kind) -> None:
        super().__init__()
        self.added = kind.added
        self.before, self.between = kind.norm(size.hidden), kind.norm(size.hidden)
        self.attention, self.mlp = Attention(size, kind), kind.mlp(size)
        self.streams = Streams(size, nn.Sequential(self.between, self.mlp)) if kind.streams else None

    def forward(self, x: Tensor, angles: Turn) -> Tensor:
        found = self.attention(self.before(x), angles)
        if self.streams is not None:
            return self.streams(x + found)
        if self.added:
            y, x = liger.liger_fused_add_rms_norm(found, x, self.between.weight, EPS)
        else:
            x = x + found
            y = self.between(x)
        return x + self.mlp(y)


class Decoder(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.words = drawn(size.vocabulary, size.hidden)
        self.layers = nn.ModuleList(Layer(size, KINDS[i % len(KINDS)]) for i in range(size.layers))
        self.asks, self.keys = drawn(size.hidden), nn.Parameter(torch.ones(size.hidden))
        self.last = RMSNorm(size.hidden)
        self.head, self.ahead = (drawn(size.vocabulary, size.hidden) for _ in range(2))
        width, tokens = size.hidden // size.heads, torch.arange(size.tokens)
        turns = torch.outer(tokens, 10000.0 ** (-torch.arange(0, width, 2) / width)).repeat(1, 2)[None]
        self.register_buffer("cos", turns.cos())
        self.register_buffer("sin", turns.sin())

    def forward(self, words: Tensor) -> Tensor:
        left = [embedding(words, self.words)]
        for layer in self.layers:
            left.append(layer(left[-1], (self.cos, self.sin)))
        return self.last(liger.liger_attn_res(torch.stack(left), self.asks, self.keys))


class Teacher(nn.Module):
    """Frozen, and knows of one word which come next."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        width = max(16, size.hidden // 8)
        self.words, self.head = drawn(size.vocabulary, width), drawn(size.vocabulary, width)

    def forward(self, words: Tensor) -> Tensor:
        return (embedding(words, self.words) @ self.head.T).flatten(0, 1) * self.head.shape[-1] ** 0.5


def ahead(words: Tensor, by: int) -> Tensor:
    """The word that comes so many places later, where there is one."""
    found = torch.full_like(words, IGNORED)
    found[:, :-by] = words[:, by:]
    return found.flatten()


def losses(model: Decoder, teacher: Teacher, words: Tensor) -> dict[str, Tensor]:
    hidden = model(words).flatten(0, 1)
    with torch.no_grad():
        taught = log_softmax(teacher(words), dim=-1)
    logits = hidden @ model.head.T
    learned = log_softmax(logits, dim=-1)
    wide = torch.float32  # the head's gradient is added up in it, as in the library's own convergence tests
    return {
        "next": liger.liger_fused_linear_cross_entropy(hidden, model.head, ahead(words, 1), accum_dtype=wide),
        "after": liger.liger_cross_entropy(hidden @ model.ahead.T, ahead(words, 2)),
        "jsd": liger.liger_jsd(learned, taught),
        "kl": liger.liger_kl_div(learned, taught, reduction="batchmean", log_target=True),
        "tvd": liger.liger_tvd(liger.liger_softmax(logits), taught.exp(), reduction="batchmean"),
        "fused_jsd": liger.liger_fused_linear_jsd(
            hidden, model.head, embedding(words, teacher.words).flatten(0, 1), teacher.head, accum_dtype=wide
        ),
        "fused_kl": liger.liger_fused_linear_kl_div(hidden, model.head, taught.exp(), accum_dtype=wide),
    }


def total(found: dict[str, Tensor]) -> Tensor:
    return torch.stack([SHARES[name] * loss.float() for name, loss in found.items()]).sum()
