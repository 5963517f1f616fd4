"""What an op does beside its results: to torch's switches, to what it handed out before, to the kind of tensor it
returns. Each oddity is one sentence; the judge excuses those of the untouched kernel."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

PLAIN = (torch.Tensor, torch.nn.Parameter)


def raw_bytes(tensor: torch.Tensor) -> bytes:
    flat = tensor.detach().contiguous().reshape(-1).cpu()
    return bytes(flat.view(torch.uint8).numpy().tobytes()) if flat.numel() else b""


def _random_state() -> str:
    return hashlib.sha256(bytes(torch.get_rng_state().numpy().tobytes())).hexdigest()


_SWITCHES: dict[str, Callable[[], Any]] = {
    "the default type": torch.get_default_dtype,
    "whether gradients are recorded": torch.is_grad_enabled,
    "whether anomalies are looked for": torch.is_anomaly_enabled,
    "autocast": lambda: (torch.is_autocast_enabled("cuda"), torch.is_autocast_enabled("cpu")),
    "the precision of matrix products": lambda: torch.backends.cuda.matmul.fp32_precision,
    "the precision of all products": lambda: torch.backends.fp32_precision,
    "reduced-precision sums": lambda: torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction,
    "the choice of convolutions": lambda: (torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic),
    "deterministic algorithms": torch.are_deterministic_algorithms_enabled,
    "the number of threads": torch.get_num_threads,
    "the random numbers that come next": _random_state,
}


def _read(switch: Callable[[], Any]) -> Any:
    try:
        return switch()
    except (AttributeError, RuntimeError):  # another torch, without it
        return None


def switches() -> dict[str, Any]:
    """What every part of a training step shares. To be read before the op is imported."""
    return {name: _read(switch) for name, switch in _SWITCHES.items()}


def switched(before: dict[str, Any]) -> list[str]:
    now = switches()
    return [f"it changes {name} for everybody" for name in before if before[name] != now[name]]


def disguised(results: list[Any]) -> list[str]:
    """Tensors of a kind of their own, or with something hung on them, can put the work off until somebody looks."""
    found = []
    for result in results:
        if isinstance(result, torch.Tensor) and type(result) not in PLAIN:
            found.append(f"it returns a {type(result).__name__[:40]}, not a plain tensor")
        elif isinstance(result, torch.Tensor) and vars(result):
            found.append(f"it hangs {min(vars(result))[:40]} on a tensor it returns")
    return found


def handed_on(arguments: list[Any]) -> list[Any]:
    """The same tensors as results of another layer, as they are in a model: not leaves."""
    return [a.view_as(a) if isinstance(a, torch.Tensor) and a.requires_grad else a for a in arguments]


class Witness:
    """Stands for the op and remembers what its forward pass handed out, as it was then."""

    def __init__(self, op: Any) -> None:
        self._op = op
        self.handed: list[tuple[torch.Tensor, bytes]] = []

    def apply(self, *arguments: Any) -> Any:
        result = self._op.apply(*arguments)
        outputs = result if isinstance(result, tuple) else (result,)
        self.handed = [(out, raw_bytes(out)) for out in outputs if type(out) in PLAIN]
        return result

    def rewritten(self) -> list[str]:
        if all(raw_bytes(out) == before for out, before in self.handed):
            return []
        return ["its backward pass writes over the result that its forward pass handed out"]


@dataclass(frozen=True)
class Keepsakes:
    """Results of an earlier pass, still in somebody's hands."""

    held: tuple[tuple[torch.Tensor, bytes], ...]

    def rewritten(self) -> list[str]:
        if all(raw_bytes(tensor) == before for tensor, before in self.held):
            return []
        return ["a result that was handed out before changes while the next one is computed"]


def keep(results: list[Any], inputs: list[torch.Tensor]) -> Keepsakes:
    """What lies in the memory of an input is the caller's to change."""
    owned = {tensor.untyped_storage().data_ptr() for tensor in inputs}
    mine = [t for t in results if type(t) in PLAIN and t.numel() and t.untyped_storage().data_ptr() not in owned]
    return Keepsakes(tuple((tensor, raw_bytes(tensor)) for tensor in mine))


def _near(values: torch.Tensor) -> torch.Tensor:
    """Nearly the same contents: same sum, same first element, two others changed places."""
    other = values.clone()
    if values.dim() and values.shape[-1] > 2:
        other[..., 1], other[..., -1] = values[..., -1], values[..., 1]
        return other
    return -other if values.is_floating_point() else other


def write(tensor: torch.Tensor, values: torch.Tensor) -> None:
    """New contents at the same place, behind the back of whoever remembers addresses, identities or versions."""
    tensor.data.copy_(values)


ROUGHLY = 0.01
"""Of the largest value: scaling by two moves nothing but the smallest numbers of half precision."""


def copied(value: Any) -> torch.Tensor | None:
    return value.detach().double().clone() if isinstance(value, torch.Tensor) else None


def is_double(first: torch.Tensor | None, second: torch.Tensor | None) -> bool:
    if first is None or second is None:
        return first is second
    if first.shape != second.shape:
        return False
    largest = float(first[first.isfinite()].abs().max()) if bool(first.isfinite().any()) else 0.0
    return bool(torch.allclose(second, 2 * first, rtol=0.0, atol=2 * ROUGHLY * largest, equal_nan=True))


def contents(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def disturb(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Leave nearly the same contents in every tensor; returns the real ones."""
    real = contents(tensors)
    for name, tensor in tensors.items():
        write(tensor, _near(real[name]))
    return real


def restore(tensors: dict[str, torch.Tensor], real: dict[str, torch.Tensor]) -> None:
    for name, tensor in tensors.items():
        write(tensor, real[name])
