"""The scripts beside the results, as modules: what wrote a table can be asked again."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

RESULTS = Path(__file__).resolve().parents[2] / "docs/results/h200"


def script(folder: str, name: str = "table") -> ModuleType:
    called = f"{Path(folder).name}_{name}"
    spec = importlib.util.spec_from_file_location(called, RESULTS / folder / f"{name}.py")
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[called] = found  # frozen types ask for the module they stand in
    spec.loader.exec_module(found)
    return found
