"""What the judge must know of a kernel: its arguments, its outputs, and the mathematics it stands for."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bot.worker.contract import Layout

Plain = None | bool | int | float | str | tuple[int, ...]
Constants = dict[str, Plain]
Fill = Literal[
    "signal",
    "weight",
    "projection",
    "probability",
    "log_probability",
    "labels",
    "halves",
    "turned_projection",
    "routing",
]
"""Numbers of any size; about 1; a matrix that leaves the size of what it is multiplied with as it is; rows that are
distributions, or the logarithms of such; classes, some of them ignored where the op has an `ignore_index`; the cosines
or sines of a rotation, whose two halves are the same; such a matrix with a row for each number that goes in;
classes, in each row no two alike."""


def parts(dim: str) -> tuple[tuple[str, ...], ...]:
    """The sizes and numbers of a dimension: what is added, each a product."""
    return tuple(tuple(product.split("*")) for product in dim.split("+"))


def extent(sizes: Mapping[str, int], dim: str) -> int:
    """A dimension: a size of the case by name, a number, a product of these, `groups*each`, or a sum, `length+1`."""
    return sum(math.prod(int(part) if part.isdecimal() else sizes[part] for part in product) for product in parts(dim))


Following = Callable[[Mapping[str, Any], Constants, Any], Any]
"""(the other tensors by name, in float64; constants; torch's generator) -> values."""


@dataclass(frozen=True)
class Operand:
    """A tensor argument. Its dimensions are sizes of the case, see `extent`."""

    name: str
    dims: tuple[str, ...]
    fill: Fill = "signal"
    grad: bool = True
    strangers: bool = False
    """Labels: whether some are no class without being ignored. Only where nobody looks up what they name."""
    otherwise: tuple[str, Plain, Fill] | None = None
    """(constant, value, fill): what it holds instead where a mode gives that constant that value."""
    classes: str = "cols"
    """Labels: how many there are, as a dimension."""
    layout: Layout = "dense"
    """How callers hand it over."""
    dtype: str = ""
    """Of its own, where it is not the case's."""
    follows: Following | None = None
    """What a check fills it with once all others are drawn, where its values are only of use beside theirs."""
    one_in: int = 1
    """No pass has to read more than one in so many of its numbers."""

    def filled(self, constants: Constants) -> Fill:
        if self.otherwise is not None and constants.get(self.otherwise[0]) == self.otherwise[1]:
            return self.otherwise[2]
        return self.fill


@dataclass(frozen=True)
class Constant:
    """An argument that is no tensor; the mode gives its value."""

    name: str
    size: str | tuple[str, ...] = ""
    """The dimension that it repeats, or several, as some ops want to be told; then no mode gives it."""


@dataclass(frozen=True)
class Output:
    name: str
    dims: tuple[str, ...]
    layout: Layout = "dense"
    """How its gradient arrives."""
    dtype: str = ""
    """Of its own, where it is not the case's."""


Mode = Callable[[random.Random], Constants]
"""Draws the constants of one check. A tensor operand that it sets to None is left out."""
Reference = Callable[[Mapping[str, Any], Constants], tuple[Any, ...]]
"""(float64 tensors by name, constants) -> the outputs, in float64; None where the op returns None."""


@dataclass(frozen=True)
class Recipe:
    arguments: tuple[Operand | Constant, ...]
    """In the order the op takes them."""
    outputs: tuple[Output, ...]
    stock: Constants
    """The constants of the scored cases: what callers use."""
    modes: tuple[Mode, ...]
    reference: Reference
    forward_traffic: tuple[str, ...]
    """Operands read and outputs written by any forward pass, each once, however it is built."""
    backward_traffic: tuple[str, ...]
    """The same for the backward pass; `d` before a name is its gradient."""
    stacks: bool = False
    """Whether callers also hand over rows in several dimensions: batch, sequence, columns."""
    layouts: tuple[Layout, ...] = ("dense",)
    """How matrices may lie in memory when callers hand them over."""
    optional: int = 0
    """How many arguments at the end callers may leave out; `stock` has what they then are."""
    types: tuple[str, ...] = ("float16", "bfloat16", "float32")
    """In which the op is any good."""
    rows: str = "rows"
    """The dimension of which a kernel that takes a row a program starts one each."""
    cols: str = "cols"
    """The dimension that such a program walks."""
    powers: tuple[str, ...] = ()
    """Sizes of which the op can do with powers of two alone."""
    evens: tuple[str, ...] = ()
    """Sizes that the op cuts in half."""
    bounded: tuple[str, ...] = ()
    """Sizes beyond the most of which that is scored the stock op keeps a compiler busy for minutes."""
    tuned: tuple[str, ...] = ()
    """Sizes for which the stock kernels tune themselves, for minutes: what a clock reads has those of a scored case."""
    on_the_way: tuple[tuple[str, ...], ...] = ()
    """Dimensions of what the reference makes and does not hand over, where that is the larger part: scores of each
    position with each other."""
    infers: bool = False
    """Whether the op has a kernel of its own for whoever wants no gradient: no other forward pass launches it."""
    compares: bool = False
    """Whether the op compares its inputs with each other: where two are equal the last bit of an input decides, so the
    rounding that the judge allows for begins after them."""

    @property
    def operands(self) -> tuple[Operand, ...]:
        return tuple(a for a in self.arguments if isinstance(a, Operand))

    @property
    def comes_ready(self) -> bool:
        """Whether the forward pass writes every gradient that the backward pass does: where the gradient of the loss
        is 1, all that is left is to hand them out."""
        written = {f"d{o.name}" for o in self.operands} & set(self.backward_traffic)
        return bool(written) and written <= set(self.forward_traffic)
