"""Reads one request, carries it out, writes one answer. Started by the bench as

    python -I -S -c ... bot.worker REQUEST_FOLDER ANSWER_FOLDER

in a sandbox, with this package, the target's site-packages and nothing else on the path.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from pathlib import Path
from typing import Any, cast

from bot.worker import nursery
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
    write_text,
)
from bot.worker.contract.door import KERNELS, WAIT
from bot.worker.contract.gpu import GpuAnswer, GpuRequest
from bot.worker.contract.harvest import HarvestAnswer, HarvestRequest
from bot.worker.contract.hosting import HostAnswer, HostRequest
from bot.worker.contract.looking import LookAnswer, LookRequest
from bot.worker.contract.several import RecordAnswer, RecordRequest
from bot.worker.contract.under_compile import UnderCompileRequest

OfOne = CheckRequest | CompileRequest | GpuRequest | HarvestRequest | HostRequest | LookRequest | UnderCompileRequest
Request = OfOne | RecordRequest
OURS = Path(__file__).parent
"""Where files of ours lie."""
Answer = CheckAnswer | CompileAnswer | GpuAnswer | HarvestAnswer | HostAnswer | LookAnswer | RecordAnswer
_REQUESTS: dict[str, Any] = {
    "check": CheckRequest,
    "compile": CompileRequest,
    "gpu": GpuRequest,
    "harvest": HarvestRequest,
    "host": HostRequest,
    "look": LookRequest,
    "record": RecordRequest,
    "under_compile": UnderCompileRequest,
}


def _request(folder: Path) -> Request:
    text = read_bytes(folder / REQUEST, MAX_MANIFEST)
    kind = _REQUESTS.get(str(json.loads(text).get("job")), CompileRequest)
    return cast(Request, parse(kind, text))


def told(error: BaseException, root: Path) -> str:
    """What was raised, and the line of the library that led to it, by its file's path below the import root. Whoever
    has to mend it learns nothing from a file of ours; an error of grammar says by itself where it is."""
    said = str(error)
    frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and isinstance(error.filename, str) and error.lineno is not None:
        said, frames = error.msg, [(str(root / error.filename), error.lineno)]
    theirs = [(Path(file).relative_to(root), line) for file, line in frames if Path(file).is_relative_to(root)]
    others = [(Path(file).name, line) for file, line in frames[-1:] if not Path(file).is_relative_to(OURS)]
    place = (theirs or others)[-1:]
    return f"{type(error).__name__}: {said}" + "".join(f" ({file}:{line})" for file, line in place)


def _refused(request: Request, kind: str, error: BaseException) -> Answer:
    root = OURS if isinstance(request, RecordRequest) else Path(request.subject.root)
    refusal = Refusal(kind, clip(told(error, root)))
    if isinstance(request, CheckRequest):
        return CheckAnswer((), refusal=refusal)
    if isinstance(request, (GpuRequest, UnderCompileRequest)):
        return GpuAnswer((), (), refusal=refusal)
    if isinstance(request, HarvestRequest):
        return HarvestAnswer((), (), refusal=refusal)
    if isinstance(request, HostRequest):
        return HostAnswer(refusal)
    if isinstance(request, LookRequest):
        return LookAnswer((), refusal=refusal)
    if isinstance(request, RecordRequest):
        return RecordAnswer((), refusal=refusal)
    return CompileAnswer((), (), (), refusal=refusal)


def _check(request: CheckRequest, inputs: Path, outputs: Path) -> Any:
    from bot.worker import checking, device, interpreter, manners
    from bot.worker.contract.arches import ARCHES
    from bot.worker.loading import load_op

    device.install(ARCHES[request.arch], checking.PROCESSORS)
    books = interpreter.install()
    switches = manners.switches()
    op = load_op(request.subject)
    return lambda: checking.check(op, books, request, inputs, outputs, switches)


def _compile(request: CompileRequest) -> Any:
    from bot.worker import compiling, device
    from bot.worker.contract.arches import ARCHES
    from bot.worker.loading import load_op
    from bot.worker.recorder import Recorder

    arch = ARCHES[request.arch]
    driver = device.install(arch, arch.processors)
    recorder = Recorder(Path(request.subject.root), arch)
    recorder.install()
    op = load_op(request.subject)
    return lambda: compiling.compile_job(op, recorder, driver, request)


def _gpu(request: GpuRequest, inputs: Path, outputs: Path) -> Any:
    import torch

    from bot.worker import gpu_job, manners
    from bot.worker.loading import load_op
    from bot.worker.waiting import tell_imported

    marks = [("asked", time.monotonic())]
    torch.empty(1, device="cuda")  # whoever comes first makes the context
    marks.append(("context", time.monotonic()))
    switches = manners.switches()
    op = load_op(request.subject)
    marks.append(("imported", time.monotonic()))
    if request.cases and request.recorders:  # one of several that share a request tells it for all
        tell_imported(Path(request.subject.root), outputs)
    return lambda: gpu_job.gpu_job(op, request, inputs, outputs, switches, marks)


def _harvest(request: HarvestRequest) -> Any:
    from bot.worker import harvesting
    from bot.worker.loading import load_op

    harvesting.prepare(request)
    op = load_op(request.subject)
    return lambda: harvesting.harvest(op, request)


def _host(request: HostRequest, inputs: Path, outputs: Path) -> Any:
    import torch

    from bot.worker import hosting, kept_kernels
    from bot.worker.loading import load_op

    line = hosting.Line(outputs, request.arm)
    if not hosting.wait_to_begin(line):
        return HostAnswer
    kept_kernels.find_beside(inputs, f"{KERNELS}-{request.arm}")
    torch.cuda.init()
    op = load_op(request.subject)
    return lambda: hosting.serve(op, request, line)


def _look(request: LookRequest, inputs: Path) -> Any:
    import torch

    from bot.worker import kept_kernels, looking
    from bot.worker.loading import load_and_ask

    kept_kernels.find_beside(inputs)
    torch.cuda.init()
    op, dispatched = load_and_ask(request.subject, request.dispatches)
    return lambda: looking.look_job(op, request, dispatched)


def _under_compile(request: UnderCompileRequest, inputs: Path, outputs: Path) -> Any:
    import torch

    from bot.worker import under_compile
    from bot.worker.loading import load_op

    torch.cuda.init()
    op = load_op(request.subject)
    return lambda: under_compile.checks(op, request, inputs, outputs)


def _job(request: OfOne, inputs: Path, outputs: Path) -> Any:
    if isinstance(request, CheckRequest):
        return _check(request, inputs, outputs)
    if isinstance(request, HarvestRequest):
        return _harvest(request)
    if isinstance(request, HostRequest):
        return _host(request, inputs, outputs)
    if isinstance(request, LookRequest):
        return _look(request, inputs)
    if isinstance(request, UnderCompileRequest):
        return _under_compile(request, inputs, outputs)
    return _gpu(request, inputs, outputs) if isinstance(request, GpuRequest) else _compile(request)


def _carry_out(request: OfOne, inputs: Path, outputs: Path) -> tuple[Any, int]:
    """(answer, exit code). Variant code may raise anything at all; only what it raises here is told as its fault."""
    import torch

    from bot.worker.loading import NotTheVariant, prove

    torch.set_num_threads(1)
    try:
        try:
            job = _job(request, inputs, outputs)
        except MemoryError:
            raise
        except NotTheVariant as error:
            return _refused(request, "protocol", error), Exit.NOT_THE_VARIANT
        except (Exception, SystemExit) as error:
            return _refused(request, "import_failed", error), Exit.IMPORT_FAILED
        try:
            answer = job()
            prove(Path(request.subject.root), request.subject.files)
        except MemoryError:
            raise
        except NotTheVariant as error:
            return _refused(request, "protocol", error), Exit.NOT_THE_VARIANT
        except (Exception, SystemExit) as error:
            return _refused(request, "crashed", error), Exit.OK
    except MemoryError as error:
        return _refused(request, "memory", error), Exit.OUT_OF_MEMORY
    return answer, Exit.OK


def _all_of(request: Request, inputs: Path, outputs: Path) -> tuple[Any, int]:
    if isinstance(request, HostRequest):
        from bot.worker import hosting

        return hosting.carry_out(request, lambda share: _carry_out(share, inputs, outputs), outputs)
    if isinstance(request, RecordRequest):
        from bot.worker import several

        return several.carry_out(request, lambda share, place: _carry_out(share, inputs, place), outputs), Exit.OK
    if not isinstance(request, GpuRequest):
        return _carry_out(request, inputs, outputs)
    from bot.worker import kept_kernels, shares

    if request.cases and not request.brief:
        kept_kernels.keep(outputs)
    return shares.carry_out(request, lambda share: _carry_out(share, inputs, outputs), outputs)


def _served(arguments: list[str]) -> tuple[int, bool]:
    """Its exit code, and whether a tool around it may watch for how it ends."""
    if arguments[0] == "--nursery":
        return nursery.main(arguments[1:], main), False
    if arguments[0] == WAIT:
        from bot.worker import waiting

        arguments = arguments[1:]
        try:
            waiting.wait(Path(arguments[0]))
        except waiting.HasNothingToDo:
            return Exit.BAD_REQUEST, False
    inputs, outputs = (Path(argument) for argument in arguments)
    try:
        request = _request(inputs)
    except (ContractError, ValueError) as error:
        print(error, file=sys.stderr)
        return Exit.BAD_REQUEST, False
    answer, code = _all_of(request, inputs, outputs)
    write_text(outputs / ANSWER, render(answer))
    return code, isinstance(request, LookRequest) and request.mode == "counters"


def main(arguments: list[str]) -> int:
    return _served(arguments)[0]


if __name__ == "__main__":
    ended, is_watched = _served(sys.argv[1:])
    if not is_watched:  # what an interpreter does at its end takes torch a second, and nobody waits for it
        nursery.leave(lambda: ended)
    sys.exit(ended)
