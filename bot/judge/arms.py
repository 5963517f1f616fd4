"""Turns a tape into CUDA graphs over memory of our own. Runs in the replayer alone."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bot.judge.driver import Driver
from bot.judge.inputs import DTYPES
from bot.judge.layout import Layout, key_of, scratch_of
from bot.worker.contract import ContractError, read_bytes
from bot.worker.contract.tape import (
    MAX_CUBIN,
    READS,
    SCALARS,
    Descriptor,
    Item,
    Kernel,
    KernelArgument,
    Left,
    Operation,
    Pointer,
    Tape,
    View,
)

_SCALARS: dict[int, Any] = {1: ctypes.c_uint8, 2: ctypes.c_uint16, 4: ctypes.c_uint32, 8: ctypes.c_uint64}
_TYPES = DTYPES | {"int32": torch.int32, "int16": torch.int16, "int8": torch.int8, "uint8": torch.uint8}
_TYPES |= {"bool": torch.bool}
_NUMBERS: dict[str, Callable[[float], Any]] = {"bool": bool, "int": int, "float": float}


def _sum(into: Any, x: Any, *dtype: Any) -> None:
    torch.ops.aten.sum.IntList_out(x, [], False, dtype=dtype[0] if dtype else None, out=into)


def _sum_dims(into: Any, x: Any, dims: Any, keep: bool = False, dtype: Any = None) -> None:
    torch.ops.aten.sum.IntList_out(x, dims, bool(keep), dtype=dtype, out=into)


def _mean(into: Any, x: Any, *dtype: Any) -> None:
    torch.ops.aten.mean.out(x, [], False, dtype=dtype[0] if dtype else None, out=into)


def _mean_dims(into: Any, x: Any, dims: Any, keep: bool = False, dtype: Any = None) -> None:
    torch.ops.aten.mean.out(x, dims, bool(keep), dtype=dtype, out=into)


def _addmm_out(into: Any, x: Any, y: Any, z: Any, beta: Any, alpha: Any, out: Any) -> None:
    """What is added up in place is one tensor: torch copies a second one first, whatever it lies on."""
    same = (x.data_ptr(), x.shape, x.stride()) == (out.data_ptr(), out.shape, out.stride())
    torch.addmm(out if same else x, y, z, beta=beta, alpha=alpha, out=out)


def _convolution_backward(*given: Any) -> Any:
    """The one gradient that was asked for."""
    *others, wanted = given
    found = torch.ops.aten.convolution_backward.default(*others, list(map(bool, wanted)))
    (only,) = (gradient for gradient in found if gradient is not None)
    return only


_HEARD: dict[tuple[torch.dtype, int], torch.Tensor] = {}
"""Where answers are copied to, by their type and how many there are. Made when a tape is played for the first time:
while a graph is captured nothing may be made."""


def _told(answer: Any) -> None:
    """As torch tells the host: by a copy. Nobody reads it, for the answer was given when the pass was recorded.

    It stays on the GPU. One over the bus took 9 us in some processes of an H200 and 13 in others, and whatever came
    behind it was up to 7 % slower in one arm than in the other; what the host waits for is read on the host.
    """
    kind = (answer.dtype, answer.numel())
    if kind not in _HEARD:
        _HEARD[kind] = torch.empty(answer.numel(), dtype=answer.dtype, device=answer.device)
    _HEARD[kind].view(answer.shape).copy_(answer)


OPERATIONS: dict[str, Callable[..., Any]] = {
    "aten::zero_": lambda into, x: x.zero_(),
    "aten::fill_.Scalar": lambda into, x, value: x.fill_(value),
    "aten::copy_": lambda into, x, source, *rest: x.copy_(source),
    "aten::sum": _sum,
    "aten::sum.dim_IntList": _sum_dims,
    "aten::mean": _mean,
    "aten::mean.dim": _mean_dims,
    "aten::mul.Tensor": lambda into, x, y: torch.mul(x, y, out=into),
    "aten::mul.Scalar": lambda into, x, y: torch.mul(x, y, out=into),
    "aten::mul_.Tensor": lambda into, x, y: x.mul_(y),
    "aten::mul_.Scalar": lambda into, x, y: x.mul_(y),
    "aten::div.Tensor": lambda into, x, y: torch.div(x, y, out=into),
    "aten::div.Scalar": lambda into, x, y: torch.div(x, y, out=into),
    "aten::div_.Tensor": lambda into, x, y: x.div_(y),
    "aten::div_.Scalar": lambda into, x, y: x.div_(y),
    "aten::add.Tensor": lambda into, x, y, alpha=1: torch.add(x, y, alpha=alpha, out=into),
    "aten::add_.Tensor": lambda into, x, y, alpha=1: x.add_(y, alpha=alpha),
    "aten::sub.Tensor": lambda into, x, y, alpha=1: torch.sub(x, y, alpha=alpha, out=into),
    "aten::neg": lambda into, x: torch.neg(x, out=into),
    "aten::exp": lambda into, x: torch.exp(x, out=into),
    "aten::clamp": lambda into, x, least=None, most=None: torch.clamp(x, least, most, out=into),
    "aten::ne.Scalar": lambda into, x, y: torch.ne(x, y, out=into),
    "aten::ne.Tensor": lambda into, x, y: torch.ne(x, y, out=into),
    "aten::eq.Scalar": lambda into, x, y: torch.eq(x, y, out=into),
    "aten::eq.Tensor": lambda into, x, y: torch.eq(x, y, out=into),
    "aten::lt.Scalar": lambda into, x, y: torch.lt(x, y, out=into),
    "aten::lt.Tensor": lambda into, x, y: torch.lt(x, y, out=into),
    "aten::le.Scalar": lambda into, x, y: torch.le(x, y, out=into),
    "aten::le.Tensor": lambda into, x, y: torch.le(x, y, out=into),
    "aten::gt.Scalar": lambda into, x, y: torch.gt(x, y, out=into),
    "aten::gt.Tensor": lambda into, x, y: torch.gt(x, y, out=into),
    "aten::ge.Scalar": lambda into, x, y: torch.ge(x, y, out=into),
    "aten::ge.Tensor": lambda into, x, y: torch.ge(x, y, out=into),
    "aten::max": lambda into, x: torch.ops.aten.max.unary_out(x, out=into),
    "aten::min": lambda into, x: torch.ops.aten.min.unary_out(x, out=into),
    "aten::equal": lambda into, x, y: _told(torch.eq(x, y).all()),
    READS: lambda into, x: _told(x),
    "aten::mm": lambda into, x, y: torch.mm(x, y, out=into),
    "aten::mm.out": lambda into, x, y, out: torch.mm(x, y, out=out),
    "aten::mm.dtype": lambda into, x, y, wide: torch.ops.aten.mm.dtype_out(x, y, wide, out=into),
    "aten::addmm": lambda into, x, y, z, beta=1, alpha=1: torch.addmm(x, y, z, beta=beta, alpha=alpha, out=into),
    "aten::addmm_": lambda into, x, y, z, beta=1, alpha=1: x.addmm_(y, z, beta=beta, alpha=alpha),
    "aten::addmm.out": _addmm_out,
    "aten::_softmax": lambda into, x, dim, wide: torch.ops.aten._softmax.out(x, dim, wide, out=into),
    "aten::_log_softmax": lambda into, x, dim, wide: torch.ops.aten._log_softmax.out(x, dim, wide, out=into),
    "aten::sort": lambda into, x, dim, down, *out: torch.sort(x, dim=dim, descending=down, out=out),
    "aten::sigmoid": lambda into, x: torch.sigmoid(x, out=into),
    # As torch does it: the number as a tensor of the host, which travels with the launch.
    "aten::rsub.Scalar": lambda into, x, y, alpha=1: torch.sub(torch.tensor(y), x, alpha=alpha, out=into),
}
"""How each operation of a tape is done; the first argument is where its result belongs, if it has one."""
ASKS = ("aten::equal", READS)
"""What only the host hears of."""
MAKERS: dict[str, Callable[..., Any]] = {
    "aten::convolution": torch.ops.aten.convolution.default,
    "aten::convolution_backward": _convolution_backward,
}
"""What cannot be told where to put its result. A copy would be time that nobody spent: the region is where it lies."""


@dataclass(frozen=True)
class Lane:
    """One copy of all that a pass works in, so that several can be put behind one another in a graph."""

    memory: torch.Tensor
    base: int
    """Offset of this lane in the memory."""

    def tensor(self, offset: int, view: View) -> torch.Tensor:
        dtype = _TYPES[view.dtype]
        item = torch.empty(0, dtype=dtype).element_size()
        return self.memory.view(dtype).as_strided(view.shape, view.stride, (self.base + offset) // item)

    def address(self, offset: int) -> int:
        return int(self.memory.data_ptr()) + self.base + offset


class Arm:
    """One tape on the lanes."""

    def __init__(self, tape: Tape, folder: Path, layout: Layout, driver: Driver) -> None:
        self._tape, self._layout, self._driver = tape, layout, driver
        self._functions: dict[tuple[str, str, int], Any] = {}
        self._folder = folder
        self._made: dict[tuple[int, int], torch.Tensor] = {}
        """What makers made: by lane and region."""
        places = {name: (offset, nbytes) for name, offset, nbytes in layout.inputs}
        scratch, self.scratch_bytes = scratch_of(tape.regions)
        self._offsets: list[int] = []
        for number, region in enumerate(tape.regions):
            if region.name:
                if region.name not in places or places[region.name][1] != region.nbytes:
                    raise ContractError(f"{tape.case}: input {region.name[:40]!r} is not the judge's")
                self._offsets.append(places[region.name][0])
            else:
                self._offsets.append(layout.bank_bytes + scratch[number])
        if [(key_of(x), x.view.nbytes) for x in tape.left] != [(n, size) for n, _, size in layout.outputs]:
            raise ContractError(f"{tape.case}: it leaves other results behind than the untouched kernel")

    def _function(self, step: Kernel) -> Any:
        key = (step.binary, step.symbol, step.shared)
        if key not in self._functions:
            cubin = read_bytes(self._folder / f"{step.binary}.cubin", MAX_CUBIN)
            self._functions[key] = self._driver.function(cubin, step.symbol, step.shared)
        return self._functions[key]

    def _address(self, lane: Lane, told: Pointer | Descriptor) -> int:
        made = self._made.get((lane.base, told.region))
        if made is not None:
            return int(made.untyped_storage().data_ptr()) + told.offset
        return lane.address(self._offsets[told.region] + told.offset)

    def _value(self, lane: Lane, argument: KernelArgument) -> Any:
        if isinstance(argument, Pointer):
            return ctypes.c_uint64(self._address(lane, argument))
        if isinstance(argument, Descriptor):
            return self._driver.tensor_map(self._address(lane, argument), argument)
        return _SCALARS[SCALARS[argument.kind]](argument.bits)

    def _view(self, lane: Lane, view: View) -> torch.Tensor:
        made = self._made.get((lane.base, view.region))
        if made is not None:
            whole = torch.empty(0, dtype=_TYPES[view.dtype], device=made.device)
            return whole.set_(made.untyped_storage(), view.offset // whole.element_size(), view.shape, view.stride)
        return lane.tensor(self._offsets[view.region] + view.offset, view)

    def _item(self, lane: Lane, item: Item) -> Any:
        if item.view is not None:
            return self._view(lane, item.view)
        if item.kind == "dtype":
            return _TYPES[item.text]
        if item.kind == "ints":
            return list(item.numbers)
        if item.kind in _NUMBERS:  # whole ones come back from the border as fractions
            return _NUMBERS[item.kind](item.number or 0)
        return None

    def _perform(self, lane: Lane, step: Kernel | Operation, stream: int) -> None:
        if isinstance(step, Kernel):
            # The two last parameters of every Triton kernel are scratch memory that none of these asks for.
            values = [self._value(lane, a) for a in step.arguments] + [ctypes.c_uint64(0), ctypes.c_uint64(0)]
            self._driver.launch(self._function(step), step.grid, step.threads, step.shared, stream, values)
            return
        given = [self._item(lane, item) for item in step.arguments]
        if step.op in MAKERS:
            self._keep(lane, step, MAKERS[step.op](*given))
            return
        into = self._view(lane, step.result) if step.result is not None else None
        OPERATIONS[step.op](into, *given)

    def _keep(self, lane: Lane, step: Operation, made: torch.Tensor) -> None:
        """In place of a region that holds the same and nothing else."""
        view = step.result
        if view is None or self._tape.regions[view.region].name:
            raise ContractError(f"{self._tape.case}: {step.op} makes no memory of its own")
        form = (made.storage_offset(), made.dtype, tuple(made.shape), made.stride())
        room = made.untyped_storage().nbytes()
        if form != (0, _TYPES[view.dtype], view.shape, view.stride) or room != self._tape.regions[view.region].nbytes:
            raise ContractError(f"{self._tape.case}: {step.op} makes another tensor than when it was recorded")
        self._made[lane.base, view.region] = made

    def _forget(self, lane: Lane, steps: tuple[Kernel | Operation, ...]) -> None:
        """Nobody meets what was made when the steps were played before."""
        for step in steps:
            if isinstance(step, Operation) and step.op in MAKERS and step.result is not None:
                self._made.pop((lane.base, step.result.region), None)

    def prepare(self, lane: Lane, stream: int) -> None:
        self._forget(lane, (*self._tape.before, *self._tape.steps))
        for step in self._tape.before:
            self._perform(lane, step, stream)

    def body(self, lane: Lane, stream: int) -> None:
        self._forget(lane, self._tape.steps)
        for step in self._tape.steps:
            self._perform(lane, step, stream)

    def hand_over(self, lane: Lane, into: list[torch.Tensor]) -> None:
        for left, target in zip(self._tape.left, into, strict=True):
            target.copy_(self._view(lane, left.view))

    @property
    def left(self) -> tuple[Left, ...]:
        return self._tape.left

    @staticmethod
    def dtype_of(left: Left) -> torch.dtype:
        return _TYPES[left.view.dtype]

    @property
    def has_before(self) -> bool:
        return bool(self._tape.before)

    @property
    def only_asks(self) -> bool:
        """Whether the host has numbers compared or read, and that is all: who asks twice changes nothing."""
        return all(isinstance(step, Operation) and step.op in ASKS for step in self._tape.steps)
