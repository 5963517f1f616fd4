"""A campaign whose journal is a file and whose people sit at this terminal.

Every fact is in the journal as soon as it is known, so a campaign that is stopped anywhere goes on from there.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from bot.analysis.rivals import of_campaign
from bot.bench.choosing import Keeping, opener_for
from bot.bench.gpu import Gpu
from bot.bench.halt import Halt, Halted, halting
from bot.campaign.effects import AskHuman, Close, Effect, PlaceOrder, PushWinner, SayResult, SayStatus
from bot.campaign.lineage import accepted
from bot.campaign.machine import CHECKPOINT_OF, fold, owed
from bot.cli.screen import Screen
from bot.cli.tried import Version
from bot.cli.wiki import informed
from bot.errors import UserError
from bot.git.local import set_branch
from bot.git.repo import Repo
from bot.ledger.journal import JournalFile, Segment
from bot.ledger.layout import JOURNAL
from bot.model.campaign import Answer, Campaign, Order, Stage, Zone
from bot.model.facts import (
    MEASURING_FACTS,
    Answered,
    CampaignClosed,
    EffectDone,
    EffectRequested,
    Fact,
    OrderPlaced,
    Pushed,
    TryRequested,
)
from bot.model.ids import CommitSha, OrderId, variant_name
from bot.model.people import Actor
from bot.model.reasons import ReasonCode
from bot.render import commit as commits
from bot.render import view
from bot.render.records import records
from bot.zones.clock import utc_now
from bot.zones.follow import new_order
from bot.zones.intake import SEGMENT
from bot.zones.measure import Workshop, work

ME = Actor(id=0, login="you")
SCRATCH, SEGMENTS = "scratch", "segments"
"""Folders of work under way; both are gone when it is done."""


class Stopped(Exception):
    """The person at the keyboard stopped it, or the clock that they gave it; the campaign can go on."""

    def __init__(self, by: str = "you") -> None:
        super().__init__(by)
        self.by = by


@contextmanager
def _stoppable() -> Iterator[None]:
    """Ctrl-C ends every worker at once, and comes out as Stopped whatever their end made of it on the way."""
    halt = Halt()
    try:
        with halting() as halt:
            yield
    except BaseException as error:
        if halt.signal or isinstance(error, Halted):
            raise Stopped from error
        raise


class Desk:
    def __init__(
        self,
        repo: Repo,
        folder: Path,
        campaign: str,
        screen: Screen,
        *,
        python: str,
        assume_yes: bool,
        gpu: Gpu | None = None,
        tries: Sequence[Version] = (),
        wiki: Path | None = None,
        is_late: Callable[[], bool] = lambda: False,
    ) -> None:
        self._repo, self._folder, self._screen = repo, folder, screen
        self._python, self._yes, self._gpu = python, assume_yes, gpu
        self._is_late = is_late
        self._benches = Keeping(informed(opener_for(gpu), wiki, screen.hint))
        self._tries = tuple(tries)
        """Versions from elsewhere, until the campaign can take them."""
        folder.mkdir(parents=True, exist_ok=True)
        self._journal = JournalFile(folder / JOURNAL)
        self.campaign = fold(Campaign(id=campaign), self._journal.facts())

    def record(self, *facts: Fact) -> None:
        """On disk when this returns."""
        for fact in facts:
            self._journal.append(fact, utc_now())
            self.campaign = fold(self.campaign, [fact])

    def _show_records(self) -> None:
        """The files that people read, as the journal stands now."""
        rivals, lines = of_campaign(self.campaign), self._journal.lines()
        for path, content in records(self.campaign, lines, rivals).items() if self.campaign.profile else ():
            place = self._folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)

    def _did(self, effect: Effect, ref: str = "") -> None:
        self.record(
            EffectRequested(key=effect.key, zone=Zone.DECIDE), EffectDone(key=effect.key, zone=Zone.DECIDE, ref=ref)
        )

    def _commit_of(self, version: Version) -> CommitSha:
        """The same text is the same commit, so it is never tried twice."""
        pull, profile = self.campaign.pull, self.campaign.profile
        assert pull is not None and profile is not None
        files = version.onto(profile.site.files[0])
        return self._repo.commit_files(
            pull.head_sha, files, version.message, author=commits.AUTHOR, date=self.campaign.requested_at
        )

    def _is_asked_for(self, commit: CommitSha) -> bool:
        return commit in [known for known, _ in self.campaign.tries]

    def _bring_tries(self) -> None:
        """As soon as the kernel is profiled."""
        if not self._tries or self.campaign.stage not in view.TRY_STAGES or self.campaign.profile is None:
            return
        for version in self._tries:
            commit = self._commit_of(version)
            if not self._is_asked_for(commit):
                self.record(TryRequested(commit=commit, actor=ME))
            if not self._is_asked_for(commit):
                self._screen.hint(f"  {version.name} is not tried: {self.campaign.ignored[-1].why}")
        self._tries = ()

    def _say_what_came_too_late(self) -> None:
        """A command that goes on names again what was tried before it was stopped."""
        for version in self._tries:
            if self.campaign.profile is None or not self._is_asked_for(self._commit_of(version)):
                self._screen.hint(f"  {version.name} is not tried: the search was over already")

    # Work

    def _is_of(self, fact: Fact, order: OrderId) -> bool:
        return isinstance(fact, MEASURING_FACTS) and fact.order == order

    def _catch_up(self, segment: Path, order: OrderId) -> None:
        """What stands in the segment of a job and not yet in the journal: a command may be killed between the two."""
        known = sum(self._is_of(fact, order) for fact in self._journal.facts())
        self.record(*Segment(segment).facts()[known:])

    def _hand_over(self, segment: Path, order: OrderId) -> None:
        """The other way round: a journal that was carried to another machine comes without the segment, and a job that
        found none would do everything again."""
        segment.parent.mkdir(parents=True, exist_ok=True)
        job = Segment(segment)
        mine = [line for line in self._journal.lines() if self._is_of(line.fact, order)]
        for line in mine[len(job.facts()) :]:
            job.append(line.fact, line.at)

    def _ends_here(self) -> bool:
        """With nothing to finish it is left open instead: an ended search tries nothing more."""
        if self._is_late() and not self.campaign.incumbent:
            raise Stopped("the clock (`--minutes`)")
        return self._is_late()

    def _work(self, order: Order) -> None:
        out, scratch = self._folder / SEGMENTS / order.id, self._folder / SCRATCH
        scratch.mkdir(exist_ok=True)
        heard = 0

        def hear(campaign: Campaign, fact: Fact) -> None:
            nonlocal heard
            if heard == 0:
                self._catch_up(segment, order.id)  # a job says by itself that it has begun
            else:
                self.record(fact)
            heard += 1
            self._screen.heard(self.campaign, fact)

        shop = Workshop(
            repo=self._repo,
            python=self._python,
            scratch=scratch,
            gpu=self._gpu,
            is_own=True,
            open_bench=self._benches,
            put_away=lambda _: None,  # the next job asks for the same
            told=hear,
            passed=self._screen.passed,
            is_late=self._ends_here,
        )
        segment = out / SEGMENT
        self._catch_up(segment, order.id)
        self._hand_over(segment, order.id)
        before = [fact for fact in self._journal.facts() if not self._is_of(fact, order.id)]
        with self._screen.working(self.campaign), _stoppable():
            work(order, fold(Campaign(id=self.campaign.id), before), shop, out)
        self._catch_up(segment, order.id)
        self._show_records()
        shutil.rmtree(out.parent, ignore_errors=True)

    def _clear_up(self) -> None:
        """Tree and bench serve one job after another, until somebody is asked; half a tree of a command that was killed
        serves nobody."""
        self._benches.end()
        shutil.rmtree(self._folder / SCRATCH, ignore_errors=True)

    # Questions

    def _choice(self) -> str:
        """A person's answer, asked until it is one. Nothing is held on the GPU meanwhile."""
        self._clear_up()
        campaign = self.campaign
        may_choose = campaign.stage is Stage.AWAIT_WINNER
        numbers = [variant_name(number) for number in accepted(campaign)] if may_choose else []
        if not sys.stdin.isatty():
            raise UserError(
                f"{campaign.id} waits for your answer at its {CHECKPOINT_OF[campaign.stage]} checkpoint",
                hint="run the same command in a terminal, or with --yes to approve every checkpoint",
                reason=ReasonCode.AWAITING_APPROVAL,
            )
        ways = ["approve", *(["approve vN"] if len(numbers) > 1 else []), "reject [reason]"]
        ways += [*(["show vN"] if campaign.rounds else []), "quit"]
        while True:
            said: str = click.prompt(" | ".join(ways), err=True).strip()
            word, _, rest = said.partition(" ")
            if word == "quit" and not rest:
                raise Stopped
            if word == "show" and rest in [variant_name(played.variant.number) for played in campaign.rounds]:
                self._screen.variant(campaign, int(rest[1:]))
            elif word == "reject" or (word == "approve" and (not rest or rest in numbers)):
                return said
            else:
                named = f"; accepted: {', '.join(numbers)}" if numbers else ""
                click.echo(f"type one of: {' | '.join(ways)}{named}", err=True)

    def _answer(self, effect: AskHuman) -> None:
        checkpoint = CHECKPOINT_OF[self.campaign.stage]
        self._screen.question(self.campaign, checkpoint, approved=self._yes)
        if self.campaign.ref_of(effect.key) is None:
            self._did(effect, "terminal")
        word, _, rest = ("approve" if self._yes else self._choice()).partition(" ")
        answer = Answer(
            checkpoint=checkpoint,
            approved=word == "approve",
            variant=int(rest[1:]) if word == "approve" and rest else None,
            reason=rest if word == "reject" else "",
            actor=ME,
            via="terminal",
            source_id=0,
            said_at=utc_now(),
        )
        self.record(Answered(answer=answer))
        self._screen.answered(self.campaign, Answered(answer=answer))

    # The end

    def _commit(self, effect: PushWinner) -> None:
        """The winner as one commit on a branch of its own; the checked-out branch is not touched."""
        campaign = self.campaign
        assert campaign.pull is not None and campaign.finalization is not None
        files = {file.path: file.text.encode() for file in campaign.finalization.files}
        message = commits.winner_message(campaign)
        made = self._repo.commit_files(
            campaign.pull.head_sha, files, message, author=commits.AUTHOR, date=campaign.requested_at
        )
        set_branch(self._repo.path, f"optimize/{campaign.id}", made)
        self.record(
            EffectRequested(key=effect.key, zone=Zone.PUSH),
            Pushed(commit=made),
            EffectDone(key=effect.key, zone=Zone.PUSH, ref=made),
        )

    def _result(self, effect: Effect) -> None:
        self._screen.result(self.campaign)
        if self.campaign.pushed:
            self._screen.hint(f"  merge it with: git merge optimize/{self.campaign.id}")
        if self.campaign.profile:
            name = view.kernel(self.campaign)
            self._screen.hint(f"  all of it on one page: kernelwright show {name} --html {name}.html")
        self._did(effect)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case PlaceOrder():
                self.record(OrderPlaced(order=new_order(self.campaign, effect)))
            case SayStatus():
                self._screen.stage(self.campaign)
                self._did(effect)
            case SayResult():
                self._result(effect)
            case AskHuman():
                self._answer(effect)
            case PushWinner():
                self._commit(effect)
            case Close():
                assert self.campaign.outcome is not None
                self.record(CampaignClosed(outcome=self.campaign.outcome))
            case _ if Zone.MEASURE in effect.zones:
                assert self.campaign.order is not None
                self._work(self.campaign.order)
            case _:
                self._did(effect)

    def run(self) -> Campaign:
        """Until nothing is owed and nobody is asked; raises Stopped when the person stops it."""
        try:
            self._clear_up()
            while True:
                self._bring_tries()
                if effects := owed(self.campaign):
                    self._perform(effects[0])
                elif self.campaign.stage in CHECKPOINT_OF:
                    turn = len(self.campaign.orders)
                    self._answer(AskHuman(checkpoint=CHECKPOINT_OF[self.campaign.stage], turn=turn))
                else:
                    self._say_what_came_too_late()
                    return self.campaign
        except (KeyboardInterrupt, click.Abort) as error:
            raise Stopped from error
        finally:
            self._clear_up()
            self._show_records()
