"""What doctor says of one thing it looked at."""

from __future__ import annotations

from enum import StrEnum

from bot.model.word import Word


class Health(StrEnum):
    OK = "ok"
    WARNING = "warning"
    """It works with less, and the text says with what."""
    MISSING = "missing"
    NOT_CHECKED = "not checked"
    """Nobody could look; the text says who can, and where."""


class Probe(Word):
    name: str
    health: Health
    found: str
    todo: str = ""
    """What to do; empty when nothing is to be done."""


def ok(name: str, found: str) -> Probe:
    return Probe(name=name, health=Health.OK, found=found)


def warning(name: str, found: str, todo: str) -> Probe:
    return Probe(name=name, health=Health.WARNING, found=found, todo=todo)


def missing(name: str, found: str, todo: str) -> Probe:
    return Probe(name=name, health=Health.MISSING, found=found, todo=todo)


def not_checked(name: str, found: str, todo: str = "") -> Probe:
    return Probe(name=name, health=Health.NOT_CHECKED, found=found, todo=todo)
