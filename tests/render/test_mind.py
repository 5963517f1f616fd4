"""What has to be minded beside the figures is said wherever an ending or a profile is told, in the same words."""

from __future__ import annotations

import json

import pytest

from bot.model.campaign import Campaign, Outcome, Profile, Stage, StopReason, Zone
from bot.model.facts import JournalLine, SearchEnded
from bot.model.measurement import CheckResult
from bot.model.reasons import ReasonCode
from bot.render import comments, mind, report_html, summary, terminal
from bot.render.advice import advice
from bot.render.profile_text import profile_json, profile_text
from bot.render.records import records
from tests.render import builders as a
from tests.render.test_comments import FAILED_TEST, none_better, reverted

OFF = "not required of a variant, as the untouched kernel fails here: output y of the untouched kernel is far off"
RAISES = "RuntimeError: Cannot launch Triton kernel since n = 68441 exceeds it"
WRONG = "the untouched rms_norm is wrong in 1 of 3 checks, first fwd-a: output y of the untouched kernel is far off"
ASKED = "a variant is not asked to be right where v0 is not"


def row(case: str, why: str = "") -> CheckResult:
    return CheckResult(case=case, passed=not why, margin=None if why else 0.5, detail=why or "2 sets of inputs")


def having(campaign: Campaign, *checks: CheckResult) -> Campaign:
    assert campaign.profile is not None
    baseline = campaign.profile.baseline.model_copy(update={"checks": checks})
    return campaign.model_copy(update={"profile": campaign.profile.model_copy(update={"baseline": baseline})})


def profile(*checks: CheckResult) -> Profile:
    found = having(a.profiled(), *checks).profile
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("checks", "said"),
    [
        ((row("fwd-a"), row("fwd-b")), ()),
        ((row("fwd-a", OFF), row("fwd-b"), row("fwd-c")), (f"{WRONG}; {ASKED}",)),
        ((row("fwd-b", RAISES), row("fwd-a", OFF), row("fwd-c")), (f"{WRONG}; it raises in 1 more; {ASKED}",)),
        (
            (row("fwd-a", RAISES), row("fwd-b")),
            (
                f"the untouched rms_norm raises in 1 of 2 checks, first fwd-a: {RAISES}; "
                "a variant is not asked for what v0 does not do",
            ),
        ),
        ((row("fwd-a").model_copy(update={"excused": True}), row("fwd-b")), ()),
    ],
)
def test_what_v0_does_not_pass_is_said_with_its_share(checks: tuple[CheckResult, ...], said: tuple[str, ...]) -> None:
    assert mind.of_profile(profile(*checks)) == said


def test_what_v0_does_not_take_says_nothing_of_how_it_ended() -> None:
    assert mind.of_ending(having(none_better(), row("fwd-a", RAISES), row("fwd-b"))) == ()


def plainly(page: str) -> str:
    return " ".join(page.split())


def test_a_profile_of_a_wrong_kernel_says_so_wherever_it_is_told() -> None:
    campaign = having(a.profiled(), row("fwd-a", OFF), row("fwd-b"), row("fwd-c"))
    assert campaign.profile is not None
    told = (
        comments.checkpoint_profile(campaign),
        terminal.checkpoint_text(campaign),
        profile_text(campaign.profile),
        json.dumps(profile_json(campaign.profile)),
        records(campaign, ())["profile.md"].decode(),
    )
    assert [WRONG in plainly(page) for page in told] == [True] * len(told)


ENDINGS = [none_better(), reverted(ReasonCode.CHECKSTYLE_FAILED), a.pushed(), a.searched()]


def pages(campaign: Campaign) -> dict[str, str]:
    """Every page that tells how a campaign ended."""
    made = records(campaign, ())
    return {
        "terminal": terminal.result_text(campaign) if campaign.outcome else terminal.checkpoint_text(campaign),
        "comment": comments.result(campaign) if campaign.outcome else comments.checkpoint_winner(campaign),
        "html": report_html.page(campaign, (), {}),
        "report.md": made["report.md"].decode(),
        "README.md": made["README.md"].decode(),
        "json": json.dumps(summary.summary(campaign)),
    }


@pytest.mark.parametrize("campaign", ENDINGS)
def test_an_ending_with_a_wrong_kernel_says_so_wherever_it_is_told(campaign: Campaign) -> None:
    wrong = having(campaign, row("fwd-a", OFF), row("fwd-b"), row("fwd-c"))
    silent = [name for name, page in pages(wrong).items() if WRONG not in plainly(page)]
    assert silent == ([] if campaign.outcome else ["terminal"]), "who is asked of the winner was told with the profile"
    assert not [name for name, page in pages(campaign).items() if "wrong in" in page]


