"""Runs Nsight Compute around a worker. Whatever becomes of it is an answer in plain words; a campaign goes on."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from bot.analysis.symptoms import COUNTERS
from bot.bench.gpu import Gpu
from bot.bench.ncu_export import MOST_BYTES, Unreadable, parse
from bot.bench.nvidia_tool import Tool, first_of
from bot.model.profiling import Counters, KernelCounters

LOG = "ncu.csv"
PLACES = ("/opt/nvidia/nsight-compute/*/ncu", "/usr/local/cuda*/bin/ncu", "/usr/local/NVIDIA-Nsight-Compute*/ncu")
OLDEST = {"8": (2020, 1), "9": (2022, 3), "10": (2025, 1), "12": (2025, 1)}
"""The first version that knows a generation, by its major number: of the toolkit that first compiles for it (CUDA 11.0,
11.8 and 12.8; NVIDIA's release history of Nsight Compute, read 2026-11-22)."""
MOST_LAUNCHES = 48
"""Each is replayed some forty times for its counters."""
_NAME = re.compile(r"[A-Za-z_]\w{0,199}", re.ASCII)
WANTED = frozenset(alias for names in COUNTERS.values() for alias in names)
BY_NAME = tuple(sorted(name for name in WANTED if not name.startswith(("launch__", "device__"))))
"""What a launch is like comes with any other counter. A full set replays a kernel some forty times, and patches it."""


def is_whole(path: Path) -> bool:
    """Whether what it starts lies beside it."""
    return (path.resolve().parent / "target").is_dir()


def _candidates() -> Iterable[Path]:
    """What stands on the PATH first, but for CUDA's `ncu`: a script that looks for the program where a sandbox does not
    show it."""
    found = shutil.which("ncu")
    named = [Path(found)] if found else []
    yield from (path for path in named if is_whole(path))
    for pattern in PLACES:
        yield from sorted(Path("/").glob(pattern.lstrip("/")), reverse=True)
    yield from named


def find_tool() -> Tool | None:
    """The one on the PATH, else the newest where NVIDIA installs it."""
    return first_of(_candidates())


def is_sliced(gpu: Gpu) -> bool:
    """Whether it is cut into MIG slices: counters of a slice that shares its memory cannot be read."""
    return "MIG" in gpu.name.split()


def said(status: str, detail: str, tool: Tool | None = None, kernels: tuple[KernelCounters, ...] = ()) -> Counters:
    version = tool.shown if tool else ""
    return Counters.model_validate({"status": status, "detail": detail, "version": version, "kernels": kernels})


def unfit(tool: Tool | None, gpu: Gpu, sliced: bool) -> Counters | None:
    """Why nothing is even tried; None where it can be."""
    if sliced:
        return said("mig", f"{gpu.name} is cut into MIG slices, whose counters Nsight Compute does not read", tool)
    if tool is None:
        return said("absent", "there is no Nsight Compute (ncu) on this machine")
    oldest = OLDEST.get(gpu.arch.removeprefix("sm_")[:-1], (2020, 1))
    if tool.version < oldest:
        wanted = f"{oldest[0]}.{oldest[1]}"
        return said("too_old", f"Nsight Compute {tool.shown} does not know {gpu.arch}: {wanted} is the first", tool)
    return None


def arguments(tool: Tool, log: str, kernels: Iterable[str], *, by_name: bool) -> tuple[str, ...]:
    """What comes before the program. The clocks stay as they are, and only these kernels between the marks count.
    `by_name`: what is read of a profile and nothing else, in place of a set that every version has.

    The caches are emptied before each replay, as they are by other work where a kernel runs: what it reads of DRAM is
    then all it has to read. What it writes is not waited for, so up to an L2 cache of it is missing in DRAM's bytes.
    """
    names = sorted({name for name in kernels if _NAME.fullmatch(name)})
    return (
        str(tool.path),
        *("--clock-control", "none", "--cache-control", "all"),
        *("--target-processes", "all", "--profile-from-start", "off"),
        *(("--metrics", ",".join(BY_NAME)) if by_name else ("--set", "full")),
        *("--kernel-name-base", "function", "--kernel-name", f"regex:^({'|'.join(names)})$"),
        *("--launch-count", str(MOST_LAUNCHES), "--print-units", "base"),
        *("--csv", "--page", "raw", "--log-file", log),
    )


def is_unknown_metric(told: str) -> bool:
    return "Failed to find metric" in told


def outcome(told: str, tool: Tool) -> Counters:
    """What it means that there is no table. Its words decide, not its exit code: a filter that met nothing gives 0."""
    if "ERR_NVGPUCTRPERM" in told:
        return said(
            "no_permission", "this account may not read the GPU's performance counters (ERR_NVGPUCTRPERM)", tool
        )
    if "MIG" in told and "not supported" in told:
        return said("mig", "Nsight Compute does not read the counters of this MIG slice", tool)
    if "No kernels were profiled" in told:
        return said("nothing_launched", "the profiled passes launch none of the recorded kernels", tool)
    errors = [line.strip() for line in told.splitlines() if line.startswith("==ERROR==")]
    return said("failed", errors[0].removeprefix("==ERROR==").strip()[:300] if errors else "it left no table", tool)


def read(log: Path, told: str, tool: Tool) -> Counters:
    """What the profiler left, whichever way it ended."""
    try:
        text = log.read_bytes()[: MOST_BYTES + 1].decode("utf-8", errors="replace") if log.is_file() else ""
    except OSError:
        text = ""
    try:
        kernels = parse(text, WANTED)
    except Unreadable:
        return outcome(f"{told}\n{text}", tool)
    if not any(kernel.counters for kernel in kernels):
        return outcome(f"{told}\n{text}", tool)
    return said("read", f"{len(kernels)} launches, clocks as they were", tool, kernels)
