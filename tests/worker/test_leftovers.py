"""Fresh memory may hold what was computed last, nearly right."""

from __future__ import annotations

import torch

from bot.worker.checking import Leftovers
from bot.worker.observer import POISON


def test_the_head_of_a_row_is_right_and_its_tail_is_not() -> None:
    result = torch.arange(12.0).reshape(2, 6)
    with Leftovers(POISON[1], [result]):
        fresh = torch.empty(2, 6)
    assert torch.equal(fresh[:, :3], result[:, :3])
    assert torch.equal(fresh[:, 3:], result[:, 3:].flip(-1))


def test_a_column_alone_is_not_right_either() -> None:
    with Leftovers(POISON[1], [torch.ones(4, 1)]):
        assert (torch.empty(4, 1) == -1).all()


def test_what_fits_no_result_is_poisoned() -> None:
    with Leftovers(POISON[1], [torch.ones(4, 6)]):
        assert (torch.empty(4, 5) == POISON[1][0]).all()
        assert (torch.empty(4, 6, dtype=torch.float64) == POISON[1][0]).all()
        assert (torch.zeros(4, 6) == 0).all()
