"""Hears mutants before the judge, in the courts in which cheats and honest files are heard."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bot.bench.suite_files import Exhibit
from bot.bench.suite_run import Outcome, Steps
from bot.guardrails import BEFORE_TIMING
from bot.targets.base import SuiteName
from tests.mutants.mutate import Mutant
from tests.suites.rooms import Courts

WRONG = tuple(name for name in BEFORE_TIMING if name not in ("scope", "honesty", "duplicate"))
"""Guardrails that say a kernel is wrong. One that looks at its text, or says that it is slow, says nothing of it."""
CHECKS_ALONE = Steps(static=False, timing=False)
EVERYTHING = Steps(static=False, timing=True)
HEARINGS: tuple[tuple[SuiteName, Steps], ...] = (("quick", CHECKS_ALONE), ("full", EVERYTHING))
SURVIVORS = Path(__file__).parent / "survivors.toml"


@dataclass(frozen=True)
class Survivor:
    kind: Literal["equivalent", "hole"]
    why: str


def survivors() -> dict[str, Survivor]:
    """By the id of the mutant."""
    listed = tomllib.loads(SURVIVORS.read_text(encoding="utf-8"))
    return {name: Survivor(**entry) for name, entry in listed.items()}


class Field:
    """Hears mutants in the courts of their op: the quick suite finds most out, the full one is asked about the rest."""

    def __init__(self, courts: Courts) -> None:
        self._courts = courts

    def _hear(self, mutant: Mutant, suite: SuiteName, steps: Steps) -> Outcome:
        name = Path(mutant.id.replace(":", "-") + ".py")
        return self._courts.of(mutant.op, suite).hear(Exhibit(name, mutant.op, mutant.text, WRONG, "cpu"), steps)

    def killers(self, mutant: Mutant) -> tuple[str, ...]:
        """The guardrails that found it wrong; none where it survives."""
        for suite, steps in HEARINGS:
            if found := tuple(reason for reason in self._hear(mutant, suite, steps).reasons if reason in WRONG):
                return found
        return ()

    def survive(self, mutants: Iterable[Mutant], *, at_once: int) -> set[str]:
        """Ids of those nobody found wrong."""
        asked = list(mutants)
        for op in {mutant.op for mutant in asked}:
            self._courts.of(op, "quick")
        with ThreadPoolExecutor(max_workers=at_once) as threads:
            heard = list(threads.map(self.killers, asked))
        return {mutant.id for mutant, killers in zip(asked, heard, strict=True) if not killers}
