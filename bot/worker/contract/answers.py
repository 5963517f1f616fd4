"""What a worker hands back. All of it is hostile until it was parsed and compared."""

from __future__ import annotations

import dataclasses
from typing import Literal


@dataclasses.dataclass(frozen=True)
class Refusal:
    """Why a whole job or one call could not be carried out."""

    kind: str
    detail: str


@dataclasses.dataclass(frozen=True)
class TensorOut:
    """One tensor as the variant left it, raw in the run's blob."""

    role: Literal["output", "gradient", "input", "grad_output"]
    name: str
    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    device: str
    offset: int
    nbytes: int
    shares: str = ""
    """Name of the input whose memory it lies in."""
    absent: bool = False
    """None was returned where a tensor could be."""


@dataclasses.dataclass(frozen=True)
class Touched:
    """How much of one memory region a launch read and wrote, as shares of its size."""

    region: str
    read: float
    write: float
    again: float = 0.0
    """Read by a program that had read the same place before: counted each time, so it may be more than all of it."""
    between: float = 0.0
    """What a program moves from one read of such a place to the next, beside all that it moves: the mean of `again`."""


@dataclasses.dataclass(frozen=True)
class Footprint:
    kernel: str
    regions: tuple[Touched, ...]
    flags: tuple[tuple[str, str], ...] = ()
    """What it was handed that is true or false: a kernel that has labels may leave out rows."""


@dataclasses.dataclass(frozen=True)
class RunAnswer:
    blob: str
    tensors: tuple[TensorOut, ...]
    footprints: tuple[Footprint, ...]
    races: tuple[str, ...]
    oddities: tuple[str, ...] = ()
    """What it did beside its results, one sentence each."""


@dataclasses.dataclass(frozen=True)
class CallAnswer:
    id: str
    runs: tuple[RunAnswer, ...]
    refusal: Refusal | None = None


@dataclasses.dataclass(frozen=True)
class CheckAnswer:
    calls: tuple[CallAnswer, ...]
    refusal: Refusal | None = None


@dataclasses.dataclass(frozen=True)
class Binary:
    """What one compiled kernel needs on one architecture."""

    registers: int
    spill_bytes: int
    shared_bytes: int
    load_bits: int
    store_bits: int
    instructions: int
    barriers: int
    uses_fp64: bool
    digest: str


@dataclasses.dataclass(frozen=True)
class Caught:
    """One launch that the recorder caught instead of running it."""

    kernel: str
    file: str
    """Path below the import root; a bare name when the source lies outside of it."""
    sha256: str
    grid: tuple[int, ...]
    num_warps: int
    num_stages: int
    constants: tuple[tuple[str, str], ...]
    regions: tuple[tuple[str, int], ...]
    """Distinct memory regions it was handed, with the bytes each holds."""
    binary: Binary | None = None
    refusal: Refusal | None = None


@dataclasses.dataclass(frozen=True)
class CaughtCase:
    case: str
    launches: tuple[Caught, ...]
    peak_bytes: int
    library_bytes: int
    """Bytes that torch's own operations of the pass read and write."""


@dataclasses.dataclass(frozen=True)
class Stamp:
    """One kernel compiled for one passport architecture."""

    arch: str
    kernel: str
    binary: Binary | None = None
    refusal: Refusal | None = None


@dataclasses.dataclass(frozen=True)
class Tried:
    """One override applied to one case."""

    override: int
    case: str
    launches: tuple[Caught, ...]


@dataclasses.dataclass(frozen=True)
class CompileAnswer:
    cases: tuple[CaughtCase, ...]
    stamps: tuple[Stamp, ...]
    tried: tuple[Tried, ...]
    refusal: Refusal | None = None
    slowest_s: float = 0.0
    """What the kernel of a case took to compile that took longest."""
