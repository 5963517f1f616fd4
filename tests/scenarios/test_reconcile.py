"""What the ten-minute pass finds: dead jobs, lost events, questions nobody answered, runners that are not there."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace

import pytest

from bot.forge.calls import CallFailed
from bot.forge.jobs import JobView, RestJobs, campaign_of, open_jobs
from bot.model.campaign import Outcome, Stage
from bot.model.facts import EffectRequested
from bot.model.reasons import ReasonCode
from bot.zones.doors import open_doors
from bot.zones.reconcile import DEAD_MINUTES, LATE_MINUTES, QUEUE_MINUTES, ReconcileReport, reconcile
from tests.zones.conversation import DANA, MIRA, NOOR, Conversation
from tests.zones.places import At


@dataclass
class Shown:
    """What Actions shows; None where it shows nothing to this token."""

    jobs: tuple[JobView, ...] | None = ()

    def unfinished(self) -> tuple[JobView, ...] | None:
        return self.jobs


def later(talk: Conversation, minutes: float) -> str:
    """So many minutes after the last fact."""
    return (talk.here + datetime.timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


def passes(talk: Conversation, minutes: float, jobs: Shown | None = None) -> ReconcileReport:
    """One pass, so many minutes from here."""
    settings, at = talk.settings("decide"), later(talk, minutes)
    doors = replace(open_doors(settings), clock=lambda: at)
    return reconcile(settings, doors, jobs or Shown())


def measuring(talk: Conversation, minutes: float, *, queued: bool) -> Shown:
    """The GPU job of the campaign, made so many minutes from here."""
    at = later(talk, minutes)
    name = "first order / measure"
    return Shown((JobView(campaign=talk.campaign.id, name=name, is_queued=queued, created_at=at),))


# Dead jobs


@pytest.mark.parametrize("place", ["profiling", "pushing"])
def test_work_without_a_job_is_started_again_after_a_while(at: At, place: str) -> None:
    talk = at(place)
    assert passes(talk, DEAD_MINUTES - 2).resume == ()
    before = talk.answers()
    report = passes(talk, DEAD_MINUTES + 1)
    assert report.resume == (talk.campaign.id,)
    assert report.matrix == f'{{"include":[{{"campaign":"{talk.campaign.id}"}}]}}'
    assert talk.answers() == before


def test_work_with_a_job_is_left_alone(at: At) -> None:
    talk = at("profiling")
    assert passes(talk, 300, measuring(talk, 0, queued=False)).resume == ()


def test_where_actions_cannot_be_looked_at_a_gpu_job_is_given_all_its_time(at: At) -> None:
    talk = at("profiling")
    assert passes(talk, 300, Shown(None)).resume == ()
    assert passes(talk, 400, Shown(None)).resume == (talk.campaign.id,)


def test_a_question_waits_for_a_person_and_is_no_dead_job(at: At) -> None:
    talk = at("winner")
    assert passes(talk, 3 * 24 * 60).resume == ()
    assert talk.campaign.stage is Stage.AWAIT_WINNER


def test_what_a_deciding_job_died_over_is_said(at: At) -> None:
    talk = at("profile")
    talk.writes_down(EffectRequested(key="status/optimizing/2", zone="decide"))
    talk.hub.close_pull(1)
    report = passes(talk, 1)
    assert [one.reason_code for one in report.campaigns] == ["pr_closed"]
    assert talk.ended == (Stage.ENDED, Outcome.REVERTED, ReasonCode.PR_CLOSED)
    assert "`pr_closed`" in talk.answers()[-1]
    assert passes(talk, 2).decision == "ignored", "nothing is open any more"


# Lost events


def test_a_review_whose_event_was_lost_is_heard(at: At) -> None:
    talk = at("final")
    talk.reviews(NOOR, "APPROVE")
    report = passes(talk, 1)
    assert [one.reason_code for one in report.campaigns] == ["approved"]
    assert report.resume == (talk.campaign.id,)
    assert talk.push().reason_code == "pushed"


def test_after_a_harmless_move_the_tests_are_started_again(at: At) -> None:
    talk = at("final")
    talk.pushes(DANA, "# notes\n", path="notes.md")
    report = passes(talk, 1)
    assert [one.reason_code for one in report.campaigns] == ["repinned"]
    assert (talk.campaign.stage, report.resume) == (Stage.FINALIZING, (talk.campaign.id,))


def test_a_push_to_the_branch_that_nobody_told_of_is_noticed(at: At) -> None:
    talk = at("winner")
    moved = talk.pushes(DANA, "# another kernel\n")
    assert [one.reason_code for one in passes(talk, 1).campaigns] == ["ref_changed"]
    assert f"head is now `{moved[:7]}`" in talk.answers()[-1]


# Questions and queues


def test_a_question_expires_after_the_days_the_policy_gives_it(at: At) -> None:
    talk = at("final")
    week = 7 * 24 * 60
    assert passes(talk, week - 5).campaigns[0].stage is Stage.AWAIT_FINAL
    assert passes(talk, week + 5).campaigns[0].reason_code == "approval_expired"
    assert talk.ended == (Stage.ENDED, Outcome.REVERTED, ReasonCode.APPROVAL_EXPIRED)
    assert "\n/optimize rms_norm\n" in talk.answers()[-1]
    assert talk.is_untouched


def test_a_runner_that_does_not_come_is_spoken_of_once(at: At) -> None:
    talk = at("profiling")
    waiting = measuring(talk, 0, queued=True)
    passes(talk, LATE_MINUTES - 1, waiting)
    assert "No runner" not in talk.answers()[0]
    assert passes(talk, LATE_MINUTES + 1, waiting).campaigns[0].reason_code == "no_runner"
    assert "no runner had taken it up" in talk.answers()[0]
    assert len(talk.answers()) == 1, "in the living comment"
    facts = len(talk.facts())
    passes(talk, LATE_MINUTES + 11, waiting)
    assert len(talk.facts()) == facts


def test_a_runner_that_works_is_not_late(at: At) -> None:
    talk = at("profiling")
    assert passes(talk, 90, measuring(talk, 0, queued=False)).campaigns[0].reason_code == "accepted"


def test_an_order_that_nobody_takes_up_for_a_day_ends_the_campaign(at: At) -> None:
    talk = at("profiling")
    waiting = measuring(talk, 0, queued=True)
    passes(talk, QUEUE_MINUTES - 5, waiting)
    assert talk.campaign.stage is Stage.PROFILING
    passes(talk, QUEUE_MINUTES + 5, waiting)
    assert talk.ended == (Stage.ENDED, Outcome.FAILED, ReasonCode.QUEUE_TIMEOUT)


def test_trouble_with_one_campaign_keeps_no_other_from_its_turn(at: At, monkeypatch: pytest.MonkeyPatch) -> None:
    talk = at("winner")
    number = talk.hub.open_pull(DANA, "topic", "main", "Once more")
    talk.asks(MIRA, "/optimize rms_norm", number)
    del talk.hub.world.threads[1]  # GitHub does not answer for the first one
    report = passes(talk, DEAD_MINUTES + 1)
    assert [one.decision for one in report.campaigns] == ["failed", "acted"]
    assert len(report.resume) == 1


@pytest.mark.parametrize(
    ("run", "job", "campaign"),
    [
        ("kernelwright campaign c42", "first order / measure", "c42"),
        ("kernelwright reconcile", "resume c42 / second order / measure", "c42"),
        ("kernelwright campaign c42", "push", "c42"),
        ("kernelwright reconcile", "reconcile", ""),
        ("kernelwright campaign ../c42", "measure", ""),
    ],
)
def test_a_job_is_told_by_its_names(run: str, job: str, campaign: str) -> None:
    assert campaign_of(run, job) == campaign


def test_the_real_door_looks_at_the_jobs_of_actions(at: At) -> None:
    """Where no job is shown at all, work without one is work of a dead one."""
    talk = at("profiling")
    settings = talk.settings("decide")
    door = open_jobs(settings.api_url, settings.repository, settings.token)
    assert door.unfinished() == ()
    doors = replace(open_doors(settings), clock=lambda: later(talk, 1))
    assert reconcile(settings, doors).resume == (), "it was placed a moment ago"


RUN = {"id": 7, "path": ".github/workflows/kernelwright-campaign.yml", "display_title": "kernelwright campaign c42"}
JOBS = [
    {"name": "first order / take", "status": "completed", "created_at": "2026-01-02T03:00:00Z"},
    {"name": "first order / measure", "status": "queued", "created_at": "2026-01-02T03:01:00Z"},
    {"name": "first order / publish", "status": "waiting", "created_at": None},
]


def test_of_github_s_list_only_our_unfinished_jobs_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    other = {"id": 8, "path": ".github/workflows/ci.yml", "display_title": "kernelwright campaign c43"}
    shown = {**RUN, "created_at": "2026-01-02T02:59:00Z"}
    asked: list[str] = []

    def get(self: RestJobs, path: str, **query: object) -> dict[str, object]:
        asked.append(path)
        return {"jobs": JOBS} if path == "runs/7/jobs" else {"workflow_runs": [shown, other]}

    monkeypatch.setattr(RestJobs, "_get", get)
    jobs = RestJobs("https://api.example", "a/b", "", lambda _: None).unfinished() or ()
    assert [(job.campaign, job.name, job.is_queued, job.measures) for job in jobs] == [
        ("c42", "first order / measure", True, True),
        ("c42", "first order / publish", True, False),
    ]
    assert asked.count("runs/7/jobs") == 1 and "runs/8/jobs" not in asked


@pytest.mark.parametrize(("status", "seen"), [(403, None), (404, None), (500, "raised")])
def test_a_token_that_may_not_look_is_no_reason_to_stop(
    status: int, seen: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def get(self: RestJobs, path: str, **query: object) -> dict[str, object]:
        raise CallFailed("no", status=status, hint="")

    monkeypatch.setattr(RestJobs, "_get", get)
    door = RestJobs("https://api.example", "a/b", "", lambda _: None)
    if seen is None:
        assert door.unfinished() is None
    else:
        with pytest.raises(CallFailed):
            door.unfinished()
