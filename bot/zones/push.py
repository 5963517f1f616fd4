"""The push zone: the only one that writes to somebody's branch, and only what a human's word allows.

The ledger is memory, not authority: the answer relied on is read again from GitHub before anything is pushed, and
the policy from the default branch.
"""

from __future__ import annotations

from typing import TypeAlias

from bot.campaign.effects import PushWinner
from bot.campaign.machine import evidence_suffices, owed_in
from bot.commands import grammar
from bot.errors import Conflict, GitError, OperatorError, UserError
from bot.forge.client import Forge
from bot.git.repo import Repo
from bot.model.campaign import Answer, Campaign, Checkpoint, Stage, Zone
from bot.model.commands import Approve
from bot.model.facts import EffectDone, Fact, Pushed, PushRefused
from bot.model.people import Actor
from bot.model.reasons import ReasonCode
from bot.render import commit as commits
from bot.settings import Settings
from bot.targets.contract import CONFIG, read_config
from bot.zones import carry
from bot.zones.conversation import say
from bot.zones.doors import Doors, bring, open_doors
from bot.zones.question import question_of
from bot.zones.report import ZoneReport, about
from bot.zones.scribe import Scribe

Said: TypeAlias = tuple[Actor, str]
"""Who said it, and when."""


def _approving_review(answer: Answer, campaign: Campaign, forge: Forge) -> Said | None:
    """The review, if it approves the pinned commit and is its author's last word."""
    assert campaign.pull is not None
    decided = [review for review in forge.reviews(campaign.pull.number) if review.state != "COMMENTED"]
    found = next((review for review in decided if review.id == answer.source_id), None)
    if found is None or found.state != "APPROVED" or found.commit_id != campaign.pull.head_sha:
        return None
    last = [review for review in decided if review.actor.id == found.actor.id][-1]
    return (found.actor, found.submitted_at) if last.id == found.id else None


def _approving_comment(answer: Answer, campaign: Campaign, forge: Forge) -> Said | None:
    """The comment, if it stands in this conversation, says yes to this very winner and was never edited."""
    assert campaign.pull is not None
    found = next((c for c in forge.comments(campaign.pull.number) if c.id == answer.source_id), None)
    if found is None or found.updated_at != found.created_at:
        return None
    command = grammar.parse(found.body, ())
    if not isinstance(command, Approve) or command.variant not in (None, campaign.winner):
        return None
    return found.actor, found.created_at


def _still_said(answer: Answer, campaign: Campaign, forge: Forge) -> bool:
    """Whether GitHub still shows this yes, after the final question, by the same account, and it may say so."""
    assert campaign.pull is not None
    find = _approving_review if answer.via == "review" else _approving_comment
    said, question = find(answer, campaign, forge), question_of(campaign, Checkpoint.FINAL, forge)
    if said is None or question is None:
        return False
    author, at = said
    own = author.id == campaign.pull.author.id and not campaign.policy.self_approval
    return author.id == answer.actor.id and at >= question.created_at and not own and forge.role(author.login).may_write


def _forbidden(detail: str) -> PushRefused:
    return PushRefused(reason=ReasonCode.PUSH_FORBIDDEN, detail=detail)


def as_allowed_now(campaign: Campaign, repo: Repo) -> Campaign | PushRefused:
    """The campaign under the policy that the default branch has now: the ledger's copy could be anybody's."""
    try:
        policy = read_config(repo.read("HEAD", CONFIG)).policy
    except UserError as error:
        return PushRefused(reason=error.reason, detail=f"{error}; while nobody can say what is allowed, nothing is")
    if policy.oracle == "target" and campaign.policy.oracle != "target":
        return _forbidden(
            "the tests ran from the pull request's own copies, and by now this repository trusts its own alone"
        )
    return campaign.model_copy(update={"policy": policy})


