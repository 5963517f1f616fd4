"""Who hears the hub's events, and that nobody is left who does when it is over."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any, cast

import pytest

from bot.localhub.lanes import Lanes
from bot.localhub.runner import Runner
from bot.localhub.server import Hub
from tests.localhub.test_dispatch import SWEEP, start
from tests.patience import wait_for


class Listener:
    """In place of a runner: what it is told lasts until it is stopped, and a little longer."""

    def __init__(self) -> None:
        self.over, self.heard = threading.Event(), list[str]()

    def hear(self, name: str, event: Any, payload: Path) -> None:
        self.over.wait()
        time.sleep(0.3)
        self.heard.append(name)

    def stop(self) -> None:
        self.over.set()


def test_a_lane_that_begins_while_all_is_stopped_is_waited_for(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever hears had just looked whether it goes on, and was kept waiting before it began the lane."""
    listener, about_to, go_on = Listener(), threading.Event(), threading.Event()
    begin, lanes = Lanes._begin, Lanes(hub, cast(Runner, listener), lambda error: None)

    def late(self: Lanes, run: Any) -> None:
        about_to.set()
        go_on.wait()
        begin(self, run)

    monkeypatch.setattr(Lanes, "_begin", late)
    lanes.start()
    hub.push("mira", "main", SWEEP, "Sweep\n")
    assert start(hub).ok
    wait_for(about_to.is_set)
    stopping = threading.Thread(target=lanes.stop, daemon=True)
    stopping.start()
    wait_for(listener.over.is_set)
    go_on.set()
    wait_for(lambda: not stopping.is_alive())
    assert listener.heard == ["workflow_dispatch"]
    assert not any(lane.is_alive() for lane in lanes._lanes)
