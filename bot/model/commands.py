"""What a human can ask for, after the grammar has understood it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from bot.model.ids import KernelName, ShaPrefix, VariantNumber
from bot.model.reasons import ReasonCode
from bot.model.word import Word

DEFAULT_VARIANTS = 8
MOST_VARIANTS = 119


class Goal(StrEnum):
    SPEED = "speed"
    MEMORY = "memory"
    BALANCED = "balanced"


class Scope(StrEnum):
    GENERAL = "general"
    FORWARD = "forward"
    BACKWARD = "backward"


class Mode(StrEnum):
    INTERACTIVE = "interactive"
    AUTONOMOUS = "autonomous"


class GpuChoice(StrEnum):
    AUTO = "auto"
    AMPERE = "ampere"
    HOPPER = "hopper"
    BLACKWELL = "blackwell"
    CDNA3 = "cdna3"


class TargetMetric(Word):
    """A goal with a number: either a time not to exceed or a speed-up to reach, in one pass."""

    direction: Literal["forward", "backward", "full"]
    below_us: float | None = Field(default=None, gt=0)
    speedup: float | None = Field(default=None, gt=1)
    where: tuple[tuple[str, int], ...] = ()
    text: str


class Optimize(Word):
    verb: Literal["optimize"] = "optimize"
    kernel: KernelName
    goal: Goal = Goal.BALANCED
    scope: Scope = Scope.GENERAL
    gpu: GpuChoice = GpuChoice.AUTO
    mode: Mode = Mode.INTERACTIVE
    max_variants: Annotated[int, Field(ge=1, le=MOST_VARIANTS)] = DEFAULT_VARIANTS
    target: TargetMetric | None = None
    sha: ShaPrefix | None = None


class Help(Word):
    verb: Literal["help"] = "help"
    topic: ReasonCode | None = None
    """A reason code that somebody read in a log or in a comment."""


class ListKernels(Word):
    verb: Literal["list"] = "list"


class Status(Word):
    verb: Literal["status"] = "status"


class Approve(Word):
    verb: Literal["approve"] = "approve"
    variant: VariantNumber | None = None


class Reject(Word):
    verb: Literal["reject"] = "reject"
    reason: str = ""


class Cancel(Word):
    verb: Literal["cancel"] = "cancel"


class Try(Word):
    verb: Literal["try"] = "try"
    sha: ShaPrefix


class Explain(Word):
    verb: Literal["explain"] = "explain"
    variant: VariantNumber | None = None
    """None for the one that matters most: the winner, else the best, else the untouched kernel."""


class Retry(Word):
    verb: Literal["retry"] = "retry"


class Restart(Word):
    verb: Literal["restart"] = "restart"
    sha: ShaPrefix | None = None
    """The head that was looked at; needed on pull requests from forks."""


Command: TypeAlias = Annotated[
    Optimize | Help | ListKernels | Status | Explain | Approve | Reject | Cancel | Try | Retry | Restart,
    Field(discriminator="verb"),
]


class CommandError(Word):
    """A mistake in a comment, with the way out of it."""

    code: ReasonCode
    what: str
    why: str
    hint: str
    paste: str = ""
    kernel: str = ""
    """As it was written, where no kernel of that name can be optimised: why, a grammar cannot know."""
