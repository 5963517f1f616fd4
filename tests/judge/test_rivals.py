"""Plain PyTorch on a lane: for every recipe and every pass the very results that the judge holds to be right."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._inductor.config as inductor
from torch.utils._python_dispatch import TorchDispatchMode

from bot.judge.arms import Lane
from bot.judge.inputs import fill, raw_bytes
from bot.judge.layout import layout_of
from bot.judge.oracle import truth
from bot.judge.plan import Probe, call_of
from bot.judge.recipes import RECIPES
from bot.judge.rivals import AHEAD, NAMES, RivalArm, compile_ahead
from bot.judge.scored import in_memory_order, plain
from bot.model.rivals import RIVALS
from bot.targets.sizes import SIZES
from bot.targets.suites import suite_of
from bot.worker.contract import ContractError, Shape
from bot.worker.contract.tape import Left, Region, Tape, View
from tests.worker.tapes import kernel as launch


def probe_of(kernel: str, direction: str, dtype: str = "float32") -> Probe:
    """A pass with the constants of a scored case, over a small shape."""
    recipe, suite = RECIPES[kernel], suite_of(kernel)
    shown = [check for check in suite.checks if not check.hidden and check.dtype == "float32"]
    sizes = min((check.shape for check in shown), key=lambda shape: abs(sum(n for _, n in shape) - 112))
    shape = Shape("small", direction, sizes, dtype)
    call = call_of(recipe, shape, recipe.stock, "small")
    return Probe(call, shape, "normal", {**recipe.stock, **plain(call)}, 7)


def left_of(probe: Probe, right: dict[tuple[str, str], torch.Tensor]) -> tuple[Left, ...]:
    """As if an untouched kernel had left it: outputs in the type of their gradients, gradients in their operand's."""
    specs = {spec.name: spec for spec in probe.call.tensors}
    found = []
    for number, ((role, name), value) in enumerate(right.items()):
        spec = probe.call.grads[int(name)] if role == "output" else specs[name]
        view = View(number, 0, spec.dtype, tuple(value.shape), tuple(value.contiguous().stride()))
        found.append(Left("output" if role == "output" else "gradient", name, view))
    return tuple(found)


def laid(
    kernel: str, direction: str, name: str, dtype: str = "float32"
) -> tuple[RivalArm, list[Lane], tuple[Left, ...], dict[tuple[str, str], torch.Tensor]]:
    """A rival before it plays, its two lanes, what it is to leave and what of that is right."""
    recipe, probe = RECIPES[kernel], probe_of(kernel, direction, dtype)
    filled = fill(recipe, probe)
    right = truth(recipe, probe, filled)
    left = left_of(probe, right)
    tape = Tape("small", tuple(Region(x.view.nbytes) for x in left), (), (launch(),), left)
    layout = layout_of(probe.call, tape, 2)
    arm = RivalArm(name, kernel, probe.call, layout, left)
    memory = torch.zeros(2 * layout.bank_bytes, dtype=torch.uint8)
    lanes = [Lane(memory, number * layout.bank_bytes) for number in range(2)]
    specs = {spec.name: spec for spec in probe.call.tensors}
    for entry, offset, nbytes in layout.inputs:
        raw = torch.frombuffer(
            bytearray(raw_bytes(in_memory_order(filled[entry], specs[entry].layout))), dtype=torch.uint8
        )
        for lane in lanes:
            memory[lane.base + offset : lane.base + offset + nbytes] = raw
    return arm, lanes, left, right


def played(
    kernel: str, direction: str, name: str, dtype: str = "float32"
) -> list[tuple[Left, torch.Tensor, torch.Tensor]]:
    """(what, what it left, what is right), over two lanes of other contents, of which the second is told."""
    arm, lanes, left, right = laid(kernel, direction, name, dtype)
    for lane in lanes:
        arm.prepare(lane, 0)
        arm.body(lane, 0)
    into = [torch.empty(x.view.shape, dtype=torch.float64) for x in left]
    arm.hand_over(lanes[1], into)
    return [(x, found, right[x.role, x.name]) for x, found in zip(left, into, strict=True)]


@pytest.mark.parametrize("direction", ["forward", "backward", "full"])
@pytest.mark.parametrize("kernel", sorted(SIZES))
def test_plain_pytorch_leaves_what_is_right(kernel: str, direction: str) -> None:
    for what, found, right in played(kernel, direction, "eager"):
        scale = float(right.abs().max()) or 1.0
        worst = float((found - right).abs().max()) / scale
        assert worst < 2e-3, f"{what.role} {what.name} is off by {worst:.2g} of its largest value"


class Capturing(TorchDispatchMode):  # type: ignore[misc]
    """What a CUDA graph does not hold: whatever asks the host how many there are, or what a number is."""

    ASKS = ("nonzero", "masked_select", "_local_scalar_dense", "_unique2", "unique_dim", "unique_consecutive", "equal")
    PLACES = ("index", "index_put", "index_put_")

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function._schema.name.partition("::")[2]
        assert name not in self.ASKS, f"{name} waits for the GPU"
        places = [place for place in args[1] if place is not None] if name in self.PLACES else []
        assert all(place.dtype not in (torch.bool, torch.uint8) for place in places), f"{name} counts what is true"
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("kernel", sorted(SIZES))
def test_what_a_rival_plays_a_graph_can_hold(kernel: str, direction: str) -> None:
    """Those of grpo_loss were unplayable, each for a minute's start of a process and none with a reason."""
    arm, lanes, _, _ = laid(kernel, direction, "eager")
    with Capturing():
        arm.prepare(lanes[0], 0)
        arm.body(lanes[0], 0)


