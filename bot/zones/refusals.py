"""What only a zone can find out and must say no to: the policy knows commands, not conversations or branches."""

from __future__ import annotations

from bot.commands.refusals import NOW
from bot.errors import UserError
from bot.forge.client import CommentView, ReviewView
from bot.model.campaign import Campaign
from bot.model.commands import Approve, Reject, Try
from bot.model.ids import CommitSha, VariantNumber, variant_name
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
        why=campaign.ignored[-1].why if campaign.ignored else f"right now {NOW[campaign.stage]}",
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


def dismissed(review: ReviewView) -> Refusal:
    return Refusal(
        code=ReasonCode.APPROVAL_STALE,
        what="this review was dismissed, so it is no answer",
        why="a dismissed review says nothing any more, and the question still waits",
        next="review again, or answer with the line below",
        paste="/optimize approve",
    )


def needs_command(line: str) -> Refusal:
    """An Approve review of a question that only a command answers."""
    return Refusal(
        code=ReasonCode.AWAITING_APPROVAL,
        what=f"this question needs `{line}`",
        why="in this repository an Approve review does not answer it, and it still waits",
        next="answer with the line below",
        paste=line,
    )


def other_commit(review: ReviewView, head: CommitSha) -> Refusal:
    return Refusal(
        code=ReasonCode.APPROVAL_STALE,
        what=f"this review is of {review.commit_id[:7]}, and the question is about {head[:7]}",
        why="an answer counts for the commit that was measured, and for no other",
        next=f"review the changes at {head[:7]}, or answer with the line below",
        paste="/optimize approve",
    )


def several_variants(named: tuple[VariantNumber, ...]) -> Refusal:
    return Refusal(
        code=ReasonCode.BAD_VALUE,
        what=f"this review names {' and '.join(map(variant_name, named))}, and one variant can be taken",
        why="the one that is meant is not guessed",
        next="name one in a new review, or answer with the line below",
        paste=f"/optimize approve {variant_name(named[-1])}",
    )


def changes_requested(login: str) -> Refusal:
    return Refusal(
        code=ReasonCode.CHANGES_REQUESTED,
        what=f"a review by {login} requests changes",
        why="one no of somebody with write access outweighs every yes",
        next=f"settle it with {login}: a new review of theirs, or a dismissal of this one; then approve again",
        paste="/optimize approve",
    )


def moved_meanwhile(head: CommitSha) -> Refusal:
    return Refusal(
        code=ReasonCode.REPINNED,
        what=f"the head moved to {head[:7]}, so tests and style check run once more",
        why="nothing that the kernel depends on changed, so its figures hold; what was asked was about the old head",
        next="wait for the new question and answer that",
        paste="/optimize status",
    )


def expired(days: int) -> Refusal:
    return Refusal(
        code=ReasonCode.APPROVAL_EXPIRED,
        what=f"this question waited longer than {days} days",
        why="`checkpoint_days` is how long a question stays open; what it was about may be stale by now",
        next="ask again; the kernel is measured anew",
        paste="/optimize status",
    )
