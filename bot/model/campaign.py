"""A campaign as it stands: the fold of its facts."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from bot.model.commands import Optimize
from bot.model.diagnosis import Diagnosis
from bot.model.finalization import Finalization, PassedFile
from bot.model.hardware import HardwareNumber
from bot.model.ids import CampaignId, CommitSha, Digest, OrderId, VariantNumber
from bot.model.measurement import Case, Measurement, Suite, Survey
from bot.model.people import Actor
from bot.model.policy import RepoPolicy
from bot.model.profiling import Counters, Dispatch, Timeline, Traffic
from bot.model.pull import PullSnapshot
from bot.model.race import Race
from bot.model.reasons import ReasonCode
from bot.model.rivals import Rival
from bot.model.site import KernelSite
from bot.model.variant import SourceFile, Variant
from bot.model.verdict import Decision, Verdict
from bot.model.word import Word

MOST_RETRIES = 3
"""A job that failed this often fails for a reason that asking again does not mend."""


class Phase(StrEnum):
    PROFILE = "profile"
    OPTIMIZE = "optimize"
    FINALIZE = "finalize"


class Checkpoint(StrEnum):
    PROFILE = "profile"
    WINNER = "winner"
    FINAL = "final"


class Origin(StrEnum):
    """Who began it."""

    PERSON = "person"
    SWEEP = "sweep"
    """Nobody asked: it talks to nobody, pushes to the bot's own branch alone, and merging that is the approval."""


class Stage(StrEnum):
    """Where a campaign is. AWAIT_* hold no runner; CLOSING still has something to say; ENDED owes nothing."""

    NEW = "new"
    PROFILING = "profiling"
    AWAIT_PROFILE = "await_profile"
    OPTIMIZING = "optimizing"
    AWAIT_WINNER = "await_winner"
    FINALIZING = "finalizing"
    AWAIT_FINAL = "await_final"
    PUSHING = "pushing"
    CLOSING = "closing"
    ENDED = "ended"


class Outcome(StrEnum):
    PUSHED = "pushed"
    REVERTED = "reverted"
    """There was a winner and it was not applied; the reason code says why."""
    NOTHING_TO_DO = "nothing_to_do"
    REJECTED = "rejected"
    CANCELLED = "cancelled"
    FAILED = "failed"


class Zone(StrEnum):
    DECIDE = "decide"
    MEASURE = "measure"
    PUBLISH = "publish"
    PUSH = "push"


class Order(Word):
    """The unit of work handed to a GPU job."""

    id: OrderId
    campaign: CampaignId
    phase: Phase
    winner: VariantNumber | None = None
    """For FINALIZE: the variant to finish."""


class Profile(Word):
    """What the PROFILE phase found out about the untouched kernel."""

    site: KernelSite
    suite: Suite
    sources: tuple[SourceFile, ...]
    baseline: Measurement
    survey: tuple[Survey, ...] = ()
    diagnosis: Diagnosis
    oracle_differs: tuple[str, ...] = ()
    """Test, benchmark, conftest and style files that differ between the PR and its target branch."""
    counters: Counters | None = None
    timelines: tuple[Timeline, ...] = ()
    dispatch: tuple[Dispatch, ...] = ()
    """Where the library has several implementations of an op: none where it has not, where nobody with a GPU asked, as
    before 2026-11-29, or where it did not say."""
    traffic: tuple[Traffic, ...] = ()
    rivals: tuple[Rival, ...] = ()
    """How plain PyTorch and torch.compile do on the same cases."""
    left_out: tuple[Case, ...] = ()
    """Cases of the target's suite in which v0 does not fit into the memory of this GPU: nobody is asked for them."""
    hardware: tuple[HardwareNumber, ...] = ()
    """Every number of the GPU that a record of this campaign may use, with where it was read (R-03, R-04)."""


class Round(Word):
    """One hypothesis -> one variant -> one verdict."""

    variant: Variant
    measurement: Measurement | None = None
    verdict: Verdict | None = None
    held_against: VariantNumber | None = None
    """The incumbent of that moment; None before there is a verdict."""
    is_again: bool = False
    """Whether it was measured once more, because v0 was, on another machine. The verdict is of there, against v0."""

    @property
    def is_awaited(self) -> bool:
        """Whether all that is missing is the verdict."""
        return self.measurement is not None and self.verdict is None

    @property
    def is_accepted(self) -> bool:
        return self.verdict is not None and self.verdict.decision.is_accepted

    @property
    def is_rejected(self) -> bool:
        return self.verdict is not None and self.verdict.decision is Decision.REJECTED


class LeftMachine(Word):
    """A machine that a campaign went on without: v0 and the incumbent were measured again on the next one."""

    baseline: Measurement
    """v0 there."""
    until: VariantNumber
    """Variants above this one were not measured there."""


class StopReason(StrEnum):
    TARGET_MET = "target_met"
    EFFICIENT = "efficient"
    BUDGET_SPENT = "budget_spent"
    GPU_TIME_SPENT = "gpu_time_spent"
    TIME_OVER = "time_over"
    STAGNATION = "stagnation"
    IDEAS_EXHAUSTED = "ideas_exhausted"
    TOO_MANY_FAILURES = "too_many_failures"


