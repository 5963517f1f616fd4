"""An event file becomes one of five words. Nothing a stranger writes into it raises, or speaks for somebody else."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.forge.events import (
    MAX_PAYLOAD,
    CommentPosted,
    Dispatched,
    Event,
    Ignored,
    ReviewsMayHaveChanged,
    Scheduled,
    read_event,
)
from bot.model.people import Actor
from bot.model.reasons import ReasonCode
from tests.examples import many

OWN_ID = 41898282
SHA = "27debc3" + "a" * 33
MIRA = {"id": 7, "login": "mira", "type": "User", "site_admin": False}
REPOSITORY = {"id": 1, "full_name": "sample/kernels", "default_branch": "main", "private": False}
COMMENT: dict[str, Any] = {
    "action": "created",
    "comment": {
        "id": 42,
        "node_id": "IC_42",
        "body": "/optimize rms_norm",
        "html_url": "https://github.com/sample/kernels/pull/1#issuecomment-42",
        "created_at": "2026-01-02T03:04:05Z",
        "user": MIRA,
        "performed_via_github_app": None,
    },
    "issue": {"number": 1, "state": "open", "locked": False, "user": MIRA, "pull_request": {"url": "https://x"}},
    "repository": REPOSITORY,
    "sender": MIRA,
}
RUN: dict[str, Any] = {
    "action": "completed",
    "workflow_run": {
        "id": 5,
        "name": "review",
        "event": "pull_request_review",
        "head_sha": SHA,
        "conclusion": "success",
        "pull_requests": [],
    },
    "repository": REPOSITORY,
    "sender": MIRA,
}
DISPATCH: dict[str, Any] = {
    "inputs": {"kernel": "rms_norm", "dry": True, "count": 3, "note": None},
    "ref": "refs/heads/main",
    "repository": REPOSITORY,
    "sender": MIRA,
}
SCHEDULE: dict[str, Any] = {"schedule": "0 3 * * *"}
PAYLOADS = {"issue_comment": COMMENT, "workflow_run": RUN, "workflow_dispatch": DISPATCH, "schedule": SCHEDULE}


def read(name: str, payload: object, own_id: int | None = OWN_ID) -> Event:
    return read_event(name, json.dumps(payload).encode(), own_id)


def with_(payload: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """A copy with one field set; `...` takes the field away."""
    changed = json.loads(json.dumps(payload))
    *parents, last = path.split(".")
    place = changed
    for parent in parents:
        place = place[parent]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return changed


def ignored(name: str, payload: object) -> Ignored:
    event = read(name, payload)
    assert isinstance(event, Ignored), event
    return event


# What is read.


def test_a_comment_on_a_pull_request() -> None:
    assert read("issue_comment", COMMENT) == CommentPosted(
        repo="sample/kernels",
        pull_number=1,
        comment_id=42,
        actor=Actor(id=7, login="mira"),
        body="/optimize rms_norm",
        created_at="2026-01-02T03:04:05Z",
        is_pull=True,
    )


def test_a_comment_on_an_issue_says_so_since_its_author_is_due_an_answer() -> None:
    for issue in (with_(COMMENT, "issue.pull_request", None), with_(COMMENT, "issue.pull_request", ...)):
        event = read("issue_comment", issue)
        assert isinstance(event, CommentPosted) and not event.is_pull


def test_a_comment_without_text() -> None:
    event = read("issue_comment", with_(COMMENT, "comment.body", None))
    assert isinstance(event, CommentPosted) and event.body == ""


def test_a_bot_that_does_not_know_itself_still_hears_people() -> None:
    assert isinstance(read("issue_comment", COMMENT, own_id=None), CommentPosted)


def test_the_bridge_of_reviews_carries_a_commit_and_nothing_else() -> None:
    assert read("workflow_run", RUN) == ReviewsMayHaveChanged(repo="sample/kernels", head_sha=SHA)


def test_a_schedule_needs_no_repository() -> None:
    assert read("schedule", SCHEDULE) == Scheduled(cron="0 3 * * *")


def test_a_start_by_hand() -> None:
    assert read("workflow_dispatch", DISPATCH) == Dispatched(
        repo="sample/kernels",
        actor=Actor(id=7, login="mira"),
        ref="refs/heads/main",
        inputs=(("count", "3"), ("dry", "True"), ("kernel", "rms_norm"), ("note", "")),
    )
    bare = read("workflow_dispatch", with_(DISPATCH, "inputs", None))
    assert isinstance(bare, Dispatched) and bare.inputs == ()


def test_fields_that_github_adds_do_no_harm() -> None:
    assert isinstance(read("issue_comment", COMMENT | {"installation": {"id": 3}}), CommentPosted)


# What is not.


@pytest.mark.parametrize(
    ("change", "value", "code"),
    [
        ("action", "edited", ReasonCode.EDITED_COMMENT),
        ("action", "deleted", ReasonCode.UNRELATED_EVENT),
        ("action", "Created", ReasonCode.UNRELATED_EVENT),
        ("comment.user.type", "Bot", ReasonCode.BOT_COMMENT),
        ("comment.user.type", "Organization", ReasonCode.BOT_COMMENT),
        ("comment.user.login", "helper[bot]", ReasonCode.BOT_COMMENT),
        ("comment.user.id", OWN_ID, ReasonCode.BOT_COMMENT),
        ("comment.performed_via_github_app", {"id": 3}, ReasonCode.BOT_COMMENT),
        ("sender.id", 8, ReasonCode.CONFUSED_SENDER),
        ("comment.user.id", 8, ReasonCode.CONFUSED_SENDER),
    ],
)
def test_comments_that_are_nobodys_command(change: str, value: object, code: ReasonCode) -> None:
    event = ignored("issue_comment", with_(COMMENT, change, value))
    assert event.code is code and event.why


def test_an_edited_comment_is_ignored_even_when_the_rest_is_missing() -> None:
    assert ignored("issue_comment", {"action": "edited"}).code is ReasonCode.EDITED_COMMENT


@pytest.mark.parametrize("action", ["requested", "in_progress"])
def test_a_run_that_is_not_over(action: str) -> None:
    assert ignored("workflow_run", with_(RUN, "action", action)).code is ReasonCode.UNRELATED_EVENT


@pytest.mark.parametrize("event", ["push", "pull_request", "pull_request_review_comment"])
def test_a_run_that_was_not_for_a_review(event: str) -> None:
    assert ignored("workflow_run", with_(RUN, "workflow_run.event", event)).code is ReasonCode.UNRELATED_EVENT


@pytest.mark.parametrize("name", ["push", "pull_request", "", "issue_comment\n", "x" * 1000, "\x00"])
def test_other_events(name: str) -> None:
    event = ignored(name, COMMENT)
    assert event.code is ReasonCode.UNRELATED_EVENT
    assert event.why.isprintable() and len(event.why) < 200


REQUIRED = {
    "issue_comment": ["action", "comment", "issue", "issue.number", "repository", "repository.full_name", "sender"],
    "workflow_run": ["action", "workflow_run", "workflow_run.event", "workflow_run.head_sha", "repository.full_name"],
    "workflow_dispatch": ["ref", "repository", "sender", "sender.id"],
    "schedule": ["schedule"],
}
REQUIRED["issue_comment"] += [f"comment.{field}" for field in ("id", "user", "body", "created_at")]
REQUIRED["issue_comment"] += [
    f"{who}.{field}" for who in ("comment.user", "sender") for field in ("id", "login", "type")
]


@pytest.mark.parametrize(("name", "path"), [(name, path) for name, found in REQUIRED.items() for path in found])
def test_a_missing_field_is_named(name: str, path: str) -> None:
    event = ignored(name, with_(PAYLOADS[name], path, ...))
    assert event.code is ReasonCode.MALFORMED_EVENT
    assert path in event.why


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("issue_comment", "comment.id", "42"),
        ("issue_comment", "comment.id", True),
        ("issue_comment", "comment.id", 0),
        ("issue_comment", "comment.id", 2**63),
        ("issue_comment", "comment.id", 42.5),
        ("issue_comment", "comment.body", 7),
        ("issue_comment", "comment.created_at", "yesterday"),
        ("issue_comment", "comment.created_at", "2026-01-02T03:04:05Z\n"),
        ("issue_comment", "comment.user.login", "mira<script>"),
        ("issue_comment", "issue.number", -1),
        ("issue_comment", "issue.pull_request", "yes"),
        ("issue_comment", "repository.full_name", "../../etc"),
        ("issue_comment", "repository", []),
        ("issue_comment", "sender", "mira"),
        ("workflow_run", "workflow_run.head_sha", SHA[:39]),
        ("workflow_run", "workflow_run.head_sha", SHA.upper()),
        ("workflow_run", "workflow_run.head_sha", SHA + "\n"),
        ("schedule", "schedule", None),
        ("schedule", "schedule", "x" * 1001),
        ("workflow_dispatch", "ref", "--upload-pack=x"),
        ("workflow_dispatch", "inputs", {str(n): "" for n in range(26)}),
        ("workflow_dispatch", "inputs", {"deep": {"er": 1}}),
    ],
)
def test_a_field_of_another_kind_is_not_believed(name: str, path: str, value: object) -> None:
    assert ignored(name, with_(PAYLOADS[name], path, value)).code is ReasonCode.MALFORMED_EVENT


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"7",
        b"\xff\xfe{}",
        b'{"action": "\\ud800"}',
        b'{"action":' * 200_000,
        b"[" * 1_000_000,
        b"9" * 1_000_000,
        b'{"action": "created"} trailing',
    ],
)
def test_what_is_not_a_payload_at_all(payload: bytes) -> None:
    event = read_event("issue_comment", payload, OWN_ID)
    assert isinstance(event, Ignored) and event.code is ReasonCode.MALFORMED_EVENT
    assert event.why.isprintable() and len(event.why) < 400


def test_the_size_is_looked_at_before_the_text() -> None:
    whole = json.dumps(COMMENT).encode()
    largest = whole + b" " * (MAX_PAYLOAD - len(whole))
    assert isinstance(read_event("issue_comment", largest, OWN_ID), CommentPosted)
    event = read_event("issue_comment", largest + b" ", OWN_ID)
    assert isinstance(event, Ignored) and event.code is ReasonCode.MALFORMED_EVENT


def test_the_longest_comment_github_takes_is_below_the_limit() -> None:
    longest = with_(with_(COMMENT, "comment.body", "\U0001f600" * 65_536), "issue.body", "\U0001f600" * 65_536)
    assert isinstance(read("issue_comment", longest), CommentPosted)


# Whatever arrives.

NAMES = st.sampled_from([*PAYLOADS, "push"]) | st.text(max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
JUNK = JSON | st.sampled_from(["created", "Bot", "User", OWN_ID, 7, 8, SHA, "", {}, [], "/optimize x", "\x00"])


def paths(payload: dict[str, Any], before: str = "") -> list[str]:
    found: list[str] = []
    for key, value in payload.items():
        found.append(before + key)
        if isinstance(value, dict):
            found += paths(value, f"{before}{key}.")
    return found


@given(NAMES, st.binary(max_size=200))
def test_arbitrary_bytes(name: str, payload: bytes) -> None:
    assert isinstance(read_event(name, payload, OWN_ID), get_args(Event))


@given(NAMES, JSON)
def test_arbitrary_json(name: str, payload: object) -> None:
    assert isinstance(read(name, payload), get_args(Event))


@settings(max_examples=many(400))
@given(st.data(), st.sampled_from(sorted(PAYLOADS)), st.booleans())
def test_a_changed_payload_never_speaks_for_somebody_else(data: st.DataObject, name: str, removed: bool) -> None:
    payload = PAYLOADS[name]
    value = ... if removed else data.draw(JUNK)
    payload = with_(payload, data.draw(st.sampled_from(paths(payload))), value)
    event = read(name, payload)
    assert isinstance(event, get_args(Event))
    if isinstance(event, CommentPosted):
        author, sender = payload["comment"]["user"], payload["sender"]
        assert payload["action"] == "created"
        assert author["id"] == sender["id"] == event.actor.id != OWN_ID
        assert author["type"] == "User" and not event.actor.is_bot
