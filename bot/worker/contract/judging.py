"""What bench and judge say to each other, one JSON object a line over the judge's pipes."""

from __future__ import annotations

import dataclasses
from typing import Literal

from bot.worker.contract.calls import Call


@dataclasses.dataclass(frozen=True)
class Shape:
    """A case as the judge sees it: nothing of the target but its numbers."""

    id: str
    direction: Literal["forward", "backward", "full"]
    sizes: tuple[tuple[str, int], ...]
    dtype: str
    grad: Literal["drawn", "one"] = "drawn"
    """What arrives at a scalar output in the backward pass."""


@dataclasses.dataclass(frozen=True)
class PlanRequest:
    do: Literal["plan"]
    kernel: str
    cases: tuple[Shape, ...]
    checks: tuple[Shape, ...]
    seed: int
    folder: str
    """Where the inputs of the checks are written."""
    gpu: str = ""
    """UUID of the GPU that the checks run on and that is timed; empty under the interpreter."""


@dataclasses.dataclass(frozen=True)
class UnseenRequest:
    do: Literal["unseen"]
    kernel: str
    cases: tuple[Shape, ...]
    seed: int
    count: int


@dataclasses.dataclass(frozen=True)
class UnseenSizes:
    """Sizes between half the least and twice the most of what is scored, and no more in all than the most of that."""

    sizes: tuple[tuple[tuple[str, int], ...], ...]


@dataclasses.dataclass(frozen=True)
class CasePlan:
    call: Call
    minimum_bytes: int


@dataclasses.dataclass(frozen=True)
class UnseenCase:
    shape: Shape
    call: Call


@dataclasses.dataclass(frozen=True)
class Plan:
    cases: tuple[CasePlan, ...]
    checks: tuple[Call, ...]
    skipped: tuple[tuple[str, str], ...]
    """Checks that are not run here, each with the reason."""
    draws: tuple[Call, ...] = ()
    """Further draws of some checks, which the untouched kernel alone is asked for, once a variant fails without."""
    fills: tuple[tuple[str, str], ...] = ()
    """What kind of values each operand holds."""
    unseen: tuple[UnseenCase, ...] = ()
    """Sizes that nobody named, for a GPU's clock: recorded beside the cases, and no part of a score."""
    tuned: tuple[str, ...] = ()
    """Sizes for which its kernels are known to tune themselves: the unseen have them as a scored case has."""


@dataclasses.dataclass(frozen=True)
class PrepareRequest:
    do: Literal["prepare"]


@dataclasses.dataclass(frozen=True)
class Prepared:
    blobs: int
    work: tuple[tuple[str, int, int], ...] = ()
    """(scored case, operations of its reference, those of them in matrix products); 0 where nobody could count."""


@dataclasses.dataclass(frozen=True)
class CompareRequest:
    do: Literal["compare"]
    folder: str
    """A worker's answer folder."""
    baseline: bool
    """Remember this answer as the untouched kernel's."""
    once: tuple[str, ...] = ()
    """The calls that were run, where these are not all of them: each once, and nobody counted launches."""
    draws: bool = False
    """This answer holds further draws of the untouched kernel, to be remembered beside its own."""


@dataclasses.dataclass(frozen=True)
class Row:
    """One check: passed or not, and how close to its limit the worst output came."""

    case: str
    passed: bool
    worst: str
    margin: float | None
    detail: str


@dataclasses.dataclass(frozen=True)
class Rows:
    rows: tuple[Row, ...]
    again: tuple[str, ...] = ()
    """Draws without which nobody knows whether what failed is wrong. Their inputs lie ready."""
    unheld: tuple[str, ...] = ()
    """Calls that say nothing by themselves, as the untouched kernel is far off in some result: said of it alone."""


@dataclasses.dataclass(frozen=True)
class Complaint:
    """The judge cannot do what it was asked: a kernel without a recipe, an answer that is not one."""

    complaint: str
