"""Records one pass on a GPU: the launches by a hook on Triton's launcher, torch's own operations by a dispatch mode.

Both sit where autograd's device thread passes too. Everything allocated is kept alive while the recording lasts, so
that an address means one tensor.
"""

from __future__ import annotations

import bisect
import contextlib
import hashlib
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from triton.compiler.compiler import CompiledKernel

from bot.worker.contract.tape import (
    LIBRARY,
    MAX_CUBIN,
    MOST_TOLD,
    READS,
    SCALARS,
    Descriptor,
    Item,
    Kernel,
    KernelArgument,
    Left,
    Operation,
    Pointer,
    Region,
    Scalar,
    Tape,
    View,
)
from bot.worker.passes import NAMES

ALLOCATES = {
    "aten::empty",
    "aten::empty_like",
    "aten::empty_strided",
    "aten::new_empty",
    "aten::new_empty_strided",
}
COPIES = {"aten::clone", "aten::_to_copy", "aten::contiguous"}
NEUTRAL = {"aten::set_", "aten::resize_", "aten::record_stream", "aten::_unsafe_view"}
"""What launches nothing; the last is what a product of rows in several dimensions ends with, and no copy."""
WAITS = {READS, "aten::is_nonzero", "aten::item", "aten::equal"}
"""The host waits for one value. Whatever it decides by it is decided alike for other contents, see `_three_times`."""
SEVERAL = {"aten::sort"}
"""What returns more than one tensor and can be handed places for all of them."""
DESCRIBED = "tensordesc"
"""How Triton's names of such arguments begin."""
ON_THE_HOST = {8: 10, 9: 8, 10: 9}
"""Types of elements that CUDA numbers otherwise on the host than on the chip."""
ROUNDED = 11
"""Single precision that the copy engine rounds to TF32, as CUDA numbers it on the host."""
PACK = {"i1": "<?", "i8": "<b", "u8": "<B", "i16": "<h", "u16": "<H", "i32": "<i", "u32": "<I", "i64": "<q"}
PACK |= {"u64": "<Q", "fp32": "<f", "fp64": "<d"}


OUT_OF_SIGHT = ("aten::allclose", "aten::_foreach_")
"""What returns nothing, or what only the host sees, and launches kernels for it."""


class CannotReplay(Exception):
    """The pass does something that a recording does not hold; the text says what."""


def scalar(kind: str, value: Any) -> Scalar:
    return Scalar(kind, int.from_bytes(struct.pack(PACK[kind], value), "little"))


def _short(name: str) -> str:
    return name.removeprefix("aten::")


