"""`kernelwright rehearse`: a repository of yours on an embedded GitHub, with its own workflow files doing the work.

Nothing leaves the machine and nothing in the repository is changed. What is played is what `init` wrote: the files of
the branch that is checked out. Every other local branch becomes a pull request.
"""

from __future__ import annotations

import re
import signal
from pathlib import Path

import click

from bot.cli.job_lines import JobLines
from bot.cli.local_runner import BOT, runner_of
from bot.cli.options import Whole, in_repository
from bot.cli.output_folder import emptied
from bot.cli.session import Session
from bot.cli.staying import stay
from bot.errors import UserError
from bot.git.repo import Repo
from bot.git.run import run
from bot.localhub.runner import Runner
from bot.localhub.server import Hub
from bot.localhub.steps import LOG, Ran
from bot.localhub.workflow_files import FOLDER
from bot.model.reasons import ReasonCode
from bot.targets.contract import CONFIG, read_config
from bot.targets.liger import open_target

YOU, AUTHOR = "you", "author"
MARK = "rehearsal"
EVIDENCE = {"auto": "measured where there is a GPU, else static", "measured": "measured", "static": "static"}
MAIN = "refs/heads/main"
RUN_LINK = re.compile(r"\[run\]\(\S+/actions/runs/\d+\)")
"""Where GitHub shows what a job printed. Here that lies in a file."""


def _is_earlier(out: Path) -> bool:
    return (out / MARK).exists()


def _marked(out: Path) -> None:
    (out / MARK).touch()
    (out / ".gitignore").write_text("*\n", encoding="utf-8")  # it may well lie in the repository itself


def _bring(hub: Hub, repo: Path) -> None:
    """The commit that is checked out becomes main, the local branches become branches."""
    there = Repo(hub.bare)
    if Repo(repo).resolve("HEAD") is None:
        raise UserError(
            f"{repo} has no commit yet",
            hint="commit something first: git add --all && git commit",
            reason=ReasonCode.NOT_FOUND,
        )
    there.fetch("+refs/heads/*:refs/heads/*", remote=str(repo))
    there.fetch(f"+HEAD:{MAIN}", remote=str(repo))
    if not there.list(MAIN, FOLDER):
        raise UserError(
            f"the commit that is checked out in {repo} has no workflows",
            hint="kernelwright init --repo FOLDER writes them; commit them, and start again",
            reason=ReasonCode.CONFIG_INVALID,
        )


def _branches(hub: Hub, repo: Path) -> list[str]:
    """Branches with something of their own, the newest first."""
    current = run(repo, ("symbolic-ref", "--quiet", "--short", "HEAD")).text.strip()
    names = run(hub.bare, ("for-each-ref", "--sort=-committerdate", "--format=%(refname:lstrip=2)", "refs/heads"))
    mine = [name for name in names.or_raise().text.splitlines() if name not in ("main", current)]
    ahead = {name: run(hub.bare, ("rev-list", "--count", f"{MAIN}..refs/heads/{name}")).text.strip() for name in mine}
    return [
        name for name in mine if ahead[name] not in ("", "0") and not name.startswith(("optimize/", "kernelwright/"))
    ]


def _tell(text: str) -> None:
    click.echo(text, err=True)


def _kernel(hub: Hub, branch: str) -> str:
    """The kernel that a branch touches, for what the page suggests; `list`, where a person is to look first."""
    there, head = Repo(hub.bare), f"refs/heads/{branch}"
    try:
        target = open_target(there.at(MAIN), read_config(there.read(MAIN, CONFIG)))
        changed = set(there.changed(MAIN, head))
        return next((kernel for kernel in target.kernels() if changed & {*target.files(kernel)}), "list")
    except UserError:  # a comment on the page is answered with it
        return "list"


def _opened(hub: Hub, repo: Path) -> dict[int, str]:
    """A pull request of each branch, the newest first -> the kernel it is about."""
    branches = _branches(hub, repo)
    if not branches:
        raise UserError(
            "there is no branch to open a pull request of",
            hint="git switch -c try-it, change a comment in a kernel, commit, switch back, and start again",
            reason=ReasonCode.NOT_FOUND,
        )
    pulls = {hub.open_pull(AUTHOR, branch, "main", branch.replace("-", " ")): branch for branch in branches}
    for number, branch in pulls.items():
        _tell(f"  {branch}: {hub.page_url(number)}")
    return {number: _kernel(hub, branch) for number, branch in pulls.items()}


def _people(hub: Hub) -> None:
    hub.add_user(YOU, "maintain")
    hub.add_user(AUTHOR, "write")
    hub.add_user(BOT, "write", is_bot=True)
    hub.invite(YOU, AUTHOR)


def _watched(runner: Runner) -> None:
    """A line for each job that runs a zone, and for any that fails."""
    lines = JobLines()

    def began(ran: Ran) -> None:
        if ran.zone:
            _tell(lines.began(ran))

    def ended(ran: Ran) -> None:
        if ran.zone or ran.result == "failure":
            _tell(lines.ended(ran))

    runner.began, runner.ended = began, ended


def _say(hub: Hub, runner: Runner, number: int, comment: str, logs: str) -> int:
    """One comment, and what is said to it."""
    _watched(runner)
    hub.comment(YOU, number, comment)
    runner.play()
    answers = [said["body"] for said in hub.comments(number) if said["user"]["login"] == BOT]
    for answer in answers:
        click.echo(RUN_LINK.sub(f"run: {logs}", answer))
    if not answers:
        why = f"see {logs}" if "/optimize" in comment else "there is no /optimize in it"
        _tell(f"nobody answered: {why}")
    return 0 if all(ran.result != "failure" for ran in runner.jobs) else 1


def _serve(hub: Hub, runner: Runner, kernels: dict[int, str]) -> None:
    with Session(hub, runner, kernels, _tell, again="kernelwright rehearse"):
        stay()


@click.command()
@in_repository("The checkout to rehearse with.")
@click.option(
    "--out", type=click.Path(path_type=Path), default="rehearsal-output", show_default=True, help="For output."
)
@click.option(
    "--comment",
    help="Say this on the first pull request, print what is answered, and end. Exits 0 whatever the answer, 1 if a "
    "job failed.",
)
@click.option("--evidence", type=click.Choice(["auto", "measured", "static"]), default="auto", show_default=True)
@click.option("--port", type=Whole(0, 65535), default=0, show_default="any free one")
def rehearse(repo: Path, out: Path, comment: str | None, evidence: str, port: int) -> int:
    """Play a repository's own workflow files on an embedded GitHub; nothing leaves this machine."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # jobs end with us, however we are ended
    repo, out = repo.resolve(), out.resolve()
    with emptied(out, "rehearsal", _is_earlier), Hub(out / "hub", f"{YOU}/{repo.name}", port=port) as hub:
        _marked(out)
        _bring(hub, repo)
        _people(hub)
        commit, logs = Repo(hub.bare).resolve(MAIN) or "", f"{out / 'jobs'}/*/{LOG}"
        _tell(f"plays the workflows and the {CONFIG} of {commit[:7]}; evidence: {EVIDENCE[evidence]}")
        _tell(f"all of it lies in {out}; what each job said: {logs}")
        pulls = _opened(hub, repo)
        runner = runner_of(hub, out / "jobs", evidence=evidence)
        if comment is not None:
            return _say(hub, runner, next(iter(pulls)), comment, logs)
        _tell("open one in a browser and write /optimize there; Ctrl-C ends the rehearsal and every job of it")
        _serve(hub, runner, pulls)
    return 0
