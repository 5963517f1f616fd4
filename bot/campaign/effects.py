"""What the machine may ask for, in the imperative. Each effect names the zones that may carry it out."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from bot.model.campaign import Checkpoint, Phase, Stage, StopReason, Zone
from bot.model.ids import OrderId, VariantNumber
from bot.model.word import Word

TALK = frozenset({Zone.DECIDE, Zone.PUBLISH, Zone.PUSH})
"""Zones that hold a token for the conversation."""


class PlaceOrder(Word):
    """Hand a unit of work to a GPU job."""

    zones: ClassVar[frozenset[Zone]] = frozenset({Zone.DECIDE, Zone.PUBLISH})
    phase: Phase

    @property
    def key(self) -> str:
        return f"order/{self.phase}"


class SayStatus(Word):
    """Write or refresh the one living status comment."""

    zones: ClassVar[frozenset[Zone]] = TALK
    stage: Stage
    turn: int
    """How many orders were placed: the same stage can be entered twice."""
    late: bool = False
    """Said once more when no runner takes the order up."""

    @property
    def key(self) -> str:
        return f"status/{self.stage}/{self.turn}{'/late' if self.late else ''}"


class MarkCommit(Word):
    """Set the commit status of the pinned head, and of the commit that was pushed onto it."""

    zones: ClassVar[frozenset[Zone]] = TALK
    stage: Stage
    turn: int

    @property
    def key(self) -> str:
        return f"mark/{self.stage}/{self.turn}"


class AskHuman(Word):
    """Post a checkpoint. Publish does it, for it has drawn the plots."""

    zones: ClassVar[frozenset[Zone]] = frozenset({Zone.PUBLISH})
    checkpoint: Checkpoint
    turn: int

    @property
    def key(self) -> str:
        return f"checkpoint/{self.checkpoint}/{self.turn}"


class PushLineage(Word):
    """Bring `optimize/<campaign>` to the incumbent, one commit per accepted round."""

    zones: ClassVar[frozenset[Zone]] = frozenset({Zone.PUBLISH})
    incumbent: VariantNumber

    @property
    def key(self) -> str:
        return f"lineage/v{self.incumbent}"


class PushWinner(Word):
    """Push the winning commit onto the pinned head."""

    zones: ClassVar[frozenset[Zone]] = frozenset({Zone.PUSH})
    winner: VariantNumber
    key: ClassVar[str] = "push"


class OfferPull(Word):
    """Open the pull request of a sweep's branch, or bring it up to date."""

    zones: ClassVar[frozenset[Zone]] = frozenset({Zone.PUBLISH, Zone.PUSH})
    key: ClassVar[str] = "pull"


class SayResult(Word):
    zones: ClassVar[frozenset[Zone]] = TALK
    key: ClassVar[str] = "result"


class ReactFinally(Word):
    """Replace the reaction on the commanding comment by the final one."""

    zones: ClassVar[frozenset[Zone]] = TALK
    key: ClassVar[str] = "reaction"


class Close(Word):
    """Everything was said: write it down."""

    zones: ClassVar[frozenset[Zone]] = TALK
    key: ClassVar[str] = "close"


class ProfileKernel(Word):
    zones: ClassVar[frozenset[Zone]] = frozenset({Zone.MEASURE})
    order: OrderId
    key: ClassVar[str] = "profile"


class RaceNumbers(Word):
    """Try other launch numbers at the incumbent, side by side, to learn what is worth a round."""

    zones: ClassVar[frozenset[Zone]] = frozenset({Zone.MEASURE})
    order: OrderId
    incumbent: VariantNumber

    @property
    def key(self) -> str:
        return f"race/v{self.incumbent}"


class OpenRound(Word):
    """Ask the proposers for the next hypothesis and write it down."""

    zones: ClassVar[frozenset[Zone]] = frozenset({Zone.MEASURE})
    order: OrderId
    number: VariantNumber

    @property
    def key(self) -> str:
        return f"round/v{self.number}"


class MeasureVariant(Word):
    zones: ClassVar[frozenset[Zone]] = frozenset({Zone.MEASURE})
    order: OrderId
    number: VariantNumber

    @property
    def key(self) -> str:
        return f"measure/v{self.number}"


class JudgeVariant(Word):
    zones: ClassVar[frozenset[Zone]] = frozenset({Zone.MEASURE})
    order: OrderId
    number: VariantNumber

    @property
    def key(self) -> str:
        return f"judge/v{self.number}"


class EndSearch(Word):
    zones: ClassVar[frozenset[Zone]] = frozenset({Zone.MEASURE})
    order: OrderId
    why: StopReason
    key: ClassVar[str] = "end-search"


class FinishWinner(Word):
    """Tests and style check of the winner in a clean worktree of the pinned head."""

    zones: ClassVar[frozenset[Zone]] = frozenset({Zone.MEASURE})
    order: OrderId
    winner: VariantNumber
    key: ClassVar[str] = "finish"


Effect: TypeAlias = (
    PlaceOrder
    | SayStatus
    | MarkCommit
    | AskHuman
    | PushLineage
    | PushWinner
    | OfferPull
    | SayResult
    | ReactFinally
    | Close
    | ProfileKernel
    | RaceNumbers
    | OpenRound
    | MeasureVariant
    | JudgeVariant
    | EndSearch
    | FinishWinner
)
