"""What the page shows of campaigns: read from the ledger, and for a running job from the segment it is writing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bot.campaign.machine import advance, fold, owed
from bot.errors import CorruptRecord
from bot.ledger.branch import Ledger
from bot.ledger.journal import Segment
from bot.localhub.board import Attempt, Card, State
from bot.model.campaign import Campaign, Outcome, Round, Stage
from bot.model.facts import Fact
from bot.model.ids import variant_name
from bot.model.verdict import Decision
from bot.render import labels, typed, view
from bot.zones.intake import SEGMENT

STAGES: dict[Stage, tuple[State, str]] = {
    Stage.NEW: ("busy", "beginning"),
    Stage.PROFILING: ("busy", "profiling the untouched kernel"),
    Stage.AWAIT_PROFILE: ("asks", "waits for a word on the profile"),
    Stage.OPTIMIZING: ("busy", "trying variants"),
    Stage.AWAIT_WINNER: ("asks", "waits for a word on the winner"),
    Stage.FINALIZING: ("busy", "running tests and style check on the winner"),
    Stage.AWAIT_FINAL: ("asks", "waits for the last word"),
    Stage.PUSHING: ("busy", "pushing the winner"),
    Stage.CLOSING: ("busy", "saying how it ended"),
}
ENDS: dict[Outcome, tuple[State, str]] = {
    Outcome.PUSHED: ("good", "pushed"),
    Outcome.REVERTED: ("bad", "not applied"),
    Outcome.NOTHING_TO_DO: ("quiet", "nothing to do"),
    Outcome.REJECTED: ("quiet", "rejected"),
    Outcome.CANCELLED: ("quiet", "cancelled"),
    Outcome.FAILED: ("bad", "failed"),
}
DECIDED: dict[Decision, State] = {
    Decision.ACCEPTED: "good",
    Decision.ACCEPTED_WITH_NOTE: "good",
    Decision.REJECTED: "bad",
    Decision.INCONCLUSIVE: "quiet",
}


def commands_for(campaign: Campaign | None, kernel: str) -> tuple[str, ...]:
    """What a person may want to type now, as it stands: nothing with a gap to be filled."""
    if campaign is None:
        return (f"/optimize {kernel}", "/optimize help")
    best = variant_name(view.best(campaign))
    offered = (command.replace(" vN", f" {best}") for command in typed.now(campaign))
    return tuple(command for command in offered if not set("[<") & set(command))


def _attempt(played: Round, campaign: Campaign) -> Attempt:
    number, verdict = played.variant.number, played.verdict
    name, title = variant_name(number), played.variant.hypothesis.title
    if verdict is None:
        over = campaign.stage in (Stage.CLOSING, Stage.ENDED)
        words = "left undone" if over else "being judged" if played.measurement else "compiled and checked now"
        return Attempt(name, title, words, "quiet" if over else "busy")
    words = view.speedup_of(campaign, number) if verdict.decision.is_accepted else labels.DECISIONS[verdict.decision]
    return Attempt(name, title, words, DECIDED[verdict.decision])


def card(campaign: Campaign, since: str = "") -> Card:
    if campaign.outcome and campaign.stage is Stage.ENDED:
        state, words = ENDS[campaign.outcome]
        if campaign.outcome is Outcome.NOTHING_TO_DO:
            words = labels.nothing(campaign)
    elif STAGES[campaign.stage][0] == "asks" and owed(campaign):
        state, words = "busy", "drawing the plots and writing the question"
    else:
        state, words = STAGES[campaign.stage]
    best = view.best(campaign)
    return Card(
        campaign=campaign.id,
        number=campaign.pull.number if campaign.pull else 0,
        kernel=view.kernel(campaign),
        state=state,
        words=words,
        since=since if state == "busy" else "",
        best=f"{variant_name(best)} is {view.speedup_of(campaign, best)}" if best else "",
        attempts=tuple(_attempt(played, campaign) for played in campaign.rounds),
        budget=view.budget(campaign) if campaign.stage is Stage.OPTIMIZING else 0,
    )


def _until_the_order_closes(campaign: Campaign, facts: tuple[Fact, ...]) -> Campaign:
    """What comes of the end of a job is said when its facts were checked and joined: nobody can answer it sooner."""
    for fact in facts:
        after, _ = advance(campaign, fact)
        if after.order is None:
            break
        campaign = after
    return campaign


class Watcher:
    """The campaigns of one ledger. It is read again when its branch moved."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._told: dict[str, Campaign] = {}
        self._tip: str | None = None
        self._read: dict[Path, tuple[int, tuple[Fact, ...]]] = {}
        """The segment that is being written, as of a size."""

    def campaigns(self, tip: str | None, segments: Mapping[str, Path]) -> list[Campaign]:
        """The newest first. `segments`: campaign -> where its last GPU job writes."""
        if tip != self._tip:
            self._ledger.refresh()
            names = self._ledger.campaigns()
            self._told = {name: fold(Campaign(id=name), self._facts(name)) for name in names}
            self._tip = tip
        found = [self._with_segment(campaign, segments.get(name)) for name, campaign in self._told.items()]
        return sorted(found, key=lambda campaign: campaign.comment_id, reverse=True)

    def _facts(self, name: str) -> tuple[Fact, ...]:
        return tuple(line.fact for line in self._ledger.lines(name))

    def _with_segment(self, campaign: Campaign, out: Path | None) -> Campaign:
        """With the rounds its GPU job has told of so far."""
        path = out / SEGMENT if out else None
        if path is None or campaign.order is None or not path.is_file():
            return campaign
        size = path.stat().st_size
        if self._read.get(path, (-1, ()))[0] != size:  # it may be made, and nothing written yet
            try:
                self._read = {path: (size, Segment(path).facts())}
            except CorruptRecord:
                return campaign
        return _until_the_order_closes(campaign, self._read[path][1])
