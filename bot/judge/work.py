"""How many operations a scored case stands for, counted on the reference: what any implementation has to compute.

Small inputs are enough. What a reference does is a sum of products of its sizes, so its count at each corner of a small
box says it everywhere: the sizes are doubled one by one and the differences carried to where they are wanted.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from bot.judge.inputs import fill
from bot.judge.oracle import evaluate, exact
from bot.judge.plan import Probe, call_of, complete
from bot.judge.recipe import Recipe
from bot.worker.contract import Shape

SMALL = 8
"""A size of this box, and twice it."""
MATRIX = {"mm", "bmm", "addmm", "baddbmm", "matmul", "linear"}
REDUCED = {"sum", "mean", "amax", "amin", "max", "min", "logsumexp", "var", "std", "prod", "norm", "linalg_vector_norm"}
POINTWISE = {
    *("add", "sub", "rsub", "mul", "div", "neg", "abs", "sqrt", "rsqrt", "reciprocal", "square", "pow", "exp", "expm1"),
    *("log", "log1p", "log2", "exp2", "erf", "erfc", "tanh", "sigmoid", "logit", "sin", "cos", "relu", "gelu", "silu"),
    *("softplus", "maximum", "minimum", "clamp", "clamp_min", "clamp_max", "addcmul", "addcdiv", "lerp", "xlogy"),
    *("tanh_backward", "sigmoid_backward", "gelu_backward", "silu_backward", "threshold_backward", "atan", "floor"),
}
"""One operation an element, whatever it takes on a chip: what moves or looks up values alone counts as none."""


class Counting(TorchDispatchMode):  # type: ignore[misc]
    """Adds up what runs below it."""

    def __init__(self) -> None:
        super().__init__()
        self.all = self.matrix = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """True, the default, imports torch._dynamo at the first operation: 2.4 s for nothing."""
        return False

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        name = function._schema.name.partition("::")[2].rstrip("_")
        first = next((a for a in args if isinstance(a, torch.Tensor)), None)
        if name in MATRIX and isinstance(result, torch.Tensor):
            inner = [a for a in args if isinstance(a, torch.Tensor)][-2].shape[-1]
            self.matrix += 2 * result.numel() * inner
            self.all += 2 * result.numel() * inner
        elif name in REDUCED and first is not None:
            self.all += first.numel()
        elif name in POINTWISE and isinstance(result, torch.Tensor):
            self.all += result.numel()
        return result


def _counted(recipe: Recipe, shape: Shape) -> tuple[int, int]:
    """Of one small case, all of it and its matrix products."""
    constants = complete(recipe, shape, recipe.stock)
    probe = Probe(call_of(recipe, shape, constants, shape.id), shape, "normal", constants, seed=1)
    # With labels that all count: how many do not is a matter of chance, and would be carried far.
    filled = {n: v if v.is_floating_point() else torch.zeros_like(v) for n, v in fill(recipe, probe).items()}
    filled = exact(filled)
    if recipe.comes_ready and shape.direction == "backward":
        return _handed_out(recipe, probe, filled), 0
    # A gradient that comes ready is made by the forward pass: that is what any such implementation has to compute.
    if recipe.comes_ready or shape.direction == "full":
        return _run(recipe, _turned(probe, "full"), filled)
    forward = _run(recipe, _turned(probe, "forward"), filled)
    if shape.direction == "forward":
        return forward
    both = _run(recipe, _turned(probe, "full"), filled)
    return both[0] - forward[0], both[1] - forward[1]


def _run(recipe: Recipe, probe: Probe, filled: dict[str, Any]) -> tuple[int, int]:
    with Counting() as counting:
        evaluate(recipe, probe, filled)
    return counting.all, counting.matrix


def _handed_out(recipe: Recipe, probe: Probe, filled: dict[str, Any]) -> int:
    """One product for each element of the gradients."""
    names = {spec.name for spec in probe.call.tensors}
    return sum(
        int(filled[o.name].numel())
        for o in recipe.operands
        if o.name in names and f"d{o.name}" in recipe.backward_traffic
    )


def _turned(probe: Probe, direction: str) -> Probe:
    return dataclasses.replace(probe, call=dataclasses.replace(probe.call, direction=direction))


def _carried(counts: dict[tuple[int, ...], int], sizes: tuple[tuple[int, int], ...]) -> int:
    """From the corners of the box to the wanted sizes, each (size of the box, wanted)."""
    total = 0.0
    for corner, count in counts.items():
        share = 1.0
        for far, (small, wanted) in zip(corner, sizes, strict=True):
            along = (wanted - small) / small
            share *= along if far else 1 - along
        total += share * count
    return round(total)


def work_of(recipe: Recipe, shape: Shape) -> tuple[int, int]:
    """(operations, those of them in matrix products) of one pass; (0, 0) where the reference cannot be counted."""
    names = [name for name, _ in shape.sizes]
    sizes = tuple((min(SMALL, wanted), wanted) for _, wanted in shape.sizes)
    everything: dict[tuple[int, ...], int] = {}
    products: dict[tuple[int, ...], int] = {}
    try:
        for corner in itertools.product((0, 1), repeat=len(names)):
            small = tuple(
                (name, size * (2 if far else 1)) for name, (size, _), far in zip(names, sizes, corner, strict=True)
            )
            at = Shape(shape.id, shape.direction, small, "float32")
            everything[corner], products[corner] = _counted(recipe, at)
    except (RuntimeError, ValueError, IndexError, TypeError):
        return 0, 0
    found = _carried(everything, sizes), _carried(products, sizes)
    return found if found[0] > 0 and math.isfinite(found[0]) and found[1] >= 0 else (0, 0)


def work(recipe: Recipe, shapes: tuple[Shape, ...]) -> tuple[tuple[str, int, int], ...]:
    """Each scored case with its operations."""
    known: dict[tuple[str, tuple[tuple[str, int], ...]], tuple[int, int]] = {}
    for shape in shapes:
        key = (shape.direction, shape.sizes)
        if key not in known:
            known[key] = work_of(recipe, shape)
    return tuple((shape.id, *known[(shape.direction, shape.sizes)]) for shape in shapes)
