"""The push zone believes GitHub, not the ledger, and never moves a branch that somebody else moved."""

from __future__ import annotations

import datetime
import subprocess
from collections.abc import Callable

import pytest

from bot.campaign.machine import fold
from bot.errors import OperatorError
from bot.git.push import Pushed as Became
from bot.git.push import read_push
from bot.git.repo import Repo
from bot.model.campaign import Answer, Campaign, Checkpoint, Outcome, Stage
from bot.model.commands import Mode
from bot.model.facts import Answered, PushRefused
from bot.model.people import Actor
from bot.model.reasons import ReasonCode
from bot.zones.doors import open_doors
from bot.zones.push import _build, as_allowed_now, push, why_not
from tests.zones.conversation import AT, BOT, DANA, LEE, MIRA, NOOR, PATH, PULL, Conversation
from tests.zones.places import At


def refused(talk: Conversation, reason: ReasonCode) -> str:
    """Nothing is pushed, the campaign says why and closes; what it says."""
    head = talk.head
    report = talk.push()
    campaign = talk.campaign
    assert (report.reason_code, report.stage, report.next) == (reason, Stage.ENDED, "none")
    assert (campaign.outcome, campaign.reason, campaign.pushed) == (Outcome.REVERTED, reason, None)
    assert talk.head == head
    assert f"`{reason}`" in talk.answers()[-1]
    assert talk.status()[0] == "failure"
    return talk.answers()[-1]


# What is pushed


def test_one_commit_on_the_pinned_head_with_everything_that_led_to_it(at: At) -> None:
    talk = at("pushing")
    pinned = talk.head
    assert talk.push().reason_code == "pushed"
    assert talk.repo.parents(talk.head) == (pinned,)
    assert talk.repo.changed(pinned, talk.head) == (PATH,)
    trailers = talk.git("log", "-1", "--format=%(trailers:unfold)", "topic").splitlines()
    assert trailers == [
        f"Kernelwright-Campaign: {talk.campaign.id}",
        f"Judged-at: {pinned}",
        "Evidence: static",
        "Requested-by: mira",
        "Approved-by: mira",
    ]
    assert talk.git("log", "-1", "--format=%s", "topic").startswith(
        "[Perf] Optimize rms_norm kernel: 1.56x (estimated)"
    )
    assert talk.git("ls-tree", "topic", PATH).startswith("100644 blob")


def test_where_policy_wants_it_the_commit_is_signed_off(at: At) -> None:
    talk = at("pushing")
    talk.allows(f"{STATIC}\nsignoff = true")
    assert talk.push().reason_code == "pushed"
    assert talk.git("log", "-1", "--format=%(trailers:key=Signed-off-by,valueonly)", "topic").startswith(
        "kernelwright <"
    )


def test_the_same_commit_is_built_every_time(at: At) -> None:
    one, other = at("pushing"), at("pushing")
    shas = {_build(talk.campaign, open_doors(talk.settings("push"))) for talk in (one, other)}
    assert len(shas) == 1
    assert one.push().reason_code == "pushed"
    assert {one.head} == shas


def test_pushing_twice_pushes_once(at: At) -> None:
    talk = at("pushing")
    talk.push()
    before = talk.branches, talk.answers()
    assert talk.push().reason_code == "pushed"
    assert (talk.branches, talk.answers()) == before


def test_a_job_that_died_after_the_push_is_followed_by_one_that_sees_it(at: At) -> None:
    talk = at("pushing")
    settings = talk.settings("push")
    doors = open_doors(settings)
    commit = _build(talk.campaign, doors)
    Repo(doors.repo.path, token=settings.push_token).push("refs/heads/topic", commit, expect=talk.head)
    assert talk.push().reason_code == "pushed"
    assert talk.campaign.pushed == commit == talk.head


def test_without_an_order_to_push_nothing_is_pushed(at: At) -> None:
    talk = at("final")
    before = talk.branches
    assert talk.push().next == "wait"
    assert {name: sha for name, sha in talk.branches.items() if "ledger" not in name} == {
        name: sha for name, sha in before.items() if "ledger" not in name
    }


# The approval


def reason(refusal: PushRefused | None) -> ReasonCode | None:
    return refusal.reason if refusal else None


def approval(talk: Conversation, source: int, by: str, via: str = "comment") -> Answered:
    """A fact that somebody who can write to the ledger could write there."""
    actor = Actor(id=talk.hub.user_id(by), login=by)
    answer = {"checkpoint": Checkpoint.FINAL, "approved": True, "actor": actor, "via": via, "source_id": source}
    return Answered(answer=Answer.model_validate(answer | {"said_at": AT}))


