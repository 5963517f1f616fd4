"""The bench with a real clock: what is the same is the same, what is slower is slower, and what is wrong is seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.analysis.measured import read_case, unseen_readings
from bot.analysis.paired import process_mean
from bot.analysis.rivals import longest
from bot.bench import sanitizer
from bot.bench.effort import Effort
from bot.bench.race import NO_CHANGE, RACE_S, WORKERS, Entry
from bot.bench.rivals import WON
from bot.engine.race_field import field
from bot.guardrails.host_time import longer
from bot.model.measurement import Measurement
from bot.model.variant import SourceFile
from tests.gpu.conftest import Benches, changed, opened, sources_of
from tests.suites.rooms import OPS

SAME = 0.005
"""As a share of the time, confirmed by fresh processes."""
READ = '    X_row = tl.load(X_ptr + row * X_row_stride + cols, mask=mask, other=-float("inf")).to(tl.float32)\n'
IDLE = "    for _ in range(40):\n        X_row = tl.where(tl.log(tl.abs(X_row) + 2.0) < 0.0, 0.0, X_row)\n"
"""The same numbers, and forty logarithms that change nothing."""
BEYOND = (
    READ
    + "    Z_row = tl.load(X_ptr + row * X_row_stride + cols)\n"
    + "    X_row = tl.where(mask, Z_row.to(tl.float32), X_row)\n"
)
"""The same numbers, and a read beyond the last row."""
DIVIDED = "    Y_row = numerator / tl.sum(numerator, axis=0)\n"
FORWARD = "def softmax_forward(X):\n"


def ratios(measurement: Measurement) -> dict[str, float]:
    """How much faster than v0, by case; 0 is the same."""
    found = {}
    for case in measurement.cases:
        reading = read_case(case)
        assert reading is not None, f"{case.case} was not read"
        found[case.case] = reading.estimate.mean
    return found


def moved(op: str, lines: int) -> tuple[SourceFile, ...]:
    """So many lines further down: the same to everybody but who compares cubins, which know their lines."""
    first, *rest = sources_of(op)
    return (first.model_copy(update={"text": "# the same\n" * lines + first.text}), *rest)


def copy_of(op: str) -> tuple[SourceFile, ...]:
    first, *rest = sources_of(op)
    return (first.model_copy(update={"text": first.text + "\n# the same\n"}), *rest)


@pytest.mark.parametrize("op", OPS)
def test_a_copy_is_as_fast_as_the_original(op: str, benches: Benches) -> None:
    bench, stock = benches.of(op)
    found = bench.measure(copy_of(op), passports=False)
    assert (stock.fault, found.fault) == (None, None)
    assert [row for row in found.checks if not row.passed] == []
    for case in stock.cases:
        assert case.timing is not None
        assert case.roof_us is not None
        assert case.timing.median_us * 1.05 >= case.roof_us, f"{case.case} is faster than memory"
    assert {case: ratio for case, ratio in ratios(found).items() if abs(ratio) > SAME} == {}
    unseen = unseen_readings(found)
    assert len(unseen) == len(found.unseen) >= 2, "and on sizes that nobody named"
    assert {case: one.estimate.gain for case, one in unseen.items() if abs(one.estimate.gain) > SAME} == {}


def test_a_variant_may_be_the_first_that_a_bench_hears(benches: Benches, tmp_path: Path) -> None:
    """A campaign that goes on in another job has v0's numbers already: the clock shows v0 first all the same."""
    benches.close()
    bench = opened("softmax", tmp_path, Effort(processes=1))
    try:
        found = bench.measure(copy_of("softmax"), passports=False)
    finally:
        bench.close()
    assert found.fault is None
    assert [row for row in found.checks if not row.passed] == []
    assert ratios(found).keys() == {case.case for case in found.cases}
    assert all(case.roof_us is not None for case in found.cases)


def test_idle_work_is_slower(benches: Benches) -> None:
    bench, _ = benches.of("softmax")
    found = bench.measure(changed("softmax", READ, READ + IDLE), passports=False)
    assert found.fault is None
    assert min(ratios(found).values()) < -SAME


@pytest.mark.parametrize("asked", ["(X != X).sum().item() < 0", "min((X != X).view(-1, 4).sum(dim=0).tolist()) < 0"])
def test_a_host_that_waits_is_played_without_its_waits_and_told(benches: Benches, asked: str) -> None:
    bench, _ = benches.of("softmax")
    waits = changed("softmax", FORWARD, FORWARD + f"    if {asked}:\n        raise ValueError\n")
    found = bench.measure(waits, passports=False)
    assert found.fault is None
    assert {case.host_waits for case in found.cases if case.case.startswith("forward")} == {1}
    assert {case.host_waits for case in found.cases if case.case.startswith("backward")} == {0}


