"""What pages, records and the terminal show of rivals: plain cells and sentences, escaped where they are shown."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from bot.model.ids import variant_name
from bot.model.rivals import OF_WINNER, RivalCase, Rivalry, RivalTally
from bot.render import numbers
from bot.render.escape import Trusted, plain, text
from bot.render.tables import grid, left_out

Names = Mapping[str, str]
Row = Sequence[str]
WHO = {"eager": "plain PyTorch", "compiled": "torch.compile", "max-autotune": "torch.compile with max-autotune"}
LOUDEST = ("compiled", "max-autotune", "eager")
"""In a sentence; tables have them from the plain to the clever."""
NOT_PLAYED = "not played"
NOT_ASKED = "-"
"""The case was not to be played."""
NOT_CONFIRMED = "not confirmed"
SINGLE = "single passes"
"""Of passes of which none goes with another, which have no mean."""
UNTOUCHED = "the untouched kernel"


# The first line


def _exceeds(ratio: float) -> str:
    """Never `1.000x faster`."""
    shown = numbers.ratio(ratio)
    return "less than 1.001x" if shown == "1.000x" else shown


def _sentence(tally: RivalTally, what: str, names: Names) -> str:
    case, most = tally.faster[0]
    name, over = names.get(case, case), tally.over_best if tally.over_best is not None else tally.over_v0
    who = WHO[tally.name]
    if tally.held == 1:
        return f"{who} is {_exceeds(most)} faster than {what} on {name}, the only case they both have"
    ahead = len(tally.faster)
    every = "both cases" if ahead == 2 else f"all {ahead} cases"
    where = every if ahead == tally.held else f"{ahead} of {tally.held} cases"
    most_on = f"on {where} (most on {name}: {_exceeds(most)})"
    if tally.leads and over is not None:
        of = numbers.many(tally.held_shapes, "shape")
        return f"{who} is {_exceeds(over)} faster than {what} (geomean over {of}), faster {most_on}"
    return f"{who} is faster than {what} {most_on}"


def beaten(found: Rivalry | None, names: Names) -> str:
    """Who is faster than the best variant, than v0 where nothing won, and where; empty where nobody is."""
    if found is None:
        return ""
    what = variant_name(found.best) if found.best else UNTOUCHED
    ahead = {tally.name: tally for tally in found.tallies if tally.faster}
    said = [_sentence(ahead[name], what, names) for name in LOUDEST if name in ahead]
    return f"{'; '.join(said)}; measured{_on(found)}, each rival by one process" if said else ""


def _on(found: Rivalry) -> str:
    return f" on {found.gpu}" if found.gpu else ""


# Tables


def _over_v0(one: RivalCase) -> str:
    return f"{numbers.ratio(one.over_v0)} ({numbers.ratio(one.low)} to {numbers.ratio(one.high)})"


def _instead(tally: RivalTally, case: str) -> str:
    """What stands where it has no figure."""
    return NOT_PLAYED if case in dict(tally.missing) else NOT_ASKED


def _best(one: RivalCase | None) -> str:
    """The best variant over v0, with the interval over its processes."""
    if one is None or one.best_over_v0 is None:
        return NOT_CONFIRMED
    span = f" [{numbers.ratio(one.best_span[0])}, {numbers.ratio(one.best_span[1])}]" if one.best_span else ""
    return f"{numbers.ratio(one.best_over_v0)}{span}"


def _turned(ratio: float | None) -> str:
    """The best variant over the rival, of the rival over it."""
    return numbers.ratio(1 / ratio) if ratio is not None else numbers.UNKNOWN


def _order(found: Rivalry) -> list[str]:
    """Every case that was played or was to be, in the order of the suite as far as one rival tells it."""
    longest = max(found.tallies, key=lambda one: len(one.cases))
    every = [*longest.cases, *(case for tally in found.tallies for case in tally.cases)]
    return list(dict.fromkeys(one.case for one in every))


def _of(case: str, found: Rivalry) -> list[tuple[RivalTally, RivalCase | None]]:
    """Each rival with its figures of this case."""
    return [(tally, next((one for one in tally.cases if one.case == case), None)) for tally in found.tallies]


def _mean(ratio: str, cases: int, shapes: int, none: str = NOT_PLAYED) -> str:
    return (f"{ratio} ({numbers.many(shapes, 'shape')})" if shapes else SINGLE) if cases else none


def beside_v0(found: Rivalry, names: Names) -> tuple[Row, list[Row]]:
    """Head and rows: v0 and each rival in time, and each over v0."""
    head = ["Case", "v0", *(word for one in found.tallies for word in (one.name, f"{one.name} over v0"))]
    rows: list[Row] = []
    for case in _order(found):
        played = _of(case, found)
        v0 = median(one.v0_us for _, one in played if one is not None)
        cells = [
            cell
            for tally, one in played
            for cell in ((numbers.duration(one.rival_us), _over_v0(one)) if one else 2 * (_instead(tally, case),))
        ]
        rows.append([names.get(case, case), numbers.duration(v0), *cells])
    means = [_mean(numbers.ratio(tally.over_v0), len(tally.cases), tally.shapes) for tally in found.tallies]
    return head, [*rows, ["geomean", "", *(cell for mean in means for cell in ("", mean))]] if rows else []


def beside_best(found: Rivalry, names: Names) -> tuple[Row, list[Row]]:
    """Head and rows: the best variant and each rival over v0, and the best variant over each rival."""
    best = variant_name(found.best)
    pairs = [word for one in found.tallies for word in (f"{one.name} over v0", f"{best} over {one.name}")]
    rows: list[Row] = []
    for case in _order(found):
        played = _of(case, found)
        known = next((one for _, one in played if one is not None), None)
        cells = [
            cell
            for tally, one in played
            for cell in ((_over_v0(one), _turned(one.over_best)) if one else 2 * (_instead(tally, case),))
        ]
        rows.append([names.get(case, case), _best(known), *cells])
    means = [
        cell
        for tally in found.tallies
        for cell in (
            _mean(numbers.ratio(tally.over_v0), len(tally.cases), tally.shapes),
            _mean(_turned(tally.over_best), tally.held, tally.held_shapes, NOT_CONFIRMED),
        )
    ]
    last = ["geomean", numbers.ratio(found.best_over_v0), *means]
    return ["Case", f"{best} over v0", *pairs], [*rows, last] if rows else []


def rows(found: Rivalry, names: Names) -> tuple[Row, list[Row]]:
    return beside_best(found, names) if found.best else beside_v0(found, names)


def notes(found: Rivalry, names: Names, *, best: bool) -> list[str]:
    """Where the figures come from, and who could not be played."""
    played = [one for tally in found.tallies for one in tally.cases]
    said = []
    if played:
        fewest = min(one.blocks for one in played)
        said.append(
            f"measured{_on(found)}: each rival by one process, at least {fewest} blocks a case beside v0; in round "
            "brackets how far the blocks lie apart without the slowest and the fastest tenth"
        )
    if played and best and found.best:
        name = variant_name(found.best)
        said.append(
            f"{name} and a rival were never played against each other: {name} over a rival is the quotient of what "
            f"both are over v0; in square brackets the 95 % interval over the processes of {name}"
        )
    if any(tally.shapes for tally in found.tallies):
        said.append("a geomean is of shapes that were played in both directions, the passes of each added up")
    few = [tally for tally in found.tallies if tally.name in OF_WINNER and tally.cases]
    said += [
        f"{tally.name} is torch.compile in its mode max-autotune-no-cudagraphs, played in the cases in which v0 takes "
        "longest"
        for tally in few
    ]
    return [*said, *(line for tally in found.tallies for line in _missing(tally, names))]


def _missing(tally: RivalTally, names: Names) -> list[str]:
    """One line for each reason, with the cases it is of."""
    of: dict[str, list[str]] = {}
    for case, why in tally.missing:
        of.setdefault(why, []).append(names.get(case, case))
    return [
        f"{tally.name} counts nowhere on {', '.join(cases) if tally.cases or len(of) > 1 else 'any case'}: {why}"
        for why, cases in of.items()
    ]


def _markdown(table: tuple[Row, list[Row]], said: Sequence[str], most: int) -> Trusted:
    head, body = table
    if most < 1:
        return Trusted("")
    lines = "\n".join(f"- {text(line, 600)}" for line in said)
    if not body:
        return Trusted(lines)
    *cases, mean = body
    shown = cases[:most]
    return Trusted(f"{grid(head, [*shown, mean])}{left_out(len(shown), len(cases), 'case')}\n\n{lines}")


def of_profile(found: Rivalry | None, names: Names, most: int) -> Trusted:
    """The table of a profile: nothing but v0 and its rivals."""
    if found is None:
        return Trusted("")
    return _markdown(beside_v0(found, names), notes(found, names, best=False), most)


def of_report(found: Rivalry | None, names: Names, most: int) -> Trusted:
    """The table of a result: the best variant against the rivals, or v0 where nothing won."""
    if found is None:
        return Trusted("")
    return _markdown(rows(found, names), notes(found, names, best=True), most)


def lines(table: tuple[Row, list[Row]], said: Sequence[str], width: int) -> list[str]:
    """For a terminal: cells under each other, and below them what is to be said."""
    head, body = table
    cells = [[plain(cell) for cell in line] for line in (head, *body)] if body else []
    widths = [max(len(line[i]) for line in cells) for i in range(len(head))] if cells else []
    shown = ["  " + "  ".join(cell.ljust(wide) for cell, wide in zip(line, widths, strict=True)) for line in cells]
    told = [wrapped for line in said for wrapped in _wrapped(plain(line, 600), width)]
    return [*(line.rstrip() for line in shown), *told]


def _wrapped(line: str, width: int) -> list[str]:
    return textwrap.wrap(line, width, initial_indent="  ", subsequent_indent="    ")


def profile_lines(found: Rivalry | None, names: Names, width: int) -> list[str]:
    return lines(beside_v0(found, names), notes(found, names, best=False), width) if found is not None else []


def report_lines(found: Rivalry | None, names: Names, width: int) -> list[str]:
    return lines(rows(found, names), notes(found, names, best=True), width) if found is not None else []


# For programs


def as_json(found: Rivalry | None) -> list[dict[str, Any]]:
    """Above 1 the rival is the faster one, in every ratio."""
    if found is None:
        return []
    return [
        {
            "rival": tally.name,
            "processes": 1,
            "against": variant_name(found.best) if found.best else "v0",
            "over_v0": tally.over_v0,
            "over_v0_shapes": tally.shapes,
            "over_best": tally.over_best,
            "held_shapes": tally.held_shapes,
            "faster": [{"case": case, "ratio": ratio} for case, ratio in tally.faster],
            "cases": [asdict(one) | {"over_best": one.over_best} for one in tally.cases],
            "not_played": [{"case": case, "why": why} for case, why in tally.missing],
        }
        for tally in found.tallies
    ]
