"""Every fact a campaign can record, in past tense. The journal is a list of these."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from bot.model.campaign import Answer, Order, Origin, Outcome, Profile, StopReason, Zone
from bot.model.commands import MOST_VARIANTS, Optimize
from bot.model.finalization import Finalization, PassedFile
from bot.model.ids import CampaignId, CommitSha, Digest, OrderId, VariantNumber
from bot.model.measurement import Measurement
from bot.model.people import Actor
from bot.model.policy import RepoPolicy
from bot.model.pull import PullSnapshot
from bot.model.race import Race
from bot.model.reasons import ReasonCode
from bot.model.rivals import Rival
from bot.model.variant import Variant
from bot.model.verdict import Verdict
from bot.model.word import Word


class CampaignRequested(Word):
    kind: Literal["campaign_requested"] = "campaign_requested"
    campaign: CampaignId
    origin: Origin = Origin.PERSON
    command: Optimize
    requester: Actor
    comment_id: int
    requested_at: str
    pull: PullSnapshot
    policy: RepoPolicy
    restarts: CampaignId | None = None
    """The campaign whose place this one takes."""


class OrderPlaced(Word):
    kind: Literal["order_placed"] = "order_placed"
    order: Order


class OrderTaken(Word):
    """A GPU job began to work on an order, by its own clock."""

    kind: Literal["order_taken"] = "order_taken"
    order: OrderId
    at: str


class OrderWaits(Word):
    """No runner took the order up in time; people are told once."""

    kind: Literal["order_waits"] = "order_waits"
    order: OrderId
    minutes: int


class GpuTimeSpent(Word):
    """What an order cost, for the budgets. A job that left nothing is charged all the time since it was ordered."""

    kind: Literal["gpu_time_spent"] = "gpu_time_spent"
    order: OrderId
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    known: bool = True
    """False where nobody knows better than the time between order and loss."""


class SegmentJoined(Word):
    """The facts of one GPU job were accepted, once."""

    kind: Literal["segment_joined"] = "segment_joined"
    order: OrderId
    digest: Digest


class Profiled(Word):
    kind: Literal["profiled"] = "profiled"
    order: OrderId
    profile: Profile


class NumbersRaced(Word):
    """Other launch numbers were tried at the incumbent, side by side, or ideas, before the next was asked for. The
    first journals knew races of launch numbers alone, hence its kind."""

    kind: Literal["numbers_raced"] = "numbers_raced"
    order: OrderId
    race: Race


class MachineChanged(Word):
    """The search goes on elsewhere than v0 was measured, so v0 was measured again there."""

    kind: Literal["machine_changed"] = "machine_changed"
    order: OrderId
    baseline: Measurement


class BudgetRaised(Word):
    """A search that had ended goes on: what was known when it did stands before this, and so many variants may be
    tried in all."""

    kind: Literal["budget_raised"] = "budget_raised"
    max_variants: Annotated[int, Field(ge=1, le=MOST_VARIANTS)]


class RoundOpened(Word):
    """The hypothesis and the source, written before it was tried."""

    kind: Literal["round_opened"] = "round_opened"
    order: OrderId
    variant: Variant


class VariantMeasured(Word):
    """Also of the incumbent once more, after v0 was measured again on another machine."""

    kind: Literal["variant_measured"] = "variant_measured"
    order: OrderId
    number: VariantNumber
    measurement: Measurement


class VariantJudged(Word):
    kind: Literal["variant_judged"] = "variant_judged"
    order: OrderId
    number: VariantNumber
    verdict: Verdict


class SearchEnded(Word):
    kind: Literal["search_ended"] = "search_ended"
    order: OrderId
    why: StopReason
    note: str = ""
    rivals: tuple[Rival, ...] = ()
    """Played where there is a winner, by a job with a GPU."""


class FilePassed(Word):
    """Of several test files one is through: who is stopped now goes on with the next."""

    kind: Literal["file_passed"] = "file_passed"
    order: OrderId
    file: PassedFile


class Finalized(Word):
    kind: Literal["finalized"] = "finalized"
    order: OrderId
    finalization: Finalization


class OrderFailed(Word):
    """A GPU job could not do its work; what and why is for the person who reads the answer."""

    kind: Literal["order_failed"] = "order_failed"
    order: OrderId
    reason: ReasonCode
    detail: str


class Answered(Word):
    kind: Literal["answered"] = "answered"
    answer: Answer


class TryRequested(Word):
    kind: Literal["try_requested"] = "try_requested"
    commit: CommitSha
    actor: Actor
    comment_id: int = 0


class Cancelled(Word):
    kind: Literal["cancelled"] = "cancelled"
    actor: Actor
    comment_id: int
    detail: str = ""


class Retried(Word):
    """A person had the job that failed done again, at the same commit."""

    kind: Literal["retried"] = "retried"
    actor: Actor
    comment_id: int


class HeadMoved(Word):
    kind: Literal["head_moved"] = "head_moved"
    measured: CommitSha
    now: CommitSha | None
    again: str = ""
    """The line that starts anew from there."""


class Repinned(Word):
    """The head moved, and nothing that the kernel, its tests or its style depend on did."""

    kind: Literal["repinned"] = "repinned"
    before: CommitSha
    pull: PullSnapshot


class Stopped(Word):
    """No person and no machine ended it: the ground it stood on is gone, or its time is up."""

    kind: Literal["stopped"] = "stopped"
    reason: ReasonCode
    detail: str
    again: str = ""


class EffectRequested(Word):
    kind: Literal["effect_requested"] = "effect_requested"
    key: str
    zone: Zone


class EffectDone(Word):
    kind: Literal["effect_done"] = "effect_done"
    key: str
    zone: Zone
    ref: str = ""


class Pushed(Word):
    kind: Literal["pushed"] = "pushed"
    commit: CommitSha


class PushRefused(Word):
    kind: Literal["push_refused"] = "push_refused"
    reason: ReasonCode
    detail: str
    again: str = ""
    unproved: bool = False
    """Nobody's word for it could be shown, so the winner is not handed out as a patch either."""


class CampaignClosed(Word):
    """Everything the campaign had to say was said."""

    kind: Literal["campaign_closed"] = "campaign_closed"
    outcome: Outcome


Fact: TypeAlias = Annotated[
    CampaignRequested
    | OrderPlaced
    | OrderTaken
    | OrderWaits
    | GpuTimeSpent
    | SegmentJoined
    | Profiled
    | NumbersRaced
    | MachineChanged
    | BudgetRaised
    | RoundOpened
    | VariantMeasured
    | VariantJudged
    | SearchEnded
    | FilePassed
    | Finalized
    | OrderFailed
    | Answered
    | TryRequested
    | Cancelled
    | Retried
    | HeadMoved
    | Repinned
    | Stopped
    | EffectRequested
    | EffectDone
    | Pushed
    | PushRefused
    | CampaignClosed,
    Field(discriminator="kind"),
]

MEASURING_FACTS = (
    OrderTaken,
    Profiled,
    NumbersRaced,
    MachineChanged,
    RoundOpened,
    VariantMeasured,
    VariantJudged,
    SearchEnded,
    FilePassed,
    Finalized,
    OrderFailed,
)
"""The only facts a segment from a GPU job may carry."""


class JournalLine(Word):
    """One line of a journal: a fact, when it was written and by whom."""

    schema_version: Literal[1] = 1
    seq: int = Field(ge=0)
    at: str
    zone: Zone
    fact: Fact
