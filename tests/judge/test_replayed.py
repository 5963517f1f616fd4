"""What torch did in a pass is played from its recording, on other contents in other memory: the same comes of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from bot.judge.arms import Arm, Lane
from bot.judge.layout import layout_of
from bot.worker.contract import Argument, Call, ContractError, TensorSpec, parse, render
from bot.worker.contract.tape import Operation, Tape, View, sound
from bot.worker.taping import Taper

SIZES = {"x": (6, 8), "w": (8, 5), "y": (6, 5), "images": (2, 3, 7, 9), "filters": (4, 3, 3, 2)}
CALL = Call(
    "c", "forward", "forward", tuple(Argument(n, TensorSpec(n, "float32", s)) for n, s in SIZES.items()), (), "", 1
)
Tensors = dict[str, torch.Tensor]
Work = Callable[[Tensors], Any]


def contents(seed: int) -> Tensors:
    rng = torch.Generator().manual_seed(seed)
    return {name: torch.randn(size, generator=rng) for name, size in SIZES.items()}


def taped(work: Work, before: Work | None = None) -> Tape:
    """A pass over the inputs alone; `before` hands the scored part something to go on with."""
    inputs = contents(1)
    taper = Taper(inputs, Path("nowhere"), device="cpu")
    with taper:
        if before is not None:
            inputs = inputs | {"before": before(inputs)}
            taper.score()
        found = work(inputs)
    left = [("output", str(place), one) for place, one in enumerate(found if isinstance(found, tuple) else (found,))]
    return sound(parse(Tape, render(taper.tape("forward", left))))


def played(tape: Tape, seeds: tuple[int, ...] = (2,), times: int = 1) -> list[tuple[torch.Tensor, ...]]:
    """What each lane leaves behind, each on contents of its own. Where nothing comes before, nothing is prepared."""
    layout = layout_of(CALL, tape, len(seeds))
    arm = Arm(tape, Path("nowhere"), layout, driver=None)  # type: ignore[arg-type]
    size = layout.bank_bytes + arm.scratch_bytes
    memory = torch.full((len(seeds) * size,), 0xFF, dtype=torch.uint8)
    lanes = [Lane(memory, number * size) for number in range(len(seeds))]
    for lane, seed in zip(lanes, seeds, strict=True):
        for (_, offset, nbytes), tensor in zip(layout.inputs, contents(seed).values(), strict=True):
            memory[lane.base + offset : lane.base + offset + nbytes] = tensor.view(-1).view(torch.uint8)
    for _ in range(times):
        for lane in lanes if arm.has_before else ():
            arm.prepare(lane, 0)
        for lane in lanes:
            arm.body(lane, 0)
    found = []
    for lane in lanes:
        into = [torch.empty(left.view.shape, dtype=arm.dtype_of(left)) for left in arm.left]
        arm.hand_over(lane, into)
        found.append(tuple(into))
    return found


def added_up(t: Tensors) -> torch.Tensor:
    """As a linear layer gathers the gradient of its weight, chunk by chunk."""
    total = torch.zeros(8, 5)
    for rows in (slice(0, 4), slice(4, 6)):
        torch.addmm(total, t["x"][rows].t(), t["y"][rows], out=total)
    return total


def added_up_in_place(t: Tensors) -> torch.Tensor:
    total = torch.zeros(8, 5)
    return total.addmm_(t["x"].t(), t["y"], beta=0.5, alpha=2.0)


def turned(t: Tensors) -> torch.Tensor:
    return F.conv_transpose2d(F.conv2d(t["images"], t["filters"]), t["filters"], stride=1)


def filters_gradient(t: Tensors) -> torch.Tensor:
    upstream = 2 * F.conv2d(t["images"], t["filters"], padding=1)
    return torch.nn.grad.conv2d_weight(t["images"], t["filters"].shape, upstream, padding=1)


WORKS: dict[str, tuple[Work, str]] = {
    "added up": (added_up, "aten::addmm.out"),
    "added up in place": (added_up_in_place, "aten::addmm_"),
    "linear": (lambda t: torch.addmm(t["y"][0], t["x"], t["w"], beta=0.5, alpha=3), "aten::addmm"),
    "into another": (lambda t: torch.addmm(t["y"], t["x"], t["w"], out=torch.empty(6, 5)), "aten::addmm.out"),
    "softmax": (lambda t: torch.softmax(t["x"], dim=-1), "aten::_softmax"),
    "softmax of columns": (lambda t: torch.softmax(t["x"], dim=0), "aten::_softmax"),
    "log of it": (lambda t: torch.log_softmax(t["x"], dim=-1), "aten::_log_softmax"),
    "sorted": (lambda t: tuple(torch.sort(t["x"], dim=-1, descending=True)), "aten::sort"),
    "sorted upwards": (lambda t: torch.sort(t["x"], dim=0).values, "aten::sort"),
    "convolved": (lambda t: F.conv2d(t["images"], t["filters"], padding=(1, 0)), "aten::convolution"),
    "turned": (turned, "aten::convolution"),
    "what goes on from it": (lambda t: F.conv2d(t["images"], t["filters"])[:, 1:].exp(), "aten::convolution"),
    "gradient of filters": (filters_gradient, "aten::convolution_backward"),
}


def by_hand(work: Work, seed: int) -> tuple[torch.Tensor, ...]:
    found = work(contents(seed))
    return found if isinstance(found, tuple) else (found,)


def alike(found: tuple[torch.Tensor, ...], wanted: tuple[torch.Tensor, ...]) -> bool:
    return len(found) == len(wanted) and all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))


@pytest.mark.parametrize("name", WORKS)
def test_a_recording_does_what_was_recorded(name: str) -> None:
    work, op = WORKS[name]
    tape = taped(work)
    assert op in {step.op for step in tape.steps if isinstance(step, Operation)}
    first, second = played(tape, (2, 3), times=2)
    assert alike(first, by_hand(work, 2))
    assert alike(second, by_hand(work, 3))
    assert not alike(first, second)


@pytest.fixture
def wide_products() -> Iterator[None]:
    """torch has this product for GPUs alone."""

    def wide(x: torch.Tensor, y: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return x.to(dtype) @ y.to(dtype)

    def wide_into(x: torch.Tensor, y: torch.Tensor, dtype: torch.dtype, *, out: torch.Tensor) -> torch.Tensor:
        return out.copy_(wide(x, y, dtype))

    here = torch.library.Library("aten", "IMPL")
    here.impl("mm.dtype", wide, "CPU")
    here.impl("mm.dtype_out", wide_into, "CPU")
    yield
    here._destroy()


@pytest.mark.usefixtures("wide_products")
def test_a_product_in_a_wider_type_comes_back_in_it() -> None:
    """As fused_linear_jsd makes its logits: bfloat16 in, float32 out, and never rounded in between."""

    def work(t: Tensors) -> torch.Tensor:
        return torch.mm(t["x"].bfloat16(), t["w"].bfloat16(), out_dtype=torch.float32)

    tape = taped(work)
    assert [step.op for step in tape.steps if isinstance(step, Operation)][-1] == "aten::mm.dtype"
    ((found,),) = played(tape)
    assert found.dtype == torch.float32
    assert torch.equal(found, work(contents(2)))
    assert not torch.equal(found, found.bfloat16().float())


def test_what_was_made_before_is_there_when_it_counts() -> None:
    def before(t: Tensors) -> torch.Tensor:
        return F.conv2d(t["images"], t["filters"])

    tape = taped(lambda t: t["before"] * 2, before)
    assert [step.op for step in tape.before if isinstance(step, Operation)] == ["aten::convolution"]
    for found, seed in zip(played(tape, (2, 3), times=2), (2, 3), strict=True):
        assert torch.equal(found[0], before(contents(seed)) * 2)


CONVOLVED = taped(lambda t: F.conv2d(t["images"], t["filters"]))
(STEP,) = (step for step in CONVOLVED.steps if isinstance(step, Operation))
assert STEP.result is not None


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (None, "makes no memory of its own"),
        (View(3, 0, "float32", SIZES["images"], (189, 63, 9, 1)), "makes no memory of its own"),
        (dataclasses.replace(STEP.result, shape=(2, 4, 5, 7)), "another tensor than when it was recorded"),
        (dataclasses.replace(STEP.result, stride=(160, 1, 32, 4)), "another tensor than when it was recorded"),
        (dataclasses.replace(STEP.result, dtype="int32"), "another tensor than when it was recorded"),
    ],
)
def test_what_is_made_takes_the_place_of_its_own_region_alone(result: View | None, why: str) -> None:
    with pytest.raises(ContractError, match=why):
        played(dataclasses.replace(CONVOLVED, steps=(dataclasses.replace(STEP, result=result),)))


def test_a_region_is_as_large_as_what_is_made_for_it() -> None:
    regions = tuple(r if r.name else dataclasses.replace(r, nbytes=r.nbytes + 512) for r in CONVOLVED.regions)
    with pytest.raises(ContractError, match="another tensor than when it was recorded"):
        played(dataclasses.replace(CONVOLVED, regions=regions))


def test_nobody_meets_what_the_pass_before_made() -> None:
    """A step that reads a region before it is made finds what lies in any memory that nobody wrote."""
    tape = taped(lambda t: F.conv2d(t["images"], t["filters"]).exp())
    made, read = tape.steps
    assert isinstance(made, Operation)
    harmless = Operation("aten::zero_", (made.arguments[0],))
    for steps, before in (((read, made), ()), ((harmless,), (read, made)), ((made,), (read,))):
        early = dataclasses.replace(tape, steps=steps, before=before)
        (found,) = played(early, times=3)
        assert found[0].isnan().all()


class Adding(TorchDispatchMode):
    """Whether each sum of a product and a tensor goes where the tensor lies, for torch to see."""

    def __init__(self) -> None:
        super().__init__()
        self.in_place: list[bool] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.addmm.out:
            self.in_place.append(args[0] is kwargs["out"])
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(("name", "wanted"), [("added up", [True, True]), ("into another", [False])])
def test_torch_copies_nothing_that_it_did_not_copy_in_the_pass(name: str, wanted: list[bool]) -> None:
    """Two tensors on the same memory are two to torch, which copies the one to the other first."""
    tape = taped(WORKS[name][0])
    with Adding() as seen:
        played(tape)
    assert seen.in_place == wanted
