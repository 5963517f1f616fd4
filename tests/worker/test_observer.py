"""What torch itself does during a pass, and tensors that claim to be on a GPU."""

from __future__ import annotations

import math

import pytest
import torch

from bot.worker.contract import Argument, Call, TensorSpec
from bot.worker.device import PretendCuda
from bot.worker.observer import POISON, Observer
from bot.worker.passes import materials, run_pass

KIB = 1024


def single(kib: int) -> torch.Tensor:
    return torch.ones(kib * KIB // 4)


def test_unwritten_memory_is_spoiled_with_a_pattern() -> None:
    for pattern in POISON:
        with Observer(pattern):
            floating = torch.empty(4)
            whole = torch.empty_like(torch.zeros(4, dtype=torch.int64))
            flags = torch.empty(4, dtype=torch.bool)
            strided = floating.new_empty(3)
        assert all(value == pattern[0] or (math.isnan(value) and math.isnan(pattern[0])) for value in floating.tolist())
        assert whole.tolist() == [pattern[1]] * 4
        assert flags.dtype is torch.bool
        assert not torch.equal(strided, torch.zeros(3))


def test_the_two_patterns_differ() -> None:
    assert POISON[0][1] != POISON[1][1]
    assert math.isnan(POISON[0][0]) and not math.isnan(POISON[1][0])


def test_written_memory_stays_as_it_was_written() -> None:
    with Observer(POISON[0]):
        assert torch.zeros(4).tolist() == [0.0] * 4


@pytest.mark.parametrize(
    ("run", "kib"),
    [
        (lambda x: x + x, 2 * 8),  # one distinct input, one result
        (lambda x: x.sum(), 8),
        (lambda x: x.zero_(), 8),
        (lambda x: x.mul_(2), 2 * 8),
        (lambda x: torch.zeros_like(x), 8),
        (lambda x: torch.empty_like(x), 0),
        (lambda x: x.view(2, -1), 0),
        (lambda x: torch.ones(1).expand(2048) + 1, 8),  # an expanded tensor is read once
        (lambda x: x.copy_(torch.zeros(1).expand(2048)), 8),
    ],
)
def test_bytes_moved_are_those_of_the_operation(run: object, kib: int) -> None:
    x = single(8)
    observer = Observer()
    with observer, observer.counting():
        run(x)  # type: ignore[operator]
    assert observer.moved_bytes == pytest.approx(kib * KIB, abs=64)


def test_only_the_scored_part_counts() -> None:
    observer = Observer()
    x = single(8)
    with observer:
        x = x + 1
        with observer.counting():
            pass
        x = x + 1
    assert observer.moved_bytes == 0
    assert observer.peak_bytes == 8 * KIB, "what the part before it left behind stays where it is"


def test_peak_memory_follows_what_is_freed() -> None:
    observer = Observer()
    x = single(8)
    observer.inputs([x])
    with observer, observer.counting():
        a = x + 1
        b = a + 1
        del a
        c = b + 1
        del b, c
        x.add_(1)
    assert observer.peak_bytes == (8 + 16) * KIB, "the input, and two results at once"


def test_memory_in_the_place_of_what_died_before_the_scored_part_counts() -> None:
    """An allocator hands out addresses again; under the old one lay what was made, and dropped, before."""
    observer = Observer()
    with observer:
        dropped = [single(8) for _ in range(64)]
        dropped.clear()
        with observer.counting():
            made = [single(8) for _ in range(64)]
    assert observer.peak_bytes == len(made) * 8 * KIB


def test_tensors_claim_to_be_on_the_gpu_and_new_ones_are_made_at_home() -> None:
    x = torch.ones(3)
    with PretendCuda("cpu"):
        assert x.device == torch.device("cuda:0")
        assert x.is_cuda
        made = torch.zeros(2, device=x.device)
        moved = x.to("cuda").cuda()
    assert made.device.type == "cpu"
    assert moved.device.type == "cpu"
    assert x.device.type == "cpu"


def test_a_tensor_without_values_answers_the_host() -> None:
    x = torch.ones(3, device="meta")
    whole = torch.ones(1, dtype=torch.int64, device="meta")
    with PretendCuda("meta"):
        assert x.sum().item() == 2.0
        assert int(whole) == 1
        assert x.tolist() == [2.0, 2.0, 2.0]
        assert whole.tolist() == [1] and whole.sum().tolist() == 1
        assert not torch.equal(x, x)
        assert not bool((x > 0).any())


class Double(torch.autograd.Function):
    """Looks where it is, in both directions."""

    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        assert x.device.type == "cuda"
        return x * 2

    @staticmethod
    def backward(ctx, dy):  # type: ignore[no-untyped-def]
        assert dy.device.type == "cuda"
        return dy * 2


def call(direction: str) -> Call:
    x = TensorSpec("x", "float32", (4,), grad=True)
    return Call("0", "0", direction, (Argument("x", tensor=x),), (TensorSpec("dy", "float32", (4,)),))


@pytest.mark.parametrize("home", ["cpu", "meta"])
@pytest.mark.parametrize("direction", ["forward", "backward", "full"])
def test_a_pass_runs_in_each_direction_and_home(home: str, direction: str) -> None:
    begun: list[int] = []
    stuff = materials(call(direction), home, None)
    outcome = run_pass(Double, call(direction), stuff, home, Observer(), lambda: begun.append(1))
    assert begun == [1]
    assert [name for name, _ in outcome.gradients] == ([] if direction == "forward" else ["x"])


def test_an_output_of_another_shape_is_refused_before_the_engine_sees_it() -> None:
    class Half(Double):
        @staticmethod
        def forward(ctx, x):  # type: ignore[no-untyped-def]
            return x[:2] * 2

    with pytest.raises(ValueError, match=r"an output has shape \[2\], expected \[4\]"):
        run_pass(Half, call("full"), materials(call("full"), "cpu", None), "cpu", Observer(), lambda: None)


def test_without_values_a_gradient_is_one_where_the_case_says_so() -> None:
    gradient, one = torch.empty((), device="meta"), torch.tensor(1.0, device="meta")
    for alike in (False, True):
        with PretendCuda("meta", alike=alike):
            assert torch.equal(gradient, one) is alike
            assert bool(torch.ne(gradient, one)) is not alike
            assert (gradient.dim() == 0 and gradient.item() == 1.0) is alike


def test_a_product_in_a_wider_type_is_made_without_a_gpu() -> None:
    half = torch.full((2, 300), 30.0, dtype=torch.float16)
    with PretendCuda("cpu"):
        product = torch.mm(half, half.T, out_dtype=torch.float32)
    assert product.dtype == torch.float32 and float(product[0, 0]) == 270_000.0
