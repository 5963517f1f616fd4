"""What git knows about a pull request: commits, files, patches. Computed from the bare repository, never stored."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from bot.git.repo import Repo
from bot.git.run import run
from bot.localhub.refs import read_refs

STATUS_WORDS = {"A": "added", "M": "modified", "D": "removed", "R": "renamed", "C": "copied", "T": "changed"}
FIELDS = "%H%x00%an%x00%ae%x00%aI%x00%B%x00%x01"


@dataclass(frozen=True, slots=True)
class Commit:
    sha: str
    name: str
    email: str
    at: str
    message: str

    @property
    def title(self) -> str:
        return self.message.partition("\n")[0]


@dataclass(frozen=True, slots=True)
class FileChange:
    path: str
    previous: str | None
    status: str
    blob: str
    patch: str
    """Hunks alone, as GitHub shows them; empty for a binary file."""

    @property
    def additions(self) -> int:
        return sum(line.startswith("+") for line in self.patch.split("\n"))

    @property
    def deletions(self) -> int:
        return sum(line.startswith("-") for line in self.patch.split("\n"))


class History:
    def __init__(self, bare: Path) -> None:
        self.repo = Repo(bare)

    def _git(self, *arguments: str) -> str:
        return run(self.repo.path, arguments).or_raise().text

    def heads(self) -> dict[str, str]:
        """Every ref and where it points. Only git itself can read a table of refs, the format newer ones may choose."""
        if not (self.repo.path / "reftable").exists():
            return read_refs(self.repo.path)
        lines = self._git("for-each-ref", "--format=%(objectname) %(refname)").splitlines()
        return {ref: sha for sha, _, ref in (line.partition(" ") for line in lines)}

    def is_commit(self, sha: str) -> bool:
        return run(self.repo.path, ("cat-file", "-e", f"{sha}^{{commit}}")).code == 0

    def merge_base(self, one: str, other: str) -> str:
        ran = run(self.repo.path, ("merge-base", one, other))
        return ran.text.strip() if ran.code == 0 else one

    def commits(self, base: str, head: str) -> list[Commit]:
        """What `head` has and `base` has not, oldest first."""
        listing = self._git("log", "--reverse", f"--format={FIELDS}", f"{base}..{head}")
        records = (record.lstrip("\n").split("\0") for record in listing.split("\x01")[:-1])
        return [Commit(sha, name, email, at, message.strip()) for sha, name, email, at, message, _ in records]

    def files(self, before: str, after: str) -> list[FileChange]:
        diff = ("diff-tree", "-r", "-M", "--no-ext-diff", "--no-textconv")
        raw = self._git(*diff, "--raw", "--no-abbrev", "-z", before, after).split("\0")[:-1]
        patches = re.split(r"^diff --git .*\n", self._git(*diff, "--patch", before, after), flags=re.MULTILINE)[1:]
        found, rest = [], iter(raw)
        for header, patch in zip(rest, patches, strict=False):
            *_, blob, word = header.split(" ")
            path = next(rest)
            previous = path if word[0] in "RC" else None
            path = next(rest) if previous else path
            hunks = re.search(r"^@@ .*", patch, flags=re.MULTILINE | re.DOTALL)
            text = hunks.group().removesuffix("\n") if hunks else ""
            found.append(FileChange(path, previous, STATUS_WORDS.get(word[0], "changed"), blob, text))
        return found

    def file(self, sha: str, path: str) -> bytes | None:
        return self.repo.read(sha, path) if self.is_commit(sha) else None

    def set_ref(self, ref: str, sha: str) -> None:
        self._git("update-ref", ref, sha)

    def fetch(self, source: Path, branch: str, ref: str) -> None:
        """Bring a fork's branch here under another name, as GitHub does for a pull request."""
        run(self.repo.path, ("fetch", "--quiet", "--no-tags", str(source), f"+refs/heads/{branch}:{ref}")).or_raise()
