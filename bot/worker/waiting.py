"""A worker that was started before it is needed: it imports libraries, compiles a kernel that nobody needs, touches no
GPU, and waits for its request."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import time
from pathlib import Path
from types import ModuleType

from bot.worker.contract import MAX_MANIFEST, REQUEST, read_bytes, write_text
from bot.worker.contract.arches import ARCHES
from bot.worker.contract.door import IMPORTED, TO_COMPILE_FOR, TO_IMPORT

LOOK_EVERY_S = 0.005
ASKS_NVML = "PYTORCH_NVML_BASED_CUDA_CHECK"
"""While it is set, torch finds out whether there is a GPU without the driver, which no fork survives."""
DRIVER = "/dev/nvidia-uvm"


class HasNothingToDo(Exception):
    """Who started it is gone, or it is no good any more."""


def _touched() -> bool:
    """Whether something that was imported woke the driver."""
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if str(entry.readlink()).startswith(DRIVER):
                return True
    return False


def _import(names: list[str]) -> None:
    for name in names:
        with contextlib.suppress(Exception):  # a name that torch made up, or one that is not there any more
            importlib.import_module(name)


def _warm_up(place: Path) -> None:
    """A machine that cannot says so when it is asked."""
    with contextlib.suppress(Exception):
        number = ARCHES[read_bytes(place, MAX_MANIFEST).decode("ascii")].number
        if isinstance(number, int):
            from bot.worker import warming

            warming.warm_up_for(number)


def wait(request: Path) -> None:
    """Until the request is there."""
    parent = os.getppid()
    os.environ[ASKS_NVML] = "1"
    try:
        _import(read_bytes(request / TO_IMPORT, MAX_MANIFEST).decode("ascii").split())
        _warm_up(request / TO_COMPILE_FOR)
    finally:
        del os.environ[ASKS_NVML]
    if _touched():
        raise HasNothingToDo
    while not (request / REQUEST).exists():
        if os.getppid() != parent:
            raise HasNothingToDo
        time.sleep(LOOK_EVERY_S)


def _is_library(name: str, root: str) -> bool:
    """torch hangs objects of its own among the modules, and what those answer is anybody's guess."""
    module = sys.modules.get(name)
    if name.split(".")[0] in ("bot", "__main__") or not isinstance(module, ModuleType):
        return False
    places = [getattr(module, "__file__", None), *(getattr(module.__spec__, "submodule_search_locations", None) or ())]
    return not any(isinstance(place, str) and place.startswith(root) for place in places)


def tell_imported(root: Path, outputs: Path) -> None:
    """What an op takes along, in the order in which it came. Who cannot tell it works all the same."""
    with contextlib.suppress(Exception):
        names = [name for name in sys.modules if name.isascii() and _is_library(name, str(root))]
        write_text(outputs / IMPORTED, "\n".join(names))
