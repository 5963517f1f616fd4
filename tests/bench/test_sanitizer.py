"""compute-sanitizer around a finalist: what it says is read strictly, and whatever goes wrong with it is told."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bot.bench import sanitizer
from bot.bench.cell import Cells
from bot.bench.launcher import Ended
from bot.bench.looking import Scene
from bot.bench.sandbox import LIMITS_ONLY, Sandbox
from bot.bench.sanitizer import LOG, MOST_BYTES, Unreadable, parse, sanitized, small_calls
from bot.model.measurement import Sanitized
from bot.worker.contract import ANSWER, Argument, Call, Plan, TensorSpec, render
from bot.worker.contract.looking import LookAnswer
from tests.bench import tiny
from tests.bench.test_ncu import H200

CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
FOUND = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at _softmax_forward_kernel+0x120 in softmax.py:20
=========     by thread (31,0,0) in block (4,0,0)
=========     Access at 0x7f2c5a000154 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f2c5a000000 of size 340 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: cuLaunchKernelEx [0x2800] in __triton_launcher.so
=========
========= Invalid __shared__ write of size 16 bytes
=========     at 0xda0 in /cell/source/tiny/ops/softmax.py:31:_softmax_backward_kernel
=========     by thread (96,0,0) in block (44,0,0)
=========     Address 0x40000 is out of bounds
=========
========= ERROR SUMMARY: 2 errors
"""
FIRST = "Invalid __global__ read of size 4 bytes in _softmax_forward_kernel, 1 bytes after the nearest allocation"
LEAKS = "========= COMPUTE-SANITIZER\n========= Leaked 64 bytes at 0x7f00\n========= ERROR SUMMARY: 1 error\n"

# -- what it says -----------------------------------------------------------------------------------------------------


def test_errors_are_read_with_their_kernel_as_old_and_new_versions_name_it() -> None:
    count, (read, write) = parse(FOUND)
    assert count == 2
    assert str(read) == FIRST
    assert str(write) == "Invalid __shared__ write of size 16 bytes in _softmax_backward_kernel"
    assert parse(CLEAN) == (0, ())
    assert parse(LEAKS) == (1, ())


@pytest.mark.parametrize(
    ("log", "why"),
    [
        ("", "no beginning or no end"),
        (CLEAN.splitlines()[0], "no beginning or no end"),
        (CLEAN.splitlines()[1], "no beginning or no end"),
        (CLEAN + "========= ERROR SUMMARY: 0 errors\n", "no beginning or no end"),
        (CLEAN + "all is well\n", "lines that are not the tool's"),
        (FOUND.replace("ERROR SUMMARY: 2 errors", "ERROR SUMMARY: 1 error"), "counts 1 errors and shows 2"),
        (FOUND.replace("2 errors", "no errors"), "no beginning or no end"),
    ],
)
def test_what_the_tool_does_not_write_is_not_read(log: str, why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        parse(log)


# -- who is looked at, and at what ------------------------------------------------------------------------------------


def check(direction: str, rows: int, cols: int, **spec: Any) -> Call:
    name = f"{direction}-{rows}x{cols}"
    return Call(name, name, direction, (Argument("x", TensorSpec("x", "float32", (rows, cols), **spec)),), ())


def chosen(*checks: Call) -> list[str]:
    return [call.case for call in small_calls(Plan((), checks, ()))]


def test_rows_that_end_inside_a_block_are_run_the_smallest_and_the_largest() -> None:
    odd = [check("backward", 5, 17), check("backward", 7, 255), check("backward", 3, 1000)]
    assert chosen(*odd, check("forward", 2, 3), check("backward", 4, 256)) == ["backward-5x17", "backward-3x1000"]
    assert chosen(odd[0]) == ["backward-5x17"]
    assert chosen(check("forward", 5, 17), check("forward", 4, 256)) == ["forward-5x17"]
    assert chosen(check("full", 4, 256)) == ["full-4x256"]
    assert chosen(check("backward", 9, 33, layout="padded"), check("backward", 8, 33)) == ["backward-8x33"]
    assert chosen() == []


def test_what_is_too_large_to_be_quick_is_not_run() -> None:
    rows = MOST_BYTES // 4
    assert chosen(check("full", rows, 1)) == [f"full-{rows}x1"]
    assert chosen(check("full", rows + 1, 1)) == []


# -- with a tool ------------------------------------------------------------------------------------------------------

SCRIPT = """#!/bin/bash
if [ "$1" = --version ]; then echo "NVIDIA (R) Compute Sanitizer"; echo "Version 2025.3.1.0 (build 1)"; exit; fi
[ "$1 $2 $3 $4" = "--tool memcheck --report-api-errors no" ] || exit 9
[ "$5 $6 $7 $9" = "--target-processes application-only --launch-timeout --log-file" ] || exit 9
log=${10}; shift 10
[ -n "$FOUND" ] && cp "$FOUND" "$log"
exec "$@"
"""
ANSWERS = "import sys; open(sys.argv[1], 'w').write(sys.argv[2])"
PLAN = Plan((), (check("backward", 5, 17), check("backward", 3, 1000)), ())


class Worker:
    """Starts the tool around a program that answers as the worker would, and shows it one log a subject."""

    def __init__(self, logs: dict[str, str], *, stopped: str = "", silent: str = "") -> None:
        self.logs, self.stopped, self.silent = logs, stopped, silent
        self.extra: list[dict[str, str]] = []

    def __call__(self, cells: Any, where: Any, limits: Any, extra: dict[str, str], gpu: Any, around: Any) -> Ended:
        self.extra.append(extra)
        subject = where.answer.host.parent.parent.name
        shown = where.home / "shown.log"
        if subject in self.logs:
            shown.write_text(self.logs[subject])
        answer = (
            [str(where.answer.host / ANSWER), render(LookAnswer(()))] if subject != self.silent else ["/dev/null", ""]
        )
        environment = {"PATH": "/usr/bin:/bin", "FOUND": str(shown) if shown.exists() else ""}
        done = subprocess.run([*around.argv, sys.executable, "-c", ANSWERS, *answer], env=environment, check=False)
        return Ended(done.returncode, self.stopped, 60.0, "")  # type: ignore[arg-type]


@pytest.fixture
def looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Sanitized]:
    tool = tmp_path / "tools" / "compute-sanitizer"
    tool.parent.mkdir()
    tool.write_text(SCRIPT)
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")

    def scene(name: str) -> Scene:
        folder = tmp_path / name
        folder.mkdir()
        cells = Cells(None, Sandbox(LIMITS_ONLY), tmp_path / "suitcase", tmp_path, H200)  # type: ignore[arg-type]
        return Scene(cells, tiny.SITE, tiny.files(), folder, folder, PLAN, 2**30)

    def look(worker: Worker, ready: Any = None) -> Sanitized:
        monkeypatch.setattr(sanitizer, "start_afresh", worker)
        return sanitized(scene("mine"), scene("stock"), ready)

    return look


