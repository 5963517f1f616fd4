"""Kernels compiled for a chip that is not there. Does what each word says, and prints where what it compiled lies."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.cache import get_cache_manager

from bot.worker import kept_kernels, warming

LAUNCHERS = "1a" * 32
"""The key under which Triton keeps what it has a C compiler build."""


def _kernel(file: str) -> Any:
    """Of a file, which may hold another text under the same name; or the one that everybody compiles first."""
    if not file:
        return warming._tiny_kernel
    spec = importlib.util.spec_from_file_location("op", file)
    assert spec is not None and spec.loader is not None
    op = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(op)
    return op.kernel


def _lies(file: str, block: int) -> list[str]:
    """The folders in which caches keep it: one, if all of it lies in one."""
    signature = {"pointer": "*fp32", "size": "i32", "BLOCK": "constexpr"}
    source = ASTSource(_kernel(file), signature, {(2,): block})
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32))
    assert compiled.asm["cubin"]
    return sorted({str(Path(path).parents[1]) for path in compiled.metadata_group.values()})


def _warmed() -> list[str]:
    """The kernels that it left, and whoever it left behind."""
    warming.warm_up_for(90)
    left = sorted(path.name for path in Path(knobs.cache.dir).rglob("*.cubin"))
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return left
    return [*left, "a child"]


def main(words: list[str]) -> None:
    told: list[list[str]] = []
    for word in words:
        what, _, about = word.partition("=")
        if what == "warm_up":
            told.append(_warmed())
        elif what == "keep":
            kept_kernels.keep(Path(about))
        elif what == "beside":
            kept_kernels.find_beside(Path(about))
        elif what == "build":
            get_cache_manager(LAUNCHERS).put(b"built", about)
        elif what == "find":
            built = get_cache_manager(LAUNCHERS).get_file(about)
            told.append([str(Path(built).parents[1])] if built else [])
        elif what == "compile":
            file, _, block = about.partition(":")
            told.append(_lies(file, int(block)))
    manager = knobs.cache.manager_class
    json.dump({"told": told, "manager": manager and manager.__name__}, sys.stdout)
    print()


if __name__ == "__main__":
    main(sys.argv[1:])