def _flat(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _flat(value)
        else:
            yield value


def _full_name(func: Any) -> str:
    return str(func._schema.name) + (f".{func._overloadname}" if func._overloadname not in ("", "default") else "")


class Taper(TorchDispatchMode):  # type: ignore[misc]
    """Active around a pass. `score` is called where the scored part begins."""

    def __init__(self, inputs: dict[str, torch.Tensor], folder: Path, device: str = "cuda") -> None:
        super().__init__()
        self._folder, self._device = folder, device
        self._kept: list[Any] = []
        self._regions: list[Region] = []
        self._starts: list[tuple[int, int]] = []
        """(address, region), sorted."""
        self._before: list[Kernel | Operation] = []
        self._steps: list[Kernel | Operation] = []
        self.constants: list[Operation] = []
        """What the host hands over by copying: no kernel runs for it."""
        self.waits = 0
        """How often the host waited for a value."""
        self._away = False
        self.why_not = ""
        self.kernels: list[Any] = []
        for name, tensor in inputs.items():
            self._region_of(tensor, name)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def score(self) -> None:
        """What was recorded so far only prepares."""
        self._before, self._steps, self.waits = self._steps, [], 0
        self.kernels.clear()

    def _cannot(self, why: str) -> None:
        self.why_not = self.why_not or why

    def _region_of(self, tensor: torch.Tensor, name: str = "") -> int:
        storage = tensor.untyped_storage()
        at = storage.data_ptr()
        place = bisect.bisect_left(self._starts, (at, -1))
        if place < len(self._starts) and self._starts[place][0] == at:
            return self._starts[place][1]
        self._kept.append(storage)
        self._regions.append(Region(storage.nbytes(), name))
        bisect.insort(self._starts, (at, len(self._regions) - 1))
        return len(self._regions) - 1

    def _pointer(self, address: int) -> Pointer:
        place = bisect.bisect_right(self._starts, (address, len(self._regions))) - 1
        if place >= 0:
            start, region = self._starts[place]
            if start <= address < start + max(1, self._regions[region].nbytes):
                return Pointer(region, address - start)
        raise CannotReplay("a kernel is handed memory that torch did not allocate")

    def view(self, tensor: torch.Tensor) -> View:
        if tensor.dtype not in NAMES or not self._is_here(tensor):
            raise CannotReplay(f"a tensor of {tensor.dtype} on {tensor.device.type}")
        return View(
            self._region_of(tensor),
            tensor.storage_offset() * tensor.element_size(),
            NAMES[tensor.dtype],
            tuple(tensor.shape),
            tuple(tensor.stride()),
        )

    @property
    def operations(self) -> list[Operation]:
        """What torch itself was asked for since the scored part began."""
        return [step for step in self._steps if isinstance(step, Operation)]

    # -- torch's own operations ---------------------------------------------------------------------------

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if not self._away:
            try:
                self._note(func, args, kwargs, result)
            except CannotReplay as why:
                self._cannot(str(why))
        return result

    def _note(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        name = str(func._schema.name)
        if name in WAITS:
            self._wait(name, args)
            return
        if name == "aten::nonzero":
            raise CannotReplay("how large a result is depends on the contents of its inputs (nonzero)")
        if name == "aten::lift_fresh" and self._is_here(result):
            self._hand_over(result)
            return
        if name in NEUTRAL or func.is_view:
            return
        results = [r for r in (result if isinstance(result, (tuple, list)) else [result]) if self._is_here(r)]
        if not results:
            self._bring(name, args)
            return
        if name in ALLOCATES:
            for tensor in results:
                self._region_of(tensor)
            return
        if len(results) != 1 and _full_name(func) not in SEVERAL:
            raise CannotReplay(f"{name} returns {len(results)} tensors")
        if name in COPIES and not self._is_here(args[0]):
            self._hand_over(results[0])
            return
        self._steps.append(self._operation(func, name, args, kwargs, results))

    def _is_here(self, value: Any) -> bool:
        return isinstance(value, torch.Tensor) and value.device.type == self._device

    def _wait(self, name: str, args: Any) -> None:
        if not any(map(self._is_here, args)):
            return
        self.waits += 1
        if name != "aten::equal":
            self._steps.append(Operation(READS, (self._item(args[0]),)))
        elif args[0].shape == args[1].shape:
            self._steps.append(Operation(name, tuple(map(self._item, args[:2]))))

    def _bring(self, name: str, args: Any) -> None:
        """What the host copies to itself, such as x.tolist(): it waits for that as for a single value."""
        source: Any = args[1] if name == "aten::copy_" else args[0] if name in COPIES else None
        if not self._is_here(source):
            if name.startswith(OUT_OF_SIGHT) and any(map(self._is_here, _flat(args))):
                raise CannotReplay(f"torch's own {_short(name)}, which works out of sight")
            return
        if source.numel() > MOST_TOLD:
            raise CannotReplay(f"the host copies {source.numel()} elements to itself")
        self.waits += 1
        self._steps.append(Operation(READS, (self._item(source),)))

    def _hand_over(self, made: torch.Tensor) -> None:
        """A number that the host wrote down, such as torch.tensor(1.0, device="cuda")."""
        if made.numel() != 1:
            raise CannotReplay(f"the host hands over a tensor of {made.numel()} elements")
        into = Item("view", view=self.view(made))
        self.constants.append(Operation("aten::fill_.Scalar", (into, self._item(made.item()))))

    def _operation(self, func: Any, name: str, args: Any, kwargs: Any, results: list[torch.Tensor]) -> Operation:
        into, *others = (Item("view", view=self.view(result)) for result in results)
        if name in ("aten::zeros", "aten::zeros_like", "aten::new_zeros"):
            return Operation("aten::zero_", (into,))
        if name in ("aten::ones", "aten::ones_like", "aten::new_ones"):
            return Operation("aten::fill_.Scalar", (into, Item("int", number=1)))
        if name in ("aten::full", "aten::full_like", "aten::new_full"):
            value = args[2] if name == "aten::new_full" else args[1]
            return Operation("aten::fill_.Scalar", (into, self._item(value)))
        if name in COPIES:
            return Operation("aten::copy_", (into, self._item(args[0])))
        full = _full_name(func)
        if full == "aten::fill_.Tensor" and not self._is_here(args[1]):  # x[:, -1] = 0: the host's number as a tensor
            full = "aten::fill_.Scalar"
        if full not in LIBRARY:
            raise CannotReplay(f"torch's own {_short(full)}")
        arguments = tuple(self._item(value) for value in self._spelled_out(func, args, kwargs))
        if full in SEVERAL:
            return Operation(full, (*arguments, into, *others))
        return Operation(full, arguments, None if func._schema.is_mutable else into.view)

    def _spelled_out(self, func: Any, args: Any, kwargs: Any) -> list[Any]:
        """All arguments in the order of the schema, defaults included."""
        found = []
        for place, parameter in enumerate(func._schema.arguments):
            if place < len(args):
                found.append(args[place])
            else:
                found.append(kwargs.get(parameter.name, parameter.default_value))
        return found

    def _item(self, value: Any) -> Item:
        if isinstance(value, torch.Tensor):
            if not self._is_here(value) and value.numel() == 1:
                return self._item(value.item())
            return Item("view", view=self.view(value))
        if value is None:
            return Item("none")
        if isinstance(value, bool):
            return Item("bool", number=int(value))
        if isinstance(value, int):
            return Item("int", number=value)
        if isinstance(value, float):
            return Item("float", number=value)
        if isinstance(value, torch.dtype):
            return Item("dtype", text=NAMES.get(value, "?"))
        if isinstance(value, (list, tuple)) and all(isinstance(n, int) for n in value):
            return Item("ints", numbers=tuple(map(int, value)))
        raise CannotReplay(f"an operation with an argument of type {type(value).__name__}")

    # -- launches ---------------------------------------------------------------------------------------------

    def launched(self, kernel: Any, grid: tuple[int, int, int], arguments: tuple[Any, ...]) -> None:
        try:
            self._steps.append(self._kernel(kernel, grid, arguments))
            self.kernels.append(kernel)
        except CannotReplay as why:
            self._cannot(str(why))

    def _kernel(self, kernel: Any, grid: tuple[int, int, int], arguments: tuple[Any, ...]) -> Kernel:
        facts = kernel.metadata
        odd = {
            "a cluster of programs": getattr(facts, "num_ctas", 1) != 1,
            "a cooperative grid": bool(getattr(facts, "launch_cooperative_grid", False)),
            "a dependent launch": bool(getattr(facts, "launch_pdl", False)),
            "memory that Triton allocates": bool(facts.global_scratch_size or facts.profile_scratch_size),
        }
        for what, present in odd.items():
            if present:
                raise CannotReplay(f"{facts.name} uses {what}")
        cubin = kernel.asm["cubin"]
        if len(cubin) > MAX_CUBIN:
            raise CannotReplay(f"{facts.name} is larger than {MAX_CUBIN} bytes")
        digest = hashlib.sha256(cubin).hexdigest()
        path = self._folder / f"{digest}.cubin"
        if not path.exists():
            path.write_bytes(cubin)
        encodings = iter(getattr(facts, "tensordesc_meta", None) or ())
        values: list[KernelArgument] = []
        for kind, value in zip(map(str, kernel.src.signature.values()), arguments, strict=True):
            if kind.startswith(DESCRIBED):
                values += self._described(value, next(encodings, None))
            elif kind != "constexpr":
                values.append(self._argument(kind, value))
        return Kernel(digest, str(facts.name), grid, 32 * int(facts.num_warps), int(facts.shared), tuple(values))

    def _described(self, value: Any, encoding: Any) -> list[KernelArgument]:
        """A tensor descriptor, as Triton's launcher hands it over: encoded for the copy engine, or taken apart on a
        chip that has none, and its sizes and steps behind it."""
        base = self._pointer(int(value.base.data_ptr()))
        sizes = [scalar("i32", size) for size in value.shape] + [scalar("i64", step) for step in value.strides]
        nan, rounded = value.padding == "nan", getattr(value, "round_f32_to_tf32", None)  # since Triton 3.7
        if encoding is None:
            apart = [scalar("i64", number) for number in (*value.shape, *value.strides)]
            flags = [scalar("i1", flag) for flag in (nan, rounded) if flag is not None]
            return [base, *apart, *flags, *sizes]
        if encoding["fp4_padded"]:
            raise CannotReplay("a kernel takes a tensor descriptor of numbers of 4 bits")
        if encoding.get("is_im2col"):
            raise CannotReplay("a kernel takes a tensor descriptor of windows")
        told = Descriptor(
            base.region,
            base.offset,
            element=ROUNDED if rounded else ON_THE_HOST.get(encoding["elem_type"], encoding["elem_type"]),
            shape=tuple(map(int, value.shape)),
            stride=tuple(map(int, value.strides)),
            block=tuple(map(int, encoding["block_size"])),
            swizzle=int(encoding["swizzle"]),
            nan=nan,
        )
        return [told, *sizes]

    def _argument(self, kind: str, value: Any) -> Pointer | Scalar:
        if kind.startswith("*"):
            return self._pointer(int(value.data_ptr()) if hasattr(value, "data_ptr") else int(value or 0))
        if kind not in SCALARS:
            raise CannotReplay(f"a kernel takes an argument of kind {kind[:40]}")
        return scalar(kind, value)

    # -- the end ----------------------------------------------------------------------------------------------

    def tape(self, case: str, left: list[tuple[Any, str, torch.Tensor]]) -> Tape:
        """The whole recording, or CannotReplay."""
        if self.why_not:
            raise CannotReplay(self.why_not)
        if not self._steps:
            raise CannotReplay("the pass launches nothing")
        views = tuple(Left(role, name, self.view(tensor)) for role, name, tensor in left)
        before = (*self.constants, *self._before)
        return Tape(case, tuple(self._regions), before, tuple(self._steps), views, self.waits)


@contextlib.contextmanager
def hooked(seen: Callable[[Any, tuple[int, int, int], tuple[Any, ...]], None]) -> Iterator[None]:
    """While active, every launch is told before it happens, on whichever thread it does."""
    original = CompiledKernel.run

    def run(kernel: Any) -> Any:
        launcher = original.fget(kernel)

        def launch(x: int, y: int, z: int, stream: Any, function: Any, packed: Any, facts: Any, *rest: Any) -> Any:
            enter, leave, *arguments = rest
            seen(kernel, (int(x), int(y), int(z)), tuple(arguments))
            return launcher(x, y, z, stream, function, packed, facts, enter, leave, *arguments)

        return launch

    CompiledKernel.run = property(run)
    try:
        yield
    finally:
        CompiledKernel.run = original
