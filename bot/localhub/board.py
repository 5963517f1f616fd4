"""What the page tells of the bot's work: campaigns, and the jobs that run for them. Whoever runs the jobs writes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

State: TypeAlias = Literal["busy", "asks", "good", "quiet", "bad"]
"""busy: the bot works; asks: a person is waited for; the others are ends."""
JobState: TypeAlias = Literal["waiting", "running", "done", "refused", "stopped", "failed"]
"""refused: the job did its work, and the answer is no."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One round, in a line."""

    name: str
    title: str
    words: str
    state: State


@dataclass(frozen=True, slots=True)
class Card:
    """One campaign."""

    campaign: str
    number: int
    """The pull request's."""
    kernel: str
    state: State
    words: str
    since: str = ""
    best: str = ""
    attempts: tuple[Attempt, ...] = ()
    budget: int = 0
    """Attempts it may make."""


@dataclass(frozen=True, slots=True)
class JobLine:
    count: int
    zone: str
    number: int
    """The pull request's, 0 before anybody knows."""
    state: JobState
    started_at: str
    seconds: float | None = None
    words: str = ""


@dataclass(frozen=True, slots=True)
class Board:
    cards: tuple[Card, ...] = ()
    """The newest first."""
    jobs: tuple[JobLine, ...] = ()
    """The newest first."""
    commands: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """Pull request -> what a person may want to type there now."""
    again: str = ""
    """The command that serves such a page anew, for whoever looks at one whose server has gone."""

    @property
    def is_reading(self) -> bool:
        """Somebody wrote something, and it is being decided on; for which pull request is not known yet."""
        return any(job.zone == "decide" and job.state == "running" for job in self.jobs)

    def cards_of(self, number: int) -> list[Card]:
        return [card for card in self.cards if card.number == number]

    def jobs_of(self, number: int) -> list[JobLine]:
        return [job for job in self.jobs if job.number == number]
