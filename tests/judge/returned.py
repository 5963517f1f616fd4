"""Makes a worker's answer folder by hand: what a kernel would have left, computed with torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import torch

from bot.judge.answer import Returned
from bot.judge.compare import compared
from bot.judge.inputs import fill, raw_bytes
from bot.judge.known import Known
from bot.judge.plan import Probe, probes_of
from bot.judge.recipes import RECIPES
from bot.worker.contract import (
    ANSWER,
    CallAnswer,
    CheckAnswer,
    Refusal,
    Row,
    RunAnswer,
    Shape,
    TensorOut,
    render,
)

RECIPE = RECIPES["softmax"]
CHECKS = (
    Shape("forward-20x64-float32", "forward", (("rows", 20), ("cols", 64)), "float32"),
    Shape("full-5x33-float32", "full", (("rows", 5), ("cols", 33)), "float32"),
)
PROBES = probes_of(RECIPE, CHECKS, seed=11)
Results = dict[tuple[str, str], torch.Tensor | None]
Kernel = Callable[[Probe, dict[str, torch.Tensor], int], Results]
"""(probe, inputs, turn) -> what it left, by role and name. It may write into the inputs."""


def right(probe: Probe, tensors: dict[str, torch.Tensor], turn: int) -> Results:
    """Softmax and its gradient in float32, as the untouched kernel would compute them."""
    x = tensors["x"].clone().requires_grad_(True)
    y = x.softmax(-1)
    found: Results = {("output", "0"): y.detach().clone()}
    if probe.call.direction == "full":
        (dx,) = torch.autograd.grad(y, x, tensors["dy"])
        found[("gradient", "x")] = dx
    return found


def _put(blob: bytearray, key: tuple[str, str], tensor: torch.Tensor | None, shares: str) -> TensorOut:
    role, name = key
    if tensor is None:
        return TensorOut(role, name, "float32", (), (), "cpu", 0, 0, absent=True)  # type: ignore[arg-type]
    raw, offset = raw_bytes(tensor), len(blob)
    blob += raw
    kind = str(tensor.dtype).removeprefix("torch.")
    stride = tuple(tensor.stride())
    return TensorOut(role, name, kind, tuple(tensor.shape), stride, "cpu", offset, len(raw), shares)  # type: ignore[arg-type]


def _run(folder: Path, probe: Probe, kernel: Kernel, turn: int, races: tuple[str, ...], shares: str) -> RunAnswer:
    tensors = fill(RECIPE, probe)
    results = kernel(probe, tensors, turn)
    grads = {spec.name for spec in probe.call.grads}
    blob = bytearray()
    records = [_put(blob, key, tensor, shares) for key, tensor in results.items()]
    for name, tensor in tensors.items():
        records.append(_put(blob, ("grad_output" if name in grads else "input", name), tensor, ""))
    name = f"{probe.call.id}-{turn}.bin"
    (folder / name).write_bytes(blob)
    return RunAnswer(name, tuple(records), (), races)


def write_answer(
    folder: Path,
    kernel: Kernel = right,
    *,
    races: tuple[str, ...] = (),
    shares: str = "",
    refusals: dict[str, Refusal] | None = None,
    probes: tuple[Probe, ...] = PROBES,
) -> CheckAnswer:
    folder.mkdir(parents=True, exist_ok=True)
    calls = []
    for probe in probes:
        refusal = (refusals or {}).get(probe.call.id)
        turns = range(0 if refusal else probe.call.turns)
        runs = tuple(_run(folder, probe, kernel, turn, races, shares) for turn in turns)
        calls.append(CallAnswer(probe.call.id, runs, refusal))
    answer = CheckAnswer(tuple(calls))
    (folder / ANSWER).write_text(render(answer))
    return answer


def rewrite(folder: Path, answer: CheckAnswer, **changes: object) -> None:
    """The same answer with the first tensor of its first run changed."""
    call = answer.calls[0]
    first = dataclasses.replace(call.runs[0].tensors[0], **changes)  # type: ignore[arg-type]
    run = dataclasses.replace(call.runs[0], tensors=(first, *call.runs[0].tensors[1:]))
    changed = dataclasses.replace(call, runs=(run, *call.runs[1:]))
    (folder / ANSWER).write_text(render(dataclasses.replace(answer, calls=(changed, *answer.calls[1:]))))


def rows(known: list[Known], mine: dict[str, Returned], *, baseline: bool) -> tuple[Row, ...]:
    """What a comparison says of each case, for tests that are not about further draws."""
    return compared(known, mine, baseline=baseline).rows
