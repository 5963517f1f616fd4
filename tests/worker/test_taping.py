"""What a pass does on its device, written down as steps; here the device is the processor, no kernel is launched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from bot.worker.contract.tape import LIBRARY, MOST_TOLD, Operation
from bot.worker.taping import CannotReplay, Taper

HERE = Path("nowhere")


def taped(work: Callable[[torch.Tensor], object], *, scored: Callable[[torch.Tensor], object] | None = None) -> Taper:
    x = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    taper = Taper({"x": x}, HERE, device="cpu")
    with taper:
        work(x)
        if scored is not None:
            taper.score()
            scored(x)
    return taper


def steps(taper: Taper) -> list[str]:
    assert taper.why_not == ""
    assert {step.op for step in taper.operations} <= LIBRARY
    return [step.op for step in taper.operations]


def test_torch_operations_become_steps_in_their_order() -> None:
    assert steps(taped(lambda x: (x != 2).sum() + 1)) == ["aten::ne.Scalar", "aten::sum", "aten::add.Tensor"]
    assert steps(taped(lambda x: x.clamp(min=1.0))) == ["aten::clamp"]


def test_a_number_of_the_host_fills_a_slice() -> None:
    x = torch.empty(2, 3, device="meta")
    with Taper({"x": x}, HERE, device="meta") as taper:
        x[:, -1].fill_(torch.tensor(2.5))
    assert steps(taper) == ["aten::fill_.Scalar"] and taper.operations[0].arguments[1].number == 2.5


def test_what_the_host_counts_by_itself_is_no_step() -> None:
    x = torch.empty(2, 3, 4, device="meta")
    with Taper({"x": x}, HERE, device="meta") as taper:
        assert x.view(int(torch.prod(torch.tensor(x.shape[:2]))), 4).shape == (6, 4)
    assert (steps(taper), taper.constants, taper.waits) == ([], [], 0)


def test_what_returns_two_tensors_has_them_behind_its_arguments() -> None:
    (step,) = taped(lambda x: x.sort(dim=-1, descending=True)).operations
    assert (step.op, step.result) == ("aten::sort", None)
    assert [item.kind for item in step.arguments] == ["view", "int", "bool", "view", "view"]
    assert [item.view.dtype for item in step.arguments[3:] if item.view is not None] == ["float32", "int64"]


def test_what_is_asked_of_each_gradient_is_a_row_of_yes_and_no() -> None:
    filters = torch.ones(1, 1, 1, 2)
    wanted = taped(lambda x: torch.nn.grad.conv2d_weight(x[None, None], filters.shape, x[None, None, :, 1:]))
    (step,) = (one for one in wanted.operations if one.op == "aten::convolution_backward")
    assert step.arguments[-1].numbers == (0, 1, 0)
    assert step.result is not None
    assert step.result.shape == (1, 1, 1, 2)


def test_of_several_gradients_of_a_convolution_none_can_be_told_a_place() -> None:
    def work(x: torch.Tensor) -> object:
        images, filters = x[None, None], torch.ones(1, 1, 1, 2)
        given = (images[..., 1:], images, filters, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
        return torch.ops.aten.convolution_backward(*given, [True, True, False])

    assert "aten::convolution_backward returns 2 tensors" in taped(work).why_not


def test_what_allocates_or_only_looks_is_no_step() -> None:
    assert steps(taped(lambda x: torch.empty_like(x).view(3, 2).t())) == []


def test_a_product_of_rows_in_several_dimensions_is_one_product() -> None:
    """It is folded before and unfolded behind, in the memory that it was made in."""
    taper = taped(lambda x: torch.nn.functional.linear(x[None], x).exp())
    assert steps(taper) == ["aten::mm", "aten::exp"]
    product, then = taper.operations
    (read,) = (item.view for item in then.arguments if item.view is not None)
    assert product.result is not None and (product.result.shape, read.shape) == ((2, 2), (1, 2, 2))
    assert product.result.region == read.region


READ = "aten::_local_scalar_dense"


def test_a_value_that_the_host_waits_for_is_counted_and_is_a_copy() -> None:
    counting = taped(lambda x: (x != 2).sum().item())
    assert (steps(counting), counting.waits) == (["aten::ne.Scalar", "aten::sum", READ], 1)
    asking = taped(lambda x: bool((x.max() < 9) and (x.min() >= 0)))
    assert steps(asking) == ["aten::max", "aten::lt.Scalar", READ, "aten::min", "aten::ge.Scalar", READ]
    assert asking.waits == 2


def test_a_pass_that_only_reads_a_number_is_one() -> None:
    """The backward of a loss whose own gradient is 1: what was made before is handed out as it is."""
    (step,) = taped(lambda x: x[0, 0].item() == 1.0).tape("backward-2x3-one", []).steps
    assert isinstance(step, Operation) and (step.op, step.result) == (READ, None)
    (item,) = step.arguments
    assert item.view is not None and item.view.shape == ()


def test_several_values_that_the_host_waits_for_are_one_copy() -> None:
    """`x.tolist()`, `x.cpu()` and a copy into a tensor of the host, for which another device stands here."""
    for bring in (lambda x: x.to("meta"), lambda x: torch.empty(2, 3, device="meta").copy_(x)):
        brought = taped(bring)
        assert (steps(brought), brought.waits) == ([READ], 1)
        (item,) = brought.operations[0].arguments
        assert item.view is not None and item.view.shape == (2, 3)


@pytest.mark.parametrize(("elements", "is_told"), [(MOST_TOLD, True), (MOST_TOLD + 1, False)])
def test_the_host_is_told_numbers_and_takes_over_no_work(elements: int, is_told: bool) -> None:
    brought = taped(lambda x: torch.zeros(elements).to("meta"))
    assert (f"the host copies {elements} elements to itself" == brought.why_not) is not is_told


def test_what_the_host_copies_of_its_own_is_no_step() -> None:
    x = torch.empty(2, 3, device="meta")
    with Taper({"x": x}, HERE, device="meta") as taper:
        torch.ones(3).copy_(torch.zeros(3).clone())
    assert (steps(taper), taper.waits) == ([], 0)


def test_what_the_host_has_itself_is_read_without_a_copy() -> None:
    """On another device than that of the pass."""
    x = torch.empty(2, 3, device="meta")
    with Taper({"x": x}, HERE, device="meta") as taper:
        assert torch.tensor(2.5).item() == 2.5
    assert (steps(taper), taper.waits) == ([], 0)


def test_a_comparison_for_the_host_costs_what_torch_launches_for_it() -> None:
    same = taped(lambda x: torch.equal(x, x + 1))
    assert (steps(same), same.waits) == (["aten::add.Tensor", "aten::equal"], 1)
    assert steps(taped(lambda x: torch.equal(x, x[:1]))) == [], "other shapes are told apart without a look"


def test_only_waits_of_the_scored_part_count() -> None:
    assert taped(lambda x: x.sum().item(), scored=lambda x: x.mul(2)).waits == 0
    assert taped(lambda x: x.mul(2), scored=lambda x: x.sum().item()).waits == 1


def test_a_number_that_the_host_writes_down_is_there_before_the_pass() -> None:
    taper = taped(lambda x: x * torch.tensor(2.5))
    assert [step.op for step in taper.constants] == ["aten::fill_.Scalar"]
    assert taper.constants[0].arguments[1].number == 2.5
    assert steps(taper) == ["aten::mul.Tensor"]


@pytest.mark.parametrize(
    ("work", "why"),
    [
        (lambda x: x.nonzero(), "how large a result is"),
        (lambda x: x * torch.tensor([1.0, 2.0, 3.0]), "hands over a tensor of 3 elements"),
        (lambda x: x.topk(2), "returns 2 tensors"),
        (lambda x: x.cos(), "torch's own cos"),
        (lambda x: torch.allclose(x, x), "torch's own allclose, which works out of sight"),
        (lambda x: torch._foreach_mul_([x], 2.0), "torch's own _foreach_mul_, which works out of sight"),
    ],
)
def test_what_a_recording_cannot_hold_is_said(work: Callable[[torch.Tensor], object], why: str) -> None:
    taper = taped(work)
    assert why in taper.why_not
    with pytest.raises(CannotReplay, match=why):
        taper.tape("forward-2x3", [])


def test_a_pass_that_launches_nothing_is_no_recording() -> None:
    with pytest.raises(CannotReplay, match="launches nothing"):
        taped(lambda x: x.view(6)).tape("forward-2x3", [])


def test_a_pass_of_torch_s_own_operations_alone_is_one() -> None:
    """The backward of a loss: its gradient is there already, and is only scaled."""
    tape = taped(lambda x: x + 1).tape("backward-2x3", [])
    assert [step.op for step in tape.steps if isinstance(step, Operation)] == ["aten::add.Tensor"]


def test_steps_are_words_that_cross_the_border() -> None:
    (step,) = taped(lambda x: x + 1).operations
    assert isinstance(step, Operation)
    assert step.result is not None
    assert step.result.shape == (2, 3)
