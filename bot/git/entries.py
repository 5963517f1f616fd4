"""What stands in a commit's tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bot.git.repo import Repo

FILE_MODES = ("100644", "100755")


@dataclass(frozen=True, slots=True)
class Entry:
    mode: str
    oid: str
    size: int
    """-1 for what is not a blob."""
    path: str

    @property
    def is_file(self) -> bool:
        """A plain file: no folder, no symbolic link, no submodule."""
        return self.mode in FILE_MODES

    @property
    def is_folder(self) -> bool:
        return self.mode == "040000"


def read_entries(listing: str) -> tuple[Entry, ...]:
    """The output of `git ls-tree -z -l`: `mode type oid size<tab>path`, each ended by a zero byte."""
    found = []
    for record in listing.split("\0")[:-1]:
        facts, _, path = record.partition("\t")
        mode, _, oid, size = facts.split()
        found.append(Entry(mode=mode, oid=oid, size=-1 if size == "-" else int(size), path=path))
    return tuple(found)


class CommitTree:
    """One commit's tree, read by path. The listing is fetched once."""

    def __init__(self, repo: Repo, rev: str) -> None:
        self._repo = repo
        self._rev = rev
        self._files: dict[str, Entry] | None = None

    def _listing(self) -> dict[str, Entry]:
        if self._files is None:
            self._files = {entry.path: entry for entry in self._repo.entries(self._rev) if entry.is_file}
        return self._files

    def exists(self, path: str) -> bool:
        return path in self._listing()

    def read(self, path: str) -> bytes | None:
        entry = self._listing().get(path)
        return None if entry is None else self._repo.blob(entry)

    def list(self, under: str = "") -> tuple[str, ...]:
        folder = under.rstrip("/") + "/" if under else ""
        return tuple(path for path in self._listing() if path.startswith(folder))
