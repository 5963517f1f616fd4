"""The traffic count beside what Nsight Compute read of the same launches.

What a kernel writes is still in the L2 cache when it ends, up to all of it, so DRAM says nothing of the writes of a
small one: there the count is held against what went in and out of the L2 cache. Both are read from cold caches, as the
profiler empties them before each replay.

Two counts are held against them. What a launch has to move, each byte once, is what DRAM sees. What it asks of L2 is
that and what its programs read again, unless L1 still has it: what the programs that are resident on one multiprocessor
move between both reads, all of them together, fits there. Registers that a kernel spills are stored through L1, and
loaded from it where they fit as well. What L2 holds of all this does not come as far as DRAM.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

from bot.analysis.estimate import programs_of
from bot.analysis.occupancy import RESERVED_SHARED, occupancy
from bot.analysis.symptoms import Reading
from bot.hardware.catalog import Datasheet
from bot.model.measurement import Launch
from bot.model.profiling import Counters, KernelCounters, Moved, Traffic

MANY_L2 = 10
"""A launch that moves at least as many times the L2 cache is held against DRAM: what may be left in it is a tenth."""
MOST_APART = 0.10
SHARED_KIB = (0, 8, 16, 32, 64, 100, 132, 164, 196, 228)
"""What a multiprocessor may set aside as shared memory, as far as it has it (CUDA Programming Guide, table 32). The
driver chooses: taken is the least that its programs fit into."""
SECTOR = 32
KIB = 2**10
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
    counted: float | None = known.compulsory
    if known.compulsory / known.launches >= MANY_L2 * l2_bytes:
        level = "dram"
        read = None if known.dram_read is None or known.dram_written is None else known.dram_read + known.dram_written
    else:
        level, read, counted = "l2", known.l2, known.asked
    ratio = counted / read if read and counted is not None else None
    agrees = abs(ratio - 1) <= MOST_APART if ratio is not None else None
    return known.model_copy(update={"level": level, "ratio": ratio, "agrees": agrees})


def _l1_bytes(launch: Launch, sheet: Datasheet) -> float | None:
    """What each of the programs that are resident on one multiprocessor has of L1: shared memory is taken from it."""
    if sheet.data_cache is None or sheet.multiprocessors is None or launch.resources is None:
        return None
    resident = min(occupancy(launch, sheet).programs, -(-programs_of(launch) // int(sheet.multiprocessors.value)))
    needed = resident * (max(0, launch.resources.shared_bytes) + RESERVED_SHARED) / KIB
    aside = next((size for size in SHARED_KIB if size >= needed), SHARED_KIB[-1])
    return (sheet.data_cache.value - aside) * KIB / resident


def _again(moved: Moved, launch: Launch | None, sheet: Datasheet) -> float | None:
    """What a launch reads again and L1 no longer has."""
    if not moved.again:
        return 0.0
    room = _l1_bytes(launch, sheet) if launch is not None else None
    return None if room is None else sum(one.nbytes for one in moved.again if one.between > room)


def _stored(launch: Launch, sheet: Datasheet) -> float:
    """Of spilled registers by one program: the compiler counts what is stored and what is loaded, half of it each."""
    nbytes = max(0, launch.resources.spill_bytes) if launch.resources is not None else 0
    return nbytes / 2 * max(1, launch.num_warps) * (sheet.number("threads_per_warp") or 32)


def _spilled(launch: Launch, sheet: Datasheet) -> float:
    """Of all programs: what each stores and loads once."""
    return 2 * programs_of(launch) * _stored(launch, sheet)


def _spilled_asked(launch: Launch, sheet: Datasheet) -> float | None:
    """What is stored goes through L1. It is loaded from there as long as that holds it of all resident programs."""
    stored, room = _stored(launch, sheet), _l1_bytes(launch, sheet)
    if not stored:
        return 0.0
    return None if room is None else programs_of(launch) * stored * (2 if stored > room else 1)


def _all(found: Iterable[float | None]) -> float | None:
    """None as soon as it is not known of one launch."""
    values = list(found)
    known = [one for one in values if one is not None]
    return sum(known) if len(known) == len(values) else None


def _beside(
    moved: Sequence[Moved], read: Sequence[KernelCounters], launched: Sequence[Launch], sheet: Datasheet
) -> Traffic:
    """Over the launches that both know, in their order: a profiler may have been told to stop early."""
    both, l2_bytes = min(len(moved), len(read)) or len(moved), _l2_bytes(sheet)
    moved, launched = moved[:both], launched[:both]
    readings = [Reading(one) for one in read[:both]]
    sectors = _sum(readings, "l2_sectors")
    known = Traffic(
        case=moved[0].case,
        kernel=moved[0].kernel,
        launches=both,
        counted_read=sum(one.read_bytes for one in moved),
        counted_written=sum(one.written_bytes for one in moved),
        again=_all(_again(one, launch, sheet) for one, launch in zip_longest(moved, launched) if one is not None),
        dram_read=_sum(readings, "dram_read_bytes"),
        dram_written=_sum(readings, "dram_write_bytes"),
        l2=SECTOR * sectors if sectors is not None else None,
        spilled=sum(_spilled(launch, sheet) for launch in launched),
        spilled_asked=_all(_spilled_asked(launch, sheet) for launch in launched),
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
