"""A process with torch already imported that forks one child for each job: 0.05 s instead of 3. A second one, its own
child, has Triton's interpreter imported as well.

Used where there is no sandbox to start afresh anyway. For each job there is a keeper between nursery and worker: it
adopts whatever the worker leaves behind, so that all of it can be found and ended.
"""

from __future__ import annotations

import array
import ctypes
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from bot.worker.contract.door import INTERPRETING, OPEN, PLAIN

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
MAX_ORDER = 1 << 16
LOOK_EVERY_S = 2.0
"""How soon a nursery finds out that nobody is left who would knock."""
Work = Callable[[list[str]], int]
"""What a worker does with its two folders; the result is its exit code."""


def _adopt_orphans() -> None:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _receive(channel: socket.socket) -> tuple[dict[str, Any], int]:
    """(what is wanted, where its output goes)"""
    text, ancillary, _, _ = channel.recvmsg(MAX_ORDER, socket.CMSG_LEN(4))
    descriptors = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(data[:4])
    return json.loads(text), descriptors[0]


def leave(work: Callable[[], int]) -> NoReturn:
    """What a forked child does with its life: the work, and then an end that runs nothing of its parent's."""
    code = 70
    try:
        code = work()
        sys.stdout.flush()
        sys.stderr.flush()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode(errors="replace"))
    finally:
        os._exit(code)


def _work(order: dict[str, Any], output: int, work: Work) -> int:
    """The worker itself: a session, an environment and a home of its own."""
    os.setsid()
    empty = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, empty), (1, output), (2, output)):
        os.dup2(source, target)
    os.closerange(3, 1 << 10)
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["directory"])
    return work([order["request"], order["answer"]])


def _keep(channel: socket.socket, work: Work) -> None:
    """Start the worker, say who it is, say how it ended, and stay until nobody asks any more. Never returns."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _adopt_orphans()
    order, output = _receive(channel)
    worker = os.fork()
    if worker == 0:
        channel.close()
        leave(lambda: _work(order, output, work))
    os.close(output)
    channel.sendall(f"{os.getpid()} {worker}\n".encode())
    _, status = os.waitpid(worker, 0)
    channel.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    channel.recv(1)
    os._exit(0)


def _serve(door: str, work: Work) -> NoReturn:
    """Fork a keeper for whoever knocks. The second file says that the door is open. Who was killed closes no nursery:
    it looks whether its parent is still there."""
    parent = os.getppid()
    _adopt_orphans()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    entrance = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    entrance.bind(door)
    entrance.listen(64)
    entrance.settimeout(LOOK_EVERY_S)
    Path(door + OPEN).touch()
    while True:
        try:
            channel, _ = entrance.accept()
        except TimeoutError:
            if os.getppid() != parent:
                os._exit(0)
            continue
        if os.fork() == 0:
            entrance.close()
            try:
                _keep(channel, work)
            finally:
                os._exit(1)
        channel.close()


def _interpret(door: str, work: Work) -> NoReturn:
    """A second room, in which Triton was imported as its interpreter: it asks once, when it is imported, what it is."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.environ["TRITON_INTERPRET"] = "1"
    from bot.worker import checking, interpreter  # noqa: F401

    _serve(door + INTERPRETING, work)


def main(arguments: list[str], work: Work) -> int:
    import numpy  # noqa: F401
    import torch
    import torch.overrides
    import torch.utils._python_dispatch

    torch.set_num_threads(1)
    if os.fork() == 0:
        leave(lambda: _interpret(arguments[0], work))
    _serve(arguments[0] + PLAIN, work)
