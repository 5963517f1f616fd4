"""Every no of the policy: what happened, why, and what helps."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from bot.commands.mistakes import choices
from bot.commands.optimize import spoken
from bot.model.campaign import Campaign, Stage
from bot.model.commands import GpuChoice, Optimize, Restart
from bot.model.ids import variant_name
from bot.model.people import Actor, Refusal, Role
from bot.model.policy import Writer
from bot.model.pull import PullSnapshot
from bot.model.reasons import ReasonCode

NOW = {
    Stage.NEW: "a campaign is just being set up",
    Stage.PROFILING: "the kernel is being profiled",
    Stage.AWAIT_PROFILE: "the profile waits for an answer",
    Stage.OPTIMIZING: "variants are being tried",
    Stage.AWAIT_WINNER: "the choice of the winner waits for an answer",
    Stage.FINALIZING: "the winner goes through the tests and the style check",
    Stage.AWAIT_FINAL: "the last question waits for an answer",
    Stage.PUSHING: "the commit is being pushed",
    Stage.CLOSING: "the campaign is closing",
    Stage.ENDED: "no campaign is open on this pull request",
}
WRITERS = {"write": "write, maintain or admin", "maintain": "maintain or admin", "admin": "admin"}
"""The roles that hold at least this one."""
RESETS = "it starts anew at 00:00 UTC"
UP_TO = "if they took all they may"


def bot(actor: Actor) -> Refusal:
    return Refusal(
        code=ReasonCode.BOT_COMMENT,
        what="commands are taken from people only",
        why=f"`{actor.login}` is a bot, and two bots that answer each other never end.",
        next="A person with write access can write the command.",
    )


def no_role(name: str, role: Role, line: str, needed: Writer = "write") -> Refusal:
    """`name` is the verb, or the kernel that was asked for."""
    held = "none: you are not listed as a collaborator" if role is Role.NONE else str(role)
    return Refusal(
        code=ReasonCode.PERMISSION_DENIED,
        what=f"`/optimize {name}` needs the role {WRITERS[needed]}; yours is {held}",
        why="The command uses the runner's time or changes what is pushed, so GitHub's list of collaborators decides.",
        next=f"Ask somebody with {needed} access to write it. "
        "`help`, `list`, `status` and `explain` are open to everybody.",
        paste=line,
    )


def closed(number: int) -> Refusal:
    return Refusal(
        code=ReasonCode.PR_CLOSED,
        what=f"pull request #{number} is closed",
        why="A campaign ends in a commit on the branch of an open pull request.",
        next="Reopen it and write the command again. `/optimize cancel` stops a campaign that still runs here.",
    )


def draft(number: int) -> Refusal:
    return Refusal(
        code=ReasonCode.DRAFT_NOT_ALLOWED,
        what=f"pull request #{number} is a draft",
        why="This repository measures pull requests that are ready for review; drafts change under the stopwatch.",
        next="Mark it as ready for review, or set `allow_drafts = true` under `[policy]` in `kernelwright.toml`.",
    )


def no_head(pull: PullSnapshot) -> Refusal:
    return Refusal(
        code=ReasonCode.HEAD_REPO_MISSING,
        what=f"the repository that pull request #{pull.number} comes from is gone",
        why="There is no branch left that a winning commit could be pushed to.",
        next="Push the branch to this repository, open a new pull request from it and ask there.",
    )


def already_running(campaign: Campaign) -> Refusal:
    kernel = f" for `{campaign.command.kernel}`" if campaign.command else ""
    return Refusal(
        code=ReasonCode.ALREADY_RUNNING,
        what=f"a campaign{kernel} is already open on this pull request",
        why=f"Two campaigns would race for one branch. Right now {NOW[campaign.stage]}.",
        next="Wait for its end or stop it with `/optimize cancel`; then ask again.",
        paste="/optimize status",
    )


def _with_head(command: Optimize | Restart, pull: PullSnapshot) -> str:
    """The whole SHA: seven digits can be met on purpose by whoever pushes to the fork."""
    if isinstance(command, Restart):
        return f"/optimize restart {pull.head_sha}"
    return spoken(command, sha=pull.head_sha) or f"/optimize kernel={command.kernel} sha={pull.head_sha}"


def fork_sha(command: Optimize | Restart, pull: PullSnapshot) -> Refusal:
    whose = "a fork" if pull.from_fork else "somebody without write access"
    return Refusal(
        code=ReasonCode.FORK_SHA_REQUIRED,
        what=f"a pull request from {whose} needs the commit you looked at",
        why=f"Its author can push at any moment, and what you name is what runs. The head is now {pull.head_sha[:12]}.",
        next="Read that commit; if it may run on the GPU machine, write the line below.",
        paste=_with_head(command, pull),
    )


def other_sha(command: Optimize | Restart, pull: PullSnapshot, *, from_fork: bool) -> Refusal:
    again = "Read the new head" if from_fork else "Leave `sha` out, or name the new head"
    return Refusal(
        code=ReasonCode.SHA_MISMATCH,
        what=f"the head of this pull request is {pull.head_sha[:12]}, not {command.sha}",
        why="The head was pushed to since, or the SHA is of another commit; only the head is measured.",
        next=f"{again}, then write the line below.",
        paste=_with_head(command, pull),
    )


def no_such_gpu(command: Optimize, pools: Collection[str], default: str) -> Refusal:
    return Refusal(
        code=ReasonCode.BAD_VALUE,
        what=f"no GPU runner of this repository is `gpu={command.gpu}`",
        why=f"On the default branch `kernelwright.toml` names runners for {choices(sorted({*pools, default}))} "
        f"(`[sweep.pools]` and `default_gpu`), and `auto` means `{default}`.",
        next="Ask for one of these, or write the line below and take what is there.",
        paste=spoken(command.model_copy(update={"gpu": GpuChoice.AUTO})),
    )


def no_question(verb: str, stage: Stage) -> Refusal:
    stop = " `/optimize cancel` stops the campaign." if stage not in (Stage.CLOSING, Stage.ENDED) else ""
    return Refusal(
        code=ReasonCode.NOTHING_WAITING,
        what=f"there is nothing to {verb} right now",
        why=f"No question waits for an answer: {NOW[stage]}.",
        next=f"`/optimize status` says where things stand.{stop}",
        paste="/optimize status",
    )


def nothing_to_cancel(stage: Stage) -> Refusal:
    return Refusal(
        code=ReasonCode.NOTHING_WAITING,
        what="there is nothing to cancel",
        why=f"Right now {NOW[stage]}.",
        next="`/optimize status` says where things stand.",
        paste="/optimize status",
    )


def nothing_to_try(stage: Stage) -> Refusal:
    return Refusal(
        code=ReasonCode.NOTHING_WAITING,
        what="no search is open that could try a commit",
        why=f"A commit is tried between the profile and the choice of the winner; right now {NOW[stage]}.",
        next="Start a campaign for the kernel with `/optimize <kernel>`, then bring the commit.",
        paste="/optimize status",
    )


def budget_spent(most: int) -> Refusal:
    return Refusal(
        code=ReasonCode.NOTHING_WAITING,
        what=f"the budget of {most} variants is spent",
        why="Every variant costs time on the machine, so a campaign has a fixed number of them.",
        next="Finish or cancel this campaign and start one with a larger `max_variants`.",
        paste="/optimize status",
    )


def tried_before(sha: str) -> Refusal:
    return Refusal(
        code=ReasonCode.DUPLICATE_EVENT,
        what=f"commit {sha} is already on the list",
        why="The same source would get the same verdict.",
        next="Push another commit and name that one.",
        paste="/optimize status",
    )


def day_spent(actor: Actor, spent: float, limit: int) -> Refusal:
    return Refusal(
        code=ReasonCode.BUDGET_EXCEEDED,
        what=f"{spent:.0f} of {limit} GPU minutes today are used",
        why=f"`max_gpu_minutes_per_day` is the limit of one person; running campaigns count as {UP_TO}; {RESETS}.",
        next="Wait until then, cancel a campaign, or raise the limit under `[policy]` in `kernelwright.toml`.",
        paste="/optimize status",
    )


def campaign_spent(limit: int) -> Refusal:
    return Refusal(
        code=ReasonCode.BUDGET_EXCEEDED,
        what=f"this campaign has used its {limit} GPU minutes",
        why="`max_gpu_minutes` is the limit of one campaign; it does not start anew while the campaign is open.",
        next="Finish or cancel this campaign and start another one, or raise the limit in `kernelwright.toml`.",
        paste="/optimize status",
    )


def own_request(actor: Actor, needed: Writer = "write") -> Refusal:
    return Refusal(
        code=ReasonCode.REQUESTER_APPROVAL,
        what="the last approval has to come from somebody else",
        why=f"`{actor.login}` started this campaign; needed is another person with {WRITERS[needed]}.",
        next="Ask a second person, or set `requester_approval = true` under `[policy]` in `kernelwright.toml`. "
        "`/optimize reject` and `/optimize cancel` remain yours.",
        paste="/optimize approve",
    )


def own_pull(actor: Actor, role: Role, needed: Writer = "write") -> Refusal:
    return Refusal(
        code=ReasonCode.SELF_APPROVAL,
        what="the last approval has to come from somebody else",
        why=f"`{actor.login}` wrote this pull request and holds {role}; "
        f"needed is another person with {WRITERS[needed]}.",
        next="Ask a second person to write `/optimize approve`, or set `self_approval = true` under `[policy]` in "
        "`kernelwright.toml`. `/optimize reject` and `/optimize cancel` remain yours.",
    )


def no_variants_yet(wanted: int) -> Refusal:
    return Refusal(
        code=ReasonCode.NO_SUCH_VARIANT,
        what=f"there is no {variant_name(wanted)} yet",
        why="The question that waits is about the profile; variants come after it.",
        next="Approve without a number to let the search begin.",
        paste="/optimize approve",
    )


def not_a_choice(wanted: int, campaign: Campaign, can: Sequence[int]) -> Refusal:
    """`can` are the variants that may be picked at this checkpoint."""
    names = [variant_name(number) for number in can]
    offer = f"These can be approved: {choices(names)}." if names else "None can be approved."
    exists = wanted == 0 or campaign.round_of(wanted) is not None
    return Refusal(
        code=ReasonCode.VARIANT_NOT_ACCEPTED if exists else ReasonCode.NO_SUCH_VARIANT,
        what=f"{variant_name(wanted)} {_why_not(wanted, campaign)}",
        why=offer,
        next="Name one of these, or say no with `/optimize reject`." if names else "Say no with `/optimize reject`.",
        paste=f"/optimize approve {names[-1]}" if names else "/optimize reject",
    )


def _why_not(wanted: int, campaign: Campaign) -> str:
    if wanted == 0:
        return "is the untouched kernel; to keep it, reject"
    if campaign.round_of(wanted) is None:
        return "does not exist in this campaign"
    if wanted in campaign.lineage:
        return "was accepted, but another variant went through the tests and the style check"
    return "was not accepted"
