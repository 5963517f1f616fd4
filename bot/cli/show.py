"""`kernelwright show`: replay the journal of a campaign, tell how it stands, or make one page of it to be mailed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click

from bot.analysis.rivals import of_campaign
from bot.campaign.machine import fold
from bot.errors import CorruptRecord, OperatorError, UserError
from bot.hardware.catalog import cited, for_runner
from bot.ledger import journal, slim
from bot.ledger.journal import JournalFile
from bot.ledger.layout import JOURNAL, LEDGER_REF, is_campaign, journal_path
from bot.model.campaign import Campaign
from bot.model.facts import CampaignRequested, JournalLine
from bot.model.reasons import ReasonCode
from bot.render import view
from bot.render.summary import summary
from bot.render.terminal import story_text
from bot.targets.tree import DirectoryTree, read_text

MOST_NAMED = 8
"""Campaigns that an answer about a wrong name offers."""


def _local(root: Path) -> Iterator[Path]:
    """Journals of campaigns on this checkout, those that were moved aside among them."""
    yield from sorted((root / "optimization").glob(f"*/{JOURNAL}"))


def id_of(lines: tuple[JournalLine, ...]) -> str:
    first = next((line.fact for line in lines if isinstance(line.fact, CampaignRequested)), None)
    return first.campaign if first else "unknown"


def _file(name: str, root: Path) -> Path | None:
    """A journal file, a campaign's folder, a kernel's folder under optimization/, or the one that holds this id."""
    for path in (Path(name), Path(name) / JOURNAL, root / "optimization" / name / JOURNAL):
        if path.is_file():
            return path
    if not is_campaign(name):
        return None
    for path in _local(root):
        try:
            if id_of(JournalFile(path).lines()) == name:
                return path
        except CorruptRecord:  # of another campaign, and that one was not asked for
            continue
    return None


def _known(root: Path) -> str:
    names = [path.parent.name for path in _local(root)][:MOST_NAMED]
    return f"; campaigns here: {', '.join(names)}" if names else ""


def _lines(path: Path, root: Path) -> tuple[JournalLine, ...]:
    """A published journal has no texts of the repository: they are made of the tree's."""
    with path.open("rb") as file:
        text = journal.text_of(file.read(journal.MAX_TEXT + 1), path.name)
    if not slim.is_slim(text):
        return JournalFile(path).lines()
    tree = DirectoryTree(root)
    return journal.parse(slim.whole(text, lambda name: read_text(tree, name), path.name), path.name)


def read(name: str, root: Path) -> tuple[JournalLine, ...]:
    """A journal by file, by local campaign, or by its name on the ledger branch of a repository."""
    from bot.git.repo import Repo

    path = _file(name, root)
    if path is not None:
        return _lines(path, root)
    repo = Repo(root)
    for rev in (LEDGER_REF, "refs/remotes/origin/kernelwright/ledger") if is_campaign(name) else ():
        found = repo.read(rev, journal_path(name)) if repo.resolve(rev) else None
        if found is not None:
            return journal.parse(journal.text_of(found, name), name)
    raise UserError(
        f"there is no campaign {name} here",
        hint="name a journal file, a folder under optimization/, or a campaign on the branch kernelwright/ledger"
        + _known(root),
        reason=ReasonCode.NOT_FOUND,
    )


def _drawn(campaign: Campaign) -> dict[str, tuple[bytes, bytes]]:
    """Every picture, light and dark; none where matplotlib is not installed, and the page says so."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return {}
    from bot.render import plots
    from bot.zones.figures import figures_of

    known = figures_of(campaign)
    return {
        name: (plots.picture(name, campaign, known), plots.picture(name, campaign, known, dark=True))
        for name in plots.available(campaign, known)
    }


def _write(path: Path, page: str) -> None:
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise OperatorError(
            f"{path} cannot be written: {error.strerror}", hint="name a file in a folder that is there: --html FILE"
        ) from error


def report(campaign: Campaign, lines: tuple[JournalLine, ...]) -> str:
    """The HTML page, with pictures and verdicts made again from the raw facts."""
    from bot.git.difference import difference
    from bot.render.report_html import page
    from bot.zones.rereading import doubted

    runner, profile = view.runner(campaign), campaign.profile
    sources = tuple(number.says() for number in profile.hardware) if profile else ()
    sources = sources or (cited(for_runner(runner)) if runner else ())
    again = doubted(campaign.id, (line.fact for line in lines))
    return page(
        campaign,
        lines,
        _drawn(campaign),
        doubted=again,
        sources=sources,
        differ=difference,
        rivals=of_campaign(campaign),
    )


@click.command()
@click.argument("campaign")
@click.option(
    "--repo", "root", type=click.Path(path_type=Path, exists=True, file_okay=False), default=".", help="The repository."
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@click.option(
    "--html", "html", type=click.Path(path_type=Path, dir_okay=False), help="Write everything into one page: FILE."
)
@click.option("--all", "whole", is_flag=True, help="Name the effects too, by which a stopped campaign goes on.")
def show(campaign: str, root: Path, as_json: bool, html: Path | None, whole: bool) -> int:
    """Replay CAMPAIGN from its journal: how it stands, then what was asked, tried and decided, in order.

    CAMPAIGN is a journal file, a kernel under optimization/, or a campaign's name, here or on the ledger branch. One
    that was published without the repository's texts is read beside the tree it ran on, --repo.
    """
    lines = read(campaign, root)
    replayed = fold(Campaign(id=id_of(lines)), (line.fact for line in lines))
    if html is not None:
        _write(html, report(replayed, lines))
        click.echo(f"wrote {html}", err=True)
        if not as_json:
            return 0
    rivals = of_campaign(replayed)
    if as_json:
        click.echo(json.dumps(summary(replayed, rivals), indent=2))
    else:
        click.echo(story_text(replayed, lines, rivals=rivals, whole=whole))
    return 0
