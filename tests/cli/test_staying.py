"""How a command stays until it is stopped."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace

import pytest

from bot.cli import demo, staying
from bot.cli.staying import stay


def test_no_signal_is_slept_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that falls right before a sleep is heard after it: each is short, and there is always another look."""
    slept: list[float] = []
    monkeypatch.setattr(staying, "time", SimpleNamespace(sleep=slept.append))
    stay(lambda: len(slept) == 3)
    assert len(slept) == 3 and max(slept) <= 1.0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_page_is_served_until_somebody_says_stop(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with demo._told_to_stop() as told:
        assert not told
        os.kill(os.getpid(), number)
        stay(lambda: told)
        assert told == [number]
    assert signal.getsignal(number) is before
