"""A GPU's clock without a GPU: it replays the noise of an H200, process by process.

Recorded (docs/results/h200/spike/aa.json) is v0 against itself in fresh processes: for each process how far the second
arm lay from the first, which is what its addresses and clocks did to it, and how much its blocks scattered. Not
recorded are the blocks themselves, so these are drawn: normal, with the recorded scatter, and on top of it what the
recording may have been spared: one slot in a hundred is slower by 20 %, and both arms drift together by some percent.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from bot.model.measurement import Block, Reading

RECORDED = Path(__file__).parents[2] / "docs/results/h200/spike/aa.json"
SLOW_SHARE, SLOW_BY = 0.01, 1.2
DRIFT = 0.01


@dataclass(frozen=True)
class Condition:
    """One way of timing v0 against itself, as eight fresh processes or three saw it."""

    name: str
    us: tuple[float, ...]
    placed: tuple[float, ...]
    """In percent: the second arm's time over the first's, less 1."""
    scatter: tuple[float, ...]
    """In percent: s.d. of a block of that process."""


@cache
def conditions() -> tuple[Condition, ...]:
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    return tuple(
        Condition(f"{beside}: {name}", tuple(row["us"]), tuple(row["mean_percent"]), tuple(row["sd_within_percent"]))
        for beside in ("alone", "beside_two_idle_contexts")
        for name, row in recorded[beside]["processes"].items()
    )


class FakeGpuClock:
    """Every reading is a fresh process, or a fresh place in one: it draws one of the recorded ones to be.

    `favours`: 1 lends the variant the second arm's fate, -1 the first's; a campaign does not know which it has.
    """

    def __init__(self, condition: Condition, seed: int, favours: int = 1) -> None:
        self._condition, self._favours = condition, favours
        self._dice = np.random.default_rng(seed)

    def blocks(self, gain: float, count: int, process: int | None = None) -> tuple[Block, ...]:
        """`gain` in percent, above 0 is faster. The same `process` has the same placement again."""
        found = self._condition
        number = int(self._dice.integers(len(found.us))) if process is None else process % len(found.us)
        placed = 1 + self._favours * found.placed[number] / 100
        arms = np.array([1.0, 1.0, placed / (1 + gain / 100), placed / (1 + gain / 100)])
        noise = np.exp(self._dice.normal(0, found.scatter[number] / 100, (count, 4)))
        slow = np.where(self._dice.random((count, 4)) < SLOW_SHARE, SLOW_BY, 1.0)
        together = np.exp(np.cumsum(self._dice.normal(0, DRIFT / 10, (count, 1)), axis=0))
        return tuple(map(tuple, (found.us[number] * arms * noise * slow * together).tolist()))

    def process(self, gain: float, count: int = 64) -> Reading:
        return Reading(blocks=self.blocks(gain, count))
