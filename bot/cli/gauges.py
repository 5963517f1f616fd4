"""What this machine is doing for us at this moment, where that can be known: our workers, their cores, the GPU.

Nobody depends on it. What cannot be read is None, on every system but Linux all of it.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

from bot.bench.census import PROC, household

ASK_SECONDS = 2.0
"""The driver is asked no more often: each question is a process of its own."""


@dataclass(frozen=True, slots=True)
class Use:
    processes: int | None = None
    cores_busy: float | None = None
    gpu_percent: int | None = None
    gpu_mib: int | None = None


def _ticks(pid: int) -> int | None:
    """Time on a core since it began, in the kernel's ticks; None once it is gone."""
    try:
        text = (PROC / str(pid) / "stat").read_text(encoding="ascii", errors="replace")
        # The name stands in parentheses and may hold anything, parentheses too.
        fields = text.rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])
    except (OSError, ValueError, IndexError):
        return None


def workers(root: int) -> dict[int, int] | None:
    """Ticks of every process below `root`; None where nobody can say."""
    try:
        pids = household(root).pids
    except OSError:
        return None
    return {pid: ticks for pid in pids if pid != root and (ticks := _ticks(pid)) is not None}


def _ask(uuid: str) -> tuple[int, int] | None:
    """Percent of the time the GPU was busy, and MiB in use."""
    try:
        done = subprocess.run(
            ["nvidia-smi", f"--id={uuid}", "--query-gpu=utilization.gpu,memory.used", "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=ASK_SECONDS,
            check=True,
        )
        busy, used = done.stdout.strip().split(",")
        return int(busy), int(used)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


class Gauges:
    """Read again and again; cores busy are those between two readings."""

    def __init__(
        self,
        gpu: str | None,
        *,
        ask: Callable[[str], tuple[int, int] | None] = _ask,
        look: Callable[[int], dict[int, int] | None] = workers,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._gpu, self._ask, self._look, self._clock = gpu, ask, look, clock
        self._before: tuple[float, dict[int, int]] | None = None
        self._asked = float("-inf")
        self._answer: tuple[int, int] | None = None

    def _busy(self, now: float, found: dict[int, int]) -> float | None:
        before, self._before = self._before, (now, found)
        if before is None or now <= before[0]:
            return None
        spent = sum(max(ticks - before[1].get(pid, 0), 0) for pid, ticks in found.items())
        return spent / os.sysconf("SC_CLK_TCK") / (now - before[0])

    def read(self) -> Use:
        now = self._clock()
        if self._gpu is not None and now - self._asked >= ASK_SECONDS:
            self._asked, self._answer = now, self._ask(self._gpu)
        percent, mib = self._answer or (None, None)
        found = self._look(os.getpid())
        if found is None:
            return Use(gpu_percent=percent, gpu_mib=mib)
        return Use(len(found), self._busy(now, found), percent, mib)
