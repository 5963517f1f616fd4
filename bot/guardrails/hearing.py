"""What the guardrails are told about one variant, and what they may look up in it."""

from __future__ import annotations

from bot.analysis.measured import CaseReading, unseen_readings
from bot.analysis.paired import Estimate
from bot.analysis.stats import case_readings, estimate_over_all
from bot.model.commands import Goal, Scope
from bot.model.ids import Digest, RepoPath
from bot.model.measurement import Evidence, Measurement, Suite
from bot.model.variant import SourceFile, Variant
from bot.model.verdict import CaseScore, Finding, Score
from bot.model.word import Word

ROUNDING = 1e-9
"""Two quotients of the same numbers may differ in the last bits; a limit that is met exactly stays met."""
LONGEST = 400
"""Characters of a message: a compiler or an attacker may have written part of it."""


class Hearing(Word):
    """Everything a verdict depends on. The same hearing always gives the same verdict."""

    variant: Variant
    sources: tuple[SourceFile, ...]
    """v0, file by file."""
    allowed: tuple[RepoPath, ...]
    """The files a variant may change."""
    relied_on: tuple[str, ...] = ()
    """Private functions that others call as they are today."""
    earlier: tuple[tuple[str, Digest], ...]
    """Name and digest of v0 and of every variant before this one."""
    baseline: Measurement
    candidate: Measurement
    suite: Suite
    goal: Goal
    scope: Scope
    best: float = 1.0
    """Score of the incumbent over the baseline."""


class Weighed(Word):
    """A hearing that came as far as the stopwatch."""

    hearing: Hearing
    score: Score

    def readings(self) -> dict[str, CaseReading]:
        """Every case's blocks against v0; empty where no GPU timed any."""
        return case_readings(self.hearing.candidate, self.hearing.suite)

    def unseen(self) -> dict[str, CaseReading]:
        """The same of sizes that nobody named, as far as they were read."""
        return unseen_readings(self.hearing.candidate)

    def estimate(self) -> Estimate | None:
        """What the blocks say over all that is judged; None where no GPU timed any."""
        return estimate_over_all(self.hearing.candidate, self.hearing.suite, self.hearing.scope)

    def slower(self, before_us: float, after_us: float) -> str:
        """How much longer it takes, as people say it."""
        how = ", estimated" if self.score.evidence is Evidence.STATIC else ""
        share = 100 * (after_us / before_us - 1) if before_us else float("inf")
        return f"{share:.2f} % slower than v0 ({after_us:.4g} us, v0 {before_us:.4g} us{how})"

    def case_is_slower(self, case: CaseScore) -> str:
        return f"{case.case} is {self.slower(case.before_us, case.after_us)}"


def _short(message: str) -> str:
    line = " ".join(message.encode("utf-8", "replace").decode().split())
    return line if len(line) <= LONGEST else line[: LONGEST - 3] + "..."


def reject(guardrail: str, message: str, case: str = "") -> Finding:
    return Finding(guardrail=guardrail, severity="reject", message=_short(message), case=case)


def note(guardrail: str, message: str, case: str = "") -> Finding:
    return Finding(guardrail=guardrail, severity="note", message=_short(message), case=case)


def info(guardrail: str, message: str, case: str = "") -> Finding:
    return Finding(guardrail=guardrail, severity="info", message=_short(message), case=case)