# -- tests that fail anyhow ------------------------------------------------------------------------------------------

BEFORE = "fail on the untouched kernel as well (1 failed, 17 passed in 9.10s), so they say nothing of the change"
NEXT = "passes with `abc1234` as it stands"


def failed(*, before: bool) -> Campaign:
    reason = ReasonCode.TESTS_FAILED_BEFORE if before else ReasonCode.TESTS_FAILED
    found = a.finalization((FAILED_TEST,), ()).model_copy(update={"untouched": FAILED_TEST if before else a.TESTS})
    return reverted(reason, finalization=found, stopped=StopReason.BUDGET_SPENT)


@pytest.mark.parametrize("page", ["terminal", "comment", "html", "report.md", "README.md", "json"])
def test_tests_that_fail_anyhow_are_told_apart_everywhere(page: str) -> None:
    told, other = (plainly(pages(failed(before=before))[page]) for before in (True, False))
    assert BEFORE in told
    assert NEXT in told.replace("<code>", "`").replace("</code>", "`"), "and what to do next"
    assert "untouched kernel as well" not in other


def lines() -> tuple[JournalLine, ...]:
    fact = SearchEnded(order="o", why=StopReason.BUDGET_SPENT, note="the next idea would have been: Walk rows")
    return (JournalLine(seq=1, at="2026-11-28T18:00:00Z", zone=Zone.MEASURE, fact=fact),)


def test_no_more_variants_are_advised_where_none_could_pass() -> None:
    assert "--resume" not in advice(failed(before=True), lines())
    assert "--resume" in advice(failed(before=False), lines())


def test_a_job_that_found_no_tests_ends_like_any_that_could_not_work() -> None:
    campaign = a.requested(
        stage=Stage.CLOSING,
        outcome=Outcome.FAILED,
        reason=ReasonCode.TESTS_FAILED_BEFORE,
        detail="the tests of rms_norm cannot be collected",
    )
    said = comments.result(campaign)
    assert "This is about the repository" in said and "/optimize restart" in said


# -- cases that do not fit -------------------------------------------------------------------------------------------


def reduced(campaign: Campaign, left: int) -> Campaign:
    assert campaign.profile is not None
    suite, baseline = campaign.profile.suite, campaign.profile.baseline
    runner = baseline.runner.model_copy(update={"gpu_name": "NVIDIA L4", "gpu_memory_mib": 23034})
    fields = {
        "left_out": suite.cases[:left],
        "suite": suite.model_copy(update={"cases": suite.cases[left:]}),
        "baseline": baseline.model_copy(update={"runner": runner}),
    }
    return campaign.model_copy(update={"profile": campaign.profile.model_copy(update=fields)})


FITS = "fit into the 22.5 GiB of NVIDIA L4 (fwd 512x1024 bf16"


@pytest.mark.parametrize(
    ("left", "begins", "ends"),
    [
        (0, "", ""),
        (1, f"1 of 9 scored cases is left out: it does not {FITS})", ")"),
        (4, f"4 of 9 scored cases are left out: they do not {FITS}, ", "bf16)"),
        (5, f"5 of 9 scored cases are left out: they do not {FITS}, ", "bf16 and 1 more)"),
    ],
)
def test_a_reduced_suite_says_that_it_is_one(left: int, begins: str, ends: str) -> None:
    profile = reduced(a.profiled(), left).profile
    assert profile is not None
    said = mind.left_out(profile)
    assert said.startswith(begins) and said.endswith(ends) and bool(said) is bool(left)
    assert said.count("bf16") == min(left, mind.MOST_NAMED)


def test_a_gpu_s_name_steers_no_terminal() -> None:
    profile = reduced(a.profiled(), 1).profile
    assert profile is not None
    runner = profile.baseline.runner.model_copy(update={"gpu_name": "\x1b[2JL4\n# H200"})
    forged = profile.model_copy(update={"baseline": profile.baseline.model_copy(update={"runner": runner})})
    assert "\x1b" not in mind.left_out(forged) and "\n" not in mind.left_out(forged)


def test_a_reduced_suite_says_so_in_the_profile_and_wherever_it_ended() -> None:
    said = "2 of 9 scored cases are left out"
    profiled = reduced(a.profiled(), 2)
    assert profiled.profile is not None
    assert said in comments.checkpoint_profile(profiled) and said in profile_text(profiled.profile, 400)
    assert said in records(profiled, ())["profile.md"].decode()
    assert not [name for name, page in pages(reduced(none_better(), 2)).items() if said not in plainly(page)]
