"""Words about what has been: explain, retry, restart. Who may say them, when, and what helps when not."""

from __future__ import annotations

import pytest

from bot.commands.grammar import parse
from bot.model.campaign import MOST_RETRIES, Campaign, Outcome, Phase, Stage
from bot.model.commands import CommandError, Explain, Optimize, Restart, Retry
from bot.model.people import Role
from bot.model.reasons import ReasonCode
from tests.commands.test_policy import FORK, HEAD, MIRA, STRANGER, campaign, granted, pull, refused

KERNELS = ("cross_entropy", "rms_norm", "softmax")
MOVED = pull(head_sha="b" * 40)


def failed(**fields: object) -> Campaign:
    return campaign(Stage.ENDED, **{"outcome": Outcome.FAILED, "failed": Phase.OPTIMIZE, **fields})


# Explain


@pytest.mark.parametrize("stage", [Stage.PROFILING, Stage.AWAIT_WINNER, Stage.CLOSING, Stage.ENDED])
def test_anybody_may_have_a_variant_explained_whatever_became_of_the_campaign(stage: Stage) -> None:
    for wanted in (None, 0, 1, 2, 3):
        granted(Explain(variant=wanted), actor=STRANGER, role=Role.NONE, open=campaign(stage))


def test_a_variant_that_was_never_made_is_answered_with_the_nearest_one() -> None:
    refusal = refused(Explain(variant=7), ReasonCode.NO_SUCH_VARIANT, open=campaign(Stage.AWAIT_WINNER))
    assert refusal.why.startswith("There are v0 to v3.")
    assert refusal.paste == "/optimize explain v3"
    nothing_yet = refused(Explain(variant=1), ReasonCode.NO_SUCH_VARIANT, open=campaign(Stage.PROFILING, rounds=()))
    assert nothing_yet.paste == "/optimize explain v0"


@pytest.mark.parametrize("command", [Explain(), Explain(variant=0), Retry(), Restart()])
def test_before_the_first_campaign_there_is_nothing_to_speak_of(command: Explain | Retry | Restart) -> None:
    assert refused(command, ReasonCode.NO_CAMPAIGN, open=None).paste == "/optimize list"


# Retry


def test_a_job_that_failed_is_done_again_at_the_same_commit() -> None:
    granted(Retry(), open=failed())
    assert refused(Retry(), ReasonCode.REF_CHANGED, open=failed(), pull=MOVED).paste == "/optimize restart"


@pytest.mark.parametrize("stage", [stage for stage in Stage if stage is not Stage.ENDED])
def test_nothing_is_retried_while_the_campaign_lives(stage: Stage) -> None:
    refused(Retry(), ReasonCode.NOTHING_TO_RETRY, open=campaign(stage))


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.FAILED])
def test_a_campaign_that_ended_with_an_answer_is_begun_anew_not_retried(outcome: Outcome) -> None:
    refusal = refused(Retry(), ReasonCode.NOTHING_TO_RETRY, open=campaign(Stage.ENDED, outcome=outcome))
    assert refusal.paste == "/optimize restart"


def test_a_job_is_not_retried_for_ever() -> None:
    granted(Retry(), open=failed(retries=MOST_RETRIES - 1))
    refused(Retry(), ReasonCode.NOTHING_TO_RETRY, open=failed(retries=MOST_RETRIES))


def test_a_retry_is_not_taken_from_another_pull_request() -> None:
    elsewhere = campaign(Stage.PROFILING, pull=pull(number=2))
    refused(Retry(), ReasonCode.NOTHING_TO_RETRY, open=elsewhere)


# Restart


@pytest.mark.parametrize("stage", [Stage.PROFILING, Stage.AWAIT_FINAL, Stage.ENDED])
def test_a_writer_may_begin_anew_wherever_the_campaign_is(stage: Stage) -> None:
    granted(Restart(), open=campaign(stage), pull=MOVED)


def test_a_restart_on_a_fork_names_the_head_like_a_start_does() -> None:
    refusal = refused(Restart(), ReasonCode.FORK_SHA_REQUIRED, open=campaign(Stage.ENDED), pull=FORK)
    assert refusal.paste == f"/optimize restart {HEAD}"
    granted(Restart(sha=HEAD[:7]), open=campaign(Stage.ENDED), pull=FORK)
    refused(Restart(sha="1234567"), ReasonCode.SHA_MISMATCH, open=campaign(Stage.ENDED), pull=FORK)


@pytest.mark.parametrize("command", [Retry(), Restart()])
def test_who_only_asked_for_it_once_may_not_start_work_again(command: Retry | Restart) -> None:
    refused(command, ReasonCode.PERMISSION_DENIED, actor=MIRA, role=Role.READ, open=failed())


# Did you mean

MEANT = {
    "stop": "/optimize cancel",
    "lgtm": "/optimize approve",
    "why v2": "/optimize explain v2",
    "rerun": "/optimize retry",
    "--cancel": "/optimize cancel",
    "rms_norm cancel": "/optimize cancel",
    "restrat": "/optimize restart",
    "v3": "/optimize explain v3",
    "approve vv3": "/optimize approve v3",
    "explain the third": "",
    "explain best": "/optimize explain",
    "try v3": "/optimize explain v3",
    "run rms_norm goal=speed": "/optimize rms_norm goal=speed",
    "cross entropy mode=auto": "/optimize cross_entropy mode=auto",
    "rms_norm autonomus": "/optimize rms_norm mode=autonomous",
    "rms_norm mode=automatic": "/optimize rms_norm mode=autonomous",
    "rms_norm goal=sped": "/optimize rms_norm goal=speed",
    "rms_norm gaol=speed": "/optimize rms_norm goal=speed",
    "rms_norm scope=fowrard": "/optimize rms_norm scope=forward",
    "rms_norm target='forwrd under 0.3ms'": '/optimize rms_norm target="forward under 0.3ms"',
}


@pytest.mark.parametrize(("said", "meant"), MEANT.items())
def test_what_was_meant_is_offered_and_never_done(said: str, meant: str) -> None:
    answer = parse(f"/optimize {said}", KERNELS)
    assert isinstance(answer, CommandError)
    assert answer.paste == meant


def test_a_kernel_named_like_what_people_say_is_that_kernel() -> None:
    assert parse("/optimize stop", ("stop",)) == Optimize(kernel="stop")


@pytest.mark.parametrize("said", ["v2", "2", "V2.", "variant 2", "variant v2"])
def test_a_variant_may_be_named_as_people_name_it(said: str) -> None:
    assert parse(f"/optimize explain {said}", KERNELS) == Explain(variant=2)
