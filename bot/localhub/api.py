"""The REST subset: one function an endpoint, and the table of them all. What is not in the table does not exist."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import unquote

from bot.localhub import graphql
from bot.localhub.history import History
from bot.localhub.outbox import Outbox
from bot.localhub.shapes import REACTIONS, Shapes
from bot.localhub.wire import Request, Response, as_json, page_of, refuse
from bot.localhub.world import (
    Account,
    Comment,
    PullPart,
    Reaction,
    Review,
    ReviewState,
    Said,
    Scope,
    Status,
    Thread,
    Token,
    World,
)

if TYPE_CHECKING:
    from bot.localhub.actions import Actions

S = TypeVar("S", bound=Said)
LONGEST_COMMENT = 65536
LONGEST_DESCRIPTION = 140
LONGEST_KIND = 100
MOST_INPUTS, MOST_GIVEN = 25, 10
DECISIONS: dict[str, tuple[ReviewState, str]] = {
    "APPROVE": ("APPROVED", "Can not approve your own pull request"),
    "REQUEST_CHANGES": ("CHANGES_REQUESTED", "Can not request changes on your own pull request"),
    "COMMENT": ("COMMENTED", ""),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One authenticated request, and all it may touch."""

    request: Request
    world: World
    history: History
    outbox: Outbox
    actions: Actions
    show: Shapes
    account: Account
    token: Token
    now: str

    def body(self) -> dict[str, Any]:
        try:
            found = json.loads(self.request.body or b"{}")
        except ValueError as error:
            raise refuse(400, "Problems parsing JSON") from error
        if not isinstance(found, dict):
            raise refuse(400, "Body should be a JSON object")
        return found

    def text(self, name: str, kind: str) -> str:
        value = self.body().get(name)
        if not isinstance(value, str) or not value:
            raise refuse(422, "Validation Failed", [{"resource": kind, "field": name, "code": "missing_field"}])
        return value

    def new(self, kind: type[S], **fields: Any) -> S:
        return kind(id=self.world.new_id(), author=self.account.login, created_at=self.now, **fields)

    def page(self, items: list[Any]) -> Response:
        return page_of(items, self.request, f"{self.show.server}{self.request.path}")

    def thread(self, number: str) -> Thread:
        found = self.world.threads.get(int(number))
        if found is None:
            raise refuse(404, "Not Found")
        return found

    def pull(self, number: str) -> tuple[Thread, PullPart]:
        thread = self.thread(number)
        if thread.pull is None:
            raise refuse(404, "Not Found")
        return thread, thread.pull

    def comment(self, number: str) -> Comment:
        found = self.world.comments.get(int(number))
        if found is None:
            raise refuse(404, "Not Found")
        return found

    def user(self, login: str, otherwise: str) -> Account:
        found = self.world.accounts.get(unquote(login))
        if found is None:
            raise refuse(404, otherwise)
        return found

    def need_commit(self, sha: str) -> None:
        if not self.history.is_commit(sha):
            raise refuse(422, f"No commit found for SHA: {sha}")

    def shape_of(self, thread: Thread, part: PullPart) -> dict[str, Any]:
        return self.show.pull(thread, part, self.history.heads().get(f"refs/heads/{part.base_ref}", part.first))


def get_me(call: Call) -> Response:
    if call.account.is_bot:  # an installation token has no user
        raise refuse(403, "Resource not accessible by integration")
    return as_json(200, call.show.person(call.account))


def get_user(call: Call, login: str) -> Response:
    return as_json(200, call.show.person(call.user(login, "Not Found")))


def get_repository(call: Call) -> Response:
    return as_json(200, call.show.repository(call.world.repo))


def get_permission(call: Call, login: str) -> Response:
    return as_json(200, call.show.permission(call.user(login, f"{unquote(login)} is not a user")))


def list_pulls(call: Call) -> Response:
    asked = call.request.query
    state, head = asked.get("state", "open"), asked.get("head")
    shapes = [call.shape_of(thread, part) for thread, part in reversed(call.world.pulls())]
    shapes = [shape for shape in shapes if head in (None, shape["head"]["label"])]
    return call.page([shape for shape in shapes if state in ("all", shape["state"])])


def get_pull(call: Call, number: str) -> Response:
    return as_json(200, call.shape_of(*call.pull(number)))


def list_files(call: Call, number: str) -> Response:
    part = call.pull(number)[1]
    base = call.history.merge_base(f"refs/heads/{part.base_ref}", part.head)
    return call.page([call.show.file(change, part.head) for change in call.history.files(base, part.head)])


