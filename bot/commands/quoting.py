"""Strangers' words made fit to be shown in a sentence of ours, or to be pasted again."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

SHOWN = 60
"""Characters of a stranger's text that one sentence of ours repeats."""
LONGEST_PASTE = 200
"""A line this long can still be read before it is pasted."""
_HTML_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_UNSEEN = ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")


def shown(text: str) -> str:
    """One line of printable characters, capped, in backticks it cannot end."""
    printable = "".join(char if char.isprintable() else " " for char in text[: 4 * SHOWN])
    line = " ".join(printable.split()).replace("`", "'")
    cut = line[: SHOWN - 1] + "…" if len(line) > SHOWN else line
    return f"`{cut}`" if cut else "something unreadable"


def unseen(text: str) -> tuple[str, ...]:
    """The characters a reader cannot see, by name; with them a line reads differently from what it says."""
    hidden = dict.fromkeys(char for char in text if char != "\t" and unicodedata.category(char) in _UNSEEN)
    return tuple(f"U+{ord(char):04X}" for char in hidden)


def without_unseen(text: str) -> str:
    return "".join(char for char in text if char == "\t" or unicodedata.category(char) not in _UNSEEN)


def visible(text: str) -> str:
    """The line without the comments that only its source shows, and without backticks."""
    return _HTML_COMMENT.sub(" ", text).replace("`", "")


def bare(word: str) -> str:
    """A word without the punctuation and emphasis people put around it."""
    return word.lstrip("*\"'([").rstrip("*.,:;!?\"')]")


def _quoted(word: str) -> str:
    word = re.sub(r"[^ -~]|[\"'`\\]", "", word)
    if " " not in word:
        return word
    name, sign, value = word.partition("=")
    return f'{name}="{value}"' if sign and " " not in name else f'"{word}"'


def paste(words: Iterable[str]) -> str:
    """A line that can be pasted as it stands, or nothing when it grew too long."""
    line = " ".join(quoted for word in words if (quoted := _quoted(word)))
    return line if len(line) <= LONGEST_PASTE else ""
