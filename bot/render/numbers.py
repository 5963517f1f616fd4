"""One voice for figures: a number never goes without its unit, and a modelled one never without the word for it."""

from __future__ import annotations

from math import floor, isfinite, log10

from bot.model.measurement import Evidence
from bot.model.verdict import Score

UNKNOWN = "unknown"
ESTIMATED = "(estimated)"
MEMORY_SHOWN = 0.005
"""A change of memory below this share is not worth a word."""


def _three_figures(value: float) -> str:
    """Three significant figures, without an exponent."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.2e}")
    return f"{rounded:.{max(2 - floor(log10(abs(rounded))), 0)}f}"


def labelled(shown: str, evidence: Evidence) -> str:
    """What a model computed says so."""
    return f"{shown} {ESTIMATED}" if evidence is Evidence.STATIC and shown != UNKNOWN else shown


def duration(us: float | None) -> str:
    """A time given in microseconds."""
    if us is None or not isfinite(us):
        return UNKNOWN
    for size, unit in ((1e6, "s"), (1e3, "ms")):
        if float(f"{us:.2e}") >= size:
            return f"{_three_figures(us / size)} {unit}"
    return f"{_three_figures(us)} us"


def seconds(value: float) -> str:
    """Wall time of a command."""
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest} s"


def ratio(value: float | None) -> str:
    """Three decimals near 1, where they decide; nothing is rounded to look better."""
    if value is None or not isfinite(value):
        return UNKNOWN
    if 0.9 < value < 1.1 and value != 1:
        return f"{value:.3f}x"
    return f"{value:.0f}x" if value >= 100 else f"{value:.1f}x" if value >= 10 else f"{value:.2f}x"


def percent(value: float | None, *, signed: bool = False) -> str:
    """A value already in percent."""
    if value is None or not isfinite(value):
        return UNKNOWN
    places = 0 if abs(value) >= 10 and not signed else 1
    shown = f"{value:+.{places}f}" if signed else f"{value:.{places}f}"
    return f"{shown.replace('+0.0', '0.0').replace('-0.0', '0.0') if float(shown) == 0 else shown} %"


def change(before: float | None, after: float | None) -> str:
    """Signed change of a quantity, relative to what it was."""
    if before is None or after is None or before == 0:
        return UNKNOWN
    return percent(100 * (after / before - 1), signed=True)


def size(count: int | None) -> str:
    """Bytes."""
    if count is None:
        return UNKNOWN
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def many(count: int, one: str, more: str = "") -> str:
    """A count with its noun."""
    return f"{count} {one if count == 1 else more or one + 's'}"


def speed(value: Score) -> float:
    """The speed-up people read. A goal may weigh memory into `value`; where it does, `speed` is kept apart."""
    return value.value if value.speed is None else value.speed


def memory(value: Score) -> str:
    """A word on memory, where it changed. Bytes are counted, not modelled."""
    if value.memory is None or abs(value.memory - 1) < MEMORY_SHOWN:
        return ""
    change = 100 * (1 / value.memory - 1)
    return f", with {percent(abs(change))} {'more' if change > 0 else 'less'} memory"


def _interval(value: Score, noise_percent: float | None) -> str:
    """For a measured score: the interval, the noise it stands above, or that it does not."""
    if value.low is None or value.high is None:
        return f"{ratio(speed(value))} (no interval recorded)"
    interval = f"[{ratio(value.low)}, {ratio(value.high)}]"
    noise = f", noise floor ±{percent(noise_percent)}" if noise_percent is not None else ""
    if value.low <= 1 <= value.high or (noise_percent or 0) >= round(100 * abs(value.value - 1), 9):
        return f"no significant change {interval}{noise}"
    if speed(value) == value.value:
        return f"{ratio(value.value)} {interval}{noise}"
    return f"{ratio(speed(value))}, score {ratio(value.value)} {interval}{noise}"


def speed_alone(value: Score | None, noise_percent: float | None = None) -> str:
    """The speed-up, estimated or with its interval and the noise it stands above; no word on memory."""
    if value is None:
        return "not scored"
    if value.evidence is Evidence.STATIC:
        return labelled(ratio(speed(value)), value.evidence)
    return _interval(value, noise_percent)


def score(value: Score | None, noise_percent: float | None = None) -> str:
    """A score as a sentence may quote it."""
    return speed_alone(value, noise_percent) + (memory(value) if value is not None else "")
