"""`kernelwright demo`: one comment to one commit on an embedded GitHub, with the real code of every zone.

It leaves a folder with the bare repository, the conversation as a page, the plots and a summary. With `--interactive`
people play it by hand in the browser, for as long as they like.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import click

from bot.campaign.machine import fold
from bot.cli.job_lines import JobLines
from bot.cli.local_runner import runner_of
from bot.cli.options import Whole
from bot.cli.output_folder import emptied
from bot.cli.sample_world import (
    AUTHOR,
    MAINTAINER,
    PEOPLE,
    REPOSITORY,
    SUMMARY,
    found,
    hope_of,
    is_earlier_demo,
    open_pull,
    populate,
    sample_kernels,
)
from bot.cli.session import Session
from bot.cli.staying import stay
from bot.errors import OperatorError, UserError
from bot.git.repo import Repo
from bot.ledger.branch import Ledger
from bot.ledger.layout import campaign_dir
from bot.localhub.page import render_page, screenshot
from bot.localhub.runner import Runner
from bot.localhub.server import Hub
from bot.localhub.steps import LOG, Ran
from bot.model.campaign import Campaign, Outcome, Stage
from bot.render.numbers import seconds
from bot.render.summary import summary
from bot.render.terminal import result_text

KERNELS = sample_kernels()
MOST_TURNS = 12
PLOTS = tuple(f"{name}-{look}.png" for name in ("speedup", "variants") for look in ("light", "dark"))


def _tell(text: str) -> None:
    click.echo(text, err=True)


def _runner(hub: Hub, out: Path) -> Runner:
    """The embedded GitHub shows the same story on every machine, so nothing is timed."""
    return runner_of(hub, out / "work" / "jobs", evidence="static")


class Play:
    """The people of the demo, and the jobs their words set going."""

    def __init__(self, hub: Hub, repo: Repo, out: Path, kernel: str, mode: str) -> None:
        self._hub, self._out, self._kernel, self._mode = hub, out, kernel, mode
        self._hope = repo.resolve(f"refs/heads/{hope_of(kernel)}")
        populate(hub)
        self.number = open_pull(hub, kernel)
        self._runner = _runner(hub, out)
        self._lines = JobLines()
        self._runner.began, self._runner.ended = self._began, self._ended

    def begin(self) -> None:
        mode = " mode=autonomous" if self._mode == "autonomous" else ""
        self._comment(MAINTAINER, f"/optimize {self._kernel}{mode}")

    def _comment(self, who: str, text: str) -> None:
        _tell(f"{who}: {text}")
        self._hub.comment(who, self.number, text)

    def _began(self, ran: Ran) -> None:
        if ran.zone:
            _tell(self._lines.began(ran))

    def _ended(self, ran: Ran) -> None:
        if ran.zone:
            _tell(self._lines.ended(ran))
        if ran.result != "success":
            raise OperatorError(f"the {ran.job} job did not finish", hint=f"what it said is in {ran.folder / LOG}")

    def _answer(self, stage: str) -> None:
        """What a maintainer would say next: comments at the first checkpoints, a review at the last."""
        if stage == Stage.AWAIT_FINAL:
            _tell(f"{MAINTAINER}: (approves by review)")
            self._hub.review(MAINTAINER, self.number, "APPROVE", "Reads well.")
        else:
            if stage == Stage.AWAIT_PROFILE and self._hope is not None:
                _tell(f"({AUTHOR} brings an idea that is wrong on purpose, on rows narrower than a block)")
                self._comment(AUTHOR, f"/optimize try {self._hope}")
            self._comment(MAINTAINER, "/optimize approve")

    def _turn(self) -> dict[str, Any]:
        """What the last zone reports once nothing is left to do."""
        before = len(self._runner.jobs)
        self._runner.play()
        reports = [ran.report for ran in self._runner.jobs[before:] if ran.zone]
        if not reports:
            raise OperatorError("no event arrived", hint=f"look into {self._out / 'work'}")
        return reports[-1]

    def run(self) -> str:
        """Play until nobody is waited for; returns the campaign's name."""
        self.begin()
        for _ in range(MOST_TURNS):
            report = self._turn()
            if report["next"] != "wait":
                return str(report["campaign"])
            self._answer(report["stage"])
        raise OperatorError(f"no end after {MOST_TURNS} turns", hint=f"look into {self._out / 'work'}")

    @property
    def seconds(self) -> float:
        return sum(ran.seconds for ran in self._runner.jobs)


