"""A goal with a number, as people write it: `forward under 0.3ms at hidden_size=4096`, `full 1.5x faster`."""

from __future__ import annotations

import re
from decimal import Decimal
from difflib import get_close_matches
from typing import Literal

from bot.commands.quoting import shown
from bot.model.commands import CommandError, TargetMetric
from bot.model.reasons import ReasonCode

FORMS = (
    "forward under 0.3ms at hidden_size=4096",
    "backward < 120us",
    "full 1.5x faster",
    "forward at least 1.3x",
)
LONGEST = 200
LONGEST_TIME_US = Decimal(10**9)
MOST_SPEEDUP = Decimal(1000)
MOST_PLACES = 6
LARGEST_SIZE = 2**40
_DIRECTIONS: dict[str, Literal["forward", "backward", "full"]] = {
    "forward": "forward",
    "fwd": "forward",
    "backward": "backward",
    "bwd": "backward",
    "full": "full",
    "both": "full",
}
_UNITS = {"ns": Decimal("0.001"), "us": Decimal(1), "ms": Decimal(1000), "s": Decimal(1_000_000)}
_SPOKEN_UNITS = {"µs": "us", "μs": "us", "microseconds": "us", "milliseconds": "ms", "seconds": "s", "sec": "s"}
_NUMBER = r"(?P<number>[0-9]{1,9}(?:\.[0-9]{1,6})?|\.[0-9]{1,6})"
_TIME = re.compile(
    rf"(?:under|below|within|less than|faster than|at most|no more than|<=?|≤) ?{_NUMBER} ?(?P<unit>[a-zµμ]+)"
)
_SPEEDUP = re.compile(rf"(?:at least |>=? ?|≥ ?|by )?{_NUMBER} ?(?:x|×|times)(?: faster)?")
_PLACE = re.compile(r"(?P<name>[a-z_][a-z0-9_]{0,31})(?: ?= ?| )(?P<size>[0-9]{1,13})", re.IGNORECASE)

_Reached = tuple[str, Decimal | None, Decimal | None]
"""The canonical words, then the time in us or the speed-up."""


def _reached(said: str) -> _Reached | None:
    if found := _TIME.fullmatch(said):
        unit = _SPOKEN_UNITS.get(found["unit"], found["unit"])
        time = Decimal(found["number"]) * _UNITS.get(unit, Decimal(0))
        return (f"under {found['number']}{unit}", time, None) if 0 < time <= LONGEST_TIME_US else None
    if found := _SPEEDUP.fullmatch(said):
        speedup = Decimal(found["number"])
        return (f"at least {found['number']}x", None, speedup) if 1 < speedup <= MOST_SPEEDUP else None
    return None


def _places(said: str) -> tuple[tuple[str, int], ...] | None:
    """`hidden_size=4096, T=2048`. Names keep their case: they are the cases' own."""
    found = [_PLACE.fullmatch(part.strip()) for part in re.split(r",| and ", said)] if said else []
    places = tuple((one["name"], int(one["size"])) for one in found if one)
    distinct = len({name for name, _ in places}) == len(found)
    sized = all(0 < size <= LARGEST_SIZE for _, size in places)
    return places if distinct and sized and len(found) <= MOST_PLACES else None


def _read(text: str) -> TargetMetric | None:
    direction, _, rest = text.partition(" ")
    rest = re.sub(r"\Apass ", "", rest, flags=re.IGNORECASE)
    reach, _, place = (
        part.strip() for part in re.sub(r" (?:at|for) (?=[A-Za-z_])(?!least)", "\0", rest).partition("\0")
    )
    reached, places = _reached(reach.lower()), _places(place)
    if direction.lower() not in _DIRECTIONS or reached is None or places is None:
        return None
    words, time, speedup = reached
    where = ", ".join(f"{name}={size}" for name, size in places)
    return TargetMetric(
        direction=_DIRECTIONS[direction.lower()],
        below_us=None if time is None else float(time),
        speedup=None if speedup is None else float(speedup),
        where=places,
        text=f"{_DIRECTIONS[direction.lower()]} {words}" + (f" at {where}" if where else ""),
    )


def _completed(line: str) -> str:
    """A target whose pass is missing or misspelt, mended; a number nobody asked for is never offered for pasting."""
    first, _, rest = line.partition(" ")
    close = get_close_matches(first.lower()[:20], _DIRECTIONS, n=1)
    better = f"{_DIRECTIONS[close[0]]} {rest}" if close else f"full {line}"
    return better if len(better) <= LONGEST and _read(better) else ""


def parse(text: str) -> TargetMetric | CommandError:
    """The typed goal, its `text` in one spelling; or the forms that are understood, `paste` being a better target."""
    line = " ".join(text.split()).rstrip(".;,!? ")
    found = _read(line) if len(line) <= LONGEST else None
    better = _completed(line)
    meant = f"Did you mean `{better}`? " if better else ""
    return found or CommandError(
        code=ReasonCode.TARGET_NOT_UNDERSTOOD,
        what=f"the target {shown(text)} is not one I can check",
        why="A target names a pass (forward, backward or full) and either a time above 0 us or a speed-up above 1x.",
        hint=f"{meant}These are understood: {'; '.join(f'`{form}`' for form in FORMS)}.",
        paste=better,
    )
