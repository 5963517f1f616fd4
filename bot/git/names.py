"""Names that come from a pull request are checked here, before they can become an argument of git."""

from __future__ import annotations

import re

from bot.errors import GitError

MAX_NAME = 255
SHA = re.compile(r"\A[0-9a-f]{40}\Z")
HEX = re.compile(r"\A[0-9a-f]{4,40}\Z")
PLAIN_PATH = re.compile(r"\A[A-Za-z0-9._/+-]+\Z")
# Blanks, controls and the letters with a meaning in revisions, refspecs and globs; see git-check-ref-format(1).
FORBIDDEN_IN_REF = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]")
# `ext::command` starts a program.
HELPER = re.compile(r"\A[\w+.-]*::")
# Other spellings of `.git` on file systems that fold case or shorten names.
GIT_FOLDER = re.compile(r"\A(\.git|git~\d+)\Z", re.IGNORECASE)


def shown(text: str) -> str:
    """A hostile name as it may stand in a message: quoted, printable, short."""
    return ascii(text if len(text) <= 80 else text[:77] + "...")


def check_ref(name: str) -> str:
    """A branch, tag or full ref name, by git's own rules and never an option."""
    parts = name.split("/")
    well_formed = (
        0 < len(name) <= MAX_NAME
        and not name.startswith("-")
        and not FORBIDDEN_IN_REF.search(name)
        and ".." not in name
        and "@{" not in name
        and name != "@"
        and not name.endswith(".")
        and all(part and not part.startswith(".") and not part.endswith(".lock") for part in parts)
    )
    if not well_formed:
        raise GitError(f"{shown(name)} is not a usable ref name", hint="give a branch name or a commit")
    return name


def check_sha(sha: str) -> str:
    if not SHA.match(sha):
        raise GitError(f"{shown(sha)} is not a full commit id", hint="give all 40 hexadecimal digits")
    return sha


def check_refspec(refspec: str) -> str:
    """`[+]source[:destination]`, each a ref; one `*` may stand for the rest of a name on both sides."""
    sides = refspec.removeprefix("+").split(":")
    if len(sides) > 2 or len({side.count("*") for side in sides}) != 1 or sides[0].count("*") > 1:
        raise GitError(f"{shown(refspec)} is not a usable refspec")
    for side in sides:
        check_ref(side.replace("*", "x"))
    return refspec


def check_remote(remote: str) -> str:
    """A configured remote's name, a folder, or a URL that carries no password."""
    if not remote or remote.startswith("-") or re.search(r"[\x00-\x20\x7f]", remote) or HELPER.match(remote):
        raise GitError(f"{shown(remote)} is not a usable remote")
    if "://" in remote and "@" in remote.split("://", 1)[1].split("/", 1)[0]:
        raise GitError("a remote's URL may not carry a user or a password", hint="hand the token over separately")
    return remote


def check_path(path: str) -> str:
    """A repository path that we may write: plain letters, no way out of the tree, nothing inside `.git`."""
    parts = path.split("/")
    if (
        not PLAIN_PATH.match(path)
        or len(path) > MAX_NAME
        or any(part in ("", ".", "..") or GIT_FOLDER.match(part) or part.endswith(".") for part in parts)
    ):
        raise GitError(f"{shown(path)} is not a path we write to")
    return path


def check_rev(rev: str) -> str:
    """A full commit id or a ref name. What looks like an abbreviated id is neither: a branch may be called so."""
    if HEX.match(rev) and not SHA.match(rev):
        raise GitError(f"{shown(rev)} is an abbreviated commit id", hint="resolve it first")
    return check_ref(rev)


def is_readable(path: str) -> bool:
    """Whether a path can be looked up at all; git reads `./` and `../` relative to a folder we are not in."""
    return bool(path) and "\0" not in path and not any(part in ("", ".", "..") for part in path.split("/"))
