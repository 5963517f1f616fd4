"""`kernelwright optimize --resume FILE`: a campaign that was begun elsewhere goes on here.

Its journal is all that it needs, also one that was published without the repository's texts: they come from this tree,
and each is held against its hash. One that came to its end goes on from where its search ended, if more variants, more
minutes or more ideas may lead further: what became of its winner is left out and found out anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bot.campaign.machine import fold
from bot.campaign.stopping import why_stop
from bot.cli import rebuild
from bot.errors import UserError
from bot.git.repo import Repo
from bot.ledger import journal
from bot.ledger.layout import JOURNAL
from bot.model.campaign import Campaign, Stage, StopReason
from bot.model.facts import BudgetRaised, SearchEnded
from bot.model.reasons import ReasonCode
from bot.render import labels

ANEW = "leave --resume out to begin a new one"
MAY_GO_ON = (StopReason.BUDGET_SPENT, StopReason.TIME_OVER, StopReason.IDEAS_EXHAUSTED)
"""Why a search ends that more variants, more minutes or a newer source of ideas may lead further."""


@dataclass(frozen=True, slots=True)
class Resumed:
    campaign: str
    text: str
    """Of the journal, with everything in it."""
    raised: tuple[BudgetRaised, ...] = ()
    """What is recorded first: it may try more variants than were asked for when it was begun."""

    def put(self, folder: Path) -> str:
        """Into the campaign's folder, whole or not at all; returns the id."""
        folder.mkdir(parents=True, exist_ok=True)
        coming = folder / f".{JOURNAL}"
        coming.write_text(self.text, encoding="utf-8")
        coming.replace(folder / JOURNAL)
        return self.campaign


def _fits(file: Path, repo: Repo, kernel: str) -> str:
    """Refuses what can never go on here; returns the commit that it is about."""
    asked = rebuild.about(file, kernel, lambda name: f"kernelwright optimize {name} --resume {file}")
    sha = asked.pull.head_sha
    if repo.resolve(sha) is None:
        raise UserError(
            f"campaign {asked.campaign} is about {sha[:7]}, which this repository does not have",
            hint=f"it goes on where it began: fetch that commit, or {ANEW} from HEAD",
            reason=ReasonCode.BASE_CHANGED,
        )
    return sha


def _over(campaign: Campaign, file: Path, why: str, hint: str) -> UserError:
    return UserError(
        f"campaign {campaign.id} in {file} came to its end: {why}",
        hint=f"{hint}; kernelwright rebuild makes its winner again",
        reason=ReasonCode.BAD_VALUE,
    )


def _reopened(ended: Campaign, text: str, file: Path, variants: int) -> Resumed:
    """An ended campaign as it stood when its search ended."""
    rows = text.splitlines(keepends=True)
    ends = [line.seq for line in journal.parse(text, file.name) if isinstance(line.fact, SearchEnded)]
    if not ends or ended.stopped not in MAY_GO_ON:
        said = f"because {labels.STOPPED[ended.stopped]}" if ended.stopped else "before its search did"
        raise _over(ended, file, f"{said}, and nothing is left to go on with", ANEW)
    before = "".join(rows[: ends[-1]])
    campaign = rebuild.campaign_of(before, file.name)
    assert campaign.command is not None, "a search was asked for"
    more = (BudgetRaised(max_variants=variants),) if variants > campaign.command.max_variants else ()
    campaign = fold(campaign, more)
    tried, most = len(campaign.rounds), campaign.policy.max_variants
    why = why_stop(campaign)
    if why is None:
        return Resumed(campaign.id, before, more)
    if why is not StopReason.BUDGET_SPENT:
        raise _over(ended, file, f"it would go no further, because {labels.STOPPED[why]}", ANEW)
    capped = f"its repository allows {most} (`max_variants` in kernelwright.toml, as it was then)"
    hint = f"--max-variants {tried + 1} or more goes on with it" if tried < most else capped
    raise _over(ended, file, f"its {tried} variants were tried", hint)


def read(file: Path, repo: Repo, kernel: str, variants: int) -> Resumed:
    """What FILE holds, once it is sure that it can go on here. VARIANTS may be tried of one whose search had ended."""
    sha = _fits(file, repo, kernel)
    there = f"check out {sha[:7]}, which it began with, or {ANEW} from HEAD"
    text = rebuild.text_of(file, repo.path, there)
    campaign = rebuild.campaign_of(text, file.name)
    if campaign.stage is not Stage.ENDED:
        return Resumed(campaign.id, text)
    return _reopened(campaign, text, file, variants)
