"""The traffic count beside the profiler's: which of its numbers is asked, and when both agree."""

from __future__ import annotations

from typing import Any

import pytest

from bot.analysis.agreement import placed, traffic
from bot.hardware.catalog import Datasheet, for_arch
from bot.model.measurement import Launch
from bot.model.profiling import Counter, Counters, KernelCounters, Moved, Traffic
from tests.analysis import made

H200 = for_arch("sm_90")
L2 = 60 * 2**20
LARGE, SMALL = 10 * L2, 10 * L2 - 2


def moved(nbytes: float, case: str = "fwd", kernel: str = "_k") -> Moved:
    return Moved(case=case, kernel=kernel, read_bytes=nbytes / 2, written_bytes=nbytes / 2)


def read(dram: float | None, l2: float | None, case: str = "fwd", kernel: str = "_k") -> KernelCounters:
    """`dram` and `l2`: all bytes there; reads and writes are half of it each, as the profiler tells them apart."""
    known = {} if dram is None else {"dram__bytes_read.sum": dram / 2, "dram__bytes_write.sum": dram / 2}
    known |= {} if l2 is None else {"lts__t_sectors_srcunit_tex.sum": l2 / 32, "lts__t_bytes.sum": 1.5 * l2}
    counters = tuple(Counter(name=name, value=value) for name, value in known.items())
    return KernelCounters(kernel=kernel, case=case, counters=counters)


def held(launches: list[Moved], kernels: list[KernelCounters], sheet: Datasheet = H200) -> tuple[object, ...]:
    (found,) = traffic(launches, Counters(status="read", kernels=tuple(kernels)), sheet)
    return found.level, found.ratio and round(found.ratio, 4), found.agrees


@pytest.mark.parametrize(("nbytes", "level"), [(LARGE, "dram"), (SMALL, "l2")])
def test_ten_times_the_l2_cache_and_more_is_held_against_dram_and_less_against_l2(nbytes: int, level: str) -> None:
    dram, l2 = (nbytes, 2 * nbytes) if level == "dram" else (nbytes / 2, nbytes)
    assert held([moved(nbytes)], [read(dram, l2)]) == (level, 1.0, True)


@pytest.mark.parametrize(("share", "agrees"), [(0.901, True), (0.899, False), (1.099, True), (1.101, False)])
@pytest.mark.parametrize("nbytes", [LARGE, SMALL])
def test_a_tenth_more_or_less_still_agrees(nbytes: int, share: float, agrees: bool) -> None:
    known = nbytes / share
    assert held([moved(nbytes)], [read(known, known)]) == (("l2", "dram")[nbytes == LARGE], share, agrees)


def test_many_small_launches_stay_small_ones() -> None:
    """Slices of a large tensor are still in the L2 cache one by one."""
    launches = [moved(LARGE / 8)] * 8
    assert held(launches, [read(LARGE / 16, LARGE / 8)] * 8) == ("l2", 1.0, True)


def test_launches_that_the_profiler_was_not_given_are_not_counted_either() -> None:
    (found,) = traffic([moved(SMALL)] * 3, Counters(status="read", kernels=(read(None, SMALL),) * 2), H200)
    assert (found.launches, found.counted_read + found.counted_written, found.ratio) == (2, 2 * SMALL, 1.0)


def test_what_a_launch_lacks_is_not_taken_for_zero() -> None:
    assert held([moved(SMALL)], [read(SMALL, None)]) == ("l2", None, None)
    assert held([moved(LARGE)], [read(None, LARGE)]) == ("dram", None, None)
    assert held([moved(SMALL)] * 2, [read(None, SMALL), read(None, None)]) == ("l2", None, None)


def test_without_a_profiler_or_the_size_of_the_cache_the_count_stands_alone() -> None:
    (alone,) = traffic([moved(SMALL)], None, H200)
    assert (alone.launches, alone.counted_read, alone.level, alone.ratio) == (1, SMALL / 2, None, None)
    unknown = H200.model_copy(update={"l2": None})
    assert held([moved(SMALL)], [read(SMALL, SMALL)], unknown) == (None, None, None)
    assert traffic([], Counters(status="read", kernels=(read(1, 1),)), H200) == ()


