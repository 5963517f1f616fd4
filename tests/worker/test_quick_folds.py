"""Quick folds give the numbers of Triton's own, whatever combines."""

from __future__ import annotations

import pytest
import triton
from triton.runtime import interpreter

from bot.worker import quick_folds
from tests.worker.scenes import INTERPRETED, played


@pytest.mark.long
def test_folds_and_scans_are_those_of_stock_triton() -> None:
    """Sums that are exact in float32, so that the order of the brackets cannot show."""
    quick, stock = played("folded", "quick", told=INTERPRETED), played("folded", "stock", told=INTERPRETED)
    assert any(value for told in stock["told"] for value in told)
    assert quick == stock


def test_a_version_nobody_tried_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    before = interpreter.ReduceOps.generic_reduce, interpreter.ScanOps.generic_scan
    monkeypatch.setattr(triton, "__version__", "3.7.0")
    quick_folds.install()
    assert (interpreter.ReduceOps.generic_reduce, interpreter.ScanOps.generic_scan) == before
