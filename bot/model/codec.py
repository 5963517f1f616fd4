"""The only place where words become JSON text and back. It owns the schema number."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from pydantic import ValidationError

from bot.errors import CorruptRecord
from bot.model.facts import JournalLine
from bot.model.word import Word

SCHEMA = 1
MAX_LINE = 16 * 2**20
"""A journal line holds at most a variant's sources and its raw facts; more is not ours."""

W = TypeVar("W", bound=Word)


def to_json(word: Word) -> str:
    """One line, keys in the order of the type, so that the same word is always the same text."""
    return json.dumps(word.model_dump(mode="json"), ensure_ascii=True, separators=(",", ":"), allow_nan=False)


def from_json(kind: type[W], text: str | bytes, *, what: str) -> W:
    """Read a word, or say which record is broken and where."""
    try:
        return kind.model_validate_json(text, strict=False)
    except ValidationError as error:
        first: dict[str, Any] = dict(error.errors(include_url=False, include_input=False)[0])
        place = ".".join(str(part) for part in first["loc"]) or "the whole record"
        raise CorruptRecord(f"{what}: {place}: {first['msg']}") from error


def read_line(text: str, *, what: str) -> JournalLine:
    if len(text) > MAX_LINE:
        raise CorruptRecord(f"{what}: a line of {len(text)} characters, more than {MAX_LINE}")
    return from_json(JournalLine, text, what=what)
