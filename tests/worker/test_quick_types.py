"""Quick types give the same types, the same numbers and the same complaints as Triton's own."""

from __future__ import annotations

import pytest
import triton
from triton.language import core

from bot.worker import quick_types
from tests.worker.scenes import INTERPRETED, played


@pytest.mark.long
def test_types_numbers_and_complaints_are_those_of_stock_triton() -> None:
    quick, stock = played("typed", "quick", told=INTERPRETED), played("typed", "stock", told=INTERPRETED)
    assert len(stock["said"]) == 33
    assert any("float16[4, 8]" in said or "fp16" in said for said in stock["said"])
    assert "power of 2" in stock["told"][-1]
    assert quick == stock


def test_a_version_nobody_tried_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    before = core.tensor.__init__, core.block_type.__init__
    monkeypatch.setattr(triton, "__version__", "3.7.0")
    quick_types.install()
    assert (core.tensor.__init__, core.block_type.__init__) == before
