"""The Python of the jobs: a process that has everything imported and forks one child a job.

`python -m tests.workflows.warm SOCKET PICTURES` listens. A job's `python` is a script that hands over its arguments,
environment, folder and open files and waits for the exit code, so that every zone is a process of its own, holding only
its own variables, and no test pays for imports a dozen times.
"""

from __future__ import annotations

import array
import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from pathlib import Path
from typing import Any

GRACE_S = 7.5
"""Between the word to stop and the end of a job that does not."""
PICTURE = b"\x89PNG\r\n\x1a\n"
"""In place of every plot: what is drawn is tested where it is drawn."""
CLIENT = """#!{python} -ISs
import array, json, os, socket, sys
asked = json.dumps({{"words": sys.argv[1:], "environment": dict(os.environ), "folder": os.getcwd()}}).encode()
with socket.socket(socket.AF_UNIX) as line:
    line.connect({path!r})
    files = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))
    line.sendmsg([len(asked).to_bytes(4, "big")], [files])
    line.sendall(asked)
    sys.exit(int.from_bytes(line.recv(1) or b"\\x46", "big"))
"""


def write_python(path: Path, listening: Path) -> Path:
    """What a job calls as its Python."""
    path.write_text(CLIENT.format(python=sys.executable, path=str(listening)), encoding="utf-8")
    path.chmod(0o755)
    return path


def fake_finish(repo: Any, head: str, site: Any, number: int, files: Any, **_: Any) -> Any:
    """Tests and style check that pass at once; the real ones have tests of their own."""
    from bot.model.finalization import CommandRun, Finalization

    run = CommandRun(argv=("true",), passed=True, exit_code=0, seconds=0.0, summary="1 passed")
    return Finalization(variant=number, tests=(run,), style=(run,), files=files)


def make_ready(pictures: Path) -> None:
    from bot.render import plots
    from bot.zones import measure as zone
    from bot.zones import profiling
    from tests.fakes import bench as fake
    from tests.fakes.kept import fit_once, propose_once

    for name in (
        "github",
        "bot.forge.rest",
        "bot.cli.action",
        "bot.zones.decide",
        "bot.zones.publish",
        "bot.zones.push",
    ):
        importlib.import_module(name)
    # A source with a launch rule of the engine's gets eight warps and no spills, so that there is a winner to push.
    fake._warps = lambda files: 8 if any("estimated for sm_90" in file.text for file in files) else fake.USUAL_WARPS
    plots._drawn = lambda campaign, dark, how: PICTURE
    zone.next_proposal = propose_once(pictures, zone.next_proposal)
    profiling.fitting = fit_once(pictures, profiling.fitting)
    shop = zone.Workshop
    zone.Workshop = lambda **given: shop(**given | {"open_bench": fake.FakeBench, "finish": fake_finish})  # type: ignore[misc, assignment]


def run(asked: dict[str, Any], files: list[int]) -> int:
    """In the child: become the job."""
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    words = asked["words"]
    assert words[:3] == ["-P", "-m", "bot"], words
    sys.argv = ["kernelwright", *words[3:]]
    from bot.__main__ import main

    try:
        main()
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def asked_on(line: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """What a job asks, and its open files; nothing, where it was ended before it had asked."""
    head, kept, _, _ = line.recvmsg(4, socket.CMSG_SPACE(3 * array.array("i").itemsize))
    files = list(array.array("i", kept[0][2])) if kept else []
    size, text = int.from_bytes(head, "big"), b""
    while len(text) < size:
        part = line.recv(size - len(text))
        if not part:
            break
        text += part
    if files and len(text) == size:
        return json.loads(text), files
    close(files)
    return None


def close(files: list[int]) -> None:
    for file in files:
        os.close(file)


def exit_code(child: int, line: socket.socket) -> int:
    """Of the child, at its end. Where whoever asked is ended, so is the child: at first as a runner does it."""
    over = os.pidfd_open(child)
    if over not in select.select([over, line], [], [])[0]:
        os.kill(child, signal.SIGINT)
        if not select.select([over], [], [], GRACE_S)[0]:
            os.kill(child, signal.SIGKILL)
    os.close(over)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) & 0xFF


def answer(line: socket.socket) -> None:
    asked = asked_on(line)
    if asked is None:
        return
    words, files = asked
    child = os.fork()
    if child == 0:
        code = 70
        try:
            # Who is started in the background by a shell is deaf to it, and so would its children be.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            code = run(words, files)
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)
    close(files)
    code = exit_code(child, line)
    with contextlib.suppress(ConnectionError):  # who was ended hears nothing, and the next one is answered
        line.sendall(bytes([code]))


def main() -> None:
    make_ready(Path(sys.argv[2]))
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(sys.argv[1])
        listening.listen()
        print("ready", flush=True)
        while True:
            line, _ = listening.accept()
            with line:
                answer(line)


if __name__ == "__main__":
    main()
