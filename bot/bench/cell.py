"""One worker in its cell: a request goes in, a checked answer or a fault comes out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar, get_args

from bot.bench.clearing import clear
from bot.bench.gpu import Gpu
from bot.bench.interpreter import TargetPython
from bot.bench.launcher import Ended, Limits, Running, run_process, signal_of
from bot.bench.nursery import Nursery
from bot.bench.sandbox import Mount, Sandbox, confined
from bot.bench.standby import Ready, Room, Standby
from bot.bench.suitcase import command, environment
from bot.model.measurement import Fault
from bot.worker.contract import (
    ANSWER,
    MAX_MANIFEST,
    REQUEST,
    CheckAnswer,
    CheckRequest,
    CompileAnswer,
    CompileRequest,
    ContractError,
    Exit,
    Refusal,
    clip,
    parse,
    read_bytes,
    render,
)
from bot.worker.contract.door import WAIT
from bot.worker.contract.gpu import GpuAnswer, GpuRequest
from bot.worker.contract.harvest import HarvestAnswer
from bot.worker.contract.hosting import HostAnswer
from bot.worker.contract.looking import LookAnswer, LookRequest
from bot.worker.contract.several import RecordAnswer, RecordRequest
from bot.worker.contract.under_compile import UnderCompileRequest

INSIDE = "/cell"
BESIDE = f"{INSIDE}/beside"
A = TypeVar("A", CheckAnswer, CompileAnswer, GpuAnswer, HarvestAnswer, HostAnswer, LookAnswer, RecordAnswer)
KINDS = get_args(Fault.model_fields["kind"].annotation)


@dataclass(frozen=True)
class Cells:
    """How every worker of a bench is housed."""

    python: TargetPython
    sandbox: Sandbox
    suitcase: Path
    scratch: Path
    gpu: Gpu | None = None
    """Shown to the workers that need one."""
    nursery: Nursery | None = None
    """Where workers are forked from; without one, each starts afresh."""
    standby: Mapping[bool, Standby] = field(default_factory=dict)
    """Workers that stand ready: those with the GPU, and those without."""


@dataclass(frozen=True)
class Around:
    """A program that starts the worker and watches it, such as a profiler."""

    argv: tuple[str, ...]
    mounts: tuple[Mount, ...] = ()


BARE = Around(())


@dataclass(frozen=True)
class Places:
    """The folders of one worker."""

    source: Mount
    request: Mount
    answer: Mount
    home: Path

    @property
    def mounts(self) -> tuple[Mount, ...]:
        return (self.source, self.request, self.answer)


def places(cells: Cells, name: str, source: Path, request: Path) -> Places:
    answer, home = cells.scratch / name / "answer", cells.scratch / name / "home"
    for folder in (answer, home):
        clear(folder)
        folder.mkdir(parents=True)
    return Places(
        Mount(source, f"{INSIDE}/source"),
        Mount(request, f"{INSIDE}/request"),
        Mount(answer, f"{INSIDE}/answer", writable=True),
        home,
    )


def _libraries(python: TargetPython) -> tuple[Mount, ...]:
    return tuple(Mount(path, str(path)) for path in (*python.roots, *python.libraries) if str(path) != "/usr")


def fault_of(refusal: Refusal) -> Fault:
    if refusal.kind not in KINDS:
        return Fault(kind="protocol", detail=f"an unknown kind of refusal: {refusal.kind[:40]!r}")
    return Fault.model_validate({"kind": refusal.kind, "detail": clip(refusal.detail)})


def _stopped(ended: Ended, limits: Limits) -> Fault | None:
    match ended.stopped:
        case "deadline":
            return Fault(kind="run_timeout", detail=f"did not finish within {limits.seconds:g} s")
        case "memory":
            return Fault(kind="memory", detail=f"took more than {limits.memory_bytes // 2**20} MiB")
        case "processes":
            return Fault(kind="crashed", detail=f"started more than {limits.processes} processes")
        case "output":
            return Fault(kind="protocol", detail=f"printed more than {limits.output_bytes // 2**10} KiB")
        case "":
            return None


def _died(ended: Ended) -> Fault:
    last = ended.output.strip()[-300:]
    if name := signal_of(ended.code or 0):
        return Fault(kind="crashed", detail=clip(f"ended by {name}: {last}" if last else f"ended by {name}"))
    if ended.code == Exit.OUT_OF_MEMORY or "MemoryError" in last or "bad_alloc" in last:
        return Fault(kind="memory", detail=clip(f"ran out of memory: {last}"))
    if ended.code == Exit.OK:
        return Fault(kind="protocol", detail="ended without an answer")
    return Fault(kind="crashed", detail=clip(f"exit code {ended.code}: {last}"))


def _argv(
    cells: Cells,
    where: Places,
    memory_bytes: int,
    variables: dict[str, str],
    gpu: Gpu | None,
    around: Around,
    *,
    first: tuple[str, ...] = (),
) -> list[str]:
    sandbox = cells.sandbox
    suitcase = Mount(cells.suitcase, f"{INSIDE}/suitcase")
    folders = (sandbox.path_of(where.request), sandbox.path_of(where.answer))
    argv = command(
        cells.python, "worker", sandbox.path_of(suitcase), (*first, *folders), memory_bytes, on_gpu=gpu is not None
    )
    mounts = (*_libraries(cells.python), suitcase, *where.mounts, *around.mounts)
    nodes = gpu.nodes if gpu is not None else ()
    return confined(sandbox, [*around.argv, *argv], mounts, variables, variables["HOME"], nodes)


def _variables(cells: Cells, where: Places, extra: Mapping[str, str], gpu: Gpu | None) -> dict[str, str]:
    home = "/tmp" if cells.sandbox.is_strong else str(where.home)
    return environment(home, {**extra, **(gpu.environment if gpu is not None else {})})


def start_afresh(
    cells: Cells, where: Places, limits: Limits, extra: dict[str, str], gpu: Gpu | None, around: Around = BARE
) -> Ended:
    variables = _variables(cells, where, extra, gpu)
    argv = _argv(cells, where, limits.memory_bytes, variables, gpu, around)
    return run_process(argv, environment=variables, directory=where.home, limits=limits)


def answer_of(room: Room) -> Mount:
    return Mount(room.answer, f"{INSIDE}/answer", writable=True)


def _waiting_in(
    room: Room, cells: Cells, memory_bytes: int, gpu: Gpu | None, around: Around, extra: dict[str, str] | None = None
) -> Running:
    source, request = Mount(room.source, f"{INSIDE}/source"), Mount(room.request, f"{INSIDE}/request")
    where = Places(source, request, answer_of(room), room.home)
    variables = _variables(cells, where, extra or {}, gpu)
    argv = _argv(cells, where, memory_bytes, variables, gpu, around, first=(WAIT,))
    return Running(argv, environment=variables, directory=room.home)


def watched_standby(
    cells: Cells, room: Room, memory_bytes: int, around: Around, extra: dict[str, str] | None = None
) -> Ready:
    """One worker that stands ready inside a program that watches it, and would watch its forks as well: it compiles
    nothing ahead."""
    room.make()
    cells.standby[True].tell(room, compiles=False)
    return Ready(room, _waiting_in(room, cells, memory_bytes, cells.gpu, around, extra))


def with_standby(cells: Cells, memory_bytes: int, *, most: int | None = None) -> Cells:
    """The same, with workers that can stand ready, several with the GPU and one without; none was started yet."""

    def starting(gpu: Gpu | None) -> Callable[[Room], Running]:
        def start(room: Room) -> Running:
            return _waiting_in(room, cells, memory_bytes, gpu, Around((), (Mount(room.beside, BESIDE),)))

        return start

    arch = cells.gpu.arch if cells.gpu is not None else ""
    standby = {False: Standby(cells.scratch / "without", starting(None), 1, arch)}
    if cells.gpu is not None:
        standby[True] = Standby(cells.scratch / "with-gpu", starting(cells.gpu), most, arch)
    return dataclasses.replace(cells, standby=standby)


def start(
    cells: Cells, where: Places, limits: Limits, extra: dict[str, str], gpu: Gpu | None, beside: Path | None = None
) -> Ended:
    """By one that stands ready, where there is one."""
    standby = cells.standby.get(gpu is not None) if not extra else None
    ready = standby.take() if standby is not None else None
    if ready is not None:
        return ready.carry_out(where.source.host, where.request.host, where.answer.host, limits, beside=beside)
    mounts = (Mount(beside, BESIDE),) if beside is not None else ()
    return start_afresh(cells, where, limits, extra, gpu, Around((), mounts))


def run_cell(
    cells: Cells,
    where: Places,
    request: CheckRequest | CompileRequest | GpuRequest | LookRequest | RecordRequest | UnderCompileRequest,
    kind: type[A],
    limits: Limits,
    extra: dict[str, str],
) -> A | Fault:
    """Carry out one request. Whatever the variant does in there, the result is an answer or a fault."""
    (where.request.host / REQUEST).write_text(render(request), encoding="utf-8")
    on_gpu = isinstance(request, GpuRequest | LookRequest | RecordRequest | UnderCompileRequest)
    if cells.nursery is not None and not on_gpu:
        variables = environment(str(where.home), extra)
        request_folder, answer_folder = where.request.host, where.answer.host
        ended = cells.nursery.run(
            request_folder, answer_folder, environment=variables, directory=where.home, limits=limits
        )
    else:
        ended = start(cells, where, limits, extra, cells.gpu if on_gpu else None)
    if isinstance(request, GpuRequest):  # the first is the untouched kernel's
        for standby in cells.standby.values():
            standby.learn(where.answer.host)
    answer = answered(where, ended, kind, limits)
    if isinstance(answer, Fault) and answer.kind == "run_timeout" and isinstance(request, GpuRequest):
        return _with_what_was_left(answer, request, where.answer.host)
    return answer


def _with_what_was_left(fault: Fault, request: GpuRequest, answer: Path) -> Fault:
    """Who is late says with what. By their names, which say nothing of how large they are: who could tell that would
    only have to be late to be told."""
    checks = request.checks
    left = [call.case for call in checks if not (answer / f"{call.id}-{call.turns - 1}.bin").exists()]
    if not checks:
        return fault
    said = f"{len(left)} of {len(checks)} checks were not done, {left[0]} first" if left else "all checks were done"
    return fault.model_copy(update={"detail": clip(f"{fault.detail}: {said}")})


def answered(where: Places, ended: Ended, kind: type[A], limits: Limits) -> A | Fault:
    """What a worker that has ended left behind."""
    if (fault := _stopped(ended, limits)) is not None:
        return fault
    try:
        answer = parse(kind, read_bytes(where.answer.host / ANSWER, MAX_MANIFEST))
    except ContractError as error:
        if ended.code == Exit.OK and (where.answer.host / ANSWER).exists():
            return Fault(kind="protocol", detail=clip(str(error)))
        return _died(ended)
    if answer.refusal is not None:
        return fault_of(answer.refusal)
    return answer if ended.code == Exit.OK else _died(ended)