def _checked_body(call: Call) -> str:
    body = call.text("body", "IssueComment")
    if len(body) > LONGEST_COMMENT:
        words = f"Body is too long (maximum is {LONGEST_COMMENT} characters)"
        error = {"resource": "IssueComment", "code": "unprocessable", "field": "data", "message": words}
        raise refuse(422, "Validation Failed", [error])
    return body


def list_comments(call: Call, number: str) -> Response:
    return call.page([call.show.comment(c) for c in call.world.comments_on(call.thread(number).number)])


def post_comment(call: Call, number: str) -> Response:
    thread, body = call.thread(number), _checked_body(call)
    made = call.new(Comment, number=thread.number, body=body, updated_at=call.now)
    call.world.comments[made.id] = made
    if not call.account.is_bot:  # what a job's own token writes starts no job
        call.outbox.commented(call.world, call.show, thread, made)
    return as_json(201, call.show.comment(made))


def get_comment(call: Call, number: str) -> Response:
    return as_json(200, call.show.comment(call.comment(number)))


def edit_comment(call: Call, number: str) -> Response:
    comment = call.comment(number)
    if comment.author != call.account.login and not call.account.role.may_write:
        raise refuse(403, "Must have admin rights to Repository.")
    comment.body, comment.updated_at = _checked_body(call), call.now
    return as_json(200, call.show.comment(comment))


def list_reactions(call: Call, number: str) -> Response:
    wanted = call.request.query.get("content")
    found = call.world.reactions_to(call.comment(number).id)
    return call.page([call.show.reaction(r) for r in found if wanted in (None, r.content)])


def post_reaction(call: Call, number: str) -> Response:
    comment, content = call.comment(number), call.text("content", "Reaction")
    if content not in REACTIONS:
        raise refuse(422, "Validation Failed", [{"resource": "Reaction", "field": "content", "code": "invalid"}])
    mine = (r for r in call.world.reactions_to(comment.id) if r.author == call.account.login and r.content == content)
    there = next(mine, None)
    made = there or call.new(Reaction, comment=comment.id, content=content)
    call.world.reactions[made.id] = made
    return as_json(200 if there else 201, call.show.reaction(made))


def delete_reaction(call: Call, number: str, reaction: str) -> Response:
    found = call.world.reactions.get(int(reaction))
    if found is None or found.comment != call.comment(number).id:
        raise refuse(404, "Not Found")
    if found.author != call.account.login:
        raise refuse(403, "Must have admin rights to Repository.")
    del call.world.reactions[found.id]
    return Response(204)


def list_reviews(call: Call, number: str) -> Response:
    return call.page([call.show.review(review) for review in call.world.reviews_of(call.pull(number)[0].number)])


def post_review(call: Call, number: str) -> Response:
    (thread, part), sent = call.pull(number), call.body()
    if sent.get("event") not in DECISIONS:
        raise refuse(422, "Unprocessable Entity", ["Variable $event was provided invalid value"])
    state, not_on_own = DECISIONS[sent["event"]]
    body, commit = sent.get("body") or "", sent.get("commit_id") or part.head
    if not_on_own and call.account.login == thread.author:
        raise refuse(422, "Unprocessable Entity", [not_on_own])
    if not body and state != "APPROVED":
        raise refuse(422, "Unprocessable Entity", ["Body can't be blank"])
    call.need_commit(commit)
    made = call.new(Review, number=thread.number, state=state, body=body, commit=commit)
    call.world.reviews[made.id] = made
    call.outbox.reviewed(call.world, call.show, part, call.account)
    return as_json(200, call.show.review(made))


def post_status(call: Call, sha: str) -> Response:
    sent, description = call.body(), call.body().get("description") or ""
    call.need_commit(sha)
    if sent.get("state") not in ("error", "failure", "pending", "success"):
        raise refuse(422, "Validation Failed", [{"resource": "Status", "field": "state", "code": "custom"}])
    if len(description) > LONGEST_DESCRIPTION:
        words = f"description is too long (maximum is {LONGEST_DESCRIPTION} characters)"
        raise refuse(422, "Validation Failed", [{"resource": "Status", "field": "description", "message": words}])
    context, address = sent.get("context") or "default", sent.get("target_url") or ""
    said = {"context": context, "description": description, "target_url": address}
    made = call.new(Status, sha=sha, state=sent["state"], **said)
    call.world.statuses.append(made)
    return as_json(201, call.show.status(made))


