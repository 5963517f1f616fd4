"""What comes by itself, but not at once: a signal arrives later, and who was killed is there until it is buried."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_S = 100.0
"""For a machine that does ten other things. What is wrong stays wrong for longer."""


def wait_for(reached: Callable[[], object]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not reached():
        assert time.monotonic() < until, "it never came to that"
        time.sleep(0.02)


def is_there(pid: int) -> bool:
    """Not who is dead and waits to be buried."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:  # gone, also between opening the file and reading it
        return False
    return state not in "ZX"


def wait_until_gone(pid: int) -> None:
    wait_for(lambda: not is_there(pid))
