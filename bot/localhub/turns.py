"""Who may run now: one job of a concurrency group at a time, and one job at a time on a machine with labels."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Turn:
    """One job that waits or runs."""

    def __init__(self) -> None:
        self.is_cancelled = False


class Turns:
    """A row for each name. Who stands first in it has its turn, the others wait."""

    def __init__(self) -> None:
        self._moved = threading.Condition()
        self._rows: dict[str, list[Turn]] = {}
        self._is_closed = False

    def close(self) -> None:
        """Everybody is cancelled, and whoever comes from now on."""
        with self._moved:
            self._is_closed = True
            for row in self._rows.values():
                self._cancel(row)

    def _cancel(self, turns: list[Turn]) -> None:
        for turn in turns:
            turn.is_cancelled = True
        self._moved.notify_all()

    def _enter(self, row: list[Turn], turn: Turn, *, ends_others: bool, waits_long: bool) -> None:
        """Ending the others empties the row; without a queue who waited longest makes room for the newest."""
        with self._moved:
            self._cancel(row if ends_others else [] if waits_long else row[1:])
            row.append(turn)
            if self._is_closed:
                self._cancel([turn])
            self._moved.wait_for(lambda: row[0] is turn or turn.is_cancelled)

    @contextmanager
    def taken(self, name: str, turn: Turn, *, ends_others: bool = False, waits_long: bool = True) -> Iterator[None]:
        """Inside, it is this one's turn, or it is cancelled. Without a name there is nothing to wait for."""
        if not name:
            yield
            return
        with self._moved:
            row = self._rows.setdefault(name, [])
        try:
            self._enter(row, turn, ends_others=ends_others, waits_long=waits_long)
            yield
        finally:
            with self._moved:
                row.remove(turn)
                self._moved.notify_all()
