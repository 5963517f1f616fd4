"""A store that misses its tensor is seen, wherever it lands."""

from __future__ import annotations

import torch

from bot.worker.fences import FENCE, Fences


def fenced(fences: Fences, rows: int = 3, cols: int = 5) -> torch.Tensor:
    return fences.around((rows, cols), (cols, 1), torch.float32, "cpu", "the result")


def reach(tensor: torch.Tensor, element: int) -> torch.Tensor:
    """One element of the memory around a tensor, counted from its first."""
    return torch.as_strided(tensor, (1,), (1,), tensor.storage_offset() + element)


def test_who_stays_inside_breaks_nothing() -> None:
    fences = Fences()
    tensor = fenced(fences)
    tensor.fill_(7.0)
    assert fences.broken() == ""
    assert tensor.is_contiguous() and tensor.shape == (3, 5)


def test_one_element_too_far_is_seen_even_before_the_alignment_ends() -> None:
    fences = Fences()
    reach(fenced(fences), 15).fill_(1.0)
    assert fences.broken() == "wrote behind the result"


def test_one_element_too_early_is_seen() -> None:
    fences = Fences()
    reach(fenced(fences), -1).fill_(1.0)
    assert fences.broken() == "wrote before the result"


def test_the_last_element_of_the_fence_counts() -> None:
    fences = Fences()
    tensor = fenced(fences)
    reach(tensor, (FENCE + FENCE) // 4 - 1).fill_(1.0)
    assert fences.broken() == "wrote behind the result"


def test_a_gap_between_rows_belongs_to_the_tensor() -> None:
    fences = Fences()
    tensor = fences.around((3, 5), (8, 1), torch.float16, "cpu", "input x")
    reach(tensor, 5).fill_(1.0)
    assert fences.broken() == ""
    reach(tensor, 2 * 8 + 5).fill_(1.0)
    assert fences.broken() == "wrote behind input x"
