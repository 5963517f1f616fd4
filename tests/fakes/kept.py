"""Plots, plans, proposals and places made once: told again, a story comes to the same, and making them is most of it.

What they hold is tested where they are made; stories test who publishes or judges them, when and where.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from pydantic_core import from_json, to_json

from bot.model.campaign import Campaign
from bot.model.measurement import Measurement
from bot.model.variant import Proposal, SourceFile
from bot.proposers.brief import Brief

SHOWN = {"command": {"kernel"}, "profile": {"suite", "baseline"}, "rounds": True, "lineage": True, "winner": True}
"""What of a campaign can be seen in a plot. Who asked, how and when is not."""


def _copy(source: str, target: str) -> None:
    """What git once wrote under `objects` never changes, so one file can be in both."""
    (os.link if f"{os.sep}objects{os.sep}" in source else shutil.copy2)(source, target)


def copy_world(place: Path, target: Path) -> None:
    """A folder with bare repositories in it, as it stands."""
    shutil.copytree(place, target, symlinks=True, copy_function=_copy)


def packed(place: Path) -> Path:
    """The same folder with its bare repositories packed: a copy of it, and each clone, is a tenth of the files."""
    for head in [*place.rglob("HEAD")]:
        if (head.parent / "objects").is_dir():
            subprocess.run(["git", "-C", str(head.parent), "repack", "-A", "-d", "-q"], check=True)
    return place


def once(folder: Path, key: str, make: Callable[[], bytes]) -> bytes:
    """What was made under this key, by any process that shares the folder."""
    kept = folder / hashlib.sha256(key.encode()).hexdigest()
    if not kept.exists():
        folder.mkdir(parents=True, exist_ok=True)
        fresh = folder / f"{kept.name}.{os.getpid()}"
        fresh.write_bytes(make())
        fresh.replace(kept)
    return kept.read_bytes()


def draw_once(folder: Path, draw: Callable[[Campaign, bool, Any], bytes]) -> Callable[[Campaign, bool, Any], bytes]:
    def drawn(campaign: Campaign, dark: bool, how: Any) -> bytes:
        key = f"{how.__name__} {dark} {campaign.model_dump_json(include=SHOWN)}"
        return once(folder, key, lambda: draw(campaign, dark, how))

    return drawn


def propose_once(folder: Path, propose: Callable[[Brief], Proposal | None]) -> Callable[[Brief], Proposal | None]:
    def made(brief: Brief) -> bytes:
        proposal = propose(brief)
        return proposal.model_dump_json().encode() if proposal else b""

    def proposed(brief: Brief) -> Proposal | None:
        text = once(folder, to_json(brief).decode(), lambda: made(brief))
        return Proposal.model_validate_json(text) if text else None

    return proposed


Fitting: TypeAlias = Callable[[Sequence[SourceFile], Measurement], frozenset[str]]


def fit_once(folder: Path, fit: Fitting) -> Fitting:
    """Which ideas fit a source: three quarters of a second, in every process that profiles it."""

    def fitting(files: Sequence[SourceFile], baseline: Measurement) -> frozenset[str]:
        key = f"fits {to_json((files, baseline)).decode()}"
        return frozenset(from_json(once(folder, key, lambda: to_json(sorted(fit(files, baseline))))))

    return fitting
