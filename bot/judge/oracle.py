"""What is right: the reference in float64 on the inputs as the kernel gets them, gradients by autograd."""

from __future__ import annotations

import torch

from bot.judge.plan import Probe
from bot.judge.recipe import Recipe

FAINT = 1e-10

Truth = dict[tuple[str, str], torch.Tensor]
"""(role, name) -> float64 tensor. Outputs are named by their position."""


def evaluate(recipe: Recipe, probe: Probe, tensors: dict[str, torch.Tensor]) -> Truth:
    specs = {a.name: a.tensor for a in probe.call.arguments if a.tensor is not None}
    leaves = {
        name: tensors[name].detach().clone().requires_grad_(spec.grad) if spec.grad else tensors[name]
        for name, spec in specs.items()
    }
    returned = recipe.reference(leaves, probe.constants)
    outputs = {place: out for place, out in enumerate(returned) if out is not None}
    found: Truth = {}
    direction = probe.call.direction
    if direction != "backward":
        found |= {("output", str(place)): out.detach() for place, out in outputs.items()}
    if direction != "forward":
        wanted = [name for name, spec in specs.items() if spec.grad]
        grads = [tensors[probe.call.grads[place].name] for place in outputs]
        gradients = torch.autograd.grad(list(outputs.values()), [leaves[name] for name in wanted], grads)
        found |= {("gradient", name): gradient for name, gradient in zip(wanted, gradients, strict=True)}
    return found


def exact(filled: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: value.double() if value.is_floating_point() else value for name, value in filled.items()}


def truth(recipe: Recipe, probe: Probe, filled: dict[str, torch.Tensor]) -> Truth:
    return evaluate(recipe, probe, exact(filled))


def floor(filled: dict[str, torch.Tensor]) -> float:
    """Below this share of the largest input a result is the oracle's own noise: 1 + tanh(-20) is 0 in float64 too."""
    finite = [v[v.isfinite()].double() for v in filled.values() if v.is_floating_point()]
    largest = [float(v.abs().max()) for v in finite if v.numel()]
    return FAINT * max(largest, default=0.0)
