"""The judge itself, and that every endpoint of the embedded GitHub was before it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from bot.forge.client import Forge, open_forge
from bot.localhub import api, own_threads
from bot.localhub.server import Hub
from tests.openapi import judge
from tests.openapi.judge import KNOWN_ERRORS, Exchange, description, route_of, wrong
from tests.openapi.recording import Recorder, judged, recorder
from tests.openapi.trim import COPY, PATHS, bare, trim

__all__ = ["judged", "recorder"]

BOT = "kernelwright[bot]"
VERSION = "23.0.2"
COMMENTS = "/api/v3/repos/o/r/issues/1/comments"
CRUMBS = {"number": "1", "sha": "0" * 40}


def exchange(method: str, path: str, status: int, sent: Any = None, came: Any = None, **query: str) -> Exchange:
    def body(of: Any) -> bytes:
        return b"" if of is None else json.dumps(of).encode()

    return Exchange(method=method, path=path, query=query, sent=body(sent), status=status, answer=body(came))


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    with Hub(tmp_path / "hub") as hub:
        for login, role in (("mira", "maintain"), ("dana", "write")):
            hub.add_user(login, role)
        hub.add_user(BOT, "write", is_bot=True)
        hub.push("mira", "main", {"a.py": b"a = 1\n", ".github/workflows/sweep.yml": b"on: push\n"}, "Begin\n")
        hub.push("dana", "tune", {"a.py": b"a = 2\n"}, "Tune\n")
        hub.open_pull("dana", "tune", "main", "Tune a")
        yield hub


@pytest.fixture
def forge(hub: Hub) -> Forge:
    token = hub.token(BOT, {"read", "comment", "status"})
    return open_forge(hub.url, hub.repo, token, own_login=BOT, own_id=hub.user_id(BOT))


# The copy


def test_the_copy_says_where_it_comes_from() -> None:
    info = description()["info"]
    assert (info["version"], info["license"]["name"]) == (VERSION, "MIT")
    assert sorted(description()["paths"]) == sorted(PATHS)
    assert COPY.stat().st_size < 64 * 1024


def test_words_are_left_out_and_names_are_not() -> None:
    schema = {"description": "A thing", "properties": {"description": {"type": "string", "example": "x"}, "tags": {}}}
    assert bare(schema) == {"properties": {"description": {"type": "string"}, "tags": {}}}


def test_everything_that_is_referred_to_is_there() -> None:
    whole = json.loads(gzip.decompress(COPY.read_bytes()))
    again = trim({**whole, "info": {**whole["info"], "more": "words"}})
    assert again == whole


# Finding a route


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/repos/o/r/git/ref/heads/deep/er", "/repos/{owner}/{repo}/git/ref/{ref}"),
        ("/repos/o/r/commits/abc/status", "/repos/{owner}/{repo}/commits/{ref}/status"),
        ("/repos/o/r/commits/abc", "/repos/{owner}/{repo}/commits/{ref}"),
        ("/repos/o/r/issues/comments/7", "/repos/{owner}/{repo}/issues/comments/{comment_id}"),
        ("/repos/o/r/issues/7/comments", "/repos/{owner}/{repo}/issues/{issue_number}/comments"),
        ("/repos/o/r/nothing", None),
    ],
)
def test_a_path_finds_its_most_exact_route(path: str, route: str | None) -> None:
    assert route_of(path) == route


# What it sees


def test_a_good_exchange_is_good(hub: Hub, recorder: Recorder) -> None:
    before = recorder.exchanges
    hub.comment("mira", 1, "hello")
    assert recorder.exchanges == before + 1
    assert recorder.taken() == []


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (exchange("GET", "/api/v3/repos/o/r/nothing", 200), "not in the description"),
        (exchange("PUT", COMMENTS, 200), "not in the description"),
        (exchange("GET", COMMENTS, 202, came=[]), "nobody said that 202 can come"),
        (exchange("GET", COMMENTS, 200, came={}), "is not of type 'array'"),
        (exchange("GET", COMMENTS, 200, came=[{"id": "7"}]), "is not of type 'integer'"),
        (exchange("GET", COMMENTS, 200), "no body came"),
        (exchange("GET", COMMENTS, 200, came=[], color="red"), "nobody knows color"),
        (exchange("GET", "/api/v3/repos/o/r/pulls", 200, came=[], state="ajar"), "query state"),
        (exchange("POST", "/api/v3/repos/o/r/dispatches", 204, sent={}), "'event_type' is a required property"),
        (exchange("POST", "/api/v3/repos/o/r/dispatches", 204), "no body was sent"),
        (exchange("POST", "/api/v3/repos/o/r/dispatches", 204, {"event_type": "a"}, {}), "none was promised"),
        (exchange("GET", COMMENTS, 200, sent={"a": 1}, came=[]), "a body was sent where none is read"),
        (exchange("GET", COMMENTS, 403, came={"message": 7}), "message: 7 is not of type 'string'"),
        (exchange("POST", COMMENTS, 422, came={"errors": [{}]}), "'message' is a required property"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_kind_of_lie_is_found(seen: Exchange, words: str) -> None:
    assert any(words in why for why in wrong(seen)), wrong(seen)


def test_moments_and_addresses_are_looked_at(hub: Hub) -> None:
    hub.comment("mira", 1, "hello")
    good = hub.comments(1)[0]
    for field, bad in (("created_at", "yesterday"), ("html_url", "nowhere")):
        lie = exchange("GET", COMMENTS, 200, came=[{**good, field: bad}])
        assert wrong(exchange("GET", COMMENTS, 200, came=[good])) == []
        assert any(bad in why for why in wrong(lie))


def test_a_refused_request_need_not_have_been_a_good_one() -> None:
    refusal = {"message": "Problems parsing JSON", "documentation_url": "https://docs.github.com/rest", "status": "400"}
    assert wrong(exchange("POST", COMMENTS, 400, sent=["no", "object"], came=refusal)) == []


def test_errors_of_the_description_are_few_and_each_is_needed(monkeypatch: pytest.MonkeyPatch, hub: Hub) -> None:
    assert len(KNOWN_ERRORS) <= 8
    assert all(reason for _, _, reason in KNOWN_ERRORS)
    fork = hub.fork("dana")
    hub.push("dana", "mine", {"a.py": b"a = 3\n"}, "Mine\n", repo=fork)
    number = hub.open_pull("dana", "mine", "main", "From a fork", head_repo=fork)
    hub.delete_fork(fork)
    answer = requests.get(f"{hub.url}/repos/{hub.repo}/pulls/{number}", headers=signed(hub), timeout=20).json()
    seen = exchange("GET", f"/api/v3/repos/{hub.repo}/pulls/{number}", 200, came=answer)
    assert wrong(seen) == []
    monkeypatch.setattr(judge, "KNOWN_ERRORS", ())
    assert len(wrong(seen)) == len(KNOWN_ERRORS)


def signed(hub: Hub) -> dict[str, str]:
    return {"Authorization": f"Bearer {hub.token('mira', {'read', 'comment', 'status', 'dispatch'})}"}


# The embedded GitHub


def test_every_endpoint_it_has_is_one_of_githubs() -> None:
    for method, pattern, _, endpoint in (*api.ROUTES, *own_threads.ROUTES):
        if pattern == "/api/graphql":
            continue
        path = pattern.replace("{repo}", "o/r").replace(api.NUMBER, "/1").replace(api.SHA, f"/{'0' * 40}")
        path = path.replace(api.NAME, "/name").replace("(.+)", "heads/main").replace(r"([\w.-]+)", "a.yml")
        route = route_of(path)
        assert route is not None, f"{path}: put it into PATHS of tests/openapi/trim.py"
        assert method.lower() in description()["paths"][route], endpoint.__name__


def test_a_walk_through_the_door_is_githubs_own(hub: Hub, forge: Forge, recorder: Recorder) -> None:
    """Everything that the client can say and ask; the fixture fails this test where GitHub would not have it."""
    made = forge.post_comment(1, "hello")
    head = forge.pull(1).head_sha
    forge.edit_comment(made, "hello again")
    forge.react(made, "eyes")
    forge.unreact(made, "eyes")
    forge.minimize(made)
    hub.review("mira", 1, "APPROVE")
    forge.set_status(head, "pending", "kernelwright/a", "profiling", "https://example.org/1")
    assert len(forge.comments(1)) == len(forge.reviews(1)) == 1
    assert forge.comment(made) is not None
    assert forge.changed_files(1) == ("a.py",)
    assert forge.pulls_with_head(head) == (1,)
    assert forge.branch_sha("tune") == head
    assert forge.role("dana").may_write
    assert forge.role("nobody") == "none"
    seen = {(method, route.removeprefix("/repos/{owner}/{repo}"), status) for method, route, status in recorder.routes}
    assert {
        ("GET", "/pulls/{pull_number}", 200),
        ("POST", "/issues/{issue_number}/comments", 201),
        ("PATCH", "/issues/comments/{comment_id}", 200),
        ("POST", "/issues/comments/{comment_id}/reactions", 201),
        ("DELETE", "/issues/comments/{comment_id}/reactions/{reaction_id}", 204),
        ("POST", "/statuses/{sha}", 201),
        ("GET", "/commits/{ref}/status", 200),
        ("GET", "/collaborators/{username}/permission", 404),
    } <= seen


def test_what_only_people_ask_for_is_githubs_own_too(hub: Hub) -> None:
    repo = f"{hub.url}/repos/{hub.repo}"
    for path in (
        f"{hub.url}/user",
        f"{hub.url}/users/dana",
        repo,
        f"{repo}/pulls?state=all&per_page=1",
        f"{repo}/issues",
    ):
        assert requests.get(path, headers=signed(hub), timeout=20).status_code == 200
    start = f"{repo}/actions/workflows/sweep.yml/dispatches"
    sent = {"ref": "main", "inputs": {"kernel": "rms_norm"}, "return_run_details": True}
    assert requests.post(start, json=sent, headers=signed(hub), timeout=20).status_code == 200
    assert requests.post(f"{repo}/dispatches", json={"event_type": "a"}, headers=signed(hub), timeout=20).ok
