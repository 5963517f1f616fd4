"""What is asked of a worker: which op, which passes, which launch numbers."""

from __future__ import annotations

import dataclasses
from typing import Literal

ALIGN = 64
ITEM_SIZE = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}
"""Every element type that may cross the border."""


Layout = Literal["dense", "padded", "transposed", "sliced", "swapped"]
"""Rows one after the other, rows with a gap between them, the last two dimensions the other way round, batches with a
gap between them, or the second and third dimension of four the other way round, as heads leave a projection."""


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    name: str
    dtype: str
    shape: tuple[int, ...]
    grad: bool = False
    layout: Layout = "dense"
    """How it lies in memory; in the blob it is always dense."""
    ones: bool = False
    """The gradient of a loss that nothing is done to: it is 1, whoever fills it."""
    below: int = 0
    """Of labels: the number of classes that they name."""

    @property
    def nbytes(self) -> int:
        total = ITEM_SIZE[self.dtype]
        for size in self.shape:
            total *= size
        return total


@dataclasses.dataclass(frozen=True)
class Argument:
    """One positional argument: a tensor, or a plain value."""

    name: str
    tensor: TensorSpec | None = None
    value: bool | int | float | str | tuple[int, ...] | None = None


@dataclasses.dataclass(frozen=True)
class Call:
    """One pass of the op. The inputs and then the output gradients lie in `blob`, each at a multiple of ALIGN."""

    id: str
    case: str
    direction: str
    arguments: tuple[Argument, ...]
    grads: tuple[TensorSpec, ...]
    """Gradients of the outputs, one for each differentiable output, in order."""
    blob: str = ""
    turns: int = 1
    """How often it is run; a second turn finds other rubbish in unwritten memory and runs its programs backwards."""

    @property
    def tensors(self) -> tuple[TensorSpec, ...]:
        return tuple(a.tensor for a in self.arguments if a.tensor is not None) + self.grads

    @property
    def nbytes(self) -> int:
        """Of all that is handed over."""
        return sum(spec.nbytes for spec in self.tensors)


@dataclasses.dataclass(frozen=True)
class Proof:
    """A file of the variant, by the path it has below the import root, and the hash of its text."""

    path: str
    sha256: str


@dataclasses.dataclass(frozen=True)
class Subject:
    """What to import and how to know that it is the variant."""

    root: str
    """The folder of the overlay that goes on the import path."""
    module: str
    op_file: str
    files: tuple[Proof, ...]
    op: str = ""
    """Which autograd function of the file it is; empty where there is one."""


@dataclasses.dataclass(frozen=True)
class CheckRequest:
    job: Literal["check"]
    subject: Subject
    arch: str
    calls: tuple[Call, ...]


@dataclasses.dataclass(frozen=True)
class Override:
    """Launch numbers for one kernel; None leaves a number as it was."""

    kernel: str
    num_warps: int | None = None
    num_stages: int | None = None
    constants: tuple[tuple[str, int], ...] = ()


@dataclasses.dataclass(frozen=True)
class CompileRequest:
    job: Literal["compile"]
    subject: Subject
    arch: str
    calls: tuple[Call, ...]
    passports: tuple[str, ...]
    overrides: tuple[Override, ...]
    budget_s: float
    """Longest a single candidate may compile before it is killed."""
    processes: int
    within_s: float
    """After so long no candidate begins any more: those left are told as such."""


def offsets(specs: tuple[TensorSpec, ...]) -> tuple[tuple[int, ...], int]:
    """Where each tensor begins in a blob, and the size of the whole."""
    starts, end = [], 0
    for spec in specs:
        starts.append(end)
        end += -(-spec.nbytes // ALIGN) * ALIGN
    return tuple(starts), end
