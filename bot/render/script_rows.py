"""What the repository's own benchmark script read of v0 and of the winner: its words, its clock, and nobody's verdict.

The rows are text of the repository's own code. What is no number counts as not there.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import StringIO
from math import isfinite
from statistics import geometric_mean

from bot.model.campaign import Campaign
from bot.model.finalization import CommandRun, Finalization, ScriptRun
from bot.model.ids import variant_name
from bot.render import numbers
from bot.render.escape import CELL_LIMIT, Trusted, code, plain, text
from bot.render.tables import fold, grid, left_out

KEYS = ("kernel_name", "kernel_provider", "kernel_operation_mode", "metric_name", "x_name", "x_value")
CONFIG, MEDIAN = "extra_benchmark_config_str", "y_value_50"
PROVIDER, MODE, METRIC = 1, 2, 3
LIBRARY = "liger"
"""How the providers of the library's own implementations begin."""
OTHERS = "the others (untouched)"
MOST_LINES = 12
"""Liger-Kernel's scripts read two figures in four modes; another may write what it likes into the last question."""
WORD = 40
"""Of a name that the script brought."""
HEAD = ("What it read", "Of whom", "Mode", "Sizes", "v0 / {winner}", "Least", "Most")
DECIDES_NOTHING = "It decides nothing."


@dataclass(frozen=True, slots=True)
class Line:
    """One figure of the script for one mode, over all sizes of its sweep."""

    metric: str
    is_ours: bool
    mode: str
    ratios: tuple[float, ...]

    @property
    def mean(self) -> float:
        return geometric_mean(self.ratios)


def _number(said: str | None) -> float | None:
    try:
        value = float(said or "")
    except ValueError:
        return None
    return value if isfinite(value) and value > 0 else None


def _read(table: str) -> dict[tuple[str, ...], float]:
    """By whose, which and where, the median."""
    rows = csv.DictReader(StringIO(table, newline=""), restkey="more", restval="")
    found: dict[tuple[str, ...], float] = {}
    for row in rows:
        value = _number(row.get(MEDIAN))
        if value is not None:
            found[tuple(str(row.get(name) or "") for name in (*KEYS, CONFIG))] = value
    return found


def _compared(before: Mapping[tuple[str, ...], float], after: Mapping[tuple[str, ...], float]) -> Iterator[Line]:
    ratios: dict[tuple[str, bool, str], list[float]] = {}
    for key, was in before.items():
        now = after.get(key)
        if now is not None and isfinite(was / now) and was / now > 0:  # neither over the edge of a float nor under
            what = (key[METRIC], key[PROVIDER].startswith(LIBRARY), key[MODE])
            ratios.setdefault(what, []).append(was / now)
    for (metric, is_ours, mode), many in ratios.items():
        yield Line(metric, is_ours, mode, tuple(many))


def _runs(campaign: Campaign) -> tuple[ScriptRun | None, ScriptRun | None]:
    """Of v0, and of the winner."""
    runs = campaign.finalization.scripts if campaign.finalization else ()
    return next((one for one in runs if not one.variant), None), next((one for one in runs if one.variant), None)


def read_lines(campaign: Campaign) -> tuple[Line, ...]:
    """What both runs read, the library's own before what nobody touched."""
    before, after = _runs(campaign)
    if before is None or after is None:
        return ()
    found = _compared(_read(before.table), _read(after.table))
    return tuple(sorted(found, key=lambda line: (not line.is_ours, line.metric, line.mode)))


def sentence(campaign: Campaign) -> str:
    """How its runs went, in plain words; empty where there was none."""
    before, after = _runs(campaign)
    if before is None:
        return ""
    if after is None:
        return f"The repository's own benchmark script does not run here on v0: {plain(before.run.summary, 200)}"
    who = variant_name(after.variant)
    if not after.run.passed:
        how = f"runs on v0 and not on {who}" if after.is_broken else f"was not through on {who} in twice v0's time"
        return f"The repository's own benchmark script {how}: {plain(after.run.summary, 200)}"
    ours = [line for line in read_lines(campaign) if line.is_ours]
    if not ours:
        return f"The repository's own benchmark script ran on v0 and on {who}; no figures of it can be read"
    told = "; ".join(
        f"{plain(line.metric, WORD)}{f', {plain(line.mode, WORD)}' if line.mode else ''} {numbers.ratio(line.mean)}"
        f" over {numbers.many(len(line.ratios), 'size')}"
        for line in ours[:MOST_LINES]
    )
    more = f"; and {len(ours) - MOST_LINES} more" if len(ours) > MOST_LINES else ""
    return f"The repository's own benchmark script on v0 and then on {who}, v0 over {who}: {told}{more}"


def table(campaign: Campaign) -> Trusted:
    """The same with its spread, and what moved that nobody touched."""
    lines, (_, after) = read_lines(campaign), _runs(campaign)
    if not lines or after is None:
        return Trusted("")
    head = [word.format(winner=variant_name(after.variant)) for word in HEAD]
    rows = [
        [
            text(line.metric, WORD),
            "the library" if line.is_ours else OTHERS,
            text(line.mode or "all", WORD),
            str(len(line.ratios)),
            numbers.ratio(line.mean),
            numbers.ratio(min(line.ratios)),
            numbers.ratio(max(line.ratios)),
        ]
        for line in lines[: 2 * MOST_LINES]
    ]
    return Trusted(grid(head, rows) + left_out(len(rows), len(lines), "line"))


def section(campaign: Campaign) -> Trusted:
    """For the record: how it is called, how it went, what it read."""
    before, _ = _runs(campaign)
    if before is None:
        return Trusted("")
    called = f"{code(' '.join(before.run.argv))}, each variant by one run in a clean worktree. {DECIDES_NOTHING}"
    return Trusted("\n\n".join(filter(None, (f"{text(sentence(campaign), 2 * CELL_LIMIT)}.", called, table(campaign)))))


def folded(campaign: Campaign) -> Trusted:
    """For a comment: what it read to unfold, or why there is nothing."""
    said, shown = sentence(campaign), table(campaign)
    return fold(f"{said}. {DECIDES_NOTHING}", shown) or text(f"{said}." if said else "", 2 * CELL_LIMIT)


def tables(campaign: Campaign) -> tuple[ScriptRun, ...]:
    """The runs that wrote rows."""
    return tuple(one for one in _runs(campaign) if one is not None and one.table)


def commands(done: Finalization) -> list[tuple[str, CommandRun]]:
    """Everything of the repository's own that ran on the winner."""
    scripts = [(f"script, v{one.variant}", one.run) for one in done.scripts]
    return [*(("tests", run) for run in done.tests), *(("style", run) for run in done.style), *scripts]
