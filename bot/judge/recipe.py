"""What the judge must know of a kernel: its arguments, its outputs, and the mathematics it stands for."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bot.worker.contract import Layout

Plain = None | bool | int | float | str
Constants = dict[str, Plain]
Fill = Literal["signal", "weight", "log_probability", "labels"]


@dataclass(frozen=True)
class Operand:
    """A tensor argument. Its dimensions are names of sizes of the case; "1" is one."""

    name: str
    dims: tuple[str, ...]
    fill: Fill = "signal"
    grad: bool = True
    strangers: bool = False
    """Labels: whether some are no class without being ignored. Only where nobody looks up what they name."""


@dataclass(frozen=True)
class Constant:
    """An argument that is no tensor; the mode gives its value."""

    name: str


@dataclass(frozen=True)
class Output:
    name: str
    dims: tuple[str, ...]


Mode = Callable[[random.Random], Constants]
"""Draws the constants of one check. A tensor operand that it sets to None is left out."""
Reference = Callable[[Mapping[str, Any], Constants], tuple[Any, ...]]
"""(float64 tensors by name, constants) -> the outputs, in float64."""


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

    @property
    def operands(self) -> tuple[Operand, ...]:
        return tuple(a for a in self.arguments if isinstance(a, Operand))
