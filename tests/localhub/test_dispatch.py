"""Workflows that are started by a call, and GraphQL as far as we speak it."""

from __future__ import annotations

from typing import Any

import pytest
import requests

from bot.forge.events import Dispatched, Ignored, read_event
from bot.localhub.server import Hub

SWEEP = {".github/workflows/sweep.yml": b"on: workflow_dispatch\n"}
MUTATION = "mutation M($input: MinimizeCommentInput!) { minimizeComment(input: $input) { minimizedComment { %s } } }"


def post(hub: Hub, path: str, sent: dict[str, Any], login: str = "mira") -> requests.Response:
    token = hub.token(login, {"dispatch", "comment"})
    return requests.post(hub.server_url + path, json=sent, headers={"Authorization": f"Bearer {token}"}, timeout=20)


def start(hub: Hub, workflow: str = "sweep.yml", **sent: Any) -> requests.Response:
    return post(hub, f"/api/v3/repos/{hub.repo}/actions/workflows/{workflow}/dispatches", {"ref": "main", **sent})


def test_a_workflow_started_by_a_call_is_an_event(hub: Hub) -> None:
    hub.push("mira", "main", SWEEP, "Sweep\n")
    assert start(hub, inputs={"kernel": "rms_norm"}).status_code == 204
    ((name, path),) = hub.events()
    event = read_event(name, path.read_bytes(), own_id=1)
    assert isinstance(event, Dispatched)
    assert (event.actor.login, event.ref, event.inputs) == ("mira", "refs/heads/main", (("kernel", "rms_norm"),))


def test_who_asks_for_it_is_told_which_run_it_became(hub: Hub) -> None:
    hub.push("mira", "main", SWEEP, "Sweep\n")
    answer = start(hub, return_run_details=True)
    assert answer.status_code == 200
    number = answer.json()["workflow_run_id"]
    assert answer.json()["html_url"] == f"{hub.server_url}/{hub.repo}/actions/runs/{number}"


def test_a_workflow_that_cannot_be_started(hub: Hub) -> None:
    assert start(hub).status_code == 404, "the file is not on that branch"
    hub.push("mira", "main", SWEEP, "Sweep\n")
    assert start(hub, ref="gone").status_code == 422
    assert start(hub, inputs={str(n): "" for n in range(25)}).status_code == 204
    assert start(hub, inputs={str(n): "" for n in range(26)}).status_code == 422
    assert len(list(hub.events())) == 1


def test_an_event_from_another_program(hub: Hub) -> None:
    path = f"/api/v3/repos/{hub.repo}/dispatches"
    assert post(hub, path, {"event_type": "nightly", "client_payload": {"pool": "hopper"}}).status_code == 204
    assert post(hub, path, {"event_type": "n" * 101}).status_code == 422
    assert post(hub, path, {"event_type": "n", "client_payload": {str(n): n for n in range(11)}}).status_code == 422
    ((name, file),) = hub.events()
    assert name == "repository_dispatch"
    assert isinstance(read_event(name, file.read_bytes(), own_id=1), Ignored)


def test_a_token_that_may_only_talk_starts_nothing(hub: Hub) -> None:
    token = hub.token("mira", {"read", "comment"})
    url = f"{hub.url}/repos/{hub.repo}/dispatches"
    headers = {"Authorization": f"Bearer {token}"}
    assert requests.post(url, json={"event_type": "n"}, headers=headers, timeout=20).status_code == 403


def folded(hub: Hub, login: str, **given: Any) -> dict[str, Any]:
    sent = {"query": MUTATION % "isMinimized minimizedReason", "variables": {"input": given}}
    answer = post(hub, "/api/graphql", sent, login)
    assert answer.status_code == 200, "GraphQL's errors are in the body"
    found: dict[str, Any] = answer.json()
    return found


def test_graphql_folds_a_comment_away(hub: Hub) -> None:
    hub.comment("dana", 1, "long since answered")
    node = hub.comments(1)[0]["node_id"]
    answer = folded(hub, "mira", subjectId=node, classifier="OUTDATED")
    shape = {"isMinimized": True, "minimizedReason": "outdated"}
    assert answer == {"data": {"minimizeComment": {"minimizedComment": shape}}}
    assert hub.comments(1)[0]["minimized"] == {"reason": "outdated"}


@pytest.mark.parametrize(
    ("login", "given", "kind"),
    [
        ("mira", {"subjectId": "IC_none"}, "NOT_FOUND"),
        ("mira", {"classifier": "BORING"}, "INVALID"),
        ("lee", {}, "FORBIDDEN"),
    ],
)
def test_graphql_refuses_in_its_own_way(hub: Hub, login: str, given: dict[str, str], kind: str) -> None:
    hub.comment("dana", 1, "hello")
    answer = folded(hub, login, **{"subjectId": hub.comments(1)[0]["node_id"], "classifier": "OUTDATED", **given})
    assert [error["type"] for error in answer["errors"]] == [kind]
    assert answer["data"] == {"minimizeComment": None}
    assert hub.comments(1)[0]["minimized"] is None


@pytest.mark.parametrize(
    "query", ["query { viewer { login } }", "mutation M($input: X!) { lockLockable(input: $input) { a } }"]
)
def test_a_document_nobody_needed_so_far_does_not_exist(hub: Hub, query: str) -> None:
    assert post(hub, "/api/graphql", {"query": query, "variables": {}}).status_code == 501
    assert len(hub.unknown) == 1
