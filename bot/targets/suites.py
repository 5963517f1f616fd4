"""The table of suites: what is scored, and the small cases on which correctness is decided.

Sizes of a case are called as the recipe of its kernel calls them: rows and cols.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bot.model.measurement import Case, Suite

Pass = Literal["forward", "backward"]
Size = tuple[int, int]
PASSES: tuple[Pass, ...] = ("forward", "backward")


@dataclass(frozen=True, slots=True)
class Sizes:
    """One kernel's sizes. A check costs the interpreter about 1.5 ms a row and pass, so rows are few."""

    scored: tuple[Size, ...]
    """The first is the quick suite's."""
    wide: Size
    wide_half: Size = (2, 2049)
    """A row of half precision over which sums overflow and small terms vanish."""
    tall: tuple[Pass, Size] | None = None
    """One pass over so many rows that a program of a chip with few processors takes more than 64 of them."""
    in_place: tuple[str, ...] = ()
    """What the backward pass of the stock op in Liger-Kernel 0.8.5 writes into; `d` before a name is its gradient."""


# Tails on both sides of a power of two, one column, one row, and a row count that no tile divides.
SHOWN: tuple[Size, ...] = ((1, 128), (3, 100), (4, 256), (2, 1), (16, 96), (3, 1000))
HIDDEN: tuple[Size, ...] = ((1, 1), (5, 17), (7, 255), (2, 257))
QUICK: tuple[Size, ...] = ((3, 100), (4, 256))
HALF: Size = (16, 129)
MANY_ROWS: tuple[Pass, Size] = ("backward", (66, 3))

SIZES: dict[str, Sizes] = {
    # Vocabularies of Llama 2 and Llama 3. The stock kernel takes 32768 columns a step, and leaves the gradient in the
    # memory of the logits.
    "cross_entropy": Sizes(scored=((2048, 32000), (512, 128256), (2048, 4096)), wide=(1, 33000), in_place=("_input",)),
    # Where a norm was: hidden sizes.
    "dyt": Sizes(scored=((4096, 4096), (8192, 1024), (2048, 8192)), wide=(1, 5000), tall=MANY_ROWS),
    # Hidden sizes of OPT and Falcon models; many short rows; few long ones.
    "layer_norm": Sizes(scored=((4096, 4096), (8192, 1024), (2048, 8192)), wide=(1, 17000), tall=MANY_ROWS),
    # Hidden sizes of Llama and Qwen models; many short rows; few long ones.
    "rms_norm": Sizes(
        scored=((4096, 4096), (8192, 1024), (2048, 8192)), wide=(1, 5000), tall=MANY_ROWS, in_place=("dY",)
    ),
    # Intermediate sizes of Llama 3 8B and Llama 2 7B.
    # One element more than 64 blocks of 2048.
    "geglu": Sizes(scored=((2048, 14336), (4096, 4096), (1024, 11008)), wide=(3, 43691), in_place=("a", "b")),
    # Two rows more than tiles of 2, 4, 8 or 16 rows can share out, and many enough that somebody would use them.
    # The wide row is one that a kernel may walk in blocks rather than hold.
    "softmax": Sizes(scored=((4096, 4096), (1024, 32000), (8192, 1024)), wide=(1, 17000), tall=("forward", (514, 2))),
    # Vocabularies of Llama 2 and Llama 3; 256 rows keep the loss matrix of the second at 131 MB.
    # The stock kernel takes 16384 columns a step, so a narrower row would never show what its second step does; the
    # widest is beyond what one program of most kernels can hold.
    "jsd": Sizes(scored=((1024, 32000), (256, 128256), (2048, 4096)), wide=(2, 66000), wide_half=(2, 17000)),
}


def _case(
    direction: Pass, size: Size, dtype: Literal["float32", "float16", "bfloat16"], of: Sizes, hidden: bool = False
) -> Case:
    rows, cols = size
    return Case(
        id=f"{direction}-{rows}x{cols}-{dtype}",
        direction=direction,
        shape=(("rows", rows), ("cols", cols)),
        dtype=dtype,
        in_place=of.in_place if direction == "backward" else (),
        hidden=hidden,
    )


def _full(of: Sizes) -> Suite:
    cases = [_case(direction, size, "bfloat16", of) for size in of.scored for direction in PASSES]
    checks = [_case(direction, size, "float32", of) for size in (*SHOWN, of.wide) for direction in PASSES]
    checks += [_case(direction, size, "float32", of, hidden=True) for size in HIDDEN for direction in PASSES]
    checks += [_case(direction, size, "float16", of) for size in (HALF, of.wide_half) for direction in PASSES]
    checks += [_case(*of.tall, "float32", of)] if of.tall else []
    return Suite(name="full", cases=tuple(cases), checks=tuple(checks))


def _quick(of: Sizes) -> Suite:
    cases = tuple(_case(direction, of.scored[0], "bfloat16", of) for direction in PASSES)
    checks = tuple(_case(direction, size, "float32", of) for size in QUICK for direction in PASSES)
    return Suite(name="quick", cases=cases, checks=checks)


def suite_of(kernel: str, name: Literal["quick", "full"] = "full") -> Suite:
    return _full(SIZES[kernel]) if name == "full" else _quick(SIZES[kernel])
