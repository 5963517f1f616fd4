"""May this account say this here? Pure, and closed: a command is granted when every rule of its kind is content."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from bot.commands import afterwards, refusals
from bot.commands.optimize import spoken
from bot.model.campaign import MOST_RETRIES, Campaign, Outcome, Stage
from bot.model.commands import (
    Approve,
    Cancel,
    Command,
    Explain,
    GpuChoice,
    Help,
    ListKernels,
    Optimize,
    Reject,
    Restart,
    Retry,
    Status,
    Try,
)
from bot.model.people import Actor, Grant, Refusal, Standing
from bot.model.policy import RepoPolicy, Writer
from bot.model.pull import PullSnapshot

WAITING = (Stage.AWAIT_PROFILE, Stage.AWAIT_WINNER, Stage.AWAIT_FINAL)
SEARCHING = (Stage.AWAIT_PROFILE, Stage.OPTIMIZING, Stage.AWAIT_WINNER)
"""Where one more idea can still be measured."""
OVER = (Stage.NEW, Stage.CLOSING, Stage.ENDED)


@dataclass(frozen=True, slots=True)
class Ask:
    """Everything a rule may look at."""

    command: Command
    actor: Actor
    standing: Standing
    pull: PullSnapshot
    policy: RepoPolicy
    campaign: Campaign | None
    pools: Collection[str] = ()
    """The GPU families that the repository names runners of."""

    @property
    def stage(self) -> Stage:
        """Where the campaign of this very pull request is; ENDED when there is none."""
        campaign = self.campaign
        of_this_pull = campaign and campaign.pull and campaign.pull.number == self.pull.number
        return campaign.stage if campaign and of_this_pull else Stage.ENDED

    @property
    def wrote_pull(self) -> bool:
        return self.standing.wrote_pull or self.actor.id == self.pull.author.id


Rule: TypeAlias = Callable[[Ask], Refusal | None]


def _human(ask: Ask) -> Refusal | None:
    return refusals.bot(ask.actor) if ask.actor.is_bot or ask.actor.login.endswith("[bot]") else None


def _needed(ask: Ask) -> Writer:
    """The least role for this command here."""
    match ask.command:
        case Optimize() | Retry() | Restart():
            return ask.policy.may_start
        case Approve():
            return ask.policy.may_approve
        case _:
            return "write"


def _writer(ask: Ask) -> Refusal | None:
    needed = _needed(ask)
    if ask.standing.role.at_least(needed):
        return None
    if isinstance(ask.command, Optimize):
        return refusals.no_role(ask.command.kernel, ask.standing.role, spoken(ask.command), needed)
    return refusals.no_role(ask.command.verb, ask.standing.role, f"/optimize {ask.command.verb}", needed)


def _writer_or_requester(ask: Ask) -> Refusal | None:
    """Whoever started a campaign may stop it, whatever became of their role."""
    requester = ask.campaign.requester if ask.campaign and ask.stage not in OVER else None
    return None if requester and requester.id == ask.actor.id else _writer(ask)


def _open(ask: Ask) -> Refusal | None:
    return None if ask.pull.is_open else refusals.closed(ask.pull.number)


def _ready(ask: Ask) -> Refusal | None:
    return refusals.draft(ask.pull.number) if ask.pull.is_draft and not ask.policy.allow_drafts else None


def _has_head(ask: Ask) -> Refusal | None:
    return refusals.no_head(ask.pull) if ask.pull.head_repo is None else None


def _offered(ask: Ask) -> Refusal | None:
    """Where the repository names its GPU runners, one of them is chosen; where it names none, there is one for all."""
    if not isinstance(ask.command, Optimize) or not ask.pools:
        return None
    known = {*ask.pools, ask.policy.default_gpu, GpuChoice.AUTO}
    return None if ask.command.gpu in known else refusals.no_such_gpu(ask.command, ask.pools, ask.policy.default_gpu)


def _idle(ask: Ask) -> Refusal | None:
    """One campaign a pull request: two would measure one head and race for one branch."""
    running = ask.campaign is not None and ask.campaign.stage is not Stage.ENDED
    return refusals.already_running(ask.campaign) if ask.campaign and running else None


def _pinned(ask: Ask) -> Refusal | None:
    """The commenter names the commit of a stranger they read: its author can push another one at any moment."""
    if not isinstance(ask.command, Optimize | Restart):
        return None
    sha, head = ask.command.sha, ask.pull.head_sha
    stranger = ask.pull.from_fork or not ask.standing.trusted_pull
    if sha is None:
        return refusals.fork_sha(ask.command, ask.pull) if stranger else None
    return None if head.startswith(sha) else refusals.other_sha(ask.command, ask.pull, from_fork=stranger)


def _has_gpu_time(ask: Ask) -> Refusal | None:
    limit = ask.policy.max_gpu_minutes_per_day
    spent = ask.standing.gpu_seconds_today / 60
    return refusals.day_spent(ask.actor, spent, limit) if spent >= limit else None


def _waiting(ask: Ask) -> Refusal | None:
    return None if ask.stage in WAITING else refusals.no_question(ask.command.verb, ask.stage)


def _running(ask: Ask) -> Refusal | None:
    return refusals.nothing_to_cancel(ask.stage) if ask.stage in OVER else None


def _searching(ask: Ask) -> Refusal | None:
    return None if ask.stage in SEARCHING else refusals.nothing_to_try(ask.stage)


def _has_budget(ask: Ask) -> Refusal | None:
    campaign = ask.campaign
    if campaign is None or campaign.command is None:
        return refusals.nothing_to_try(ask.stage)
    most = min(campaign.command.max_variants, campaign.policy.max_variants)
    if len(campaign.rounds) >= most:
        return refusals.budget_spent(most)
    minutes = campaign.policy.max_gpu_minutes
    return refusals.campaign_spent(minutes) if campaign.gpu_seconds >= 60 * minutes else None


def _new_idea(ask: Ask) -> Refusal | None:
    sha = ask.command.sha if isinstance(ask.command, Try) else None
    asked = [commit for commit, _ in ask.campaign.tries] if ask.campaign else []
    return refusals.tried_before(sha) if sha and any(commit.startswith(sha) for commit in asked) else None


def _begun(ask: Ask) -> Refusal | None:
    """Something can be said of a campaign only once there was one."""
    return afterwards.no_campaign(ask.command.verb) if ask.campaign is None or ask.campaign.command is None else None


def _made(ask: Ask) -> Refusal | None:
    wanted = ask.command.variant if isinstance(ask.command, Explain) else None
    if not wanted or ask.campaign is None or ask.campaign.round_of(wanted) is not None:
        return None
    return afterwards.never_made(wanted, ask.campaign)


def _failed(ask: Ask) -> Refusal | None:
    """Only a job that failed is done again, at the commit it was pinned to, and not for ever."""
    campaign = ask.campaign
    if campaign is None or campaign.pull is None:
        return afterwards.no_campaign(ask.command.verb)
    if ask.stage is not Stage.ENDED or campaign.outcome is not Outcome.FAILED or campaign.failed is None:
        return afterwards.not_failed(campaign)
    if campaign.retries >= MOST_RETRIES:
        return afterwards.retried_enough(campaign)
    moved = campaign.pull.head_sha != ask.pull.head_sha
    return afterwards.head_moved_since(campaign, ask.pull.head_sha) if moved else None


def _second_pair_of_eyes(ask: Ask) -> Refusal | None:
    """The last yes on a pull request is somebody else's than its author's; a no needs no second opinion."""
    if ask.stage is not Stage.AWAIT_FINAL or ask.policy.self_approval or not ask.wrote_pull:
        return None
    return refusals.own_pull(ask.actor, ask.standing.role, ask.policy.may_approve)


def _not_the_requester(ask: Ask) -> Refusal | None:
    """Where the repository wants it, also somebody else's than of who asked for it."""
    requester = ask.campaign.requester if ask.campaign else None
    if ask.stage is not Stage.AWAIT_FINAL or ask.policy.requester_approval or requester is None:
        return None
    return refusals.own_request(ask.actor, ask.policy.may_approve) if requester.id == ask.actor.id else None


