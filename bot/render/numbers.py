"""One voice for figures: a number never goes without its unit, and a modelled one never without the word for it."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, isclose, isfinite, log10

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


def listed(names: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


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
    """`1.1 % more memory`, where it changed. Bytes are counted, not modelled."""
    if value.memory is None or abs(value.memory - 1) < MEMORY_SHOWN:
        return ""
    change = 100 * (1 / value.memory - 1)
    return f"{percent(abs(change))} {'more' if change > 0 else 'less'} memory"


def with_memory(value: Score) -> str:
    """The same as the end of a clause."""
    return f", with {said}" if (said := memory(value)) else ""


def speed_interval(value: Score) -> tuple[float, float] | None:
    """The interval of the speed-up. Of a score into which memory is weighed it is what the score's own follows from:
    memory is counted, not timed, so all that is unsure of such a score is its speed."""
    if value.low is None or value.high is None:
        return None
    if speed(value) == value.value:
        return value.low, value.high
    memory = value.memory if value.memory is not None else 1.0
    if isclose(value.value**2, speed(value) * memory, rel_tol=1e-9):
        return value.low**2 / memory, value.high**2 / memory
    return None


def is_unsure(value: Score, noise_percent: float | None = None) -> bool:
    """A measured speed-up that noise could make: its interval holds 1, or it stands no higher than the noise."""
    span = speed_interval(value)
    within = (noise_percent or 0) >= round(100 * abs(speed(value) - 1), 9)
    return span is not None and (span[0] <= 1 <= span[1] or within)


def _interval(value: Score, noise_percent: float | None) -> str:
    """For a measured score: the interval, the noise it stands above, or that it does not."""
    span = speed_interval(value)
    if span is None:
        return f"{ratio(speed(value))} (no interval recorded)"
    interval = f"[{ratio(span[0])}, {ratio(span[1])}]"
    noise = f", noise floor ±{percent(noise_percent)}" if noise_percent is not None else ""
    if is_unsure(value, noise_percent):
        return f"no significant change {interval}{noise}"
    return f"{ratio(speed(value))} {interval}{noise}"


def speed_alone(value: Score | None, noise_percent: float | None = None) -> str:
    """The speed-up, estimated or with its interval and the noise it stands above; no word on memory."""
    if value is None:
        return "not scored"
    if value.evidence is Evidence.STATIC:
        return labelled(ratio(speed(value)), value.evidence)
    return _interval(value, noise_percent)


def over(value: Score | None, what: str) -> str:
    """The speed-up over something, then the memory: never `with 2 % more memory over v0`."""
    if value is None:
        return "not scored"
    return f"{speed_alone(value)} over {what}{with_memory(value)}"


def score(value: Score | None, noise_percent: float | None = None) -> str:
    """Speed-up and memory, where the sentence names nothing that it is over."""
    return speed_alone(value, noise_percent) + (with_memory(value) if value is not None else "")


def small_gain(share: float) -> str:
    """A share as a signed percentage: two decimals where the 1 % that is asked for decides."""
    return f"{100 * share:+.2f} %" if abs(share) < 0.02 else percent(100 * share, signed=True)


def more(ratio_before_after: float) -> str:
    """What a ratio of before over after means for what is needed: `+2.1 %` is more."""
    share = 100 * (1 / ratio_before_after - 1) if ratio_before_after > 0 else None
    return "same" if share is not None and abs(share) < 0.05 else percent(share, signed=True)
