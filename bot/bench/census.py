"""Counts the processes under one of ours, by what /proc says, and ends them."""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
_PAGE = os.sysconf("SC_PAGE_SIZE")
OWN, OF_FILES = ("RssAnon:", "RssShmem:"), "RssFile:"


@dataclass(frozen=True)
class Household:
    """A process and everything below it."""

    pids: tuple[int, ...]
    resident_bytes: int
    """What each holds for itself, and the most that one of them has mapped of files: forks of a process that has torch
    imported map the same libraries, some hundreds of MB of them, and nobody holds those twice."""


def _parents() -> dict[int, tuple[int, int]]:
    """pid -> (parent, resident bytes)."""
    found = {}
    for entry in PROC.iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name in parentheses may hold spaces and parentheses of its own.
            fields = (entry / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
            found[int(entry.name)] = (int(fields[1]), int(fields[21]) * _PAGE)
    return found


def _held(pid: int, shown: int) -> tuple[int, int]:
    """Of its own, and of files; all that is shown is its own where nobody tells the two apart."""
    found = {}
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in (PROC / str(pid) / "status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith((*OWN, OF_FILES)):
                found[line.split()[0]] = int(line.split()[1]) * 1024
    return (sum(found[kind] for kind in OWN), found[OF_FILES]) if len(found) == 3 else (shown, 0)


def household(root: int) -> Household:
    parents = _parents()
    inside = {root}
    grown = True
    while grown:
        more = {pid for pid, (parent, _) in parents.items() if parent in inside} - inside
        inside |= more
        grown = bool(more)
    held = [_held(pid, parents[pid][1]) for pid in inside if pid in parents]
    own, of_files = sum(mine for mine, _ in held), max((files for _, files in held), default=0)
    return Household(tuple(sorted(inside)), own + of_files)


def _end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def strays(mark: str) -> tuple[int, ...]:
    """Processes that were started with this mark in their environment, wherever they hang now."""
    wanted = mark.encode()
    found = []
    for entry in PROC.iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if wanted in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
    return tuple(found)


def end_all(root: int, mark: str) -> None:
    """The group, then what left the group, then what left the family; again, as some may have forked meanwhile."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(root, signal.SIGKILL)
    for _ in range(3):
        left = {*household(root).pids, *(strays(mark) if mark else ())} - {os.getpid(), root}
        for pid in left:
            _end(pid)
        if not left:
            return
