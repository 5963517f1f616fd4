"""`kernelwright cases`: the sizes on which a kernel is scored, beside those that the library's benchmark measures."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from bot.bench.harvest import Harvest, Point, harvest
from bot.cli.local import kernel_of
from bot.model.measurement import Case, Suite
from bot.model.site import KernelSite
from bot.targets.contract import read_config
from bot.targets.liger import open_target
from bot.targets.tree import DirectoryTree

NOTHING = 1
"""Exit code where the benchmark could not be harvested."""
HEAD = ("type", "scored and reported", "in the benchmark", "handed over otherwise")


@dataclass(frozen=True)
class Row:
    """One size and type, from either side or from both."""

    sizes: tuple[tuple[str, int], ...]
    dtype: str
    scored: bool
    points: tuple[Point, ...] = ()

    @property
    def differs(self) -> tuple[str, ...]:
        """What all calls hand over otherwise; after an `or`, what some do."""
        words = dict.fromkeys(word for point in self.points for word in point.differs)
        return tuple(word if all(word in point.differs for point in self.points) else f"or {word}" for word in words)


def rows(cases: tuple[Case, ...], points: tuple[Point, ...]) -> tuple[Row, ...]:
    """Scored sizes first, in the order of the table; then what the benchmark measures besides."""
    found: dict[tuple[tuple[tuple[str, int], ...], str], list[Point]] = {}
    scored = dict.fromkeys((case.shape, str(case.dtype)) for case in cases)
    for key in scored:
        found[key] = []
    for point in points:
        found.setdefault((point.sizes, point.dtype), []).append(point)
    return tuple(Row(*key, key in scored, tuple(mine)) for key, mine in found.items())


def origins(row: Row) -> str:
    """`BT 1024 (liger, liger-fp32-accum)`."""
    places: dict[str, dict[str, None]] = {}
    for origin in (origin for point in row.points for origin in point.origins):
        places.setdefault(f"{origin.x_name} {origin.x}".strip() or "a call", {})[origin.provider] = None
    told = (f"{place} ({', '.join(filter(None, who))})" if any(who) else place for place, who in places.items())
    return ", ".join(told) or "-"


def _cells(row: Row) -> tuple[str, ...]:
    sizes = " x ".join(str(size) for _, size in row.sizes)
    return sizes, row.dtype, "yes" if row.scored else "no", origins(row), ", ".join(row.differs)


def _table(found: tuple[Row, ...]) -> Iterator[str]:
    names = " x ".join(name for name, _ in found[0].sizes)
    lines = [(names, *HEAD), *map(_cells, found)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()


def _legend(found: tuple[Row, ...]) -> Iterator[str]:
    """What the last two columns hold, where they hold something."""
    if any(row.points for row in found):
        yield "In the benchmark: a value on the script's own axis, and in brackets the script's name for what it times."
    if any(row.differs for row in found):
        yield "Handed over otherwise: what the scored cases do not give the op; after an `or`, what only some calls do."


def _text(site: KernelSite, found: tuple[Row, ...], harvested: Harvest) -> Iterator[str]:
    yield from _table(found)
    yield ""
    if harvested.why_not:
        yield f"Nothing was harvested of {site.benchmark_file}: {harvested.why_not}."
        yield f"What next: {harvested.what_next}."
        return
    both = sum(row.scored and bool(row.points) for row in found)
    measured = sum(bool(row.points) for row in found)
    verb = "is" if both == 1 else "are"
    yield f"{site.benchmark_file} would measure {measured} of these; {both} of them {verb} scored."
    yield f"It ran without a GPU and was told of an {harvested.gpu}, as everywhere: memory bounds some of its sizes."
    yield from _legend(found)
    yield "A report shows what is scored; `kernelwright harvested JOURNAL` times a winner on the others."
    if harvested.unbounded:
        yield f"Its sizes go as far as the script allows, whatever the memory: {harvested.unbounded}."
    for line in harvested.unread:
        yield f"Not read: {line}."


def _json(kernel: str, site: KernelSite, found: tuple[Row, ...], harvested: Harvest) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "kernel": kernel,
        "benchmark": site.benchmark_file,
        "gpu": harvested.gpu,
        "cases": [
            {
                "sizes": dict(row.sizes),
                "dtype": row.dtype,
                "scored": row.scored,
                "reported": row.scored,
                "benchmark": [
                    {"x_name": o.x_name, "x_label": o.x_label, "x": o.x, "provider": o.provider, "config": o.config}
                    for point in row.points
                    for o in point.origins
                ],
                "differs": list(row.differs),
            }
            for row in found
        ],
        "unbounded": harvested.unbounded,
        "unread": list(harvested.unread),
        "why_not": harvested.why_not,
        "what_next": harvested.what_next,
    }


def _harvested(root: Path, site: KernelSite, suite: Suite, python: str) -> Harvest:
    names = [name for name, _ in suite.cases[0].shape]
    with tempfile.TemporaryDirectory(prefix="kernelwright-cases-") as scratch:
        return harvest(root, site, names, python, Path(scratch))


@click.command()
@click.argument("kernel")
@click.option(
    "--repo",
    "root",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=".",
    help="The checkout.",
)
@click.option("--python", default=sys.executable, show_default="this one", help="The target's Python.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for programs.")
def cases(kernel: str, root: Path, python: str, as_json: bool) -> int:
    """The sizes on which KERNEL is scored, beside those that the library's own benchmark script measures.

    The script is run without a GPU and without computing anything, as a variant is: in a sandbox, with limits. Exit
    code 1 where nothing came of it; the last lines say why.
    """
    root = root.resolve()
    tree = DirectoryTree(root)
    target = open_target(tree, read_config(tree.read("kernelwright.toml")))
    name = kernel_of(target, kernel)
    site, suite = target.site(name), target.suite(name)
    harvested = _harvested(root, site, suite, python)
    found = rows(suite.cases, harvested.points)
    if as_json:
        click.echo(json.dumps(_json(name, site, found, harvested), indent=2, allow_nan=False))
    else:
        click.echo("\n".join(_text(site, found, harvested)))
    return NOTHING if harvested.why_not else 0