def spilling(nbytes: int, rows: int = 1000, kernel: str = "_k", **fields: Any) -> Launch:
    """4 warps: 128 threads a program."""
    needs = made.resources(spill_bytes=nbytes)
    return made.launch(kernel, rows=rows, warps=4, **{"resources": needs, **fields})


def beside(read_bytes: float, *launches: Launch, counted: float = 1e8) -> Traffic:
    counters = Counters(status="read", kernels=(read(None, read_bytes),))
    (found,) = traffic([moved(counted)], counters, H200, {"fwd": launches, "bwd": (spilling(10**6),)})
    return found


@pytest.mark.parametrize(
    ("read_bytes", "agrees"),
    [(1e8 / 1.101, False), (1e8 / 1.099, True), (1e8 / 0.899, True), (1.5e8 / 0.901, True), (1.5e8 / 0.899, False)],
)
def test_spilled_registers_go_through_l2_all_of_them_or_none(read_bytes: float, agrees: bool) -> None:
    found = beside(read_bytes, spilling(625, rows=625))
    assert found.spilled == 625 * 128 * 625 == 5e7
    assert (found.level, found.agrees) == ("l2", agrees)
    assert found.ratio == 1e8 / read_bytes, "what is counted stays what it is"


@pytest.mark.parametrize("read_bytes", [1e8 / 0.899, 1e8 / 1.101])
def test_a_launch_that_spills_nothing_is_excused_by_nothing(read_bytes: float) -> None:
    for launch in (spilling(0), spilling(-8), spilling(8, resources=None), spilling(4096, kernel="_other")):
        found = beside(read_bytes, launch)
        assert (found.spilled, found.agrees) == (0.0, False)


def test_only_launches_that_the_profiler_was_given_spill() -> None:
    counters = Counters(status="read", kernels=(read(None, 1e8),) * 2)
    launches = {"fwd": (spilling(8), spilling(800, kernel="_other"), spilling(16), spilling(32))}
    (found,) = traffic([moved(1e8)] * 3, counters, H200, launches)
    assert (found.launches, found.spilled) == (2, 1000 * 128 * (8 + 16))
    (alone,) = traffic([moved(1e8)] * 3, None, H200, launches)
    assert (alone.spilled, alone.agrees) == (1000 * 128 * (8 + 16 + 32), None)


@pytest.mark.parametrize(("share", "agrees"), [(0.901, True), (0.899, False)])
def test_dram_knows_nothing_of_spills(share: float, agrees: bool) -> None:
    counters = Counters(status="read", kernels=(read(LARGE / share, LARGE / share),))
    (found,) = traffic([moved(LARGE)], counters, H200, {"fwd": (spilling(4096),)})
    assert found.spilled > LARGE / 2
    assert (found.level, found.agrees) == ("dram", agrees)


def cases(kernels: list[str], launched: dict[str, tuple[str, ...]]) -> list[str]:
    rows = [KernelCounters(kernel=kernel) for kernel in kernels]
    return [one.case for one in placed(rows, ["fwd", "bwd"], launched)]


def test_profiled_launches_come_in_the_order_of_the_cases_also_where_both_passes_launch_one_kernel() -> None:
    assert cases(["_rope", "_rope"], {"fwd": ("_rope",), "bwd": ("_rope",)}) == ["fwd", "bwd"]
    assert cases(["_f", "_f", "_b"], {"fwd": ("_f", "_f"), "bwd": ("_b",)}) == ["fwd", "fwd", "bwd"]
    assert cases(["_f", "_f"], {"fwd": ("_f", "_f"), "bwd": ("_b",)}) == ["fwd", "fwd"], "it was told to stop early"
    assert cases(["_b"], {"fwd": ("_other",), "bwd": ("_b",)}) == ["bwd"], "one it did not see"


def test_where_they_are_not_what_was_recorded_a_kernel_of_both_cases_belongs_to_none() -> None:
    launched = {"fwd": ("_f", "_both"), "bwd": ("_both", "_b")}
    assert cases(["_f", "_f", "_both", "_b"], launched) == ["fwd", "fwd", "", "bwd"]
    assert cases(["_nobody"], launched) == [""]
