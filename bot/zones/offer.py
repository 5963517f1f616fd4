"""Where a sweep's winner goes: the bot's own branch, and the pull request that offers it. Merging it is the approval.

Nobody's word is relied on, so everything else is looked at again: the policy of the default branch, the pinned commit,
the files, and who has been on the branch. What the ledger says moves no branch but this one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from bot.campaign import sweeping, watching
from bot.campaign.machine import evidence_suffices
from bot.errors import Conflict, CorruptRecord, GitError, UserError
from bot.forge.rights import JOBS_OWN
from bot.git.repo import Repo
from bot.model.campaign import Campaign
from bot.model.facts import Fact, Pushed, PushRefused
from bot.model.reasons import ReasonCode
from bot.model.sweep import Cell, cell_of, own_branch
from bot.render import dashboard
from bot.render.links import Links
from bot.targets.contract import CONFIG, TRUSTED, RepoConfig, read_config
from bot.targets.judges import judging
from bot.targets.liger import open_target
from bot.targets.steady import is_harmless
from bot.zones.doors import Doors, bring
from bot.zones.judging import verdict_of
from bot.zones.sweep import all_campaigns, default_branch, head_of, open_own, own_pulls, pushed_by

Build: TypeAlias = Callable[[Campaign, Doors], str]
"""Makes the winning commit, the same one each time."""


class _No(Exception):
    """This may not be pushed. Never leaves this module."""

    def __init__(self, reason: ReasonCode, detail: str) -> None:
        super().__init__(detail)
        self.fact = PushRefused(reason=reason, detail=detail)


def _need(holds: bool, detail: str, reason: ReasonCode = ReasonCode.PUSH_FORBIDDEN) -> None:
    if not holds:
        raise _No(reason, detail)


def _cell(campaign: Campaign) -> Cell:
    found = cell_of(campaign.id)
    asked = campaign.command
    named = found is not None and asked is not None and (found.kernel, found.pool) == (asked.kernel, asked.gpu.value)
    _need(named, "the ledger calls this a sweep, and its name is not that of one")
    assert found is not None
    return found


def _allowed(campaign: Campaign, cell: Cell, repo: Repo) -> None:
    """By the policy that the default branch has now."""
    try:
        config: RepoConfig = read_config(repo.read("HEAD", CONFIG), of=TRUSTED)
    except UserError as error:
        raise _No(error.reason, f"{error}; while nobody can say what is allowed, nothing is") from error
    _need(config.sweep.enabled, "[sweep] is no longer enabled on the default branch", ReasonCode.DISABLED)
    _need(cell.pool in config.sweep.pools, f"[sweep.pools] has no {cell.pool} any more", ReasonCode.DISABLED)
    now = campaign.model_copy(update={"policy": config.policy})
    _need(evidence_suffices(now), "no GPU timed the winner", ReasonCode.EVIDENCE_INSUFFICIENT)


def _grounded(campaign: Campaign, cell: Cell, repo: Repo) -> None:
    """It was measured at a commit of the default branch, and nothing that matters to it changed there since."""
    assert campaign.pull is not None
    pinned, head = campaign.pull.head_sha, head_of(repo)
    there = repo.resolve(pinned) is not None and repo.is_ancestor(pinned, head)
    _need(there, f"{pinned[:7]} is no commit of the default branch")
    site = open_target(repo.at(pinned), read_config(repo.read("HEAD", CONFIG))).site(cell.kernel)
    changed = repo.changed(pinned, head)
    named = sorted({*changed} & {*site.files, *judging(changed, site)}) or ["what it depends on"]
    still = is_harmless(changed, site, repo.at(pinned), repo.at(head))
    why = f"{', '.join(named)} changed since {pinned[:7]}; the next sweep begins there"
    _need(still, why, ReasonCode.REF_CHANGED)


def _sound(campaign: Campaign, cell: Cell, repo: Repo) -> None:
    """The target's files alone, and a verdict that follows from what the journal holds."""
    assert campaign.pull is not None and campaign.finalization is not None
    files = {file.path for file in campaign.finalization.files}
    target = open_target(repo.at(campaign.pull.head_sha), read_config(repo.read("HEAD", CONFIG)))
    allowed = set(target.files(cell.kernel))
    _need(bool(files) and files <= allowed, f"it would change {sorted(files - allowed)}, which are not {cell.kernel}'s")
    winner = campaign.round_of(campaign.finalization.variant)
    # It was judged against what was best then, not against itself.
    then = campaign.model_copy(
        update={"lineage": tuple(number for number in campaign.lineage if number < campaign.finalization.variant)}
    )
    try:
        follows = winner is not None and verdict_of(then, winner.variant.number) == winner.verdict
    except (UserError, ArithmeticError, AssertionError, ValueError, SyntaxError, RecursionError):
        follows = False
    _need(follows, "the winner's verdict does not follow from its raw facts", ReasonCode.ARTIFACT_REJECTED)


