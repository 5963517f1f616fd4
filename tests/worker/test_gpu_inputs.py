"""On a GPU a tensor lies in memory as it does on the CPU: the same strides for the same layout."""

from __future__ import annotations

from typing import get_args

import pytest
import torch

from bot.worker.contract import TensorSpec
from bot.worker.contract.calls import Layout
from bot.worker.gpu_inputs import _strides
from bot.worker.passes import _laid_out


@pytest.mark.parametrize("layout", get_args(Layout))
@pytest.mark.parametrize("shape", [(4, 6), (2, 3, 5)])
def test_strides_are_those_of_the_interpreter(layout: Layout, shape: tuple[int, ...]) -> None:
    laid = _laid_out(torch.zeros(shape), layout)
    assert _strides(TensorSpec("x", "float32", shape, layout=layout)) == laid.stride()


def test_the_gradient_of_a_loss_has_no_dimensions() -> None:
    assert _strides(TensorSpec("dloss", "float32", ())) == ()
