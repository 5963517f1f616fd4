"""Packs a guest house into a folder of its own and says how it is started there.

Only the house travels: nothing of the bot is importable beside it, and the path is spelled out so that no .pth file
runs.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import bot
from bot.bench.interpreter import TargetPython

House = Literal["worker", "judge"]
_PACKAGE = Path(bot.__file__).parent
_PARTS: dict[House, tuple[str, ...]] = {
    "worker": ("worker",),
    "judge": ("judge", "worker/__init__.py", "worker/contract"),
}
ADDRESS_BYTES = 48 * 2**30
"""A CUDA build of torch maps ten times what it uses. CPU stages only: a GPU reserves more address space than any
limit."""
FILE_BYTES = 512 * 2**20

# Limits are set before anything of the target is imported; hard ones cannot be raised again without a capability.
_START = """
import resource, runpy, sys
for kind, limit in {limits}:
    resource.setrlimit(kind, (limit, limit))
sys.path[:0] = [{suitcase!r}]
sys.path += {libraries!r}
sys.argv = ["bot." + sys.argv[1], *sys.argv[2:]]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def pack(house: House, folder: Path) -> None:
    """Copy the house, and the one file that makes `bot` a package."""
    target = folder / "bot"
    target.mkdir(parents=True)
    shutil.copy(_PACKAGE / "__init__.py", target)
    for part in _PARTS[house]:
        source = _PACKAGE / part
        if source.is_dir():
            shutil.copytree(source, target / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            (target / part).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target / part)


def _limits(memory_bytes: int, *, on_gpu: bool) -> str:
    """With a GPU the memory watchdog has to be enough: the driver reserves more address space than any limit."""
    import resource

    memory = () if on_gpu else ((resource.RLIMIT_AS, ADDRESS_BYTES), (resource.RLIMIT_DATA, memory_bytes))
    pairs = (
        *memory,
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    )
    return repr(tuple((int(kind), limit) for kind, limit in pairs))


def command(
    python: TargetPython,
    house: House,
    suitcase: str,
    arguments: tuple[str, ...],
    memory_bytes: int,
    *,
    on_gpu: bool = False,
) -> list[str]:
    libraries = [str(path) for path in python.libraries]
    start = _START.format(limits=_limits(memory_bytes, on_gpu=on_gpu), suitcase=suitcase, libraries=libraries)
    # -I leaves every PYTHON variable unread: what a worker imports would leave bytecode beside its source.
    flags = ("-I", "-S", "-B") if house == "worker" else ("-I", "-S")
    return [str(python.executable), *flags, "-c", start, house, *arguments]


def environment(home: str, extra: Mapping[str, str]) -> dict[str, str]:
    """All that a guest house knows of the world. One thread a process: the bench runs several side by side."""
    return {
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "USER": "nobody",
        "HOME": home,
        "TMPDIR": home,
        "TRITON_CACHE_DIR": os.path.join(home, "triton"),  # noqa: PTH118 - a path inside the sandbox
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        **extra,
    }
