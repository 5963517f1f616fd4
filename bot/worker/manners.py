"""What an op does beside its results: to torch's switches, to what it handed out before, to the kind of tensor it
returns. Each oddity is one sentence; the judge excuses those of the untouched kernel."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from bot.worker.contract import Call, CallAnswer, clip

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
    """The same tensors as results of another layer, as they are in a model: not leaves. A view would give a single row
    another stride."""
    return [torch.ops.aten.alias(a) if isinstance(a, torch.Tensor) and a.requires_grad else a for a in arguments]


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


OFTEN = 12


def turned(tensors: dict[str, torch.Tensor], number: int) -> None:
    """The same values, each so many places further on."""
    for tensor in tensors.values():
        axis = next((axis for axis in range(tensor.dim() - 1, -1, -1) if tensor.shape[axis] > 1), None)
        if axis is not None:
            write(tensor, tensor.detach().roll(number, axis))


def often(run: Callable[[int], tuple[list[Any], list[torch.Tensor]]]) -> list[str]:
    """A dozen calls whose results all stay in somebody's hands: who has a few buffers and hands them out in turn writes
    over the first. `run` is told which call it is and returns results and inputs."""
    kept = [keep(*run(number)) for number in range(OFTEN)]
    return [word for one in kept for word in one.rewritten()][:1]


def stale(right: list[Any], run: Callable[[], list[Any]], tensors: dict[str, torch.Tensor]) -> list[str]:
    """Two calls on the very same tensors, the first on other contents. Nobody holds its results, so an allocator gives
    those of the second the same place: who compares addresses alone believes that the work is done. `right` is what
    came of these contents elsewhere. All values change places, not two as in `disturb`: results are compared
    roughly."""
    real = contents(tensors)
    turned(tensors, 1)
    run()
    restore(tensors, real)
    given = run()
    if len(given) == len(right) and all(map(is_close, map(copied, right), map(copied, given))):
        return []
    return ["asked again for other contents at the same place, it does not give what belongs to them"]


def _size(call: Call) -> int:
    return sum(math.prod(spec.shape) for spec in call.tensors)


TELLING = (2, 8)
"""Rows and columns. Less says nothing: whatever is in a row of one element, its softmax is 1."""


def _is_telling(call: Call) -> bool:
    shape = max((spec.shape for spec in call.tensors), key=math.prod, default=())
    return len(shape) > 1 and math.prod(shape[:-1]) >= TELLING[0] and shape[-1] >= TELLING[1]


def asked_often(
    calls: Sequence[Call], answers: Sequence[CallAnswer], ask: Callable[[Call], list[str]]
) -> tuple[CallAnswer, ...]:
    """The answers, with what came of repeating the smallest call that was carried out and tells something."""
    carried_out = [
        place for place, one in enumerate(answers) if one.refusal is None and one.runs and _is_telling(calls[place])
    ]
    if not carried_out:
        return tuple(answers)
    place = min(carried_out, key=lambda place: _size(calls[place]))
    odd, answer = ask(calls[place]), answers[place]
    last = dataclasses.replace(answer.runs[-1], oddities=(*answer.runs[-1].oddities, *map(clip, odd)))
    told = dataclasses.replace(answer, runs=(*answer.runs[:-1], last))
    return (*answers[:place], told, *answers[place + 1 :])


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


def is_close(first: torch.Tensor | None, second: torch.Tensor | None, *, times: int = 1) -> bool:
    """Whether the second is the first, or so many times the first."""
    if first is None or second is None:
        return first is second
    if first.shape != second.shape:
        return False
    largest = float(first[first.isfinite()].abs().max()) if bool(first.isfinite().any()) else 0.0
    return bool(torch.allclose(second, times * first, rtol=0.0, atol=times * ROUGHLY * largest, equal_nan=True))


def is_double(first: torch.Tensor | None, second: torch.Tensor | None) -> bool:
    return is_close(first, second, times=2)


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
