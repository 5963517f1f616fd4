"""Kernel names, forgiven where only the spelling differs. A name is looked up, never made into a path."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_FORGIVEN = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


def known(kernels: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({name for name in kernels if _NAME.fullmatch(name)}))


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def find(word: str, kernels: Collection[str]) -> str | None:
    """`rms-norm`, `RMS_Norm` and `RMSNorm` are rms_norm; two kernels that differ by that alone are not guessed."""
    if word in kernels:
        return word
    if not _FORGIVEN.fullmatch(word):
        return None
    same = word.lower().replace("-", "_")
    if same in kernels:
        return same
    alike = [name for name in kernels if _letters(name) == _letters(word)]
    return alike[0] if len(alike) == 1 else None


def nearest(word: str, choices: Iterable[str]) -> tuple[str, ...]:
    """Up to three choices a person may have meant, best first. Of a path only its last part is looked at."""
    last = re.split(r"[/\\]", word[:256])[-1].removesuffix(".py")
    said = re.sub(r"[^a-z0-9_?-]", "", last.lower()).replace("-", "_")[:64]
    names = sorted(choices)
    begun = [name for name in names if len(said) > 1 and name.startswith(said)]
    close = difflib.get_close_matches(said, names, n=3)
    return tuple(dict.fromkeys([*close, *begun]))[:3]
