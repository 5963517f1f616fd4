"""Who asks, what GitHub says of them, and the two answers."""

from __future__ import annotations

from enum import StrEnum

from bot.model.ids import Login
from bot.model.reasons import ReasonCode
from bot.model.word import Word


class Role(StrEnum):
    """`role_name` of the collaborator-permission API; NONE when the API says 404."""

    NONE = "none"
    READ = "read"
    TRIAGE = "triage"
    WRITE = "write"
    MAINTAIN = "maintain"
    ADMIN = "admin"

    @property
    def may_write(self) -> bool:
        return self in (Role.WRITE, Role.MAINTAIN, Role.ADMIN)

    def at_least(self, needed: str) -> bool:
        order = list(Role)
        return order.index(self) >= order.index(Role(needed))


class Actor(Word):
    """An account. The numeric id is the identity; a login can be renamed and taken over."""

    id: int
    login: Login
    is_bot: bool = False


class Standing(Word):
    role: Role
    wrote_pull: bool = False
    trusted_pull: bool = True
    """Whether a writer wrote the pull request, on a branch of this repository. Else the code in it is a stranger's."""
    gpu_seconds_today: float = 0.0
    """GPU time of this person's campaigns since midnight UTC, with what is now running at its limit."""


class Grant(Word):
    """The command may be carried out."""


class Refusal(Word):
    """The command may not be carried out: what happened, why, and what to type next."""

    code: ReasonCode
    what: str
    why: str
    next: str
    paste: str = ""
