"""The job of a worker whose host time is read: passes of v0 and of the variant, in two processes, one at a time.

Both are forks of one process that has torch imported, and stay on one processor: two copies of one wrapper that were
started apart came out up to a fifth apart.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from bot.worker import gpu_inputs, tuning
from bot.worker.contract import (
    MAX_MANIFEST,
    ContractError,
    Exit,
    Refusal,
    clip,
    parse,
    read_bytes,
    render,
    write_text,
)
from bot.worker.contract.hosting import BEGIN, END, FRAME, GO, READY, V0, VARIANT, HostAnswer, HostRequest, asked, told
from bot.worker.gpu_checking import Passes, run_pass
from bot.worker.nursery import leave
from bot.worker.shares import warm

WARM = 3
SEED = 20260
LEAVE_S = 5.0
"""How long after the first the second may take to leave."""
Work = Callable[[HostRequest], tuple[HostAnswer, int]]


class Line:
    """The two pipes of an arm, as the arm holds them."""

    def __init__(self, outputs: Path, arm: str) -> None:
        self._asked = os.open(outputs / asked(arm), os.O_RDONLY)
        self._told = os.open(outputs / told(arm), os.O_WRONLY)

    def hear(self) -> bytes:
        frame = os.read(self._asked, FRAME)
        if len(frame) != FRAME:
            raise SystemExit(Exit.BAD_REQUEST)
        return frame

    def tell(self, frame: bytes) -> None:
        os.write(self._told, frame)


def wait_to_begin(line: Line) -> bool:
    """Nothing of the arm is imported before; false where it never shall be."""
    frame = line.hear()
    if frame[0] != BEGIN:
        return False
    line.tell(frame)
    return True


class _Arm:
    def __init__(self, op: Any, request: HostRequest) -> None:
        self._op, self._request = op, request
        self._contents: dict[int, dict[str, torch.Tensor]] = {}
        self._passes: Passes | None = None

    def _warmed(self, number: int) -> dict[str, torch.Tensor]:
        call = self._request.cases[number]
        if number not in self._contents:
            torch.manual_seed(SEED)
            self._contents[number] = gpu_inputs.drawn(call, dict(self._request.fills))
            with tuning.pinned(self._request.pins):  # what they take here, they find again on the clock
                for _ in range(WARM):
                    run_pass(self._op, call, gpu_inputs.laid(call, self._contents[number]))
        return self._contents[number]

    def make_ready(self, number: int) -> None:
        self._passes = None
        contents = self._warmed(number)
        self._passes = Passes(self._op, self._request.cases[number], contents, self._request.passes)
        torch.cuda.synchronize()

    def go(self) -> None:
        if self._passes is not None:
            self._passes.run()


def serve(op: Any, request: HostRequest, line: Line) -> HostAnswer:
    """Until it is told to leave. What fails ends it, and the refusal says why."""
    gc.disable()
    arm = _Arm(op, request)
    while (frame := line.hear())[0] != END:
        if frame[0] == READY:
            arm.make_ready(frame[1])
        elif frame[0] == GO:
            arm.go()
        line.tell(frame)
    return HostAnswer()


# -- two processes ----------------------------------------------------------------------------------------------


def _told_to(place: Path, answer: HostAnswer, code: int) -> int:
    write_text(place, render(answer))
    return code or (Exit.BAD_REQUEST if answer.refusal is not None else Exit.OK)


def _start(share: HostRequest, work: Work, place: Path, processor: int) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.sched_setaffinity(0, {processor})
        leave(lambda: _told_to(place, *work(share)))
    return child


def _next(children: dict[int, str], until: float) -> tuple[str, int] | None:
    """Whichever ends first, and how; None when it is too late."""
    while time.monotonic() < until:
        for child in list(children):
            if (ended := os.waitpid(child, os.WNOHANG))[0]:
                return children.pop(child), ended[1]
        time.sleep(0.01)
    return None


def _end(children: dict[int, str]) -> None:
    for child in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _last_word(place: Path, status: int) -> Refusal:
    with contextlib.suppress(ContractError, OSError):
        if (refusal := parse(HostAnswer, read_bytes(place, MAX_MANIFEST)).refusal) is not None:
            return Refusal(refusal.kind, clip(f"{place.stem}: {refusal.detail}"))
    return Refusal("crashed", f"{place.stem} ended with {os.waitstatus_to_exitcode(status)}")


def _ends(children: dict[int, str], outputs: Path) -> HostAnswer:
    """Who fails takes the other along, which would wait for ever to be asked; who does not leave is ended."""
    until = float("inf")
    while children:
        ended = _next(children, until)
        if ended is None:
            late = " and ".join(sorted(children.values()))
            _end(children)
            return HostAnswer(Refusal("run_timeout", f"{late} did not leave"))
        arm, status = ended
        if status:
            _end(children)
            return HostAnswer(_last_word(outputs / f"{arm}.json", status))
        until = time.monotonic() + LEAVE_S
    return HostAnswer()


def carry_out(request: HostRequest, work: Work, outputs: Path) -> tuple[HostAnswer, int]:
    warm()
    processor = max(os.sched_getaffinity(0))
    subjects = {V0: request.beside, VARIANT: request.subject}
    children = {}
    for arm, subject in subjects.items():
        share = dataclasses.replace(request, subject=subject, arm=arm)
        children[_start(share, work, outputs / f"{arm}.json", processor)] = arm
    return _ends(children, outputs), Exit.OK