def test_work_that_moves_into_the_wrapper_is_its_host_time(benches: Benches) -> None:
    """Neither kernel changed: a Python loop beside the one is seen, a copy of the file is not."""
    bench, _ = benches.of("softmax")
    loops = changed("softmax", FORWARD, FORWARD + "    for _ in range(20_000):\n        pass\n")
    slow, same = bench.measure(loops, passports=False), bench.measure(copy_of("softmax"), passports=False)
    assert (slow.fault, same.fault) == (None, None)
    read = [case for case in same.cases if case.paired is not None and case.paired.host]
    assert {case.case.split("-")[0] for case in read} == {"forward", "backward"}
    assert [longer(case) for case in same.cases if longer(case)] == []
    assert "forward" in [case.case.split("-")[0] for case in slow.cases if longer(case)]
    assert min(ratios(slow).values()) > -SAME


@pytest.mark.skipif(sanitizer.find_tool() is None, reason="compute-sanitizer is not present")
def test_who_reads_beyond_its_tensor_is_found_though_it_ignores_what_it_read(benches: Benches) -> None:
    bench, _ = benches.of("softmax")
    found, same = bench.sanitized(changed("softmax", READ, BEYOND)), bench.sanitized(copy_of("softmax"))
    assert found.status == "found", found
    assert "Invalid __global__ read" in found.detail
    assert same.status == "clean", same


def test_who_is_wrong_in_a_graph_of_torch_compile_alone_is_found(benches: Benches) -> None:
    """Every check passes: only what torch.compile traces is told that it is traced."""
    bench, _ = benches.of("softmax")
    other = changed("softmax", FORWARD, FORWARD + "    if torch.compiler.is_compiling():\n        X = X * 1.1\n")
    found, same = bench.under_compile(other), bench.under_compile(copy_of("softmax"))
    assert same.status == "right", same
    assert " as one graph" in same.detail
    assert found.status == "wrong", found
    assert "error is" in found.detail


def test_a_graph_that_breaks_where_v0_s_does_not_is_told(benches: Benches) -> None:
    bench, _ = benches.of("softmax")
    found = bench.under_compile(changed("softmax", FORWARD, FORWARD + "    torch._dynamo.graph_break()\n"))
    assert found.status == "breaks", found


def test_torch_compile_takes_its_time_in_the_cases_that_take_v0_longest(benches: Benches) -> None:
    bench, stock = benches.of("softmax")
    cases = longest(stock)
    found = bench.rivals_of_winner(cases)
    assert [one.case for one in found] == [*cases]
    assert found[0].reading is not None, found[0]
    assert {one.why_not for one in found} <= {"", WON.late}
    again = bench.measure(copy_of("softmax"), passports=False)
    assert again.fault is None, "a variant is timed after it as before"


def test_what_is_wrong_for_large_shapes_alone_is_seen(benches: Benches) -> None:
    """Every small check passes: 20,000 columns are more than any of them has."""
    bench, _ = benches.of("softmax")
    wrong = changed("softmax", DIVIDED, DIVIDED + "    if n_cols > 20000:\n        Y_row = Y_row * 1.01\n")
    found = bench.measure(wrong, passports=False)
    assert [row.case for row in found.checks if not row.passed] != []


def test_a_race_sees_which_numbers_are_faster_and_who_is_wrong(benches: Benches) -> None:
    bench, stock = benches.of("softmax")
    cases = tuple(case.case for case in stock.cases)
    slow = changed("softmax", READ, READ + IDLE)
    wrong = changed("softmax", DIVIDED, DIVIDED + "    if n_cols > 20000:\n        Y_row = Y_row * 1.01\n")
    several = (sources_of("softmax"), moved("softmax", 1), slow, wrong, copy_of("softmax"))
    found = bench.race(tuple(Entry(files, cases) for files in several))
    itself, copy, slower, other, unchanged = found.ran
    assert [ran.left for ran in (itself, copy, slower, unchanged)] == ["", "", "", NO_CHANGE]
    assert "the variant" in other.left
    for case in cases:
        now, same, late = (process_mean(ran.blocks[case]).mean for ran in (itself, copy, slower))
        assert abs(now) < 2 * SAME and abs(same - now) < 2 * SAME
        assert late - now < -SAME or case.startswith("backward")
    assert found.gpu_ms > 0 and found.seconds > found.gpu_ms / 1000


def test_the_untouched_launch_numbers_race(benches: Benches) -> None:
    bench, stock = benches.of("rms_norm")
    entries = tuple(Entry(racing.files, racing.cases) for racing in field(sources_of("rms_norm"), stock))
    assert len(entries) >= 4
    found = bench.race((Entry(sources_of("rms_norm"), tuple(case.case for case in stock.cases)), *entries))
    home = [ran for ran in found.ran if not ran.left]
    assert len(home) >= len(entries) // 2
    assert found.seconds < RACE_S


def test_more_than_there_are_workers_race_and_who_is_wrong_leaves_alone(benches: Benches) -> None:
    """One worker records several of them, each in a process of its own."""
    bench, stock = benches.of("softmax")
    cases = tuple(case.case for case in stock.cases)
    several = [moved("softmax", 1 + lines) for lines in range(2 * WORKERS)]
    fallen = changed("softmax", FORWARD, FORWARD + "    raise ZeroDivisionError\n")
    found = bench.race(tuple(Entry(files, cases) for files in (sources_of("softmax"), *several, fallen)))
    assert [bool(ran.left) for ran in found.ran] == [False] * (1 + len(several)) + [True]
    assert "ZeroDivisionError" in found.ran[-1].left
