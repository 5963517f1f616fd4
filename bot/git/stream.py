"""A commit as a `git fast-import` stream: one process writes all blobs, trees and the commit."""

from __future__ import annotations

import datetime
import re
import uuid
from collections.abc import Collection, Iterable, Mapping

from bot.errors import GitError
from bot.git.entries import Entry
from bot.git.names import shown

NO_COMMIT = "0" * 40
NAME = re.compile(r"\A[^\x00-\x1f\x7f<>]{1,200}\Z")


def ancestors(paths: Iterable[str]) -> tuple[str, ...]:
    """Each path and the folders it stands in."""
    found: set[str] = set()
    for path in paths:
        parts = path.split("/")
        found |= {"/".join(parts[: depth + 1]) for depth in range(len(parts))}
    return tuple(sorted(found))


def _seconds(date: str) -> int:
    try:
        moment = datetime.datetime.fromisoformat(date)
    except ValueError as error:
        raise GitError(f"{shown(date)} is not a date", hint="give it as 2026-01-31T12:00:00Z") from error
    # Without a zone it is taken as UTC: the sha must not depend on the machine's.
    return int((moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).timestamp())


def _person(author: tuple[str, str], date: str) -> str:
    name, email = author
    if not NAME.match(name) or not NAME.match(email):
        raise GitError(f"{shown(f'{name} <{email}>')} is not a usable author")
    return f"{name} <{email}> {_seconds(date)} +0000"


def _data(content: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(content), content)


def _mode(path: str, there: Mapping[str, Entry], new: Collection[str]) -> str:
    """The mode that a file keeps. Nothing is written through a link, into a submodule, or in place of a folder."""
    parts = path.split("/")
    for depth in range(1, len(parts)):
        folder = "/".join(parts[:depth])
        if folder in new or (folder in there and not there[folder].is_folder):
            raise GitError(f"{path} cannot be written: {folder} is not a folder")
    old = there.get(path)
    if old is not None and not old.is_file:
        raise GitError(f"{path} cannot be written: it is not a plain file")
    return "100644" if old is None else old.mode


def commit_stream(
    parent: str | None,
    files: Mapping[str, bytes],
    message: str,
    *,
    author: tuple[str, str],
    date: str,
    there: Iterable[Entry],
    whole_tree: bool,
) -> bytes:
    """`there` holds the parent's entries at the paths and above them. The stream prints the sha and leaves no ref."""
    entries = {entry.path: entry for entry in there}
    ref = f"refs/kernelwright/new/{uuid.uuid4().hex}"
    person = _person(author, date)
    text = message.replace("\0", "").rstrip() + "\n"
    head = f"feature done\ncommit {ref}\nmark :1\nauthor {person}\ncommitter {person}\n"
    out = [head.encode(), _data(text.encode("utf-8", "backslashreplace"))]
    if parent is not None:
        out.append(f"from {parent}\n".encode())
    if whole_tree:
        out.append(b"deleteall\n")
    for path in sorted(files):
        out.append(f"M {_mode(path, entries, files.keys())} inline {path}\n".encode())
        out.append(_data(files[path]))
    out.append(f"get-mark :1\nreset {ref}\nfrom {NO_COMMIT}\n\ndone\n".encode())
    return b"".join(out)
