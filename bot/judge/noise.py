"""How far honest float32 arithmetic may stray from the exact result, found by Monte Carlo.

The reference runs in float64 with every intermediate result moved by up to one float32 rounding. A kernel that adds in
another order or uses exp2 for exp rounds elsewhere than the untouched one does; on ill-conditioned inputs the untouched
kernel's own error is then a matter of luck. Without this term one in two right variants of softmax was refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from bot.judge.oracle import Truth, evaluate, exact
from bot.judge.plan import Probe
from bot.judge.recipe import Recipe

SAMPLES = 6
SAMPLES_OF_A_DRAW = 2
"""One of either kind: there are hundreds of draws, and their largest is what counts."""
ROUNDING = 2.0**-23


class Rounding(TorchDispatchMode):  # type: ignore[misc]
    """Moves each floating result: every element by itself, or all of a tensor alike, as a rounded constant would."""

    def __init__(self, seed: int, *, alike: bool, exact_copies: bool = False) -> None:
        super().__init__()
        self._exact_copies = exact_copies
        # Drawing is half of what a judge does before anybody is checked, and this draws three times as fast as torch.
        self._rng = numpy.random.Generator(numpy.random.SFC64(seed))
        self._alike = alike

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def moved(self, value: torch.Tensor) -> torch.Tensor:
        if self._alike:
            return value * self._rng.uniform(1 - ROUNDING, 1 + ROUNDING)
        drawn = torch.from_numpy(self._rng.random(value.numel()))
        return drawn.mul_(2 * ROUNDING).add_(1 - ROUNDING).view(value.shape).mul_(value)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        computed = isinstance(result, torch.Tensor) and result.is_floating_point() and not func.is_view
        if self._exact_copies and func is torch.ops.aten.clone.default:
            return result
        return self.moved(result) if computed and not func._schema.is_mutable else result


def noisy(
    recipe: Recipe, probe: Probe, filled: dict[str, torch.Tensor], spread: Callable[..., Iterable[Truth]] = map
) -> tuple[Truth, ...]:
    """`spread` may give each sample to another thread: each draws from a generator of its own."""

    def one(sample: int) -> Truth:
        rounding = Rounding(probe.seed + sample, alike=sample % 2 == 1, exact_copies=recipe.compares)
        moved = {
            name: rounding.moved(value) if value.is_floating_point() and not recipe.compares else value
            for name, value in exact(filled).items()
        }
        with rounding:
            return evaluate(recipe, probe, moved)

    return tuple(spread(one, range(SAMPLES_OF_A_DRAW if probe.again else SAMPLES)))
