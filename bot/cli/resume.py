"""`kernelwright optimize --resume FILE`: a campaign that was begun elsewhere goes on here.

Its journal is all that it needs, also one that was published without the repository's texts: they come from this tree,
and each is held against its hash.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bot.cli import rebuild
from bot.errors import UserError
from bot.git.repo import Repo
from bot.ledger.layout import JOURNAL
from bot.model.campaign import Campaign, Stage
from bot.model.reasons import ReasonCode


@dataclass(frozen=True, slots=True)
class Resumed:
    campaign: str
    text: str
    """Of the journal, with everything in it."""

    def put(self, folder: Path) -> str:
        """Into the campaign's folder, whole or not at all; returns the id."""
        folder.mkdir(parents=True, exist_ok=True)
        coming = folder / f".{JOURNAL}"
        coming.write_text(self.text, encoding="utf-8")
        coming.replace(folder / JOURNAL)
        return self.campaign


def _fits(campaign: Campaign, file: Path, repo: Repo, kernel: str) -> None:
    asked = campaign.command.kernel if campaign.command else "nothing"
    if asked != kernel:
        raise UserError(
            f"{file} is of a campaign about {asked}, not {kernel}",
            hint=f"kernelwright optimize {asked} --resume {file}",
            reason=ReasonCode.BAD_VALUE,
        )
    if campaign.stage is Stage.ENDED:
        raise UserError(
            f"campaign {campaign.id} in {file} came to its end: nothing is left to go on with",
            hint="kernelwright rebuild makes its winner again; leave --resume out to begin a new one",
            reason=ReasonCode.BAD_VALUE,
        )
    if campaign.pull is None or repo.resolve(campaign.pull.head_sha) is None:
        sha = campaign.pull.head_sha[:7] if campaign.pull else "no commit"
        raise UserError(
            f"campaign {campaign.id} is about {sha}, which this repository does not have",
            hint="fetch that commit, or leave --resume out to begin anew from HEAD",
            reason=ReasonCode.BASE_CHANGED,
        )


def read(file: Path, repo: Repo, kernel: str) -> Resumed:
    """What FILE holds, once it is sure that it can go on here."""
    text = rebuild.text_of(file, repo.path)
    campaign = rebuild.campaign_of(text, file.name)
    _fits(campaign, file, repo, kernel)
    return Resumed(campaign.id, text)
