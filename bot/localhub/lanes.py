"""Hears the hub's events for as long as it is open, and lets the runner play what they start.

What people write is decided on at once, one after the other. Whatever was dispatched has a lane of its own, so that a
word is heard while the campaign it is about is at work.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bot.errors import BotError
from bot.localhub.runner import Runner
from bot.localhub.server import Hub

LOOK_EVERY_S = 0.2
JOIN_S = 20.0
FAILS = (BotError, subprocess.SubprocessError, OSError)
DISPATCHED = "workflow_dispatch"


class Lanes:
    def __init__(self, hub: Hub, runner: Runner, trouble: Callable[[BaseException], None]) -> None:
        """`trouble`: told when something could not be played at all."""
        self._hub, self._runner, self._trouble = hub, runner, trouble
        self._over = threading.Event()
        self._hearing = threading.Thread(target=self._hear_all, daemon=True)
        self._lanes: list[threading.Thread] = []

    def _begin(self, run: Callable[[], None]) -> None:
        lane = threading.Thread(target=run, daemon=True)
        self._lanes = [one for one in self._lanes if one.is_alive()] + [lane]
        lane.start()

    def start(self) -> Lanes:
        self._hearing.start()
        return self

    def stop(self) -> None:
        """End what runs. What is on the ledger stays there."""
        self._over.set()
        self._runner.stop()
        self._hearing.join(timeout=JOIN_S)  # from here on nobody begins another lane
        for lane in self._lanes:
            lane.join(timeout=JOIN_S)

    def __enter__(self) -> Lanes:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _hear_all(self) -> None:
        while not self._over.wait(LOOK_EVERY_S):
            for name, payload in self._hub.events():
                if self._over.is_set():
                    return
                if name == DISPATCHED:
                    self._begin(partial(self._hear, DISPATCHED, payload))
                else:
                    self._hear(name, payload)

    def _hear(self, name: str, payload: Path) -> None:
        try:
            self._runner.hear(name, json.loads(payload.read_text(encoding="utf-8")), payload)
        except FAILS as error:
            if not self._over.is_set():
                self._trouble(error)
