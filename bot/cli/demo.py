"""`kernelwright demo`: one comment to one commit on an embedded GitHub, with the real code of every zone.

It leaves a folder with the bare repository, the conversation as a page, the plots and a summary.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import click

from bot.campaign.machine import fold
from bot.errors import OperatorError, UserError
from bot.git.local import set_branch
from bot.git.repo import Repo
from bot.ledger.branch import Ledger
from bot.ledger.layout import campaign_dir
from bot.localhub.actions import Actions, Job
from bot.localhub.page import render_page, screenshot
from bot.localhub.server import Hub
from bot.localhub.world import Scope
from bot.model.campaign import Campaign, Outcome, Stage
from bot.render.environment import templates_dir
from bot.render.numbers import seconds
from bot.render.summary import summary
from bot.render.terminal import result_text

REPOSITORY = "sample/kernels"
MAINTAINER, AUTHOR, BOT = "mira", "dana", "kernelwright[bot]"
KERNELS = ("rms_norm", "geglu", "jsd", "softmax")
BRANCH = "tidy-comments"
NOTE = "# Reviewed together with the launch settings; keep in step with the benchmark.\n"
"""A line the author of the pull request wrote; it must survive in the winning commit."""
SUMMARY = "summary.json"
MOST_TURNS = 12
PLOTS = tuple(f"{name}-{look}.png" for name in ("speedup", "variants") for look in ("light", "dark"))


def _clean(out: Path) -> None:
    """Remove the output of an earlier demo, and nothing else."""
    if not out.exists():
        return
    if any(out.iterdir()) and not (out / SUMMARY).exists() and not (out / "work").exists():
        raise UserError(f"{out} is not empty and holds no earlier demo", hint="name another folder with --out")
    shutil.rmtree(out)


def _sample(out: Path, kernel: str, policy_line: bool) -> Repo:
    """The sample library as a repository: main, and a pull request that adds one comment line to the kernel."""
    tree = out / "work" / "sample"
    shutil.copytree(templates_dir() / "sample", tree, ignore=shutil.ignore_patterns("__pycache__", ".*_cache"))
    if not policy_line:
        config = tree / "kernelwright.toml"
        lines = config.read_text(encoding="utf-8").splitlines(keepends=True)
        config.write_text("".join(line for line in lines if not line.startswith("evidence")), encoding="utf-8")
    repo = Repo.init(out / "repo.git", bare=True)
    base = repo.commit_files(None, _files(tree), "Sample kernels", author=_author(AUTHOR), date=_now())
    set_branch(repo.path, "main", base)
    path = next((tree / "src").glob(f"*/ops/{kernel}.py"))
    path.write_text(NOTE + path.read_text(encoding="utf-8"), encoding="utf-8")
    head = repo.commit_files(
        base,
        {path.relative_to(tree).as_posix(): path.read_bytes()},
        f"Say what {kernel} is reviewed with",
        author=_author(AUTHOR),
        date=_now(),
    )
    set_branch(repo.path, BRANCH, head)
    return repo


def _files(tree: Path) -> dict[str, bytes]:
    return {path.relative_to(tree).as_posix(): path.read_bytes() for path in tree.rglob("*") if path.is_file()}


def _author(login: str) -> tuple[str, str]:
    return login, f"{login}@users.noreply.example"


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class Play:
    """The people of the demo, and the jobs their words set going."""

    def __init__(self, hub: Hub, out: Path, kernel: str, mode: str) -> None:
        self._hub, self._out, self._kernel, self._mode = hub, out, kernel, mode
        self._said = 0
        self.number = 0
        hub.add_user(MAINTAINER, "maintain")
        hub.add_user(AUTHOR, "write")
        hub.add_user(BOT, "write", is_bot=True)
        talk: tuple[Scope, ...] = ("read", "comment", "status", "ledger")
        self._actions = Actions(
            repository=REPOSITORY,
            api_url=hub.url,
            server_url=hub.server_url,
            work=out / "work" / "jobs",
            tokens={
                "decide": hub.token(BOT, talk),
                "publish": hub.token(BOT, talk),
                "push": hub.token(BOT, (*talk, "push")),
            },
            bot=(BOT, hub.user_id(BOT)),
            checkout=self._checkout,
            clock=time.monotonic,
        )

    def _checkout(self, branch: str, folder: Path) -> None:
        Repo(self._out / "repo.git").export(f"refs/heads/{branch}", folder)

    def _tell(self, text: str) -> None:
        click.echo(text, err=True)

    def begin(self) -> None:
        self.number = self._hub.open_pull(
            AUTHOR,
            BRANCH,
            "main",
            f"Say what {self._kernel} is reviewed with",
            f"One comment line in `{self._kernel}`. Could it be faster, too?",
        )
        mode = " mode=autonomous" if self._mode == "autonomous" else ""
        self._comment(MAINTAINER, f"/optimize {self._kernel}{mode}")

    def _comment(self, who: str, text: str) -> None:
        self._tell(f"{who}: {text}")
        self._hub.comment(who, self.number, text)

    def _answer(self, job: Job) -> None:
        """What a maintainer would say next: comments at the first checkpoints, a review at the last."""
        stage = job.report["stage"]
        if stage == Stage.AWAIT_FINAL:
            self._tell(f"{MAINTAINER}: (approves by review)")
            self._hub.review(MAINTAINER, self.number, "APPROVE", "Reads well.")
        else:
            self._comment(MAINTAINER, "/optimize approve")

    def _turn(self) -> Job | None:
        job = None
        for name, payload in self._hub.events():
            job = self._actions.go_on(self._actions.decide(name, payload), self._hub.git_url)
        self._report()
        return job

    def _report(self) -> None:
        for job in self._actions.jobs[self._said :]:
            report = job.report
            self._tell(f"  {job.zone:8} {seconds(job.seconds):>8}  {report['reason_code']:22} now {report['stage']}")
        self._said = len(self._actions.jobs)

    def run(self) -> str:
        """Play until nobody is waited for; returns the campaign's name."""
        self.begin()
        for _ in range(MOST_TURNS):
            job = self._turn()
            if job is None:
                raise OperatorError("no event arrived", hint=f"look into {self._out / 'work'}")
            if job.report["next"] != "wait":
                return str(job.report["campaign"])
            self._answer(job)
        raise OperatorError(f"no end after {MOST_TURNS} turns", hint=f"look into {self._out / 'work'}")

    @property
    def seconds(self) -> float:
        return sum(job.seconds for job in self._actions.jobs)


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
    found: dict[str, Any] = summary(campaign) | {
        "comments": hub.comments(play.number),
        "page": "page.html",
        "plots": _save_plots(ledger, campaign_id, out),
        "screenshot": "page.png" if shown else None,
        "seconds": {"jobs": round(play.seconds, 1), "campaign": round(total, 1)},
    }
    (out / SUMMARY).write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return campaign


