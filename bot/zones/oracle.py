"""Whose tests, benchmark and style rules decide, where a pull request brings its own: policy `oracle` says it."""

from __future__ import annotations

from bot.git.repo import Repo
from bot.model.campaign import Campaign
from bot.model.ids import CommitSha, RepoPath
from bot.model.pull import PullSnapshot
from bot.model.site import KernelSite
from bot.targets.judges import judging


def changed_files(pull: PullSnapshot, repo: Repo) -> tuple[RepoPath, ...]:
    """All in which the pinned head differs from the target branch."""
    return repo.changed(pull.base_sha, pull.head_sha) if pull.base_sha else ()


def differing(pull: PullSnapshot, site: KernelSite, repo: Repo) -> tuple[RepoPath, ...]:
    """Those of them that judge the kernel."""
    return judging(changed_files(pull, repo), site)


def judged_by(campaign: Campaign) -> CommitSha | None:
    """The commit whose copies of these files decide in place of the pull request's own."""
    assert campaign.pull is not None
    return campaign.pull.base_sha if campaign.policy.oracle == "target" else None


def unjudged(campaign: Campaign, site: KernelSite, repo: Repo) -> str:
    """Why nobody could judge this kernel by the policy; empty when somebody can."""
    assert campaign.pull is not None
    if campaign.policy.oracle != "target":
        return ""
    if campaign.pull.base_sha is None:
        return f"the target branch {campaign.pull.base_ref} is gone, and policy oracle lets only its tests decide"
    if repo.read(campaign.pull.base_sha, site.test_file) is None:
        return f"{site.test_file} is not on the target branch, and policy oracle lets only its tests decide"
    return ""
