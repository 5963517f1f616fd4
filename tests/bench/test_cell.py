"""Variants that mean harm, or are only broken: each costs one fault of the right kind, and the bench goes on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bot.bench import overlay
from bot.bench.cell import Cells, fault_of, places, run_cell
from bot.bench.interpreter import look_at
from bot.bench.launcher import Limits
from bot.bench.sandbox import LIMITS_ONLY, Sandbox, find_sandbox
from bot.bench.suitcase import pack
from bot.model.measurement import Fault
from bot.model.variant import SourceFile
from bot.worker.contract import CheckAnswer, CheckRequest, Refusal
from tests.bench import tiny

pytestmark = pytest.mark.slow
STRONG = find_sandbox()
LIMITS = Limits(seconds=90, memory_bytes=2**30, output_bytes=2**20)
FEW = Limits(seconds=90, processes=24)  # forks share their memory, and each is counted with all of it

FOREVER = "while True: pass"
MEMORY = "hoard = []\nwhile True: hoard.append(bytearray(b'x' * 2**24))"
FORKS = "import os, time\nfor _ in range(300):\n    if os.fork() == 0:\n        time.sleep(600)\ntime.sleep(600)"
PRINTS = "import os\nwhile True: os.write(1, b'x' * 65536)"
LEAVES = "import os\nos._exit(0)"
SEGFAULT = "import ctypes\nctypes.string_at(0)"
GARBAGE = "import os, sys\nopen(os.path.join(sys.argv[2], 'answer.json'), 'w').write('{garbage')\nos._exit(0)"
LINKED = "import os, sys\nos.symlink('/etc/hostname', os.path.join(sys.argv[2], 'answer.json'))\nos._exit(0)"
TAKEN_OVER = """
import json, os, runpy, sys
subject = json.load(open(os.path.join(sys.argv[1], "request.json")))["subject"]
runpy.run_path(os.path.join(subject["root"], *subject["module"].split(".")) + ".py")
"""
"""A worker that does what the variant says and nothing else."""
KILLS = """
import contextlib, os
for kill in (lambda: os.killpg(os.getpgid(os.getppid()), 9), lambda: os.kill(os.getppid(), 9)):
    with contextlib.suppress(OSError):
        kill()
os.killpg(0, 9)
"""


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cells]:
    room = tmp_path_factory.mktemp("room")
    pack("worker", room / "suitcase")
    yield Cells(look_at(sys.executable), STRONG, room / "suitcase", room)


@pytest.fixture(scope="module")
def taken_over(cells: Cells, tmp_path_factory: pytest.TempPathFactory) -> Cells:
    """Where the variant took the worker over before anything else happened, which needs no torch and no two seconds."""
    suitcase = tmp_path_factory.mktemp("suitcase") / "suitcase"
    pack("worker", suitcase)
    (suitcase / "bot" / "worker" / "__main__.py").write_text(TAKEN_OVER)
    return replace(cells, suitcase=suitcase)


def imported(cells: Cells, files: tuple[SourceFile, ...], folder: Path, limits: Limits = LIMITS) -> CheckAnswer | Fault:
    tree = tiny.write_tree(folder / "tree")
    source = overlay.lay(tree, tiny.SITE, files, folder / "source")
    (folder / "request").mkdir(parents=True)
    where = places(cells, folder.name, source, folder / "request")
    subject = overlay.subject(tiny.SITE, files, cells.sandbox.path_of(where.source))
    request = CheckRequest("check", subject, "sm_90", ())
    return run_cell(cells, where, request, CheckAnswer, limits, {"TRITON_INTERPRET": "1"})


def faulty(cells: Cells, code: str, folder: Path, limits: Limits = LIMITS) -> Fault:
    found = imported(cells, tiny.files(code), folder, limits)
    assert isinstance(found, Fault), found
    return found


@pytest.mark.parametrize(
    ("code", "kind", "told"),
    [
        pytest.param(PRINTS, "protocol", "printed more than 1024 KiB", id="prints for ever"),
        pytest.param(LEAVES, "protocol", "ended without an answer", id="leaves quietly"),
        pytest.param(SEGFAULT, "crashed", "SIGSEGV", id="segfault"),
        pytest.param(GARBAGE, "protocol", "not JSON", id="garbage"),
        pytest.param(LINKED, "protocol", "", id="answer is a link"),
    ],
)
def test_a_hostile_variant_is_a_fault_of_its_kind(
    taken_over: Cells, tmp_path: Path, code: str, kind: str, told: str
) -> None:
    found = faulty(taken_over, code, tmp_path)
    assert found.kind == kind, found
    assert told in found.detail


def test_one_that_takes_all_memory_is_told_so_by_the_worker_itself(cells: Cells, tmp_path: Path) -> None:
    assert faulty(cells, f"{tiny.SOURCE}\n\n{MEMORY}\n", tmp_path).kind == "memory"


def test_one_that_leaves_the_worker_itself_leaves_no_answer(cells: Cells, tmp_path: Path) -> None:
    found = faulty(cells, f"{tiny.SOURCE}\n\n{LEAVES}\n", tmp_path)
    assert (found.kind, found.detail) == ("protocol", "ended without an answer")


def test_one_that_forks_is_ended_with_all_it_started(taken_over: Cells, tmp_path: Path) -> None:
    found = faulty(taken_over, FORKS, tmp_path, FEW)
    assert (found.kind, found.detail) == ("crashed", "started more than 24 processes")


def test_one_that_loops_for_ever_is_ended_at_its_deadline(taken_over: Cells, tmp_path: Path) -> None:
    found = faulty(taken_over, FOREVER, tmp_path, Limits(seconds=1))
    assert (found.kind, found.detail) == ("run_timeout", "did not finish within 1 s")


@pytest.mark.skipif(not STRONG.is_strong, reason="without a process namespace it would reach us")
def test_one_that_kills_its_parents_group_reaches_nobody(taken_over: Cells, tmp_path: Path) -> None:
    found = faulty(taken_over, KILLS, tmp_path)
    assert found.kind == "crashed"
    assert "SIGKILL" in found.detail


def test_a_syntax_error_is_news_about_the_variant(cells: Cells, tmp_path: Path) -> None:
    found = imported(cells, tiny.files("def broken(:\n"), tmp_path)
    assert isinstance(found, Fault)
    assert found.kind == "import_failed"
    assert "SyntaxError" in found.detail


def test_under_the_weaker_fence_the_same_holds(taken_over: Cells, tmp_path: Path) -> None:
    weak = replace(taken_over, sandbox=Sandbox(LIMITS_ONLY))
    found = faulty(weak, FORKS, tmp_path, FEW)
    assert (found.kind, found.detail) == ("crashed", "started more than 24 processes")


def test_a_refusal_of_an_unknown_kind_is_a_broken_promise() -> None:
    assert fault_of(Refusal("crashed", "x")) == Fault(kind="crashed", detail="x")
    assert fault_of(Refusal("accepted", "x")).kind == "protocol"
