"""How large anything may be that crosses the border, and how it is read and written."""

from __future__ import annotations

import os
import stat
from pathlib import Path

MAX_MANIFEST = 8 * 2**20
MAX_BLOB = 256 * 2**20
MAX_TEXT = 2000
"""Longest error text a worker may hand back."""
REQUEST = "request.json"
ANSWER = "answer.json"


class ContractError(ValueError):
    """The other side broke the contract: a missing field, a wrong type, a size beyond the limit."""


class Exit:
    """What the exit code of a worker means."""

    OK = 0
    BAD_REQUEST = 64
    IMPORT_FAILED = 65
    OUT_OF_MEMORY = 66
    NOT_THE_VARIANT = 67


def read_bytes(path: Path, limit: int) -> bytes:
    """The bytes of a plain file that somebody else wrote; never a link, a pipe or a device, never more than `limit`."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ContractError(f"{path.name}: {error.strerror}") from error
    try:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode):
            raise ContractError(f"{path.name}: not a plain file")
        if facts.st_size > limit:
            raise ContractError(f"{path.name}: {facts.st_size} bytes, more than {limit}")
        with os.fdopen(handle, "rb", closefd=False) as file:
            content = file.read(limit + 1)
    finally:
        os.close(handle)
    if len(content) > limit:
        raise ContractError(f"{path.name}: more than {limit} bytes")
    return content


def write_text(path: Path, text: str) -> None:
    """Whole or not at all."""
    half = path.with_suffix(".half")
    half.write_text(text, encoding="utf-8")
    half.replace(path)


def clip(text: str) -> str:
    """The end of a long text is where an error says what happened."""
    return text if len(text) <= MAX_TEXT else "... " + text[-MAX_TEXT:]
