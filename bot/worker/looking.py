"""The job of a worker that is profiled: each case is warmed up, then its pass is run a few times, once watched and once
not: a profiler makes each call of the host several times as long."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from bot.worker import gpu_inputs, tuning
from bot.worker.contract import Call
from bot.worker.contract.dispatching import Dispatched
from bot.worker.contract.looking import LookAnswer, Looked, LookRequest, Worked
from bot.worker.gpu_checking import Passes, run_pass

WARM = 2
ROWS = 20
"""Rows of passes; the quickest counts, as a host has other things to do as well. Of three, beside processes that were
starting, a forward pass of rms_norm came out at 180 us whose wrapper takes 70."""
FEWEST, ENOUGH_US = 3, 3e5
"""Rows of passes that take so long together, counted by the quickest, that no process beside them matters."""
ROOM = 1 / 4
"""The share of the free memory that inputs and results of passes in a row may take."""
MOST_KERNELS = 40
WAITS = ("cudaStreamSynchronize", "cudaEventSynchronize", "cudaDeviceSynchronize", "cudaMemcpy")


@dataclasses.dataclass(frozen=True)
class _Trace:
    kernels: tuple[tuple[str, float, float], ...]
    """(name, begin, end) in microseconds, in the order they began."""
    waits: int


def _events(profiler: Any) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    return events


def _traced(run: Any) -> _Trace:
    """`run` calls what it is given when the scored part begins."""
    from torch.profiler import ProfilerActivity, profile

    profiler = profile(activities=[ProfilerActivity.CUDA])

    def begin() -> None:
        torch.cuda.synchronize()
        profiler.start()

    run(begin)
    torch.cuda.synchronize()
    profiler.stop()
    events = _events(profiler)
    on_gpu = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    kernels = sorted(((str(e["name"])[:200], float(e["ts"]), float(e["ts"]) + float(e["dur"])) for e in on_gpu),
                     key=lambda kernel: kernel[1])  # fmt: skip
    waits = sum(e.get("cat") == "cuda_runtime" and e.get("name") in WAITS for e in events)
    return _Trace(tuple(kernels), waits)


def _busy(kernels: tuple[tuple[str, float, float], ...]) -> tuple[float, float]:
    """Time in which something runs, and time between the first and the last kernel in which nothing does."""
    busy, until = 0.0, float("-inf")
    for _, begin, end in kernels:
        busy += max(0.0, end - max(begin, until))
        until = max(until, end)
    return busy, max(0.0, until - kernels[0][1] - busy) if kernels else 0.0


def _nothing(begin: Any) -> None:
    begin()


def _row(op: Any, call: Call, contents: dict[str, Any], passes: int) -> float:
    """Microseconds from the end of the first pass to the end of the last."""
    first, others = (Passes(op, call, contents, number) for number in (1, passes - 1))
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    first.run()
    begin.record()
    others.run()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) * 1e3


def _in_a_row(op: Any, call: Call, contents: dict[str, Any], passes: int) -> float:
    """Microseconds of a pass when passes are asked for one right after another, as a training step asks: as long as the
    GPU works on one, or as the host takes to ask for one, if that is longer."""
    took = 2 * sum(tensor.untyped_storage().nbytes() for tensor in contents.values())
    most = max(2, min(passes + 1, int(ROOM * torch.cuda.mem_get_info()[0] / max(1, took))))
    _row(op, call, contents, most)  # from now on torch has the memory that the results need
    rows = list[float]()
    while len(rows) < ROWS and (len(rows) < FEWEST or len(rows) * min(rows) < ENOUGH_US):
        rows.append(_row(op, call, contents, most))
    return min(rows) / (most - 1)


def _looked(op: Any, call: Call, contents: dict[str, Any], passes: int, own_waits: int) -> Looked:
    traces = [_traced(lambda begin: run_pass(op, call, gpu_inputs.laid(call, contents), begin)) for _ in range(passes)]
    us: dict[str, float] = {}
    count: Counter[str] = Counter()
    for name, begin, end in (kernel for trace in traces for kernel in trace.kernels):
        us[name] = us.get(name, 0.0) + end - begin
        count[name] += 1
    busy = [_busy(trace.kernels) for trace in traces]
    wall = max(passes * _in_a_row(op, call, contents, passes), sum(one for one, _ in busy))
    longest = sorted(us, key=lambda name: -us[name])
    return Looked(
        case=call.case,
        passes=passes,
        wall_us=wall,
        busy_us=sum(one for one, _ in busy),
        gap_us=sum(gap for _, gap in busy),
        waits=sum(max(0, trace.waits - own_waits) for trace in traces),
        kernels=tuple(Worked(name, count[name], us[name]) for name in longest[:MOST_KERNELS]),
    )


def _marked(op: Any, call: Call, contents: dict[str, Any]) -> None:
    """Once, between the marks that a profiler outside waits for."""
    runtime = torch.cuda.cudart()

    def begin() -> None:
        torch.cuda.synchronize()
        runtime.cudaProfilerStart()

    run_pass(op, call, gpu_inputs.laid(call, contents), begin)
    torch.cuda.synchronize()
    runtime.cudaProfilerStop()


def look_job(op: Any, request: LookRequest, dispatched: tuple[Dispatched, ...] = ()) -> LookAnswer:
    fills = dict(request.fills)
    looks: list[Looked] = []
    if request.mode == "timeline":
        _traced(_nothing)  # the first one of a process is slow
    own_waits = _traced(_nothing).waits if request.mode == "timeline" else 0
    for call in request.cases:
        contents = gpu_inputs.drawn(call, fills)
        with tuning.pinned(request.pins):
            for _ in range(WARM):
                run_pass(op, call, gpu_inputs.laid(call, contents))
        torch.cuda.synchronize()
        if request.mode == "counters":
            _marked(op, call, contents)
        else:
            looks.append(_looked(op, call, contents, request.passes, own_waits))
        del contents
        torch.cuda.empty_cache()
    return LookAnswer(tuple(looks), dispatched=dispatched)
