"""Bad days that a test switches on with `hub.inject`: GitHub in trouble, GitHub's limits, answers that get lost."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Literal, TypeAlias

from bot.localhub.wire import Request, Response, refusal

Moment: TypeAlias = Literal["before", "after"]
SECONDARY = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
PRIMARY = "API rate limit exceeded for installation ID 1."
CREATIONS_A_MINUTE = 80
"""GitHub's own number for requests that make content, beside its limits on requests of any kind."""
WINDOW_S = 60.0


def in_trouble(status: int = 502) -> Response:
    """Its front answers for servers behind it: a page, not JSON."""
    return Response(status, b"<html><body>Unicorn!</body></html>", {"Content-Type": "text/html"})


def hang_up() -> Response:
    raise ConnectionAbortedError("the server hangs up")


def secondary_limit(seconds: int | None = None) -> Response:
    """Too much at once. Mostly it says for how long, sometimes not."""
    return refusal(403, SECONDARY, headers={} if seconds is None else {"Retry-After": str(seconds)})


def too_many(seconds: int | None = None) -> Response:
    return refusal(429, SECONDARY, headers={} if seconds is None else {"Retry-After": str(seconds)})


def primary_limit(reset: int) -> Response:
    """The hour's quota is used up until this second since 1970."""
    return refusal(403, PRIMARY, headers={"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(reset)})


class Gusts:
    """A storm: each request of the API may fail, before it took effect or after, in one of these ways."""

    ways: tuple[Callable[[], Response], ...] = (
        in_trouble,
        lambda: in_trouble(500),
        lambda: in_trouble(503),
        hang_up,
        lambda: secondary_limit(3),
        secondary_limit,
        lambda: too_many(2),
    )

    def __init__(self, dice: random.Random, chance: float, longest: int = 3) -> None:
        self._dice, self._chance, self._longest = dice, chance, longest
        self._in_a_row = 0

    def __call__(self, moment: Moment, request: Request) -> Response | None:
        """A refusal for its rate always comes before anything was done; a storm is never longer than `longest`."""
        if not request.path.startswith("/api/") or self._dice.random() >= self._chance:
            self._in_a_row *= moment == "before"
            return None
        if self._in_a_row == self._longest:
            self._in_a_row = 0
            return None
        self._in_a_row += 1
        return self._dice.choice(self.ways if moment == "before" else self.ways[:4])()


class Quota:
    """GitHub's secondary limit on what makes content: so much a minute, then a 403 that says when it is over."""

    def __init__(self, now: Callable[[], float], most: int = CREATIONS_A_MINUTE) -> None:
        self._now, self._most = now, most
        self._made: deque[float] = deque()

    def __call__(self, moment: Moment, request: Request) -> Response | None:
        if moment == "after" or request.method in ("GET", "HEAD") or not request.path.startswith("/api/"):
            return None
        now = self._now()
        while self._made and now - self._made[0] >= WINDOW_S:
            self._made.popleft()
        if len(self._made) >= self._most:
            return secondary_limit(int(WINDOW_S - (now - self._made[0])) + 1)
        self._made.append(now)
        return None
