"""All that is known of one probe before a variant is looked at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from bot.judge import oracle
from bot.judge.answer import Returned
from bot.judge.inputs import DTYPES, fill, raw_bytes
from bot.judge.noise import noisy
from bot.judge.plan import Probe
from bot.judge.recipe import Recipe
from bot.judge.tolerance import Errors, errors, largest_of


@dataclass(frozen=True)
class Known:
    probe: Probe
    truth: oracle.Truth
    inputs: dict[str, bytes]
    """The raw bytes of every tensor before the pass."""
    floors: dict[tuple[str, str], float]
    """Rows whose largest value is below this are compared on this scale, by output."""
    noise: dict[tuple[str, str], Errors]
    """The errors that float32 rounding alone makes, by output."""
    baseline: Returned | None = None
    drawn: dict[tuple[str, str], float] = field(default_factory=dict)
    """How far the untouched kernel strayed in further draws of this probe, by output, see tolerance.py."""
    drawn_lean: dict[tuple[str, str], float] = field(default_factory=dict)
    """How far its values leaned together there."""
    restless: frozenset[tuple[str, str]] = frozenset()
    """Outputs that it did not leave bit for bit the same there."""
    unheard: tuple[Probe, ...] = ()
    """Further draws that it was not heard on yet."""

    @property
    def describes(self) -> str:
        numbers = ", ".join(
            f"{k}={v:.3g}" if isinstance(v, float) else f"{k}={v}" for k, v in self.probe.constants.items()
        )
        return f"values: {self.probe.kind}" + (f"; {numbers}" if numbers else "")


def _smallest(probe: Probe, key: tuple[str, str]) -> float:
    """The smallest number of a result's type that has all its digits. Those below lie as far apart as those above, so
    a gradient averaged over thousands of rows is a step or two of float16, and nobody can round it better."""
    role, name = key
    specs = {spec.name: spec for spec in probe.call.tensors}
    spec = specs[name] if role == "gradient" else probe.call.grads[int(name)]
    return float(torch.finfo(DTYPES[spec.dtype]).tiny)


def known_of(recipe: Recipe, probe: Probe, spread: Callable[..., Any] = map) -> tuple[Known, dict[str, torch.Tensor]]:
    """Everything about a probe that can be known before any kernel ran, and its inputs. `spread`: see noise.py."""
    filled = fill(recipe, probe)
    right, faint = oracle.truth(recipe, probe, filled), oracle.floor(filled)
    samples = noisy(recipe, probe, filled, spread)
    floors = {key: max(faint, _smallest(probe, key)) for key in right}
    noise = {
        key: largest_of([errors(sample[key], exact, floors[key]) for sample in samples]) for key, exact in right.items()
    }
    inputs = {name: raw_bytes(tensor) for name, tensor in filled.items()}
    return Known(probe, right, inputs, floors, noise), filled


def label_of(key: tuple[str, str], known: Known) -> str:
    role, name = key
    if role != "output":
        return f"{role.replace('_', ' ')} {name}"
    grads = known.probe.call.grads
    return f"output {grads[int(name)].name[1:] if int(name) < len(grads) else name}"


def excuse_of(known: Known) -> str:
    """Why the untouched kernel is no yardstick for this probe; empty when it is one."""
    returned = known.baseline
    if returned is None or returned.error or len(returned.runs) != known.probe.call.turns:
        return (returned.error if returned else "") or "it did not finish"
    for key, truth in known.truth.items():
        found = returned.runs[0].get(key)
        if found is None or found.record.absent or tuple(found.record.shape) != tuple(truth.shape):
            return f"{label_of(key, known)} is missing or has another shape than the reference"
    return ""
