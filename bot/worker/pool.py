"""Compiles candidates in forked processes of their own, each with a budget after which it is killed.

A fork costs 20 ms where a fresh interpreter with torch costs two seconds; a block of 32768 with one warp keeps a
compiler busy for minutes, so being able to kill a candidate is not optional.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from bot.worker.contract import Binary, ContractError, Refusal, clip, parse, render

MAX_REPLY = 2**20
Candidate = TypeVar("Candidate")


@dataclass(frozen=True)
class _Reply:
    binary: Binary | None = None
    refusal: Refusal | None = None
    seconds: float = 0.0
    """From the fork to the answer."""


@dataclass
class _Child:
    index: int
    pid: int
    pipe: int
    began: float
    deadline: float
    reply: bytes = b""


def _work(job: Callable[[], Binary], pipe: int) -> None:
    """In the child: one answer through the pipe, then gone without any clean-up of the parent's things."""
    code = 1
    try:
        with contextlib.suppress(OSError):
            os.setpgid(0, 0)
        try:
            reply = _Reply(binary=job())
        except MemoryError:
            reply = _Reply(refusal=Refusal("memory", "the compiler ran out of memory"))
        except Exception as error:  # a compiler has no closed list of exceptions
            reply = _Reply(refusal=Refusal("compile_failed", clip(f"{type(error).__name__}: {error}")))
        with os.fdopen(pipe, "w") as out:
            out.write(render(reply))
        code = 0
    finally:
        os._exit(code)


def _start(index: int, job: Callable[[], Binary], budget_s: float) -> _Child:
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ours)
        _work(job, theirs)
    os.close(theirs)
    with contextlib.suppress(OSError):
        os.setpgid(pid, pid)
    began = time.monotonic()
    return _Child(index, pid, ours, began, began + budget_s)


def _end(child: _Child) -> None:
    """Its whole group, so that no ptxas outlives it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    os.close(child.pipe)
    os.waitpid(child.pid, 0)


def _verdict(child: _Child, budget_s: float) -> _Reply:
    """A whole reply counts, however late we come to read it: a machine may have kept us waiting."""
    try:
        return parse(_Reply, child.reply)
    except ContractError:
        if time.monotonic() >= child.deadline:
            return _Reply(refusal=Refusal("compile_timeout", f"did not compile within {budget_s:g} s"))
        return _Reply(refusal=Refusal("compile_failed", "the compiler process died"))


def _drain(children: list[_Child]) -> list[_Child]:
    """Read what is there; those that are through or too late."""
    wait = max(0.0, min(child.deadline for child in children) - time.monotonic())
    ready, _, _ = select.select([child.pipe for child in children], [], [], wait)
    finished = []
    for child in children:
        if child.pipe in ready:
            piece = os.read(child.pipe, 65536)
            child.reply += piece
            if not piece or len(child.reply) > MAX_REPLY:
                finished.append(child)
                continue
        if time.monotonic() >= child.deadline:
            finished.append(child)
    return finished


def compile_all(
    jobs: Sequence[Callable[[], Binary]], *, budget_s: float, processes: int, within_s: float = math.inf
) -> list[_Reply]:
    """One reply for each job, in order. None begins later than `within_s`: who is at work by then may end."""
    replies: list[_Reply | None] = [None] * len(jobs)
    waiting, until = list(range(len(jobs))), time.monotonic() + within_s
    running: list[_Child] = []
    while waiting or running:
        if waiting and time.monotonic() >= until:
            late = _Reply(refusal=Refusal("compile_timeout", f"its turn did not come within {within_s:g} s"))
            for index in waiting:
                replies[index] = late
            waiting.clear()
            continue
        while waiting and len(running) < max(1, processes):
            index = waiting.pop(0)
            running.append(_start(index, jobs[index], budget_s))
        for child in _drain(running):
            running.remove(child)
            seconds = round(time.monotonic() - child.began, 3)
            replies[child.index] = replace(_verdict(child, budget_s), seconds=seconds)
            _end(child)
    return [reply for reply in replies if reply is not None]