def test_half_precision_is_computed_in_float32_and_handed_over_as_it_came() -> None:
    for _, found, right in played("rms_norm", "full", "eager", "bfloat16"):
        assert float((found - right).abs().max()) / float(right.abs().max()) < 2**-7
        assert torch.equal(found, found.bfloat16().double())


@pytest.mark.parametrize("direction", ["forward", "full"])
@pytest.mark.parametrize("kernel", ["cross_entropy", "grpo_loss", "jsd", "kl_div", "tvd"])
def test_a_loss_is_not_rounded_to_the_type_of_its_inputs(kernel: str, direction: str) -> None:
    """Of five kernels' forward passes every rival was called wrong, by the one rounding that the judge had made."""
    (loss, *_) = played(kernel, direction, "eager", "bfloat16")
    what, found, right = loss
    assert what.role == "output" and found.dim() == 0
    assert abs(float(found - right)) < 1e-5 * abs(float(right))


@pytest.mark.parametrize(
    "kernel",
    [
        *("fused_linear_cross_entropy", "fused_linear_jsd", "fused_linear_kl_div", "fused_moe", "mlp"),
        *("fused_neighborhood_attention", "multi_token_attention"),
    ],
)
def test_matrices_are_multiplied_in_the_type_that_they_have(kernel: str) -> None:
    """In float32 mlp's rival took 4.42 ms on an H200 where v0 took 0.35."""
    arm, lanes, _, _ = laid(kernel, "full", "eager", "bfloat16")
    seen = Multiplying()
    with seen:
        arm.prepare(lanes[0], 0)
        arm.body(lanes[0], 0)
    assert seen.types == {torch.bfloat16}


class Multiplying(TorchDispatchMode):  # type: ignore[misc]
    """Remembers the types of what is multiplied."""

    PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "convolution", "_scaled_dot_product_flash_attention_for_cpu")

    def __init__(self) -> None:
        super().__init__()
        self.types: set[torch.dtype] = set()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function._schema.name.partition("::")[2] in self.PRODUCTS:
            self.types |= {one.dtype for one in args if isinstance(one, torch.Tensor)}
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("kernel", ["fused_linear_jsd", "fused_linear_kl_div"])
def test_what_is_made_of_a_product_is_added_up_in_float32(kernel: str) -> None:
    (loss, *_) = played(kernel, "forward", "eager", "bfloat16")
    what, found, right = loss
    assert what.role == "output" and found.dim() == 0 and not torch.equal(found, found.bfloat16().double())
    assert abs(float(found - right)) < 2e-3 * abs(float(right)), "the product itself is rounded, as v0's is"


def test_judge_and_bench_know_the_same_ones() -> None:
    """A guest house imports nothing of the model."""
    assert NAMES == RIVALS


def test_nobody_else_is_a_rival() -> None:
    with pytest.raises(ContractError, match="no rival is called 'fastest'"):
        played("softmax", "forward", "fastest")


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("eager", []),
        ("compiled", [{"dynamic": False, "mode": None}]),
        ("max-autotune", [{"dynamic": False, "mode": "max-autotune-no-cudagraphs"}]),
    ],
)
def test_each_is_compiled_in_its_mode(name: str, asked: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    monkeypatch.setattr(torch, "compile", lambda run, **how: told.append(how) or run)
    for _, found, right in played("softmax", "full", name):
        assert float((found - right).abs().max()) < 2e-4 * float(right.abs().max())
    assert told == asked
    assert not asked or inductor.compile_threads == 1, "children of who plays would outlive a case"


@pytest.mark.long
@pytest.mark.parametrize(
    ("kernel", "name"), [("softmax", "compiled"), ("rms_norm", "compiled"), ("softmax", "max-autotune")]
)
def test_torch_compile_leaves_what_is_right(kernel: str, name: str) -> None:
    for _, found, right in played(kernel, "full", name):
        assert float((found - right).abs().max()) < 2e-4 * float(right.abs().max())


TWICE = """
import sys
from bot.judge.rivals import compile_ahead
from tests.judge.test_rivals import probe_of
import torch
from torch._dynamo.utils import counters

compile_ahead("compiled", "softmax", probe_of("softmax", "full").call, "cpu")
print(counters["inductor"]["fxgraph_cache_miss"], counters["inductor"]["fxgraph_cache_hit"])
"""


@pytest.mark.long
def test_what_was_compiled_ahead_is_found_by_another_process(tmp_path: Path) -> None:
    def told() -> list[int]:
        home = {"TMPDIR": str(tmp_path), "HOME": str(tmp_path), "PATH": os.environ["PATH"]}
        ran = subprocess.run(
            [sys.executable, "-c", TWICE], env=home, capture_output=True, text=True, check=True, cwd=Path.cwd()
        )
        return [int(word) for word in ran.stdout.split()]

    first, second = told(), told()
    assert first == [2, 0], "a graph forward and one backward"
    assert second[1] >= 1 and second[0] == 0


@pytest.mark.parametrize("direction", ["forward", "backward", "full"])
@pytest.mark.parametrize("kernel", sorted(SIZES))
def test_every_pass_can_be_compiled_ahead(kernel: str, direction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda run, **how: run)
    with inductor.patch(compile_threads=1):  # what it sets is put back with it
        compile_ahead("compiled", kernel, probe_of(kernel, direction).call, "cpu")
        assert inductor.compile_threads == AHEAD


@pytest.mark.parametrize(("kernel", "name"), [("softmax", "fastest"), ("soft max", "compiled")])
def test_nobody_else_is_compiled(kernel: str, name: str) -> None:
    with pytest.raises(ContractError):
        compile_ahead(name, kernel, probe_of("softmax", "forward").call, "cpu")
