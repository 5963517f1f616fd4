"""The push zone: the only one that writes to somebody's branch, and only what a human's word allows.

The ledger is memory, not authority: the answer relied on is read again from GitHub before anything is pushed, and
the policy from the default branch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from bot.campaign.effects import PushWinner
from bot.campaign.machine import evidence_suffices, owed_in
from bot.commands import grammar
from bot.errors import Conflict, GitError, OperatorError, UserError
from bot.forge.client import Forge
from bot.git.repo import Repo
from bot.ledger.layout import campaign_dir
from bot.model.campaign import Answer, Campaign, Checkpoint, Origin, Stage, Zone
from bot.model.commands import Approve
from bot.model.facts import EffectDone, Fact, HeadMoved, JournalLine, Pushed, PushRefused, Repinned, Stopped
from bot.model.ids import CommitSha
from bot.model.people import Actor, Refusal
from bot.model.pull import PullSnapshot
from bot.model.reasons import ReasonCode
from bot.render import commit as commits
from bot.settings import Settings
from bot.targets.contract import CONFIG, TRUSTED, read_config
from bot.zones import carry, ground
from bot.zones.approving import blocking, grant_of, is_past
from bot.zones.conversation import say
from bot.zones.doors import Doors, bring, open_doors
from bot.zones.drawing import draw_records
from bot.zones.offer import push_winner
from bot.zones.question import question_of
from bot.zones.report import ZoneReport, about
from bot.zones.scribe import Draw, Scribe

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


def _withdrawn(answer: Answer, campaign: Campaign, now: PullSnapshot, forge: Forge, at: str) -> PushRefused | None:
    """Why this yes no longer holds. GitHub must still show it, after the final question, by the same account; the
    account must still be one that may say so; nobody else may stand against it; and it must not be too old."""
    find = _approving_review if answer.via == "review" else _approving_comment
    said, question = find(answer, campaign, forge), question_of(campaign, Checkpoint.FINAL, forge)
    gone = f"the approval by {answer.actor.login} was withdrawn, edited, or is no longer theirs to give"
    if said is None or question is None or said[0].id != answer.actor.id or said[1] < question.created_at:
        return PushRefused(reason=ReasonCode.APPROVAL_STALE, detail=gone)
    asked = campaign.model_copy(update={"stage": Stage.AWAIT_FINAL})
    grant = grant_of(Approve(variant=answer.variant), said[0], asked, now, campaign.policy, forge)
    if isinstance(grant, Refusal):
        return PushRefused(reason=ReasonCode.APPROVAL_STALE, detail=f"{gone}: {grant.what}")
    against = blocking(forge.reviews(now.number), question, campaign, forge)
    if against is not None:
        why = f"{against.actor.login} requests changes, and one no outweighs every yes"
        return PushRefused(reason=ReasonCode.CHANGES_REQUESTED, detail=why)
    days = campaign.policy.checkpoint_days
    if at and is_past(said[1], days, at):
        why = f"the approval by {answer.actor.login} is older than {days} days (`checkpoint_days`)"
        return PushRefused(reason=ReasonCode.APPROVAL_EXPIRED, detail=why)
    return None


def _forbidden(detail: str, *, unproved: bool = True) -> PushRefused:
    return PushRefused(reason=ReasonCode.PUSH_FORBIDDEN, detail=detail, unproved=unproved)


def as_allowed_now(campaign: Campaign, repo: Repo) -> Campaign | PushRefused:
    """The campaign under the policy that the default branch has now: the ledger's copy could be anybody's."""
    try:
        policy = read_config(repo.read("HEAD", CONFIG), of=TRUSTED).policy
    except UserError as error:
        return PushRefused(reason=error.reason, detail=f"{error}; while nobody can say what is allowed, nothing is")
    if policy.oracle == "target" and campaign.policy.oracle != "target":
        return _forbidden(
            "the tests ran from the pull request's own copies, and by now this repository trusts its own alone"
        )
    # Whose tests ran is what happened; the rest is what is allowed.
    return campaign.model_copy(update={"policy": policy.model_copy(update={"oracle": campaign.policy.oracle})})


def why_not(campaign: Campaign, forge: Forge, at: str = "") -> PushRefused | None:
    """What GitHub says against this push; None when a person still wants it and the policy lets it be.

    `at` is the time now; without it an approval is never too old.
    """
    assert campaign.pull is not None
    now = forge.pull(campaign.pull.number)
    if not now.is_open:
        return PushRefused(reason=ReasonCode.PR_CLOSED, detail="the pull request was closed after the approval")
    if now.head_repo is None and campaign.pull.head_repo is not None:  # nobody took the approval back
        return PushRefused(reason=ReasonCode.HEAD_REPO_MISSING, detail="the fork it comes from was deleted")
    stranger = now.from_fork or campaign.pull.from_fork or not forge.role(now.author.login).may_write
    if stranger and campaign.policy.oracle != "target":
        return _forbidden("a stranger's own tests decided, and here only those of the target branch may")
    if not evidence_suffices(campaign):
        return PushRefused(reason=ReasonCode.EVIDENCE_INSUFFICIENT, detail="no GPU timed the winner")
    answer = campaign.answer_to(Checkpoint.FINAL)
    if answer is None and campaign.policy.final_approval == "none":
        return None
    if answer is None or not answer.approved:
        return _forbidden("no approval of the final checkpoint is on record")
    return _withdrawn(answer, campaign, now, forge, at)


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


def _hand(doors: Doors) -> Repo:
    """The clone, with the token that may write to people's branches: an App's, so that checks start by themselves."""
    return Repo(doors.repo.path, token=doors.settings.push_token or doors.settings.token)


def _moved(campaign: Campaign, doors: Doors) -> Fact | None:
    """What became of the ground since the approval: a harmless move has the tests run again, any other ends it."""
    assert campaign.pull is not None
    match ground.look(campaign, doors.forge.pull(campaign.pull.number), doors):
        case HeadMoved() as fact:
            return PushRefused(reason=ReasonCode.REF_CHANGED, detail=fact.now or "", again=fact.again)
        case Stopped() as fact:
            return PushRefused(reason=fact.reason, detail=fact.detail, again=fact.again)
        case fact:
            return fact


def _suggestion(campaign: Campaign) -> PushRefused | None:
    """Where nothing may be pushed by rule, the winner is handed over as a patch."""
    words = {
        "fork": "the head of this pull request is in a fork, and no token of ours may push there",
        "policy": "this repository takes winners as patches (`push_to`)",
    }
    why = words.get(campaign.patch_for)
    return PushRefused(reason=ReasonCode.SUGGESTION_POSTED, detail=why) if why else None


def _lease(campaign: Campaign, commit: CommitSha, doors: Doors) -> Fact:
    """The push itself, with an explicit lease, by the token that may write to the branch."""
    assert campaign.pull is not None
    ref = f"refs/heads/{campaign.pull.head_ref}"
    try:
        _hand(doors).push(ref, commit, expect=campaign.pull.head_sha)
    except Conflict:
        now = doors.repo.remote_sha(ref)
        if now == campaign.pull.head_sha:
            return PushRefused(reason=ReasonCode.PUSH_CONFLICT, detail="another push was under way at that moment")
        return PushRefused(reason=ReasonCode.REF_CHANGED, detail=now or "")
    except GitError as error:
        if error.reason is not ReasonCode.PUSH_FORBIDDEN:
            raise
        return _forbidden(f"{error}. {error.hint}", unproved=False)
    return Pushed(commit=commit)


def _push(campaign: Campaign, doors: Doors) -> Fact:
    """A commit of ours that is already there was pushed by a job that died since."""
    assert campaign.pull is not None
    if campaign.origin is Origin.SWEEP:
        return push_winner(campaign, doors, _build)
    allowed = as_allowed_now(campaign, doors.repo)
    refusal = allowed if isinstance(allowed, PushRefused) else why_not(allowed, doors.forge, doors.clock())
    if isinstance(allowed, PushRefused) or refusal is not None:
        return refusal or _forbidden("nobody can say what is allowed")
    bring(doors.repo, campaign.pull.head_sha)
    commit = _build(allowed, doors)
    mine = None if campaign.pull.from_fork else doors.repo.remote_sha(f"refs/heads/{campaign.pull.head_ref}")
    if mine == commit:
        return Pushed(commit=commit)
    return _moved(campaign, doors) or _suggestion(allowed) or _lease(campaign, commit, doors)


PATCHED = (ReasonCode.SUGGESTION_POSTED, ReasonCode.PUSH_FORBIDDEN, ReasonCode.PUSH_CONFLICT)
"""Refusals after which a person can still take the winner, as a patch on the ledger."""


def _with_patch(fact: Fact, doors: Doors) -> Draw:
    def draw(campaign: Campaign, lines: tuple[JournalLine, ...]) -> Mapping[str, bytes]:
        files = dict(draw_records(campaign, lines))
        handed = isinstance(fact, PushRefused) and fact.reason in PATCHED and not fact.unproved
        if handed and campaign.origin is not Origin.SWEEP:
            files[f"{campaign_dir(campaign.id)}/winner.patch"] = doors.repo.patch(_build(campaign, doors))
        return files

    return draw


def _settle(scribe: Scribe, doors: Doors) -> None:
    fact = _push(scribe.campaign, doors)
    if isinstance(fact, Repinned):  # no push has begun there; the tests come first
        scribe.record(fact)
        return
    ref = fact.commit if isinstance(fact, Pushed) else ""
    scribe.record(fact, EffectDone(key=PushWinner.key, zone=Zone.PUSH, ref=ref), draw=_with_patch(fact, doors))


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
            _settle(scribe, doors)
    carry.carry_out(Zone.PUSH, scribe, lambda effect, at: say(effect, at, doors))
    code = scribe.campaign.reason or ReasonCode.ACCEPTED
    return about(Zone.PUSH, scribe.campaign, code=code, ledger_commit=scribe.tip)
