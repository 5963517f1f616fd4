"""The world of the demo: the sample library as a repository, a few people, and pull requests nobody commented on."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from bot.cli.local_runner import BOT
from bot.git.local import set_branch
from bot.git.repo import Repo
from bot.localhub.server import Hub
from bot.localhub.workflow_files import FOLDER
from bot.render import workflows
from bot.render.environment import templates_dir

REPOSITORY = "sample/kernels"
MAINTAINER, AUTHOR, OUTSIDER = "mira", "dana", "lee"
PEOPLE = (MAINTAINER, AUTHOR, OUTSIDER)
ROLES = {MAINTAINER: "maintain", AUTHOR: "write", OUTSIDER: "read"}
NOTE = "# Reviewed together with the launch settings; keep in step with the benchmark.\n"
"""A line the author of the pull request wrote; it must survive in the winning commit."""
SUMMARY = "summary.json"
ACTION = f"kernelwright/kernelwright@{'0' * 40}"
"""What the sample's workflow files use. The embedded GitHub fetches no action: it has this very Kernelwright."""
NOT_KERNELS = ("__init__", "settings")
HOPES = {"rms_norm": ("axis=0) / n_cols", "axis=0) / BLOCK_SIZE", "Divide by a power of two")}
"""Somebody's own idea, by kernel: right on every scored shape, where the block is the row, and wrong on any other."""


def sample_kernels() -> tuple[str, ...]:
    """Every op of the sample library."""
    files = (templates_dir() / "sample" / "src").glob("*/ops/*.py")
    return tuple(sorted(path.stem for path in files if path.stem not in NOT_KERNELS))


def is_earlier_demo(out: Path) -> bool:
    return (out / SUMMARY).exists() or (out / "work").exists()


def _files(tree: Path) -> dict[str, bytes]:
    return {path.relative_to(tree).as_posix(): path.read_bytes() for path in tree.rglob("*") if path.is_file()}


def _workflows() -> dict[str, bytes]:
    """As `kernelwright init` would write them."""
    return {f"{FOLDER}/{name}": workflows.page(name, ACTION).encode() for name in workflows.names()}


def _author(login: str) -> tuple[str, str]:
    return login, f"{login}@users.noreply.example"


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def branch_of(kernel: str) -> str:
    return f"tidy-{kernel}"


def hope_of(kernel: str) -> str:
    return f"faster-{kernel}"


def found(out: Path, kernels: Sequence[str], policy_line: bool = True) -> Repo:
    """The sample library with our workflows on main, and for each kernel a branch that adds one comment line to it, and
    where somebody has an idea one with that."""
    tree = out / "work" / "sample"
    shutil.copytree(templates_dir() / "sample", tree, ignore=shutil.ignore_patterns("__pycache__", ".*_cache"))
    if not policy_line:
        config = tree / "kernelwright.toml"
        lines = config.read_text(encoding="utf-8").splitlines(keepends=True)
        config.write_text("".join(line for line in lines if not line.startswith("evidence")), encoding="utf-8")
    repo = Repo.init(out / "repo.git", bare=True)
    base = repo.commit_files(None, _files(tree) | _workflows(), "Sample kernels", author=_author(AUTHOR), date=_now())
    set_branch(repo.path, "main", base)
    for kernel in kernels:
        path = next((tree / "src").glob(f"*/ops/{kernel}.py"))
        name, text = path.relative_to(tree).as_posix(), NOTE + path.read_text(encoding="utf-8")
        head = repo.commit_files(base, {name: text.encode()}, _title(kernel), author=_author(AUTHOR), date=_now())
        set_branch(repo.path, branch_of(kernel), head)
        if kernel in HOPES:
            old, new, title = HOPES[kernel]
            hoped = {name: text.replace(old, new, 1).encode()}
            set_branch(
                repo.path, hope_of(kernel), repo.commit_files(head, hoped, title, author=_author(AUTHOR), date=_now())
            )
    return repo


def _title(kernel: str) -> str:
    return f"Say what {kernel} is reviewed with"


def populate(hub: Hub) -> None:
    for login, role in ROLES.items():
        hub.add_user(login, role)
    hub.add_user(BOT, "write", is_bot=True)


def open_pull(hub: Hub, kernel: str, author: str = AUTHOR) -> int:
    words = f"One comment line in `{kernel}`. Could it be faster, too?"
    return hub.open_pull(author, branch_of(kernel), "main", _title(kernel), words)
