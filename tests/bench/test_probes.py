"""Each probe of a machine, on both sides. The machine is faked at its door; one test asks the true one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bot.bench import probes
from bot.bench.gpu import Gpu
from bot.bench.interpreter import TargetPython
from bot.bench.probes import PERSISTENT, SLOWED, Look
from bot.bench.sandbox import BUBBLEWRAP, LIMITS_ONLY, Sandbox
from bot.errors import OperatorError
from bot.model.health import Health

H200 = Gpu(uuid="GPU-1", name="NVIDIA H200", driver="580.65", arch="sm_90", memory_mib=143771, nodes=())
L4 = Gpu(uuid="GPU-2", name="NVIDIA L4", driver="580.65", arch="sm_89", memory_mib=23034, nodes=())
SLICED = H200.model_copy(update={"name": "NVIDIA H200 MIG"})
NAMESAKE = H200.model_copy(update={"memory_mib": 98304})
FIT = {PERSISTENT: "Enabled", **dict.fromkeys(SLOWED, "Not Active")}


@dataclass
class FakeMachine:
    cards: tuple[Gpu, ...] = (H200,)
    told: Mapping[str, str] | None = field(default_factory=lambda: FIT)
    others: tuple[str, ...] = ()
    parameters: str | None = "ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: 0\n"
    admin: bool = False
    fence: str = BUBBLEWRAP
    programs: Mapping[str, str] = field(default_factory=lambda: {"git": "git version 2.47.1"})
    free: float = 100.0
    modules: tuple[str, ...] = probes.DRAWING
    python: TargetPython | OperatorError = field(
        default_factory=lambda: TargetPython(executable=Path("/opt/python"), version="3.11.9", roots=(), libraries=())
    )

    def gpus(self) -> tuple[Gpu, ...]:
        return self.cards

    def ask_gpu(self, uuid: str, *fields: str) -> Mapping[str, str] | None:
        assert uuid == "GPU-1"
        return {name: self.told[name] for name in fields} if self.told else None

    def others_on(self, uuid: str) -> tuple[str, ...]:
        return self.others

    def driver_parameters(self) -> str | None:
        return self.parameters

    def is_admin(self) -> bool:
        return self.admin

    def sandbox(self) -> Sandbox:
        return Sandbox(self.fence)

    def program(self, name: str) -> str | None:
        return self.programs.get(name)

    def free_gib(self) -> float:
        return self.free

    def has(self, module: str) -> bool:
        return module in self.modules

    def target(self, python: str) -> TargetPython:
        if isinstance(self.python, OperatorError):
            raise self.python
        return self.python


RESTRICTED = "RmProfilingAdminOnly: 1\n"
LACKING = OperatorError("python3 has no torch, triton", hint="install them for that Python")
SIDES: list[tuple[Look, FakeMachine, Health, str]] = [
    (probes.git, FakeMachine(), Health.OK, "2.47.1"),
    (probes.git, FakeMachine(programs={}), Health.MISSING, "install git"),
    (probes.disk, FakeMachine(free=20.0), Health.OK, "20.0 GiB"),
    (probes.disk, FakeMachine(free=19.9), Health.WARNING, "RUNNER_TEMP"),
    (probes.disk, FakeMachine(free=5.0), Health.WARNING, "5.0 GiB"),
    (probes.disk, FakeMachine(free=4.9), Health.MISSING, "free some space"),
    (probes.sandbox, FakeMachine(), Health.OK, "bubblewrap works"),
    (probes.sandbox, FakeMachine(fence=LIMITS_ONLY), Health.WARNING, "install bubblewrap"),
    (probes.target, FakeMachine(), Health.OK, "Python 3.11.9"),
    (probes.target, FakeMachine(python=LACKING), Health.MISSING, "install them for that Python"),
    (probes.gpu, FakeMachine(), Health.OK, "NVIDIA H200 (sm_90, 140 GiB)"),
    (probes.gpu, FakeMachine(cards=()), Health.MISSING, "install NVIDIA's driver"),
    (probes.gpu_if_any, FakeMachine(), Health.OK, "NVIDIA H200"),
    (probes.gpu_if_any, FakeMachine(cards=()), Health.WARNING, "nothing, for estimates"),
    (probes.datasheet, FakeMachine(), Health.OK, "NVIDIA H200 SXM"),
    (probes.datasheet, FakeMachine(cards=()), Health.NOT_CHECKED, "on the GPU runner"),
    (probes.datasheet, FakeMachine(cards=(SLICED,)), Health.WARNING, "a MIG slice of an NVIDIA H200"),
    (probes.datasheet, FakeMachine(cards=(NAMESAKE,)), Health.WARNING, "it shows 96.0 GiB of memory"),
    (probes.datasheet, FakeMachine(cards=(H200, L4)), Health.WARNING, "2 kinds of GPU here (NVIDIA H200, NVIDIA L4)"),
    (probes.driver, FakeMachine(), Health.OK, "580.65"),
    (probes.driver, FakeMachine(cards=()), Health.NOT_CHECKED, "on the GPU runner"),
    (probes.alone, FakeMachine(), Health.OK, "nobody else"),
    (probes.alone, FakeMachine(others=("/usr/bin/python3",)), Health.WARNING, "/usr/bin/python3"),
    (probes.alone, FakeMachine(cards=()), Health.NOT_CHECKED, "no GPU"),
    (probes.clocks, FakeMachine(), Health.OK, "nothing holds them back"),
    (probes.clocks, FakeMachine(told={**FIT, PERSISTENT: "Disabled"}), Health.WARNING, "nvidia-smi -pm 1"),
    (probes.clocks, FakeMachine(told={**FIT, SLOWED[0]: "Active"}), Health.WARNING, "hw_slowdown"),
    (probes.clocks, FakeMachine(told={**FIT, SLOWED[1]: "Active"}), Health.WARNING, "cooling"),
    (probes.clocks, FakeMachine(told=None), Health.NOT_CHECKED, "PERFORMANCE"),
    (probes.clocks, FakeMachine(cards=()), Health.NOT_CHECKED, "no GPU"),
    (probes.counters, FakeMachine(), Health.OK, "may read"),
    (probes.counters, FakeMachine(parameters=RESTRICTED), Health.WARNING, "NVreg_RestrictProfilingToAdminUsers=0"),
    (probes.counters, FakeMachine(parameters=RESTRICTED, admin=True), Health.OK, "may read"),
    (probes.counters, FakeMachine(parameters=None), Health.NOT_CHECKED, "not readable"),
    (probes.counters, FakeMachine(cards=()), Health.NOT_CHECKED, "no GPU"),
    (probes.drawing, FakeMachine(), Health.OK, "matplotlib"),
    (probes.drawing, FakeMachine(modules=("PIL", "pandas")), Health.MISSING, "kernelwright[report]"),
]


NAMES = [f"{look.__name__}-{health}-{index}" for index, (look, _, health, _) in enumerate(SIDES)]


@pytest.mark.parametrize(("look", "machine", "health", "words"), SIDES, ids=NAMES)
def test_each_probe_on_each_side(look: Look, machine: FakeMachine, health: Health, words: str) -> None:
    found = look(machine, "python3")
    assert found.health is health
    assert words in f"{found.found} {found.todo}"
    assert bool(found.todo) is (health is not Health.OK), "what is not well comes with what to do"


def test_every_probe_of_the_tables_is_tested_well_and_unwell() -> None:
    for table in (probes.EVERYWHERE, probes.HOSTED, probes.RUNNER, probes.ANYWHERE):
        for look in table:
            seen = {health for tested, _, health, _ in SIDES if tested is look}
            assert Health.OK in seen and seen - {Health.OK}, look.__name__


def test_this_machine_answers(tmp_path: Path) -> None:
    here = probes.ThisMachine(tmp_path)
    assert probes.git(here, "python3").health is Health.OK
    assert here.program("no-such-program-here") is None
    assert here.free_gib() > 0
    assert here.has("json") and not here.has("no_such_module_here")
    assert here.ask_gpu("GPU-0", "name") is None or here.gpus()
    assert here.sandbox().name in (BUBBLEWRAP, LIMITS_ONLY)
