"""The traffic count beside what Nsight Compute read of the same launches.

What a kernel writes is still in the L2 cache when it ends, up to all of it, so DRAM says nothing of the writes of a
small one: there the count is held against what went in and out of the L2 cache. Both are read from cold caches, as the
profiler empties them before each replay.

The count knows tensors alone. Registers that a kernel spills go through L2 as well, and hardly ever as far as DRAM.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bot.analysis.estimate import programs_of
from bot.analysis.symptoms import Reading
from bot.hardware.catalog import Datasheet
from bot.model.measurement import Launch
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
    agrees = _agrees(counted, known.spilled if level == "l2" else 0.0, read) if read else None
    return known.model_copy(update={"level": level, "ratio": ratio, "agrees": agrees})


def _agrees(counted: float, spilled: float, read: float) -> bool:
    """Nobody knows how much of what is spilled comes as far: all of it may, or nothing."""
    return counted / read - 1 <= MOST_APART and 1 - (counted + spilled) / read <= MOST_APART


def _spilled(launch: Launch, sheet: Datasheet) -> float:
    """Of all threads of a launch: what each stores and loads once."""
    bytes_each = max(0, launch.resources.spill_bytes) if launch.resources is not None else 0
    return programs_of(launch) * max(1, launch.num_warps) * (sheet.number("threads_per_warp") or 32) * bytes_each


def _beside(
    moved: Sequence[Moved], read: Sequence[KernelCounters], launched: Sequence[Launch], sheet: Datasheet
) -> Traffic:
    """Over the launches that both know, in their order: a profiler may have been told to stop early."""
    both, l2_bytes = min(len(moved), len(read)) or len(moved), _l2_bytes(sheet)
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
        spilled=sum(_spilled(launch, sheet) for launch in launched[:both]),
    )
    return _held(known, l2_bytes) if read and l2_bytes is not None else known


def traffic(
    moved: Iterable[Moved],
    counters: Counters | None,
    sheet: Datasheet,
    launched: Mapping[str, Sequence[Launch]] | None = None,
) -> tuple[Traffic, ...]:
    """One line a case and kernel; what no profiler read is counted alone. `launched`: what each case launches."""
    counted: dict[tuple[str, str], list[Moved]] = {}
    for one in moved:
        counted.setdefault((one.case, one.kernel), []).append(one)
    kernels = counters.kernels if counters is not None else ()
    found = []
    for (case, kernel), launches in counted.items():
        read = [one for one in kernels if (one.case, one.kernel) == (case, kernel)]
        mine = [one for one in (launched or {}).get(case, ()) if one.kernel == kernel]
        found.append(_beside(launches, read, mine, sheet))
    return tuple(found)
