"""The table of what can be said. It drives the parser and the help page."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from bot.commands.mistakes import Mistake, extra_words, no_commit, not_a_variant
from bot.commands.options import read_sha
from bot.commands.quoting import bare, paste
from bot.model.commands import MOST_VARIANTS, Approve, Cancel, Command, Help, ListKernels, Reject, Status, Try


@dataclass(frozen=True, slots=True)
class Verb:
    name: str
    usage: str
    summary: str
    example: str
    read: Callable[[str], Command] = field(repr=False)
    """The text behind the verb -> the command; raises Mistake."""


def _words(rest: str, most: int, verb: str, usage: str) -> list[str]:
    """The words behind a verb, without quotation rules: `it's` is a word here."""
    words = [word for word in map(bare, rest.split()) if word]
    if len(words) > most:
        line = paste(["/optimize", verb, *words[:most]])
        raise Mistake(extra_words(verb, usage, words[most:], line))
    return words


def _alone(command: Command) -> Callable[[str], Command]:
    def read(rest: str) -> Command:
        _words(rest, 0, command.verb, f"/optimize {command.verb}")
        return command

    return read


def _help(rest: str) -> Command:
    return Help()


def _approve(rest: str) -> Command:
    words = _words(rest, 1, "approve", "/optimize approve [vN]")
    if not words:
        return Approve()
    found = re.fullmatch(r"[vV]?([0-9]{1,3})", words[0])
    if found is None or int(found[1]) > MOST_VARIANTS:
        raise Mistake(not_a_variant(words[0], MOST_VARIANTS))
    return Approve(variant=int(found[1]))


def _reject(rest: str) -> Command:
    return Reject(reason=rest.strip(" \t\"'"))


def _try(rest: str) -> Command:
    words = _words(rest, 1, "try", "/optimize try <sha>")
    if not words:
        raise Mistake(no_commit())
    return Try(sha=read_sha(words[0], lambda better: ""))


START = "/optimize <kernel> [options]"
START_EXAMPLE = "/optimize rms_norm goal=speed"
VERBS: tuple[Verb, ...] = (
    Verb(
        name="help",
        usage="/optimize help",
        summary="shows this page",
        example="/optimize help",
        read=_help,
    ),
    Verb(
        name="list",
        usage="/optimize list",
        summary="lists the kernels that can be optimised",
        example="/optimize list",
        read=_alone(ListKernels()),
    ),
    Verb(
        name="status",
        usage="/optimize status",
        summary="says where the campaign stands",
        example="/optimize status",
        read=_alone(Status()),
    ),
    Verb(
        name="approve",
        usage="/optimize approve [vN]",
        summary="says yes to the question that waits; `vN` picks another accepted variant",
        example="/optimize approve v3",
        read=_approve,
    ),
    Verb(
        name="reject",
        usage="/optimize reject [reason]",
        summary="says no to the question that waits; nothing is pushed",
        example="/optimize reject too complicated for what it gains",
        read=_reject,
    ),
    Verb(
        name="cancel",
        usage="/optimize cancel",
        summary="stops the campaign; nothing is pushed",
        example="/optimize cancel",
        read=_alone(Cancel()),
    ),
    Verb(
        name="try",
        usage="/optimize try <sha>",
        summary="measures the kernel as it stands in a commit of yours",
        example="/optimize try 27debc3",
        read=_try,
    ),
)
WORDS = {verb.name: verb for verb in VERBS}
