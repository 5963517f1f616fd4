"""`kernelwright init`: writes the workflows into a repository, and never over what somebody changed."""

from __future__ import annotations

import difflib
import json
import re
from importlib import metadata
from pathlib import Path

import click

import bot
from bot.cli.options import in_repository
from bot.errors import OperatorError, UserError
from bot.git.repo import Repo
from bot.git.run import run
from bot.model.reasons import ReasonCode
from bot.render import workflows
from bot.targets.contract import read_config

FOLDER = Path(".github") / "workflows"
REMOTE = re.compile(r"(?:https?|ssh|git)(?:://|@)[^/:\s]+(?::\d+)?[/:]([\w.-]+/[\w.-]+?)(?:\.git)?/?")
NEXT = """
Next, to try it here: commit these files, make a branch with any change in a kernel, switch back, then
  kernelwright rehearse --repo .   an embedded GitHub on this machine; without a GPU everything is estimated

On GitHub (docs/install.md has every step):
  gh variable set KERNELWRIGHT_RUNNER --body '["self-hosted", "gpu"]'   the labels of your GPU runner
  gh variable set KERNELWRIGHT_PYTHON --body /opt/kernelwright/bin/python   the Python on it that has torch and Triton
  commit and push these files to the default branch
  gh variable set KERNELWRIGHT_ENABLED --body true   nothing runs before this; any other value stops everything
"""


def _repository_of(url: str) -> str | None:
    found = REMOTE.fullmatch(url.strip())
    return found[1] if found else None


def _installed_from() -> str | None:
    """Where pip says this installation came from, when that was a commit of a repository."""
    try:
        text = metadata.distribution("kernelwright").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return None
    source = json.loads(text or "{}")
    commit = source.get("vcs_info", {}).get("commit_id", "")
    name = _repository_of(str(source.get("url", "")).removeprefix("git+"))
    return f"{name}@{commit}" if name and commit else None


def _checked_out_from() -> str | None:
    """The commit that a clone of this project stands at, and where it was cloned from."""
    home = Path(bot.__file__).parents[1]
    if not (home / ".git").exists():
        return None
    name = _repository_of(run(home, ("config", "--get", "remote.origin.url")).text)
    commit = Repo(home).resolve("HEAD")
    return f"{name}@{commit}" if name and commit else None


def _is_home(repo: Path) -> bool:
    """Whether the repository is this project's own, which brings the action along."""
    action = repo / "action.yml"
    return action.is_file() and "\nname: Kernelwright\n" in "\n" + action.read_text(encoding="utf-8")


def find_action(repo: Path) -> str:
    """What the workflows' `uses:` says when nobody says otherwise."""
    found = workflows.OWN_ACTION if _is_home(repo) else _installed_from() or _checked_out_from()
    if found is None:
        raise UserError(
            "it is not known which commit of Kernelwright the workflows are to use",
            hint="name it: --action owner/kernelwright@ and the 40 hexadecimal digits of the commit",
            reason=ReasonCode.CONFIG_INVALID,
        )
    return found


def _checked(repo: Path) -> Path:
    if not (repo / ".git").exists():
        raise UserError(
            f"{repo} is no git repository",
            hint="name its top folder: kernelwright init --repo FOLDER",
            reason=ReasonCode.CONFIG_INVALID,
        )
    for part in (repo / ".github", repo / FOLDER):
        if part.is_symlink() or (part.exists() and not part.is_dir()):
            raise OperatorError(f"{part} is not a plain folder", hint="nothing was written; make it one, or remove it")
    return repo


def _read(path: Path) -> str | None:
    """What is there; a link is nothing of ours, whatever it points to."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise OperatorError(f"{path} is not a plain file", hint="remove it, and start init again")
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else None


def _write(path: Path, text: str) -> None:
    """All of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{id(text):x}")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)


def _difference(found: str, wanted: str, name: str) -> str:
    lines = difflib.unified_diff(found.splitlines(True), wanted.splitlines(True), name, f"{name}.new", n=2)
    return "".join(line if line.endswith("\n") else line + "\n" for line in lines)


def put(path: Path, wanted: str) -> str:
    """Write one file, or write it beside one that somebody changed. Returns what happened, to be told."""
    found, beside = _read(path), path.with_name(path.name + ".new")
    what = workflows.fate(found, wanted)
    leftover = _read(beside)
    if what == "beside":
        _write(beside, wanted)
        return f"left alone  {path.name}: it was changed here; ours is {beside.name}:\n" + _difference(
            found or "", wanted, path.name
        )
    if what != "same":
        _write(path, wanted)
    if leftover is not None and workflows.is_as_written(leftover):
        beside.unlink()  # the question it asked is answered
    return {"write": "wrote     ", "same": "unchanged ", "replace": "replaced  "}[what] + f"  {path.name}"


def _allowed(text: str) -> str:
    """What somebody may not expect of a file that is kept: estimates are enough for it, or it is wrong."""
    try:
        policy = read_config(text).policy
    except UserError as error:
        return f", which has to be mended: {error}; {error.hint}"
    return ': its `evidence = "static"` lets estimates be pushed' if policy.evidence == "static" else ""


def start_config(repo: Path) -> str:
    path = repo / workflows.STARTER
    found = _read(path)
    if found is not None:
        return f"kept        {path.name}{_allowed(found)}"
    _write(path, workflows.starter())
    return f"wrote       {path.name}: what this repository allows"


@click.command()
@in_repository("The checkout to write into.")
@click.option("--action", help="The commit of Kernelwright to use: OWNER/REPOSITORY@SHA.")
@click.option("--enterprise", is_flag=True, help="For a GitHub Enterprise Server, which does not know `uses: $/`.")
def init(repo: Path, action: str | None, enterprise: bool) -> int:
    """Write the workflows into a repository; a file that was changed there is left alone."""
    repo = _checked(repo.resolve())
    action = workflows.check_action(action or find_action(repo))
    pages = {name: workflows.page(name, action, enterprise=enterprise) for name in workflows.names()}
    for name in pages:
        _read(repo / FOLDER / name)  # whatever is in the way is said before anything is written
    for name, wanted in pages.items():
        click.echo(put(repo / FOLDER / name, wanted))
    click.echo(start_config(repo))
    click.echo(f"the workflows use {action}; that commit must be where GitHub can fetch it")
    click.echo(NEXT, nl=False)
    return 0
