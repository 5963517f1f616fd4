"""Jobs as actors of a theatre: the zones themselves, a bench that answers at once, and a runner that can be held."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from pathlib import Path

from bot.localhub.actions import Actions
from tests.scenarios.story import Theatre

BUNDLE = ("order", "ledger_commit", "pinned_sha")
ENDED_BY_US = 130


def options(words: tuple[str, ...]) -> dict[str, str]:
    """`--out segment --evidence static` -> what each was given."""
    return {name.removeprefix("--"): given for name, given in zip(words[::2], words[1::2], strict=True)}


@dataclass(slots=True)
class StagedActions(Actions):
    theatre: Theatre | None = None
    free: threading.Event = field(default_factory=threading.Event)
    """The runner works while this is set."""
    _stage: threading.Lock = field(default_factory=threading.Lock)
    _ended: set[Path] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.free.set()

    def _process(self, folder: Path, words: tuple[str, ...], environment: dict[str, str], deadline: float) -> int:
        if words[0] == "measure":
            while not self.free.wait(0.02):
                if folder in self._ended:
                    return ENDED_BY_US
        given = options(words[1:])
        asked = {
            "zone": words[0],
            "environment": environment,
            "report": str(folder / "stdout"),
            "scratch": str(folder / "scratch"),
            "campaign": given.get("campaign"),
            "segment": given.get("segment"),
            "order": given.get("order"),
            "repository": given.get("repository"),
            "out": str(folder / given.get("out", "segment")),
        }
        assert self.theatre is not None
        with self._stage:
            code = int(self.theatre.perform(asked)["code"])
        (folder / "stderr").touch()
        self._hand_over(folder)
        return code

    def _hand_over(self, folder: Path) -> None:
        """What `--order-out` would write."""
        report = json.loads((folder / "stdout").read_text())
        if report.get("order"):
            (folder / "order.json").write_text(json.dumps({name: report[name] for name in BUNDLE}))

    def end(self, folder: Path) -> None:
        self._ended.add(folder)

    def end_all(self) -> None:
        self.free.set()
