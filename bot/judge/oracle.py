"""What is right: the reference in float64 on the inputs as the kernel gets them, gradients by autograd."""

from __future__ import annotations

import torch

from bot.judge.plan import Probe
from bot.judge.recipe import Recipe

Truth = dict[tuple[str, str], torch.Tensor]
"""(role, name) -> float64 tensor. Outputs are named by their position."""


def truth(recipe: Recipe, probe: Probe, filled: dict[str, torch.Tensor]) -> Truth:
    specs = {a.name: a.tensor for a in probe.call.arguments if a.tensor is not None}
    exact: dict[str, torch.Tensor] = {}
    for name, spec in specs.items():
        value = filled[name]
        exact[name] = value.double().requires_grad_(spec.grad) if value.is_floating_point() else value
    outputs = recipe.reference(exact, probe.constants)
    found: Truth = {}
    direction = probe.call.direction
    if direction != "backward":
        found |= {("output", str(i)): out.detach() for i, out in enumerate(outputs)}
    if direction != "forward":
        leaves = [name for name, spec in specs.items() if spec.grad]
        grads = [filled[spec.name].double() for spec in probe.call.grads]
        gradients = torch.autograd.grad(outputs, [exact[name] for name in leaves], grads)
        found |= {("gradient", name): gradient for name, gradient in zip(leaves, gradients, strict=True)}
    return found
