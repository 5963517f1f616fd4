"""The page with the bot behind it: what people write there starts jobs, and what the jobs do shows on the page."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

from bot.cli.job_lines import CHECKING, JobLines
from bot.cli.job_log import JobLog
from bot.cli.watching import Watcher, card, commands_for
from bot.errors import BotError
from bot.git.repo import Repo
from bot.ledger.branch import Ledger
from bot.ledger.layout import LEDGER_REF
from bot.localhub.board import Board, Card
from bot.localhub.lanes import Lanes
from bot.localhub.runner import Runner
from bot.localhub.server import Hub
from bot.localhub.steps import Ran
from bot.model.campaign import Campaign

SHOW_EVERY_S = 0.2
JOIN_S = 15.0


class Session:
    def __init__(
        self,
        hub: Hub,
        runner: Runner,
        kernels: Mapping[int, str],
        tell: Callable[[str], None] = lambda _: None,
        again: str = "kernelwright demo --interactive",
    ) -> None:
        """`kernels`: pull request -> the kernel it is about. `tell`: where a line about each job goes. `again`: the
        command that starts such a session."""
        self._hub, self._kernels, self._tell, self._again = hub, kernels, tell, again
        self._watcher = Watcher(Ledger(Repo(hub.bare), remote="."))
        self._log, self._lines = JobLog(), JobLines()
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._show_all, daemon=True)
        self._lanes = Lanes(hub, runner, lambda error: tell(f"  a job could not be played: {error}"))
        runner.began, runner.ended = self._began, self._ended

    def start(self) -> Session:
        self._show()
        self._lanes.start()
        self._watch.start()
        return self

    def stop(self) -> None:
        """End what runs. What is on the ledger stays there."""
        self._over.set()
        self._lanes.stop()
        self._watch.join(timeout=JOIN_S)

    def __enter__(self) -> Session:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _began(self, ran: Ran) -> None:
        self._log.began(ran)
        if ran.zone and not self._over.is_set():
            self._tell(self._lines.began(ran))

    def _ended(self, ran: Ran) -> None:
        self._log.ended(ran)
        if (ran.zone or ran.result == "failure") and not self._over.is_set():
            self._tell(self._lines.ended(ran))

    # The board

    def _show_all(self) -> None:
        while not self._over.wait(SHOW_EVERY_S):
            try:
                self._show()
            except BotError as error:  # a branch that moves while it is read; the next look tells
                self._tell(f"  the page could not be brought up to date: {error}")

    def _card(self, campaign: Campaign) -> Card:
        job = self._log.running_for(campaign.id)
        shown = card(campaign, job.started_at if job else "")
        if job is None and campaign.order is not None and self._log.is_measuring():
            return replace(shown, words="waits for the runner, which works for another campaign")
        if job is not None and job.zone == "publish" and shown.state == "busy":
            return replace(shown, words=CHECKING)
        return shown

    def _show(self) -> None:
        campaigns = self._watcher.campaigns(self._hub.history.heads().get(LEDGER_REF), self._log.segments())
        self._log.pulls |= {found.id: found.pull.number for found in campaigns if found.pull}
        latest = {found.pull.number: found for found in reversed(campaigns) if found.pull}
        commands = {number: commands_for(latest.get(number), kernel) for number, kernel in self._kernels.items()}
        cards = tuple(self._card(found) for found in campaigns)
        self._hub.show(Board(cards=cards, jobs=self._log.lines(), commands=commands, again=self._again))
