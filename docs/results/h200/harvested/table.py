"""Writes the table of the README beside it, from each JSON file beside it.

Run it from the root of the repository, after a file was added:

    python docs/results/h200/harvested/table.py

Every figure is made again from the blocks that were read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from bot.analysis.harvested import figures
from bot.analysis.paired import MOST_SLOWER
from bot.model.harvested import HarvestedRun
from bot.model.ids import variant_name
from bot.render import harvested
from bot.render.escape import Trusted, text

HERE = Path(__file__).resolve().parent
BEGIN, END = "<!-- made by table.py -->\n", "<!-- end -->\n"


def grid(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [map(Trusted, head), [Trusted("---")] * len(head), *rows]
    return "".join(f"| {' | '.join(text(cell) for cell in line)} |\n" for line in lines)


def read_all(folder: Path) -> list[HarvestedRun]:
    return [HarvestedRun.model_validate_json(path.read_bytes()) for path in sorted(folder.glob("*.json"))]


def homes() -> dict[str, str]:
    """By the name of a campaign the folder of its journal: of several the last in which it came to its end."""
    found: dict[str, str] = {}
    for journal in sorted(HERE.parent.glob("campaigns/*/journal.jsonl")):
        first, *_, last = (json.loads(line)["fact"] for line in journal.read_text(encoding="utf-8").splitlines())
        if last["kind"] == "campaign_closed":
            found[first["campaign"]] = journal.parent.name
    return found


def rows(run: HarvestedRun, home: str | None) -> list[list[object]]:
    found = figures(run)
    shown = Trusted(f"[{home}](../campaigns/{home}/journal.jsonl)") if home else run.campaign
    name = [run.kernel, shown, variant_name(run.variant)]
    if isinstance(found, str):
        return [[*name, found, *[Trusted("-")] * 5]]
    return [[*name, *row] for row in harvested.rows(run, found)]


def notes(runs: Sequence[HarvestedRun]) -> Iterator[str]:
    for run in runs:
        found = figures(run)
        if not isinstance(found, str):
            said = harvested.bound(found, MOST_SLOWER)
            yield f"- {text(run.kernel)}: {text(said[0].lower() + said[1:])}\n"
        yield from (f"- {text(run.kernel)}: {text(line)}\n" for line in harvested.left_out(run))


def page(folder: Path) -> str:
    runs = read_all(folder)
    if not runs:
        return "Nothing was read yet.\n"
    known = homes()
    lines = [row for run in runs for row in rows(run, known.get(run.campaign))]
    table = grid(("Kernel", "Winner of", "Variant", *harvested.HEAD), lines)
    told = "".join(notes(runs))
    return f"{table}\n{told}" if told else table


def written(old: str, made: str) -> str:
    before, rest = old.split(BEGIN)
    return f"{before}{BEGIN}\n{made}\n{END}{rest.split(END)[1]}"


def main() -> None:
    readme = HERE / "README.md"
    readme.write_text(written(readme.read_text(encoding="utf-8"), page(HERE)), encoding="utf-8")


if __name__ == "__main__":
    main()
