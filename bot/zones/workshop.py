"""What a GPU job works with, and how it says that an order cannot be carried out."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from bot.bench.finish import collected, finish
from bot.bench.gpu import Gpu
from bot.bench.halt import Halt
from bot.bench.measure import Bench, open_static_bench
from bot.git.repo import Repo
from bot.model.campaign import Campaign
from bot.model.facts import Fact
from bot.model.finalization import CommandRun, Finalization
from bot.model.measurement import Measurement
from bot.model.reasons import ReasonCode
from bot.zones.clock import utc_now

T = TypeVar("T")


def _log(campaign: Campaign, fact: Fact) -> None:
    print(f"{campaign.id}: {fact.kind}", file=sys.stderr, flush=True)


def _mention(step: str) -> None:
    print(f"  {step}", file=sys.stderr, flush=True)


def stepped(
    passed: Callable[[str], None], name: str, work: Callable[[], T], told: Callable[[T], str] = lambda _: ""
) -> T:
    """`told` says more of what was found."""
    began = time.monotonic()
    found = work()
    passed(f"{name}, {time.monotonic() - began:.0f} s{told(found)}")
    return found


def until_checked(found: Measurement) -> str:
    """How much of it went by until it was known whether it is right."""
    return f", of which {found.checked_seconds:.0f} s for the checks" if found.checked_seconds else ""


def _close(bench: Bench) -> None:
    bench.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """What the GPU job works with: a clone without a token, the target's Python, a folder for its output."""

    repo: Repo
    python: str
    scratch: Path
    gpu: Gpu | None = None
    """The GPU that variants are timed on; without one they are estimated."""
    open_bench: Callable[..., Bench] = open_static_bench
    open_counter: Callable[..., Bench] = open_static_bench
    """Counts the bytes of a kernel that a GPU times; a GPU does not tell them of each launch."""
    put_away: Callable[[Bench], None] = _close
    """What becomes of a bench when its job is done."""
    collect: Callable[..., CommandRun | None] = collected
    finish: Callable[..., Finalization] = finish
    clock: Callable[[], str] = utc_now
    trusted: Path | None = None
    """A checkout of the default branch. Without one the clone's HEAD stands for it, as in a mirror or in a clone of
    one's own; a clone whose HEAD is the pinned commit would let a pull request describe itself."""
    is_own: bool = False
    """Whether it is the machine of who asks, with their own code on it: no runner that others send code to."""
    halt: Halt = field(default_factory=Halt)
    """Whether the runner told this job to stop."""
    told: Callable[[Campaign, Fact], None] = _log
    """Who hears of each fact once it is written down; the campaign holds it already."""
    is_late: Callable[[], bool] = lambda: False
    """Whether the search is to end with what it has."""
    passed: Callable[[str], None] = _mention
    """Who hears of the steps of a profile and of a round on the way; nothing of it is written down."""


class Preflight(Exception):
    """The order cannot be carried out; the reason is for the person who asked."""

    def __init__(self, reason: ReasonCode, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
