"""A recording of one pass: which compiled kernels it launched, with what, and which operations of torch lay between.

It holds no address and no content, only regions of memory and steps over them, so that another process can play it on
other memory. It comes from a process that ran hostile code: `sound` is asked before anybody plays it.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

from bot.worker.contract.calls import ITEM_SIZE
from bot.worker.contract.limits import ContractError

TAPE = "tape.json"
MAX_STEPS = 512
MAX_REGIONS = 512
MAX_REGION_BYTES = 2**36
MAX_CUBIN = 32 * 2**20
MAX_SHARED = 256 * 1024
MAX_THREADS = 1024
MAX_GRID = (2**31 - 1, 65535, 65535)
SCALARS = {"i1": 1, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4, "u32": 4, "i64": 8, "u64": 8, "fp32": 4, "fp64": 8}
"""Plain kernel arguments, by Triton's name, with their size."""
ELEMENTS = {0: 1, 1: 2, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 8: 8, 9: 2, 11: 4}
"""Types of what a descriptor tells of, by CUDA's number of them, with their size: whole numbers from 8 bits on, then
half, single and double precision, bfloat16, and single precision that is rounded to TF32 on its way."""
MOST_DIMENSIONS = 5
MOST_IN_A_BLOCK = 256
"""In one dimension."""
SWIZZLES = range(4)
ALIGNED = 16
"""Bytes that where a described tensor begins, its steps and the rows of a block have to divide by."""
FARTHEST = 2**40
"""Bytes that no step of it reaches. One past 64 bits would be handed over as another."""

READS = "aten::_local_scalar_dense"
"""What every way to tell the host something comes to: a copy of it."""
MOST_TOLD = 1024
"""So many elements at once, as of `x.tolist()`: numbers to decide by, and no part of the work."""
LIBRARY = {
    "aten::zero_",
    "aten::fill_.Scalar",
    "aten::copy_",
    "aten::sum.dim_IntList",
    "aten::sum",
    "aten::mean",
    "aten::mean.dim",
    "aten::mul.Tensor",
    "aten::mul.Scalar",
    "aten::mul_.Tensor",
    "aten::mul_.Scalar",
    "aten::div.Tensor",
    "aten::div.Scalar",
    "aten::div_.Tensor",
    "aten::div_.Scalar",
    "aten::add.Tensor",
    "aten::add_.Tensor",
    "aten::sub.Tensor",
    "aten::neg",
    "aten::exp",
    "aten::clamp",
    "aten::ne.Scalar",
    "aten::ne.Tensor",
    "aten::eq.Scalar",
    "aten::eq.Tensor",
    "aten::lt.Scalar",
    "aten::lt.Tensor",
    "aten::le.Scalar",
    "aten::le.Tensor",
    "aten::gt.Scalar",
    "aten::gt.Tensor",
    "aten::ge.Scalar",
    "aten::ge.Tensor",
    "aten::max",
    "aten::min",
    "aten::equal",
    READS,
    "aten::mm",
    "aten::mm.out",
    "aten::mm.dtype",
    "aten::addmm",
    "aten::addmm_",
    "aten::addmm.out",
    "aten::_softmax",
    "aten::_log_softmax",
    "aten::sort",
    "aten::convolution",
    "aten::convolution_backward",
    "aten::sigmoid",
    "aten::rsub.Scalar",
}
"""What the replayer does itself when a tape asks for it. Anything else makes a pass impossible to replay."""


@dataclasses.dataclass(frozen=True)
class Region:
    """A piece of memory: an input by its name, or what the pass allocated for itself."""

    nbytes: int
    name: str = ""


@dataclasses.dataclass(frozen=True)
class View:
    """A tensor in a region. `offset` is in bytes, strides in elements."""

    region: int
    offset: int
    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]

    @property
    def end(self) -> int:
        """The first byte after the last element."""
        if 0 in self.shape:
            return self.offset
        last = sum((size - 1) * step for size, step in zip(self.shape, self.stride, strict=True))
        return self.offset + (last + 1) * ITEM_SIZE[self.dtype]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * ITEM_SIZE[self.dtype]


@dataclasses.dataclass(frozen=True)
class Pointer:
    region: int
    offset: int


@dataclasses.dataclass(frozen=True)
class Scalar:
    kind: str
    bits: int
    """The bytes as an unsigned number, so that no digit is lost on the way."""


@dataclasses.dataclass(frozen=True)
class Descriptor:
    """A tensor as the copy engine of a GPU is told of it: 128 bytes with the address in them, so that other memory
    needs others. The innermost dimension is last, and its elements lie side by side."""

    region: int
    offset: int
    element: int
    """CUDA's number of the type."""
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    block: tuple[int, ...]
    swizzle: int = 0
    """How rows of a block change places in shared memory."""
    nan: bool = False
    """Whether what lies outside of the tensor reads as NaN, and not as 0."""

    @property
    def end(self) -> int:
        """The first byte after the last element."""
        last = sum((size - 1) * step for size, step in zip(self.shape, self.stride, strict=True))
        return self.offset + (last + 1) * ELEMENTS[self.element]


KernelArgument = Pointer | Scalar | Descriptor


@dataclasses.dataclass(frozen=True)
class Kernel:
    """One launch of a compiled kernel. Its cubin lies beside the tape, named by its own sha256."""

    binary: str
    symbol: str
    grid: tuple[int, int, int]
    threads: int
    shared: int
    arguments: tuple[KernelArgument, ...]


@dataclasses.dataclass(frozen=True)
class Item:
    """One argument of an operation of torch."""

    kind: Literal["view", "none", "bool", "int", "float", "ints", "dtype"]
    view: View | None = None
    number: float | int | None = None
    numbers: tuple[int, ...] = ()
    text: str = ""


