"""Workers forked from one that is warm: the same faults as of those that start afresh, and nothing left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from bot.bench import nursery as module
from bot.bench.cell import Cells
from bot.bench.census import household
from bot.bench.interpreter import look_at
from bot.bench.launcher import Limits
from bot.bench.nursery import Nursery
from bot.bench.sandbox import LIMITS_ONLY, Sandbox
from bot.model.measurement import Fault
from bot.worker.contract import CheckAnswer
from bot.worker.contract.door import ROOMS
from bot.worker.nursery import LOOK_EVERY_S
from tests.bench import tiny
from tests.bench.test_cell import FEW, FOREVER, FORKS, LEAVES, LIMITS, MEMORY, PRINTS, SEGFAULT, imported
from tests.patience import is_there, wait_until_gone

DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
os.wait()
"""
KILLS_ITS_KEEPER = "import os, time\nos.kill(os.getppid(), 9)\ntime.sleep(600)"
KILLS_ABOVE = """
import os
above = os.getppid()
for _ in range(%d):
    above = int(open(f"/proc/{above}/stat").read().rpartition(")")[2].split()[1])
os.kill(above, 9)
"""


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    found = Nursery(look_at(sys.executable), 6 * 2**30)
    yield found
    found.close()


@pytest.fixture
def cells(nursery: Nursery, tmp_path: Path) -> Cells:
    return Cells(look_at(sys.executable), Sandbox(LIMITS_ONLY), tmp_path / "none", tmp_path, nursery=nursery)


def held(cells: Cells, code: str, folder: Path, limits: Limits = LIMITS) -> CheckAnswer | Fault:
    return imported(cells, tiny.files(f"{tiny.SOURCE}\n\n{code}\n"), folder / "one", limits)


def fault(cells: Cells, code: str, folder: Path, limits: Limits = LIMITS) -> Fault:
    found = held(cells, code, folder, limits)
    assert isinstance(found, Fault), found
    return found


def children(nursery: Nursery) -> int:
    """Processes below the nursery; one that was harmed is gone with all of them."""
    if nursery._process is None:
        return 0
    return len(household(nursery._process.pid).pids) - len(ROOMS)


def nobody_left(nursery: Nursery) -> bool:
    until = time.monotonic() + 60
    while children(nursery) and time.monotonic() < until:
        time.sleep(0.05)
    return children(nursery) == 0


def test_an_honest_variant_is_answered_as_by_a_fresh_worker(cells: Cells, tmp_path: Path) -> None:
    assert held(cells, "", tmp_path) == CheckAnswer(())


@pytest.mark.parametrize(
    ("code", "kind", "told"),
    [
        pytest.param(PRINTS, "protocol", "printed more than 1024 KiB", id="prints for ever"),
        pytest.param(LEAVES, "protocol", "ended without an answer", id="leaves quietly"),
        pytest.param(SEGFAULT, "crashed", "SIGSEGV", id="segfault"),
        pytest.param(MEMORY, "memory", "", id="takes all memory"),
        pytest.param(KILLS_ITS_KEEPER, "crashed", "SIGKILL", id="kills its keeper"),
    ],
)
def test_harm_is_a_fault_of_its_kind(
    nursery: Nursery, cells: Cells, tmp_path: Path, code: str, kind: str, told: str
) -> None:
    found = fault(cells, code, tmp_path)
    assert found.kind == kind, found
    assert told in found.detail
    assert nobody_left(nursery)


def test_one_that_forks_is_ended_with_all_it_started(nursery: Nursery, cells: Cells, tmp_path: Path) -> None:
    assert fault(cells, FORKS, tmp_path, FEW).detail == "started more than 24 processes"
    assert nobody_left(nursery)


def test_one_that_loops_for_ever_is_ended_at_its_deadline(nursery: Nursery, cells: Cells, tmp_path: Path) -> None:
    assert fault(cells, FOREVER, tmp_path, Limits(seconds=2)).kind == "run_timeout"
    assert nobody_left(nursery)


def test_a_daemon_does_not_outlive_its_round(nursery: Nursery, cells: Cells, tmp_path: Path) -> None:
    assert held(cells, DAEMON, tmp_path) == CheckAnswer(())
    assert nobody_left(nursery)


def test_what_one_worker_does_to_torch_the_next_does_not_see(cells: Cells, tmp_path: Path) -> None:
    assert held(cells, "torch.empty_like = None\nimport builtins\nbuiltins.mine = 1", tmp_path / "a") == CheckAnswer(())
    code = "import builtins\nassert torch.empty_like is not None and not hasattr(builtins, 'mine')"
    assert held(cells, code, tmp_path / "b") == CheckAnswer(())


def test_a_worker_has_an_environment_of_its_own(cells: Cells, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    code = "import os\nassert 'GITHUB_TOKEN' not in os.environ and os.environ['TRITON_INTERPRET'] == '1'"
    assert held(cells, code, tmp_path) == CheckAnswer(())


@pytest.mark.parametrize("above", [1, 2], ids=["its room", "all of it"])
def test_a_nursery_that_was_killed_is_started_again(cells: Cells, tmp_path: Path, above: int) -> None:
    held(cells, KILLS_ABOVE % above, tmp_path / "a")
    assert held(cells, "", tmp_path / "b") == CheckAnswer(())


def test_that_the_nursery_had_to_be_started_is_not_the_worker_s_time(
    cells: Cells, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine that takes longer than many a variant may."""
    late, start = [0.0], Nursery._start

    def slowly(self: Nursery) -> None:
        start(self)
        late[0] += 2 * LIMITS.seconds

    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + late[0], sleep=time.sleep)
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(Nursery, "_start", slowly)
    own = Nursery(look_at(sys.executable), 6 * 2**30)
    try:
        assert held(replace(cells, nursery=own), "", tmp_path) == CheckAnswer(())
    finally:
        own.close()


def test_nothing_is_left_when_it_closes(cells: Cells, tmp_path: Path) -> None:
    own = Nursery(look_at(sys.executable), 6 * 2**30)
    assert held(replace(cells, nursery=own), "", tmp_path) == CheckAnswer(())
    assert own._process is not None
    pid, folder = own._process.pid, own._folder
    own.close()
    assert not folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


OWNER = """
import sys, time
from bot.bench.interpreter import look_at
from bot.bench.nursery import Nursery

own = Nursery(look_at(sys.executable), 6 * 2**30)
own._start()
print(own._process.pid, flush=True)
time.sleep(600)
"""


def test_nothing_is_left_of_who_was_killed() -> None:
    """Both rooms; and while its owner lives a nursery stays, however long nobody knocks."""
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True)
    try:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        rooms = household(pid).pids
        time.sleep(2 * LOOK_EVERY_S)
        assert len(rooms) == len(ROOMS) and all(map(is_there, rooms))
    finally:
        owner.kill()
        owner.wait()
    for room in rooms:
        wait_until_gone(room)
