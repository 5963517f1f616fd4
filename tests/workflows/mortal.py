"""The Python of jobs that can be killed, under a clock that a test moves on, several of them at a time.

`python -m tests.workflows.mortal SOCKET PICTURES` is the Python of warm.py with the clock of nightly.py. Where the file
DEATH lies beside its socket, the next job of that zone kills itself at that write, as a machine dies, and the file is
gone with it. Each outgoing write of every job is a line of the file CROSSED.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.workflows.nightly import CLOCK, now, set_ahead

DEATH, CROSSED = "death.json", "crossed"
FIRST_WAIT_S = 0.01
"""Before a call to GitHub in trouble is repeated; what GitHub itself asks for is waited in full."""


@dataclass(frozen=True)
class Death:
    zone: str
    write: str
    """As theatre.py names it: `push refs/heads/topic`, `POST /sample/kernels/issues/N/comments`."""
    moment: str
    """`before` or `after` it."""


class Hand:
    """What a test has in hand: the clock, and who dies."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._clock, self._death, self._crossed = folder / CLOCK, folder / DEATH, folder / CROSSED
        self._ahead = 0.0
        self.passes(0)
        self._crossed.touch()

    def now(self) -> str:
        return now(self._clock)

    def passes(self, minutes: float) -> None:
        self._ahead += 60 * minutes
        set_ahead(self._clock, self._ahead)

    def dooms(self, death: Death) -> None:
        assert not self._death.exists(), "the one before was not met"
        self._death.write_text(json.dumps(asdict(death)), encoding="utf-8")

    @property
    def is_met(self) -> bool:
        return not self._death.exists()

    @property
    def crossed(self) -> list[str]:
        """Zone and write, in their order."""
        return self._crossed.read_text(encoding="utf-8").splitlines()


def mortal(zone: str, folder: Path) -> Any:
    """Counts nothing: it is killed by name."""
    from tests.scenarios.theatre import Crossings

    path = folder / DEATH
    death = Death(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None

    class Mortal(Crossings):
        def over(self, label: str, write: Callable[[], Any]) -> Any:
            with (folder / CROSSED).open("a", encoding="utf-8") as lines:
                lines.write(f"{zone} {label}\n")
            dies = death is not None and (death.zone, death.write) == (zone, label)
            if dies and death.moment == "before":
                self._die_now()
            done = write()
            if dies:
                self._die_now()
            return done

        def _die_now(self) -> None:
            path.unlink()
            os.kill(os.getpid(), signal.SIGKILL)

    return Mortal(pipe=-1, kill=None)


def serve(listening: socket.socket) -> None:
    """Like warm.py, but a job waits for no other one."""
    from tests.workflows import warm

    def answer(line: socket.socket) -> None:
        with line:
            warm.answer(line)

    while True:
        line, _ = listening.accept()
        threading.Thread(target=answer, args=(line,), daemon=True).start()


def main() -> None:
    folder = Path(sys.argv[1]).parent
    from bot.zones import clock

    clock.utc_now = partial(now, folder / CLOCK)  # before anybody takes it by its name
    from bot.forge import calls
    from bot.hardware import catalog
    from tests.scenarios import theatre
    from tests.workflows import warm

    theatre.make_ready(Path(sys.argv[2]))  # pages and sheets are what each job would read anew
    catalog.sheets()
    warm.make_ready(Path(sys.argv[2]))
    calls.FIRST_WAIT_S = FIRST_WAIT_S
    run = warm.run

    def run_watched(asked: dict[str, Any], files: list[int]) -> int:
        theatre.watch(mortal(asked["environment"]["KERNELWRIGHT_ZONE"], folder))
        return run(asked, files)

    warm.run = run_watched
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(sys.argv[1])
        listening.listen(16)
        print("ready", flush=True)
        serve(listening)


if __name__ == "__main__":
    main()