@dataclasses.dataclass(frozen=True)
class Operation:
    """An operation of torch that launches kernels of its own; `result` is where what it returns belongs. One that
    returns several tensors has them behind its arguments, as if it had been handed their places."""

    op: str
    arguments: tuple[Item, ...]
    result: View | None = None


Step = Kernel | Operation


@dataclasses.dataclass(frozen=True)
class Left:
    """Something the pass leaves behind, to be compared."""

    role: Literal["output", "gradient"]
    name: str
    view: View


@dataclasses.dataclass(frozen=True)
class Tape:
    case: str
    regions: tuple[Region, ...]
    before: tuple[Kernel | Operation, ...]
    """What has to run first and is not scored: the forward pass of a backward one."""
    steps: tuple[Kernel | Operation, ...]
    left: tuple[Left, ...]
    waits: int = 0
    """How often the host of the scored part waits for a value of the GPU. The value is copied as it was and nobody
    waits: what it decides is decided already, and a recording is only believed where other contents decide alike."""


def _inside(tape: Tape, region: int, start: int, end: int) -> None:
    if not 0 <= region < len(tape.regions):
        raise ContractError(f"{tape.case}: there is no region {region}")
    if not 0 <= start <= end <= tape.regions[region].nbytes:
        raise ContractError(f"{tape.case}: something lies outside of region {region}")


def _sound_view(tape: Tape, view: View) -> None:
    if view.dtype not in ITEM_SIZE or len(view.shape) != len(view.stride):
        raise ContractError(f"{tape.case}: a tensor of an unknown form")
    if any(size < 0 for size in view.shape) or any(step < 0 for step in view.stride):
        raise ContractError(f"{tape.case}: a tensor with negative sizes")
    if view.offset % ITEM_SIZE[view.dtype]:
        raise ContractError(f"{tape.case}: a tensor between two elements")
    _inside(tape, view.region, view.offset, view.end)


def _sound_descriptor(tape: Tape, told: Descriptor) -> None:
    rank = len(told.shape)
    if told.element not in ELEMENTS or told.swizzle not in SWIZZLES:
        raise ContractError(f"{tape.case}: a descriptor of an unknown form")
    if not 1 <= rank <= MOST_DIMENSIONS or len(told.stride) != rank or len(told.block) != rank:
        raise ContractError(f"{tape.case}: a descriptor of {rank} dimensions")
    if any(size < 1 for size in told.shape) or not all(1 <= size <= MOST_IN_A_BLOCK for size in told.block):
        raise ContractError(f"{tape.case}: a descriptor with blocks of {list(told.block)} of {list(told.shape)}")
    steps = (told.offset, *(step * ELEMENTS[told.element] for step in (*told.stride[:-1], told.block[-1])))
    if told.stride[-1] != 1 or any(step % ALIGNED or not 0 <= step < FARTHEST for step in steps):
        raise ContractError(f"{tape.case}: a descriptor with steps that no GPU takes")
    _inside(tape, told.region, told.offset, told.end)


def _sound_kernel(tape: Tape, kernel: Kernel) -> None:
    name = kernel.binary
    if len(name) != 64 or set(name) - set("0123456789abcdef"):
        raise ContractError(f"{tape.case}: a cubin's name is not a hash")
    if not all(1 <= n <= most for n, most in zip(kernel.grid, MAX_GRID, strict=True)):
        raise ContractError(f"{tape.case}: a grid of {list(kernel.grid)}")
    if not 32 <= kernel.threads <= MAX_THREADS or not 0 <= kernel.shared <= MAX_SHARED:
        raise ContractError(f"{tape.case}: {kernel.threads} threads with {kernel.shared} bytes of shared memory")
    for argument in kernel.arguments:
        if isinstance(argument, Pointer):
            _inside(tape, argument.region, argument.offset, argument.offset)
        elif isinstance(argument, Descriptor):
            _sound_descriptor(tape, argument)
        elif argument.kind not in SCALARS or not 0 <= argument.bits < 2 ** (8 * SCALARS[argument.kind]):
            raise ContractError(f"{tape.case}: a kernel argument of kind {argument.kind[:20]!r}")


def _sound_operation(tape: Tape, step: Operation) -> None:
    if step.op not in LIBRARY:
        raise ContractError(f"{tape.case}: {step.op[:60]!r} is not among the operations that are replayed")
    for view in (*(item.view for item in step.arguments), step.result):
        if view is not None:
            _sound_view(tape, view)
            if step.op == READS and math.prod(view.shape) > MOST_TOLD:
                raise ContractError(f"{tape.case}: {math.prod(view.shape)} elements for the host")


def sound(tape: Tape) -> Tape:
    """The tape, or a ContractError: every address inside its region, every number one that a GPU takes."""
    if len(tape.regions) > MAX_REGIONS or len(tape.before) + len(tape.steps) > MAX_STEPS:
        raise ContractError(f"{tape.case}: too long a recording")
    if any(not 0 <= region.nbytes <= MAX_REGION_BYTES for region in tape.regions):
        raise ContractError(f"{tape.case}: a region of a size that no GPU has")
    if not 0 <= tape.waits <= MAX_STEPS:
        raise ContractError(f"{tape.case}: the host waits {tape.waits} times")
    if not tape.steps:
        raise ContractError(f"{tape.case}: nothing was launched")
    for step in (*tape.before, *tape.steps):
        if isinstance(step, Kernel):
            _sound_kernel(tape, step)
        else:
            _sound_operation(tape, step)
    for left in tape.left:
        _sound_view(tape, left.view)
    return tape
