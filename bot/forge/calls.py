"""What a call to GitHub can come to: errors in our words, and the only place that sends anything again."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import TypeVar

from bot.errors import ForgeError

MOST_ATTEMPTS = 4
LONGEST_WAIT_S = 120.0
"""A longer rate limit is not waited for: the job ends and says when to try again."""
FIRST_WAIT_S = 1.0
UNSAID_LIMIT_S = 60.0
"""What GitHub's manual asks for where the answer itself does not say how long."""
UNDECIDED = frozenset({500, 502, 503, 504})
"""GitHub may or may not have carried the request out."""
HINTS: Mapping[int, str] = {
    401: "the token is wrong or has expired; check the secret this job passes as KERNELWRIGHT_TOKEN",
    403: "the token of this job lacks a right; look at `permissions:` in the workflow",
    404: "it does not exist, or the token of this job may not see it",
    422: "GitHub understood the request and refuses its content",
}

T = TypeVar("T")


class CallFailed(ForgeError):
    """One call that GitHub refused or did not answer. `status` is 0 when there was no answer at all."""

    def __init__(self, message: str, *, status: int, hint: str, wait_s: float | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.wait_s = wait_s
        """What GitHub asked us to wait; None when it did not ask."""

    @property
    def undecided(self) -> bool:
        return self.status == 0 or self.status in UNDECIDED

    @property
    def worth_repeating(self) -> bool:
        return self.undecided or self.wait_s is not None


def _until_reset(headers: Mapping[str, str]) -> float | None:
    """Seconds until the hour's quota is full again, by GitHub's own clock."""
    reset, date = headers.get("x-ratelimit-reset", ""), headers.get("date", "")
    if headers.get("x-ratelimit-remaining") != "0" or not reset.isdecimal():
        return None
    try:
        return max(1.0, float(reset) - parsedate_to_datetime(date).timestamp() + 1.0)
    except (TypeError, ValueError):
        return None


def _wait_of(status: int, message: str, headers: Mapping[str, str]) -> float | None:
    """None when this is no matter of rates. GraphQL's limit comes as one of its errors, which PyGithub calls 400."""
    limited = any(word in message.lower() for word in ("rate limit", "abuse detection"))
    after = headers.get("retry-after", "")
    if status in (403, 429) and after.isdecimal():
        return float(after)
    if status == 429 or (status in (400, 403) and limited):
        return _until_reset(headers) or UNSAID_LIMIT_S
    return None


def _words(data: object) -> tuple[str, str]:
    """GitHub's message, and its details where they are something else. GraphQL has a list of errors and no message."""
    content = data if isinstance(data, dict) else {}
    errors = content.get("errors")
    if "message" not in content and isinstance(errors, list):
        said = "; ".join(str(error.get("message")) for error in errors if isinstance(error, dict))
        return said or "no reason given", ""
    return str(content.get("message") or data or "no reason given"), f": {errors}" if errors else ""


def _failed(what: str, status: int, data: object, headers: Mapping[str, str]) -> CallFailed:
    message, details = (text[:300] for text in _words(data))
    wait = _wait_of(status, message, headers)
    hint = HINTS.get(status, "GitHub is in trouble; run this job again, nothing will be done twice")
    if wait is not None:
        hint = f"GitHub limits how often we may call; run this job again in {wait:.0f} s or later"
    return CallFailed(f"{what}: GitHub answered {status}, {message}{details}", status=status, hint=hint, wait_s=wait)


@contextmanager
def calling(what: str) -> Iterator[None]:
    """Errors of PyGithub and of the network leave as ours, with what we were about."""
    from github import GithubException
    from requests import RequestException

    try:
        yield
    except GithubException as error:
        headers = {name.lower(): str(value) for name, value in (error.headers or {}).items()}
        raise _failed(what, error.status, error.data, headers) from error
    except RequestException as error:
        hint = "look at the network and at the address of the API, then run this job again"
        raise CallFailed(f"{what}: no answer from GitHub ({type(error).__name__})", status=0, hint=hint) from error


def _pause(failure: CallFailed, attempt: int, most: int) -> float | None:
    """How long to wait before this is tried again; None when it is not."""
    wait = failure.wait_s or FIRST_WAIT_S * 2**attempt * random.uniform(0.5, 1.5)
    if not failure.worth_repeating or wait > LONGEST_WAIT_S or attempt + 1 == most:
        return None
    return wait


def read(what: str, ask: Callable[[], T], sleep: Callable[[float], None], most: int = MOST_ATTEMPTS) -> T:
    """What `ask` gives, asked again while GitHub is in trouble: reading changes nothing."""
    for attempt in range(most):
        try:
            with calling(what):
                return ask()
        except CallFailed as failure:
            wait = _pause(failure, attempt, most)
            if wait is None:
                raise
        sleep(wait)
    raise AssertionError("the last attempt returns or raises")


def if_there(
    what: str, ask: Callable[[], T], sleep: Callable[[float], None], absent: Collection[int] = (404,)
) -> T | None:
    """What `ask` gives, or None when GitHub says that there is no such thing."""
    try:
        return read(what, ask, sleep)
    except CallFailed as failure:
        if failure.status in absent:
            return None
        raise


def write(
    act: Callable[[], T], find: Callable[[], T | None] | None, sleep: Callable[[float], None], most: int = MOST_ATTEMPTS
) -> T:
    """Do it, and again while GitHub is in trouble, but only after looking whether it was done after all.

    Without `find` an attempt that may have been carried out is never repeated.
    """
    for attempt in range(most):
        try:
            return act()
        except CallFailed as failure:
            wait = _pause(failure, attempt, most)
            if wait is None or (failure.undecided and find is None):
                raise
        sleep(wait)
        done = find() if find is not None else None
        if done is not None:
            return done
    raise AssertionError("the last attempt returns or raises")