class Standing:
    """The tool around a worker that stands ready, or fell while it stood; what it leaves is the worker's."""

    def __init__(self, worker: Worker, alive: bool = True) -> None:
        self.running, self._worker, self.used = SimpleNamespace(is_alive=alive), worker, 0

    def carry_out(self, source: Path, request: Path, answer: Path, limits: Any) -> Ended:
        self.used += 1
        where = SimpleNamespace(answer=SimpleNamespace(host=answer), home=answer)
        argv = sanitizer.arguments(sanitizer.find_tool(), str(answer / LOG))  # type: ignore[arg-type]
        return self._worker(None, where, limits, {}, H200, SimpleNamespace(argv=argv))


def test_a_clean_finalist_is_said_to_be_clean_and_v0_is_not_asked(looked: Callable[..., Sanitized]) -> None:
    worker = Worker({"mine": CLEAN})
    found = looked(worker)
    assert found.said == "clean, memcheck of backward-5x17, backward-3x1000, 2025.3"
    assert worker.extra == [{"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}]


@pytest.mark.parametrize(
    ("logs", "alive", "used", "afresh"),
    [
        ({"mine": CLEAN}, True, 1, 0),
        ({"mine": CLEAN}, False, 0, 1),
        ({"mine": "nonsense"}, True, 1, 1),
        ({}, True, 1, 1),
        ("late", True, 1, 1),
    ],
    ids=["ready", "fallen", "cannot tell", "silent", "stands still"],
)
def test_who_stands_ready_is_asked_and_one_that_starts_afresh_where_that_tells_nothing(
    logs: dict[str, str] | str, alive: bool, used: int, afresh: int, looked: Callable[..., Sanitized]
) -> None:
    stands = Worker({"mine": CLEAN}, stopped="deadline") if isinstance(logs, str) else Worker(logs)
    worker, standing = Worker({"mine": CLEAN}), Standing(stands, alive)
    assert looked(worker, standing).status == "clean"
    assert (standing.used, len(worker.extra)) == (used, afresh)


def test_the_tool_waits_for_a_program_that_stands_ready_for_as_long_as_a_campaign_may_take(
    looked: object, tmp_path: Path
) -> None:
    tool = sanitizer.find_tool()
    assert tool is not None
    argv = sanitizer.arguments(tool, str(tmp_path))
    assert int(argv[argv.index("--launch-timeout") + 1]) >= 24 * 3600


def test_what_one_that_stood_ready_finds_v0_is_asked_for_by_another(looked: Callable[..., Sanitized]) -> None:
    worker, standing = Worker({"stock": CLEAN}), Standing(Worker({"mine": FOUND}))
    assert looked(worker, standing).detail == f"{FIRST} and 1 more"
    assert (standing.used, len(worker.extra)) == (1, 1)


@pytest.mark.parametrize(
    ("tool", "gpu", "standby", "begins"), [(True, H200, True, True), (False, H200, True, False),
        (True, None, True, False), (True, H200, False, False)],
)  # fmt: skip
def test_the_tool_comes_up_where_it_will_be_asked(
    tool: bool, gpu: Any, standby: bool, begins: bool, looked: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Any] = []

    def start(cells: Any, room: Any, memory: int, around: Any, extra: dict[str, str]) -> None:
        started.append((room.folder, around.argv, extra))

    if not tool:
        monkeypatch.setattr(sanitizer, "find_tool", lambda: None)
    monkeypatch.setattr(sanitizer, "watched_standby", start)
    known: Any = {True: SimpleNamespace()} if standby else {}
    cells = Cells(None, Sandbox(LIMITS_ONLY), tmp_path / "suitcase", tmp_path, gpu, standby=known)  # type: ignore[arg-type]
    for _ in range(2):
        sanitizer.ahead(cells, 2**30)
    assert bool(started) is begins
    if begins:
        (first, argv, extra), (second, *_) = started
        assert argv[-1] == str(first / "answer" / LOG) and first != second
        assert extra == {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}


def test_a_tool_that_cannot_be_started_ahead_is_no_news(
    looked: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(sanitizer, "watched_standby", full)
    known: Any = {True: SimpleNamespace()}
    cells = Cells(None, Sandbox(LIMITS_ONLY), tmp_path / "suitcase", tmp_path, H200, standby=known)  # type: ignore[arg-type]
    assert sanitizer.ahead(cells, 2**30) is None


def test_a_finding_that_v0_does_not_have_is_one(looked: Callable[..., Sanitized]) -> None:
    found = looked(Worker({"mine": FOUND, "stock": CLEAN}))
    assert (found.status, found.detail) == ("found", f"{FIRST} and 1 more")


def test_what_v0_does_too_is_excused_and_nothing_else(looked: Callable[..., Sanitized], tmp_path: Path) -> None:
    found = looked(Worker({"mine": FOUND, "stock": FOUND}))
    assert found.status == "clean"
    assert found.detail.endswith("what was found v0 does too")


def test_one_finding_more_than_v0_has_is_one(looked: Callable[..., Sanitized]) -> None:
    only_shared = FOUND.replace("Invalid __global__ read of size 4 bytes", "Leaked")
    found = looked(Worker({"mine": FOUND, "stock": only_shared}))
    assert (found.status, found.detail) == ("found", FIRST)


@pytest.mark.parametrize(
    ("worker", "why"),
    [
        (Worker({"mine": CLEAN}, stopped="deadline"), "it was ended: deadline, after 60 s"),
        (Worker({}), "it left none that can be read"),
        (Worker({"mine": "nonsense"}), "it holds lines that are not the tool's"),
        (Worker({"mine": LEAKS}), "it counts 1 errors, none of them an access that is known"),
        (Worker({"mine": CLEAN}, silent="mine"), "the worker did not come to its end; protocol: ended without"),
        (Worker({"mine": FOUND}), f"{FIRST}; whether v0 does that is not known: it left none that can be read"),
    ],
    ids=["deadline", "no log", "nonsense", "unknown", "no answer", "v0 unknown"],
)
def test_a_tool_that_does_not_work_is_told_and_blames_nobody(
    worker: Worker, why: str, looked: Callable[..., Sanitized]
) -> None:
    found = looked(worker)
    assert found.status == "failed"
    assert found.said.startswith(f"did not work, {why}")


def test_a_finding_counts_also_where_it_cost_the_worker_its_life(looked: Callable[..., Sanitized]) -> None:
    assert looked(Worker({"mine": FOUND, "stock": CLEAN}, silent="mine")).status == "found"


def test_a_link_in_place_of_the_log_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text(CLEAN)
    (tmp_path / LOG).symlink_to(tmp_path / "other")
    with pytest.raises(Unreadable, match="left none"):
        sanitizer._log(tmp_path / LOG)


def test_without_the_tool_it_is_said_that_it_is_not_there(
    looked: Callable[..., Sanitized], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sanitizer, "PLACES", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    worker = Worker({})
    assert looked(worker).said == "not present"
    assert worker.extra == []


def test_a_program_of_that_name_that_has_no_version_is_not_the_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sanitizer, "PLACES", ())
    other = tmp_path / "compute-sanitizer"
    other.write_text("#!/bin/sh\necho hello\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert sanitizer.find_tool() is None