def _stands(campaign: Campaign, repo: Repo, tip: str) -> bool:
    """Whether the branch holds this very winner already."""
    assert campaign.finalization is not None
    return all(repo.read(tip, file.path) == file.text.encode() for file in campaign.finalization.files)


def _move_branch(campaign: Campaign, cell: Cell, doors: Doors, build: Build) -> Fact:
    assert campaign.pull is not None
    bring(doors.repo, campaign.pull.head_sha)
    swept = sweeping.sweeps(all_campaigns(doors))
    commit, ref = build(watching.in_first_words(campaign, swept), doors), f"refs/heads/{own_branch(cell.kernel)}"
    tip = doors.repo.remote_sha(ref)
    if tip == commit:  # a job that pushed it died before it could say so
        return Pushed(commit=commit)
    if tip is not None:
        bring(doors.repo, tip)
    pulls = own_pulls(open_own(doors.settings), cell.kernel, swept)
    own, other = pushed_by(swept, cell)
    stands = tip is not None and _stands(campaign, doors.repo, tip)
    why = watching.why_left_alone(tip, own, other, pulls, stands)
    _need(not why, f"{own_branch(cell.kernel)} is left alone: {why}")
    if tip is not None and stands and watching.pull_to_update(pulls) is not None:
        return Pushed(commit=tip)
    try:
        # The App's token, where there is one: checks start by themselves for what it pushes.
        Repo(doors.repo.path, token=doors.settings.push_token or doors.settings.token).push(ref, commit, tip)
    except Conflict as error:
        raise _No(ReasonCode.PUSH_CONFLICT, "somebody moved the branch at that moment") from error
    except GitError as error:
        if error.reason is not ReasonCode.PUSH_FORBIDDEN:
            raise
        raise _No(ReasonCode.PUSH_FORBIDDEN, str(error)) from error
    return Pushed(commit=commit)


def push_winner(campaign: Campaign, doors: Doors, build: Build) -> Fact:
    """Bring the sweep's own branch to the winner, or say why it stays as it is."""
    try:
        cell = _cell(campaign)
        _allowed(campaign, cell, doors.repo)
        _grounded(campaign, cell, doors.repo)
        _sound(campaign, cell, doors.repo)
        return _move_branch(campaign, cell, doors, build)
    except _No as no:
        return no.fact
    except (UserError, CorruptRecord) as error:
        return PushRefused(reason=error.reason, detail=str(error))


def page_of(
    campaign: Campaign, swept: tuple[Campaign, ...], links: Links, *, starts_checks: bool, lost: str = ""
) -> tuple[str, str]:
    """Title and body of the pull request."""
    told = watching.in_first_words(campaign, swept)
    return dashboard.pull_title(told), dashboard.pull_body(told, links, lost=lost, checks_start=starts_checks)


def offer_pull(campaign: Campaign, links: Links, doors: Doors) -> str:
    """The number of the pull request: the open one brought up to date, or a new one."""
    cell, settings = _cell(campaign), doors.settings
    branch, offers = own_branch(cell.kernel), open_own(settings)
    if doors.repo.remote_sha(f"refs/heads/{branch}") != campaign.pushed:
        return "the branch moved on"
    swept = sweeping.sweeps(all_campaigns(doors))
    there = [p for p in own_pulls(offers, cell.kernel, swept) if p.is_open]
    if any(not pull.is_ours for pull in there):
        return f"{there[0].number}, which somebody else opened"
    if there:
        title, body = page_of(campaign, swept, links, starts_checks=there[0].starts_checks)
        offers.edit_pull(there[0].number, title=title, body=body)
        return str(there[0].number)
    starts = bool(settings.push_token) or offers.me().id != JOBS_OWN
    title, body = page_of(campaign, swept, links, starts_checks=starts)
    opener = open_own(settings, settings.push_token)
    return str(opener.open_pull(head=branch, base=default_branch(doors.repo), title=title, body=body))
