"""What doctor looks at on a machine: one short function a probe, and the table of them. Nothing is set or installed."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from bot.bench.gpu import ASK_SECONDS, Gpu, find_gpus, why_none
from bot.bench.interpreter import TargetPython, look_at
from bot.bench.sandbox import Sandbox, find_sandbox
from bot.errors import OperatorError
from bot.hardware.catalog import Device, faults, for_device, mixed
from bot.model.health import Health, Probe, missing, not_checked, ok, warning

ENOUGH_GIB = 20.0
"""A clone, the compile caches of a campaign and its inputs."""
LEAST_GIB = 5.0
PARAMETERS = Path("/proc/driver/nvidia/params")
COUNTERS = "RmProfilingAdminOnly"
DRAWING = ("matplotlib", "PIL", "pandas")
NO_GPU = "there is no GPU here"
ON_RUNNER = "run `kernelwright doctor --runner` on the GPU runner"
PERSISTENT = "persistence_mode"
SLOWED = ("clocks_throttle_reasons.hw_slowdown", "clocks_throttle_reasons.sw_thermal_slowdown")


class Machine(Protocol):
    """The door to this machine. Its twin in memory is in tests/bench/test_probes.py."""

    def gpus(self) -> tuple[Gpu, ...]: ...

    def ask_gpu(self, uuid: str, *fields: str) -> Mapping[str, str] | None:
        """What nvidia-smi says of these fields; None when it does not know them."""

    def others_on(self, uuid: str) -> tuple[str, ...]:
        """Programs that compute there now."""

    def driver_parameters(self) -> str | None:
        """The driver's own table; None where there is none."""

    def is_admin(self) -> bool: ...

    def sandbox(self) -> Sandbox: ...

    def program(self, name: str) -> str | None:
        """First line of what `name --version` prints; None when there is no such program."""

    def free_gib(self) -> float:
        """Where jobs work."""

    def has(self, module: str) -> bool:
        """Whether this Python could import it."""

    def target(self, python: str) -> TargetPython:
        """OperatorError when it lacks something."""


