"""`decide --replay`: the decision on a saved event once more, with nothing written anywhere.

Reading is real: the pull request, the roles, the ledger (as it is now, or at a commit). Every write is noted instead.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bot.errors import UserError
from bot.forge.client import Forge
from bot.forge.events import read_event
from bot.git.repo import Repo
from bot.ledger.branch import LOCAL_REF, Ledger
from bot.ledger.layout import LEDGER_REF
from bot.model.ids import CommitSha
from bot.model.reasons import ReasonCode
from bot.model.word import Word
from bot.settings import Settings
from bot.zones.doors import Doors, open_doors
from bot.zones.report import ZoneReport

WRITES = ("post_comment", "edit_comment", "minimize", "react", "unreact", "set_status")
NAMES = (("comment", "issue_comment"), ("workflow_run", "workflow_run"), ("schedule", "schedule"))
"""The part of a payload that only this kind of event has."""


class Write(Word):
    """Something that would have been written."""

    what: str
    to: str


class Replayed(Word):
    report: ZoneReport
    writes: tuple[Write, ...]


class StillForge:
    """Reads as the forge does, and notes what it is told to write."""

    def __init__(self, forge: Forge, writes: list[Write]) -> None:
        self._forge, self._writes = forge, writes

    def __getattr__(self, name: str) -> Any:
        return self._noted(name) if name in WRITES else getattr(self._forge, name)

    def _noted(self, name: str) -> Any:
        def note(*arguments: Any, **_: Any) -> int:
            self._writes.append(Write(what=name, to=" ".join(str(one) for one in arguments)))
            return len(self._writes)  # stands for the id of what was not made

        return note


class StillRepo(Repo):
    """A clone that moves nothing on the server; what it would have pushed stays here."""

    def __init__(self, repo: Repo, token: str, writes: list[Write], ledger: CommitSha | None) -> None:
        super().__init__(repo.path, token=token)
        self._writes = writes
        self._moved: dict[str, CommitSha] = {LEDGER_REF: ledger} if ledger else {}

    def remote_sha(self, ref: str, remote: str = "origin") -> str | None:
        return self._moved.get(ref) or super().remote_sha(ref, remote)

    def fetch(self, *refspecs: str, remote: str = "origin") -> None:
        super().fetch(*refspecs, remote=remote)
        if LEDGER_REF in self._moved and any(LEDGER_REF in refspec for refspec in refspecs):
            self._git("update-ref", LOCAL_REF, self._moved[LEDGER_REF]).or_raise()

    def push(self, ref: str, sha: str, expect: str | None, remote: str = "origin") -> None:
        self._writes.append(Write(what="push", to=f"{ref} {self.message(sha).partition(chr(10))[0]}"))
        self._moved[ref] = sha


def event_name(payload: bytes) -> str:
    """Which event a saved file is: GitHub says it beside the file, and who saved it may not have."""
    from pydantic_core import from_json

    try:
        found = from_json(payload)
    except ValueError:
        found = None
    if isinstance(found, dict):
        for part, name in NAMES:
            if part in found:
                return name
        if "inputs" in found or "ref" in found:
            return "workflow_dispatch"
    raise UserError(
        "this file is no event that we know",
        hint="give the file of an issue_comment, workflow_run, schedule or workflow_dispatch event, as GitHub wrote it",
        reason=ReasonCode.MALFORMED_EVENT,
    )


def still_doors(settings: Settings, writes: list[Write], ledger: CommitSha | None) -> Doors:
    doors = open_doors(settings)
    repo = StillRepo(doors.repo, settings.token, writes, ledger)
    forge: Any = StillForge(doors.forge, writes)
    return replace(doors, forge=forge, repo=repo, ledger=Ledger(repo))


def replay(settings: Settings, payload: bytes, ledger: CommitSha | None = None) -> Replayed:
    """What would be decided, and what would be written."""
    from bot.zones.decide import act

    writes: list[Write] = []
    event = read_event(event_name(payload), payload, settings.bot_id)
    report = act(event, settings, lambda given: still_doors(given, writes, ledger))
    return Replayed(report=report, writes=tuple(writes))
