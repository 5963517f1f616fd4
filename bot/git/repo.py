"""A repository on disk, by git as a subprocess. Reading and committing need no work tree."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bot.errors import Conflict, GitError
from bot.git import checkout
from bot.git.entries import CommitTree, Entry, read_entries
from bot.git.names import (
    HEX,
    SHA,
    check_path,
    check_ref,
    check_refspec,
    check_remote,
    check_rev,
    check_sha,
    is_readable,
    shown,
)
from bot.git.push import Pushed, read_push
from bot.git.run import CLONE_S, NETWORK_S, Ran, run, scrub, token_config
from bot.git.stream import ancestors, commit_stream
from bot.model.reasons import ReasonCode

MAX_BLOB = 256 * 2**20
"""More than any source or journal; a larger file is not read into memory."""


class Repo:
    def __init__(self, path: Path, token: str = "") -> None:
        self.path = path.resolve()
        self._token = token
        self._origin: str | None = None

    @staticmethod
    def init(path: Path, *, bare: bool = False) -> Repo:
        path.mkdir(parents=True, exist_ok=True)
        run(path, ("init", "--quiet", *(["--bare"] if bare else []), ".")).or_raise()
        return Repo(path)

    @staticmethod
    def clone(url: str, path: Path, token: str = "", *, bare: bool = False) -> Repo:
        """A fresh copy, all of it or nothing. The token is in no file of it: every call brings its own."""
        check_remote(url)
        path = path.resolve()
        path.parent.mkdir(parents=True, exist_ok=True)
        options = ("--quiet", "--no-local", "--no-tags", "--no-recurse-submodules", *(["--bare"] if bare else []))
        with tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=path.parent) as scratch:
            copy = Path(scratch) / "copy"
            config = token_config(url, token)
            command = ("clone", *options, "--", url, str(copy))
            run(path.parent, command, config=config, token=token, deadline_s=CLONE_S).or_raise()
            copy.rename(path)
        return Repo(path, token=token)

    def _git(self, *arguments: str, given: bytes = b"") -> Ran:
        return run(self.path, arguments, given=given)

    def _remote(self, remote: str, *arguments: str) -> Ran:
        """A call that talks to a server, and the only kind that holds the token."""
        url = remote if "://" in remote else self._origin_url() if self._token else ""
        config = token_config(url, self._token)
        return run(self.path, arguments, config=config, token=self._token, deadline_s=NETWORK_S)

    def _origin_url(self) -> str:
        if self._origin is None:
            self._origin = self._git("config", "--local", "--get", "remote.origin.url").text.strip()
        return self._origin

    # Reading

    def resolve(self, rev: str) -> str | None:
        """The commit a name or an abbreviated id stands for; None when there is none, or more than one.

        A branch can be called like the beginning of a commit id, so what looks like an id is never taken for a name.
        """
        if HEX.match(rev) and not SHA.match(rev):
            found = self._git("rev-parse", f"--disambiguate={rev}").text.split()
            commits = [sha for sha in found if self._git("cat-file", "-t", sha).text.strip() == "commit"]
            return commits[0] if len(commits) == 1 else None
        ran = self._git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{check_ref(rev)}^{{commit}}")
        return ran.text.strip() if ran.code == 0 else None

    def _some_commit(self, rev: str) -> str:
        sha = self.resolve(rev)
        if sha is None:
            raise GitError(f"there is no commit {shown(rev)} here", hint="fetch it first")
        return sha

    def entries(self, rev: str, *paths: str, deep: bool = True) -> tuple[Entry, ...]:
        """What stands at the paths, or everywhere: the files of all folders when `deep`, else the things named."""
        options = ("-z", "-l", "--full-tree", "-r" if deep else "-t")
        return read_entries(self._git("ls-tree", *options, check_rev(rev), "--", *paths).or_raise(shown(rev)).text)

    def entry(self, rev: str, path: str) -> Entry | None:
        if not is_readable(path):
            return None
        return next((found for found in self.entries(rev, path, deep=False) if found.path == path), None)

    def blob(self, entry: Entry) -> bytes:
        if entry.size > MAX_BLOB:
            raise GitError(f"{shown(entry.path)} has {entry.size} bytes, more than {MAX_BLOB}")
        return self._git("cat-file", "blob", entry.oid).or_raise(shown(entry.path)).out

    def read(self, rev: str, path: str) -> bytes | None:
        """The content of a plain file; None for what is missing, a folder, a link or a submodule."""
        entry = self.entry(rev, path)
        return self.blob(entry) if entry is not None and entry.is_file else None

    def list(self, rev: str, under: str = "") -> tuple[str, ...]:
        """Paths of the plain files, in git's order."""
        if under and not is_readable(under):
            return ()
        return tuple(entry.path for entry in self.entries(rev, *([under] if under else [])) if entry.is_file)

    def at(self, rev: str) -> CommitTree:
        """The tree of one commit, as a target reads it."""
        return CommitTree(self, rev)

    def changed(self, before: str, after: str) -> tuple[str, ...]:
        """Paths that differ between two commits; a rename is two paths."""
        options = ("-r", "-z", "--name-only", "--no-renames", "--no-ext-diff", "--no-textconv")
        ran = self._git("diff-tree", *options, check_rev(before), check_rev(after), "--").or_raise()
        return tuple(ran.text.split("\0")[:-1])

    def _commit(self, rev: str) -> tuple[tuple[str, ...], str]:
        head, _, message = self._git("cat-file", "commit", self._some_commit(rev)).or_raise().text.partition("\n\n")
        return tuple(head.split("\n")), message

    def patch(self, rev: str) -> bytes:
        """One commit as a letter that `git am` takes."""
        options = ("--stdout", "--no-signature", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "-1")
        return self._git("format-patch", *options, self._some_commit(rev)).or_raise().out

    def parents(self, rev: str) -> tuple[str, ...]:
        return tuple(line.removeprefix("parent ") for line in self._commit(rev)[0] if line.startswith("parent "))

    def message(self, rev: str) -> str:
        return self._commit(rev)[1]

    def is_ancestor(self, older: str, newer: str) -> bool:
        ran = self._git("merge-base", "--is-ancestor", check_rev(older), check_rev(newer))
        if ran.code not in (0, 1):
            raise ran.failed()
        return ran.code == 0

    # Files on disk

    def worktree(self, rev: str, path: Path) -> contextlib.AbstractContextManager[Path]:
        return checkout.worktree(self.path, self._some_commit(rev), path)

    def export(self, rev: str, path: Path) -> None:
        checkout.export(self.path, self._some_commit(rev), path)

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
        """A commit on `parent` with these files in it, and its sha: the same for the same arguments.

        Other files stay as they are, unless these are the whole tree. No ref, index or work tree changes.
        """
        names = ancestors(check_path(path) for path in files)
        there: tuple[Entry, ...] = ()
        if parent is not None and check_sha(parent) and names and not whole_tree:
            there = self.entries(parent, *names, deep=False)
        stream = commit_stream(parent, files, message, author=author, date=date, there=there, whole_tree=whole_tree)
        ran = self._git("fast-import", "--quiet", "--done", "--date-format=raw", given=stream).or_raise()
        return check_sha(ran.text.strip())

    # Talking to a server

    def fetch(self, *refspecs: str, remote: str = "origin") -> None:
        checked = [check_refspec(refspec) for refspec in refspecs]
        options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
        self._remote(remote, "fetch", *options, "--", check_remote(remote), *checked).or_raise()

    def remote_sha(self, ref: str, remote: str = "origin") -> str | None:
        """Where a full ref name points on the server now."""
        ran = self._remote(remote, "ls-remote", "--quiet", "--", check_remote(remote), check_ref(ref)).or_raise()
        found = [line.split("\t") for line in ran.text.splitlines()]
        return next((sha for sha, name in found if name == ref), None)

    def push(self, ref: str, sha: str, expect: str | None, remote: str = "origin") -> None:
        """Move a branch of the server to `sha` if it still stands at `expect`; "" or None: if it does not exist.

        There is no way to push without naming the expected value: a plain push would bring back commits that the
        author dropped. A branch that already stands at `sha` is left alone.
        """
        if not ref.startswith("refs/heads/"):
            raise GitError(f"{shown(ref)} is not a full branch name", hint="begin it with refs/heads/")
        lease = f"--force-with-lease={check_ref(ref)}:{check_sha(expect) if expect else ''}"
        target = f"{check_sha(sha)}:{ref}"
        ran = self._remote(remote, "push", "--porcelain", "--no-verify", lease, "--", check_remote(remote), target)
        outcome, why = read_push(ran.code, ran.text, ran.error)
        if outcome is Pushed.MAYBE_MOVED:
            outcome = Pushed.FAILED if self.remote_sha(ref, remote) == (expect or None) else Pushed.MOVED
        if outcome is Pushed.MOVED:
            raise Conflict(f"{shown(ref)} moved before the push", hint="read it again and decide again")
        if outcome is Pushed.FORBIDDEN:
            raise GitError(
                f"the server refused the push to {shown(ref)}: {scrub(why, self._token)}",
                hint="the token needs contents: write, and the rules of the branch must let it push",
                reason=ReasonCode.PUSH_FORBIDDEN,
            )
        ran.or_raise(shown(ref))