OUT_OF_TIME = (StopReason.GPU_TIME_SPENT, StopReason.TIME_OVER)
OUT_OF_BUDGET = (StopReason.BUDGET_SPENT, *OUT_OF_TIME)
"""Where somebody may still have had an idea."""


class Answer(Word):
    """A human's word on a checkpoint, with where it was said so that it can be read again."""

    checkpoint: Checkpoint
    approved: bool
    variant: VariantNumber | None = None
    reason: str = ""
    actor: Actor
    via: Literal["comment", "review", "terminal"]
    source_id: int
    said_at: str


class Ignored(Word):
    """A fact that changed nothing, and why."""

    fact: str
    why: str


class Campaign(Word):
    id: CampaignId
    stage: Stage = Stage.NEW
    origin: Origin = Origin.PERSON
    command: Optimize | None = None
    requester: Actor | None = None
    comment_id: int = 0
    requested_at: str = ""
    pull: PullSnapshot | None = None
    measured_at: CommitSha | None = None
    """The commit that the last profile or search was ordered at; a harmless move changes the head, not this."""
    policy: RepoPolicy = RepoPolicy()
    order: Order | None = None
    """The open order, if a GPU job is owed or running."""
    orders: tuple[OrderId, ...] = ()
    """Every order ever placed; an id is never used twice."""
    late: OrderId | None = None
    """The open order, once people were told that no runner takes it up."""
    spent: tuple[tuple[OrderId, float], ...] = ()
    """GPU seconds of each order."""
    joined: tuple[tuple[OrderId, Digest], ...] = ()
    profile: Profile | None = None
    left: tuple[LeftMachine, ...] = ()
    """Machines on which v0 was measured before it was measured where `profile` says now; the first was profiled on."""
    replaced_seconds: float = 0.0
    """GPU seconds of measurements that others took the place of."""
    rounds: tuple[Round, ...] = ()
    races: tuple[Race, ...] = ()
    """At most one opening, and one of each incumbent."""
    lineage: tuple[VariantNumber, ...] = (0,)
    """Accepted variants from v0 to the incumbent."""
    raced_after: int = 0
    """Rounds before the last race: what they failed of is no word on the numbers that it found."""
    stagnant: int = 0
    """Passing variants in a row that gained less than 1 % over the best so far."""
    reviews: int = 0
    """Stagnation reviews held; the second pair of stagnant variants ends the search."""
    stopped: StopReason | None = None
    rivals: tuple[Rival, ...] = ()
    """Those that were played beside v0 because there was a winner, at the end of the search."""
    winner: VariantNumber | None = None
    tested: tuple[PassedFile, ...] = ()
    """What need not run again where the tests go on."""
    finalization: Finalization | None = None
    answers: tuple[Answer, ...] = ()
    cancelled_by: Actor | None = None
    tries: tuple[tuple[CommitSha, Actor], ...] = ()
    """Commits people asked to try, in the order they asked."""
    requested: tuple[str, ...] = ()
    """Keys of effects that were announced."""
    done: tuple[tuple[str, str], ...] = ()
    """Keys of effects that were carried out, with the id or commit each made."""
    ignored: tuple[Ignored, ...] = ()
    failed: Phase | None = None
    """The phase whose order failed last, so that it can be done again."""
    retries: int = 0
    restarts: CampaignId | None = None
    """The campaign whose place this one took."""
    outcome: Outcome | None = None
    reason: ReasonCode | None = None
    detail: str = ""
    again: str = ""
    """The line that starts anew, where the end calls for one."""
    unproved: bool = False
    """The push was refused because nobody's word for it could be shown."""
    pushed: CommitSha | None = None

    @property
    def gpu_seconds(self) -> float:
        return sum(seconds for _, seconds in self.spent)

    @property
    def incumbent(self) -> VariantNumber:
        return self.lineage[-1]

    @property
    def as_profiled(self) -> Profile | None:
        """With v0 as it was on the machine that the diagnosis is of."""
        if self.profile is None or not self.left:
            return self.profile
        return self.profile.model_copy(update={"baseline": self.left[0].baseline})

    @property
    def stranded(self) -> VariantNumber | None:
        """The incumbent, where v0 was measured on another machine since: none of its numbers holds there yet."""
        played = self.round_of(self.incumbent)
        if played is None or played.measurement is None or self.profile is None:
            return None
        return self.incumbent if played.measurement.runner.differs_in(self.profile.baseline.runner) else None

    def round_of(self, number: VariantNumber) -> Round | None:
        return next((r for r in self.rounds if r.variant.number == number), None)

    @property
    def patch_for(self) -> Literal["", "fork", "policy"]:
        """Why the winner is handed over as a patch, where nothing may be pushed by rule."""
        if self.pull is None:
            return ""
        return "fork" if self.pull.from_fork else "policy" if self.policy.push_to == "patch" else ""

    def race_of(self, number: VariantNumber) -> Race | None:
        """Of its launch numbers, and of what ideas were left."""
        return next((race for race in self.races if race.of == number and not race.opening), None)

    @property
    def opening(self) -> Race | None:
        return next((race for race in self.races if race.opening), None)

    def ref_of(self, key: str) -> str | None:
        """What a finished effect made, or None when it is not finished."""
        return dict(self.done).get(key)

    def answer_to(self, checkpoint: Checkpoint) -> Answer | None:
        return next((a for a in reversed(self.answers) if a.checkpoint is checkpoint), None)
