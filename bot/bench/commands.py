"""Runs a command of the target: its tests, its style check. It is the target's code, so it is fenced in like the
rest."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bot.bench.clearing import clear
from bot.bench.gpu import Gpu
from bot.bench.launcher import Ended, Limits, run_process
from bot.bench.sandbox import Sandbox, find_sandbox, overlooking
from bot.model.finalization import CommandRun

OUTPUT_BYTES = 64 * 2**20
"""A verbose test run prints a few megabytes; a runaway one prints until somebody ends it."""
MEMORY_BYTES = 16 * 2**30
PROCESSES = 256
KEPT_OUTPUT = 6000
KEPT_SUMMARY = 300
KEPT_ERRORS = 5
WIDE = "400"
"""Columns of the terminal a command believes it has: pytest cuts the reasons of its summary to them."""
KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "TZ")
"""What a command inherits. No token, no address of a service, no cache of anybody else."""


def _environment(home: Path, extra: Mapping[str, str]) -> dict[str, str]:
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    return {
        **kept,
        "HOME": str(home),
        "TMPDIR": str(home),
        "XDG_CACHE_HOME": str(home / "cache"),
        "TRITON_CACHE_DIR": str(home / "triton"),
        "USER": "nobody",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_TERMINAL_PROMPT": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "COLUMNS": WIDE,
        **extra,
    }


def _kept_in(kernels: Path | None) -> dict[str, str]:
    return {"TRITON_CACHE_DIR": str(kernels), "TRITON_CACHE_AUTOTUNING": "1"} if kernels is not None else {}


def _summary(ended: Ended, deadline_s: float) -> str:
    match ended.stopped:
        case "deadline":
            return f"ended after {deadline_s:g} s, its deadline"
        case "output":
            return f"ended because it printed more than {OUTPUT_BYTES // 2**20} MiB"
        case "memory":
            return f"ended because it took more than {MEMORY_BYTES // 2**30} GiB"
        case "processes":
            return f"ended because it started more than {PROCESSES} processes"
        case "":
            lines = [line.strip() for line in ended.output.splitlines() if line.strip()]
            return _unruled(lines[-1])[:KEPT_SUMMARY] if lines else "printed nothing"


def _unruled(line: str) -> str:
    """Without the rule of `=` that pytest draws from edge to edge where it is as wide as told."""
    return line.strip("= ") or line


def _kept(output: str) -> str:
    """The end of it, and before that the first errors where they came earlier: of a hundred failures the end holds
    names alone."""
    before, end = output[:-KEPT_OUTPUT], output[-KEPT_OUTPUT:]
    errors = dict.fromkeys(line.strip() for line in before.splitlines() if line.startswith("E  "))
    first = [line[:KEPT_SUMMARY] for line in list(errors)[:KEPT_ERRORS]]
    return "\n".join([*first, "...", end]) if first else end


def run_command(
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    deadline_s: float,
    *,
    sandbox: Sandbox | None = None,
    gpu: Gpu | None = None,
    kernels: Path | None = None,
) -> CommandRun:
    """To its end or to its deadline. `env` and this GPU are all it gets beside a private home; it may write below `cwd`
    alone, and to `kernels`: what it compiles and tunes, for those that run the same code."""
    home = Path(tempfile.mkdtemp(prefix="kernelwright-home-"))
    try:
        # By its own name: there is no other GPU in there that a number could count.
        variables = {**_environment(home, env), **(gpu.environment if gpu is not None else {}), **_kept_in(kernels)}
        fence = sandbox or find_sandbox()
        folder = Path(cwd).absolute()
        writable = (folder, home) if kernels is None else (folder, home, kernels)
        confined = overlooking(fence, list(argv), writable, variables, folder, gpu.nodes if gpu is not None else ())
        limits = Limits(deadline_s, MEMORY_BYTES, PROCESSES, OUTPUT_BYTES)
        try:
            ended = run_process(confined, environment=variables, directory=Path(cwd), limits=limits)
        except OSError as error:
            ended = Ended(127, "", 0.0, f"{argv[0]}: {error.strerror}")
    finally:
        clear(home)
    return CommandRun(
        argv=tuple(argv),
        passed=ended.code == 0,
        exit_code=ended.code,
        seconds=round(ended.seconds, 3),
        summary=_summary(ended, deadline_s),
        output=_kept(ended.output),
    )
