"""Reads what Nsight Compute exports with --csv, in both shapes it has.

`--page raw` is wide: a line of names, a line of units, a line for each profiled launch. `--page details`, which is also
what `--metrics` alone gives, is long: a line for each counter. Around it stand lines of its own (`==PROF==`), what the
program printed, and behind a filter that met nothing a list of kernels in which commas are no separators. The file was
within reach of a program that may be hostile: sizes are capped, and a cell that is no number is left out.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator

from bot.model.profiling import Counter, KernelCounters

MOST_KERNELS, MOST_COLUMNS, MOST_BYTES = 256, 8000, 16 * 2**20
FIRST = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name")
NAME = 200
SCALES: dict[str, tuple[str, float]] = {
    **{unit: ("ns", scale) for unit, scale in (("nsecond", 1), ("ns", 1), ("usecond", 1e3), ("us", 1e3))},
    **{unit: ("ns", scale) for unit, scale in (("msecond", 1e6), ("ms", 1e6), ("second", 1e9), ("s", 1e9))},
    **{unit: ("byte", scale) for unit, scale in (("byte", 1), ("Kbyte", 1e3), ("Mbyte", 1e6), ("Gbyte", 1e9))},
    **{unit: ("byte", scale) for unit, scale in (("KB", 1e3), ("MB", 1e6), ("GB", 1e9), ("Tbyte", 1e12))},
}
"""What a unit is in base units. Versions before 2024 say `nsecond` and `usecond`, later ones `ns` and `us`."""


class Unreadable(ValueError):
    """It is not what Nsight Compute exports; the text says why."""


def number(cell: str) -> float | None:
    """`1,234.5` and, where a machine writes its numbers the other way round, `1.234,5`; None for what is no number."""
    text = cell.strip().replace("\u202f", "").replace("\u00a0", "")
    comma, point = text.rfind(","), text.rfind(".")
    if comma > point >= 0 or (comma >= 0 > point and len(text) - comma != 4):
        text = text.replace(".", "").replace(",", ".")
    elif text.count(".") > 1:
        text = text.replace(".", "")
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _counter(name: str, unit: str, cell: str) -> Counter | None:
    value = number(cell)
    base, scale = SCALES.get(unit.strip(), (unit.strip()[:40], 1.0))
    return Counter(name=name[:NAME], value=value * scale, unit=base) if value is not None else None


def _table(text: str) -> list[list[str]]:
    """From the line of names on; lines that are not as long as it are none of the table's."""
    if len(text) > MOST_BYTES:
        raise Unreadable(f"more than {MOST_BYTES // 2**20} MiB")
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.lstrip("\ufeff").startswith('"ID"')), None)
    if start is None:
        raise Unreadable("no line of names: no table was exported")
    kept = [line.lstrip("\ufeff") for line in lines[start:] if not line.startswith("==")]
    try:
        rows = list(csv.reader(io.StringIO("\n".join(kept))))
    except csv.Error as error:
        raise Unreadable(str(error)) from error
    head = rows[0]
    if tuple(head[: len(FIRST)]) != FIRST or len(head) > MOST_COLUMNS:
        raise Unreadable("the line of names is another one than is known")
    return [head, *(row for row in rows[1:] if len(row) == len(head))]


def _wide(head: list[str], rows: Iterable[list[str]], wanted: frozenset[str]) -> Iterator[KernelCounters]:
    units = [""] * len(head)
    for row in rows:
        cells = dict(zip(head, row, strict=True))
        if not cells["ID"].strip():
            units = row
            continue
        found = (
            _counter(name, unit, cell) for name, unit, cell in zip(head, units, row, strict=True) if name in wanted
        )
        yield _kernel(cells, [counter for counter in found if counter is not None])


def _long(rows: Iterable[dict[str, str]], wanted: frozenset[str]) -> Iterator[KernelCounters]:
    launches: dict[str, tuple[dict[str, str], dict[str, Counter]]] = {}
    for cells in rows:
        _, found = launches.setdefault(cells["ID"], (cells, {}))
        name = cells["Metric Name"]
        counter = _counter(name, cells["Metric Unit"], cells["Metric Value"]) if name in wanted else None
        if counter is not None:
            found.setdefault(name, counter)
    for cells, found in launches.values():
        yield _kernel(cells, list(found.values()))


def _kernel(cells: dict[str, str], counters: list[Counter]) -> KernelCounters:
    name = cells["Kernel Name"].partition("(")[0].strip()[:NAME]
    return KernelCounters(kernel=name, grid=cells.get("Grid Size", "")[:40], counters=tuple(counters))


def parse(text: str, wanted: Iterable[str]) -> tuple[KernelCounters, ...]:
    """The profiled launches in their order, each with those of the wanted counters that it has, in base units."""
    head, *rows = _table(text)
    names = frozenset(wanted)
    if "Metric Name" in head:
        found = _long((dict(zip(head, row, strict=True)) for row in rows), names)
    else:
        found = _wide(head, rows, names)
    return tuple(found)[:MOST_KERNELS]
