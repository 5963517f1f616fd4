"""Repositories for tests, and commits that only somebody hostile would make."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from bot.git.repo import Repo

AUTHOR = ("Ann Author", "ann@example.com")
DATE = "2026-01-31T12:00:00Z"
MAIN = "refs/heads/main"


def git(folder: Path, *arguments: str, given: bytes = b"") -> str:
    """Git as anybody runs it, without our care."""
    identity = ("-c", "user.name=Ann", "-c", "user.email=ann@example.com")
    ran = subprocess.run(("git", *identity, *arguments), cwd=folder, input=given, capture_output=True, check=True)
    return ran.stdout.decode()


def raw_commit(folder: Path, ref: str, entries: list[tuple[str, str, bytes]], parent: str = "") -> str:
    """A commit whose entries (mode, path, content) nobody checked."""
    out = [f"feature done\ncommit {ref}\nmark :1\ncommitter Eve <eve@example.com> 1 +0000\ndata 4\nevil\n".encode()]
    if parent:
        out.append(f"from {parent}\n".encode())
    for mode, path, content in entries:
        if mode == "160000":
            out.append(f"M 160000 {content.decode()} {path}\n".encode())
        else:
            out.append(f"M {mode} inline {path}\ndata {len(content)}\n".encode() + content + b"\n")
    out.append(b"get-mark :1\ndone\n")
    return git(folder, "fast-import", "--quiet", "--done", "--force", given=b"".join(out)).strip()


class World:
    """A server's bare repository with one commit on main, and a bare clone of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.server = Repo(root / "server.git")
        self.repo = Repo(root / "clone.git")
        self.base = self.server.resolve("main") or ""

    @staticmethod
    def found(root: Path) -> None:
        server = Repo.init(root / "server.git", bare=True)
        files = {"README.md": b"hello\n", "src/op.py": b"x = 1\n"}
        base = server.commit_files(None, files, "first", author=AUTHOR, date=DATE)
        git(server.path, "update-ref", MAIN, base)
        Repo.clone(str(server.path), root / "clone.git", bare=True)

    @staticmethod
    def copy(pattern: Path, root: Path) -> World:
        """Copying is much quicker than founding."""
        for name in ("server.git", "clone.git"):
            shutil.copytree(pattern / name, root / name)
        config = root / "clone.git" / "config"
        config.write_text(config.read_text().replace(str(pattern), str(root)))
        return World(root)

    def set(self, ref: str, sha: str) -> None:
        """Move a branch on the server behind everybody's back."""
        git(self.server.path, "update-ref", ref, sha)

    def at(self, ref: str) -> str | None:
        return self.server.resolve(ref)

    def commit(self, parent: str | None, text: str, path: str = "src/op.py") -> str:
        return self.repo.commit_files(parent, {path: text.encode()}, f"set {text}", author=AUTHOR, date=DATE)

    def commit_on_server(self) -> str:
        """A commit that the clone has not seen."""
        return self.server.commit_files(self.base, {"new": b"new"}, "new", author=AUTHOR, date=DATE)
