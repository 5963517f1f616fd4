"""The table of sizes: what each kernel with a recipe is scored on, and the small cases on which it is checked.

Scored sizes are those of models that use the kernel, and those on which stock Liger-Kernel was measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Pass = Literal["forward", "backward"]
Size = tuple[int, ...]
PASSES: tuple[Pass, ...] = ("forward", "backward")

# Tails on both sides of a power of two, one column, one row, and a row count that no tile divides.
SHOWN: tuple[Size, ...] = ((1, 128), (3, 100), (4, 256), (2, 1), (16, 96), (3, 1000))
HIDDEN: tuple[Size, ...] = ((1, 1), (5, 17), (7, 255), (2, 257))
QUICK: tuple[Size, ...] = ((3, 100), (4, 256))
HALF: Size = (16, 129)
MANY_ROWS: tuple[Pass, Size] = ("backward", (66, 3))


@dataclass(frozen=True, slots=True)
class Sizes:
    """One kernel's sizes. A check costs the interpreter about 1.5 ms a row and pass, so rows are few."""

    scored: tuple[Size, ...]
    """The first is the quick suite's."""
    wide: Size
    in_liger: tuple[Size, ...] = ()
    """Scored besides in Liger-Kernel itself, where stock kernels were measured on them. Another library's may be made
    for other rows."""
    wide_half: Size | None = (2, 2049)
    """A row of half precision over which sums overflow and small terms vanish. None, as `half` then is, where the stock
    op itself is lost in half precision."""
    tall: tuple[Pass, Size] | None = None
    """One pass over so many rows that a program of a chip with few processors takes more than 64 of them."""
    in_place: tuple[str, ...] = ()
    """What the backward pass of the stock op in Liger-Kernel 0.8.5 writes into; `d` before a name is its gradient."""
    in_place_forward: tuple[str, ...] = ()
    """And its forward pass."""
    names: tuple[str, ...] = ("rows", "cols")
    shown: tuple[Size, ...] = SHOWN
    hidden: tuple[Size, ...] = HIDDEN
    """Nobody is told these: at least a quarter of the checks in float32."""
    quick: tuple[Size, ...] = QUICK
    """Part of what is shown."""
    half: Size | None = HALF
    loss: bool = False
    """Its result is one number, so its backward pass is scored with a gradient that is 1 and with one that is not."""


LINEAR: Any = {
    "names": ("rows", "hidden", "cols"),
    "shown": ((1, 16, 32), (3, 20, 50), (4, 32, 64), (2, 8, 2), (8, 24, 40), (3, 12, 100)),
    "hidden": ((1, 1, 2), (5, 7, 17), (7, 33, 63), (2, 15, 65)),
    "quick": ((3, 20, 50), (4, 32, 64)),
    "half": (8, 24, 33),
    "wide": (1, 16, 260),
    "wide_half": (2, 16, 130),
    "loss": True,
}
"""A projection onto a vocabulary, and a loss of what comes of it. Stock kernels scale the gradient of the weight with a
program a class, so classes are few where each program is interpreted."""