def review(talk: Conversation, by: str, state: str, commit: str | None = None) -> Answered:
    return approval(talk, talk.reviews(by, state, "words", commit), by, "review")


def comment(talk: Conversation, by: str, text: str) -> Answered:
    return approval(talk, talk.says(by, text), by)


def its_own_question(talk: Conversation) -> Answered:
    question = next(c.id for c in talk.hub.world.comments.values() if "Push it?" in c.body)
    return approval(talk, question, BOT)


FORGERIES: dict[str, Callable[[Conversation], Answered]] = {
    "a comment that does not exist": lambda talk: approval(talk, 123, MIRA),
    "a review that does not exist": lambda talk: approval(talk, 123, MIRA, "review"),
    "a comment of somebody else": lambda talk: approval(talk, talk.says(NOOR, "/optimize approve"), MIRA),
    "a reader's own comment": lambda talk: comment(talk, LEE, "/optimize approve"),
    "the author's own comment": lambda talk: comment(talk, DANA, "/optimize approve"),
    "the bot's own question": its_own_question,
    "a comment that asks for something else": lambda talk: comment(talk, MIRA, "/optimize help"),
    "a comment that rejects": lambda talk: comment(talk, MIRA, "/optimize reject"),
    "a comment that quotes": lambda talk: comment(talk, MIRA, "> /optimize approve"),
    "a yes to another variant": lambda talk: comment(talk, MIRA, "/optimize approve v1"),
    "a yes to an earlier question": lambda talk: approval(talk, talk.campaign.answers[0].source_id, MIRA),
    "a change request": lambda talk: review(talk, MIRA, "REQUEST_CHANGES"),
    "a review that is only a remark": lambda talk: review(talk, MIRA, "COMMENT"),
    "a reader's review": lambda talk: review(talk, LEE, "APPROVE"),
    "a review of another commit": lambda talk: review(talk, MIRA, "APPROVE", talk.repo.parents(talk.head)[0]),
}
HONEST: dict[str, Callable[[Conversation], Answered]] = {
    "a comment": lambda talk: comment(talk, MIRA, "/optimize approve"),
    "a comment that names the winner": lambda talk: comment(talk, NOOR, "Well done!\n\n/optimize approve v3"),
    "a review": lambda talk: review(talk, NOOR, "APPROVE"),
}


def test_only_what_a_person_said_and_may_say_is_an_approval(at: At) -> None:
    talk = at("final")
    forge, campaign = open_doors(talk.settings("push")).forge, talk.campaign
    for what, forgery in FORGERIES.items():
        forged = fold(campaign, [forgery(talk)])
        assert forged.stage is Stage.PUSHING, "the ledger alone would push"
        assert reason(why_not(forged, forge)) is ReasonCode.APPROVAL_STALE, what
    for what, word in HONEST.items():
        assert why_not(fold(campaign, [word(talk)]), forge) is None, what


def test_a_forged_approval_pushes_nothing(at: At) -> None:
    talk = at("final")
    talk.writes_down(approval(talk, 123, MIRA))
    refused(talk, ReasonCode.APPROVAL_STALE)


def test_a_yes_on_another_pull_request_pushes_nothing(at: At) -> None:
    talk = at("final")
    talk.pushes(DANA, "# another\n", branch="other", path="notes.md")
    number = talk.hub.open_pull(DANA, "other", "main", "Another one")
    talk.writes_down(approval(talk, talk.says(MIRA, "/optimize approve", number), MIRA))
    refused(talk, ReasonCode.APPROVAL_STALE)


def test_an_approval_that_was_edited_since_pushes_nothing(at: At) -> None:
    talk = at("pushing")
    talk.hub.edit_comment(MIRA, talk.campaign.answers[-1].source_id, "/optimize approve v3")
    assert "mira" in refused(talk, ReasonCode.APPROVAL_STALE)


def test_a_comment_counts_as_long_as_it_stands_and_its_author_may(at: At) -> None:
    talk = at("pushing")
    forge, campaign = open_doors(talk.settings("push")).forge, talk.campaign
    assert why_not(campaign, forge) is None
    talk.hub.add_user(MIRA, "triage")
    assert reason(why_not(campaign, forge)) is ReasonCode.APPROVAL_STALE
    talk.hub.add_user(MIRA, "write")
    assert why_not(campaign, forge) is None
    del talk.hub.world.comments[campaign.answers[-1].source_id]
    assert reason(why_not(campaign, forge)) is ReasonCode.APPROVAL_STALE


