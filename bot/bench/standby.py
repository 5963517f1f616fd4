"""Workers that stand ready before anybody needs one: torch and the libraries that the untouched kernel imports are
imported, nothing of a variant is, and the GPU is not touched. Each is used once, in a world of its own, as any other.

Importing is most of what a short job takes: of the 13 s of a round of rms_norm on an H200 8 went by before anything
was checked.
"""

from __future__ import annotations

import itertools
import os
import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from bot.bench.clearing import clear
from bot.bench.launcher import Ended, Limits, Running
from bot.bench.overlay import LEFT_OUT
from bot.worker.contract import MAX_MANIFEST, REQUEST, ContractError, read_bytes
from bot.worker.contract.door import IMPORTED, TO_COMPILE_FOR, TO_IMPORT

MOST = 16
"""As many as record side by side in a race. Each takes half a gigabyte of the host's memory, none of the GPU's."""
FIRST = 2
"""Of these the untouched kernel needs: one records it, and one checks it once the judge has made the inputs."""
MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
MOST_MODULES = 8000
ALWAYS = (
    "torch",
    "torch._dynamo",
    "torch.distributed.tensor",
    "torch.profiler",
    "torch.utils._python_dispatch",
    "torch._higher_order_ops.triton_kernel_wrap",
    "triton",
    "triton.backends.nvidia.compiler",
)


@dataclass(frozen=True)
class Room:
    """The folders of a worker that stands ready, as it sees them from its start; they are filled when it is needed."""

    folder: Path

    @property
    def source(self) -> Path:
        return self.folder / "source"

    @property
    def beside(self) -> Path:
        return self.folder / "beside"

    @property
    def request(self) -> Path:
        return self.folder / "request"

    @property
    def answer(self) -> Path:
        return self.folder / "answer"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def make(self) -> None:
        for folder in (self.source, self.beside, self.request, self.answer, self.home):
            folder.mkdir(parents=True)


@dataclass(frozen=True)
class Ready:
    room: Room
    running: Running
    guesses: bool = False
    """Whether it was told to import more than is known to be good for it."""

    def carry_out(
        self, source: Path, request: Path, answer: Path, limits: Limits, *, beside: Path | None = None
    ) -> Ended:
        """Move in, work, and leave the answer where it is looked for."""
        try:
            _link(source, self.room.source)
            if beside is not None:
                _link(beside, self.room.beside)
            _link(request, self.room.request, but=REQUEST)
            for pipe in answer.iterdir():
                pipe.rename(self.room.answer / pipe.name)
            os.link(request / REQUEST, self.room.request / "coming")
            (self.room.request / "coming").rename(self.room.request / REQUEST)  # all is there: it may begin
            return self.running.to_its_end(limits)
        finally:
            self.running.kill()
            clear(answer)
            self.room.answer.rename(answer)
            clear(self.room.folder)

    def dismiss(self) -> None:
        """Nobody needed it."""
        self.running.kill()
        clear(self.room.folder)


def _link(source: Path, target: Path, *, but: str = "") -> None:
    """The same files under a second name. Inside nobody may write them. Bytecode is nobody's source, and comes and goes
    where a sandbox cannot keep anybody from leaving it."""
    for folder, inner, names in os.walk(source):
        inner[:] = [name for name in inner if name not in LEFT_OUT]
        place = target / Path(folder).relative_to(source)
        place.mkdir(parents=True, exist_ok=True)
        for name in names:
            if name != but:
                os.link(Path(folder, name), place / name, follow_symlinks=False)


def _told(names: Sequence[str]) -> tuple[str, ...]:
    return (*ALWAYS, *(name for name in names[:MOST_MODULES] if MODULE.fullmatch(name)))


Start = Callable[[Room], Running]


class Standby:
    """Those of one bench. Who takes one leaves the next one starting."""

    def __init__(self, scratch: Path, start: Start, most: int | None = None, arch: str = "") -> None:
        """`arch` is what those compile for, where it is known."""
        self._scratch, self._start, self._arch = scratch / "standby", start, arch
        self._most = max(1, min(MOST, (os.cpu_count() or 1) // 2)) if most is None else most
        self._numbers = itertools.count()
        self._waiting: list[Ready] = []
        self._modules: tuple[str, ...] = ALWAYS
        self._has_learnt = False
        self._guesses = False
        self._turn = threading.Lock()
        self._closed = False
        # A sandbox ends with the thread that started it, and most of ours live as long as one measurement.
        self._starter = ThreadPoolExecutor(max_workers=1)

    def tell(self, room: Room, *, compiles: bool = True) -> None:
        """What whoever is started there now does while it waits."""
        with self._turn:
            self._tell(room, self._arch if compiles else "")

    def _tell(self, room: Room, arch: str) -> None:
        (room.request / TO_IMPORT).write_text("\n".join(self._modules), encoding="ascii")
        (room.request / TO_COMPILE_FOR).write_text(arch, encoding="ascii")

    def learn(self, answer: Path) -> None:
        """What the untouched kernel had imported, libraries alone; only its word is taken, and only the first."""
        with self._turn:
            if self._has_learnt or self._closed:
                return
            try:
                told = read_bytes(answer / IMPORTED, MAX_MANIFEST).decode("ascii").split()
            except (ContractError, OSError, ValueError):
                told = []
            self._modules = _told(told)
            self._has_learnt, self._guesses = True, False
            self._fill()

    def begin(self, guessed: Sequence[str] = ()) -> None:
        """Those for the untouched kernel itself, with what everybody needs, and what it seems to."""
        with self._turn:
            self._modules = _told(guessed)
            self._guesses = bool(guessed)
            self._fill(FIRST)

    def _fill(self, most: int = MOST) -> None:
        most = min(most, self._most)
        while len(self._waiting) < most and not self._closed:
            room = Room(self._scratch / str(next(self._numbers)))
            room.make()
            self._tell(room, self._arch)
            self._waiting.append(Ready(room, self._starter.submit(self._start, room).result(), self._guesses))

    def take(self) -> Ready | None:
        """None where nobody stands ready, or who did has fallen."""
        with self._turn:
            if not self._waiting or self._closed:
                return None
            ready = self._waiting.pop(0)
            fallen = not ready.running.is_alive
            if fallen and not ready.guesses:  # they would all fall: whatever is the reason, others start afresh
                self._most = 0
            if self._has_learnt:
                self._fill()
        if fallen:
            ready.dismiss()
        return None if fallen else ready

    def close(self) -> None:
        with self._turn:
            self._closed = True
            waiting, self._waiting = self._waiting, []
        for ready in waiting:
            ready.dismiss()
        self._starter.shutdown()
