"""What every variant of an op launches on a GPU of some architecture, recorded without one. Prints it as JSON."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

from bot.judge.plan import call_of
from bot.judge.recipes import RECIPES
from bot.targets.suites import suite_of
from bot.worker import device
from bot.worker.contract import ARCHES, Call, Shape
from bot.worker.recorder import Recorder


def calls(kernel: str) -> list[Call]:
    """The first case of each pass and each gradient, and the last."""
    recipe, cases = RECIPES[kernel], suite_of(kernel).cases
    shapes = [Shape(c.id, c.direction, c.shape, c.dtype, c.grad) for c in (*cases, *reversed(cases))]
    few = {(shape.direction, shape.grad, at >= len(cases)): shape for at, shape in reversed(list(enumerate(shapes)))}
    return [call_of(recipe, shape, recipe.stock, shape.id) for shape in few.values()]


def op_of(file: Path, name: str, package: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"{package}.{file.stem}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return getattr(module, name)


def launched(recorder: Recorder, op: Any, kernel: str) -> list[Any]:
    """An op that refuses a block that its row does not fit says so by an error, as it should."""
    found: list[Any] = []
    for call in calls(kernel):
        try:
            case, _ = recorder.record(op, call)
        except RuntimeError as error:
            found.append((call.id, str(error)))
            continue
        found += [
            (call.id, one.kernel, one.grid, one.num_warps, one.num_stages, one.constants) for one in case.launches
        ]
    return found


def main(arch: str, folder: Path) -> None:
    recorder = Recorder(folder, ARCHES[arch])
    device.install(ARCHES[arch], ARCHES[arch].processors)
    recorder.install()
    told = {}
    for file, (kernel, name, package) in json.loads((folder / "ops.json").read_text()).items():
        told[file] = launched(recorder, op_of(folder / file, name, package), kernel)
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
