"""What only a zone can find out and must say no to: the policy knows commands, not conversations or branches."""

from __future__ import annotations

from bot.errors import UserError
from bot.forge.client import CommentView
from bot.model.campaign import Campaign
from bot.model.commands import Approve, Reject, Try
from bot.model.people import Refusal
from bot.model.reasons import ReasonCode


def not_a_pull() -> Refusal:
    return Refusal(
        code=ReasonCode.NOT_A_PULL_REQUEST,
        what="this is an issue, not a pull request",
        why="a campaign measures and pushes to the head of a pull request",
        next="open a pull request (it may be empty of kernel changes) and write the command there",
        paste="/optimize help",
    )


def unready(error: UserError) -> Refusal:
    """The repository itself cannot be worked with."""
    return Refusal(
        code=error.reason,
        what=str(error),
        why="what may be optimised, and what may be pushed, is read from the default branch",
        next=error.hint,
        paste="/optimize help",
    )


def no_such_commit(command: Try) -> Refusal:
    return Refusal(
        code=ReasonCode.BAD_VALUE,
        what=f"no commit {command.sha} was found",
        why="a commit to try must be on a branch of this repository or on the head of this pull request",
        next="push the commit to a branch here, then name it by at least seven characters of its SHA",
        paste="/optimize try <sha>",
    )


def too_late(campaign: Campaign) -> Refusal:
    """Another word was faster; what it did stands in the journal."""
    return Refusal(
        code=ReasonCode.NOTHING_WAITING,
        what="this came too late",
        why=campaign.ignored[-1].why,
        next="look where the campaign stands now",
        paste="/optimize status",
    )


def not_asked(command: Approve | Reject, question: CommentView | None) -> Refusal:
    why = "that question is not in this conversation" if question is None else "this comment is older than the question"
    return Refusal(
        code=ReasonCode.NOTHING_WAITING,
        what=f"there is nothing to {command.verb} yet",
        why=f"an answer counts when it was written after the question, and {why}",
        next="read the question in the latest comment of the campaign, then answer it",
        paste=f"/optimize {command.verb}",
    )
