"""Watches every address that an interpreted launch touches.

Counts what each launch reads and writes of each memory region, a byte once, and apart from that what a program reads
again and how much it moved since: a cache may have kept it. Refuses an address outside of every tensor the launch was
handed, and notices programs of one launch that depend on each other's order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.multiprocessing.reductions import StorageWeakRef

MOST_RACES = 8


class OutOfBounds(Exception):
    """A kernel used an address that lies in no tensor it was handed."""


@dataclass
class Region:
    """One storage that a launch was handed."""

    name: str
    start: int
    nbytes: int
    unit: int
    """Bytes of one element: the grain of the bookkeeping."""
    used_bytes: int
    """What its tensors cover, as a view may be smaller than its storage."""
    storage: StorageWeakRef
    """As long as it is kept, no other storage is taken for this one."""
    far: int = 0
    """How many bytes into it a number of 32 bits reached, see reach.py."""
    read_by: Any = None
    read_at: Any = None
    """What the launch had moved when each place was last read."""
    written_by: Any = None
    again: int = 0
    """Bytes that a program read and had read before."""
    between: float = 0.0
    """What programs moved from one read of such a byte to the next, summed over all of them."""

    @property
    def slots(self) -> int:
        return -(-self.nbytes // self.unit)

    def share(self, marks: Any) -> float:
        return 0.0 if marks is None else int(np.count_nonzero(marks)) * self.unit / max(1, self.used_bytes)

    def note_read(self, slots: Any, program: int, moved: int, most: int) -> None:
        """`moved`: by the launch so far; `most`: bytes that these reads can be of, as lanes may share a place."""
        if self.read_by is None:
            self.read_by, self.read_at = np.zeros(self.slots, dtype=np.int32), np.zeros(self.slots, dtype=np.int64)
        before = self.read_by[slots] == program
        if before.any():
            nbytes = min(int(np.count_nonzero(before)) * self.unit, most)
            self.again += nbytes
            self.between += nbytes * float((moved - self.read_at[slots][before]).mean())
        self.read_by[slots] = program
        self.read_at[slots] = moved


@dataclass
class Launch:
    """The books of one interpreted launch."""

    kernel: str
    regions: list[Region]
    flags: dict[str, bool] = field(default_factory=dict)
    program: int = 0
    atomics: bool = False
    races: list[str] = field(default_factory=list)
    patched: dict[Any, Any] = field(default_factory=dict)
    """Language modules that are already patched for this launch."""
    moved: int = 0
    """Bytes of all accesses so far, those of a lane that shares its place with another one left out."""
    programs: set[int] = field(default_factory=set)
    """Those that moved any."""

    @property
    def most_elements(self) -> int:
        """Of its tensors."""
        return max((region.used_bytes // region.unit for region in self.regions), default=0)

    def between(self, region: Region) -> float:
        """From one read of a place to the next by the same program, beside all that a program moves."""
        each = self.moved / max(1, len(self.programs))
        return region.between / region.again / each if region.again and each else 0.0

    def _moves(self, addresses: Any, itemsize: int) -> int:
        most = min(int(addresses.size) * itemsize, int(addresses.max() - addresses.min()) + itemsize)
        self.moved += most
        self.programs.add(self.program)
        return most

    def _find(self, low: int, high: int, verb: str) -> Region:
        for region in self.regions:
            if region.start <= low and high <= region.start + region.nbytes:
                return region
        name, away = min(
            ((r.name, max(r.start - low, high - r.start - r.nbytes)) for r in self.regions),
            key=lambda pair: pair[1],
            default=("no tensor", 0),
        )
        raise OutOfBounds(f"{self.kernel} {verb} {away} bytes outside of every tensor it was handed, nearest {name}")

    def _slots(self, addresses: Any, itemsize: int, verb: str) -> list[tuple[Region, Any, Any]]:
        """(region, slot indices, which of the addresses) for each region touched; mostly there is one."""
        low, high = int(addresses.min()), int(addresses.max()) + itemsize
        try:
            region = self._find(low, high, verb)
            return [(region, (addresses - np.uint64(region.start)) // np.uint64(region.unit), slice(None))]
        except OutOfBounds:
            pass
        found = []
        owners = [id(self._find(int(a), int(a) + itemsize, verb)) for a in addresses]
        for region in self.regions:
            mine = np.array([owner == id(region) for owner in owners])
            if mine.any():
                found.append((region, (addresses[mine] - np.uint64(region.start)) // np.uint64(region.unit), mine))
        return found

    def reads(self, addresses: Any, itemsize: int) -> None:
        if addresses.size == 0:
            return
        moved, most = self.moved, self._moves(addresses, itemsize)
        for region, slots, _ in self._slots(addresses, itemsize, "reads"):
            for step in range(max(1, itemsize // region.unit)):
                region.note_read(slots + np.uint64(step), self.program, moved, most)
            if region.written_by is not None and not self.atomics:
                writers = region.written_by[slots]
                if ((writers != 0) & (writers != self.program)).any():
                    self._race(f"{self.kernel} reads from {region.name} what another program of the launch wrote")

    def writes(self, addresses: Any, values: Any, itemsize: int) -> None:
        if addresses.size == 0:
            return
        self._moves(addresses, itemsize)
        for region, slots, mine in self._slots(addresses, itemsize, "writes"):
            if region.written_by is None:
                region.written_by = np.zeros(region.slots, dtype=np.int32)
            writers = region.written_by[slots]
            foreign = (writers != 0) & (writers != self.program)
            if foreign.any() and not self.atomics and self._differs(addresses[mine][foreign], values[mine][foreign]):
                self._race(f"{self.kernel} writes two different values to one place in {region.name}")
            for step in range(max(1, itemsize // region.unit)):
                region.written_by[slots + np.uint64(step)] = self.program

    def reaches(self, address: int, nbytes: int) -> None:
        region = self._find(address, address + 1, "reaches")
        region.far = max(region.far, nbytes)

    def _differs(self, addresses: Any, values: Any) -> bool:
        from triton._C.libtriton import interpreter

        values = np.ascontiguousarray(values)
        everywhere = np.ones(addresses.shape, dtype=bool)
        present = interpreter.load(np.ascontiguousarray(addresses), everywhere, np.zeros_like(values), values.dtype)
        return bool(present.tobytes() != values.tobytes())

    def _race(self, text: str) -> None:
        if text not in self.races and len(self.races) < MOST_RACES:
            self.races.append(text)


def _tensors(value: Any, name: str) -> list[tuple[str, torch.Tensor]]:
    if isinstance(value, (tuple, list)):
        return [found for i, item in enumerate(value) for found in _tensors(item, f"{name}[{i}]")]
    if isinstance(value, torch.Tensor):
        return [(name, value)]
    base = getattr(value, "base", None)
    return [(name, base)] if isinstance(base, torch.Tensor) else []


def covered_bytes(tensor: torch.Tensor) -> int:
    """Bytes of memory a tensor stands for; an expanded one stands for less than its shape says."""
    return int(min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes()))


def distinct_tensors(arguments: dict[str, Any]) -> list[tuple[str, torch.Tensor]]:
    """The tensors among a launch's arguments, one for each storage: the one that covers most of it."""
    best: dict[int, tuple[str, torch.Tensor]] = {}
    for name, value in arguments.items():
        for found, tensor in _tensors(value, name):
            key = tensor.untyped_storage()._cdata
            if key not in best:
                best[key] = (found, tensor)
            elif covered_bytes(tensor) > covered_bytes(best[key][1]):
                best[key] = (best[key][0], tensor)
    return list(best.values())


def open_books(kernel: str, arguments: dict[str, Any]) -> Launch:
    regions = []
    for name, tensor in distinct_tensors(arguments):
        storage = tensor.untyped_storage()
        regions.append(
            Region(
                name,
                storage.data_ptr(),
                storage.nbytes(),
                tensor.element_size(),
                max(1, covered_bytes(tensor)),
                StorageWeakRef(storage),
            )
        )
    flags = {name: value for name, value in arguments.items() if isinstance(value, bool)}
    return Launch(kernel, regions, flags)