def _save_plots(ledger: Ledger, campaign: str, out: Path) -> list[str]:
    saved = []
    (out / "plots").mkdir()
    for name in PLOTS:
        content = ledger.read(f"{campaign_dir(campaign)}/plots/{name}")
        if content is not None:
            (out / "plots" / name).write_bytes(content)
            saved.append(f"plots/{name}")
    return saved


def _finish(play: Play, hub: Hub, out: Path, campaign_id: str, total: float) -> Campaign:
    ledger = Ledger(Repo(out / "repo.git"), remote=".")
    ledger.refresh()
    campaign = fold(Campaign(id=campaign_id), (line.fact for line in ledger.lines(campaign_id)))
    (out / "page.html").write_text(render_page(hub, play.number), encoding="utf-8")
    shown = screenshot(out / "page.html", out / "page.png")
    told: dict[str, Any] = summary(campaign) | {
        "comments": hub.comments(play.number),
        "page": "page.html",
        "plots": _save_plots(ledger, campaign_id, out),
        "screenshot": "page.png" if shown else None,
        "seconds": {"jobs": round(play.seconds, 1), "campaign": round(total, 1)},
    }
    (out / SUMMARY).write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    return campaign


def _play(out: Path, kernel: str, mode: str, policy_line: bool) -> int:
    repo = found(out, [kernel], policy_line)
    started = time.monotonic()
    with Hub(out / "work" / "hub", REPOSITORY, bare=repo.path) as hub:
        play = Play(hub, repo, out, kernel, mode)
        campaign = _finish(play, hub, out, play.run(), time.monotonic() - started)
    click.echo(result_text(campaign))
    click.echo(f"  took {seconds(time.monotonic() - started)}; see {out / 'page.html'} and {out / SUMMARY}")
    expected = (Outcome.PUSHED, Outcome.NOTHING_TO_DO)
    return 0 if campaign.outcome in expected else 1


@contextmanager
def _told_to_stop() -> Iterator[list[int]]:
    """Filled by Ctrl-C, or by whatever ends a service. No lock is in it that a signal could find taken."""
    told: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        told.append(number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _answering(hub: Hub) -> Iterator[None]:
    try:
        hub.start()
    except OSError as error:
        words = f"the port cannot be used: {error.strerror}"
        raise UserError(words, hint="leave --port out, and any free one is taken") from error
    try:
        yield
    finally:
        hub.stop()


def _serve(out: Path, kernel: str, policy_line: bool, port: int) -> int:
    """A pull request for each kernel, and the bot behind the page until somebody says stop."""
    kernels = [kernel, *(name for name in KERNELS if name != kernel)]
    repo = found(out, kernels, policy_line)
    hub = Hub(out / "work" / "hub", REPOSITORY, bare=repo.path, port=port)
    populate(hub)
    hub.invite(*PEOPLE)
    # One pull request is the maintainer's own, to see that nobody approves their own work.
    pulls = {open_pull(hub, name, MAINTAINER if name == kernels[-1] else AUTHOR): name for name in kernels}
    with _answering(hub), _told_to_stop() as told:
        with Session(hub, _runner(hub, out), pulls, _tell):
            click.echo(f"{hub.server_url}/")
            _tell("Open it in a browser: the bot answers what you write there. Ctrl-C stops it.")
            stay(lambda: told)
            _tell("stopping")
        for number in sorted({comment.number for comment in hub.world.comments.values()}):
            (out / f"pull-{number}.html").write_text(render_page(hub, number), encoding="utf-8")
            _tell(f"  kept: {out / f'pull-{number}.html'}")
    return 0


@click.command()
@click.option("--kernel", type=click.Choice(KERNELS), default="rms_norm", show_default=True)
@click.option("--mode", type=click.Choice(["interactive", "autonomous"]), default="interactive", show_default=True)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Where to leave the results; demo-output if left out, play-output with --interactive.",
)
@click.option(
    "--policy/--no-policy",
    "policy_line",
    default=True,
    help='With or without the sample\'s `evidence = "static"` line.',
)
@click.option(
    "--interactive",
    "by_hand",
    is_flag=True,
    help="Serve the page and play it by hand: you write the comments, until Ctrl-C.",
)
@click.option("--port", type=Whole(0, 65535), default=0, help="For --interactive; any free one if left out.")
def demo(kernel: str, mode: str, out: Path | None, policy_line: bool, by_hand: bool, port: int) -> int:
    """Play one campaign on an embedded GitHub: from `/optimize KERNEL` to the pushed commit."""
    place = (out or Path("play-output" if by_hand else "demo-output")).resolve()
    with emptied(place, "demo", is_earlier_demo):
        (place / "work").mkdir()
        return _serve(place, kernel, policy_line, port) if by_hand else _play(place, kernel, mode, policy_line)
