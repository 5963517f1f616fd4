"""The one corner of GraphQL that we need: a document is known by the field it asks for, its answer made by hand."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from bot.localhub.shapes import node_id
from bot.localhub.wire import Response, as_json, refuse
from bot.localhub.world import Comment

if TYPE_CHECKING:
    from bot.localhub.api import Call

Json = dict[str, Any]
FIELD = re.compile(r"\s*mutation\b[^{]*\{\s*(\w+)\s*\(\s*input\s*:\s*\$input\s*\)\s*\{(.*)\}\s*\}\s*", re.DOTALL)
CLASSIFIERS = ("ABUSE", "DUPLICATE", "OFF_TOPIC", "OUTDATED", "RESOLVED", "SPAM")


class Unanswerable(Exception):
    """What GraphQL puts among its `errors`: the request itself succeeded."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def _named(call: Call, subject: object) -> Comment:
    found = next((c for c in call.world.comments.values() if node_id("IC", c.id) == subject), None)
    if found is None:
        raise Unanswerable("NOT_FOUND", f"Could not resolve to a node with the global id of '{subject}'")
    return found


def _minimize_comment(call: Call, given: Mapping[str, Any]) -> Json:
    comment, classifier = _named(call, given.get("subjectId")), given.get("classifier")
    if classifier not in CLASSIFIERS:
        words = f"Expected {classifier!r} to be one of: {', '.join(CLASSIFIERS)}"
        raise Unanswerable(
            "INVALID", f"Variable $input of type MinimizeCommentInput! was provided invalid value. {words}"
        )
    if not call.account.role.may_write:
        raise Unanswerable("FORBIDDEN", f"{call.account.login} does not have the correct permissions to execute it")
    comment.minimized = str(classifier).lower()
    return {"minimizedComment": {"isMinimized": True, "minimizedReason": comment.minimized}}


MUTATIONS: dict[str, Callable[[Call, Mapping[str, Any]], Json]] = {"minimizeComment": _minimize_comment}


def _chosen(shape: Json, selection: str) -> Json:
    """Of an object inside the answer only the fields that were asked for. One level is all our documents have."""
    asked = set(re.findall(r"\w+", selection))
    return {name: {field: value for field, value in part.items() if field in asked} for name, part in shape.items()}


def answer(call: Call) -> Response:
    sent = call.body()
    asked, given = FIELD.fullmatch(str(sent.get("query"))), sent.get("variables")
    if asked is None or asked[1] not in MUTATIONS:
        raise refuse(501, f"no scenario needed {str(sent.get('query'))[:200]!r} so far")
    try:
        shape = MUTATIONS[asked[1]](call, given.get("input", {}) if isinstance(given, dict) else {})
    except Unanswerable as error:
        said = {"type": error.kind, "path": [asked[1]], "message": str(error)}
        return as_json(200, {"data": {asked[1]: None}, "errors": [said]})
    return as_json(200, {"data": {asked[1]: _chosen(shape, asked[2])}})
