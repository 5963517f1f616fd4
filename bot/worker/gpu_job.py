"""The job of a worker that has a GPU: the checks, then a recording of every scored case."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import torch

from bot.worker import gpu_inputs, manners, tuning
from bot.worker.contract import Call, CallAnswer, Refusal, clip, render, write_text
from bot.worker.contract.gpu import GpuAnswer, GpuRequest, Recording, Traced
from bot.worker.contract.tape import TAPE, Tape
from bot.worker.gpu_checking import ContextLost, check_call, is_sticky, repeat, run_pass
from bot.worker.loading import origin_of
from bot.worker.passes import Materials, Outcome
from bot.worker.taping import CannotReplay, Taper, hooked

SETTLE_S = 0.5
"""So long is rest waited for, at most."""
STILL, STILL_S = 10, 0.002
"""So often in a row the same was lent, so many seconds apart."""
READINGS = 4
"""So often a peak is read before one is taken that began and ended with other memory lent."""

# -- recordings -----------------------------------------------------------------------------------------------


def _left(call: Call, outcome: Outcome) -> list[tuple[Any, str, torch.Tensor]]:
    found: list[tuple[Any, str, torch.Tensor]] = []
    if call.direction != "backward":
        found += [("output", str(i), o.detach()) for i, o in enumerate(outcome.outputs) if isinstance(o, torch.Tensor)]
    found += [("gradient", name, g.detach()) for name, g in outcome.gradients if isinstance(g, torch.Tensor)]
    return found


def _tape(op: Any, call: Call, stuff: Materials, folder: Path) -> tuple[Tape, Taper]:
    taper = Taper(gpu_inputs.detached(stuff), folder)
    with hooked(taper.launched), taper:
        outcome = run_pass(op, call, stuff, taper.score)
    torch.cuda.synchronize()
    return taper.tape(call.case, _left(call, outcome)), taper


def _three_times(op: Any, call: Call, fills: dict[str, str], folder: Path) -> tuple[Tape, Taper]:
    """A recording is believed when neither other contents nor other addresses change it."""
    one, other = gpu_inputs.drawn(call, fills), gpu_inputs.drawn(call, fills)
    stuff = gpu_inputs.laid(call, one)
    first, taper = _tape(op, call, stuff, folder)
    gpu_inputs.refill(stuff, other)
    again, _ = _tape(op, call, stuff, folder)
    del stuff
    elsewhere, _ = _tape(op, call, gpu_inputs.laid(call, one), folder)
    if first != again:
        raise CannotReplay("what it launches depends on the contents of its inputs")
    if first != elsewhere:
        raise CannotReplay("what it launches depends on the addresses of its inputs")
    return first, taper


def _asked_for(when: str) -> int:
    """Bytes that tensors asked for. What torch's allocator lends may be up to 1 MiB more a tensor, by where there was
    room: modulated_rms_norm of 4 x 1024 x 1152 asked for 0.58 MiB more, was lent 1.42, and refused for 5.1 % more."""
    return int(torch.cuda.memory_stats()[f"requested_bytes.all.{when}"])


def _at_rest() -> int:
    """Bytes that are lent when nothing was given back for a while: autograd's thread may let go of its own after the
    pass is over."""
    lent, still, until = _asked_for("current"), 0, time.monotonic() + SETTLE_S
    while still < STILL and time.monotonic() < until:
        time.sleep(STILL_S)
        now = _asked_for("current")
        lent, still = now, still + 1 if now == lent else 0
    return lent


def _one_peak(op: Any, call: Call, contents: dict[str, torch.Tensor]) -> int:
    stuff = gpu_inputs.laid(call, contents)

    def begin() -> None:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()

    run_pass(op, call, stuff, begin)
    torch.cuda.synchronize()
    return _asked_for("peak")


def _peak(op: Any, call: Call, fills: dict[str, str]) -> int:
    """What was asked for at most, inputs included, when everything is compiled. A reading counts when as much is lent
    after it as before: a busy H200 once read a tensor too little of jsd's v0, most likely for memory of the run before,
    and that refused every variant."""
    contents = gpu_inputs.drawn(call, fills)
    _one_peak(op, call, contents)
    before = _at_rest()
    for _ in range(READINGS):
        found, after = _one_peak(op, call, contents) - before, _at_rest()
        if after == before:
            break
        before = after
    return max(0, found)


def _traced(op: Any, call: Call, fills: dict[str, str], scratch: Path) -> tuple[Traced, ...]:
    """The kernels of one whole pass with no hook of ours in place, forward included."""
    from torch.profiler import ProfilerActivity, profile

    stuff = gpu_inputs.laid(call, gpu_inputs.drawn(call, fills))
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as seen:
        run_pass(op, call, stuff)
        torch.cuda.synchronize()
    path = scratch / "trace.json"
    seen.export_chrome_trace(str(path))
    events = json.loads(path.read_text())["traceEvents"]
    path.unlink()
    kernels = sorted((e for e in events if e.get("cat") == "kernel"), key=lambda e: e["ts"])
    return tuple(Traced(str(e["name"])[:200], tuple(int(n) for n in e["args"].get("grid", ()))) for e in kernels)


def _sources(taper: Taper, root: Path) -> tuple[tuple[str, str, str], ...]:
    found = []
    for kernel in taper.kernels:
        function = kernel.src.fn
        file, digest = origin_of(function.fn, root)
        found.append((str(function.fn.__name__), file, digest))
    return tuple(found)


def _local_bytes(taper: Taper) -> tuple[tuple[str, int], ...]:
    """As the driver told Triton when it loaded them: what it calls spills is all local memory, in words."""
    worst: dict[str, int] = {}
    for kernel in taper.kernels:
        words = getattr(kernel, "n_spills", None)  # of a kernel's own, and nothing hangs on it but who races
        name = str(kernel.src.fn.fn.__name__)
        worst[name] = max(worst.get(name, 0), 4 * words if isinstance(words, int) else 0)
    return tuple(worst.items())


def _record(op: Any, request: GpuRequest, call: Call, outputs: Path, marks: list[tuple[str, float]]) -> Recording:
    fills, folder = dict(request.fills), outputs / f"tape-{call.id}"
    folder.mkdir()
    peak = 0
    traced: tuple[Traced, ...] = ()
    try:
        with tuning.pinned(request.pins) as tuned:
            peak = _peak(op, call, fills)
            marks.append(("compiled and run", time.monotonic()))
            if not request.brief:
                traced = _traced(op, call, fills, folder)
            tape, taper = _three_times(op, call, fills, folder)
    except CannotReplay as why:
        return Recording(call.case, "", clip(str(why)), peak, traced, ())
    except Exception as error:  # whatever variant code raises is news about the variant
        if is_sticky(error):
            raise ContextLost(f"{call.case}: {error}") from error
        kind = "memory" if isinstance(error, torch.cuda.OutOfMemoryError) else "crashed"
        return Recording(call.case, "", "", peak, traced, (), Refusal(kind, clip(f"{type(error).__name__}: {error}")))
    finally:
        torch.cuda.empty_cache()
    write_text(folder / TAPE, render(tape))
    kernels = _sources(taper, Path(request.subject.root))
    local = _local_bytes(taper)
    return Recording(call.case, folder.name, "", peak, traced, kernels, choices=tuned.choices, local_bytes=local)


def gpu_job(
    op: Any,
    request: GpuRequest,
    inputs: Path,
    outputs: Path,
    switches: dict[str, Any],
    marks: list[tuple[str, float]],
) -> GpuAnswer:
    """`switches` as they were before the op was imported."""
    calls: list[CallAnswer] = []
    recordings: list[Recording] = []
    try:
        for call in request.checks:
            calls.append(check_call(op, call, inputs, outputs, switches))
        calls = list(manners.asked_often(request.checks, calls, lambda call: repeat(op, call, inputs)))
        marks.append((f"{len(calls)} checks", time.monotonic()))
        for call in request.cases:
            recordings.append(_record(op, request, call, outputs, marks))
            marks.append(("recorded", time.monotonic()))
    except ContextLost as error:
        return GpuAnswer(tuple(calls), tuple(recordings), Refusal("memory", clip(str(error))))
    return GpuAnswer(tuple(calls), tuple(recordings), marks=tuple(marks))
