"""Sizes that nobody was told, for a clock: drawn by the judge, who knows which of them an op takes."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path

from bot.bench.bailiff import Judge
from bot.bench.interpreter import look_at
from bot.bench.measure import shapes_of
from bot.bench.suitcase import pack
from bot.model.measurement import Case
from bot.worker.contract import UnseenRequest, UnseenSizes

Sizes = tuple[tuple[str, int], ...]


def unseen_sizes(
    kernel: str, cases: Sequence[Case], seed: int, count: int, python: str, scratch: Path
) -> tuple[Sizes, ...]:
    """So many sizes between half the least and twice the most of those that are scored."""
    room = scratch.absolute() / secrets.token_hex(4)
    room.mkdir(parents=True)
    pack("judge", room / "judge")
    judge = Judge(look_at(python), room / "judge", room / "judge-home")
    try:
        return judge.ask(UnseenRequest("unseen", kernel, shapes_of(tuple(cases)), seed, count), UnseenSizes).sizes
    finally:
        judge.close()
