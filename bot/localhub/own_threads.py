"""The part of the REST subset by which a bot opens pull requests and issues of its own, and changes their words."""

from __future__ import annotations

from typing import Any

from bot.localhub.api import LONGEST_COMMENT, NUMBER, REPO, Call, Route
from bot.localhub.wire import Response, as_json, refuse
from bot.localhub.world import PullPart, Thread

LONGEST_TITLE = 256


def _words(call: Call, kind: str) -> dict[str, str]:
    """Title and body as they were sent, within GitHub's limits."""
    sent: dict[str, str] = {name: call.body()[name] or "" for name in ("title", "body") if name in call.body()}
    limits = {"title": LONGEST_TITLE, "body": LONGEST_COMMENT}
    for name, words in sent.items():
        if not isinstance(words, str) or len(words) > limits[name] or (name == "title" and not words):
            error = {"resource": kind, "field": name, "code": "invalid"}
            raise refuse(422, "Validation Failed", [error])
    return sent


def _opened(call: Call, kind: str, pull: PullPart | None) -> Thread:
    call.text("title", kind)
    sent = _words(call, kind)
    number = 1 + len(call.world.threads)
    made = call.new(Thread, number=number, title=sent["title"], body=sent.get("body", ""), pull=pull)
    call.world.threads[number] = made
    return made


def list_issues(call: Call) -> Response:
    """As GitHub does: pull requests are among them, the newest first unless asked otherwise."""
    asked = call.request.query
    threads = [t for t in call.world.threads.values() if asked.get("creator", t.author) == t.author]
    if asked.get("state", "open") != "all":
        threads = [t for t in threads if t.is_open == (asked.get("state", "open") == "open")]
    threads.sort(key=lambda t: t.number, reverse=asked.get("direction", "desc") == "desc")
    return call.page([call.show.issue(thread) for thread in threads])


def post_issue(call: Call) -> Response:
    return as_json(201, call.show.issue(_opened(call, "Issue", None)))


def patch_issue(call: Call, number: str) -> Response:
    thread = call.thread(number)
    _changed(call, thread, "Issue")
    return as_json(200, call.show.issue(thread))


def _changed(call: Call, thread: Thread, kind: str) -> None:
    if thread.author != call.account.login and not call.account.role.may_write:
        raise refuse(403, "Must have admin rights to Repository.")
    sent: dict[str, Any] = _words(call, kind)
    thread.title, thread.body = sent.get("title", thread.title), sent.get("body", thread.body)
    if call.body().get("state") == "closed" and thread.is_open:
        thread.closed_at = call.now


def post_pull(call: Call) -> Response:
    """Of branches of this repository alone; GitHub would take a fork's too."""
    head, base = call.text("head", "PullRequest").rpartition(":")[2], call.text("base", "PullRequest")
    heads = call.history.heads()
    for field, ref in (("head", head), ("base", base)):
        if f"refs/heads/{ref}" not in heads:
            raise refuse(422, "Validation Failed", [{"resource": "PullRequest", "field": field, "code": "invalid"}])
    tip = heads[f"refs/heads/{head}"]
    if tip == heads[f"refs/heads/{base}"]:
        words = f"No commits between {base} and {head}"
        raise refuse(422, "Validation Failed", [{"resource": "PullRequest", "code": "custom", "message": words}])
    if any(t.is_open and p.head_ref == head and p.base_ref == base for t, p in call.world.pulls()):
        words = f"A pull request already exists for {call.world.repo.partition('/')[0]}:{head}."
        raise refuse(422, "Validation Failed", [{"resource": "PullRequest", "code": "custom", "message": words}])
    part = PullPart(
        is_draft=bool(call.body().get("draft")),
        head_repo=call.world.repo,
        head_ref=head,
        base_ref=base,
        first=tip,
        head=tip,
    )
    thread = _opened(call, "PullRequest", part)
    call.history.set_ref(f"refs/pull/{thread.number}/head", tip)
    return as_json(201, call.shape_of(thread, part))


def patch_pull(call: Call, number: str) -> Response:
    thread, part = call.pull(number)
    _changed(call, thread, "PullRequest")
    return as_json(200, call.shape_of(thread, part))


ROUTES: tuple[Route, ...] = (
    ("GET", rf"{REPO}/issues", "read", list_issues),
    ("POST", rf"{REPO}/issues", "comment", post_issue),
    ("PATCH", rf"{REPO}/issues{NUMBER}", "comment", patch_issue),
    ("POST", rf"{REPO}/pulls", "comment", post_pull),
    ("PATCH", rf"{REPO}/pulls{NUMBER}", "comment", patch_pull),
)
