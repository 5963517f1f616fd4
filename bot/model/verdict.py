"""What the guardrails concluded about one variant."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from bot.model.measurement import Evidence
from bot.model.word import Word

SEVERITIES = ("reject", "note", "info")


class Decision(StrEnum):
    ACCEPTED = "accepted"
    ACCEPTED_WITH_NOTE = "accepted_with_note"
    REJECTED = "rejected"
    INCONCLUSIVE = "inconclusive"

    @property
    def is_accepted(self) -> bool:
        return self in (Decision.ACCEPTED, Decision.ACCEPTED_WITH_NOTE)


class Pace(StrEnum):
    """What paired readings say of a variant against v0."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    """The whole interval lies inside the least gain that counts."""
    AMBIGUOUS = "ambiguous"
    """The readings allow more than one answer; it never ships."""


class Finding(Word):
    """One thing one guardrail noticed."""

    guardrail: str
    severity: Literal["reject", "note", "info"]
    message: str
    case: str = ""


class CaseScore(Word):
    """One case against the baseline: above 1 is faster, or smaller for memory."""

    case: str
    before_us: float
    after_us: float
    speedup: float
    memory_ratio: float = 1.0
    """Baseline bytes over variant bytes."""


class UnseenScore(CaseScore):
    """A case of a size that was not scored. Its memory is not held against anybody."""

    low: float | None = None
    high: float | None = None
    """Of 95 %; None where too few processes read it."""


class Score(Word):
    """Weighted geometric mean over the suite, with its interval where there is one."""

    evidence: Evidence
    value: float
    low: float | None = None
    high: float | None = None
    speed: float | None = None
    """Geometric-mean speed-up alone, whatever else the goal weighs into `value`."""
    memory: float | None = None
    """Geometric mean of baseline memory over variant memory alone."""
    roof_percent: float | None = None
    """Share of the roof reached on the scored cases; None when no ceiling is known."""
    cases: tuple[CaseScore, ...] = ()
    unseen: tuple[UnseenScore, ...] = ()
    """Of sizes that nobody named: no part of the value."""


class Verdict(Word):
    decision: Decision
    findings: tuple[Finding, ...] = ()
    score: Score | None = None
    """None when the variant never reached the stopwatch."""
    gain_over_best: float | None = None
    """score / incumbent's score - 1."""

    @property
    def reason(self) -> str:
        """The sentence a table cell shows: the first rejection, else what left it undecided, else the first note."""
        said = {severity: [f.message for f in self.findings if f.severity == severity] for severity in SEVERITIES}
        if self.decision is Decision.INCONCLUSIVE and said["note"]:
            return said["note"][-1]
        return next((messages[0] for messages in said.values() if messages), "")