def test_a_review_counts_as_long_as_it_is_its_author_s_last_word(at: At) -> None:
    talk = at("final")
    forge = open_doors(talk.settings("push")).forge
    campaign = fold(talk.campaign, [review(talk, NOOR, "APPROVE")])
    talk.reviews(NOOR, "COMMENT", "thank you")
    assert why_not(campaign, forge) is None
    again = talk.reviews(NOOR, "REQUEST_CHANGES", "on second thoughts")
    assert reason(why_not(campaign, forge)) is ReasonCode.APPROVAL_STALE
    del talk.hub.world.reviews[again]
    assert why_not(campaign, forge) is None
    talk.hub.dismiss_review(campaign.answers[-1].source_id)
    assert reason(why_not(campaign, forge)) is ReasonCode.APPROVAL_STALE


def test_one_no_outweighs_the_yes_until_it_is_taken_back(at: At) -> None:
    talk = at("pushing")
    forge, campaign = open_doors(talk.settings("push")).forge, talk.campaign
    talk.reviews(LEE, "REQUEST_CHANGES", "I may read and no more")
    assert why_not(campaign, forge) is None
    standing = talk.reviews(NOOR, "REQUEST_CHANGES", "not like this")
    assert reason(why_not(campaign, forge)) is ReasonCode.CHANGES_REQUESTED
    talk.hub.dismiss_review(standing)
    assert why_not(campaign, forge) is None
    talk.reviews(NOOR, "REQUEST_CHANGES", "still not")
    refused(talk, ReasonCode.CHANGES_REQUESTED)
    assert talk.campaign.detail.startswith("noor requests changes")


def test_an_approval_is_good_for_as_long_as_the_policy_says(at: At) -> None:
    talk = at("pushing")
    forge, campaign = open_doors(talk.settings("push")).forge, talk.campaign
    said = datetime.datetime.fromisoformat(campaign.answers[-1].said_at)
    days = datetime.timedelta(days=campaign.policy.checkpoint_days)
    assert why_not(campaign, forge, (said + days).isoformat()) is None
    refusal = why_not(campaign, forge, (said + days + datetime.timedelta(seconds=1)).isoformat())
    assert reason(refusal) is ReasonCode.APPROVAL_EXPIRED


def test_where_policy_says_so_the_requester_may_not_approve(at: At) -> None:
    talk = at("pushing")
    talk.allows(f"{STATIC}\nrequester_approval = false")
    assert "started" not in talk.answers()[-1]
    refused(talk, ReasonCode.APPROVAL_STALE)


def test_where_policy_wants_a_maintainer_a_writer_s_yes_does_not_do(at: At) -> None:
    talk = at("final")
    campaign = fold(talk.campaign, [comment(talk, NOOR, "/optimize approve")])
    forge = open_doors(talk.settings("push")).forge
    assert why_not(campaign, forge) is None
    policy = campaign.policy.model_copy(update={"may_approve": "maintain"})
    assert reason(why_not(campaign.model_copy(update={"policy": policy}), forge)) is ReasonCode.APPROVAL_STALE


def test_where_policy_allows_it_the_author_may_approve(at: At) -> None:
    talk = at("final")
    forge = open_doors(talk.settings("push")).forge
    campaign = fold(talk.campaign, [comment(talk, DANA, "/optimize approve")])
    assert reason(why_not(campaign, forge)) is ReasonCode.APPROVAL_STALE
    policy = campaign.policy.model_copy(update={"self_approval": True})
    assert why_not(campaign.model_copy(update={"policy": policy}), forge) is None


# The branch


def test_a_head_that_moved_keeps_its_author_s_commits(at: At) -> None:
    talk = at("pushing")
    moved = talk.pushes(DANA, "# another kernel\n")
    answer = refused(talk, ReasonCode.REF_CHANGED)
    assert f"head is now `{moved[:7]}`" in answer
    assert "\n/optimize rms_norm\n" in answer, "the line that starts anew"
    assert talk.head == moved


def test_a_head_that_was_wound_back_is_not_brought_back(at: At) -> None:
    talk = at("pushing")
    older = talk.repo.parents(talk.head)[0]
    talk.hub.history.set_ref("refs/heads/topic", older)
    refused(talk, ReasonCode.REF_CHANGED)
    assert talk.head == older


def test_a_branch_that_is_gone_stays_gone(at: At) -> None:
    talk = at("pushing")
    talk.git("update-ref", "-d", "refs/heads/topic")
    assert talk.push().reason_code == "pr_closed", "GitHub closes a pull request without a branch"
    assert "topic" not in talk.branches


