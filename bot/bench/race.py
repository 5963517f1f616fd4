"""A race on the GPU: many versions of one source, each recorded once and timed for a dozen blocks beside v0, or for
four where those show that it is far behind.

Recordings are made side by side, several processes at once; the clock is one at a time. Who does not run, gives a wrong
result in a timed slot or comes too late leaves, and nobody waits for them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from bot.analysis import racing
from bot.bench.bailiff import Objection
from bot.bench.checks import Laid
from bot.bench.clearing import clear
from bot.bench.side_by_side import BLOCKS, groups, read_alone, read_together
from bot.bench.take import Take
from bot.model.measurement import Block, Fault
from bot.model.race import NO_CHANGE, TWICE
from bot.model.variant import SourceFile

FEW = 4
"""Where more do not fit on one replayer half of them may; these are looked for one by one."""
RECORDERS = 16
"""Processes that record side by side, one for each processor. Nothing is timed meanwhile."""
WORKERS = 8
"""Of which each imports what an op does, and forks the processes of several entries: as many stand ready."""
RECORD_S = 60.0
"""For one of them, compiling included."""
RACE_S = 90.0
"""From the first recording to the last lap."""
LATE = "there was no time left for it"


@dataclass(frozen=True)
class Entry:
    """Files that race, and in which scored cases."""

    files: tuple[SourceFile, ...]
    cases: tuple[str, ...]


@dataclass
class Ran:
    """What was read of one entry."""

    blocks: dict[str, tuple[Block, ...]] = field(default_factory=dict)
    left: str = ""
    gpu_ms: float = 0.0
    """Its share of what was played, all that prepares a slot included."""
    peak_bytes: dict[str, int] = field(default_factory=dict)
    """What each case has allocated at most, where it was recorded."""
    local_bytes: dict[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    """In each case what a thread of each kernel keeps in memory."""


@dataclass(frozen=True)
class Result:
    """Of a whole race, entry by entry in the order they were given."""

    ran: tuple[Ran, ...] = ()
    seconds: float = 0.0
    gpu_ms: float = 0.0
    recording_seconds: float = 0.0
    """Of the seconds, until everybody was recorded."""


@dataclass(frozen=True)
class Course:
    """What a race is run on: how files are laid and recorded, and the two things that a clock does."""

    lay: Callable[[Sequence[tuple[SourceFile, ...]]], Sequence[Laid]]
    """Those of several entries for one worker."""
    record: Callable[[Sequence[Laid], Sequence[tuple[str, ...]]], Sequence[Mapping[str, Take] | Fault]]
    """By one worker, of each the cases that it runs in."""
    open: Callable[[str, Sequence[Take], bool], None]
    """Put v0 and these on the replayer, or on a fresh one."""
    read: Callable[[str, int, int], tuple[Block, ...]]
    """So many blocks of one of those that were opened; raises `wrong` where a slot held something else than the
    result."""
    together: Callable[[str, Sequence[int], int], Sequence[tuple[Block, ...]]]
    """So many that several of them share, of each its own; empty where they cannot."""
    wrong: type[Exception]
    plays: Callable[[Take], str] = lambda take: ""
    """Stands for all that a recording plays; empty where nobody can tell."""
    workers: int = WORKERS
    alone: bool = False
    """Whether each entry has a worker of its own, because to import is little of what it does."""
    leads: bool = False
    """Whether the first is recorded before the others: it tunes itself, which they need not do again."""
    quiet: Callable[[], AbstractContextManager[None]] = nullcontext
    """While this lasts nobody else is on the GPU."""
    now: Callable[[], float] = time.monotonic
    spent_ms: Callable[[], float] = lambda: 0.0
    """Of the GPU, so far."""


@dataclass
class _Running:
    ran: Ran
    takes: Mapping[str, Take]
    cases: tuple[str, ...]

    def plays(self, course: Course) -> dict[str, str]:
        return {case: course.plays(self.takes[case]) for case in self.cases}


def _recorded(course: Course, some: Sequence[Entry], until: float, all_laid: list[Laid]) -> list[_Running]:
    if course.now() > until:
        return [_Running(Ran(left=LATE), {}, entry.cases) for entry in some]
    laid = course.lay([entry.files for entry in some])
    all_laid.extend(laid)
    told = course.record(laid, [entry.cases for entry in some])
    return [_running(entry, takes) for entry, takes in zip(some, told, strict=True)]


def _running(entry: Entry, takes: Mapping[str, Take] | Fault) -> _Running:
    if isinstance(takes, Fault):
        return _Running(Ran(left=f"{takes.kind}: {takes.detail}"), {}, entry.cases)
    missing = next((takes[case].why_not for case in entry.cases if takes[case].folder is None), None)
    peaks = {case: takes[case].peak_bytes for case in entry.cases}
    local = {case: takes[case].local_bytes for case in entry.cases}
    left = "" if missing is None else f"cannot be replayed: {missing}"
    ran = Ran(left=left, peak_bytes=peaks, local_bytes=local)
    return _Running(ran, takes, entry.cases)


class _Track:
    """The replayer that stands ready, for as long as nobody breaks it."""

    def __init__(self, course: Course) -> None:
        self._course = course
        self._fresh = True
        self._leader: dict[str, racing.Standing | None] = {}
        """Of each case who is surely the fastest so far."""

    def _open(self, case: str, group: list[_Running]) -> None:
        fresh, self._fresh = self._fresh, True  # what cannot be opened leaves nothing to go on with
        self._course.open(case, [running.takes[case] for running in group], fresh)
        self._fresh = False

    def lap(self, case: str, group: list[_Running]) -> None:
        """One case of those who stand on one replayer. One that spoils it for all is looked for alone."""
        try:
            self._open(case, group)
            shared = self._together(case, group)
        except Objection as error:
            self._fresh = True
            self._alone(case, group, group, str(error))
            return
        for running, blocks in zip(group, shared, strict=False):
            self._keep(running.ran, case, blocks)
        for place, running in enumerate(group if not shared else ()):
            try:
                blocks = self._read(case, place, running.ran)
            except self._course.wrong as error:
                running.ran.left = str(error)
            except Objection as error:
                self._fresh = True
                self._alone(case, group, group[place:], str(error))
                return
            else:
                self._keep(running.ran, case, blocks)

    def _together(self, case: str, group: list[_Running]) -> list[tuple[Block, ...]]:
        """What all of them read beside one v0. Nothing where one of them is wrong, or where they do not fit: then each
        is read alone."""

        def read(places: Sequence[int], blocks: int) -> dict[int, tuple[Block, ...]]:
            before = self._course.spent_ms()
            found = dict(zip(places, self._course.together(case, places, blocks), strict=True))
            for place in places:
                group[place].ran.gpu_ms += (self._course.spent_ms() - before) / len(places)
            return found

        try:
            found, leader = read_together(len(group), self._leader.get(case), read)
        except self._course.wrong:
            return []
        self._leader[case] = leader
        return found

    def _read(self, case: str, place: int, ran: Ran) -> tuple[Block, ...]:
        before = self._course.spent_ms()
        try:
            return read_alone(self._leader.get(case), lambda blocks: self._course.read(case, place, blocks))
        finally:
            ran.gpu_ms += self._course.spent_ms() - before

    def _keep(self, ran: Ran, case: str, blocks: tuple[Block, ...]) -> None:
        now, leader = racing.glanced(blocks), self._leader.get(case)
        if len(blocks) < BLOCKS // 2 and not racing.behind(now, leader):
            ran.left = f"only {len(blocks)} of {BLOCKS} blocks of {case} were undisturbed"
            return
        ran.blocks[case] = blocks
        self._leader[case] = racing.ahead(now, leader)

    def _alone(self, case: str, group: list[_Running], rest: list[_Running], why: str) -> None:
        if len(group) == 1:
            group[0].ran.left = why
            return
        for some in groups(rest, -(-len(rest) // 2) if len(rest) > FEW else 1):
            self.lap(case, some)


def _all_recorded(course: Course, entries: Sequence[Entry], until: float, all_laid: list[Laid]) -> list[_Running]:
    recording: list[Future[list[_Running]]] = []
    with ThreadPoolExecutor(max_workers=course.workers) as threads:
        for some in _shares(entries, len(entries) if course.alone else course.workers):
            recording.append(threads.submit(_recorded, course, some, until, all_laid))
            if course.leads and len(recording) == 1:
                recording[0].result()
        return [running for one in recording for running in one.result()]


def _shares(entries: Sequence[Entry], most: int) -> list[list[Entry]]:
    """The source as it stands by itself: it may be recorded already, or has to lead."""
    first, rest = list(entries[:1]), list(entries[1:])
    count = min(most, len(rest))
    return [first, *(rest[len(rest) * n // count : len(rest) * (n + 1) // count] for n in range(count))]


def _told_apart(course: Course, all_running: Sequence[_Running], until: float) -> None:
    """Who launches what somebody before launches has the same time, and need not run. The first is the source as it
    stands."""
    itself, *others = all_running
    now, seen = itself.plays(course) if not itself.ran.left else {}, set[tuple[tuple[str, str], ...]]()
    for running in (one for one in others if not one.ran.left):
        if course.now() > until:
            return
        mine = running.plays(course)
        key = tuple(mine.items())
        if not all(mine.values()):
            continue
        if all(now.get(case) == played for case, played in mine.items()):
            running.ran.left = NO_CHANGE
        elif key in seen:
            running.ran.left = TWICE
        seen.add(key)


def _all_played(course: Course, cases: Iterable[str], all_running: Sequence[_Running], until: float) -> None:
    track = _Track(course)
    for case in cases:
        here = [running for running in all_running if case in running.cases and not running.ran.left]
        for group in groups(here):
            if course.now() > until:
                for running in group:
                    running.ran.left = LATE
                continue
            track.lap(case, group)


def run(course: Course, entries: Sequence[Entry]) -> Result:
    """In the order they were given."""
    if not entries:
        return Result()
    began, spent = course.now(), course.spent_ms()
    until = began + RACE_S
    all_laid: list[Laid] = []
    try:
        all_running = _all_recorded(course, entries, until, all_laid)
        recording = course.now() - began
        _told_apart(course, all_running, until)
        with course.quiet():
            _all_played(course, dict.fromkeys(case for entry in entries for case in entry.cases), all_running, until)
        ran = tuple(running.ran for running in all_running)
        seconds, gpu_ms = round(course.now() - began, 3), round(course.spent_ms() - spent, 3)
        return Result(ran, seconds, gpu_ms, round(recording, 3))
    finally:
        for laid in all_laid:
            clear(laid.folder)
