"""`--wiki DIR`: opens a local knowledge base, and says what it adds to the datasheet of a GPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, runtime_checkable

import click

from bot.bench.measure import Bench
from bot.hardware.catalog import for_runner
from bot.hardware.wiki import NoWiki, Wiki, disagreements, learned, read_wiki
from bot.model.hardware import Learned
from bot.model.measurement import Runner
from bot.targets.tree import DirectoryTree, read_text
from bot.zones.clock import utc_now

option = click.option(
    "--wiki",
    type=click.Path(path_type=Path),
    help="A folder of hardware pages with a README.md that links them: read for what no datasheet here has.",
)


@runtime_checkable
class Learns(Protocol):
    """A bench that can be told of its GPU."""

    learned: tuple[Learned, ...]


def open_wiki(path: Path) -> Wiki | NoWiki:
    """What can be looked up in a folder, or why nothing can. Links out of it are not followed."""
    if not path.is_dir():
        hint = "name the folder that holds the knowledge base and its README.md"
        return NoWiki(reason="no_folder", detail=f"{path} is not a folder", hint=hint)
    tree = DirectoryTree(path)
    return read_wiki(lambda page: read_text(tree, page))


def learned_of(runner: Runner, path: Path | None, tell: Callable[[str], None], today: str) -> tuple[Learned, ...]:
    """For whoever opens a bench. Where nothing can be looked up that is told, and the work goes on without."""
    if path is None:
        return ()
    wiki = open_wiki(path)
    if isinstance(wiki, NoWiki):
        tell(f"--wiki {path}: {wiki.detail}; {wiki.hint}")
        return ()
    sheet = for_runner(runner)
    facts = wiki.find(sheet)
    if not facts:
        tell(f"--wiki {path}: no page has a section of exactly the {sheet.gpu}")
    for line in disagreements(sheet, facts):
        tell(f"--wiki {path}: {line}")
    return learned(sheet, facts, read=today)


def informed(open_bench: Callable[..., Bench], path: Path | None, tell: Callable[[str], None]) -> Callable[..., Bench]:
    """The same benches, which know what the knowledge base says of their GPU. Nothing is told twice."""
    told: set[str] = set()

    def tell_once(line: str) -> None:
        if line not in told:
            told.add(line)
            tell(line)

    def opened(*arguments: object, **options: object) -> Bench:
        bench = open_bench(*arguments, **options)
        if isinstance(bench, Learns):
            bench.learned = learned_of(bench.runner, path, tell_once, utc_now()[:10])
        return bench

    return opened
