"""Inputs lie in memory as the plan says, with the numbers of the blob."""

from __future__ import annotations

import pytest
import torch

from bot.worker.contract import Argument, Call, Layout, TensorSpec
from bot.worker.passes import GAP, materials

VALUES = torch.arange(24, dtype=torch.float32)


def handed_over(shape: tuple[int, ...], layout: Layout) -> torch.Tensor:
    spec = TensorSpec("x", "float32", shape, grad=True, layout=layout)
    call = Call("000", "case", "forward", (Argument("x", tensor=spec),), ())
    return materials(call, "cpu", VALUES.numpy().tobytes() + bytes(64)).tensors["x"]


@pytest.mark.parametrize("shape", [(4, 6), (2, 3, 4)])
@pytest.mark.parametrize("layout", ["dense", "padded", "transposed", "sliced"])
def test_the_numbers_are_the_same_in_every_layout(shape: tuple[int, ...], layout: Layout) -> None:
    tensor = handed_over(shape, layout)
    assert torch.equal(tensor.detach(), VALUES.reshape(shape))
    assert tensor.is_leaf and tensor.requires_grad


def test_each_layout_has_its_strides() -> None:
    assert handed_over((4, 6), "dense").stride() == (6, 1)
    assert handed_over((4, 6), "padded").stride() == (6 + GAP, 1)
    assert handed_over((4, 6), "transposed").stride() == (1, 4)
    assert handed_over((2, 3, 4), "transposed").stride() == (12, 1, 3)
    assert handed_over((2, 3, 4), "sliced").stride() == (16, 4, 1)
    assert handed_over((4, 6), "sliced").stride() == (6, 1)


def test_gaps_hold_nothing_that_could_be_taken_for_a_number() -> None:
    padded = handed_over((4, 6), "padded")
    whole = padded.detach().as_strided((4, 6 + GAP), (6 + GAP, 1))
    assert whole[:, 6:].isnan().all()


@pytest.mark.parametrize("layout", ["dense", "padded", "transposed", "sliced"])
def test_memory_is_nobody_elses(layout: Layout) -> None:
    """A row or column of one element is dense in every layout, and is copied all the same."""
    for shape in ((1, 24), (24, 1), (4, 6)):
        storage = handed_over(shape, layout).untyped_storage()
        assert storage.nbytes() <= (24 + 24 * GAP) * 4
        assert storage.data_ptr() != handed_over(shape, layout).untyped_storage().data_ptr()
