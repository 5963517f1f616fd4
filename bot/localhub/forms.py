"""What a person posts on the page. It goes the way of every API request, so the API's rules hold here, too."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from bot.localhub.wire import Request, Response

LARGEST_FORM = 2**20
EVENTS = ("", "APPROVE", "REQUEST_CHANGES", "COMMENT")
"""A plain comment, or one of the three kinds of review."""
OWN = "You opened this pull request, and nobody approves or refuses their own work. Speak as somebody else, or comment."
EMPTY = "There is nothing to post yet. Write a line first; only an approval may go without words."
KIND_WORDS = {
    "Can not approve your own pull request": OWN,
    "Can not request changes on your own pull request": OWN,
    "Body can't be blank": EMPTY,
    "missing_field": EMPTY,
}


class Unposted(Exception):
    """Nothing was posted, and why."""


@dataclass(frozen=True, slots=True)
class Posted:
    """A filled form. Browsers end lines as typewriters do."""

    login: str
    event: str
    body: str

    @property
    def said(self) -> str:
        return self.body.replace("\r\n", "\n").replace("\r", "\n").strip("\n")


def fields(request: Request) -> dict[str, str]:
    if len(request.body) > LARGEST_FORM:
        raise Unposted("That is more than this page takes at once. Comments have at most 65536 characters.")
    try:
        given = parse_qs(request.body.decode(), keep_blank_values=True, max_num_fields=20)
    except ValueError as error:
        raise Unposted("The form could not be read. Load the page again and send it once more.") from error
    return {name: values[-1] for name, values in given.items()}


def read(given: Mapping[str, str], people: tuple[str, ...]) -> Posted:
    posted = Posted(given.get("as", ""), given.get("event", ""), given.get("body", ""))
    if posted.login not in people:
        raise Unposted(f"Choose who speaks: {', '.join(people)}." if people else "This page is for reading only.")
    if posted.event not in EVENTS:
        raise Unposted("A review approves, requests changes or comments; this one does none of them.")
    if not posted.said.strip() and posted.event != "APPROVE":
        raise Unposted(EMPTY)
    return posted


def _why(response: Response) -> str:
    """The API's refusal in a person's words."""
    told: dict[str, Any] = json.loads(response.body)
    for error in told.get("errors") or ():
        code = error if isinstance(error, str) else error.get("message") or error.get("code") or ""
        return KIND_WORDS.get(code, str(code) or str(told["message"]))
    return str(told["message"])


def post(posted: Posted, number: int, api: str, token: str, carry_out: Callable[[Request], Response]) -> int:
    """Post it as this person; returns the id of what was said."""
    if posted.event:
        path, sent = f"{api}/pulls/{number}/reviews", {"event": posted.event, "body": posted.said}
    else:
        path, sent = f"{api}/issues/{number}/comments", {"body": posted.said}
    body = json.dumps(sent).encode()
    response = carry_out(Request("POST", path, headers={"authorization": f"token {token}"}, body=body))
    if not response.ok:
        raise Unposted(_why(response))
    return int(json.loads(response.body)["id"])
