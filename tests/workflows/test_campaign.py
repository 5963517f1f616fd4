"""Campaigns as the workflow files play them: every job a process of its own, with its own token and files alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bot.git.repo import Repo
from bot.localhub.steps import Ran
from bot.localhub.world import SCOPES
from bot.model.campaign import Outcome
from bot.model.reasons import ReasonCode
from tests.workflows.stage import BOT, DANA, KERNEL, LEE, MIRA, Stage, told

ORDER = [("take", "success"), ("measure", "success"), ("publish", "success")]
POLICY = '[policy]\nevidence = "static"\n'
POOLS = '[sweep.pools]\nampere = ["self-hosted", "a100"]\nblackwell = ["self-hosted", "b200"]\n'
TALK = ("comment", "ledger", "read", "status")


OWN_RULES = b"polcy = 1\n"
"""What a pull request says of itself. Whoever reads it stops there."""


@dataclass
class Played:
    """One campaign from its comment to its commit."""

    stage: Stage
    pinned: str
    asked: list[Ran]
    """What mira's comment set going."""
    approved: list[Ran]
    """What her review did."""

    @property
    def jobs(self) -> list[Ran]:
        return self.asked + self.approved


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory, python: Path) -> Iterator[Played]:
    stage = Stage(tmp_path_factory.mktemp("played"), python)
    stage.hub.push(DANA, "topic", {"kernelwright.toml": OWN_RULES}, "Rules of my own\n")
    pinned = stage.head
    asked = stage.says(MIRA, f"/optimize {KERNEL} mode=autonomous")
    yield Played(stage, pinned, asked, stage.approves(MIRA))
    stage.close()


def test_one_comment_and_one_review_become_one_commit(played: Played) -> None:
    stage = played.stage
    assert told(played.asked) == [("decide", "success"), ("start", "success"), *ORDER * 3]
    assert told(played.approved) == [
        *[("decide", "success"), ("start", "success")],
        *[("take", "success"), ("push", "success")],
    ]
    assert stage.campaign.outcome is Outcome.PUSHED
    assert Repo(stage.hub.bare).parents("refs/heads/topic") == (played.pinned,)
    assert stage.campaign.pushed == stage.head
    assert "Approved-by: mira" in Repo(stage.hub.bare).message(stage.head)
    assert len(stage.answers()) == 3, "a status, one question, a result"
    assert stage.hub.unknown == []


def test_every_job_ran_a_command_of_ours_or_none(played: Played) -> None:
    lines = {line.splitlines()[0].split(" ")[0] for ran in played.jobs for line, _ in ran.log}
    assert lines == {"test", "exec", "python3"}


def test_a_token_can_do_what_its_job_declares_and_the_app_s_is_in_push_alone(played: Played) -> None:
    scopes = {(ran.job, ran.scopes) for ran in played.jobs}
    assert scopes == {
        ("decide", TALK),
        ("start", ("dispatch",)),
        ("take", TALK),
        ("measure", ("read",)),
        ("publish", TALK),
        ("push", TALK),
    }


def test_no_job_finds_another_s_files_or_secrets(played: Played) -> None:
    """Threat: token theft. What a job's folder holds after it, nobody else's token is in."""
    secret = "the App's own key"
    known = played.stage.hub.world.tokens.items()
    tokens = {text: token for text, token in known if token.login == BOT and token.scopes != SCOPES}
    assert len(tokens) == 4, "to talk, to start, to read, and the App's"
    for ran in played.jobs:
        assert ran.folder is not None
        found = b"".join(path.read_bytes() for path in ran.folder.rglob("*") if path.is_file())
        assert [token.scopes for text, token in tokens.items() if text.encode() in found] == [], ran.job
        assert secret.encode() not in found


def test_the_gpu_job_starts_from_the_order_and_two_verified_checkouts(played: Played) -> None:
    measured = [ran for ran in played.asked if ran.job == "measure"]
    for ran in measured:
        assert ran.folder is not None
        pinned = Repo(ran.folder / "workspace" / "kernelwright-pinned").resolve("HEAD")
        assert pinned == played.pinned
        assert (ran.folder / "temp" / "kernelwright-segment" / "segment.jsonl").is_file()


