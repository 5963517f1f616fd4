"""Git in memory: a server's branches, clones of it, and what the embedded GitHub asks of its own repository.

`FakeRepo` answers as bot.git.repo.Repo does (tests/contracts/test_git_contract.py); a call is a look into a dict, where
git would start a process. Names are not checked: what is hostile about them is tested where the real one lives.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bot.errors import Conflict, GitError
from bot.git.entries import CommitTree, Entry
from bot.git.names import HEX, SHA
from bot.localhub.history import Commit as ShownCommit
from bot.localhub.history import FileChange

Tree = Mapping[str, bytes]
HEADS = "refs/heads/"


def _hash(kind: str, *parts: object) -> str:
    return hashlib.sha1(repr((kind, *parts)).encode()).hexdigest()


def blob_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@dataclass(frozen=True)
class Commit:
    sha: str
    parents: tuple[str, ...]
    tree: Tree
    blobs: Mapping[str, str]
    message: str
    author: tuple[str, str]
    date: str


class Server:
    """Objects that everybody sees, and where the branches stand."""

    def __init__(self) -> None:
        self.refs: dict[str, str] = {}
        self.commits: dict[str, Commit] = {}
        self.blobs: dict[str, bytes] = {}
        self.watch: Callable[[str, str | None, str], None] = lambda ref, before, after: None
        """Told of every push that arrives."""

    def commit(
        self,
        parent: str | None,
        files: Tree,
        message: str,
        *,
        author: tuple[str, str],
        date: str,
        whole_tree: bool = False,
    ) -> str:
        there = self.commits[parent] if parent and not whole_tree else None
        fresh = {path: blob_id(content) for path, content in files.items()}
        tree = {**(there.tree if there else {}), **files}
        blobs = {**(there.blobs if there else {}), **fresh}
        sha = _hash("commit", parent, sorted(blobs.items()), message, author, date)
        self.blobs |= {oid: files[path] for path, oid in fresh.items()}
        parents = (parent,) if parent else ()
        self.commits.setdefault(sha, Commit(sha, parents, tree, blobs, message, author, date))
        return sha

    def line(self, sha: str) -> list[str]:
        """A commit and its ancestors, newest first: nobody here merges."""
        found: list[str] = []
        here: str | None = sha
        while here is not None:
            found.append(here)
            here = next(iter(self.commits[here].parents), None)
        return found


class FakeRepo:
    def __init__(self, server: Server, path: Path = Path("/nowhere")) -> None:
        self.server, self.path = server, path
        self.refs: dict[str, str] = dict(server.refs)
        """As they were when this was cloned."""

    @property
    def _remote(self) -> Mapping[str, str]:
        return self.server.refs

    def _commit(self, rev: str) -> Commit:
        sha = self.resolve(rev)
        if sha is None:
            raise GitError(f"there is no commit {rev!r} here", hint="fetch it first")
        return self.server.commits[sha]

    # Reading

    def resolve(self, rev: str) -> str | None:
        if SHA.match(rev):
            return rev if rev in self.server.commits else None
        if HEX.match(rev):
            found = [sha for sha in self.server.commits if sha.startswith(rev)]
            return found[0] if len(found) == 1 else None
        name = f"{HEADS}main" if rev == "HEAD" else rev
        return self.refs.get(name) or self.refs.get(HEADS + name)

    def entries(self, rev: str, *paths: str, deep: bool = True) -> tuple[Entry, ...]:
        """`deep`: the files of all folders; else the things named, or what stands in a folder named with a slash."""
        commit = self._commit(rev)
        found: dict[str, Entry] = {}
        for path, content in commit.tree.items():
            for asked in paths or ("",):
                name = self._named(path, asked, deep)
                if name == path:
                    found[name] = Entry("100644", commit.blobs[path], len(content), path)
                elif name is not None:
                    found[name] = Entry("040000", _hash("tree", name, commit.sha), -1, name)
        return tuple(found[name] for name in sorted(found))

    @staticmethod
    def _named(path: str, asked: str, deep: bool) -> str | None:
        """The thing at `asked` that this path is, or lies in."""
        folder = asked.rstrip("/")
        if path == asked or (deep and (not folder or path.startswith(folder + "/"))):
            return path
        if deep or (folder and not path.startswith(folder + "/")):
            return None
        if folder and not asked.endswith("/"):
            return folder
        rest = path.removeprefix(f"{folder}/") if folder else path
        return path if "/" not in rest else f"{folder}/{rest.partition('/')[0]}".lstrip("/")

    def entry(self, rev: str, path: str) -> Entry | None:
        commit = self._commit(rev)
        if path in commit.tree:
            return Entry("100644", commit.blobs[path], len(commit.tree[path]), path)
        if any(name.startswith(f"{path}/") for name in commit.tree):
            return Entry("040000", _hash("tree", path, commit.sha), -1, path)
        return None

    def blob(self, entry: Entry) -> bytes:
        return self.server.blobs[entry.oid]

    def read(self, rev: str, path: str) -> bytes | None:
        return self._commit(rev).tree.get(path)

    def list(self, rev: str, under: str = "") -> tuple[str, ...]:
        folder = f"{under.rstrip('/')}/" if under else ""
        return tuple(sorted(path for path in self._commit(rev).tree if path.startswith(folder)))

    def at(self, rev: str) -> CommitTree:
        return CommitTree(self, rev)  # type: ignore[arg-type]

    def changed(self, before: str, after: str) -> tuple[str, ...]:
        one, other = self._commit(before).blobs, self._commit(after).blobs
        return tuple(sorted(path for path in one | other if one.get(path) != other.get(path)))

    def parents(self, rev: str) -> tuple[str, ...]:
        return self._commit(rev).parents

    def message(self, rev: str) -> str:
        return self._commit(rev).message

    def is_ancestor(self, older: str, newer: str) -> bool:
        return self._commit(older).sha in self.server.line(self._commit(newer).sha)

    def export(self, rev: str, path: Path) -> None:
        for name, content in self._commit(rev).tree.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(content)

    # Writing

    def commit_files(
        self,
        parent: str | None,
        files: Mapping[str, bytes],
        message: str,
        *,
        author: tuple[str, str],
        date: str,
        whole_tree: bool = False,
    ) -> str:
        if parent:
            self._commit(parent)
        return self.server.commit(parent, files, message, author=author, date=date, whole_tree=whole_tree)

    # Talking to the server

    def fetch(self, *refspecs: str, remote: str = "origin") -> None:
        for source, _, target in (spec.removeprefix("+").partition(":") for spec in refspecs):
            if SHA.match(source):
                self._commit(source)
            elif source.endswith("*"):
                found = {ref: sha for ref, sha in self._remote.items() if ref.startswith(source[:-1])}
                self.refs |= {target[:-1] + ref.removeprefix(source[:-1]): sha for ref, sha in found.items()}
            elif source not in self._remote:
                raise GitError(f"git fetch failed: couldn't find remote ref {source}")
            else:
                self.refs[target or "FETCH_HEAD"] = self._remote[source]

    def remote_sha(self, ref: str, remote: str = "origin") -> str | None:
        return self._remote.get(ref)

    def push(self, ref: str, sha: str, expect: str | None, remote: str = "origin") -> None:
        if not ref.startswith(HEADS):
            raise GitError(f"{ref!r} is not a full branch name", hint="begin it with refs/heads/")
        self._commit(sha)
        there = self._remote.get(ref)
        if there == sha:
            return
        if there != (expect or None):
            raise Conflict(f"{ref!r} moved before the push", hint="read it again and decide again")
        self.server.refs[ref] = sha
        self.server.watch(ref, there, sha)


class FakeHistory:
    """What bot.localhub.history.History tells of a bare repository, of a server in memory."""

    def __init__(self, server: Server) -> None:
        self._server = server

    @property
    def repo(self) -> FakeRepo:
        return FakeRepo(self._server)

    def heads(self) -> dict[str, str]:
        return dict(self._server.refs)

    def is_commit(self, sha: str) -> bool:
        return sha in self._server.commits

    def merge_base(self, one: str, other: str) -> str:
        mine, theirs = (self.repo.resolve(rev) or rev for rev in (one, other))
        line = set(self._server.line(mine))
        return next((sha for sha in self._server.line(theirs) if sha in line), mine)

    def commits(self, base: str, head: str) -> list[ShownCommit]:
        known = set(self._server.line(base))
        found = [self._server.commits[sha] for sha in self._server.line(head) if sha not in known]
        return [ShownCommit(c.sha, *c.author, c.date, c.message.strip()) for c in reversed(found)]

    def files(self, before: str, after: str) -> list[FileChange]:
        one, other = self._server.commits[before].tree, self._server.commits[after].tree
        return [self._change(path, one, other) for path in self.repo.changed(before, after)]

    @staticmethod
    def _change(path: str, one: Tree, other: Tree) -> FileChange:
        status = "added" if path not in one else "removed" if path not in other else "modified"
        return FileChange(path, None, status, blob_id(other.get(path, b"")), "@@ -1 +1 @@")

    def file(self, sha: str, path: str) -> bytes | None:
        commit = self._server.commits.get(sha)
        return commit.tree.get(path) if commit else None

    def set_ref(self, ref: str, sha: str) -> None:
        self._server.refs[ref] = sha

    def fetch(self, source: Path, branch: str, ref: str) -> None:
        raise AssertionError("there are no forks in memory")
