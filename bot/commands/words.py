"""A command line cut into words, and words into options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from bot.commands.mistakes import Mistake, ends_in_backslash, unclosed_quote
from bot.commands.quoting import bare

_PHONE = str.maketrans({"“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "‘": "'", "’": "'", "—": "--", "–": "-"})
"""What phones and office programs make of quotation marks and of two hyphens."""
_WORD = re.compile(r"""(?:[^\s"'\\]|\\.|"(?:[^"\\]|\\.)*"|'[^']*')+""", re.DOTALL)
_PIECE = re.compile(r"""\\(?P<escaped>.)|"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>[^']*)'""", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Entry:
    """An option as it was written, or a word that stands alone."""

    name: str | None
    value: str
    words: tuple[str, ...]


def _plain(word: str) -> str:
    def kept(piece: re.Match[str]) -> str:
        if piece["double"] is not None:
            return re.sub(r"\\(.)", r"\1", piece["double"], flags=re.DOTALL)
        return piece["escaped"] or piece["single"] or ""

    return _PIECE.sub(kept, word)


def split(text: str) -> tuple[str, ...]:
    """Words by a shell's rules for quotation marks and backslashes; no other character means anything."""
    text = text.translate(_PHONE)
    words: list[str] = []
    place = 0
    for found in _WORD.finditer(text):
        if text[place : found.start()].strip():
            break
        words.append(_plain(found.group()))
        place = found.end()
    rest = text[place:].strip()
    if rest:
        raise Mistake(ends_in_backslash() if rest == "\\" else unclosed_quote(rest))
    return tuple(word for word in words if bare(word))


def spelled(name: str) -> str:
    """`--Max-Variants` -> max_variants."""
    return bare(name).lstrip("-").lower().replace("-", "_")


def _joined(words: Sequence[str]) -> list[str]:
    """`goal = speed` with the spaces taken out."""
    joined: list[str] = []
    for word in words:
        last = joined[-1] if joined else ""
        opens = word.startswith("=") and "=" not in last
        closes = last.endswith("=") and not re.match(r"-|[\w-]+=", word)
        if last and (opens or closes):
            joined[-1] += word
        else:
            joined.append(word)
    return joined


def entries(words: Sequence[str]) -> tuple[Entry, ...]:
    """`key=value`, `key = value`, `--key=value` and `--key value` are one thing."""
    found: list[Entry] = []
    queue = _joined(words)
    while queue:
        word = queue.pop(0)
        name, sign, value = word.partition("=")
        if sign:
            found.append(Entry(spelled(name), value, (word,)))
        elif word.startswith("-"):
            taken = (queue.pop(0),) if queue and not queue[0].startswith("--") else ()
            found.append(Entry(spelled(word), "".join(taken), (word, *taken)))
        else:
            found.append(Entry(None, word, (word,)))
    return tuple(found)