class ThisMachine:
    """As it is."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch

    def gpus(self) -> tuple[Gpu, ...]:
        return find_gpus()

    def _smi(self, *arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["nvidia-smi", *arguments, "--format=csv,noheader,nounits"],
                capture_output=True,
                text=True,
                timeout=ASK_SECONDS,
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout

    def ask_gpu(self, uuid: str, *fields: str) -> Mapping[str, str] | None:
        said = self._smi(f"--id={uuid}", f"--query-gpu={','.join(fields)}")
        values = [part.strip() for part in (said or "").partition("\n")[0].split(",")]
        return dict(zip(fields, values, strict=True)) if len(values) == len(fields) and any(values) else None

    def others_on(self, uuid: str) -> tuple[str, ...]:
        said = self._smi(f"--id={uuid}", "--query-compute-apps=process_name") or ""
        return tuple(line.strip() for line in said.splitlines() if line.strip())

    def driver_parameters(self) -> str | None:
        try:
            return PARAMETERS.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None

    def is_admin(self) -> bool:
        return os.geteuid() == 0

    def sandbox(self) -> Sandbox:
        return find_sandbox()

    def program(self, name: str) -> str | None:
        found = shutil.which(name)
        if found is None:
            return None
        try:
            done = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=ASK_SECONDS, check=True)
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.partition("\n")[0].strip()

    def free_gib(self) -> float:
        return shutil.disk_usage(self._scratch).free / 2**30

    def has(self, module: str) -> bool:
        return importlib.util.find_spec(module) is not None

    def target(self, python: str) -> TargetPython:
        return look_at(python)


def git(machine: Machine, python: str) -> Probe:
    found = machine.program("git")
    return ok("git", found) if found else missing("git", "no git was found", "install git and put it on the PATH")


def disk(machine: Machine, python: str) -> Probe:
    free = machine.free_gib()
    said = f"{free:.1f} GiB are free where jobs work"
    if free >= ENOUGH_GIB:
        return ok("disk", said)
    todo = f"free some space or point RUNNER_TEMP elsewhere; {ENOUGH_GIB:.0f} GiB are comfortable"
    return warning("disk", said, todo) if free >= LEAST_GIB else missing("disk", said, todo)


def sandbox(machine: Machine, python: str) -> Probe:
    found = machine.sandbox()
    if found.is_strong:
        return ok("sandbox", "bubblewrap works here")
    todo = (
        "install bubblewrap; if it is there, allow unprivileged user namespaces (on Ubuntu 24.04 its AppArmor rule"
        " forbids them; in Docker the seccomp profile does). Run nobody's code here whom you do not trust until then"
    )
    return warning("sandbox", f"variants would be held by {found.name} alone", todo)


def target(machine: Machine, python: str) -> Probe:
    name = "target's Python"
    try:
        found = machine.target(python)
    except OperatorError as error:
        return missing(name, str(error), error.hint)
    return ok(name, f"{found.executable}: Python {found.version}, torch {found.torch}, triton {found.triton}")


def gpu(machine: Machine, python: str) -> Probe:
    found = machine.gpus()
    if not found:
        return missing("GPU", why_none(), "install NVIDIA's driver, then see that nvidia-smi lists the GPU")
    names = ", ".join(f"{one.name} ({one.arch}, {one.memory_mib / 1024:.0f} GiB)" for one in found)
    return ok("GPU", names)


def gpu_if_any(machine: Machine, python: str) -> Probe:
    """On a machine that nobody called a runner, a GPU is no must."""
    found = gpu(machine, python)
    if found.health is Health.OK:
        return found
    return warning(found.name, found.found, "nothing, for estimates; to measure, use a machine with a GPU")


def datasheet(machine: Machine, python: str) -> Probe:
    name, wrong, found = "datasheet", faults(), machine.gpus()
    if wrong:
        return missing(name, wrong[0], "install kernelwright again: no number is used without its source")
    if not found:
        return not_checked(name, NO_GPU, ON_RUNNER)
    several = mixed(Device(name=one.name) for one in found)
    if several:
        return warning(name, several, "keep one kind of GPU on a runner, or choose with CUDA_VISIBLE_DEVICES")
    sheet = for_device(Device(name=found[0].name, arch=found[0].arch, memory_mib=found[0].memory_mib))
    if not sheet.note:
        return ok(name, sheet.gpu)
    todo = "nothing: roofs are then those that the judge measures; docs/hardware.md says how a datasheet is added"
    return warning(name, f"none for {found[0].name}: {sheet.note}", todo)


def driver(machine: Machine, python: str) -> Probe:
    found = machine.gpus()
    if not found:
        return not_checked("driver", NO_GPU, ON_RUNNER)
    return ok("driver", found[0].driver)


def alone(machine: Machine, python: str) -> Probe:
    name = "GPU to itself"
    found = machine.gpus()
    if not found:
        return not_checked(name, NO_GPU, ON_RUNNER)
    others = machine.others_on(found[0].uuid)
    if not others:
        return ok(name, "nobody else computes there")
    todo = "end them, or keep other work off this runner: timings are voided while they run"
    return warning(name, f"{', '.join(others[:5])} compute there now", todo)


def clocks(machine: Machine, python: str) -> Probe:
    found = machine.gpus()
    if not found:
        return not_checked("clocks", NO_GPU, ON_RUNNER)
    said = machine.ask_gpu(found[0].uuid, PERSISTENT, *SLOWED)
    if said is None:
        return not_checked("clocks", "nvidia-smi does not tell", "look at `nvidia-smi -q -d PERFORMANCE`")
    slowed = [field.rpartition(".")[2] for field in SLOWED if said[field] == "Active"]
    if slowed:
        return warning("clocks", f"held back now: {', '.join(slowed)}", "see to cooling and power before you measure")
    if said[PERSISTENT] != "Enabled":
        return warning("clocks", "persistence mode is off, so each job waits for the GPU", "sudo nvidia-smi -pm 1")
    return ok("clocks", "persistence mode is on, nothing holds them back")


def counters(machine: Machine, python: str) -> Probe:
    name = "counters"
    table = machine.driver_parameters()
    if not machine.gpus() or table is None:
        return not_checked(name, NO_GPU if not machine.gpus() else f"{PARAMETERS} is not readable", ON_RUNNER)
    lines = [line.partition(":") for line in table.splitlines()]
    value = next((rest.strip() for key, _, rest in lines if key.strip() == COUNTERS), "")
    if value == "0" or machine.is_admin():
        return ok(name, "this account may read the GPU's performance counters")
    todo = (
        "a profile goes on without them; for Nsight Compute put `options nvidia"
        " NVreg_RestrictProfilingToAdminUsers=0` into /etc/modprobe.d/ and load the driver again"
    )
    return warning(name, "the driver keeps performance counters for administrators", todo)


def drawing(machine: Machine, python: str) -> Probe:
    name = "image rendering"
    lacking = [module for module in DRAWING if not machine.has(module)]
    if not lacking:
        return ok(name, f"{', '.join(DRAWING)} are here")
    return missing(name, f"no {', '.join(lacking)}", 'pip install "kernelwright[report]" where publish runs')


Look = Callable[[Machine, str], Probe]
EVERYWHERE: tuple[Look, ...] = (git, disk)
HOSTED: tuple[Look, ...] = (drawing,)
"""What the jobs that publish need."""
RUNNER: tuple[Look, ...] = (target, sandbox, gpu, datasheet, driver, alone, clocks, counters)
"""What a machine that measures needs."""
ANYWHERE: tuple[Look, ...] = (*EVERYWHERE, *HOSTED, *(gpu_if_any if look is gpu else look for look in RUNNER))
