"""One campaign's journal while a zone works on it: what stands there, and a way to add to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bot.campaign.machine import fold
from bot.campaign.spending import time_spent
from bot.errors import Conflict, Overtaken
from bot.ledger.branch import Ledger, always
from bot.model.campaign import Campaign, Zone
from bot.model.facts import CampaignClosed, Fact, JournalLine, OrderFailed, Pushed, PushRefused
from bot.zones.drawing import draw_records
from bot.zones.follow import follow_ups

ATTEMPTS = 6
"""An append that loses the race this often means that something is very wrong with the ledger."""

Draw = Callable[[Campaign, tuple[JournalLine, ...]], Mapping[str, bytes]]
"""Records of a campaign as it will stand after the append that carries them."""


Decide = Callable[[Campaign], tuple[Fact, ...]]
"""What is to be written down of a campaign; nothing when there is no more reason to."""

SHOWN = (Pushed, PushRefused, OrderFailed, CampaignClosed)
"""Facts after which the records on the ledger are written anew."""


def draw_nothing(campaign: Campaign, lines: tuple[JournalLine, ...]) -> Mapping[str, bytes]:
    return {}


class Scribe:
    """Writes facts down before and after effects; every append is a compare-and-swap on the ledger branch."""

    def __init__(self, ledger: Ledger, campaign: str, zone: Zone, clock: Callable[[], str]) -> None:
        self._ledger = ledger
        self._zone = zone
        self._clock = clock
        self.lines: tuple[JournalLine, ...] = ()
        self.campaign = Campaign(id=campaign)
        self.reread()

    @property
    def tip(self) -> str:
        return self._ledger.tip or ""

    def beside(self, campaign: str) -> Scribe:
        """Another campaign of the same ledger, as far as it was read."""
        return Scribe(self._ledger, campaign, self._zone, self._clock)

    def reread(self) -> None:
        self.lines = self._ledger.lines(self.campaign.id)
        self.campaign = fold(Campaign(id=self.campaign.id), (line.fact for line in self.lines))

    def claim(self, *facts: Fact, still: Callable[[], bool] = always) -> bool:
        """The first append of a campaign. False when it was there already; Overtaken when it may not begin any more,
        which is asked of the ledger as it stands right before the append."""
        if self.lines:
            return False
        try:
            self._append(facts, draw_nothing, still)
        except Overtaken:
            raise
        except Conflict:
            self._ledger.refresh()
            self.reread()
            return False
        return True

    def record(self, *facts: Fact, draw: Draw = draw_nothing) -> Campaign:
        """Append; when another writer was faster, read what it wrote and append after it. The machine is total:
        a fact that no longer fits is kept as ignored, so the caller looks at the campaign afterwards."""
        for _ in range(ATTEMPTS):
            try:
                return self._append(facts, draw)
            except Conflict:
                self._ledger.refresh()
                self.reread()
        raise Conflict(f"the ledger moved {ATTEMPTS} times while {self.campaign.id} was being written")

    def settle(self, decide: Decide, draw: Draw = draw_nothing) -> tuple[Fact, ...]:
        """Append what `decide` makes of the campaign. When another writer was faster it is asked again, about the
        campaign as it stands then: somebody may have cancelled it. Returns what was appended."""
        for _ in range(ATTEMPTS):
            facts = decide(self.campaign)
            if not facts:
                return ()
            try:
                self._append(facts, draw)
            except Conflict:
                self._ledger.refresh()
                self.reread()
            else:
                return facts
        raise Conflict(f"the ledger moved {ATTEMPTS} times while {self.campaign.id} was being written")

    def _unpaid(self, after: Campaign) -> tuple[Fact, ...]:
        """An order that is dropped before its segment came is charged the time until then, and never more than a
        campaign may have: who cancels just before the end has used the machine too."""
        order = self.campaign.order
        is_open = order is not None and after.order is not None and after.order.id == order.id
        if order is None or is_open or order.id in dict(after.spent):
            return ()
        cost = time_spent(order.id, self.lines, None, self._clock())
        most = 60.0 * after.policy.max_gpu_minutes
        return (cost.model_copy(update={"seconds": min(cost.seconds, most)}),)

    def _append(self, facts: tuple[Fact, ...], draw: Draw, still: Callable[[], bool] = always) -> Campaign:
        """Facts, and what follows from them of itself, in one commit with the records that show them."""
        facts = (*facts, *self._unpaid(fold(self.campaign, facts)))
        facts = (*facts, *follow_ups(fold(self.campaign, facts), self._zone))
        if not facts:  # what followed of itself was written by whoever was faster
            return self.campaign
        if draw is draw_nothing and any(isinstance(fact, SHOWN) for fact in facts):
            draw = draw_records
        at, seq = self._clock(), len(self.lines)
        new = tuple(JournalLine(seq=seq + index, at=at, zone=self._zone, fact=fact) for index, fact in enumerate(facts))
        after = fold(self.campaign, facts)
        files = draw(after, (*self.lines, *new))
        self._ledger.append(self.campaign.id, facts, zone=self._zone, at=at, expect_seq=seq, files=files, still=still)
        self.campaign, self.lines = after, (*self.lines, *new)
        return after
