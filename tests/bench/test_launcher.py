"""One process, to its end or to ours."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bot.bench import census
from bot.bench.launcher import Ended, Limits, run_process, signal_of
from tests.patience import PATIENCE_S, wait_for

ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
SLEEP = ["sleep", f"600.{os.getpid()}"]
"""No other process on this machine sleeps as long."""
MARK = f"forked under {os.getpid()}"
FORKS = f"""
import os, time  # {MARK}
for _ in range(400):
    if os.fork() == 0:
        time.sleep(600)
        os._exit(0)
time.sleep(600)
"""


def run(code: str, folder: Path, **limits: float) -> Ended:
    bounds = Limits(**{"seconds": PATIENCE_S, **limits})  # type: ignore[arg-type]
    return run_process(
        [sys.executable, "-I", "-S", "-c", code], environment=ENVIRONMENT, directory=folder, limits=bounds
    )


def gone(words: str) -> bool:
    """No process has these words in its command line, or soon none has."""
    asked = ["pgrep", "-f", words]
    wait_for(lambda: subprocess.run(asked, capture_output=True, check=False).returncode != 0)
    return True


def test_an_honest_process_is_told_with_its_code_and_words(tmp_path: Path) -> None:
    ended = run("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)", tmp_path)
    assert (ended.code, ended.stopped) == (3, "")
    assert sorted(ended.output.split()) == ["err", "out"]
    assert 0 < ended.seconds < PATIENCE_S


def test_it_gets_no_input_and_no_environment_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELWRIGHT_TOKEN", "secret")
    ended = run("import os, sys; print(sorted(os.environ)); print(repr(sys.stdin.read()))", tmp_path)
    assert "KERNELWRIGHT_TOKEN" not in ended.output
    assert ended.output.splitlines()[1] == "''"


def test_the_deadline_ends_it(tmp_path: Path) -> None:
    ended = run("import time; time.sleep(600)", tmp_path, seconds=0.5)
    assert (ended.code, ended.stopped) == (None, "deadline")
    assert 0.5 < ended.seconds < PATIENCE_S


def test_children_in_sessions_of_their_own_are_ended_too(tmp_path: Path) -> None:
    code = f"import subprocess, time\nsubprocess.Popen({SLEEP}, start_new_session=True)\ntime.sleep(600)"
    assert run(code, tmp_path, seconds=0.7).stopped == "deadline"
    assert gone(" ".join(SLEEP))


def test_what_outlives_its_parent_is_ended(tmp_path: Path) -> None:
    code = f"import subprocess\nsubprocess.Popen({SLEEP}, start_new_session=True)\nprint('gone')"
    ended = run(code, tmp_path)
    assert (ended.code, ended.output.strip()) == (0, "gone")
    assert gone(" ".join(SLEEP))


def test_a_flood_of_output_ends_it_and_the_end_is_kept(tmp_path: Path) -> None:
    ended = run("while True: print('x' * 1000)", tmp_path, output_bytes=100_000)
    assert (ended.code, ended.stopped) == (None, "output")
    assert 1000 < len(ended.output) <= 20_000
    assert ended.seconds < PATIENCE_S


def test_a_little_output_is_no_flood(tmp_path: Path) -> None:
    assert run("print('x' * 50_000)", tmp_path, output_bytes=100_000).stopped == ""


def test_taking_too_much_memory_ends_it(tmp_path: Path) -> None:
    ended = run(
        "x = [bytearray(b'x' * 10**7) for _ in range(50)]\nimport time; time.sleep(600)",
        tmp_path,
        memory_bytes=200 * 2**20,
    )
    assert (ended.code, ended.stopped) == (None, "memory")


HEIRS = """
import mmap, os, time
with open({file!r}, "wb") as file:
    file.write(b"x" * 60_000_000)
ready, tell = os.pipe()
for _ in range(8):
    if os.fork() == 0:
        {own}
        os.write(tell, b"x")
        time.sleep(600)
all_told = 0
while all_told < 8:
    all_told += len(os.read(ready, 8))
time.sleep(1)  # to be looked at
"""
LIBRARY = (
    "file = open({file!r}, 'rb'); mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ); sum(mapped[::4096])"
)


@pytest.mark.parametrize(
    ("own", "stopped"),
    [
        (LIBRARY, ""),
        ("mine = bytearray(b'x' * 60_000_000)", "memory"),
        ("mine = mmap.mmap(-1, 60_000_000); mine.write(b'x' * 60_000_000)", "memory"),
    ],
    ids=["a library that all map", "memory of each", "memory that each might share"],
)
def test_a_library_that_many_have_mapped_counts_once(tmp_path: Path, own: str, stopped: str) -> None:
    """Compilers are forks of a process that has torch imported: nine of 700 MB each came to more than 6 GiB."""
    file = str(tmp_path / "library")
    code = HEIRS.format(own=own.format(file=file), file=file)
    assert run(code, tmp_path, memory_bytes=300 * 2**20).stopped == stopped


def test_all_that_is_shown_counts_where_nobody_tells_what_is_shared() -> None:
    assert census._held(0, 1234) == (1234, 0)


def test_a_fork_bomb_ends_it_with_everything_it_started(tmp_path: Path) -> None:
    ended = run(FORKS, tmp_path, processes=20)
    assert (ended.code, ended.stopped) == (None, "processes")
    assert gone(MARK)


def test_closing_its_output_early_is_no_end(tmp_path: Path) -> None:
    ended = run("import os, time\nos.close(1); os.close(2)\ntime.sleep(0.5)\nos._exit(5)", tmp_path)
    assert (ended.code, ended.stopped) == (5, "")
    assert ended.seconds >= 0.5


def test_a_signal_is_told_by_name(tmp_path: Path) -> None:
    ended = run("import os; os.kill(os.getpid(), 11)", tmp_path)
    assert ended.code == -signal.SIGSEGV
    assert signal_of(-11) == "SIGSEGV"
    assert signal_of(128 + 9) == "SIGKILL"


@pytest.mark.parametrize("code", [0, 1, 65, 127, 128, 255])
def test_an_ordinary_exit_code_is_no_signal(code: int) -> None:
    assert signal_of(code) == ""


def test_our_own_group_survives(tmp_path: Path) -> None:
    ended = run("import os; os.killpg(0, 9)", tmp_path)
    assert ended.code == -signal.SIGKILL
    assert os.getpid() > 0
