"""The invisible first line that says which of our comments this is. It is looked for, never obeyed."""

from __future__ import annotations

import re

KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:-]{0,199}")
MARK = re.compile(r"<!-- kernelwright:v1 key=(\S+) -->")


def marker(key: str) -> str:
    if not KEY.fullmatch(key) or "--" in key:  # two dashes could end the comment
        raise ValueError(f"{key!r} cannot be a key: letters, digits and . _ / : - alone, no two dashes together")
    return f"<!-- kernelwright:v1 key={key} -->"


def key_of(body: str) -> str | None:
    """The key in the first line of a body, whoever wrote it."""
    found = MARK.fullmatch(body.partition("\n")[0].strip())
    return found[1] if found else None
