"""Reads one request, carries it out, writes one answer. Started by the bench as

    python -I -S -c ... bot.worker REQUEST_FOLDER ANSWER_FOLDER

in a sandbox, with this package, the target's site-packages and nothing else on the path.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Any

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


def _request(folder: Path) -> CheckRequest | CompileRequest:
    text = read_bytes(folder / REQUEST, MAX_MANIFEST)
    kind = json.loads(text).get("job")
    return parse(CheckRequest, text) if kind == "check" else parse(CompileRequest, text)


def _refused(request: CheckRequest | CompileRequest, kind: str, error: BaseException) -> CheckAnswer | CompileAnswer:
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = f" ({Path(last[0].filename).name}:{last[0].lineno})" if last else ""
    refusal = Refusal(kind, clip(f"{type(error).__name__}: {error}{where}"))
    if isinstance(request, CheckRequest):
        return CheckAnswer((), refusal=refusal)
    return CompileAnswer((), (), (), refusal=refusal)


def _check(request: CheckRequest, inputs: Path, outputs: Path) -> Any:
    from bot.worker import checking, device, interpreter
    from bot.worker.contract.arches import ARCHES
    from bot.worker.loading import load_op

    device.install(ARCHES[request.arch], checking.PROCESSORS)
    books = interpreter.install()
    op = load_op(request.subject)
    return lambda: checking.check(op, books, request, inputs, outputs)


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


def _carry_out(request: CheckRequest | CompileRequest, inputs: Path, outputs: Path) -> tuple[Any, int]:
    """(answer, exit code). Variant code may raise anything at all; only what it raises here is told as its fault."""
    import torch

    from bot.worker.loading import NotTheVariant, prove

    torch.set_num_threads(1)
    try:
        try:
            job = _check(request, inputs, outputs) if isinstance(request, CheckRequest) else _compile(request)
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


def main(arguments: list[str]) -> int:
    inputs, outputs = (Path(argument) for argument in arguments)
    try:
        request = _request(inputs)
    except (ContractError, ValueError) as error:
        print(error, file=sys.stderr)
        return Exit.BAD_REQUEST
    answer, code = _carry_out(request, inputs, outputs)
    write_text(outputs / ANSWER, render(answer))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
