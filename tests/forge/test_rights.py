"""Each question of doctor to GitHub, on both sides; and the door to it, against the embedded GitHub."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bot.forge.rights import GITHUB, JOBS_OWN, Answer, Asked, open_api
from bot.localhub.server import Hub
from bot.model.health import Health, Probe

GPU, BIG = ("self-hosted", "gpu"), ("self-hosted", "hopper")


class FakeApi:
    """Answers by path; whatever nobody prepared is forbidden, as to a token without rights."""

    def __init__(self, answers: Mapping[str, Answer] | None = None, me: int | None = None) -> None:
        self.answers, self._me = dict(answers or {}), me
        self.sent: list[tuple[str, str, Any]] = []

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Answer:
        self.sent.append((method, path, body))
        return self.answers.get(path.partition("?")[0], Answer(status=403, data={"message": "Resource not accessible"}))

    def me(self) -> int | None:
        return self._me


def asked(
    answers: Mapping[str, Answer] | None = None,
    *,
    me: int | None = None,
    labels: tuple[tuple[str, ...], ...] = (),
    **other: Any,
) -> dict[str, Probe]:
    """Every probe by its name."""
    found = Asked(api=FakeApi(answers, me), labels=labels, **other)
    return {probe.name: probe for probe in (ask(found) for ask in GITHUB)}


def health(name: str, *args: Any, **kwargs: Any) -> Health:
    probe = asked(*args, **kwargs)[name]
    assert bool(probe.todo) is (probe.health is not Health.OK), "what is not well comes with what to do"
    return probe.health


@pytest.mark.parametrize(
    ("status", "wanted"),
    [(200, Health.OK), (401, Health.MISSING), (404, Health.MISSING), (500, Health.MISSING), (0, Health.NOT_CHECKED)],
)
def test_the_token_is_known_and_sees_the_repository(status: int, wanted: Health) -> None:
    assert health("token", {"": Answer(status=status)}) is wanted


RIGHTS = {
    "right to push commits": "/git/refs",
    "right to open issues": "/issues",
    "right to open pull requests": "/pulls",
    "right to set statuses": "/statuses/" + "0" * 40,
}


@pytest.mark.parametrize("name", RIGHTS)
def test_a_right_is_there_when_github_minds_the_content_and_not_who_asks(name: str) -> None:
    assert health(name, {RIGHTS[name]: Answer(status=422)}) is Health.OK
    assert health(name, {RIGHTS[name]: Answer(status=403)}) is Health.MISSING
    assert health(name, {RIGHTS[name]: Answer(status=404)}) is Health.NOT_CHECKED
    assert "write" in asked()[name].todo


def test_nothing_that_could_be_carried_out_is_ever_sent() -> None:
    api = FakeApi()
    for probe in GITHUB:
        probe(Asked(api=api, labels=(GPU,)))
    assert {(method, str(body)) for method, _, body in api.sent} == {("GET", "None"), ("POST", "{}")}


def test_whether_actions_may_open_pull_requests() -> None:
    name, path, key = (
        "Actions may create pull requests",
        "/actions/permissions/workflow",
        "can_approve_pull_request_reviews",
    )
    assert health(name, {path: Answer(status=200, data={key: True})}) is Health.OK
    assert health(name, {path: Answer(status=200, data={key: False})}) is Health.WARNING
    assert health(name) is Health.NOT_CHECKED
    assert health(name, {path: Answer(status=200, data=["odd"])}) is Health.NOT_CHECKED


def test_whether_our_own_pull_requests_start_checks() -> None:
    name = "checks on our own pull requests"
    assert health(name, bot_id=77) is Health.OK
    assert health(name, me=77) is Health.OK
    assert health(name, bot_id=JOBS_OWN) is Health.WARNING
    assert health(name, me=None) is Health.WARNING, "a job's own token may not ask who it is"


def listed(*runners: tuple[tuple[str, ...], str]) -> dict[str, Answer]:
    shown = [{"labels": [{"name": label} for label in labels], "status": status} for labels, status in runners]
    return {"/actions/runners": Answer(status=200, data={"runners": shown})}


def test_every_kind_of_runner_is_there_and_awake() -> None:
    name, both = "runner labels", (GPU, BIG)
    everyone = listed((("Self-Hosted", "gpu", "linux"), "online"), (BIG, "online"))
    assert health(name, everyone, labels=both) is Health.OK
    assert health(name, listed((GPU, "online"), (BIG, "offline")), labels=both) is Health.WARNING
    assert health(name, listed((GPU, "online")), labels=both) is Health.MISSING
    assert "self-hosted, hopper" in asked(listed((GPU, "online")), labels=both)[name].found
    assert health(name, labels=both) is Health.NOT_CHECKED
    assert "self-hosted, gpu" in asked(labels=both)[name].todo
    assert health(name, everyone) is Health.NOT_CHECKED, "no labels are configured"


def test_the_kill_switch() -> None:
    name, path = "kill switch", "/actions/variables/KERNELWRIGHT_ENABLED"
    assert health(name, {path: Answer(status=200, data={"value": "true"})}) is Health.OK
    assert health(name, {path: Answer(status=200, data={"value": "false"})}) is Health.WARNING
    assert health(name, {path: Answer(status=404)}) is Health.WARNING
    assert health(name) is Health.NOT_CHECKED


# The door


@pytest.mark.parametrize("scopes", [{"read"}, {"read", "comment", "status"}])
def test_the_true_door_tells_a_right_from_a_missing_one(tmp_path: Path, scopes: set[Any]) -> None:
    with Hub(tmp_path / "hub") as hub:
        hub.add_user("kernelwright[bot]", "write", is_bot=True)
        hub.push("kernelwright[bot]", "main", {"a.py": b"a = 1\n"}, "Begin\n")
        api = open_api(hub.url, hub.repo, hub.token("kernelwright[bot]", scopes))
        found = {probe.name: probe.health for probe in (ask(Asked(api=api)) for ask in GITHUB)}
        may = Health.OK if "comment" in scopes else Health.MISSING
        assert [found[name] for name in ("token", "right to open issues", "right to open pull requests")] == [
            Health.OK,
            may,
            may,
        ]
        assert found["right to set statuses"] is may
        assert found["checks on our own pull requests"] is Health.WARNING
        assert (hub.world.threads, hub.world.statuses) == ({}, []), "asking made nothing"
        assert open_api(hub.url, hub.repo, "wrong").ask("GET", "").status == 401
    assert open_api(hub.url, hub.repo, "gone").ask("GET", "") == Answer(status=0)
