"""What a program reads again, and how much it moved since: told apart from what it touches once."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bot.worker.checking import _footprint
from bot.worker.contract import Touched
from bot.worker.footprint import Launch, open_books

ROW = 8
"""Elements of 4 bytes."""


class Walk:
    """A launch over two rows that are added up and written, in blocks of four."""

    def __init__(self) -> None:
        self.x, self.y = torch.zeros(2 * ROW), torch.zeros(2 * ROW)
        self.books: Launch = open_books("_walk", {"x": self.x, "y": self.y})

    def _at(self, tensor: torch.Tensor, places: list[int]) -> np.ndarray:
        return np.array([tensor.data_ptr() + 4 * place for place in places], dtype=np.uint64)

    def reads(self, *places: int) -> None:
        self.books.reads(self._at(self.x, list(places)), 4)

    def writes(self, *places: int) -> None:
        self.books.writes(self._at(self.y, list(places)), np.zeros(len(places), dtype=np.float32), 4)

    def touched(self) -> dict[str, Touched]:
        return {one.region: one for one in _footprint(self.books).regions}


def blocks(row: int) -> list[range]:
    start = row * ROW
    return [range(start, start + 4), range(start + 4, start + ROW)]


def test_a_row_that_is_read_once_is_not_read_again() -> None:
    walk = Walk()
    for row in (0, 1):
        walk.books.program = 1 + row
        for block in blocks(row):
            walk.reads(*block)
            walk.writes(*block)
    assert walk.touched() == {"x": Touched("x", 1.0, 0.0), "y": Touched("y", 0.0, 1.0)}


def test_a_row_that_is_walked_twice_is_read_again_with_what_was_moved_in_between() -> None:
    """A program moves 32 bytes of x, and again, and 32 of y. From one read of its first block to the next it moves 32,
    of its second one 48: the first block of y is written by then."""
    walk = Walk()
    for row in (0, 1):
        walk.books.program = 1 + row
        for block in blocks(row):
            walk.reads(*block)
        for block in blocks(row):
            walk.reads(*block)
            walk.writes(*block)
    x = walk.touched()["x"]
    assert (x.read, x.again) == (1.0, 1.0)
    assert x.between == pytest.approx(40 / 96)


def test_what_every_program_reads_is_read_again_by_none_of_them() -> None:
    walk = Walk()
    for program in (1, 2, 3):
        walk.books.program = program
        walk.reads(*range(ROW))
    assert walk.touched()["x"] == Touched("x", 0.5, 0.0)


def test_a_row_that_comes_with_every_turn_counts_every_time() -> None:
    walk = Walk()
    walk.books.program = 1
    for _ in range(4):
        walk.reads(*range(ROW))
    x = walk.touched()["x"]
    assert (x.read, x.again, x.between) == (0.5, 1.5, 0.25)


def test_lanes_that_share_a_place_are_one_read() -> None:
    walk = Walk()
    walk.books.program = 1
    walk.reads(*[3] * 16)
    walk.reads(*[3] * 16)
    assert walk.touched()["x"] == Touched("x", 1 / 16, 0.0, again=1 / 16, between=0.5)


def test_what_is_true_or_false_is_told_and_no_size() -> None:
    books = open_books("_k", {"x": torch.zeros(4), "HAS_LABEL": False, "BLOCK_SIZE": 1, "reduction": "mean"})
    assert _footprint(books).flags == (("HAS_LABEL", "False"),)
