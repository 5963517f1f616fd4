"""`kernelwright show`: replay the journal of a campaign and tell how it stands."""

from __future__ import annotations

import json
from pathlib import Path

import click

from bot.campaign.machine import fold
from bot.errors import UserError
from bot.ledger import journal
from bot.ledger.layout import LEDGER_REF, journal_path
from bot.model.campaign import Campaign
from bot.model.facts import CampaignRequested, JournalLine
from bot.render.summary import summary
from bot.render.terminal import story_text


def _read(name: str, root: Path) -> tuple[JournalLine, ...]:
    """A journal by file, by local campaign folder, or by its name on the ledger branch of a repository."""
    from bot.git.repo import Repo

    for path in (Path(name), Path(name) / "journal.jsonl", root / "optimization" / name / "journal.jsonl"):
        if path.is_file():
            return journal.parse(path.read_text(encoding="utf-8"), str(path))
    repo = Repo(root)
    for rev in (LEDGER_REF, "refs/remotes/origin/kernelwright/ledger"):
        found = repo.read(rev, journal_path(name)) if repo.resolve(rev) else None
        if found is not None:
            return journal.parse(found.decode("utf-8"), name)
    raise UserError(
        f"there is no campaign {name} here",
        hint="name a journal file, a folder under optimization/, or a campaign on the branch kernelwright/ledger",
    )


@click.command()
@click.argument("campaign")
@click.option(
    "--repo", "root", type=click.Path(path_type=Path, exists=True, file_okay=False), default=".", help="The repository."
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def show(campaign: str, root: Path, as_json: bool) -> int:
    """Replay CAMPAIGN from its journal: what was asked, tried and decided, in order."""
    lines = _read(campaign, root)
    first = next((line.fact for line in lines if isinstance(line.fact, CampaignRequested)), None)
    replayed = fold(Campaign(id=first.campaign if first else "unknown"), (line.fact for line in lines))
    click.echo(json.dumps(summary(replayed), indent=2) if as_json else story_text(replayed, lines))
    return 0