APPROVING: tuple[Rule, ...] = (_second_pair_of_eyes, _not_the_requester)
"""Who may give the last yes, beyond their role."""


def _choice(ask: Ask) -> Refusal | None:
    """Only what the judge accepted can be picked, and at the end only what went through the tests."""
    if not isinstance(ask.command, Approve) or ask.campaign is None:
        return None
    wanted, accepted = ask.command.variant, ask.campaign.lineage[1:]
    match ask.stage:
        case Stage.AWAIT_PROFILE:
            return None if wanted is None else refusals.no_variants_yet(wanted)
        case Stage.AWAIT_WINNER:
            wanted = ask.campaign.incumbent if wanted is None else wanted
            return None if wanted in accepted else refusals.not_a_choice(wanted, ask.campaign, accepted)
        case _:
            winner = ask.campaign.winner
            finished = () if winner is None else (winner,)
            return None if wanted in (None, winner) else refusals.not_a_choice(wanted, ask.campaign, finished)


def _rules(command: Command) -> tuple[Rule, ...]:
    """What goes on needs a pull request that can take a commit; what only stops does not."""
    match command:
        case Help() | ListKernels() | Status():
            return (_human,)
        case Explain():
            return (_human, _begun, _made)
        case Optimize():
            return (_human, _writer, _open, _ready, _has_head, _offered, _idle, _pinned, _has_gpu_time)
        case Approve():
            return (_human, _writer, _open, _ready, _has_head, _waiting, *APPROVING, _choice)
        case Reject():
            return (_human, _writer, _waiting)
        case Cancel():
            return (_human, _writer_or_requester, _running)
        case Retry():
            return (_human, _writer, _open, _ready, _has_head, _begun, _failed, _has_gpu_time)
        case Restart():
            return (_human, _writer, _open, _ready, _has_head, _begun, _pinned, _has_gpu_time)
        case Try():
            return (_human, _writer, _open, _ready, _has_head, _searching, _has_budget, _new_idea)
        case _:
            assert_never(command)


def may(
    command: Command,
    actor: Actor,
    standing: Standing,
    pull: PullSnapshot,
    policy: RepoPolicy,
    campaign: Campaign | None,
    pools: Collection[str] = (),
) -> Grant | Refusal:
    """`campaign` is the open campaign of the pull request, else its last one. The first rule that objects answers."""
    ask = Ask(command, actor, standing, pull, policy, campaign, pools)
    for rule in _rules(command):
        if refusal := rule(ask):
            return refusal
    return Grant()
