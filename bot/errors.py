"""What can go wrong, sorted by who can mend it. A bad variant is not an error: it is a finding."""

from __future__ import annotations

from bot.model.reasons import ReasonCode


class BotError(Exception):
    """Base of all ours. `hint` says what to do next."""

    exit_code = 70
    reason = ReasonCode.INTERNAL_ERROR

    def __init__(self, message: str, *, hint: str = "", reason: ReasonCode | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        if reason is not None:
            self.reason = reason


class UserError(BotError):
    """The person who asked can mend it: a wrong name, a missing file, a bad option, an answer that is awaited."""

    exit_code = 2
    reason = ReasonCode.BAD_VALUE


class OperatorError(BotError):
    """Whoever runs the machine can mend it: a missing tool, a token without a right, a sick GPU."""

    exit_code = 3
    reason = ReasonCode.COMPUTE_FAILED


class CorruptRecord(BotError):
    """Something that should be ours cannot be read. Nothing is guessed from it."""

    exit_code = 4
    reason = ReasonCode.ARTIFACT_REJECTED


def why_unread(error: OSError) -> ReasonCode:
    """A file that is not there is another matter than one that may not be read."""
    return ReasonCode.NOT_FOUND if isinstance(error, FileNotFoundError) else ReasonCode.BAD_VALUE


class ForgeError(BotError):
    """GitHub refused or did not answer."""

    exit_code = 5


class GitError(BotError):
    """A git command failed."""

    exit_code = 6


class Conflict(GitError):
    """Somebody else moved the ref first. A normal outcome: read again and decide again."""


class Overtaken(Conflict):
    """What was to be written has no more reason, whatever else moved. Trying again would change nothing."""
