"""The ledger in memory. Handles on one store are writers on one branch."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence

from bot.errors import Conflict, Overtaken
from bot.ledger import journal
from bot.ledger.branch import always
from bot.ledger.layout import CAMPAIGNS, JOURNAL, README, check_record, journal_path
from bot.model.campaign import Zone
from bot.model.facts import Fact, JournalLine


class LedgerStore:
    """The branch on the server: every tip with all of its files."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.tips: list[str] = []
        self.files: dict[str, bytes] = {}

    def commit(self, files: Mapping[str, bytes]) -> None:
        self.files = {**self.files, **files}
        self.tips.append(hashlib.sha1(f"tip {len(self.tips)}".encode()).hexdigest())


class FakeLedger:
    def __init__(self, store: LedgerStore | None = None) -> None:
        self.store = store or LedgerStore()
        self._files: dict[str, bytes] = {}
        self._tip: str | None = None
        self.refresh()

    @property
    def tip(self) -> str | None:
        return self._tip

    def refresh(self) -> None:
        self._files = self.store.files
        self._tip = self.store.tips[-1] if self.store.tips else None

    def campaigns(self) -> tuple[str, ...]:
        paths = [path.split("/") for path in self._files]
        return tuple(sorted({path[1] for path in paths if path[0] == CAMPAIGNS}))

    def read(self, path: str) -> bytes | None:
        return self._files.get(path)

    def list(self, folder: str) -> tuple[str, ...]:
        return tuple(sorted(path for path in self._files if path.startswith(f"{folder}/")))

    def lines(self, campaign: str) -> tuple[JournalLine, ...]:
        path = journal_path(campaign)
        return journal.parse(self._files.get(path, b"").decode(), path)

    def append(
        self,
        campaign: str,
        facts: Sequence[Fact],
        *,
        zone: Zone,
        at: str,
        expect_seq: int,
        files: Mapping[str, bytes] | None = None,
        still: Callable[[], bool] = always,
    ) -> str:
        records = {check_record(campaign, path): content for path, content in (files or {}).items()}
        new = journal.number(facts, zone=zone, at=at, first=expect_seq)
        if not new and not records:
            raise ValueError("nothing to append")
        with self.store.lock:
            self.refresh()
            there = len(self.lines(campaign))
            if there != expect_seq:
                raise Conflict(f"the journal of {campaign} has {there} lines, expected {expect_seq}")
            if not still():
                raise Overtaken(f"{campaign} has no more reason to be written")
            if new:
                before = self._files.get(f"{CAMPAIGNS}/{campaign}/{JOURNAL}", b"")
                records[journal_path(campaign)] = before + journal.write(new).encode()
            if self._tip is None:
                records[README] = b"# Ledger\n"
            self.store.commit(records)
            self.refresh()
        assert self._tip is not None
        return self._tip
