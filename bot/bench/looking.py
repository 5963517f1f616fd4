"""Profiler evidence on the untouched kernel: timelines of all cases, and counters of the largest of each direction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bot.bench import ncu, overlay
from bot.bench.cell import (
    Around,
    Cells,
    Places,
    answer_of,
    answered,
    places,
    run_cell,
    start_afresh,
    watched_standby,
)
from bot.bench.checks import Laid
from bot.bench.clearing import clear
from bot.bench.kept_kernels import KeptKernels
from bot.bench.launcher import Limits
from bot.bench.nvidia_tool import Tool
from bot.bench.sandbox import Mount
from bot.bench.standby import Ready, Room
from bot.errors import OperatorError
from bot.model.measurement import Fault
from bot.model.profiling import Busy, Counters, Dispatch, Timeline
from bot.model.site import KernelSite
from bot.model.variant import SourceFile, sources_digest
from bot.worker.contract import REQUEST, Call, CasePlan, Plan, render
from bot.worker.contract.dispatching import is_sound
from bot.worker.contract.door import KERNELS
from bot.worker.contract.gpu import Choice
from bot.worker.contract.looking import LookAnswer, Looked, LookRequest

SECONDS, NCU_SECONDS = 45.0, 75.0
"""Of all timelines, and of all profiled cases; `--set full` of two kernels took 23 s on an H200."""
PASSES = 5
MOST_CASES = 24


@dataclass(frozen=True)
class Found:
    counters: Counters
    timelines: tuple[Timeline, ...] = ()
    asked: tuple[str, ...] = ()
    """The cases whose launches were profiled, in their order."""
    dispatch: tuple[Dispatch, ...] = ()


NO_GPU = Found(Counters(status="not_asked", detail="no GPU was there to be profiled"))


@dataclass(frozen=True)
class Scene:
    """What is profiled, laid out on disk."""

    cells: Cells
    site: KernelSite
    files: tuple[SourceFile, ...]
    folder: Path
    source: Path
    plan: Plan
    memory_bytes: int
    pins: tuple[Choice, ...] = ()
    kernels: KeptKernels | None = None

    def request_folder(self, name: str) -> Path:
        """For what one worker is asked, with what was compiled of these files before."""
        folder = self.folder / f"{name}-request"
        folder.mkdir()
        if self.kernels is not None:
            self.kernels.lay(sources_digest(self.files), folder / KERNELS)
        return folder


class Scenes:
    """Lays out what a bench has looked at, and takes it away again."""

    def __init__(
        self,
        cells: Cells,
        site: KernelSite,
        plan: Plan,
        memory_bytes: int,
        lay: Callable[[tuple[SourceFile, ...]], Laid],
        pins: Callable[[], tuple[Choice, ...]],
        kernels: KeptKernels,
    ) -> None:
        self._cells, self._site, self._plan, self._memory_bytes = cells, site, plan, memory_bytes
        self._lay, self._pins, self._kernels = lay, pins, kernels

    @contextmanager
    def of(self, files: tuple[SourceFile, ...]) -> Iterator[Scene]:
        laid, known = self._lay(files), (self._plan, self._memory_bytes, self._pins(), self._kernels)
        try:
            yield Scene(self._cells, self._site, files, laid.folder, laid.source, *known)
        finally:
            clear(laid.folder)


def _places(scene: Scene, name: str) -> Places:
    return places(scene.cells, f"{scene.folder.name}/{name}", scene.source, scene.request_folder(name))


def _request(scene: Scene, where: Places, cases: Sequence[Call], mode: Literal["timeline", "counters"]) -> LookRequest:
    subject = overlay.subject(scene.site, scene.files, scene.cells.sandbox.path_of(where.source))
    dispatches = scene.site.dispatches if mode == "timeline" else ()  # once is enough
    return LookRequest("look", subject, tuple(cases), scene.plan.fills, mode, PASSES, scene.pins, dispatches)


def _timeline(looked: Looked) -> Timeline:
    each = 1 / max(1, looked.passes)
    busy_us = min(looked.busy_us, looked.wall_us)
    kernels = tuple(
        Busy(kernel=one.kernel[:200], launches=round(one.launches * each), us=round(one.us * each, 3))
        for one in looked.kernels
    )
    return Timeline(
        case=looked.case,
        passes=looked.passes,
        wall_us=round(looked.wall_us * each, 3),
        busy_us=round(busy_us * each, 3),
        gap_us=round(min(looked.gap_us, looked.wall_us - busy_us) * each, 3),
        waits=round(looked.waits * each),
        kernels=kernels,
    )


def _dispatch(answer: LookAnswer, ops: Sequence[str]) -> tuple[Dispatch, ...]:
    """What the library said of what it was asked, in names; each op once, whatever else it says."""
    said = {one.op: one for one in answer.dispatched if is_sound(one)}
    found = (said[op] for op in dict.fromkeys(ops) if op in said)
    return tuple(Dispatch(op=one.op, by_itself=one.by_itself, judged=one.judged) for one in found)


def timelines(scene: Scene) -> tuple[tuple[Timeline, ...], tuple[Dispatch, ...]]:
    """With what the library would have run by itself. None of them where the worker did not answer, or with what cannot
    be: no campaign ends for want of a timeline."""
    where = _places(scene, "timeline")
    request = _request(scene, where, [case.call for case in scene.plan.cases[:MOST_CASES]], "timeline")
    answer = run_cell(scene.cells, where, request, LookAnswer, Limits(SECONDS, scene.memory_bytes), {})
    asked = {call.case for call in request.cases}
    if isinstance(answer, Fault):
        return (), ()
    dispatch = _dispatch(answer, request.dispatches)
    try:
        return tuple(_timeline(one) for one in answer.looks if one.case in asked), dispatch
    except ValueError:
        return (), dispatch


def largest(plan: Plan) -> list[Call]:
    """The case with most bytes of each direction: where a kernel's own limits show best. One that need not move any
    may launch nothing, and is asked for where there is no other at all."""
    best: dict[str, CasePlan] = {}
    for case in [case for case in plan.cases if case.minimum_bytes > 0] or plan.cases:
        known = best.get(case.call.direction)
        if known is None or case.minimum_bytes > known.minimum_bytes:
            best[case.call.direction] = case
    directions = [name for name in ("forward", "backward") if name in best]
    return [best[name].call for name in directions or best]


def _around(tool: Tool, answer: str, kernels: Sequence[str], *, by_name: bool) -> Around:
    argv = ncu.arguments(tool, f"{answer}/{ncu.LOG}", kernels, by_name=by_name)
    return Around(argv, (Mount(tool.home, str(tool.home)),))


def profiler_ahead(cells: Cells, kernels: Sequence[str], memory_bytes: int) -> Ready | None:
    """Nsight Compute around a worker that stands ready: to start both is half of what counters take. None where nothing
    would be asked, or nobody stands ready; who asks then starts afresh."""
    tool = ncu.find_tool() if cells.gpu is not None and True in cells.standby and kernels else None
    if tool is None or cells.gpu is None or ncu.unfit(tool, cells.gpu, ncu.is_sliced(cells.gpu)) is not None:
        return None
    room = Room(cells.scratch / "profiler")
    answer = cells.sandbox.path_of(answer_of(room))
    try:
        return watched_standby(cells, room, memory_bytes, _around(tool, answer, kernels, by_name=True))
    except OSError:
        return None


def _profiled(
    scene: Scene, kernels: Sequence[str], tool: Tool, name: str, *, by_name: bool, ready: Ready | None = None
) -> Counters:
    where = _places(scene, name)
    request = _request(scene, where, largest(scene.plan), "counters")
    (where.request.host / REQUEST).write_text(render(request), encoding="utf-8")
    limits = Limits(NCU_SECONDS, scene.memory_bytes)
    if ready is not None and ready.running.is_alive:
        ended = ready.carry_out(where.source.host, where.request.host, where.answer.host, limits)
    else:
        around = _around(tool, scene.cells.sandbox.path_of(where.answer), kernels, by_name=by_name)
        ended = start_afresh(scene.cells, where, limits, {}, scene.cells.gpu, around)
    found = ncu.read(where.answer.host / ncu.LOG, ended.output, tool)
    if found.status == "failed" and ended.stopped:
        return ncu.said("failed", f"Nsight Compute was ended: {ended.stopped}, after {ended.seconds:.0f} s", tool)
    if ncu.is_unknown_metric(ended.output) and found.status == "failed":
        return found
    answer = answered(where, ended, LookAnswer, limits)
    told = f"; {answer.kind}: {answer.detail}" if isinstance(answer, Fault) else ""
    return found.model_copy(update={"detail": f"{found.detail}{told}"[:400]})


def counters(scene: Scene, kernels: Sequence[str], ready: Ready | None = None) -> Counters:
    """All cases in one process, as most of its time is its start. What it read before one went wrong stands. `ready`:
    as `profiler_ahead` made it for these kernels."""
    gpu = scene.cells.gpu
    assert gpu is not None
    tool = ncu.find_tool()
    refused = ncu.unfit(tool, gpu, ncu.is_sliced(gpu))
    if refused is not None or tool is None:
        return refused or ncu.said("absent", "there is no Nsight Compute (ncu) on this machine")
    if not kernels:
        return ncu.said("nothing_launched", "no launch of a Triton kernel was recorded", tool)
    found = _profiled(scene, kernels, tool, "ncu", by_name=True, ready=ready)
    if found.status == "failed" and "metric" in found.detail:
        found = _profiled(scene, kernels, tool, "ncu-plain", by_name=False)
    return found


def look(
    scene: Scene, kernels: Sequence[str], clocked: Callable[[], None] = lambda: None, ready: Ready | None = None
) -> Found:
    """Both kinds of evidence. What goes wrong here is told and ends nothing. `clocked` is called when no clock runs any
    more: counters do not mind company on the host, its own time does."""
    seen: tuple[Timeline, ...] = ()
    dispatch: tuple[Dispatch, ...] = ()
    try:
        try:
            seen, dispatch = timelines(scene)
        finally:
            clocked()
        asked = tuple(call.case for call in largest(scene.plan))
        return Found(counters(scene, kernels, ready), seen, asked, dispatch)
    except (OperatorError, OSError, ValueError) as error:
        return Found(ncu.said("failed", str(error)[:300]), seen, dispatch=dispatch)
