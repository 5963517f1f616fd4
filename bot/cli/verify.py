"""`kernelwright verify`: recompute every figure of a calibration from its raw blocks, without a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from bot.analysis.calibration import Calibration, Group, Planted, Report, Share, parse, report
from bot.analysis.nulls import VARIANTS, NullGroup, Nulls
from bot.errors import UserError, why_unread
from bot.model.verdict import Pace

MAX_FILE = 2**30


def _read(path: Path) -> Calibration:
    try:
        if path.stat().st_size > MAX_FILE:
            raise UserError(f"{path} is larger than {MAX_FILE // 2**20} MiB", hint="split it: several files add up")
        return parse(path.read_bytes(), str(path))
    except OSError as error:
        raise UserError(
            f"cannot read {path}: {error.strerror}", hint="name a file that calibrate wrote", reason=why_unread(error)
        ) from error


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.2f} %"


def _count(share: Share) -> str:
    return f"{share.hits} of {share.tries}"


def _aa(group: Group, row: Planted) -> list[str]:
    shares = [_count(row.accepted), _percent(row.accepted.at_most), _percent(row.accepted.resampled_high)]
    floor = "-" if group.floor_percent is None else f"{group.floor_percent:.3f} %"
    return [group.name, *shares, _count(row.found), str(row.ambiguous), floor, f"{group.min_gain_percent:.3f} %"]


def _effect(group: Group, row: Planted) -> list[str]:
    found = [_count(row.found), _percent(row.found.at_least), _percent(row.found.resampled_low)]
    accepted = [_count(row.accepted), _percent(row.accepted.at_most), str(row.ambiguous)]
    return [group.name, f"{row.percent:+g} %", *found, *accepted]


def _errors(group: Group) -> list[str]:
    assert group.errors is not None
    found = group.errors
    known = found.median_low is not None and found.median_high is not None
    spread = f"{found.median_low:.3f} to {found.median_high:.3f}" if known else "-"
    inside = [_count(found.coverage), _percent(found.coverage.hits / found.coverage.tries)]
    return [group.name, str(found.trials), f"{found.median:.3f}", spread, f"{found.p95:.3f}", *inside]


def _null(group: NullGroup) -> list[str]:
    accepted = [f"{group.accepted} of {group.campaigns}", _percent(group.at_most)]
    medians = [f"{group.looked_percent:+.3f} %", f"{group.confirmed_percent:+.3f} %"]
    return [group.name, *accepted, *medians, f"{group.min_gain_percent:.3f} %"]


def _null_campaigns(found: Nulls) -> Iterator[str]:
    yield ""
    yield f"Null campaigns: accepted {found.groups[-1].accepted} of {found.groups[-1].campaigns}"
    yield f"(the best of {VARIANTS} that are v0 in other words; medians of how much faster it was)"
    head = ["class", "accepted", "at most (95 %)", "in the search", "in fresh processes", "min_gain"]
    yield from _columns([head, *map(_null, found.groups)])
    yield from (f"  accepted: {one.name}, kernel {one.best}" for one in found.campaigns if one.said is Pace.FASTER)


def lines(found: Report) -> Iterator[str]:
    yield from (f"made by: {command}" for command in found.commands)
    same = [_aa(group, row) for group in found.groups for row in group.planted if row.percent == 0]
    head = [
        "class",
        "accepted",
        "at most (95 %)",
        "by processes",
        "no verdict either way",
        "ambiguous",
        "floor",
        "min_gain",
    ]
    yield from ["", "A against A", *_columns([head, *same])] if same else ["", "A against A: no trials"]
    effects = [_effect(group, row) for group in found.groups for row in group.planted if row.percent != 0]
    head = ["class", "planted", "found", "at least (95 %)", "by processes", "accepted", "at most (95 %)", "ambiguous"]
    yield from ["", "Planted effects (above 0: faster)", *_columns([head, *effects])] if effects else []
    errors = [_errors(group) for group in found.groups if group.errors]
    head = ["class", "trials", "median", "median, 95 %", "p95", "truth in 95 % interval", "share"]
    yield from ["", "Error against the truth, percentage points", *_columns([head, *errors])] if errors else []
    yield from _null_campaigns(found.nulls) if found.nulls else []
    yield from ["", "Set aside:", *(f"  {reason}" for reason in found.set_aside)] if found.set_aside else []


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print every figure as JSON.")
def verify(files: tuple[Path, ...], as_json: bool) -> int:
    """Recompute from the raw blocks of FILES, which add up: false accepts, planted effects, errors, floors, null
    campaigns."""
    found = report([_read(path) for path in files])
    click.echo(found.model_dump_json(indent=2) if as_json else "\n".join(lines(found)))
    return 0
