"""Which slots are taken for right without computing anything. Whether a result is the truth needs a GPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from bot.judge.layout import ALIGN, BANKS, MOST_RIGHT, Layout
from bot.judge.scored import Scored

LAST = 2 * ALIGN - 1
"""Of the results of a slot of two lanes."""


@pytest.fixture
def scored(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Two lanes, whose results are right unless they hold a 9; who had to look writes it down."""
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    made: Any = object.__new__(Scored)
    made.layout = Layout((("x", 0, ALIGN),), ALIGN, (("output:0", 0, ALIGN),), ALIGN, 2)
    made._shared, made._right = torch.zeros(made.layout.shared_bytes, dtype=torch.uint8), {}
    made.looked = []

    def look(raw: torch.Tensor, bank: int, *, is_baseline: bool) -> str:
        made.looked.append(is_baseline)
        return "off" if (raw == 9).any() else ""

    monkeypatch.setattr(made, "_lane_is_right", look, raising=False)
    return made


def leave(scored: Any, slot: int, value: int, *, last: int | None = None) -> None:
    start = scored.layout.result(slot, 0)
    scored._shared[start : start + LAST + 1] = value
    if last is not None:
        scored._shared[start + LAST] = last


def test_the_same_bits_are_right_whoever_left_them(scored: Any) -> None:
    leave(scored, 0, 1)
    assert scored.verify(0, 0, is_baseline=True) == ""
    leave(scored, 1, 1)
    assert scored.verify(1, 0, is_baseline=False) == scored.verify(1, 0, is_baseline=True) == ""
    assert scored.looked == [True, True], "each lane once"


def test_one_byte_at_the_end_is_another_result(scored: Any) -> None:
    leave(scored, 0, 1)
    scored.verify(0, 0, is_baseline=True)
    leave(scored, 1, 1, last=9)
    assert scored.verify(1, 0, is_baseline=False) == "off"
    leave(scored, 1, 1, last=2)
    assert scored.verify(1, 0, is_baseline=False) == ""


def test_of_both_kinds_of_right_the_own_one_is_compared_first(scored: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for value, is_baseline in ((1, True), (2, False)):
        leave(scored, 0, value)
        scored.verify(0, 0, is_baseline=is_baseline)
    compared: list[int] = []
    equal = torch.equal

    def counted(one: torch.Tensor, other: torch.Tensor) -> bool:
        compared.append(int(other.view(torch.uint8)[0]))
        return equal(one, other)

    monkeypatch.setattr(torch, "equal", counted)
    for value, is_baseline in ((1, True), (2, False)):
        leave(scored, 0, value)
        assert scored.verify(0, 0, is_baseline=is_baseline) == ""
    assert compared == [1, 2]


def test_no_more_kinds_are_kept_than_a_few_and_each_bank_has_its_own(scored: Any) -> None:
    for value in range(MOST_RIGHT + 2):
        leave(scored, 0, value)
        scored.verify(0, 0, is_baseline=False)
    assert {bank: len(some) for bank, some in scored._right.items()} == {0: MOST_RIGHT}
    looked = len(scored.looked)
    scored.verify(0, BANKS - 1, is_baseline=False)
    assert len(scored.looked) > looked