def get_combined_status(call: Call, sha: str) -> Response:
    call.need_commit(sha)
    return as_json(200, call.show.combined(sha))


def get_ref(call: Call, name: str) -> Response:
    sha = call.history.heads().get(f"refs/{unquote(name)}")
    if sha is None:
        raise refuse(404, "Not Found")
    return as_json(200, call.show.ref(f"refs/{unquote(name)}", sha))


def _object(call: Call, name: str, most: int) -> dict[str, Any]:
    value = call.body().get(name) or {}
    if not isinstance(value, dict) or len(value) > most:
        raise refuse(422, f"Invalid request.\n\nNo more than {most} properties are allowed in {name}.")
    return value


def dispatch_workflow(call: Call, workflow: str) -> Response:
    ref = call.text("ref", "Workflow").removeprefix("refs/heads/")
    sha = call.history.heads().get(f"refs/heads/{ref}")
    if sha is None:
        raise refuse(422, f"No ref found for: {ref}")
    if call.history.file(sha, f".github/workflows/{workflow}") is None:
        raise refuse(404, "Not Found")
    call.outbox.dispatched(call.world, call.show, call.account, workflow, ref, _object(call, "inputs", MOST_INPUTS))
    if not call.body().get("return_run_details"):
        return Response(204)
    return as_json(200, call.show.started_run(call.world.new_id()))


def dispatch_repository(call: Call) -> Response:
    kind = call.text("event_type", "Dispatch")
    if len(kind) > LONGEST_KIND:
        raise refuse(422, f"Invalid request.\n\nevent_type is longer than {LONGEST_KIND} characters.")
    call.outbox.called(call.world, call.show, call.account, kind, _object(call, "client_payload", MOST_GIVEN))
    return Response(204)


Route: TypeAlias = tuple[str, str, Scope, Callable[..., Response]]
NUMBER, SHA, NAME = r"/(\d{1,18})", r"/([0-9a-f]{40})", r"/([^/]+)"
REPO = "/repos/{repo}"
COMMENT = rf"{REPO}/issues/comments{NUMBER}"
ROUTES: tuple[Route, ...] = (
    ("GET", "/user", "read", get_me),
    ("GET", rf"/users{NAME}", "read", get_user),
    ("GET", REPO, "read", get_repository),
    ("GET", rf"{REPO}/collaborators{NAME}/permission", "read", get_permission),
    ("GET", rf"{REPO}/pulls", "read", list_pulls),
    ("GET", rf"{REPO}/pulls{NUMBER}", "read", get_pull),
    ("GET", rf"{REPO}/pulls{NUMBER}/files", "read", list_files),
    ("GET", rf"{REPO}/pulls{NUMBER}/reviews", "read", list_reviews),
    ("POST", rf"{REPO}/pulls{NUMBER}/reviews", "comment", post_review),
    ("GET", rf"{REPO}/commits{SHA}/status", "read", get_combined_status),
    ("POST", rf"{REPO}/statuses{SHA}", "status", post_status),
    ("GET", rf"{REPO}/issues{NUMBER}/comments", "read", list_comments),
    ("POST", rf"{REPO}/issues{NUMBER}/comments", "comment", post_comment),
    ("GET", COMMENT, "read", get_comment),
    ("PATCH", COMMENT, "comment", edit_comment),
    ("GET", rf"{COMMENT}/reactions", "read", list_reactions),
    ("POST", rf"{COMMENT}/reactions", "comment", post_reaction),
    ("DELETE", rf"{COMMENT}/reactions{NUMBER}", "comment", delete_reaction),
    ("GET", rf"{REPO}/git/ref/(.+)", "read", get_ref),
    ("POST", rf"{REPO}/actions/workflows/([\w.-]+)/dispatches", "dispatch", dispatch_workflow),
    ("POST", rf"{REPO}/dispatches", "dispatch", dispatch_repository),
    ("POST", "/api/graphql", "comment", graphql.answer),  # not below /api/v3, on GitHub's own servers too
)


def answer(call: Call, path: str, more: tuple[Route, ...] = ()) -> Response | None:
    """The answer of the endpoint at `path`, or None when there is no such endpoint."""
    for method, pattern, scope, endpoint in (*ROUTES, *more):
        found = re.fullmatch(pattern.replace("{repo}", re.escape(call.world.repo)), path)
        if found and method == call.request.method:
            if scope not in call.token.scopes:
                raise refuse(403, "Resource not accessible by integration")
            return endpoint(call, *found.groups())
    return None