@click.command()
@click.option("--kernel", type=click.Choice(KERNELS), default="rms_norm", show_default=True)
@click.option("--mode", type=click.Choice(["interactive", "autonomous"]), default="interactive", show_default=True)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default="demo-output",
    show_default=True,
    help="Where to leave the results.",
)
@click.option(
    "--policy/--no-policy",
    "policy_line",
    default=True,
    help='With or without the sample\'s `evidence = "static"` line.',
)
def demo(kernel: str, mode: str, out: Path, policy_line: bool) -> int:
    """Play one campaign on an embedded GitHub: from `/optimize KERNEL` to the pushed commit."""
    out = out.resolve()
    _clean(out)
    (out / "work").mkdir(parents=True)
    repo = _sample(out, kernel, policy_line)
    started = time.monotonic()
    with Hub(out / "work" / "hub", REPOSITORY, bare=repo.path) as hub:
        play = Play(hub, out, kernel, mode)
        campaign = _finish(play, hub, out, play.run(), time.monotonic() - started)
    click.echo(result_text(campaign))
    click.echo(f"  took {seconds(time.monotonic() - started)}; see {out / 'page.html'} and {out / SUMMARY}")
    expected = (Outcome.PUSHED, Outcome.NOTHING_TO_DO)
    return 0 if campaign.outcome in expected else 1
