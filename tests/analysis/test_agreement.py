"""The traffic count beside the profiler's: which of its numbers is asked, and when both agree."""

from __future__ import annotations

from typing import Any

import pytest

from bot.analysis.agreement import placed, traffic
from bot.hardware.catalog import Datasheet, for_arch
from bot.model.measurement import Launch
from bot.model.profiling import Counter, Counters, KernelCounters, Moved, ReadAgain, Traffic
from tests.analysis import made

H200 = for_arch("sm_90")
L2 = 60 * 2**20
LARGE, SMALL = 10 * L2, 10 * L2 - 2
KIB = 2**10


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
    ("rows", "nbytes", "loads"),
    [
        (132, 248 * KIB // 64, 0),  # one program on each multiprocessor, with 248 KiB of L1
        (132, 248 * KIB // 64 + 2, 1),
        (133, 124 * KIB // 64, 0),  # two
        (133, 124 * KIB // 64 + 2, 1),
    ],
)
def test_spilled_registers_are_stored_through_l1_and_loaded_from_it_where_they_fit(
    rows: int, nbytes: int, loads: int
) -> None:
    """A thread stores half of `nbytes`, and loads as much."""
    stored = rows * 128 * nbytes / 2
    found = beside(1e8 + stored * (1 + loads), spilling(nbytes, rows=rows))
    assert (found.spilled, found.spilled_asked) == (2 * stored, stored * (1 + loads))
    assert (found.level, found.ratio, found.agrees) == ("l2", 1.0, True)
    assert found.compulsory == 1e8, "what has to be moved stays what it is"


@pytest.mark.parametrize(("share", "agrees"), [(0.901, True), (0.899, False), (1.099, True), (1.101, False)])
def test_spilled_registers_excuse_no_more_than_they_are(share: float, agrees: bool) -> None:
    found = beside(1.25e8 / share, spilling(625, rows=625))
    assert (found.spilled, found.spilled_asked) == (5e7, 2.5e7)
    assert found.ratio == pytest.approx(share) and found.agrees == agrees


def test_where_nobody_knows_what_l1_holds_spills_are_held_against_nothing() -> None:
    unknown = H200.model_copy(update={"data_cache": None})
    counters = Counters(status="read", kernels=(read(None, 1e8),))
    (found,) = traffic([moved(1e8)], counters, unknown, {"fwd": (spilling(8),)})
    assert (found.spilled, found.spilled_asked, found.asked, found.agrees) == (1000 * 128 * 8, None, None, None)
    (found,) = traffic([moved(1e8)], counters, unknown, {"fwd": (spilling(0),)})
    assert (found.spilled_asked, found.agrees) == (0.0, True)


@pytest.mark.parametrize("read_bytes", [1e8 / 0.899, 1e8 / 1.101])
def test_a_launch_that_spills_nothing_is_excused_by_nothing(read_bytes: float) -> None:
    for launch in (spilling(0), spilling(-8), spilling(8, resources=None), spilling(4096, kernel="_other")):
        found = beside(read_bytes, launch)
        assert (found.spilled, found.spilled_asked, found.agrees) == (0.0, 0.0, False)


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


def rereading(between: float, nbytes: float = 5e7) -> Moved:
    """100 MB and, once more, half of it."""
    return moved(1e8).model_copy(update={"again": (ReadAgain(nbytes=nbytes, between=between),)})


def asked(launch: Launch | None, between: float, sheet: Datasheet = H200, l2: float = 1.5e8) -> Traffic:
    counters = Counters(status="read", kernels=(read(1e8, l2),))
    (found,) = traffic([rereading(between)], counters, sheet, {"fwd": (launch,)} if launch is not None else {})
    return found


def holding(registers: int, shared: int = 0, rows: int = 4096) -> Launch:
    """32 warps: 64 registers leave room for one program on a multiprocessor, 32 for two."""
    return made.launch(rows=rows, warps=32, resources=made.resources(registers=registers, shared_bytes=shared))


@pytest.mark.parametrize(
    ("launch", "kib"),
    [
        (holding(64), 248),  # 1 KiB of shared memory that the system keeps: 8 are set aside of 256
        (holding(64, shared=7 * KIB), 248),
        (holding(64, shared=7 * KIB + 1), 240),
        (holding(64, shared=200 * KIB), 28),
        (holding(32), 124),
        (holding(32, rows=132), 248),  # two would fit, and there is one for each
        (holding(32, rows=133), 124),
    ],
)
def test_what_is_read_again_is_asked_of_l2_where_l1_no_longer_has_it(launch: Launch, kib: int) -> None:
    held, lost = asked(launch, kib * KIB), asked(launch, kib * KIB + 1)
    assert (held.again, held.asked, held.ratio, held.agrees) == (0.0, 1e8, 1e8 / 1.5e8, False)
    assert (lost.again, lost.asked, lost.ratio, lost.agrees) == (5e7, 1.5e8, 1.0, True)
    assert held.compulsory == lost.compulsory == 1e8


def test_what_is_read_once_asks_for_nothing_more_whatever_is_known_of_l1() -> None:
    unknown = H200.model_copy(update={"data_cache": None})
    for sheet in (H200, unknown):
        (found,) = traffic([moved(1e8)], Counters(status="read", kernels=(read(None, 1e8),)), sheet)
        assert (found.again, found.ratio, found.agrees) == (0.0, 1.0, True)


@pytest.mark.parametrize("missing", ["data_cache", "multiprocessors"])
def test_nothing_is_held_against_l2_where_nobody_knows_what_l1_holds(missing: str) -> None:
    found = asked(holding(64), 1, H200.model_copy(update={missing: None}))
    assert (found.level, found.again, found.asked, found.ratio, found.agrees) == ("l2", None, None, None, None)


@pytest.mark.parametrize("launch", [None, holding(64).model_copy(update={"resources": None})])
def test_nor_where_nobody_knows_what_a_program_takes(launch: Launch | None) -> None:
    assert (asked(launch, 1).asked, asked(launch, 1).ratio) == (None, None)


def test_dram_is_asked_for_each_byte_once() -> None:
    again = moved(LARGE).model_copy(update={"again": (ReadAgain(nbytes=LARGE / 2, between=1e9),)})
    counters = Counters(status="read", kernels=(read(LARGE, 1.5 * LARGE),))
    (found,) = traffic([again], counters, H200, {"fwd": (holding(64),)})
    assert (found.level, found.ratio, found.agrees) == ("dram", 1.0, True)
    assert found.asked == 1.5 * LARGE, "what L2 is asked for stands beside it"


def test_of_several_launches_each_is_asked_and_one_that_is_not_known_leaves_all_unknown() -> None:
    counters = Counters(status="read", kernels=(read(None, 1e8),) * 2)
    launches = [rereading(200 * KIB), rereading(250 * KIB), rereading(1e9)]
    known = (holding(64), holding(64), holding(64))
    (found,) = traffic(launches, counters, H200, {"fwd": known})
    assert (found.launches, found.again) == (2, 5e7), "the profiler was not given the third"
    (found,) = traffic(launches, counters, H200, {"fwd": known[:1]})
    assert found.again is None


def test_group_norm_on_an_h200_reads_its_groups_twice() -> None:
    """16 x 32 x 16 x 4096, 2026-11-23: 16 x 32 programs of 128 KiB each, and two tensors of them backward."""
    tensor, programs = 67_108_864, 16 * 32
    launch = made.launch(warps=4, resources=made.resources(registers=44, shared_bytes=8), grid=(16, 32, 1))
    twice = Moved(
        case="fwd",
        kernel="_k",
        read_bytes=134_222_848,
        written_bytes=67_110_912,
        again=(ReadAgain(nbytes=tensor, between=294_933), ReadAgain(nbytes=tensor, between=294_933)),
    )
    counters = Counters(status="read", kernels=(read(322.8e6, 337.826464e6),))
    (found,) = traffic([twice], counters, H200, {"fwd": (launch,)})
    assert (found.compulsory, found.asked) == (201_333_760, 201_333_760 + 2 * tensor)
    assert found.ratio is not None and (round(found.ratio, 3), found.agrees) == (0.993, True)

    spilling = made.resources(registers=32, shared_bytes=8, spill_bytes=44_248)
    forward = Moved(
        case="fwd",
        kernel="_k",
        read_bytes=67_110_912,
        written_bytes=67_110_912,
        again=(ReadAgain(nbytes=tensor, between=131_059),),
    )
    counters = Counters(status="read", kernels=(read(2881.3e6, 2944.83088e6),))
    launch = made.launch(warps=4, resources=spilling, grid=(16, 32, 1))
    (found,) = traffic([forward], counters, H200, {"fwd": (launch,)})
    assert found.again == tensor
    assert found.spilled_asked == programs * 4 * 32 * 44_248, "2.7 MiB a program: none of it is loaded from L1"
    assert found.ratio is not None and (round(found.ratio, 3), found.agrees) == (1.053, True)


def test_geglu_on_an_h200_loads_what_it_spills_from_l1() -> None:
    """Backward, 4096 x 14336, 2026-11-22: 24 KiB a program, one on each multiprocessor."""
    spilling = made.resources(registers=128, shared_bytes=0, spill_bytes=96)
    counters = Counters(status="read", kernels=(read(567.3e6, 688.923136e6),))
    launch = made.launch(rows=4096, warps=16, resources=spilling)
    (found,) = traffic([moved(587_202_560)], counters, H200, {"fwd": (launch,)})
    assert (found.spilled, found.spilled_asked) == (201_326_592, 100_663_296)
    assert found.ratio is not None and (round(found.ratio, 3), found.agrees) == (0.998, True)


@pytest.mark.parametrize(("between", "again"), [(258_288, True), (64_446, False)])
def test_cross_entropy_on_an_h200_finds_a_short_row_in_l1_and_a_long_one_not(between: int, again: bool) -> None:
    """2026-11-23, in bfloat16: 128,256 columns read 1,548.6 MB of L2 where 1,050.7 are counted once; 32,000 columns,
    those of fused_linear_cross_entropy, 262.3 where 262.2 are."""
    launch = made.launch(rows=2048, warps=32, resources=made.resources(registers=64, shared_bytes=128))
    assert bool(asked(launch, between).again) == again


def test_a_journal_from_before_reads_were_counted_twice_is_read() -> None:
    old = '{"case":"fwd","kernel":"_k","launches":1,"counted_read":1.0,"counted_written":2.0,"l2":3.0,"level":"l2",'
    found = Traffic.model_validate_json(old + '"ratio":1.0,"agrees":true}')
    assert (found.compulsory, found.again, found.spilled_asked, found.asked) == (3.0, None, None, None)
    assert (found.ratio, found.agrees) == (1.0, True)


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
