"""Every page the bot can say, compared with the one people have read."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from bot.model.campaign import Campaign, Checkpoint, Outcome, Phase, Stage, StopReason
from bot.model.commands import CommandError, Mode, TargetMetric
from bot.model.people import Actor, Refusal
from bot.model.policy import RepoPolicy
from bot.model.reasons import ReasonCode
from bot.model.wait import Wait
from bot.render import comments
from bot.render.links import Links
from tests.conftest import GOLDEN
from tests.render import builders as a

Golden = Callable[[str, str], None]
FOLDER = "https://github.example/sample/kernels/blob/" + "1" * 40 + "/campaigns/4711-rms_norm/plots"
LINKS = Links(
    plot_light=f"{FOLDER}/speedup-light.png?raw=true",
    plot_dark=f"{FOLDER}/speedup-dark.png?raw=true",
    variants_light=f"{FOLDER}/variants-light.png?raw=true",
    variants_dark=f"{FOLDER}/variants-dark.png?raw=true",
    ledger="https://github.example/sample/kernels/tree/" + "1" * 40 + "/campaigns/4711-rms_norm",
    run="https://github.example/sample/kernels/actions/runs/1",
    commit="https://github.example/sample/kernels/commit/" + a.PUSHED,
    lineage="https://github.example/sample/kernels/tree/optimize/4711-rms_norm",
)
ALL_REVIEWS = RepoPolicy(evidence="static", review_answers="all")
NO_REVIEWS = RepoPolicy(evidence="static", review_answers="none", self_approval=True)
FAILED_TEST = a.run(
    ("python", "-m", "pytest", a.SITE.test_file, "-x"),
    False,
    "1 failed, 17 passed in 9.10s",
    9.4,
    "E  AssertionError: Mismatch in dW\n/usr/lib/site.py:1: note\n```\n</details>\n1 failed, 17 passed in 9.10s",
)
BAD_STYLE = a.run(("make", "checkstyle"), False, "Found 1 error.", 1.2, "E501 line too long\nFound 1 error.")
UNTOUCHED = {"rounds": (), "lineage": (0,), "stopped": StopReason.EFFICIENT}


def at_roof(percent: float) -> Campaign:
    found = a.profile(diagnosis=a.DIAGNOSIS.model_copy(update={"roof_percent": percent}))
    return a.ended(Outcome.NOTHING_TO_DO, ReasonCode.NO_IMPROVEMENT, profile=found, **UNTOUCHED)


def none_better() -> Campaign:
    rejected = tuple(one for one in a.rounds() if one.variant.number in (2, 4, 5))
    return a.ended(
        Outcome.NOTHING_TO_DO,
        ReasonCode.NO_IMPROVEMENT,
        rounds=rejected,
        lineage=(0,),
        stopped=StopReason.TOO_MANY_FAILURES,
    )


def reverted(reason: ReasonCode, detail: str = "", **fields: object) -> Campaign:
    return a.finalized(stage=Stage.CLOSING, outcome=Outcome.REVERTED, reason=reason, detail=detail, **fields)


STATUSES = {
    "requested": a.requested(),
    "autonomous": a.requested(command=a.COMMAND.model_copy(update={"mode": Mode.AUTONOMOUS, "max_variants": 119})),
    "targeted": a.requested(
        command=a.COMMAND.model_copy(
            update={"target": TargetMetric(direction="forward", below_us=300, text="forward under 0.3ms at cols=4096")}
        )
    ),
    "await_profile": a.profiled(),
    "optimizing": a.searched(stage=Stage.OPTIMIZING, stopped=None, rounds=a.rounds()[:2], lineage=(0, 1)),
    "await_winner": a.searched(),
    "finalizing": a.finalized(stage=Stage.FINALIZING, finalization=None),
    "await_final": a.finalized(),
    "pushing": a.pushed(stage=Stage.PUSHING, outcome=None, reason=None, pushed=None),
    "pushed": a.pushed(),
    "cancelled": a.ended(Outcome.CANCELLED, ReasonCode.CANCELLED_BY_USER),
}
RESULTS = {
    "pushed": a.pushed(),
    "pushed_measured": a.pushed(
        profile=a.measured().profile, rounds=a.measured().rounds, policy=RepoPolicy(final_approval="none")
    ),
    "tests_failed": reverted(ReasonCode.TESTS_FAILED, finalization=a.finalization((FAILED_TEST,), ())),
    "tests_failed_before": reverted(
        ReasonCode.TESTS_FAILED_BEFORE,
        finalization=a.finalization((FAILED_TEST,), ()).model_copy(update={"untouched": FAILED_TEST}),
    ),
    "no_tests": reverted(ReasonCode.TESTS_FAILED, finalization=a.finalization((), ())),
    "checkstyle_failed": reverted(
        ReasonCode.CHECKSTYLE_FAILED, finalization=a.finalization((a.TESTS,), (BAD_STYLE, BAD_STYLE))
    ),
    "script_failed": reverted(ReasonCode.SCRIPT_FAILED, finalization=a.broken_script()),
    "ref_changed": reverted(ReasonCode.REF_CHANGED, a.MOVED),
    "ref_changed_early": a.requested(
        stage=Stage.CLOSING, outcome=Outcome.REVERTED, reason=ReasonCode.REF_CHANGED, detail=a.MOVED
    ),
    "ref_gone": reverted(ReasonCode.REF_CHANGED),
    "evidence_insufficient": a.ended(Outcome.REVERTED, ReasonCode.EVIDENCE_INSUFFICIENT, policy=RepoPolicy()),
    "push_conflict": reverted(ReasonCode.PUSH_CONFLICT, "stale info"),
    "push_forbidden": reverted(ReasonCode.PUSH_FORBIDDEN, "Resource not accessible by integration"),
    "changes_requested": reverted(ReasonCode.CHANGES_REQUESTED, "dave asked for changes in a review of abc1234."),
    "approval_stale": reverted(ReasonCode.APPROVAL_STALE),
    "permission_denied": reverted(ReasonCode.PERMISSION_DENIED, "carol may no longer write to this repository."),
    "nothing_to_do_roof": at_roof(94.2),
    "nothing_to_do_tried": none_better(),
    "rejected": a.ended(
        Outcome.REJECTED,
        ReasonCode.REJECTED_BY_USER,
        detail="the gain is not worth a second row loop",
        answers=(a.answer(Checkpoint.PROFILE), a.answer(Checkpoint.WINNER, False)),
    ),
    "rejected_profile": a.profiled(
        stage=Stage.CLOSING,
        outcome=Outcome.REJECTED,
        reason=ReasonCode.REJECTED_BY_USER,
        answers=(a.answer(Checkpoint.PROFILE, False),),
    ),
    "cancelled": a.ended(Outcome.CANCELLED, ReasonCode.CANCELLED_BY_USER, rounds=a.rounds()[:2], lineage=(0, 1)),
    "cancelled_early": a.requested(stage=Stage.CLOSING, outcome=Outcome.CANCELLED, reason=ReasonCode.CANCELLED_BY_USER),
    "failed": a.requested(
        stage=Stage.CLOSING,
        outcome=Outcome.FAILED,
        reason=ReasonCode.PREFLIGHT_FAILED,
        detail="test/transformers/test_rms_norm.py is missing.\nWithout it nothing says when rms_norm is right.",
    ),
}
REFUSAL = Refusal(
    code=ReasonCode.PERMISSION_DENIED,
    what="this command needs write access to `sample/kernels`; yours is read.",
    why="It starts work on a GPU and can end in a push.",
    next="Ask somebody with write access to type it here:",
    paste="/optimize rms_norm",
)
ERROR = CommandError(
    code=ReasonCode.UNKNOWN_KERNEL,
    what="`rms_nrm` is not a kernel here.",
    why="The nearest name is `rms_norm`.",
    hint="Did you mean:",
    paste="/optimize rms_norm goal=speed",
)
HELP = "| Command | What it does |\n|---|---|\n| `/optimize <kernel>` | makes it faster |"
REPLIES = {
    "refusal": comments.refusal(REFUSAL, Actor(id=4, login="dave")),
    "refusal_run": comments.refusal(REFUSAL.model_copy(update={"paste": ""}), Actor(id=4, login="dave"), LINKS),
    "command_error": comments.command_error(ERROR, a.ALICE),
    "help": comments.help(HELP),
    "listing": comments.listing(("geglu", "jsd", "rms_norm", "softmax")),
    "listing_touched": comments.listing(("geglu", "jsd", "rms_norm", "softmax"), ("rms_norm",)),
    "listing_none": comments.listing(()),
    "status_none": comments.status_none(),
    "status_none_after": comments.status_none(a.ended(Outcome.CANCELLED, ReasonCode.CANCELLED_BY_USER)),
}


@pytest.mark.parametrize("name", STATUSES)
def test_status(name: str, golden: Golden) -> None:
    golden(f"comments/status_{name}.md", comments.status(STATUSES[name], LINKS))


@pytest.mark.parametrize("name", RESULTS)
def test_result(name: str, golden: Golden) -> None:
    golden(f"comments/result_{name}.md", comments.result(RESULTS[name], LINKS))


@pytest.mark.parametrize("name", REPLIES)
def test_reply(name: str, golden: Golden) -> None:
    golden(f"comments/{name}.md", REPLIES[name])


@pytest.mark.parametrize(
    ("name", "policy"),
    [("", RepoPolicy(evidence="static")), ("_reviews", ALL_REVIEWS), ("_no_reviews", NO_REVIEWS)],
)
def test_checkpoints(name: str, policy: RepoPolicy, golden: Golden) -> None:
    differs = a.profile(oracle_differs=("test/transformers/test_rms_norm.py", "pyproject.toml"))
    golden(
        f"comments/checkpoint_profile{name}.md", comments.checkpoint_profile(a.profiled(policy=policy, profile=differs))
    )
    golden(f"comments/checkpoint_winner{name}.md", comments.checkpoint_winner(a.searched(policy=policy), LINKS))
    golden(f"comments/checkpoint_final{name}.md", comments.checkpoint_final(a.finalized(policy=policy), LINKS))


FORK = a.PULL.model_copy(update={"head_repo": "bob/kernels"})


@pytest.mark.parametrize("name", ["fork", "patch"])
def test_where_a_patch_is_handed_over_nobody_is_promised_a_push(name: str, golden: Golden) -> None:
    policy = RepoPolicy(evidence="static", push_to="patch") if name == "patch" else RepoPolicy(evidence="static")
    asked = a.finalized(policy=policy, **{"pull": FORK} if name == "fork" else {})
    page = comments.checkpoint_final(asked, LINKS)
    golden(f"comments/checkpoint_final_{name}.md", page)
    assert "Push one commit" not in page and "pushes" not in page and "git am" in page
    assert "posted as a patch" in comments.status(asked, LINKS)
    assert "one commit on top of the pinned one" not in comments.status(asked, LINKS)


@pytest.mark.parametrize(
    ("changes", "early", "last"),
    [
        ({}, "Anyone with write access may answer.", "; a yes may not come from bob, who wrote this pull request."),
        ({"self_approval": True}, "Anyone with write access may answer.", "Anyone with write access may answer."),
        (
            {"may_approve": "maintain", "self_approval": True},
            "A yes needs the role maintain or admin, a no write access.",
            "A yes needs the role maintain or admin, a no write access.",
        ),
        (
            {"may_approve": "admin", "requester_approval": False},
            "A yes needs the role admin, a no write access.",
            "; a yes may not come from bob, who wrote this pull request, nor from alice, who asked for this.",
        ),
    ],
)
def test_every_question_says_who_may_answer_it(changes: dict[str, object], early: str, last: str) -> None:
    policy = RepoPolicy.model_validate(changes)
    assert early in comments.checkpoint_profile(a.profiled(policy=policy))
    assert early in comments.checkpoint_winner(a.searched(policy=policy))
    assert last in comments.checkpoint_final(a.finalized(policy=policy))
    assert "may not come" not in comments.checkpoint_profile(a.profiled(policy=policy))


def test_who_wrote_it_and_asked_for_it_is_named_once() -> None:
    found = a.finalized(policy=RepoPolicy(requester_approval=False), requester=a.BOB)
    assert "may not come from bob, who wrote this pull request and asked for this." in comments.checkpoint_final(found)


def test_what_is_left_after_a_push_depends_on_what_was_reviewed() -> None:
    by_review = a.pushed()
    assert "what is left is to merge this pull request" in comments.result(by_review)
    last = by_review.answers[-1].model_copy(update={"via": "comment"})
    by_word = comments.result(a.pushed(answers=(*by_review.answers[:-1], last)))
    nobody = comments.result(a.pushed(answers=(), policy=RepoPolicy(final_approval="none")))
    for page in (by_word, nobody):
        assert "what is left is to review this pull request, if nobody has, and to merge it" in page


def test_a_measured_winner_shows_its_interval(golden: Golden) -> None:
    body = comments.checkpoint_winner(a.measured())
    golden("comments/checkpoint_winner_measured.md", body)
    assert "1.42x [1.39x, 1.45x]" in body
    assert "estimated" not in body


def every_page() -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted((GOLDEN / "comments").glob("*.md"))}


def outside_blocks(body: str) -> list[str]:
    lines, fence = [], ""
    for line in body.split("\n"):
        found = re.match(r"\s*(`{3,})", line)
        if fence:
            fence = "" if line.strip() == fence else fence
        elif found:
            fence = found.group(1)
        else:
            lines.append(line)
    return lines


@pytest.mark.parametrize("name", every_page())
def test_every_page_is_well_made(name: str) -> None:
    body = every_page()[name]
    lines = outside_blocks(body)
    assert lines[-2].startswith("commands: `/optimize"), "the last line says what can be typed"
    assert body.endswith("\n") and not body.endswith("\n\n")
    assert not any(line.startswith("/") for line in lines), "a command at the margin outside a block"
    for i, line in enumerate(lines):
        if line == "</details>" or line.startswith(("<details>", "<picture>", "<sub>")):
            assert lines[i + 1] == "" or line.startswith("<details>"), "HTML runs into the next paragraph"
            assert lines[i - 1] == ""
        if re.fullmatch(r"\|[-|]+\|", line):
            assert line.count("|") - 1 <= 6, "a phone shows six columns"
            assert lines[i - 2] == "", "a table needs an empty line before it"
    for mistake in ("None", "{{", "{%", "nan", "Evidence.", "unknown over", "..", " ,", " ."):
        assert mistake not in "\n".join(line for line in lines if "http" not in line), mistake


@pytest.mark.parametrize("name", every_page())
def test_modelled_numbers_are_called_estimated(name: str) -> None:
    if "measured" in name:
        return
    for line in outside_blocks(every_page()[name]):
        if re.search(r"\b1\.42x\b", line) and "|" not in line:
            assert re.search(r"1\.42x \(estimated\)", line), line


def test_a_page_without_links_says_it_all() -> None:
    body = comments.result(a.pushed())
    assert "http" not in body
    assert "pushed as `fee1dea`" in body


def test_a_picture_is_open_even_when_it_is_the_only_one() -> None:
    links = Links(plot_light=LINKS.plot_light, plot_dark=LINKS.plot_dark)
    body = comments.checkpoint_winner(a.searched(), links)
    assert body.count("<picture>") == 1
    assert body.index("<picture>") < body.index("<details>")


def test_an_address_cannot_leave_its_attribute() -> None:
    body = comments.checkpoint_winner(a.searched(), Links(plot_light='x" onload="y', ledger="https://a/b(c) d"))
    assert 'src="x%22%20onload=%22y"' in body
    assert "(https://a/b%28c%29%20d)" in body


@pytest.mark.parametrize(
    ("campaign", "line"),
    [
        (a.requested(), "profiling"),
        (a.searched(), "waiting for you; v3 is 1.42x (estimated)"),
        (a.pushed(), "done (pushed); v3 is 1.42x (estimated)"),
        (reverted(ReasonCode.TESTS_FAILED), "ended, nothing was applied (tests_failed); v3 is 1.42x (estimated)"),
    ],
)
def test_the_line_beside_the_commit(campaign: Campaign, line: str) -> None:
    assert comments.commit_status(campaign) == line
    assert len(line) <= 140


def test_every_stage_and_outcome_can_be_told() -> None:
    for stage in Stage:
        assert "`rms_norm`" in comments.status(a.pushed(stage=stage))
    for outcome in Outcome:
        assert "`rms_norm`" in comments.result(a.profiled(stage=Stage.CLOSING, outcome=outcome, pushed=a.PUSHED))
    for reason in ReasonCode:
        early = a.requested(stage=Stage.CLOSING, outcome=Outcome.REVERTED, reason=reason)
        assert re.search("nothing was pushed|pushed nothing", comments.result(early))


def test_a_campaign_without_a_pull_request_can_be_told() -> None:
    local = a.finalized(pull=None)
    assert "over `v0`" in comments.checkpoint_final(local)
    assert "review" not in comments.checkpoint_winner(a.searched(pull=None))


def test_a_campaign_in_the_queue_says_whom_it_was_handed_to_and_for_what() -> None:
    queued = comments.status(a.requested(), wait=Wait(phase=Phase.PROFILE, ahead=1))
    assert (
        queued.startswith("⏳ **`rms_norm`: handed to the runner**") and "**handed to the runner**: find out" in queued
    )
    assert "**handed to the runner**" not in comments.status(a.requested(), wait=Wait(phase=Phase.PROFILE, ahead=0))


@pytest.mark.parametrize("ahead", [0, 1, 2])
@pytest.mark.parametrize("late", [None, "4711-1-profile"])
def test_what_is_said_of_the_queue_stays_true_when_the_job_begins(ahead: int, late: str | None) -> None:
    """Nobody writes the comment anew at that moment."""
    page = comments.status(a.requested(late=late), wait=Wait(phase=Phase.PROFILE, ahead=ahead))
    assert "when this was written" in page
    assert not re.search(r"next in line|\bwaits\b|\bwaiting\b|has taken", page, re.IGNORECASE)


def test_a_cancelled_campaign_says_so_first_and_who_did_it_without_a_row_for_what_never_was() -> None:
    ended = a.requested(
        stage=Stage.CLOSING, outcome=Outcome.CANCELLED, reason=ReasonCode.CANCELLED_BY_USER, cancelled_by=a.BOB
    )
    page = comments.status(ended)
    assert page.startswith("⏹️ **`rms_norm`: cancelled by bob**")
    assert page.count("Not reached") == 1
    assert "cancelled by bob; nothing was pushed" in comments.result(ended)
