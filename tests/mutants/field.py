"""Hears mutants before the judge, one open bench an op, as the suites of cheats are heard."""

from __future__ import annotations

import shutil
import sys
import tomllib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bot.bench.measure import Deadlines, open_static_bench
from bot.bench.suite_files import Exhibit
from bot.bench.suite_run import Bench, Court, Outcome, Steps
from bot.cli.judge_suite import target_of
from bot.guardrails import BEFORE_TIMING
from bot.model.variant import SourceFile
from tests.mutants.mutate import SAMPLE, Mutant

SEED = 20261122
ARCH = "sm_90"
PATIENT = Deadlines(check_s=300.0, compile_s=300.0, budget_s=120.0)
"""On a busy machine a mutant must not seem to be found out by being late."""
WRONG = tuple(name for name in BEFORE_TIMING if name not in ("scope", "honesty", "duplicate"))
"""Guardrails that say a kernel is wrong. One that looks at its text, or says that it is slow, says nothing of it."""
CHECKS_ALONE = Steps(static=False, timing=False)
EVERYTHING = Steps(static=False, timing=True)
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
    """The courts of one op: the quick suite finds most mutants out, the full one is asked about the others."""

    def __init__(self, op: str, scratch: Path) -> None:
        self._op, self._scratch = op, scratch
        self._courts: dict[str, tuple[Court, Bench]] = {}

    def _open(self, name: Literal["quick", "full"]) -> Court:
        if name not in self._courts:
            target = target_of(SAMPLE)
            site, suite = target.site(self._op), target.suite(self._op, name)
            sources = tuple(SourceFile(path=path, text=(SAMPLE / path).read_text("utf-8")) for path in site.files)
            bench = open_static_bench(
                SAMPLE, site, suite, ARCH, sys.executable, self._scratch / name, deadlines=PATIENT, seed=SEED
            )
            self._courts[name] = Court(site, suite, sources, bench), bench
        return self._courts[name][0]

    def _hear(self, mutant: Mutant, suite: Literal["quick", "full"], steps: Steps) -> Outcome:
        name = Path(mutant.id.replace(":", "-") + ".py")
        return self._open(suite).hear(Exhibit(name, mutant.op, mutant.text, WRONG, "cpu"), steps)

    def killers(self, mutant: Mutant) -> tuple[str, ...]:
        """The guardrails that found it wrong; none where it survives."""
        for suite, steps in (("quick", CHECKS_ALONE), ("full", EVERYTHING)):
            reasons = self._hear(mutant, suite, steps).reasons  # type: ignore[arg-type]
            if found := tuple(reason for reason in reasons if reason in WRONG):
                return found
        return ()

    def survive(self, mutants: Iterable[Mutant], *, at_once: int) -> set[str]:
        """Ids of those nobody found wrong."""
        self._open("quick")
        asked = list(mutants)
        with ThreadPoolExecutor(max_workers=at_once) as threads:
            heard = list(threads.map(self.killers, asked))
        return {mutant.id for mutant, killers in zip(asked, heard, strict=True) if not killers}

    def close(self) -> None:
        for _, bench in self._courts.values():
            bench.close()
        shutil.rmtree(self._scratch, ignore_errors=True)
