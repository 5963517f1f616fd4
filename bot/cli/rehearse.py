"""`kernelwright rehearse`: a repository of yours on an embedded GitHub, with its own workflow files doing the work.

Nothing leaves the machine and nothing in the repository is changed. What is played is what `init` wrote: the files of
the branch that is checked out. Every other local branch becomes a pull request.
"""

from __future__ import annotations

import signal
from pathlib import Path

import click

from bot.cli.local_runner import BOT, runner_of
from bot.cli.options import in_repository
from bot.cli.output_folder import emptied
from bot.errors import UserError
from bot.git.repo import Repo
from bot.git.run import run
from bot.localhub.lanes import Lanes
from bot.localhub.runner import Runner
from bot.localhub.server import Hub
from bot.localhub.steps import LOG, Ran
from bot.localhub.workflow_files import FOLDER
from bot.model.reasons import ReasonCode

YOU, AUTHOR = "you", "author"
MARK = "rehearsal"
MAIN = "refs/heads/main"


def _is_earlier(out: Path) -> bool:
    return (out / MARK).exists()


def _marked(out: Path) -> None:
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


def _people(hub: Hub) -> None:
    hub.add_user(YOU, "maintain")
    hub.add_user(AUTHOR, "write")
    hub.add_user(BOT, "write", is_bot=True)
    hub.invite(YOU, AUTHOR)


def _say(hub: Hub, runner: Runner, number: int, comment: str) -> int:
    """One comment, and what is said to it."""
    hub.comment(YOU, number, comment)
    runner.play()
    for said in hub.comments(number):
        if said["user"]["login"] == BOT:
            click.echo(said["body"])
    return 0 if all(ran.result != "failure" for ran in runner.jobs) else 1


def _serve(hub: Hub, runner: Runner) -> None:
    with Lanes(hub, runner, lambda error: click.echo(f"  {error}", err=True)):
        while True:
            signal.pause()


@click.command()
@in_repository("The checkout to rehearse with.")
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
    with emptied(out, "rehearsal", _is_earlier), Hub(out / "hub", f"{YOU}/{repo.name}", port=port) as hub:
        _marked(out)
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
        runner = runner_of(hub, out / "jobs", evidence=evidence)
        runner.ended = _tell
        if comment is not None:
            return _say(hub, runner, numbers[0], comment)
        click.echo("write a comment on a page, e.g. /optimize help; Ctrl-C ends the rehearsal", err=True)
        _serve(hub, runner)
    return 0
