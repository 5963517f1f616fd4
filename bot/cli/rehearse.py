"""`kernelwright rehearse`: a repository of yours on an embedded GitHub, with its own workflow files doing the work.

Nothing leaves the machine and nothing in the repository is changed. What is played is what `init` wrote: the files of
the branch that is checked out. Every other local branch becomes a pull request.
"""

from __future__ import annotations

import shutil
import signal
import sys
import time
from pathlib import Path

import click

import bot
from bot.errors import OperatorError, UserError
from bot.git.repo import Repo
from bot.git.run import run
from bot.localhub.runner import LOG, Ran, Runner
from bot.localhub.server import Hub
from bot.localhub.workflow_files import FOLDER
from bot.localhub.world import ACTIONS_BOT
from bot.model.reasons import ReasonCode

YOU, AUTHOR = "you", "author"
LOOK_EVERY_S = 0.5
MARK = "rehearsal"
MAIN = "refs/heads/main"


def action_folder() -> Path:
    """In an installed wheel inside the package, in a checkout beside it."""
    package = Path(bot.__file__).parent
    for folder in (package / "_action", package.parent):
        if (folder / "action.yml").is_file():
            return folder
    raise OperatorError("action.yml is missing", hint="install kernelwright again; the wheel carries it")


def _clean(out: Path) -> None:
    """Remove an earlier rehearsal, and nothing else."""
    if out.exists() and any(out.iterdir()) and not (out / MARK).exists():
        raise UserError(f"{out} is not empty and holds no earlier rehearsal", hint="name another folder with --out")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / MARK).touch()
    (out / ".gitignore").write_text("*\n", encoding="utf-8")  # it may well lie in the repository itself


def _bring(hub: Hub, repo: Path) -> None:
    """The commit that is checked out becomes main, the local branches become branches."""
    there = Repo(hub.bare)
    if Repo(repo).resolve("HEAD") is None:
        raise UserError(f"{repo} has no commit yet", hint="commit something first: git add --all && git commit")
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


def _tell(ran: Ran) -> None:
    code = ran.outputs.get("reason_code", "")
    click.echo(f"  {ran.job:10} {ran.result} {code}".rstrip(), err=True)
    if ran.result == "failure" and ran.folder:
        click.echo(f"    what it said is in {ran.folder / LOG}", err=True)


def _runner(hub: Hub, out: Path, evidence: str) -> Runner:
    variables = {
        "KERNELWRIGHT_ENABLED": "true",
        "KERNELWRIGHT_RUNNER": '["self-hosted"]',
        "KERNELWRIGHT_PYTHON": sys.executable,
        "KERNELWRIGHT_HOSTED_PYTHON": sys.executable,
        "KERNELWRIGHT_EVIDENCE": evidence,
        "KERNELWRIGHT_APP_CLIENT_ID": MARK,
    }
    secrets = {"KERNELWRIGHT_APP_KEY": MARK}
    return Runner(
        hub,
        out / "jobs",
        bot=ACTIONS_BOT[0],
        action=action_folder(),
        variables=variables,
        secrets=secrets,
        tell=_tell,
    )


def _people(hub: Hub) -> None:
    hub.add_user(YOU, "maintain")
    hub.add_user(AUTHOR, "write")
    hub.add_user(ACTIONS_BOT[0], "write", is_bot=True)
    hub.invite(YOU, AUTHOR)


def _say(hub: Hub, runner: Runner, number: int, comment: str) -> int:
    """One comment, and what is said to it."""
    hub.comment(YOU, number, comment)
    runner.play()
    for said in hub.comments(number):
        if said["user"]["login"] == ACTIONS_BOT[0]:
            click.echo(said["body"])
    return 0 if all(ran.result != "failure" for ran in runner.jobs) else 1


def _serve(runner: Runner) -> int:
    while True:
        runner.play()
        time.sleep(LOOK_EVERY_S)


@click.command()
@click.option(
    "--repo",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=".",
    show_default="this folder",
    help="The checkout to rehearse with.",
)
@click.option(
    "--out", type=click.Path(path_type=Path), default="rehearsal-output", show_default=True, help="For output."
)
@click.option("--comment", help="Say this on the first pull request, print what is answered, and end.")
@click.option("--evidence", type=click.Choice(["auto", "measured", "static"]), default="auto", show_default=True)
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default="any free one")
def rehearse(repo: Path, out: Path, comment: str | None, evidence: str, port: int) -> int:
    """Play a repository's own workflow files on an embedded GitHub; nothing leaves this machine."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # jobs end with us, however we are ended
    repo, out = repo.resolve(), out.resolve()
    _clean(out)
    with Hub(out / "hub", f"{YOU}/{repo.name}", port=port) as hub:
        _bring(hub, repo)
        _people(hub)
        branches = _branches(hub, repo)
        numbers = [hub.open_pull(AUTHOR, branch, "main", branch.replace("-", " ")) for branch in branches]
        if not numbers:
            raise UserError(
                "there is no branch to open a pull request of",
                hint="git switch -c try-it, change a comment in a kernel, commit, switch back, and start again",
            )
        for number, branch in zip(numbers, branches, strict=True):
            click.echo(f"{branch}: {hub.page_url(number)}", err=True)
        runner = _runner(hub, out, evidence)
        if comment is not None:
            return _say(hub, runner, numbers[0], comment)
        click.echo("write a comment on a page, e.g. /optimize help; Ctrl-C ends the rehearsal", err=True)
        return _serve(runner)