def test_a_pull_request_that_was_closed_gets_no_commit(at: At) -> None:
    talk = at("pushing")
    talk.hub.close_pull(PULL)
    refused(talk, ReasonCode.PR_CLOSED)


def test_a_protected_branch_refuses_and_we_say_so(at: At) -> None:
    talk = at("pushing")
    hook = talk.hub.root / "hooks" / "pre-receive"
    rule = '#!/bin/sh\nwhile read -r before after ref; do\n  [ "$ref" != refs/heads/topic ] || exit 1\ndone\n'
    hook.write_text(rule, encoding="utf-8")
    answer = refused(talk, ReasonCode.PUSH_FORBIDDEN)
    assert "may not push to `topic`" in answer
    assert "the rules of the branch must let it push" in answer
    assert "GitHub said" not in answer, "the words are ours"


RULES = {
    "protected branch": "error: GH006: Protected branch update failed for refs/heads/topic.",
    "ruleset": "error: GH013: Repository rule violations found for refs/heads/topic.",
    "signatures": "error: GH013: - Commits must have verified signatures.",
}


@pytest.mark.parametrize("rule", RULES)
def test_what_github_forbids_is_told_apart_and_told_in_its_words(rule: str) -> None:
    line = "!\tabc:refs/heads/topic\t[remote rejected] (push declined due to repository rule violations)\n"
    outcome, why = read_push(1, f"To https://github.com/a/b\n{line}Done\n", f"remote: {RULES[rule]}\nerror: failed")
    assert outcome is Became.FORBIDDEN
    assert RULES[rule] in why and "repository rule violations" in why


def test_a_refused_winner_is_handed_over_as_a_patch(at: At) -> None:
    talk = at("pushing")
    pinned = talk.head
    hook = talk.hub.root / "hooks" / "pre-receive"
    said = RULES["ruleset"]
    script = f'while read -r before after ref; do\n  [ "$ref" != refs/heads/topic ] || {{ echo "{said}" >&2; exit 1; }}'
    hook.write_text(f"#!/bin/sh\n{script}\ndone\n", encoding="utf-8")
    answer = refused(talk, ReasonCode.PUSH_FORBIDDEN)
    assert said.partition(": ")[2][:5] in talk.campaign.detail
    patch = f"campaigns/{talk.campaign.id}/winner.patch"
    assert f"git show FETCH_HEAD:{patch} | git am" in answer
    assert "+# v3 loads wider" in answer
    assert_applies(talk, pinned, patch)


def assert_applies(talk: Conversation, pinned: str, patch: str) -> None:
    """git itself takes the patch, and what comes of it is the winner."""
    clone, git = talk.folder / "clone", ("git", "-c", "user.name=lee", "-c", "user.email=lee@example.org")
    subprocess.run((*git, "clone", "-q", str(talk.hub.bare), str(clone)), check=True)
    subprocess.run((*git, "checkout", "-q", pinned), cwd=clone, check=True)
    letter = talk.repo.read("refs/heads/kernelwright/ledger", patch)
    subprocess.run((*git, "am", "-q"), cwd=clone, check=True, input=letter)
    assert talk.campaign.finalization is not None
    (file,) = talk.campaign.finalization.files
    assert (clone / file.path).read_text(encoding="utf-8") == file.text


def test_where_policy_says_patch_nothing_is_pushed_to_anybody(at: At) -> None:
    talk = at("pushing")
    talk.allows(f'{STATIC}\npush_to = "patch"')
    answer = refused(talk, ReasonCode.SUGGESTION_POSTED)
    assert "is ready to be taken" in answer
    assert "winner.patch | git am" in answer


def test_a_token_without_the_right_to_push_is_refused_too(at: At) -> None:
    talk = at("pushing")
    head = talk.head
    assert push(talk.settings("decide"), talk.campaign.id).reason_code == "push_forbidden"
    assert talk.head == head


def test_the_head_of_a_fork_is_nobody_s_to_push_to(at: At) -> None:
    """A branch here may be called like the fork's, and even stand at the same commit."""
    talk = at("pushing").retold(pull={"head_repo": "lee/kernels"}, policy={"oracle": "target"})
    answer = refused(talk, ReasonCode.SUGGESTION_POSTED)
    assert "is in a fork" in answer
    assert "winner.patch | git am" in answer


