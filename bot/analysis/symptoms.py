"""The GPU's counters, read for known symptoms: evidence -> inference -> action, and the class of the bottleneck.

Each symptom is a short function and a line in the table. A counter that a chip or a version of the profiler lacks
leaves its symptom out; nothing is taken for zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from bot.model.diagnosis import Bottleneck, Clue, Confidence
from bot.model.profiling import KernelCounters

PEAK = "avg.pct_of_peak_sustained"
STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
STALLS = (
    *("long_scoreboard", "short_scoreboard", "wait", "barrier", "math_pipe_throttle"),
    *("mio_throttle", "lg_throttle", "not_selected"),
)
COUNTERS: dict[str, tuple[str, ...]] = {
    "time": ("gpu__time_duration.sum",),
    "compute": (f"sm__throughput.{PEAK}_elapsed",),
    "memory": (f"gpu__compute_memory_throughput.{PEAK}_elapsed",),
    "dram": (f"dram__throughput.{PEAK}_elapsed", f"gpu__dram_throughput.{PEAK}_elapsed"),
    "dram_read": (f"dram__bytes_read.sum.{PEAK[4:]}_elapsed", f"dram__throughput.{PEAK}_elapsed"),
    "l1": (f"l1tex__throughput.{PEAK}_active",),
    "dram_read_bytes": ("dram__bytes_read.sum",),
    "dram_write_bytes": ("dram__bytes_write.sum",),
    "l2_bytes": ("lts__t_bytes.sum",),
    "l2_sectors": ("lts__t_sectors_srcunit_tex.sum",),
    "l1_hits": ("l1tex__t_sector_hit_rate.pct",),
    "l2_hits": ("lts__t_sector_hit_rate.pct",),
    "achieved": (f"sm__warps_active.{PEAK}_active",),
    "theoretical": ("sm__maximum_warps_per_active_cycle_pct", f"sm__maximum_warps_{PEAK}_active"),
    "registers": ("launch__registers_per_thread",),
    "waves": ("launch__waves_per_multiprocessor",),
    "grid": ("launch__grid_size",),
    "processors": ("device__attribute_multiprocessor_count", "launch__sm_count"),
    "load_sectors": ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",),
    "load_requests": ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",),
    "load_bytes": ("smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio",),
    "store_bytes": ("smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio",),
    "atomics": ("l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum",),
    "reductions": ("l1tex__t_requests_pipe_lsu_mem_global_op_red.sum",),
    "fp32": (f"sm__pipe_fma_cycles_active.{PEAK}_active", f"sm__inst_executed_pipe_fma.{PEAK}_active"),
    "tensor": (f"sm__pipe_tensor_cycles_active.{PEAK}_active", f"sm__inst_executed_pipe_tensor.{PEAK}_active"),
    "fp64": (f"sm__pipe_fp64_cycles_active.{PEAK}_active", f"sm__inst_executed_pipe_fp64.{PEAK}_active"),
    "local_loads": ("smsp__sass_inst_executed_op_local_ld.sum", "smsp__inst_executed_op_local_ld.sum"),
    "local_stores": ("smsp__sass_inst_executed_op_local_st.sum", "smsp__inst_executed_op_local_st.sum"),
    "threads": ("smsp__thread_inst_executed_per_inst_executed.ratio",),
    **{name: (STALL.format(name),) for name in STALLS},
}
"""What is read of a profile, each with the names it goes by."""


class Reading:
    """One profiled launch. An unknown counter is None, and no comparison with it holds."""

    def __init__(self, counters: KernelCounters) -> None:
        self.kernel = counters.kernel
        self._known = {one.name: one.value for one in counters.counters}

    def get(self, name: str) -> float | None:
        return next((self._known[alias] for alias in COUNTERS[name] if alias in self._known), None)

    def above(self, name: str, bound: float) -> bool:
        value = self.get(name)
        return value is not None and value > bound

    def below(self, name: str, bound: float) -> bool:
        value = self.get(name)
        return value is not None and value < bound

    def ratio(self, one: str, other: str) -> float | None:
        above, below = self.get(one), self.get(other)
        return above / below if above is not None and below else None


class Seen(NamedTuple):
    evidence: str
    inference: str
    action: str
    confidence: Confidence = "medium"


def _small_grid(k: Reading) -> Seen | None:
    waves, grid, processors = k.get("waves"), k.get("grid"), k.get("processors")
    few = grid is not None and processors is not None and grid < processors
    if not few and not k.below("waves", 0.5):
        return None
    shown = f"{grid:.0f} programs for {processors:.0f} multiprocessors" if few else f"{waves:.2f} waves"
    return Seen(shown, "the grid does not fill the GPU", "more programs: a split of the row, or of the rows", "high")


def _tail(k: Reading) -> Seen | None:
    waves = k.get("waves")
    if waves is None or waves <= 1:
        return None
    idle = 1 - waves % 1 if waves % 1 else 0.0
    lost = idle / -(-waves // 1)
    if lost <= 0.15:
        return None
    evidence = f"{waves:.2f} waves: {idle:.0%} of the last one is idle, {lost:.0%} of all"
    return Seen(
        evidence, "the last wave leaves multiprocessors without work", "a grid of whole waves, or one that stays"
    )


FULL_SECTOR = 32 / 1.25
"""Bytes of a sector that are used. Sectors a request alone do not tell: 128-bit loads ask for 16 at once and use each
byte of them, as both kernels of rms_norm do on an H200 (16.0 and 13.0 sectors, 32 and 31.6 bytes)."""


def _uncoalesced(k: Reading) -> Seen | None:
    found, used = k.ratio("load_sectors", "load_requests"), k.get("load_bytes")
    if found is None or found <= 5 or (used is not None and used >= FULL_SECTOR):
        return None
    evidence = f"{found:.1f} sectors a load request, 4 would do for 32-bit accesses"
    return Seen(evidence, "neighbouring threads may not read neighbouring bytes", "contiguous columns a warp", "low")


def _sparse_stores(k: Reading) -> Seen | None:
    if not k.below("store_bytes", 16):
        return None
    evidence = f"{k.get('store_bytes'):.1f} bytes of each stored 32-byte sector are used"
    return Seen(evidence, "stores are scattered or narrow", "store whole sectors of neighbouring columns", "high")


def _latency(k: Reading) -> Seen | None:
    if not k.above("long_scoreboard", 3):
        return None
    sure: Confidence = "high" if k.below("dram_read", 10) else "medium"
    evidence = f"{k.get('long_scoreboard'):.1f} warps wait for memory for each instruction that is issued"
    return Seen(evidence, "the latency of loads is not hidden", "pipelined loads, or more warps side by side", sure)


def _no_tensor(k: Reading) -> Seen | None:
    if not (k.above("fp32", 50) and k.below("tensor", 1)):
        return None
    evidence = f"the fp32 pipe is {k.get('fp32'):.0f} % busy, the matrix units {k.get('tensor'):.1f} %"
    return Seen(evidence, "arithmetic runs outside of the matrix units", "tl.dot, where it is a product of matrices")


def _atomics(k: Reading) -> Seen | None:
    count = (k.get("atomics") or 0) + (k.get("reductions") or 0)
    if count <= 0 or not k.above("lg_throttle", 1):
        return None
    evidence = (
        f"{count:.0f} atomic requests, and {k.get('lg_throttle'):.1f} warps wait for the queue of global accesses"
    )
    return Seen(evidence, "atomics queue up", "partial sums in a buffer, added once at the end")


def _shared(k: Reading) -> Seen | None:
    if not k.above("short_scoreboard", 2):
        return None
    evidence = f"{k.get('short_scoreboard'):.1f} warps wait for shared memory or a special function an issue"
    return Seen(evidence, "shared memory, or exponentials and roots, hold it back", "fewer of them, or fewer conflicts")


def _barrier(k: Reading) -> Seen | None:
    if not k.above("barrier", 2):
        return None
    evidence = f"{k.get('barrier'):.1f} warps wait at a barrier for each instruction that is issued"
    return Seen(evidence, "warps of a program wait for each other", "fewer warps a program, or fewer reductions")


def _half_occupied(k: Reading) -> Seen | None:
    achieved, could = k.get("achieved"), k.get("theoretical")
    if achieved is None or could is None or could <= 50 or achieved >= could / 2:
        return None
    evidence = f"{achieved:.0f} % of the warps are active, {could:.0f} % could be"
    return Seen(evidence, "work is unevenly spread, or programs end too soon", "longer programs of even length")


def _local(k: Reading) -> Seen | None:
    spilled = (k.get("local_loads") or 0) + (k.get("local_stores") or 0)
    if spilled > 0:
        evidence = f"{spilled:.0f} instructions on local memory"
        return Seen(
            evidence, "registers are spilled", "more warps a program, a smaller block, or tiles of the row", "high"
        )
    if k.above("registers", 128):
        evidence = f"{k.get('registers'):.0f} registers a thread"
        return Seen(evidence, "few warps fit beside each other", "a smaller block, or more warps for the same block")
    return None


def _fp64(k: Reading) -> Seen | None:
    if not k.above("fp64", 1):
        return None
    evidence = f"the float64 pipe is {k.get('fp64'):.1f} % busy"
    return Seen(evidence, "an unexpected float64 in the arithmetic", "keep constants in float32", "high")


def _pipeline(k: Reading) -> Seen | None:
    if not (k.above("long_scoreboard", 2) and k.above("dram_read", 30)):
        return None
    evidence = (
        f"memory is {k.get('dram_read'):.0f} % busy and {k.get('long_scoreboard'):.1f} warps wait for it an issue"
    )
    return Seen(evidence, "memory and arithmetic take turns", "load the next rows while one is worked on")


def _divergent(k: Reading) -> Seen | None:
    if not k.below("threads", 24):
        return None
    evidence = f"{k.get('threads'):.1f} of 32 threads of a warp are active"
    return Seen(evidence, "lanes are masked off or branches part them", "a block that fits the row")


OUTWEIGHS = 1.5
"""What memory has of its peak, against what arithmetic has."""


def _memory_first(k: Reading) -> Seen | None:
    compute, memory = k.get("compute"), k.get("memory")
    if compute is None or memory is None or memory <= LOW or memory <= OUTWEIGHS * compute:
        return None
    evidence = f"memory at {memory:.0f} % of its peak, arithmetic at {compute:.0f} %"
    return Seen(
        evidence, "bytes take the time, and not instructions", "fewer bytes: read once, narrower, nothing twice"
    )


Look: TypeAlias = Callable[[Reading], Seen | None]
SYMPTOMS: dict[str, Look] = {
    "A": _small_grid,
    "B": _tail,
    "C": _uncoalesced,
    "D": _sparse_stores,
    "E": _latency,
    "F": _no_tensor,
    "G": _atomics,
    "H": _shared,
    "I": _barrier,
    "J": _half_occupied,
    "K": _local,
    "L": _fp64,
    "M": _pipeline,
    "N": _divergent,
}
IN_GENERAL: dict[str, Look] = {"O": _memory_first}
"""What the class says as well: told behind all that says why."""


def symptoms(counters: KernelCounters, of: Mapping[str, Look] = SYMPTOMS) -> tuple[Clue, ...]:
    reading = Reading(counters)
    found = []
    for letter, look in of.items():
        seen = look(reading)
        if seen is not None:
            evidence = f"{counters.kernel}: {seen.evidence} (ncu, symptom {letter})"
            found.append(Clue(evidence=evidence, inference=seen.inference, action=seen.action,
                              confidence=seen.confidence, basis="counters"))  # fmt: skip
    return tuple(found)


def stalls(counters: KernelCounters, most: int = 3) -> tuple[tuple[str, float], ...]:
    """What warps wait for most, in warps an issued instruction."""
    reading = Reading(counters)
    known = [(name, value) for name in STALLS if (value := reading.get(name)) is not None and value > 0]
    return tuple(sorted(known, key=lambda pair: -pair[1])[:most])


HIGH, MIDDLE, LOW = 60.0, 40.0, 30.0
"""Percent of peak (T-02 to T-04)."""
POOR_OCCUPANCY = 25.0
"""Percent (T-07)."""
WAITS = {
    "long_scoreboard": "memory",
    "short_scoreboard": "shared memory or a special function",
    "wait": "a fixed latency",
    "barrier": "a barrier",
    "math_pipe_throttle": "a busy arithmetic pipe",
    "mio_throttle": "the queue of shared memory",
    "lg_throttle": "the queue of global memory",
    "not_selected": "their turn",
}
"""What warps wait for, by the profiler's word for it."""


