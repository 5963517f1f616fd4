"""The bench with a real clock: what is the same is the same, what is slower is slower, and what is wrong is seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.analysis.measured import read_case
from bot.model.measurement import Measurement
from tests.gpu.conftest import changed, opened, sources_of

SAME = 0.005
"""As a share of the time, confirmed by fresh processes."""
READ = '    X_row = tl.load(X_ptr + row * X_row_stride + cols, mask=mask, other=-float("inf")).to(tl.float32)\n'
IDLE = "    for _ in range(40):\n        X_row = tl.where(tl.log(tl.abs(X_row) + 2.0) < 0.0, 0.0, X_row)\n"
"""The same numbers, and forty logarithms that change nothing."""
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


@pytest.mark.parametrize("op", ["rms_norm", "softmax", "geglu", "jsd"])
def test_a_copy_is_as_fast_as_the_original(op: str, tmp_path: Path) -> None:
    first, *rest = sources_of(op)
    copy = (first.model_copy(update={"text": first.text + "\n# the same\n"}), *rest)
    with opened(op, tmp_path) as bench:
        stock = bench.measure(sources_of(op), passports=False)
        found = bench.measure(copy, passports=False)
    assert (stock.fault, found.fault) == (None, None)
    assert [row for row in found.checks if not row.passed] == []
    for case in stock.cases:
        assert case.timing is not None
        assert case.roof_us is not None
        assert case.timing.median_us * 1.05 >= case.roof_us, f"{case.case} is faster than memory"
    assert {case: ratio for case, ratio in ratios(found).items() if abs(ratio) > SAME} == {}


def test_idle_work_is_slower(tmp_path: Path) -> None:
    slow = changed("softmax", READ, READ + IDLE)
    with opened("softmax", tmp_path) as bench:
        bench.measure(sources_of("softmax"), passports=False)
        found = bench.measure(slow, passports=False)
    assert found.fault is None
    assert min(ratios(found).values()) < -SAME


def test_a_host_that_waits_is_played_without_its_waits_and_told(tmp_path: Path) -> None:
    waits = changed("softmax", FORWARD, FORWARD + "    if (X != X).sum().item() < 0:\n        raise ValueError\n")
    with opened("softmax", tmp_path) as bench:
        bench.measure(sources_of("softmax"), passports=False)
        found = bench.measure(waits, passports=False)
    assert found.fault is None
    assert {case.host_waits for case in found.cases if case.case.startswith("forward")} == {1}
    assert {case.host_waits for case in found.cases if case.case.startswith("backward")} == {0}


def test_what_is_wrong_for_large_shapes_alone_is_seen(tmp_path: Path) -> None:
    """Every small check passes: 20,000 columns are more than any of them has."""
    wrong = changed("softmax", DIVIDED, DIVIDED + "    if n_cols > 20000:\n        Y_row = Y_row * 1.01\n")
    with opened("softmax", tmp_path) as bench:
        bench.measure(sources_of("softmax"), passports=False)
        found = bench.measure(wrong, passports=False)
    assert [row.case for row in found.checks if not row.passed] != []