SIZES: dict[str, Sizes] = {
    # Vocabularies of Llama 2 and Llama 3. The stock kernel takes 32768 columns a step, and leaves the gradient in the
    # memory of the logits.
    "cross_entropy": Sizes(
        scored=((2048, 32000), (512, 128256), (2048, 4096), (4096, 32000), (2048, 128256)),
        wide=(1, 33000),
        in_place=("_input",),
        in_place_forward=("_input",),
        loss=True,
    ),
    # Where a norm was: hidden sizes.
    "dyt": Sizes(scored=((4096, 4096), (8192, 1024), (2048, 8192), (8192, 4096)), wide=(1, 5000), tall=MANY_ROWS),
    # Hidden sizes of OPT and Falcon models; many short rows; few long ones.
    "layer_norm": Sizes(
        scored=((4096, 4096), (8192, 1024), (2048, 8192), (8192, 4096)), wide=(1, 17000), tall=MANY_ROWS
    ),
    # Hidden sizes of Llama and Qwen models; many short rows; few long ones.
    "rms_norm": Sizes(
        scored=((4096, 4096), (8192, 1024), (2048, 8192), (8192, 4096)),
        wide=(1, 5000),
        tall=MANY_ROWS,
        in_place=("dY",),
    ),
    # Intermediate sizes of Llama 3 8B and Llama 2 7B.
    # One element more than 64 blocks of 2048.
    "geglu": Sizes(
        scored=((2048, 14336), (4096, 4096), (1024, 11008), (4096, 14336)), wide=(3, 43691), in_place=("a", "b")
    ),
    # Two rows more than tiles of 2, 4, 8 or 16 rows can share out, and many enough that somebody would use them.
    # The wide row is one that a kernel may walk in blocks rather than hold.
    "softmax": Sizes(
        scored=((4096, 4096), (1024, 32000), (8192, 1024)),
        in_liger=((4096, 32000), (1024, 65536)),
        wide=(1, 17000),
        tall=("forward", (514, 2)),
    ),
    # Vocabularies of Llama 2 and Llama 3; 256 rows keep the loss matrix of the second at 131 MB.
    # The stock kernel takes 16384 columns a step, so a narrower row would never show what its second step does; the
    # widest is beyond what one program of most kernels can hold.
    "jsd": Sizes(
        scored=((1024, 32000), (256, 128256), (2048, 4096), (4096, 32000), (8192, 32000)),
        wide=(2, 66000),
        wide_half=(2, 17000),
        loss=True,
    ),
    # Hidden sizes of Llama and Qwen models.
    "fused_add_rms_norm": Sizes(
        scored=((4096, 4096), (8192, 1024), (2048, 8192), (8192, 4096)), wide=(1, 5000), tall=MANY_ROWS
    ),
    # Sums of sixth powers overflow half precision, in which the stock kernel adds them.
    "poly_norm": Sizes(
        scored=((4096, 4096), (8192, 1024), (2048, 8192), (8192, 4096)),
        wide=(1, 5000),
        tall=MANY_ROWS,
        in_place=("dY",),
        half=None,
        wide_half=None,
    ),
    # Intermediate sizes of Llama 3 8B and Llama 2 7B.
    "swiglu": Sizes(
        scored=((2048, 14336), (4096, 4096), (1024, 11008), (4096, 14336)), wide=(3, 43691), in_place=("a", "b")
    ),
    "relu_squared": Sizes(scored=((2048, 14336), (4096, 4096), (1024, 11008), (8192, 14336)), wide=(3, 43691)),
    # Vocabularies of Llama 2 and Llama 3. The stock kernels take 16384 columns a step.
    "kl_div": Sizes(
        scored=((1024, 32000), (256, 128256), (2048, 4096), (4096, 32000)),
        wide=(2, 33000),
        wide_half=(2, 17000),
        loss=True,
    ),
    "tvd": Sizes(
        scored=((1024, 32000), (256, 128256), (2048, 4096), (4096, 32000)),
        wide=(2, 33000),
        wide_half=(2, 17000),
        loss=True,
    ),
    "sparsemax": Sizes(scored=((2048, 4096), (1024, 32000), (8192, 1024)), wide=(1, 5000)),
    # Images of few large and of many small groups; one channel a group, and all channels in one.
    "group_norm": Sizes(
        scored=((16, 32, 4, 1024), (16, 32, 16, 4096), (128, 32, 4, 512)),
        names=("batch", "groups", "each", "length"),
        shown=((1, 2, 2, 64), (1, 3, 1, 100), (2, 2, 3, 5), (1, 1, 4, 128), (3, 1, 1, 1), (2, 8, 2, 33)),
        hidden=((1, 1, 1, 2), (1, 5, 3, 17), (3, 2, 1, 255), (1, 2, 1, 257)),
        quick=((1, 3, 1, 100), (1, 1, 4, 128)),
        half=(2, 8, 3, 43),
        wide=(1, 1, 2, 8200),
        wide_half=(1, 2, 3, 683),
    ),
    # Eight to sixteen blocks of a model, hidden sizes of Llama models.
    "attn_res": Sizes(
        scored=((8, 2048, 4096), (16, 4096, 1024), (4, 2048, 8192)),
        names=("blocks", "rows", "cols"),
        shown=((2, 1, 128), (4, 3, 100), (3, 4, 256), (1, 2, 1), (5, 16, 96), (2, 3, 1000)),
        hidden=((1, 1, 1), (7, 5, 17), (2, 7, 255), (9, 2, 257)),
        quick=((4, 3, 100), (3, 4, 256)),
        half=(3, 16, 129),
        wide=(2, 1, 5000),
        wide_half=(2, 2, 2049),
    ),
    # Llama 3 8B: 32 heads that share 8 keys; one long sequence; heads of 64.
    "rope": Sizes(
        scored=((2, 4096, 8, 4, 128), (1, 8192, 8, 4, 128), (4, 1024, 8, 4, 64)),
        names=("batch", "length", "kv", "group", "head"),
        shown=(
            (1, 1, 1, 1, 16),
            (2, 3, 1, 2, 8),
            (1, 5, 2, 2, 12),
            (1, 4, 1, 1, 64),
            (1, 2, 2, 1, 6),
            (3, 2, 1, 3, 128),
        ),
        hidden=((1, 1, 1, 1, 2), (2, 2, 1, 5, 10), (1, 7, 3, 1, 34), (1, 3, 1, 2, 66)),
        quick=((2, 3, 1, 2, 8), (1, 4, 1, 1, 64)),
        half=(2, 8, 1, 2, 34),
        wide=(1, 1, 3, 4, 256),
        wide_half=(1, 2, 2, 4, 256),
        in_place=("dq_turned", "dk_turned"),
        in_place_forward=("q", "k"),
    ),
    # Llama 4: 40 heads that share 8 keys; the numbers of a head come in pairs.
    "llama4_rope": Sizes(
        scored=((2, 4096, 8, 5, 64), (1, 8192, 8, 5, 64), (4, 1024, 8, 4, 32)),
        names=("batch", "length", "kv", "group", "half"),
        shown=((1, 1, 1, 1, 8), (2, 3, 1, 2, 4), (1, 5, 2, 2, 6), (1, 4, 1, 1, 32), (1, 2, 2, 1, 3), (3, 2, 1, 3, 64)),
        hidden=((1, 1, 1, 1, 1), (2, 2, 1, 5, 5), (1, 7, 3, 1, 17), (1, 3, 1, 2, 33)),
        quick=((2, 3, 1, 2, 4), (1, 4, 1, 1, 32)),
        half=(2, 8, 1, 2, 17),
        wide=(1, 1, 3, 4, 128),
        wide_half=(1, 2, 2, 4, 128),
        in_place=("dq_turned", "dk_turned"),
        in_place_forward=("q", "k"),
    ),
    # Qwen2-VL 7B: 28 heads that share 4 keys; a head is 16 units.
    "qwen2vl_mrope": Sizes(
        scored=((2, 4096, 4, 7, 8), (1, 8192, 4, 7, 8), (4, 1024, 2, 6, 8)),
        names=("batch", "length", "kv", "group", "unit"),
        shown=((1, 1, 1, 1, 1), (2, 3, 1, 2, 1), (1, 5, 2, 2, 3), (1, 4, 1, 1, 4), (1, 2, 2, 1, 2), (3, 2, 1, 3, 8)),
        hidden=((1, 1, 1, 1, 2), (2, 2, 1, 5, 1), (1, 7, 3, 1, 5), (1, 3, 1, 2, 9)),
        quick=((2, 3, 1, 2, 1), (1, 4, 1, 1, 4)),
        half=(2, 8, 1, 2, 3),
        wide=(1, 1, 3, 4, 16),
        wide_half=(1, 2, 2, 4, 16),
        in_place=("dq_turned", "dk_turned"),
        in_place_forward=("q", "k"),
    ),
    # Latents and hidden sizes of diffusion transformers; one modulation a sequence.
    "modulated_rms_norm": Sizes(
        scored=((4, 1024, 1152), (2, 4096, 3072), (16, 256, 1536)),
        names=("batch", "length", "cols"),
        shown=((1, 1, 128), (3, 1, 100), (2, 2, 256), (1, 2, 1), (4, 4, 96), (1, 3, 1000)),
        hidden=((1, 1, 1), (1, 5, 17), (7, 1, 255), (2, 1, 257)),
        quick=((3, 1, 100), (2, 2, 256)),
        half=(2, 8, 129),
        wide=(1, 1, 5000),
        wide_half=(1, 2, 2049),
        tall=("backward", (2, 33, 3)),
        in_place=("dY",),
    ),
    # The stock kernel masks a matrix a program, which longer sequences are not compiled for.
    "multi_token_attention": Sizes(
        scored=((8, 16, 128), (4, 16, 256), (32, 4, 128)),
        names=("batch", "channels", "length"),
        shown=((1, 1, 2), (1, 2, 3), (2, 1, 4), (1, 1, 8), (1, 3, 5), (2, 2, 4)),
        hidden=((1, 1, 1), (1, 1, 7), (1, 2, 6), (1, 1, 9)),
        quick=((1, 2, 3), (2, 1, 4)),
        half=(1, 1, 15),
        wide=(1, 1, 16),
        wide_half=(1, 1, 13),
    ),
    # Qwen3-30B-A3B with an eighth to a half of its experts, with many tokens each and with few. In its widths alone, as
    # the stock kernels tune themselves for each pair of widths, 240 configurations at a time. They take 64 tokens of an
    # expert and 64 columns or more a program, and sort 1024 indices at once.
    "fused_moe": Sizes(
        scored=((4096, 8, 4, 2048, 768), (1024, 8, 8, 2048, 768), (8192, 8, 2, 2048, 768)),
        names=("tokens", "each", "spread", "cols", "inner"),
        shown=((1, 1, 1, 16, 8), (3, 2, 2, 20, 15), (4, 1, 3, 32, 16), (5, 3, 2, 2, 3)),
        hidden=((1, 1, 2, 1, 1), (7, 2, 3, 65, 33), (2, 3, 1, 31, 130)),
        quick=((3, 2, 2, 20, 15), (4, 1, 3, 32, 16)),
        half=(8, 2, 2, 33, 16),
        wide=(1, 2, 2, 130, 40),
        wide_half=(2, 2, 1, 70, 24),
        tall=("backward", (140, 8, 2, 5, 4)),
    ),
    # Four streams, as in the library's own benchmark, and hidden sizes of Llama and Qwen models. The stock kernels take
    # 32 rows a program; 66 of them show what the third adds. Programs of 64 or 128 columns add to one sum in any order,
    # which nobody can tell of two of them: columns are 64 at most or three programs' worth, lest a right kernel of
    # smaller blocks be refused for an order that shows. The steps of coefficients along a row are unrolled, which four
    # times 4096 columns would compile for a minute. So are pairs of streams in post_res: its backward pass keeps a
    # compiler busy for 1 s with one stream, 3 s with two, 8 s with four and 74 s with eight, anew for each width. Eight
    # are checked in the two others alone, and half of its own shapes have four.
    **{
        kernel: Sizes(
            scored=((4, 1024, 4, 2048), (2, 4096, 4, 1024), last),
            names=("batch", "length", "streams", "cols"),
            shown=((1, 1, most, 32), (3, 1, 2, 50), (1, 4, 4, 64), (1, 2, 1, 1), (4, 4, 2, 24), (1, 3, most, 300)),
            hidden=((1, 1, 1, 1), (1, 5, 4, 17), (7, 1, 2, 63), (2, 1, 2 * most, 257)),
            quick=((3, 1, 2, 50), (1, 4, 4, 64)),
            half=(2, 4, 4, 33),
            wide=(1, 1, 4, 1300),
            wide_half=(1, 2, 4, 513),
            tall=("backward", (2, 33, 1, 3)),
        )
        for kernel, last, most in (
            ("mhc_coeffs", (1, 4096, 4, 1536), 4),
            ("mhc_post_res", (1, 2048, 4, 4096), 2),
            ("mhc_pre", (1, 2048, 4, 4096), 4),
        )
    },
    # Llama 3.2 1B, Llama 3 8B and Qwen3 0.6B. Widths are eighths: the copy engine takes rows of whole 16 bytes. Stock
    # kernels take 64 or 128 rows, 128 columns and as many numbers a step, or half; more than one of each shows in
    # some. The blocks of 1030 rows come in groups of eight, of which the last has one: every scored size fills all of
    # its groups. They write the gradients of gate and up over what the forward pass saved of them.
    "mlp": Sizes(
        scored=((1, 2048, 256, 1024), (1, 1024, 512, 1792), (4, 1024, 128, 384)),
        names=("batch", "length", "wide", "inner"),
        shown=((1, 1, 16, 8), (3, 2, 5, 7), (2, 4, 8, 17), (1, 3, 1, 1), (4, 1, 17, 3)),
        hidden=((1, 5, 1, 2), (2, 7, 9, 33), (3, 2, 31, 2)),
        quick=((3, 2, 5, 7), (2, 4, 8, 17)),
        half=(2, 8, 7, 5),
        wide=(1, 2, 40, 5),
        wide_half=(1, 2, 6, 34),
        tall=("backward", (1, 1030, 1, 17)),
    ),
    "fused_neighborhood_attention": Sizes(
        scored=((2, 8, 1024, 64), (1, 16, 2048, 128), (8, 4, 256, 32)),
        names=("batch", "heads", "length", "head"),
        shown=((1, 1, 8, 16), (1, 2, 5, 20), (2, 1, 7, 32), (1, 1, 2, 4), (1, 1, 16, 24), (1, 1, 3, 128)),
        hidden=((1, 1, 1, 1), (1, 2, 8, 17), (1, 1, 15, 31), (2, 1, 6, 33)),
        quick=((1, 2, 5, 20), (2, 1, 7, 32)),
        half=(2, 2, 4, 40),
        wide=(1, 1, 9, 256),
        wide_half=(1, 1, 11, 72),
    ),
    # Hidden sizes and vocabularies of Llama 2 7B and of smaller models.
    "fused_linear_cross_entropy": Sizes(
        scored=((2048, 2048, 32000), (4096, 1024, 32000), (1024, 4096, 8192)), **LINEAR
    ),
    "fused_linear_jsd": Sizes(scored=((1024, 2048, 32000), (2048, 1024, 8192), (512, 4096, 32000)), **LINEAR),
    "fused_linear_kl_div": Sizes(scored=((1024, 2048, 32000), (2048, 1024, 8192), (512, 4096, 32000)), **LINEAR),
    # Completions of the library's own benchmark, and one of a Qwen model, whose vocabulary is wider. The stock kernels
    # take 2048 columns a step forward and 4096 backward.
    "grpo_loss": Sizes(
        scored=((4, 512, 32000), (16, 512, 32000), (1, 1024, 151936)),
        names=("batch", "length", "cols"),
        shown=((1, 1, 128), (3, 2, 100), (3, 1, 256), (2, 4, 96), (1, 2, 1000)),
        hidden=((1, 2, 1), (3, 1, 17), (2, 2, 255), (3, 1, 257)),
        quick=((3, 2, 100), (3, 1, 256)),
        half=(2, 2, 129),
        wide=(2, 1, 4200),
        wide_half=(1, 2, 4107),
        loss=True,
    ),
}
