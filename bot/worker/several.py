"""Records several sources, each in a process of its own, forked from one that has imported what they all import.

To import takes a processor some five seconds, and to record a source two or three. Who crashes, hangs or is refused is
nobody else's news: they are versions of one source by one author, and what a race times of them is verified slot by
slot.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bot.worker.contract import MAX_MANIFEST, ContractError, Exit, Refusal, clip, parse, read_bytes
from bot.worker.contract.gpu import GpuAnswer, GpuRequest
from bot.worker.contract.several import RecordAnswer, RecordRequest, place_of
from bot.worker.nursery import leave
from bot.worker.shares import told_to, warm

LOOK_EVERY_S = 0.01
TOLD = "answer.json"
Work = Callable[[GpuRequest, Path], tuple[GpuAnswer, int]]
"""Carries out one of them, and leaves its recordings in a folder."""


def share_of(request: RecordRequest, number: int) -> GpuRequest:
    cases = tuple(call for call in request.cases if call.case in request.wanted[number])
    subject = request.subjects[number]
    return GpuRequest("gpu", subject, (), cases, request.fills, brief=True, pins=request.pins, recorders=0)


def _begin(share: GpuRequest, work: Work, place: Path) -> int:
    """A session of its own, so that whatever it starts ends with it; and nobody reads what it prints, which may be more
    than all of them together may."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.setsid()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        leave(lambda: told_to(place / TOLD, *work(share, place)))
    return child


def _end(child: int, *, is_gone: bool = False) -> None:
    """And whatever it started. One that is not gone may have no session yet; the number of one that is may be
    another's."""
    for stop in (os.killpg,) if is_gone else (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            stop(child, signal.SIGKILL)


class _Turns:
    """Who is at work, and until when."""

    def __init__(self, request: RecordRequest, work: Work, places: list[Path]) -> None:
        self._request, self._work, self._places = request, work, places
        self._over = time.monotonic() + request.within
        self._waiting = list(range(len(places)))
        self._running: dict[int, tuple[int, float]] = {}
        self.statuses: dict[int, int] = {}

    def _start(self) -> None:
        while self._waiting and len(self._running) < max(1, self._request.at_once):
            number = self._waiting.pop(0)
            child = _begin(share_of(self._request, number), self._work, self._places[number])
            self._running[child] = number, min(time.monotonic() + self._request.seconds, self._over)

    def _look(self) -> None:
        for child, (number, until) in list(self._running.items()):
            gone, status = os.waitpid(child, os.WNOHANG)
            if gone:
                del self._running[child]
                _end(child, is_gone=True)
                self.statuses[number] = status
            elif time.monotonic() > until:
                _end(child)

    def take(self) -> None:
        while self._running or (self._waiting and time.monotonic() < self._over):
            if time.monotonic() < self._over:
                self._start()
            self._look()
            time.sleep(LOOK_EVERY_S)


def _told(place: Path, status: int | None) -> GpuAnswer:
    """What it says for itself. Who was ended says nothing, whatever lies there."""
    code = os.waitstatus_to_exitcode(status) if status is not None else -signal.SIGKILL
    if code == -signal.SIGKILL:
        return GpuAnswer((), (), Refusal("run_timeout", "was not recorded in its time, or took too much memory"))
    try:
        answer = parse(GpuAnswer, read_bytes(place / TOLD, MAX_MANIFEST))
    except (ContractError, OSError):
        return GpuAnswer((), (), Refusal("crashed", f"ended with {code} and said nothing"))
    if code != Exit.OK and answer.refusal is None:
        return GpuAnswer((), (), Refusal("crashed", clip(f"ended with {code}")))
    return answer


def carry_out(request: RecordRequest, work: Work, outputs: Path) -> RecordAnswer:
    warm()
    places = [outputs / place_of(number) for number in range(len(request.subjects))]
    for place in places:  # all of them before anybody else may make one
        place.mkdir()
    turns = _Turns(request, work, places)
    turns.take()
    return RecordAnswer(tuple(_told(place, turns.statuses.get(number)) for number, place in enumerate(places)))
