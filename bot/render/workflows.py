"""The workflow files that `kernelwright init` writes, and what becomes of one that is there already."""

from __future__ import annotations

import hashlib
import re
from typing import Literal, TypeAlias

from bot.errors import UserError
from bot.model.reasons import ReasonCode
from bot.render.environment import templates_dir

PLACEHOLDER = "KERNELWRIGHT_ACTION"
SELF = "$/"
"""GitHub's words for "this repository, at the commit that runs". Enterprise Server knows only `./`."""
OWN_ACTION = f"{SELF}."
ACTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9._-]{1,100}(/[A-Za-z0-9._-]+)*@[0-9a-f]{40}")
HEADER = "# kernelwright init wrote this file; the sha256 of all below this line is {digest}\n"
_HEADER = re.compile(r"\A# kernelwright init wrote this file; .* is ([0-9a-f]{64})\n")
STARTER = "kernelwright.toml"

Fate: TypeAlias = Literal["write", "same", "replace", "beside"]
"""New; what is there is the same; ours and out of date; changed by somebody, so that ours goes beside it."""


def names() -> tuple[str, ...]:
    return tuple(sorted(path.name for path in (templates_dir() / "workflows").glob("*.yml")))


def check_action(action: str) -> str:
    """`owner/repository@<40 hexadecimal digits>`, or this repository's own. A tag or a branch could be moved."""
    if action != OWN_ACTION and not ACTION.fullmatch(action):
        raise UserError(
            f"--action: {action!a} does not name a commit of a repository",
            hint="write owner/repository@ and the 40 hexadecimal digits of a commit; a tag could be moved",
            reason=ReasonCode.CONFIG_INVALID,
        )
    return action


def page(name: str, action: str, *, enterprise: bool = False) -> str:
    """One workflow file. `enterprise`: for a GitHub Enterprise Server."""
    body = (templates_dir() / "workflows" / name).read_text(encoding="utf-8")
    body = body.replace(PLACEHOLDER, check_action(action))
    if enterprise:
        body = body.replace(f"uses: {OWN_ACTION}\n", "uses: ./\n").replace(f"uses: {SELF}", "uses: ./")
    return HEADER.format(digest=_digest(body)) + body


def starter() -> str:
    return (templates_dir() / "workflows" / STARTER).read_text(encoding="utf-8")


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


def is_as_written(text: str) -> bool:
    """Whether this is a file of ours that nobody has changed since."""
    found = _HEADER.match(text)
    return found is not None and found[1] == _digest(text[found.end() :])


def fate(found: str | None, wanted: str) -> Fate:
    if found is None:
        return "write"
    if found == wanted:
        return "same"
    return "replace" if is_as_written(found) else "beside"
