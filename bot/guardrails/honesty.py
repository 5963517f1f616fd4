"""A cheap first look for tricks that fool a clock or a check. Not the defence, which is the judge: a filter.

Only what a variant adds counts: a library that already reads the environment may go on doing so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from bot.guardrails.hearing import Hearing, reject
from bot.guardrails.hiding import hiding
from bot.guardrails.keeping import keeping
from bot.guardrails.reach import reach
from bot.guardrails.source import UNREADABLE, Sign, Source
from bot.model.verdict import Finding

NAME = "honesty"
MOST_SHOWN = 5


@lru_cache(maxsize=32)
def signs(path: str, text: str) -> tuple[Sign, ...]:
    """Everything suspicious in one file, from top to bottom. Whoever is heard next is compared with the same v0."""
    source = Source(text)
    package = set(path.split("/")[:-1])
    found = (*reach(source, package), *hiding(source), *keeping(source))
    return tuple(sorted(found, key=lambda sign: sign.line))


def _added(path: str, before: str, after: str) -> Iterator[Sign]:
    """What v0 has too, as often as v0 has it, is v0's own."""
    known = Counter((sign.why, sign.about) for sign in signs(path, before))
    for sign in signs(path, after):
        if known[sign.why, sign.about] > 0:
            known[sign.why, sign.about] -= 1
        else:
            yield sign


def _findings(path: str, before: str, after: str) -> list[Finding]:
    try:
        added = list(_added(path, before, after)) if before != after else []
    except UNREADABLE:
        return [reject(NAME, f"{path} cannot be read, so nothing says that it is honest")]
    found = [reject(NAME, f"{path}, line {sign.line}: {sign.why}") for sign in added[:MOST_SHOWN]]
    if len(added) > MOST_SHOWN:
        found.append(reject(NAME, f"{path}: {len(added) - MOST_SHOWN} more of the kind"))
    return found


def honesty(hearing: Hearing) -> list[Finding]:
    was = {file.path: file.text for file in hearing.sources}
    return [
        found for file in hearing.variant.files for found in _findings(file.path, was.get(file.path, ""), file.text)
    ]
