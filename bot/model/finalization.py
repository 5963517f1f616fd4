"""What the target's own commands said of a winner: tests, style check, benchmark script."""

from __future__ import annotations

import csv
import re
from io import StringIO
from typing import Literal

from pydantic import Field, field_validator

from bot.model.ids import Digest, RepoPath, VariantNumber
from bot.model.variant import SourceFile
from bot.model.word import Word

SKIPPED = re.compile(r"\b[1-9]\d* skipped\b")
PASSED = re.compile(r"\b[1-9]\d* x?passed\b")
"""As pytest counts in its last line; what another runner prints there is taken as it is."""


class CommandRun(Word):
    """One command of the target that was run to its end."""

    argv: tuple[str, ...]
    passed: bool
    exit_code: int | None
    """None when the deadline killed it."""
    seconds: float
    summary: str
    """The runner's own last line."""
    output: str = ""
    """The end of what it printed, capped."""

    @property
    def skipped_all(self) -> bool:
        """It went well since nothing was tried, as its last line counts."""
        return self.passed and SKIPPED.search(self.summary) is not None and PASSED.search(self.summary) is None

    @property
    def result(self) -> Literal["passed", "skipped", "failed"]:
        if self.skipped_all:
            return "skipped"
        return "passed" if self.passed else "failed"


class PassedFile(Word):
    """A test file of the target that passed on a winner's text, before all of them were through."""

    variant: VariantNumber
    source: Digest
    """Of the files that would be committed."""
    test: RepoPath
    gpu: str = ""
    """By its name; empty where there was none."""
    run: CommandRun


MOST_OF_TABLE = 256 * 1024
"""Characters: a sweep of liger-kernel's has some two hundred rows of two hundred each."""


class ScriptRun(Word):
    """The target's own benchmark script, as it is, on one variant or on v0."""

    variant: VariantNumber
    run: CommandRun
    table: str = Field(default="", max_length=MOST_OF_TABLE)
    """The rows that it wrote, as CSV with a head; empty where it wrote none that can be read."""

    @field_validator("table")
    @classmethod
    def _is_a_table(cls, text: str) -> str:
        """What a job says was written there is read again wherever it is shown."""
        try:
            list(csv.reader(StringIO(text, newline=""), strict=True))
        except csv.Error as error:
            raise ValueError(f"no table: {error}") from error
        return text

    @property
    def is_broken(self) -> bool:
        """Late is not broken: a busy machine is slow."""
        return not self.run.passed and self.run.exit_code is not None


class Finalization(Word):
    """The winner in a clean worktree of the pinned head: tests, style, and the text that will be committed."""

    variant: VariantNumber
    tests: tuple[CommandRun, ...]
    style: tuple[CommandRun, ...]
    files: tuple[SourceFile, ...]
    """After the style check's own fixes, if it made any."""
    untouched: CommandRun | None = None
    """The test that failed, with the kernel as it was: tests that fail anyhow say nothing of the winner."""
    scripts: tuple[ScriptRun, ...] = ()
    """On v0, and where it ran there on the winner. What they read decides nothing."""

    @property
    def failed_before(self) -> bool:
        return self.untouched is not None and not self.untouched.passed

    @property
    def untested(self) -> bool:
        """Not one test ran: each was skipped, so nothing but the judge has heard the winner."""
        return bool(self.tests) and all(run.skipped_all for run in self.tests)

    @property
    def passed(self) -> bool:
        """A script that breaks on the winner alone is a case that the winner breaks."""
        checked = all(run.passed for run in self.tests) and bool(self.style) and self.style[-1].passed
        return checked and self.script_passed

    @property
    def script_passed(self) -> bool:
        return not self.broken_scripts

    @property
    def broken_scripts(self) -> tuple[ScriptRun, ...]:
        """On the winner alone: one that breaks on v0 says nothing."""
        return tuple(one for one in self.scripts if one.variant and one.is_broken)
