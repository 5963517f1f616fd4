"""The page with the bot behind it: what people write there starts jobs, and what the jobs do shows on the page.

Comments are decided on at once, one after the other; all other jobs wait for one runner, as with a single GPU.
"""

from __future__ import annotations

import queue
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from bot.cli.job_log import JobLog
from bot.cli.watching import Watcher, card, commands_for
from bot.errors import BotError, OperatorError
from bot.git.repo import Repo
from bot.ledger.branch import Ledger
from bot.ledger.layout import LEDGER_REF
from bot.localhub.actions import Actions, Job
from bot.localhub.board import Board, Card
from bot.localhub.server import Hub
from bot.model.campaign import Campaign, Stage

LOOK_EVERY_S = 0.2
JOIN_S = 15.0
OVER = (Stage.CLOSING, Stage.ENDED)
FAILS = (BotError, subprocess.SubprocessError, OSError)


def campaign_of(job: Job) -> str:
    return str(job.report.get("campaign") or "")


class Session:
    def __init__(
        self, hub: Hub, actions: Actions, kernels: Mapping[int, str], tell: Callable[[str], None] = lambda _: None
    ) -> None:
        """`kernels`: pull request -> the kernel it is about. `tell`: where a line about each job goes."""
        self._hub, self._actions, self._kernels, self._tell = hub, actions, kernels, tell
        self._watcher = Watcher(Ledger(Repo(hub.bare), remote="."))
        self._log = JobLog()
        self._errands: queue.Queue[Job | None] = queue.Queue()
        """Reports that ask for another job."""
        self._closed: set[str] = set()
        """Campaigns that were ended while a job of theirs ran or waited."""
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=run, daemon=True) for run in (self._hear_all, self._run_all, self._watch)
        ]
        actions.started = self._began

    def start(self) -> Session:
        self._show()
        for thread in self._threads:
            thread.start()
        return self

    def stop(self) -> None:
        """End what runs. What is on the ledger stays there."""
        self._over.set()
        self._errands.put(None)
        self._actions.end_all()
        for thread in self._threads:
            thread.join(timeout=JOIN_S)

    def __enter__(self) -> Session:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _began(self, zone: str, folder: Path) -> None:
        self._log.began(zone, folder)
        if zone == "measure" and self._log.campaign in self._closed:
            raise OperatorError("the campaign was ended before its job began")

    def _done(self, job: Job) -> Job:
        self._log.done(job)
        self._tell(f"  {job.zone:8} {job.seconds:6.1f} s  {job.report['reason_code']}")
        return job

    def _failed(self, error: BaseException, *, stopped: bool = False) -> None:
        self._log.failed(stopped=stopped or self._over.is_set())
        if not self._over.is_set():
            self._tell("  the job was stopped" if stopped else f"  a job did not finish: {str(error).splitlines()[0]}")

    # The people's lane

    def _hear_all(self) -> None:
        while not self._over.wait(LOOK_EVERY_S):
            for name, payload in self._hub.events():
                if self._over.is_set():
                    return
                try:
                    self._heard(self._done(self._actions.decide(name, payload)))
                except FAILS as error:
                    self._failed(error)

    def _heard(self, job: Job) -> None:
        campaign = campaign_of(job)
        if job.report.get("stage") in OVER:
            self._closed.add(campaign)
            running = self._log.measuring().get(campaign)
            if running is not None:
                self._actions.end(running)
        else:
            self._closed.discard(campaign)
        self._errands.put(job)

    # The runner's lane

    def _run_all(self) -> None:
        while (job := self._errands.get()) is not None:
            while job is not None and not self._over.is_set():
                self._log.works_for(campaign_of(job))
                try:
                    job = self._next(job)
                except FAILS as error:
                    self._failed(error)
                    job = None

    def _next(self, job: Job) -> Job | None:
        """The job that a report asks for; None when a person is waited for, or nobody."""
        campaign = campaign_of(job)
        match job.report["next"]:
            case "measure" if campaign in self._closed:
                return None
            case "measure":
                return self._measured(campaign, job.folder / "order.json")
            case "publish":
                return self._done(self._actions.publish(campaign, None))
            case "push":
                return self._done(self._actions.push(campaign))
            case _:
                return None

    def _measured(self, campaign: str, order: Path) -> Job | None:
        """The GPU job, then the one that takes in what it left; when it died, that one tells people so."""
        try:
            folder = self._done(self._actions.measure(order, self._hub.git_url)).folder
        except FAILS as error:
            ended = campaign in self._closed or self._over.is_set()
            folder = self._log.measuring().get(campaign, order.parent)
            self._failed(error, stopped=ended)
            if ended:
                return None
        return self._done(self._actions.publish(campaign, folder / "segment"))

    # The board

    def _watch(self) -> None:
        while not self._over.wait(LOOK_EVERY_S):
            try:
                self._show()
            except BotError as error:  # a branch that moves while it is read; the next look tells
                self._tell(f"  the page could not be brought up to date: {error}")

    def _card(self, campaign: Campaign, measuring: Mapping[str, Path]) -> Card:
        job = self._log.running_for(campaign.id)
        shown = card(campaign, job.started_at if job else "")
        if job is None and campaign.order is not None and measuring:
            return replace(shown, words="waits for the runner, which works for another campaign")
        if job is not None and job.zone == "publish" and shown.state == "busy":
            return replace(shown, words="checking what the job found, and writing it up")
        return shown

    def _show(self) -> None:
        measuring = self._log.measuring()
        campaigns = self._watcher.campaigns(self._hub.history.heads().get(LEDGER_REF), self._log.segments())
        self._log.pulls |= {found.id: found.pull.number for found in campaigns if found.pull}
        latest = {found.pull.number: found for found in reversed(campaigns) if found.pull}
        commands = {number: commands_for(latest.get(number), kernel) for number, kernel in self._kernels.items()}
        cards = tuple(self._card(found, measuring) for found in campaigns)
        self._hub.show(Board(cards=cards, jobs=self._log.lines(), commands=commands))
