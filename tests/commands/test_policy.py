"""Who may say what, when. Every no names its reason and what helps."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.commands import grammar
from bot.commands.policy import OVER, SEARCHING, WAITING, may
from bot.model.campaign import Campaign, Outcome, Phase, Round, Stage
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
from bot.model.people import Actor, Grant, Refusal, Role, Standing
from bot.model.policy import RepoPolicy
from bot.model.pull import PullSnapshot
from bot.model.reasons import ReasonCode
from bot.model.variant import Hypothesis, SourceFile, Variant
from tests.examples import many

AUTHOR = Actor(id=1, login="author")
MIRA = Actor(id=7, login="mira")
STRANGER = Actor(id=9, login="stranger")
HEAD = "27debc3" + "a" * 33
ASKED = Optimize(kernel="rms_norm")
FREE = (Help(), ListKernels(), Status())
GUARDED = (ASKED, Approve(), Reject(), Cancel(), Try(sha="27debc3"), Retry(), Restart())
WRITERS = (Role.WRITE, Role.MAINTAIN, Role.ADMIN)
OTHERS = (Role.NONE, Role.READ, Role.TRIAGE)


def pull(**fields: Any) -> PullSnapshot:
    given = PullSnapshot(
        number=1,
        is_open=True,
        is_draft=False,
        author=AUTHOR,
        head_sha=HEAD,
        head_ref="faster",
        head_repo="sample/kernels",
        base_ref="main",
        base_repo="sample/kernels",
    )
    return given.model_copy(update=fields)


FORK = pull(head_repo="someone/kernels")


def played(number: int) -> Round:
    idea = Hypothesis(title="idea", why="it spills", expected="1.2x", technique="num_warps")
    files = (SourceFile(path="a.py", text=f"# {number}\n"),)
    return Round(variant=Variant(number=number, parent=0, files=files, hypothesis=idea, proposer="engine"))


def campaign(stage: Stage, **fields: Any) -> Campaign:
    """v1 and v3 were accepted, v2 was not; v3 is best."""
    later = stage in (Stage.FINALIZING, Stage.AWAIT_FINAL, Stage.PUSHING)
    given = Campaign(
        id="c42",
        stage=stage,
        command=ASKED,
        requester=MIRA,
        pull=pull(),
        rounds=tuple(map(played, (1, 2, 3))),
        lineage=(0, 1, 3),
        winner=3 if later else None,
    )
    return given.model_copy(update=fields)


def answer(
    command: Command,
    *,
    actor: Actor = MIRA,
    role: Role = Role.WRITE,
    pull: PullSnapshot | None = None,
    policy: RepoPolicy | None = None,
    open: Campaign | None = None,
    wrote_pull: bool | None = None,
) -> Grant | Refusal:
    here = pull or globals()["pull"]()
    wrote = actor.id == here.author.id if wrote_pull is None else wrote_pull
    return may(command, actor, Standing(role=role, wrote_pull=wrote), here, policy or RepoPolicy(), open)


def refused(command: Command, code: ReasonCode, **circumstances: Any) -> Refusal:
    refusal = answer(command, **circumstances)
    assert isinstance(refusal, Refusal), "granted"
    assert refusal.code is code
    return refusal


def granted(command: Command, **circumstances: Any) -> None:
    assert answer(command, **circumstances) == Grant()


def place_for(command: Command) -> Campaign | None:
    """A campaign in which this command makes sense."""
    if isinstance(command, Retry):
        return campaign(Stage.ENDED, outcome=Outcome.FAILED, failed=Phase.OPTIMIZE)
    return None if isinstance(command, Optimize) else campaign(Stage.AWAIT_WINNER)


# Roles.


@pytest.mark.parametrize("command", FREE)
@pytest.mark.parametrize("role", Role)
def test_anybody_may_ask_for_words(command: Command, role: Role) -> None:
    granted(command, actor=STRANGER, role=role)
    granted(command, actor=STRANGER, role=role, pull=pull(is_open=False, is_draft=True, head_repo=None))


@pytest.mark.parametrize("command", GUARDED)
@pytest.mark.parametrize("role", WRITERS)
def test_a_writer_may(command: Command, role: Role) -> None:
    granted(command, role=role, open=place_for(command))


@pytest.mark.parametrize("command", GUARDED)
@pytest.mark.parametrize("role", OTHERS)
def test_nobody_else_may_and_the_answer_names_both_roles(command: Command, role: Role) -> None:
    refusal = refused(command, ReasonCode.PERMISSION_DENIED, actor=STRANGER, role=role, open=place_for(command))
    assert "needs the role write, maintain or admin" in refusal.what
    assert f"yours is {role}" in refusal.what
    assert refusal.paste.startswith("/optimize ")


@pytest.mark.parametrize("command", [*FREE, *GUARDED])
@pytest.mark.parametrize("bot", [Actor(id=5, login="helper", is_bot=True), Actor(id=5, login="helper[bot]")])
def test_bots_are_not_answered_with_deeds(command: Command, bot: Actor) -> None:
    refused(command, ReasonCode.BOT_COMMENT, actor=bot, role=Role.ADMIN, open=place_for(command))


def test_whoever_started_a_campaign_may_cancel_it_without_any_role() -> None:
    granted(Cancel(), actor=MIRA, role=Role.NONE, open=campaign(Stage.OPTIMIZING))
    refused(Cancel(), ReasonCode.PERMISSION_DENIED, actor=STRANGER, role=Role.NONE, open=campaign(Stage.OPTIMIZING))
    refused(Cancel(), ReasonCode.PERMISSION_DENIED, actor=MIRA, role=Role.READ, open=None)
    refused(Reject(), ReasonCode.PERMISSION_DENIED, actor=MIRA, role=Role.READ, open=campaign(Stage.AWAIT_WINNER))


def test_an_account_that_took_over_the_login_is_not_the_requester() -> None:
    usurper = Actor(id=99, login=MIRA.login)
    refused(Cancel(), ReasonCode.PERMISSION_DENIED, actor=usurper, role=Role.NONE, open=campaign(Stage.OPTIMIZING))


# The pull request.

GOES_ON = (ASKED, Approve(), Try(sha="27debc3"))


@pytest.mark.parametrize("command", GOES_ON)
def test_what_goes_on_needs_a_pull_request_that_can_take_a_commit(command: Command) -> None:
    place = place_for(command)
    refused(command, ReasonCode.PR_CLOSED, pull=pull(is_open=False), open=place)
    refused(command, ReasonCode.HEAD_REPO_MISSING, pull=pull(head_repo=None), open=place)
    refused(command, ReasonCode.DRAFT_NOT_ALLOWED, pull=pull(is_draft=True), open=place)
    granted(command, pull=pull(is_draft=True), policy=RepoPolicy(allow_drafts=True), open=place)


@pytest.mark.parametrize("command", [Reject(), Cancel()])
def test_what_only_stops_needs_none(command: Command) -> None:
    granted(command, pull=pull(is_open=False, is_draft=True, head_repo=None), open=place_for(command))


def test_a_fork_needs_the_commit_and_the_answer_holds_the_whole_line() -> None:
    asked = Optimize(kernel="rms_norm", max_variants=4)
    refusal = refused(asked, ReasonCode.FORK_SHA_REQUIRED, pull=FORK)
    assert refusal.paste == f"/optimize rms_norm max_variants=4 sha={HEAD}"
    again = grammar.parse(refusal.paste, ("rms_norm",))
    assert isinstance(again, Optimize)
    granted(again, pull=FORK)


def test_a_fork_of_the_commenter_needs_it_too() -> None:
    refused(ASKED, ReasonCode.FORK_SHA_REQUIRED, actor=AUTHOR, pull=FORK)


@pytest.mark.parametrize("sha", [HEAD[:7], HEAD[:12], HEAD])
def test_any_prefix_of_the_head_will_do(sha: str) -> None:
    granted(Optimize(kernel="rms_norm", sha=sha), pull=FORK)
    granted(Optimize(kernel="rms_norm", sha=sha))


@pytest.mark.parametrize("sha", [HEAD[:6] + "0", HEAD[1:9], HEAD[:39] + "b"])
@pytest.mark.parametrize("where", [FORK, pull()])
def test_another_commit_will_not(sha: str, where: PullSnapshot) -> None:
    refusal = refused(Optimize(kernel="rms_norm", sha=sha), ReasonCode.SHA_MISMATCH, pull=where)
    assert HEAD[:12] in refusal.what and sha in refusal.what
    assert refusal.paste.endswith(HEAD)


def test_a_branch_of_the_repository_needs_no_commit() -> None:
    granted(ASKED)


# The campaign.


@pytest.mark.parametrize("stage", Stage)
def test_one_open_campaign_a_pull_request(stage: Stage) -> None:
    if stage is Stage.ENDED:
        granted(ASKED, open=campaign(stage))
    else:
        assert "`rms_norm`" in refused(ASKED, ReasonCode.ALREADY_RUNNING, open=campaign(stage)).what


@pytest.mark.parametrize("command", [Approve(), Reject(), Cancel(), Try(sha="27debc3")])
def test_without_a_campaign_nothing_waits(command: Command) -> None:
    refused(command, ReasonCode.NOTHING_WAITING, open=None)


@pytest.mark.parametrize("command", [Approve(), Reject(), Cancel(), Try(sha="27debc3")])
def test_the_campaign_of_another_pull_request_does_not_count(command: Command) -> None:
    elsewhere = campaign(Stage.AWAIT_WINNER, pull=pull(number=2))
    refused(command, ReasonCode.NOTHING_WAITING, open=elsewhere)


@pytest.mark.parametrize("stage", Stage)
def test_answers_need_a_question(stage: Stage) -> None:
    for command in (Approve(), Reject()):
        if stage in WAITING:
            granted(command, open=campaign(stage))
        else:
            refused(command, ReasonCode.NOTHING_WAITING, open=campaign(stage))


@pytest.mark.parametrize("stage", Stage)
def test_what_is_over_cannot_be_cancelled(stage: Stage) -> None:
    if stage in OVER:
        refused(Cancel(), ReasonCode.NOTHING_WAITING, open=campaign(stage))
    else:
        granted(Cancel(), open=campaign(stage))


@pytest.mark.parametrize("stage", Stage)
def test_a_commit_is_tried_while_the_search_is_open(stage: Stage) -> None:
    if stage in SEARCHING:
        granted(Try(sha="27debc3"), open=campaign(stage))
    else:
        refused(Try(sha="27debc3"), ReasonCode.NOTHING_WAITING, open=campaign(stage))


@pytest.mark.parametrize(("most", "cap"), [(3, 119), (8, 3)])
def test_a_spent_budget_tries_nothing_more(most: int, cap: int) -> None:
    spent = campaign(
        Stage.AWAIT_WINNER,
        command=Optimize(kernel="rms_norm", max_variants=most),
        policy=RepoPolicy(max_variants=cap),
    )
    assert "3 variants" in refused(Try(sha="27debc3"), ReasonCode.NOTHING_WAITING, open=spent).what
    one_left = campaign(Stage.AWAIT_WINNER, command=Optimize(kernel="rms_norm", max_variants=4))
    granted(Try(sha="27debc3"), open=one_left)


def test_a_commit_is_tried_once() -> None:
    asked = campaign(Stage.OPTIMIZING, tries=((HEAD, MIRA),))
    refused(Try(sha=HEAD[:7]), ReasonCode.DUPLICATE_EVENT, open=asked)
    granted(Try(sha="fffffff"), open=asked)


# What can be approved.


def test_the_profile_is_approved_without_a_number() -> None:
    refused(Approve(variant=1), ReasonCode.NO_SUCH_VARIANT, open=campaign(Stage.AWAIT_PROFILE))


@pytest.mark.parametrize("number", [None, 1, 3])
def test_any_accepted_variant_can_win(number: int | None) -> None:
    granted(Approve(variant=number), open=campaign(Stage.AWAIT_WINNER))


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (0, ReasonCode.VARIANT_NOT_ACCEPTED),
        (2, ReasonCode.VARIANT_NOT_ACCEPTED),
        (4, ReasonCode.NO_SUCH_VARIANT),
        (119, ReasonCode.NO_SUCH_VARIANT),
    ],
)
def test_any_other_is_refused_with_the_list(number: int, code: ReasonCode) -> None:
    refusal = refused(Approve(variant=number), code, open=campaign(Stage.AWAIT_WINNER))
    assert "`v1` or `v3`" in refusal.why
    assert refusal.paste == "/optimize approve v3"


@pytest.mark.parametrize("number", [None, 0, 1])
def test_where_nothing_was_accepted_nothing_can_win(number: int | None) -> None:
    lost = campaign(Stage.AWAIT_WINNER, lineage=(0,))
    refusal = refused(Approve(variant=number), ReasonCode.VARIANT_NOT_ACCEPTED, open=lost)
    assert refusal.paste == "/optimize reject"


def test_at_the_end_only_what_was_tested_can_be_approved() -> None:
    last = campaign(Stage.AWAIT_FINAL)
    granted(Approve(), open=last)
    granted(Approve(variant=3), open=last)
    assert "`v3`" in refused(Approve(variant=1), ReasonCode.VARIANT_NOT_ACCEPTED, open=last).why
    refused(Approve(variant=9), ReasonCode.NO_SUCH_VARIANT, open=last)


# The author's own pull request.


def test_the_author_may_not_approve_the_end_alone() -> None:
    last = campaign(Stage.AWAIT_FINAL)
    refusal = refused(Approve(), ReasonCode.SELF_APPROVAL, actor=AUTHOR, role=Role.ADMIN, open=last)
    assert "admin" in refusal.why and "write" in refusal.why
    granted(Approve(), actor=AUTHOR, policy=RepoPolicy(self_approval=True), open=last)
    granted(Approve(), actor=MIRA, open=last)


def test_either_sign_of_authorship_is_enough() -> None:
    last = campaign(Stage.AWAIT_FINAL)
    refused(Approve(), ReasonCode.SELF_APPROVAL, actor=AUTHOR, wrote_pull=False, open=last)
    refused(Approve(), ReasonCode.SELF_APPROVAL, actor=MIRA, wrote_pull=True, open=last)


@pytest.mark.parametrize("stage", [Stage.AWAIT_PROFILE, Stage.AWAIT_WINNER])
def test_the_author_answers_the_earlier_questions(stage: Stage) -> None:
    granted(Approve(), actor=AUTHOR, open=campaign(stage))


def test_the_author_may_always_say_no() -> None:
    granted(Reject(), actor=AUTHOR, open=campaign(Stage.AWAIT_FINAL))
    granted(Cancel(), actor=AUTHOR, open=campaign(Stage.AWAIT_FINAL))


# What the repository's own policy adds.


@pytest.mark.parametrize("needed", ["maintain", "admin"])
def test_policy_may_ask_for_more_than_write(needed: str) -> None:
    policy = RepoPolicy.model_validate({"may_start": needed, "may_approve": needed})
    refusal = refused(ASKED, ReasonCode.PERMISSION_DENIED, policy=policy)
    assert f"needs the role {'maintain or admin' if needed == 'maintain' else 'admin'}; yours is write" in refusal.what
    refused(Approve(), ReasonCode.PERMISSION_DENIED, policy=policy, open=campaign(Stage.AWAIT_FINAL))
    granted(ASKED, policy=policy, role=Role(needed))
    granted(Approve(), policy=policy, role=Role(needed), open=campaign(Stage.AWAIT_FINAL))
    granted(Reject(), policy=policy, open=campaign(Stage.AWAIT_FINAL))
    granted(Cancel(), policy=policy, open=campaign(Stage.AWAIT_FINAL))


def test_policy_may_ask_for_another_than_the_requester_at_the_end() -> None:
    policy, last = RepoPolicy(requester_approval=False), campaign(Stage.AWAIT_FINAL)
    refused(Approve(), ReasonCode.REQUESTER_APPROVAL, policy=policy, open=last)
    granted(Approve(), policy=policy, actor=STRANGER, open=last)
    granted(Approve(), policy=policy, open=campaign(Stage.AWAIT_WINNER))
    granted(Reject(), policy=policy, open=last)


@pytest.mark.parametrize("gpu", ["auto", "ampere", "hopper", "cdna3"])
def test_a_gpu_can_be_asked_for_where_some_runner_has_it(gpu: str) -> None:
    asked = Optimize(kernel="rms_norm", gpu=GpuChoice(gpu), max_variants=3)
    standing = Standing(role=Role.WRITE)
    assert may(asked, MIRA, standing, pull(), RepoPolicy(), None) == Grant(), "no runner is named: one for all"
    reply = may(asked, MIRA, standing, pull(), RepoPolicy(), None, {"ampere": ()})
    if gpu != "cdna3":
        assert reply == Grant(), "the default GPU has a runner, too"
        return
    assert isinstance(reply, Refusal) and reply.code is ReasonCode.BAD_VALUE
    assert "`gpu=cdna3`" in reply.what and "`ampere` or `hopper`" in reply.why
    assert reply.paste == "/optimize rms_norm max_variants=3"


def standing_answer(command: Command, **standing: Any) -> Grant | Refusal:
    return may(command, MIRA, Standing(role=Role.WRITE, **standing), pull(), RepoPolicy(), None)


def test_a_stranger_s_pull_request_needs_the_commit_too() -> None:
    refusal = standing_answer(ASKED, trusted_pull=False)
    assert isinstance(refusal, Refusal) and refusal.code is ReasonCode.FORK_SHA_REQUIRED
    assert "somebody without write access" in refusal.what
    assert refusal.paste == f"/optimize rms_norm sha={HEAD}"
    assert standing_answer(Optimize(kernel="rms_norm", sha=HEAD), trusted_pull=False) == Grant()
    wrong = standing_answer(Optimize(kernel="rms_norm", sha="deadbeef"), trusted_pull=False)
    assert isinstance(wrong, Refusal) and "Read the new head" in wrong.next


def test_a_day_s_gpu_minutes_are_a_limit_that_says_when_it_starts_anew() -> None:
    limit = RepoPolicy().max_gpu_minutes_per_day
    assert standing_answer(ASKED, gpu_seconds_today=60 * limit - 1) == Grant()
    refusal = standing_answer(ASKED, gpu_seconds_today=60 * limit)
    assert isinstance(refusal, Refusal) and refusal.code is ReasonCode.BUDGET_EXCEEDED
    assert f"{limit} of {limit} GPU minutes today" in refusal.what
    assert "00:00 UTC" in refusal.why and "max_gpu_minutes_per_day" in refusal.why


def test_a_campaign_without_gpu_minutes_tries_nothing_more() -> None:
    minutes = RepoPolicy().max_gpu_minutes
    spent = campaign(Stage.AWAIT_WINNER, spent=(("c42-1-profile", 60.0 * minutes),))
    assert f"its {minutes} GPU minutes" in refused(Try(sha="27debc3"), ReasonCode.BUDGET_EXCEEDED, open=spent).what
    granted(Try(sha="27debc3"), open=campaign(Stage.AWAIT_WINNER, spent=(("c42-1-profile", 60.0 * minutes - 1),)))


# Whatever happens.

COMMANDS = st.sampled_from(
    [
        *FREE,
        *GUARDED,
        Explain(variant=2),
        Explain(variant=9),
        Approve(variant=1),
        Approve(variant=2),
        Approve(variant=77),
        Optimize(kernel="status", sha=HEAD[:8]),
    ]
)
ACTORS = st.sampled_from([AUTHOR, MIRA, STRANGER, Actor(id=5, login="x[bot]", is_bot=True)])
PULLS = st.builds(
    pull,
    number=st.sampled_from([1, 2]),
    is_open=st.booleans(),
    is_draft=st.booleans(),
    head_repo=st.sampled_from(["sample/kernels", "someone/kernels", None]),
)
POLICIES = st.builds(RepoPolicy, self_approval=st.booleans(), allow_drafts=st.booleans())
CAMPAIGNS = st.none() | st.builds(
    campaign,
    st.sampled_from(Stage),
    lineage=st.sampled_from([(0,), (0, 1, 3)]),
    pull=st.sampled_from([pull(), None]),
    requester=st.sampled_from([MIRA, STRANGER, None]),
    command=st.sampled_from([ASKED, None]),
)


@settings(max_examples=many(600))
@given(COMMANDS, ACTORS, st.sampled_from(Role), st.booleans(), PULLS, POLICIES, CAMPAIGNS)
def test_there_is_always_an_answer_and_never_a_deed_without_a_right(
    command: Command,
    actor: Actor,
    role: Role,
    wrote: bool,
    here: PullSnapshot,
    policy: RepoPolicy,
    open: Campaign | None,
) -> None:
    reply = may(command, actor, Standing(role=role, wrote_pull=wrote), here, policy, open)
    if isinstance(reply, Grant):
        own = isinstance(command, Cancel) and open is not None and open.requester == actor
        assert not actor.is_bot
        assert command in FREE or isinstance(command, Explain) or role.may_write or own
        assert command not in GOES_ON or (here.is_open and here.head_repo is not None)
        return
    assert all(0 < len(part) <= 400 for part in (reply.what, reply.why, reply.next))
    assert not reply.paste or re.fullmatch(r"/optimize(?: [ -~]*)?", reply.paste)


def test_every_command_of_the_model_has_rules() -> None:
    kinds = get_args(get_args(Command)[0])
    assert {type(command) for command in (*FREE, *GUARDED, Explain())} == set(kinds)
