"""The worker's half of reading host time: passes when asked to, in two processes that end together."""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from bot.worker import gpu_inputs, hosting
from bot.worker.contract import Argument, Call, Exit, Refusal, Subject, TensorSpec
from bot.worker.contract.hosting import (
    BEGIN,
    END,
    FRAME,
    GO,
    NOTHING,
    READY,
    V0,
    VARIANT,
    HostAnswer,
    HostRequest,
    asked,
    told,
)
from bot.worker.hosting import WARM, Line, _Arm, carry_out, serve, wait_to_begin
from tests.patience import is_there, wait_for
from tests.worker.test_tuning import Worker, launch

PASSES = 4
STOCK, MINE = (Subject(f"/cell/{name}", "pkg.ops.double", "double.py", ()) for name in ("beside", "source"))


def call(direction: str) -> Call:
    x = TensorSpec("x", "float32", (2, 3), grad=True)
    return Call(direction, direction, direction, (Argument("x", x),), (TensorSpec("dy", "float32", (2, 3)),))


REQUEST = HostRequest("host", MINE, STOCK, (call("forward"), call("backward"), call("full")), (), PASSES)

# -- one arm ----------------------------------------------------------------------------------------------------------


class Double(torch.autograd.Function):
    forwards: list[int] = []  # noqa: RUF012 - a note of who was called with what
    backwards: list[int] = []  # noqa: RUF012

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        Double.forwards.append(x.data_ptr())
        return 2 * x

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> torch.Tensor:
        Double.backwards.append(dy.data_ptr())
        return 2 * dy


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_inputs, "DEVICE", "cpu")
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(hosting, "warm", lambda: None)
    monkeypatch.setattr(hosting, "gc", type("Gc", (), {"disable": staticmethod(lambda: None)}))
    Double.forwards, Double.backwards = [], []


class Bench:
    """The bench's ends of an arm's pipes, and the arm on a thread."""

    def __init__(self, folder: Path) -> None:
        for name in (asked(V0), told(V0)):
            os.mkfifo(folder / name)
        self._asked = os.open(folder / asked(V0), os.O_RDWR)
        self._told = os.open(folder / told(V0), os.O_RDWR)
        self.line = Line(folder, V0)
        self.answer: HostAnswer | None = None
        self._life = threading.Thread(target=self._serve, daemon=True)

    def _serve(self) -> None:
        self.answer = serve(Double, REQUEST, self.line)

    def begin(self) -> None:
        self._life.start()

    def say(self, what: int, number: int = 0) -> bytes:
        frame = bytes((what, number)) + os.urandom(FRAME - 2)
        os.write(self._asked, frame)
        return frame

    def ask(self, what: int, number: int = 0) -> tuple[int, int]:
        """How many forwards and backwards it took."""
        before = len(Double.forwards), len(Double.backwards)
        frame = self.say(what, number)
        assert os.read(self._told, FRAME) == frame
        return len(Double.forwards) - before[0], len(Double.backwards) - before[1]

    def end(self) -> HostAnswer | None:
        self.say(END)
        self._life.join(60)
        return self.answer


def test_only_what_is_scored_runs_on_the_clock(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.begin()
    assert bench.ask(READY, 0) == (WARM, 0)
    assert bench.ask(GO, 0) == (PASSES, 0)
    assert bench.ask(NOTHING) == (0, 0)
    assert bench.ask(READY, 0) == (0, 0)
    assert bench.ask(READY, 1) == (WARM + PASSES, WARM)
    assert bench.ask(GO, 1) == (0, PASSES)
    assert bench.ask(READY, 2) == (WARM, WARM)
    assert bench.ask(GO, 2) == (PASSES, PASSES)
    assert bench.end() == HostAnswer()


def test_every_pass_has_inputs_of_its_own(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.begin()
    bench.ask(READY, 0)
    bench.ask(GO, 0)
    assert len(set(Double.forwards[-PASSES:])) == PASSES
    bench.ask(READY, 1)
    bench.ask(GO, 1)
    assert len(set(Double.backwards[-PASSES:])) == PASSES
    bench.end()


def test_what_is_pinned_is_tuned_neither_before_nor_on_the_clock() -> None:
    kernel = Worker(fastest=256)

    class Tuned(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            launch(kernel.kernel)
            return 2 * x

    arm = _Arm(Tuned, dataclasses.replace(REQUEST, pins=Worker(fastest=128).runs(7)))
    arm.make_ready(0)
    arm.go()
    assert (kernel.clock.timed, kernel.launcher.blocks) == ([], [128] * (WARM + PASSES))


@pytest.mark.parametrize(("frame", "begins"), [(BEGIN, True), (END, False)])
def test_nothing_is_imported_before_it_is_asked_for(frame: int, begins: bool, tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.say(frame)
    assert wait_to_begin(bench.line) is begins


# -- both -------------------------------------------------------------------------------------------------------------


def test_each_arm_has_its_own_source_and_the_same_processor(tmp_path: Path) -> None:
    def work(share: HostRequest) -> tuple[HostAnswer, int]:
        place = tmp_path / f"{share.arm}.seen"
        place.write_text(f"{share.subject.root} {sorted(os.sched_getaffinity(0))}")
        return HostAnswer(), Exit.OK

    assert carry_out(REQUEST, work, tmp_path) == (HostAnswer(), Exit.OK)
    (root, place), (other, same) = ((tmp_path / f"{arm}.seen").read_text().split(" ", 1) for arm in (V0, VARIANT))
    assert (root, other) == ("/cell/beside", "/cell/source")
    assert place == same == f"[{max(os.sched_getaffinity(0))}]"


def other_waits(arm: str, folder: Path) -> None:
    (folder / "pid").write_text(str(os.getpid()))
    time.sleep(600)


@pytest.mark.parametrize("arm", [V0, VARIANT])
@pytest.mark.parametrize(
    ("how", "refusal"),
    [
        (HostAnswer(Refusal("memory", "no more of it")), Refusal("memory", "{arm}: no more of it")),
        (None, Refusal("crashed", "{arm} ended with 3")),
    ],
    ids=["refuses", "ends"],
)
def test_who_fails_takes_the_other_along_and_is_named(
    arm: str, how: HostAnswer | None, refusal: Refusal, tmp_path: Path
) -> None:
    def work(share: HostRequest) -> tuple[HostAnswer, int]:
        if share.arm != arm:
            other_waits(share.arm, tmp_path)
        wait_for((tmp_path / "pid").exists)
        if how is None:
            os._exit(3)
        return how, Exit.OK

    answer, code = carry_out(REQUEST, work, tmp_path)
    assert code == Exit.OK
    assert answer.refusal == Refusal(refusal.kind, refusal.detail.format(arm=arm))
    assert not is_there(int((tmp_path / "pid").read_text()))


def test_who_does_not_leave_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosting, "LEAVE_S", 0.2)

    def work(share: HostRequest) -> tuple[HostAnswer, int]:
        if share.arm == VARIANT:
            other_waits(share.arm, tmp_path)
        wait_for((tmp_path / "pid").exists)
        return HostAnswer(), Exit.OK

    answer, _ = carry_out(REQUEST, work, tmp_path)
    assert answer.refusal == Refusal("run_timeout", "variant did not leave")
    assert not is_there(int((tmp_path / "pid").read_text()))
