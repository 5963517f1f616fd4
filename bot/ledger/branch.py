"""The ledger branch: journals and records of all campaigns, appended to by compare-and-swap."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Mapping, Sequence

from bot.errors import Conflict, CorruptRecord, GitError, Overtaken
from bot.git.repo import Repo
from bot.ledger import journal
from bot.ledger.layout import CAMPAIGNS, LEDGER_REF, README, check_record, is_campaign, journal_path
from bot.model.campaign import Zone
from bot.model.facts import Fact, JournalLine

ATTEMPTS = 12
"""Losing the race this often to other campaigns needs a dozen busy writers; then it is time to give up loudly."""
BACKOFF_S = 0.02
LOCAL_REF = "refs/kernelwright/ledger"
AUTHOR = ("kernelwright", "kernelwright@users.noreply.github.com")
WELCOME = b"""# Kernelwright's ledger

This branch is the memory of Kernelwright: one folder a campaign, with its journal, records and plots.
It shares no history with the code, is written by the bot alone, and is never squashed: comments link to its commits.
Deleting it makes open campaigns forget where they were; pushed commits are not touched by it.
"""


def always() -> bool:
    return True


class Ledger:
    """What stands on the branch as of the last `refresh` or `append`."""

    def __init__(self, repo: Repo, remote: str = "origin", ref: str = LEDGER_REF) -> None:
        self._repo = repo
        self._remote = remote
        self._ref = ref
        self._fresh = False
        self._tip: str | None = None
        self._text: dict[str, str] = {}
        """Journals at the tip."""
        self._lines: dict[str, tuple[JournalLine, ...]] = {}
        self._seen: dict[str, str] = {}
        """Journals as they were when they were last read: each may only have become longer."""

    @property
    def tip(self) -> str | None:
        if not self._fresh:
            self.refresh()
        return self._tip

    def refresh(self) -> None:
        """Look at the server. History may only have grown."""
        there = self._repo.remote_sha(self._ref, self._remote)
        if there is not None and there != self._tip:
            self._repo.fetch(f"+{self._ref}:{LOCAL_REF}", remote=self._remote)
            there = self._repo.resolve(LOCAL_REF)
        if self._tip is not None and there != self._tip:
            self._check_grown(self._tip, there)
            self._lines, self._text = {}, {}
        self._tip, self._fresh = there, True

    def _check_grown(self, before: str, now: str | None) -> None:
        if now is None or not self._repo.is_ancestor(before, now):
            raise CorruptRecord(
                f"{self._ref} was rewritten: {before[:12]} is no longer part of it",
                hint="restore the branch from that commit; nothing is written until then",
            )

    def campaigns(self) -> tuple[str, ...]:
        if self.tip is None:
            return ()
        folders = [entry for entry in self._repo.entries(self.tip, f"{CAMPAIGNS}/", deep=False) if entry.is_folder]
        names = [entry.path.removeprefix(f"{CAMPAIGNS}/") for entry in folders if entry.path != CAMPAIGNS]
        return tuple(sorted(name for name in names if is_campaign(name)))

    def read(self, path: str) -> bytes | None:
        """A record, or None when there is no plain file."""
        return None if self.tip is None else self._repo.read(self.tip, path)

    def list(self, folder: str) -> tuple[str, ...]:
        """Paths of the records below a folder, sorted."""
        return () if self.tip is None else tuple(sorted(self._repo.list(self.tip, folder)))

    def lines(self, campaign: str) -> tuple[JournalLine, ...]:
        path = journal_path(campaign)
        if self.tip is None:
            return ()
        if campaign not in self._lines:
            text = self._journal(path)
            if not text.startswith(self._seen.get(campaign, "")):
                raise CorruptRecord(f"{path} was rewritten: it no longer begins as it did")
            self._keep(campaign, text, journal.parse(text, path))
        return self._lines[campaign]

    def _keep(self, campaign: str, text: str, lines: tuple[JournalLine, ...]) -> None:
        self._text[campaign] = self._seen[campaign] = text
        self._lines[campaign] = lines

    def _journal(self, path: str) -> str:
        entry = self._repo.entry(self.tip or "", path)
        if entry is None:
            return ""
        if not entry.is_file:
            raise CorruptRecord(f"{path} is not a plain file")
        return journal.text_of(self._repo.blob(entry), path)

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
        """One commit with these facts and records, and the new tip. It is there for everybody when this returns.

        Conflict when the campaign's journal does not have exactly `expect_seq` lines. When only other campaigns
        moved the branch, their commits are taken in and the append is tried again, as long as there is `still` reason
        to: it is asked of the very state that the append comes after, and Overtaken raised where it says no.
        """
        new = journal.number(facts, zone=zone, at=at, first=expect_seq)
        records = {check_record(campaign, path): content for path, content in (files or {}).items()}
        if not new and not records:
            raise ValueError("nothing to append")
        for attempt in range(ATTEMPTS):
            self._expect(campaign, expect_seq)
            if not still():
                raise Overtaken(f"{campaign} has no more reason to be written", hint="read the ledger again")
            text = self._text.get(campaign, "") + journal.write(new)
            if new:
                records[journal_path(campaign)] = text.encode("ascii")
            commit = self._commit(campaign, new, records, at)
            if self._push(commit):
                self._keep(campaign, text, (*self.lines(campaign), *new))
                self._tip = commit
                return commit
            time.sleep(random.uniform(0, BACKOFF_S * (attempt + 1)))
            self.refresh()
        raise Conflict(f"{self._ref} moved {ATTEMPTS} times while {campaign} was being written", hint="try again later")

    def _expect(self, campaign: str, expect_seq: int) -> None:
        """The journal as far as we know it; before saying no, look again."""
        if len(self.lines(campaign)) != expect_seq:
            self.refresh()
        there = len(self.lines(campaign))
        if there != expect_seq:
            raise Conflict(f"the journal of {campaign} has {there} lines, expected {expect_seq}", hint="read it again")

    def _commit(self, campaign: str, new: Sequence[JournalLine], records: Mapping[str, bytes], at: str) -> str:
        files = dict(records) if self.tip else {**records, README: WELCOME}
        kinds = ", ".join(line.fact.kind for line in new) or "records"
        # Two jobs that write the same fact in the same second would make the same commit, and both would win.
        message = f"{campaign}: {kinds}\n\nKernelwright-Writer: {uuid.uuid4().hex}"
        return self._repo.commit_files(self.tip, files, message, author=AUTHOR, date=at)

    def _push(self, commit: str) -> bool:
        """False when somebody else was faster."""
        try:
            self._repo.push(self._ref, commit, self._tip, remote=self._remote)
        except Conflict:
            return False
        except GitError:
            # The line can break after the server took it.
            if not self._arrived(commit):
                raise
        return True

    def _arrived(self, commit: str) -> bool:
        there = self._repo.remote_sha(self._ref, self._remote)
        if there is None or there == commit:
            return there == commit
        self._repo.fetch(f"+{self._ref}:{LOCAL_REF}", remote=self._remote)
        return self._repo.is_ancestor(commit, LOCAL_REF)
