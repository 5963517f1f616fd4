"""The doors a talking zone holds while it works."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from bot.errors import UserError
from bot.forge.client import Forge
from bot.git.repo import Repo
from bot.ledger.branch import Ledger
from bot.model.ids import CommitSha
from bot.model.reasons import ReasonCode
from bot.settings import Settings
from bot.zones.clock import utc_now


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    settings: Settings
    forge: Forge
    repo: Repo
    """A bare clone of the repository, with the token of this zone."""
    ledger: Ledger
    clock: Callable[[], str] = utc_now


Opener: TypeAlias = Callable[[Settings], Doors]


def open_doors(settings: Settings) -> Doors:
    """Clone and connect with this zone's own token."""
    from bot.forge.client import open_forge  # PyGithub takes half a second to import

    if not settings.token:
        raise UserError(
            "KERNELWRIGHT_TOKEN: it is not set, and without it this zone cannot speak to GitHub",
            hint="set KERNELWRIGHT_TOKEN for this step to the token that the workflow gives this job",
            reason=ReasonCode.CONFIG_INVALID,
        )
    path = settings.scratch / "repository.git"
    repo = Repo(path, token=settings.token) if path.exists() else _clone(settings)
    forge = open_forge(
        settings.api_url,
        settings.repository,
        settings.token,
        own_login=settings.bot_login,
        own_id=settings.bot_id,
    )
    return Doors(settings=settings, forge=forge, repo=repo, ledger=Ledger(repo))


def _clone(settings: Settings) -> Repo:
    return Repo.clone(settings.git_url, settings.scratch / "repository.git", token=settings.token, bare=True)


def bring(repo: Repo, commit: CommitSha) -> None:
    """A pinned commit can be a fork's, or on no branch any more: a clone of the branches need not hold it."""
    if repo.resolve(commit) is None:
        repo.fetch(commit)
