"""Listens to the embedded GitHub while tests use it, and holds every exchange of another shape against the judge.

A test package takes part by importing the fixture `judged` in its conftest.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from bot.localhub.desk import Desk
from bot.localhub.wire import Request, Response
from tests.openapi.judge import API, Exchange, route_of, wrong

WORD = 24
"""A shorter text without blanks or digits may be one of an enumeration, so it is part of the shape."""


def _shape(part: Any) -> Any:
    """What a schema can tell apart. Most exchanges of a test run have the shape of one before them."""
    match part:
        case dict():
            return tuple((name, _shape(part[name])) for name in sorted(part))
        case list():
            return tuple(sorted({repr(_shape(inner)) for inner in part}))
        case str():
            return part if len(part) < WORD and part.replace("_", "").isalpha() else "a text" if part else ""
        case _:
            return type(part).__name__


def _read(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except ValueError:
        return "not JSON"


class Recorder:
    def __init__(self) -> None:
        self._seen: set[object] = set()
        self.routes: set[tuple[str, str, int]] = set()
        self.exchanges = 0
        self._wrong: list[str] = []

    def hear(self, request: Request, response: Response) -> None:
        if not request.path.startswith(f"{API}/") or response.status in (401, 501):
            return
        self.exchanges += 1
        route = route_of(request.path.removeprefix(API)) or request.path
        self.routes.add((request.method, route, response.status))
        sent, came = _shape(_read(request.body)), _shape(_read(response.body))
        key = (request.method, route, response.status, tuple(sorted(request.query)), sent, came)
        if key in self._seen:
            return
        self._seen.add(key)
        self._wrong += wrong(
            Exchange(
                method=request.method,
                path=request.path,
                query=request.query,
                sent=request.body,
                status=response.status,
                answer=response.body,
            )
        )

    def taken(self) -> list[str]:
        """What was wrong since this was last asked."""
        found, self._wrong = self._wrong, []
        return found


RECORDER = Recorder()


@pytest.fixture(scope="session")
def recorder() -> Iterator[Recorder]:
    """One for the whole run, whichever packages take part."""
    carry_out = Desk.carry_out
    if getattr(carry_out, "is_judged", False):
        yield RECORDER
        return

    def listened(self: Desk, request: Request) -> Response:
        response = carry_out(self, request)
        RECORDER.hear(request, response)
        return response

    listened.is_judged = True  # type: ignore[attr-defined]
    Desk.carry_out = listened  # type: ignore[method-assign]
    yield RECORDER
    Desk.carry_out = carry_out  # type: ignore[method-assign]


@pytest.fixture(autouse=True)
def judged(recorder: Recorder) -> Iterator[None]:
    """Fails the test in which an exchange was not GitHub's."""
    yield
    found = recorder.taken()
    assert not found, "\n".join(found)
