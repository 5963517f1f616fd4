"""On a GPU a tensor lies in memory as it does on the CPU: the same strides for the same layout."""

from __future__ import annotations

from typing import get_args

import pytest
import torch

from bot.worker import gpu_inputs
from bot.worker.contract import Argument, Call, TensorSpec, offsets
from bot.worker.contract.calls import Layout
from bot.worker.fences import Fences
from bot.worker.gpu_inputs import _strides
from bot.worker.passes import _laid_out, materials


@pytest.mark.parametrize("layout", get_args(Layout))
@pytest.mark.parametrize("shape", [(4, 6), (2, 3, 5), (2, 3, 4, 5)])
def test_strides_are_those_of_the_interpreter(layout: Layout, shape: tuple[int, ...]) -> None:
    laid = _laid_out(torch.zeros(shape), layout)
    assert _strides(TensorSpec("x", "float32", shape, layout=layout)) == laid.stride()


def test_the_gradient_of_a_loss_has_no_dimensions() -> None:
    assert _strides(TensorSpec("dloss", "float32", ())) == ()


@pytest.mark.parametrize("layout", get_args(Layout))
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_an_op_is_handed_the_same_as_in_the_interpreter(
    layout: Layout, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_inputs, "DEVICE", "cpu")
    x = TensorSpec("x", dtype, (2, 3, 4, 5), grad=True, layout=layout)  # type: ignore[arg-type]
    grad = TensorSpec("dy", "float32", (2, 3), layout=layout)
    call = Call("0", "c", "full", (Argument("x", x), Argument("eps", value=0.5)), (grad,), blob="0.in", turns=1)
    _, size = offsets(call.tensors)
    blob = bytes(n % 61 for n in range(size))  # no pattern of these is a NaN, which would equal nothing
    mine, theirs = gpu_inputs.from_blob(call, blob, Fences()), materials(call, "cpu", blob)
    assert mine.arguments[1] == theirs.arguments[1] == 0.5
    for one, other in ((mine.tensors[n], theirs.tensors[n]) for n in ("x", "dy")):
        assert torch.equal(one, other)
        assert (one.stride(), one.dtype, one.requires_grad) == (other.stride(), other.dtype, other.requires_grad)
    assert mine.grads[0] is mine.tensors["dy"]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_the_gradient_of_a_loss_is_one_where_the_case_says_so_and_nowhere_else(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host leaves out a product by 1: one recording of a race in which a bfloat16 was drawn so was not believed."""
    monkeypatch.setattr(gpu_inputs, "DEVICE", "cpu")
    torch.manual_seed(20261125)
    call = Call("0", "c", "backward", (), (TensorSpec("dloss", dtype, ()),))  # type: ignore[arg-type]
    drawn = torch.stack([gpu_inputs.drawn(call, {})["dloss"] for _ in range(3000)])
    assert str(drawn.dtype) == f"torch.{dtype}" and len(drawn.unique()) > 30
    assert not (drawn == 1).any() and not (drawn == 0).any()
    ones = Call("0", "c", "backward", (), (TensorSpec("dloss", dtype, (), ones=True),))  # type: ignore[arg-type]
    assert gpu_inputs.drawn(ones, {})["dloss"] == 1