def why_not(campaign: Campaign, forge: Forge) -> PushRefused | None:
    """What GitHub says against this push; None when a person still wants it and the policy lets it be."""
    assert campaign.pull is not None
    if campaign.pull.from_fork:
        where = f"the winner can be taken from the branch optimize/{campaign.id} of this repository"
        return _forbidden(f"the head of this pull request is in a fork, and no token of ours may push there; {where}")
    if not forge.pull(campaign.pull.number).is_open:
        return PushRefused(reason=ReasonCode.PR_CLOSED, detail="the pull request was closed after the approval")
    if not evidence_suffices(campaign):
        return PushRefused(reason=ReasonCode.EVIDENCE_INSUFFICIENT, detail="no GPU timed the winner")
    answer = campaign.answer_to(Checkpoint.FINAL)
    if answer is None and campaign.policy.final_approval == "none":
        return None
    if answer is None or not answer.approved:
        return _forbidden("no approval of the final checkpoint is on record")
    if not _still_said(answer, campaign, forge):
        return PushRefused(
            reason=ReasonCode.APPROVAL_STALE,
            detail=f"the approval by {answer.actor.login} was withdrawn, edited, or is no longer theirs to give",
        )
    return None


def _build(campaign: Campaign, doors: Doors) -> str:
    """The winning commit: a direct child of the pinned head, with the same sha however often it is built."""
    assert campaign.pull is not None and campaign.finalization is not None
    files = {file.path: file.text.encode() for file in campaign.finalization.files}
    return doors.repo.commit_files(
        campaign.pull.head_sha,
        files,
        commits.winner_message(campaign),
        author=commits.AUTHOR,
        date=campaign.requested_at,
    )


def _push(campaign: Campaign, doors: Doors) -> Fact:
    """Push with an explicit lease. A commit of ours that is already there was pushed by a job that died since."""
    assert campaign.pull is not None
    allowed = as_allowed_now(campaign, doors.repo)
    refusal = allowed if isinstance(allowed, PushRefused) else why_not(allowed, doors.forge)
    if refusal is not None:
        return refusal
    bring(doors.repo, campaign.pull.head_sha)
    commit = _build(campaign, doors)
    ref = f"refs/heads/{campaign.pull.head_ref}"
    if doors.repo.remote_sha(ref) == commit:
        return Pushed(commit=commit)
    try:
        doors.repo.push(ref, commit, expect=campaign.pull.head_sha)
    except Conflict:
        now = doors.repo.remote_sha(ref)
        if now == campaign.pull.head_sha:
            return PushRefused(reason=ReasonCode.PUSH_CONFLICT, detail="another push was under way at that moment")
        return PushRefused(reason=ReasonCode.REF_CHANGED, detail=now or "")
    except GitError as error:
        if error.reason is not ReasonCode.PUSH_FORBIDDEN:
            raise
        return _forbidden(str(error))
    return Pushed(commit=commit)


def push(settings: Settings, campaign: str) -> ZoneReport:
    """Push the approved winner of one campaign, say so, and close it."""
    doors = open_doors(settings)
    scribe = Scribe(doors.ledger, campaign, Zone.PUSH, doors.clock)
    if scribe.campaign.stage is Stage.NEW:
        raise OperatorError(
            f"there is no campaign {campaign} on the ledger",
            hint="name a campaign that stands under campaigns/ on the branch kernelwright/ledger",
        )
    if any(isinstance(effect, PushWinner) for effect in owed_in(scribe.campaign, Zone.PUSH)):
        if PushWinner.key not in scribe.campaign.requested:
            scribe.record()  # announces it
        if scribe.campaign.stage is Stage.PUSHING:
            fact = _push(scribe.campaign, doors)
            ref = fact.commit if isinstance(fact, Pushed) else ""
            scribe.record(fact, EffectDone(key=PushWinner.key, zone=Zone.PUSH, ref=ref))
    carry.carry_out(Zone.PUSH, scribe, lambda effect, at: say(effect, at, doors))
    code = scribe.campaign.reason or ReasonCode.ACCEPTED
    return about(Zone.PUSH, scribe.campaign, code=code, ledger_commit=scribe.tip)
