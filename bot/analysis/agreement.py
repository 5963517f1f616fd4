"""The traffic count beside what Nsight Compute read of the same launches.

What a kernel writes is still in the L2 cache when it ends, up to all of it, so DRAM says nothing of the writes of a
small one: there the count is held against what went in and out of the L2 cache. Both are read from cold caches, as the
profiler empties them before each replay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bot.analysis.symptoms import Reading
from bot.hardware.catalog import Datasheet
from bot.model.profiling import Counters, KernelCounters, Moved, Traffic

MANY_L2 = 10
"""A launch that moves at least as many times the L2 cache is held against DRAM: what may be left in it is a tenth."""
MOST_APART = 0.10
SECTOR = 32
MIB = 2**20


def placed(
    kernels: Sequence[KernelCounters], asked: Sequence[str], launched: Mapping[str, Sequence[str]]
) -> tuple[KernelCounters, ...]:
    """Profiled launches with the case each is of. They come in the order of the cases; where they are not what these
    cases launch, only a kernel that a single case launches has one."""
    known = {one.kernel for one in kernels}
    due = [(case, kernel) for case in asked for kernel in launched.get(case, ()) if kernel in known]
    if [one.kernel for one in kernels] == [kernel for _, kernel in due[: len(kernels)]]:
        return tuple(one.model_copy(update={"case": case}) for one, (case, _) in zip(kernels, due, strict=False))
    homes = {kernel: {case for case, other in due if other == kernel} for kernel in known}
    return tuple(
        one.model_copy(update={"case": min(homes[one.kernel])}) if len(homes[one.kernel]) == 1 else one
        for one in kernels
    )


def _sum(readings: Sequence[Reading], name: str) -> float | None:
    """None as soon as one launch lacks it."""
    values = [reading.get(name) for reading in readings]
    known = [value for value in values if value is not None]
    return sum(known) if values and len(known) == len(values) else None


def _l2_bytes(sheet: Datasheet) -> float | None:
    return sheet.l2.value * MIB if sheet.l2 is not None else None


def _held(known: Traffic, l2_bytes: float) -> Traffic:
    counted = known.counted_read + known.counted_written
    if counted / known.launches >= MANY_L2 * l2_bytes:
        level = "dram"
        read = None if known.dram_read is None or known.dram_written is None else known.dram_read + known.dram_written
    else:
        level, read = "l2", known.l2
    ratio = counted / read if read else None
    agrees = abs(ratio - 1) <= MOST_APART if ratio is not None else None
    return known.model_copy(update={"level": level, "ratio": ratio, "agrees": agrees})


def _beside(moved: Sequence[Moved], read: Sequence[KernelCounters], l2_bytes: float | None) -> Traffic:
    """Over the launches that both know, in their order: a profiler may have been told to stop early."""
    both = min(len(moved), len(read)) or len(moved)
    readings = [Reading(one) for one in read[:both]]
    sectors = _sum(readings, "l2_sectors")
    known = Traffic(
        case=moved[0].case,
        kernel=moved[0].kernel,
        launches=both,
        counted_read=sum(one.read_bytes for one in moved[:both]),
        counted_written=sum(one.written_bytes for one in moved[:both]),
        dram_read=_sum(readings, "dram_read_bytes"),
        dram_written=_sum(readings, "dram_write_bytes"),
        l2=SECTOR * sectors if sectors is not None else None,
    )
    return _held(known, l2_bytes) if read and l2_bytes is not None else known


def traffic(moved: Iterable[Moved], counters: Counters | None, sheet: Datasheet) -> tuple[Traffic, ...]:
    """One line a case and kernel; what no profiler read is counted alone."""
    counted: dict[tuple[str, str], list[Moved]] = {}
    for one in moved:
        counted.setdefault((one.case, one.kernel), []).append(one)
    kernels = counters.kernels if counters is not None else ()
    return tuple(
        _beside(launches, [k for k in kernels if (k.case, k.kernel) == key], _l2_bytes(sheet))
        for key, launches in counted.items()
    )