def class_of(compute: float, memory: float, waves: float | None) -> tuple[Bottleneck, Confidence]:
    """The class that two percentages of peak stand for, with no gap between the rules (T-05)."""
    if compute < LOW and memory < LOW:
        return (Bottleneck.LAUNCH if waves is not None and waves < 1 else Bottleneck.LATENCY), "medium"
    if compute > HIGH and memory > HIGH:
        return Bottleneck.BALANCED, "high"
    if memory > HIGH and compute < MIDDLE:
        return Bottleneck.MEMORY, "high"
    if compute > HIGH and memory < MIDDLE:
        return Bottleneck.COMPUTE, "high"
    if LOW <= compute <= HIGH and LOW <= memory <= HIGH:
        return Bottleneck.BALANCED, "medium"
    return (Bottleneck.MEMORY if memory >= compute else Bottleneck.COMPUTE), "low"


def classified(counters: KernelCounters) -> tuple[Bottleneck, Confidence] | None:
    """Where nothing is near its peak, warps that wait on a multiprocessor with few of them decide."""
    reading = Reading(counters)
    compute, memory = reading.get("compute"), reading.get("memory")
    if compute is None or memory is None:
        return None
    kind, certainty = class_of(compute, memory, reading.get("waves"))
    idle = reading.above("long_scoreboard", 3) and reading.below("achieved", POOR_OCCUPANCY)
    if certainty == "low" and max(compute, memory) <= HIGH and idle:
        return Bottleneck.LATENCY, "medium"
    return kind, certainty


def dominant(kernels: tuple[KernelCounters, ...]) -> tuple[KernelCounters, float] | None:
    """The kernel that took most of the profiled time, as its longest launch, with its share of that time."""
    spent: dict[str, float] = {}
    longest: dict[str, tuple[float, KernelCounters]] = {}
    for one in kernels:
        time = Reading(one).get("time") or 0.0
        spent[one.kernel] = spent.get(one.kernel, 0.0) + time
        if one.kernel not in longest or time > longest[one.kernel][0]:
            longest[one.kernel] = (time, one)
    total = sum(spent.values())
    if not total > 0:
        return None
    name = max(spent, key=lambda kernel: spent[kernel])
    return longest[name][1], spent[name] / total
