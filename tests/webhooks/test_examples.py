"""The payloads GitHub's own clients are tested with, all 58 kinds of them: each becomes the right one of our words."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from typing import Any

import pytest

from bot.forge.events import CommentPosted, Dispatched, Event, Ignored, Scheduled, read_event
from bot.model.reasons import ReasonCode
from tests.webhooks.trim import COPY

OWN_ID = 41898282
OURS = ("issue_comment", "workflow_run", "workflow_dispatch", "schedule")
"""A schedule is GitHub Actions' own: no server delivers one, and there is no example of it."""
SEEN = {
    ("issue_comment", "CommentPosted", None): 5,
    ("issue_comment", "Ignored", ReasonCode.EDITED_COMMENT): 2,
    ("issue_comment", "Ignored", ReasonCode.UNRELATED_EVENT): 2,
    ("workflow_dispatch", "Dispatched", None): 2,
    ("workflow_run", "Ignored", ReasonCode.UNRELATED_EVENT): 5,
}
"""What becomes of those that we listen to. No example is of a run that a review started."""
Examples = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def examples() -> Examples:
    found: Examples = json.loads(gzip.decompress(COPY.read_bytes()))
    return found


def read(name: str, payload: dict[str, Any]) -> Event:
    return read_event(name, json.dumps(payload).encode(), OWN_ID)


def test_the_copy_holds_every_kind_of_event(examples: Examples) -> None:
    assert len(examples) == 58
    assert sum(map(len, examples.values())) == 329
    assert {"pull_request_review", "push", "check_suite", "merge_group", *OURS[:3]} <= set(examples)


def test_what_we_listen_to_becomes_the_right_word(examples: Examples) -> None:
    seen: Counter[tuple[str, str, ReasonCode | None]] = Counter()
    for name in OURS[:3]:
        for payload in examples[name]:
            event = read(name, payload)
            seen[name, type(event).__name__, event.code if isinstance(event, Ignored) else None] += 1
    assert dict(seen) == SEEN


def test_everything_else_is_ignored_with_the_reason(examples: Examples) -> None:
    for name, payloads in examples.items():
        for payload in payloads:
            event = read(name, payload)
            if name not in OURS:
                assert isinstance(event, Ignored), name
                assert (event.code, event.why) == (ReasonCode.UNRELATED_EVENT, f"events named {name!r} are not for me")


def test_a_comment_says_who_wrote_what_and_where(examples: Examples) -> None:
    for payload in examples["issue_comment"]:
        event = read("issue_comment", payload)
        if isinstance(event, CommentPosted):
            assert payload["action"] == "created"
            assert (event.comment_id, event.body) == (payload["comment"]["id"], payload["comment"]["body"])
            assert (event.actor.id, event.actor.login) == (payload["sender"]["id"], payload["sender"]["login"])
            assert (event.repo, event.pull_number) == (payload["repository"]["full_name"], payload["issue"]["number"])
            assert event.is_pull == ("pull_request" in payload["issue"])


def test_a_start_by_hand_carries_its_inputs(examples: Examples) -> None:
    events = [read("workflow_dispatch", payload) for payload in examples["workflow_dispatch"]]
    given = [payload["inputs"] or {} for payload in examples["workflow_dispatch"]]
    assert [dict(event.inputs) for event in events if isinstance(event, Dispatched)] == given


def test_a_payload_under_another_events_name_is_never_more_than_that_event_lets_it_be(examples: Examples) -> None:
    """A workflow that names the wrong event: whatever comes, it is one of our words, and a schedule needs its line."""
    for payloads in examples.values():
        for payload in payloads:
            for name in OURS:
                event = read(name, payload)
                assert not isinstance(event, Scheduled)
                assert isinstance(event, Event), (name, payload.get("action"))
