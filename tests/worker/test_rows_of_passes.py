"""How long a pass takes is read of rows of passes, with nothing in between. The GPU's clock counts calls here."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from bot.worker import gpu_inputs, looking
from bot.worker.contract import Argument, Call, TensorSpec

X, DY = TensorSpec("x", "float32", (4, 8), grad=True), TensorSpec("dy", "float32", (4, 8))


def call(direction: str) -> Call:
    return Call("c", "c", direction, (Argument("x", X),), (DY,))


class Op(torch.autograd.Function):
    """Says what is asked of it."""

    said: list[str] = []  # noqa: RUF012

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        Op.said.append("forward")
        return 2 * x

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        Op.said.append("backward")
        return 2 * dy


class Event:
    """At a millisecond an entry of what was said, or at what else that takes."""

    each = 1.0

    def __init__(self, *, enable_timing: bool) -> None:
        self.at = 0

    def record(self) -> None:
        self.at = len(Op.said)

    def elapsed_time(self, end: Event) -> float:
        return Event.each * (end.at - self.at)


@pytest.fixture(autouse=True)
def a_gpu_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    Op.said = []
    monkeypatch.setattr(gpu_inputs, "DEVICE", "cpu")
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (2**30, 2**30))


@pytest.mark.parametrize(("direction", "calls"), [("forward", 1), ("backward", 1), ("full", 2)])
def test_a_pass_takes_what_lies_between_the_ends_of_the_first_and_the_last(direction: str, calls: int) -> None:
    """The forward pass before a backward one was run before any of them was asked for."""
    contents = gpu_inputs.drawn(call(direction), {})
    assert looking._in_a_row(Op, call(direction), contents, 5) == pytest.approx(1000 * calls)
    assert len(Op.said) == (looking.ROWS + 1) * 6 * (1 if direction == "forward" else 2)


@pytest.mark.parametrize(
    ("each_ms", "rows"),
    [(2.9, looking.ROWS), (3.0, looking.ROWS), (3.2, 19), (30.0, looking.FEWEST), (1e4, looking.FEWEST)],
)
def test_long_passes_are_read_in_fewer_rows(each_ms: float, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of five: of 16 ms each three tenths of a second are over with the nineteenth."""
    monkeypatch.setattr(Event, "each", each_ms)
    contents = gpu_inputs.drawn(call("forward"), {})
    assert looking._in_a_row(Op, call("forward"), contents, 5) == pytest.approx(1000 * each_ms)
    assert len(Op.said) == (rows + 1) * 6


def test_a_hiccup_ends_no_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of a second in the first row, as of a process that starts."""
    rows = iter([1e3, 1e6, *[5e3] * looking.ROWS])
    monkeypatch.setattr(looking, "_row", lambda *_: next(rows))
    assert looking._in_a_row(Op, call("forward"), {}, 5) == pytest.approx(1000)
    assert len(list(rows)) == 1


def test_where_memory_is_short_rows_are_but_never_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (0, 2**30))
    contents = gpu_inputs.drawn(call("forward"), {})
    assert looking._in_a_row(Op, call("forward"), contents, 5) == pytest.approx(1000)
    assert len(Op.said) == (looking.ROWS + 1) * 2