def test_the_rules_of_the_default_branch_count_and_no_others(played: Played) -> None:
    assert Repo(played.stage.hub.bare).read(played.pinned, "kernelwright.toml") == OWN_RULES
    assert played.stage.campaign.outcome is Outcome.PUSHED


def test_the_same_comment_delivered_again_changes_nothing(played: Played) -> None:
    stage, before = played.stage, played.stage.answers()
    event = next((stage.hub.root / "outbox").glob("*1/event.json"))
    again = len(stage.runner.jobs)
    stage.runner.hear("issue_comment", json.loads(event.read_text()), event)
    (decided,) = stage.runner.jobs[again:]
    assert decided.outputs["reason_code"] == "duplicate_event"
    assert stage.answers() == before


def test_a_look_around_finds_nothing_to_resume(played: Played) -> None:
    (reconciled,) = played.stage.wakes("3-59/10 * * * *")
    assert (reconciled.job, reconciled.result, reconciled.outputs["count"]) == ("reconcile", "success", "0")


# Where no campaign is


def test_nothing_runs_while_the_kill_switch_is_off(place: Stage) -> None:
    on = place.runner
    for value in ("", "yes"):
        place.runner = place.runner_with(KERNELWRIGHT_ENABLED=value)
        assert place.says(MIRA, f"/optimize {KERNEL}") == []
        assert place.approves(MIRA) == []
        assert place.wakes("17 2 * * *") == []
    place.runner = on
    assert place.answers() == []


def test_chat_starts_no_job(place: Stage) -> None:
    assert place.says(LEE, "Could this be faster?") == []


def test_an_outsider_costs_one_answer_and_no_gpu(place: Stage) -> None:
    """Threat: an outsider triggers GPU time."""
    before = len(place.answers())
    (decided,) = place.says(LEE, f"/optimize {KERNEL}")
    assert decided.outputs["reason_code"] == ReasonCode.PERMISSION_DENIED
    assert len(place.answers()) == before + 1


def test_what_a_comment_says_reaches_no_shell(place: Stage) -> None:
    """Threat: script injection. The words of a comment are in no command line and in no environment."""
    mark = place.folder / "it-ran"
    words = f'$(touch {mark}) `touch {mark}` "; touch {mark} #'
    (decided,) = place.says(DANA, f"/optimize {words}")
    assert decided.outputs["reason_code"] not in ("", ReasonCode.ACCEPTED)
    assert not mark.exists()
    assert [line for line, _ in decided.log if "touch" in line] == []


def test_a_review_of_a_campaign_that_does_not_wait_says_nothing(place: Stage) -> None:
    before = place.answers()
    (decided,) = place.approves(MIRA)
    assert (decided.outputs["campaign"], decided.outputs["next"]) == ("", "none")
    assert place.answers() == before


def test_a_cancelled_campaign_s_gpu_job_is_stopped_by_its_group(place: Stage) -> None:
    place.hub.comment(MIRA, 1, f"/optimize {KERNEL}")
    place.hub.comment(MIRA, 1, "/optimize cancel")
    jobs = place.plays()
    assert ("stop", "success") in told(jobs)
    assert place.campaign.outcome is Outcome.CANCELLED


def test_the_gpu_that_is_asked_for_chooses_the_machine_by_the_repository_s_labels(place: Stage) -> None:
    """Labels come from kernelwright.toml alone; what nobody offers costs one answer."""
    pools = POOLS + POLICY
    place.hub.push(MIRA, "main", {"kernelwright.toml": pools.encode()}, "Name the runners\n")
    place.runner = place.runner_with(KERNELWRIGHT_PYTHON="false")  # where it would be measured is what matters
    (refused,) = place.says(MIRA, f"/optimize {KERNEL} gpu=cdna3")
    assert refused.outputs["reason_code"] == ReasonCode.BAD_VALUE
    assert "`ampere`, `blackwell` or `hopper`" in place.answers()[-1]
    assert f"/optimize {KERNEL}\n" in place.answers()[-1]
    jobs = place.says(MIRA, f"/optimize {KERNEL} gpu=blackwell")
    assert told(jobs)[2:] == [("take", "success"), ("measure", "failure"), ("publish", "success")]
    assert jobs[3].machine == ("self-hosted", "b200"), "and not that of the variable"
