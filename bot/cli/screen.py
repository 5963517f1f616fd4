"""Where a local campaign speaks: a live picture on a terminal, plain lines in a file, JSON lines for a program, or
nothing but questions and the result.

Progress goes to stderr, what was asked for to stdout. The live picture is drawn over itself and taken away before
anything else is said, so that what stays on the terminal reads as if it had never been there.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from statistics import median
from typing import TextIO

from bot.analysis.rivals import of_campaign
from bot.cli.gauges import Gauges, Use
from bot.model.campaign import Campaign, Checkpoint, Stage, Zone
from bot.model.commands import Optimize
from bot.model.facts import Fact, JournalLine, RoundOpened, VariantJudged
from bot.render import json_lines, terminal, view
from bot.render.terminal import Meter, Paint, ansi, no_paint

OPTIONS = ("mode", "goal", "scope", "gpu", "max_variants")
"""What a campaign is begun with, and keeps."""
REDRAW_S = 0.5
HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"
KNOWN_AFTER = 2
"""Rounds that have to be seen before anything is said about those to come."""


class Voice(StrEnum):
    LIVE = "live"
    LINES = "lines"
    QUIET = "quiet"
    JSON = "json"


def can_draw(stream: TextIO) -> bool:
    """Whether somebody sees it, on something that understands where a cursor goes."""
    return stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def voice_of(quiet: bool, as_json: bool, stream: TextIO) -> Voice:
    """What was asked for; else live where somebody can see it."""
    if as_json:
        return Voice.JSON
    if quiet:
        return Voice.QUIET
    return Voice.LIVE if can_draw(stream) else Voice.LINES


def paint_of(stream: TextIO) -> Paint:
    """Colour on a terminal, unless NO_COLOR says otherwise (no-color.org)."""
    return ansi if can_draw(stream) and not os.environ.get("NO_COLOR") else no_paint


class Pace:
    """How long rounds last, as seen by this command."""

    def __init__(self) -> None:
        self._opened: dict[int, float] = {}
        self._took: list[float] = []

    def heard(self, fact: Fact, now: float) -> None:
        if isinstance(fact, RoundOpened):
            self._opened[fact.variant.number] = now
        elif isinstance(fact, VariantJudged) and fact.number in self._opened:
            self._took.append(now - self._opened.pop(fact.number))

    def left(self, campaign: Campaign, now: float) -> float | None:
        """If every variant of the budget is tried and rounds go on like this; the search may well end sooner."""
        if campaign.stage is not Stage.OPTIMIZING or len(self._took) < KNOWN_AFTER:
            return None
        rounds = view.budget(campaign) - len(view.judged(campaign))
        under_way = max((now - at for at in self._opened.values()), default=0.0)
        seconds = median(self._took) * rounds - under_way
        return seconds if seconds > 0 else None


class Screen:
    """One campaign's voice. Everything it writes goes through here."""

    def __init__(
        self,
        voice: Voice,
        clock: Callable[[], str],
        *,
        gpu: str | None = None,
        out: TextIO | None = None,
        err: TextIO | None = None,
    ) -> None:
        self.voice, self._clock = voice, clock
        self._out, self._err = out or sys.stdout, err or sys.stderr
        self._paint, self._out_paint = paint_of(self._err), paint_of(self._out)
        self._began = self._since = time.monotonic()
        self._gauges, self._pace = Gauges(gpu), Pace()
        self._use = Use()
        self._campaign: Campaign | None = None
        self._drawn = 0
        """Lines of the picture that stands on the terminal now."""
        self._lock = threading.Lock()

    # The live picture

    def _width(self) -> int:
        return max(shutil.get_terminal_size((terminal.WIDTH, 24)).columns - 1, terminal.LEAST)

    def _height(self) -> int:
        return max(shutil.get_terminal_size((terminal.WIDTH, 24)).lines - 1, 4)

    def _meter(self) -> Meter:
        now = time.monotonic()
        return Meter(
            elapsed=now - self._began,
            step=now - self._since,
            processes=self._use.processes,
            cores_busy=self._use.cores_busy,
            cores=os.cpu_count(),
            gpu_percent=self._use.gpu_percent,
            gpu_mib=self._use.gpu_mib,
            left=self._pace.left(self._campaign, now) if self._campaign else None,
        )

    def _wipe(self) -> str:
        """Back to where the picture began, and nothing below it."""
        return f"\r\x1b[{self._drawn}A\x1b[J" if self._drawn else ""

    def _draw(self) -> None:
        with self._lock:
            if self._campaign is None:
                return
            lines = terminal.screen(self._campaign, self._meter(), self._width(), self._paint)
            kept = lines[: self._height()]
            self._err.write(f"{HIDE}{self._wipe()}" + "\n".join(kept) + "\n")
            self._err.flush()
            self._drawn = len(kept)

    def _clear(self) -> None:
        with self._lock:
            self._campaign = None
            self._err.write(f"{self._wipe()}{SHOW}")
            self._err.flush()
            self._drawn = 0

    @contextmanager
    def working(self, campaign: Campaign) -> Iterator[None]:
        """While this lasts somebody is at work and the picture moves."""
        if self.voice is not Voice.LIVE:
            yield
            return
        self._campaign, self._since = campaign, time.monotonic()
        over = threading.Event()

        def go_on() -> None:
            while not over.wait(REDRAW_S):
                self._use = self._gauges.read()
                self._draw()

        ticking = threading.Thread(target=go_on, daemon=True)
        self._draw()
        ticking.start()
        try:
            yield
        finally:
            over.set()
            ticking.join(timeout=5)
            self._clear()

    # What is said

    def _say(self, text: str) -> None:
        self._out.write(f"{text}\n")
        self._out.flush()

    def _mention(self, text: str) -> None:
        self._err.write(f"{text}\n")
        self._err.flush()

    def stage(self, campaign: Campaign) -> None:
        match self.voice:
            case Voice.LINES if campaign.stage in terminal.AT_WORK:  # a question says itself what it is
                self._mention(terminal.stage_text(campaign))
            case Voice.JSON:
                self._say(json_lines.of_stage(campaign, self._clock()))
            case _:
                pass

    def heard(self, campaign: Campaign, fact: Fact) -> None:
        """A fact was written down."""
        now = time.monotonic()
        self._pace.heard(fact, now)
        match self.voice:
            case Voice.LIVE:
                with self._lock:
                    self._campaign, self._since = campaign, now
                self._draw()
            case Voice.LINES:
                line = JournalLine(seq=0, at=self._clock(), zone=Zone.MEASURE, fact=fact)
                self._mention(f"  {terminal.told(line)}")
            case Voice.JSON:
                line_of = json_lines.of_fact(fact, campaign, self._clock())
                if line_of is not None:
                    self._say(line_of)
            case Voice.QUIET:
                pass

    def passed(self, step: str) -> None:
        """A part of what is under way: a line for who reads lines, as nothing else is said for minutes."""
        if self.voice is Voice.LINES:
            self._mention(f"  {step}")

    def goes_on(self, campaign: Campaign, head: str, asked: Optimize, *, no_script: bool = False) -> None:
        """An unfinished campaign was found; it stays at its own commit, whatever is checked out now, and as it was
        begun, whatever is asked now."""
        tried = len(view.judged(campaign))
        self.hint(f"going on with {campaign.id}: {tried} of {view.budget(campaign)} variants judged so far")
        if campaign.pull is not None and campaign.pull.head_sha != head:
            pinned = campaign.pull.head_sha[:7]
            self.hint(f"  it is about {pinned}, and HEAD is now {head[:7]}; --fresh begins anew from there")
        for name in OPTIONS if campaign.command is not None else ():
            was, now = getattr(campaign.command, name), getattr(asked, name)
            if was != now:
                option = name.replace("_", "-")
                self.hint(f"  it was begun with --{option} {was} and keeps it, not {now}; --fresh begins anew")

        if campaign.policy.benchmark_script and no_script:
            self.hint("  it was begun with the repository's own benchmark script and keeps it; --fresh begins anew")

    def question(self, campaign: Campaign, checkpoint: Checkpoint, *, approved: bool = False) -> None:
        """`approved`: it is answered already, by --yes."""
        if self.voice is Voice.JSON:
            self._say(json_lines.of_checkpoint(campaign, checkpoint, self._clock()))
        else:
            self._say(terminal.checkpoint_text(campaign, self._width(), self._out_paint, approved=approved))

    def answered(self, campaign: Campaign, fact: Fact) -> None:
        """Programs hear of the answer; whoever gave it knows."""
        line = json_lines.of_fact(fact, campaign, self._clock()) if self.voice is Voice.JSON else None
        if line is not None:
            self._say(line)

    def variant(self, campaign: Campaign, number: int) -> None:
        """Asked for at a prompt; a program reads stdout, so it goes beside it."""
        write = self._mention if self.voice is Voice.JSON else self._say
        write(terminal.variant_text(campaign, number, self._width(), self._out_paint))

    def result(self, campaign: Campaign) -> None:
        if self.voice is Voice.JSON:
            self._say(json_lines.of_result(campaign, self._clock()))
        else:
            self._say(terminal.result_text(campaign, self._out_paint, of_campaign(campaign)))

    def hint(self, text: str) -> None:
        """Something to type next, for people."""
        if self.voice in (Voice.LIVE, Voice.LINES):
            self._mention(text)

    def interrupted(self, campaign: Campaign, again: str, look: str, *, by: str) -> None:
        if self.voice is Voice.JSON:
            self._say(json_lines.of_interrupt(campaign, self._clock(), again))
            return
        self._mention(terminal.interrupted_text(campaign, again, look, by))
