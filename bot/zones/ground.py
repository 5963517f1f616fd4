"""Looks again at what a campaign stands on: its pull request, the head it is pinned to, the branch it is for."""

from __future__ import annotations

from bot.commands.optimize import spoken
from bot.errors import UserError
from bot.model.campaign import Campaign
from bot.model.facts import Fact, HeadMoved, Repinned, Stopped
from bot.model.pull import PullSnapshot
from bot.model.reasons import ReasonCode
from bot.model.site import KernelSite
from bot.targets.contract import CONFIG, read_config
from bot.targets.liger import open_target
from bot.targets.steady import is_harmless
from bot.zones.doors import Doors, bring


def trusted(pull: PullSnapshot, doors: Doors) -> bool:
    """Whether a writer wrote it on a branch of this repository. A stranger's code runs at a named commit only."""
    return not pull.from_fork and doors.forge.role(pull.author.login).may_write


def again(campaign: Campaign, sha: str = "") -> str:
    """The line that starts anew from what is there now, at a named commit where one must be named."""
    if campaign.command is None:
        return ""
    fresh = campaign.command.model_copy(update={"sha": None})
    return spoken(fresh, sha=sha) if sha else spoken(fresh)


def _site(campaign: Campaign, doors: Doors) -> KernelSite | None:
    assert campaign.pull is not None and campaign.command is not None
    if campaign.profile is not None:
        return campaign.profile.site
    try:
        target = open_target(doors.repo.at(campaign.pull.head_sha), read_config(doors.repo.read("HEAD", CONFIG)))
        return target.site(campaign.command.kernel)
    except UserError:
        return None


def _unchanged(campaign: Campaign, now: PullSnapshot, doors: Doors) -> bool:
    """Whether everything that was measured and will be tested is the same at the new head."""
    assert campaign.pull is not None
    before = campaign.pull.head_sha
    for commit in (before, now.head_sha):
        bring(doors.repo, commit)
    site = _site(campaign, doors)
    changed = doors.repo.changed(before, now.head_sha)
    return site is not None and is_harmless(changed, site, doors.repo.at(before), doors.repo.at(now.head_sha))


def _head_moved(campaign: Campaign, now: PullSnapshot, doors: Doors) -> Fact:
    assert campaign.pull is not None
    before, safe = campaign.pull, trusted(now, doors)
    if safe and not before.from_fork and _unchanged(campaign, now, doors):
        return Repinned(before=before.head_sha, pull=now.model_copy(update={"base_sha": before.base_sha}))
    line = again(campaign, "" if safe else now.head_sha)
    return HeadMoved(measured=before.head_sha, now=now.head_sha, again=line)


def _base_changed(campaign: Campaign, now: PullSnapshot, doors: Doors) -> Fact:
    """A branch that was renamed is the same branch; another one is another pull request as far as we can tell."""
    assert campaign.pull is not None
    before = campaign.pull
    renamed = doors.forge.branch_sha(before.base_ref) is None and before.base_sha is not None
    if renamed and doors.forge.branch_sha(now.base_ref) == before.base_sha and now.head_sha == before.head_sha:
        return Repinned(before=before.head_sha, pull=now.model_copy(update={"base_sha": before.base_sha}))
    detail = f"it was for {before.base_ref} and is for {now.base_ref} now, where other tests and other code may stand"
    line = again(campaign, "" if trusted(now, doors) else now.head_sha)
    return Stopped(reason=ReasonCode.BASE_CHANGED, detail=detail, again=line)


def look(campaign: Campaign, now: PullSnapshot, doors: Doors) -> Fact | None:
    """What became of the pull request, as the fact it makes; None while it is as it was."""
    before = campaign.pull
    assert before is not None
    if not now.is_open:
        return Stopped(reason=ReasonCode.PR_CLOSED, detail="the pull request was closed meanwhile")
    if now.head_repo is None and before.head_repo is not None:
        return Stopped(reason=ReasonCode.HEAD_REPO_MISSING, detail="the fork it comes from was deleted")
    if (now.base_ref, now.base_repo) != (before.base_ref, before.base_repo):
        return _base_changed(campaign, now, doors)
    if now.head_sha != before.head_sha:
        return _head_moved(campaign, now, doors)
    if now.head_ref != before.head_ref:
        return Repinned(before=before.head_sha, pull=now.model_copy(update={"base_sha": before.base_sha}))
    return None
