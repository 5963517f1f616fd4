"""A bench is kept for who asks for the same again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bot.bench.choosing import Keeping


class Bench:
    def __init__(self, asked: tuple[object, ...]) -> None:
        self.asked, self.closed = asked, 0

    def close(self) -> None:
        self.closed += 1


def keeping() -> tuple[Any, list[Bench]]:
    opened: list[Bench] = []

    def open_bench(*asked: object) -> Any:
        opened.append(Bench(asked))
        return opened[-1]

    return Keeping(open_bench), opened


def test_who_asks_for_the_same_gets_the_same_wherever_their_scratch_is() -> None:
    kept, opened = keeping()
    first = kept("tree", "softmax", "sm_90", Path("one"))
    assert kept("tree", "softmax", "sm_90", Path("two")) is first
    assert [bench.closed for bench in opened] == [0]


def test_another_wish_closes_it() -> None:
    kept, opened = keeping()
    kept("tree", "softmax", "sm_90", Path("one"))
    kept("tree", "rms_norm", "sm_90", Path("one"))
    assert [bench.closed for bench in opened] == [1, 0]


def test_the_end_closes_it_once_and_the_next_wish_opens_another() -> None:
    kept, opened = keeping()
    kept("tree", "softmax", "sm_90", Path("one"))
    kept.end()
    kept.end()
    kept("tree", "softmax", "sm_90", Path("one"))
    assert [bench.closed for bench in opened] == [1, 0]