def test_what_a_stranger_s_own_tests_let_through_is_not_pushed(at: At) -> None:
    talk = at("pushing").retold(pull={"head_repo": "lee/kernels"})
    assert "winner.patch" not in refused(talk, ReasonCode.PUSH_FORBIDDEN), "nor handed over"
    assert "a stranger's own tests" in talk.campaign.detail
    talk = at("pushing")
    talk.hub.add_user(DANA, "read")
    refused(talk, ReasonCode.PUSH_FORBIDDEN)
    assert "a stranger's own tests" in talk.campaign.detail


def test_a_harmless_move_has_the_tests_run_again_there_before_anything_is_pushed(at: At) -> None:
    talk = at("pushing")
    pinned = talk.head
    moved = talk.pushes(DANA, "# notes\n", path="notes.md")
    report = talk.push()
    assert (report.stage, report.next, talk.head) == (Stage.FINALIZING, "publish", moved)
    assert talk.publishes().next == "measure"
    assert talk.finishes().stage is Stage.AWAIT_FINAL
    assert f"over `{moved[:7]}`" in talk.answers()[-1]
    assert talk.push().next == "wait", "the yes to the old head counts no more"
    talk.asks(NOOR, "/optimize approve")
    assert talk.push().reason_code == "pushed"
    assert talk.repo.parents(talk.head) == (moved,)
    assert f"Judged-at: {pinned}" in talk.repo.message(talk.head)


def test_no_campaign_of_that_name_is_an_operator_s_mistake(at: At) -> None:
    talk = at("opened")
    with pytest.raises(OperatorError, match="no campaign c404"):
        push(talk.settings("push"), "c404")


# The policy, as the default branch has it now

STATIC = 'evidence = "static"'


def unasked(at: At) -> Conversation:
    """A ledger that says nobody has to be asked."""
    talk = at("final").retold(policy={"final_approval": "none"}, command={"mode": Mode.AUTONOMOUS})
    assert talk.campaign.stage is Stage.PUSHING, "the ledger alone would push"
    return talk


def test_where_policy_allows_it_an_autonomous_campaign_needs_no_word(at: At) -> None:
    talk = unasked(at)
    talk.allows(f'{STATIC}\nfinal_approval = "none"')
    assert talk.push().reason_code == "pushed"


def test_a_ledger_that_lets_itself_off_the_approval_pushes_nothing(at: At) -> None:
    talk = unasked(at)
    answer = refused(talk, ReasonCode.PUSH_FORBIDDEN)
    assert "no approval of the final checkpoint is on record" in answer.lower()
    assert "winner.patch" not in answer, "a forger gets no patch under our name either"
    assert talk.repo.read("refs/heads/kernelwright/ledger", f"campaigns/{talk.campaign.id}/winner.patch") is None


def test_a_ledger_that_lets_an_author_approve_pushes_nothing(at: At) -> None:
    talk = at("final").retold(policy={"self_approval": True})
    talk.writes_down(comment(talk, DANA, "/optimize approve"))
    refused(talk, ReasonCode.APPROVAL_STALE)


def test_a_ledger_that_makes_do_with_less_evidence_pushes_nothing(at: At) -> None:
    talk = at("pushing")
    assert talk.campaign.policy.evidence == "static", "so the ledger says"
    talk.allows('evidence = "measured"')
    refused(talk, ReasonCode.EVIDENCE_INSUFFICIENT)


def test_a_ledger_that_let_the_pull_request_s_own_tests_decide_pushes_nothing(at: At) -> None:
    talk = at("pushing")
    talk.allows(f'{STATIC}\noracle = "target"')
    refused(talk, ReasonCode.PUSH_FORBIDDEN)
    assert "the pull request's own copies" in talk.campaign.detail


def test_tests_of_the_target_branch_satisfy_either_rule(at: At) -> None:
    talk = at("pushing").retold(policy={"oracle": "target"})
    talk.allows(f'{STATIC}\noracle = "target"')
    assert talk.push().reason_code == "pushed"
    talk = at("pushing").retold(policy={"oracle": "target"})
    assert talk.push().reason_code == "pushed", "the default branch says head"


def test_while_the_policy_cannot_be_read_nothing_is_allowed(at: At) -> None:
    talk = at("pushing")
    talk.allows("final_approval = 'whenever'")
    assert "nothing is" in refused(talk, ReasonCode.CONFIG_INVALID)


def test_the_policy_of_the_pull_request_itself_counts_for_nothing(at: At) -> None:
    talk = unasked(at)
    talk.pushes(DANA, f'[policy]\n{STATIC}\nfinal_approval = "none"\n', path="kernelwright.toml")
    allowed = as_allowed_now(talk.campaign, open_doors(talk.settings("push")).repo)
    assert isinstance(allowed, Campaign)
    assert allowed.policy.final_approval == "required"
