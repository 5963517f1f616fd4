"""The bench's line to the judge: it can be made to stand still where it is, and is ended even so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from bot.bench import bailiff
from bot.bench.bailiff import Judge
from bot.bench.interpreter import TargetPython
from bot.errors import OperatorError
from bot.worker.contract.timing import RivalCompiled, StartRequest

LIBRARIES = Path(torch.__file__).parent.parent
ROOT = Path(__file__).parents[2]
COUNTS = """
import itertools, sys, time
for line in sys.stdin:
    for n in itertools.count():
        open("count", "w").write(str(n))
        time.sleep(0.01)
"""
PYTHON = TargetPython(executable=Path(sys.executable), version="3.11", roots=(), libraries=(LIBRARIES,))


@pytest.fixture
def judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Judge]:
    monkeypatch.setattr(bailiff, "PAUSED_SECONDS", 0.3)
    monkeypatch.setattr(bailiff, "command", lambda *_, **__: [sys.executable, "-c", COUNTS])
    made = Judge(PYTHON, tmp_path, tmp_path / "home", pauses=True)
    made.send(StartRequest("start", 1))
    yield made
    made.close()


def reaches(count: Path, least: int, within_s: float) -> bool:
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        if count.exists() and int(count.read_text() or 0) >= least:
            return True
        time.sleep(0.01)
    return False


def state_of(pid: int) -> str:
    """As /proc has it: T for one that stands still; nothing where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except OSError:
        return ""


def comes_to(pid: int, *states: str) -> bool:
    until = time.monotonic() + 20
    while state_of(pid) not in states and time.monotonic() < until:
        time.sleep(0.02)
    return state_of(pid) in states


def test_a_judge_stands_still_where_it_is_and_goes_on_from_there(judge: Judge, tmp_path: Path) -> None:
    count = tmp_path / "home" / "count"
    assert reaches(count, 3, 20)
    judge.pause()
    time.sleep(0.05)
    seen = int(count.read_text() or 0)
    assert not reaches(count, seen + 1, 0.3)
    judge.go_on()
    assert reaches(count, seen + 1, 20)


def test_one_that_stands_still_can_be_ended(judge: Judge, tmp_path: Path) -> None:
    assert reaches(tmp_path / "home" / "count", 1, 20)
    judge.pause()
    judge.close()
    judge.pause()  # nobody is there any more, and its number may be somebody else's
    judge.go_on()


def test_its_answer_is_waited_for_as_long_as_was_said(judge: Judge) -> None:
    began = time.monotonic()
    with pytest.raises(OperatorError, match="did not answer"):
        judge.receive(RivalCompiled)
    assert 0.3 <= time.monotonic() - began < 20


OWNER = f"""
import sys, time
from pathlib import Path
from bot.bench.bailiff import Judge, Objection
from bot.bench.interpreter import TargetPython
from bot.bench.suitcase import pack
from bot.worker.contract.calls import Call
from bot.worker.contract.timing import CompileRivalRequest, RivalCompiled
room = Path(sys.argv[1])
pack("judge", room / "judge")
python = TargetPython(executable=Path(sys.executable), version="3.11", roots=(), libraries=(Path({str(LIBRARIES)!r}),))
judge = Judge(python, room / "judge", room / "home", pauses=True)
judge.wait_until_tied()
try:
    call = Call("a", "a", "forward", (), ())
    judge.ask(CompileRivalRequest("compile", "no such kernel", call, "compiled"), RivalCompiled)
except Objection:
    judge.pause()
    print(judge._process.pid, flush=True)
time.sleep(60)
"""


def test_one_that_stands_still_goes_when_its_owner_is_killed(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True
    )
    assert owner.stdout is not None
    pid = int(owner.stdout.readline())
    assert comes_to(pid, "T")
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    assert comes_to(pid, "", "Z")
