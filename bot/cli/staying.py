"""A command that serves for as long as nobody stops it."""

from __future__ import annotations

import time
from collections.abc import Callable

LOOK_EVERY_S = 0.5


def stay(is_over: Callable[[], object] = lambda: False) -> None:
    """Until it is over, or a signal raises something. In short sleeps: a signal that falls right before one is heard
    after it, where a wait without an end would sleep over it."""
    while not is_over():
        time.sleep(LOOK_EVERY_S)
