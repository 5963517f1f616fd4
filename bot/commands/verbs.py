"""The table of what can be said. It drives the parser and the help page."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from bot.commands.mistakes import Mistake, extra_words, no_commit, not_a_variant, try_of_variant
from bot.commands.options import read_sha
from bot.commands.quoting import bare, paste
from bot.model.commands import (
    MOST_VARIANTS,
    Approve,
    Cancel,
    Command,
    Explain,
    Help,
    ListKernels,
    Reject,
    Restart,
    Retry,
    Status,
    Try,
)
from bot.model.reasons import ReasonCode


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
    """Whoever needs help gets it: a word that is no reason code is passed over."""
    said = bare((rest.split() or [""])[0]).lower().replace("-", "_")
    return Help(topic=ReasonCode(said) if said in list(ReasonCode) else None)


def _variant(rest: str, verb: str) -> int | None:
    """`v3` or `3`; None where no variant was named. What is only almost one is offered, not taken."""
    words = _words(re.sub(r"\Avariant\s+", "", rest.strip(), flags=re.IGNORECASE), 1, verb, f"/optimize {verb} [vN]")
    if not words:
        return None
    found = re.fullmatch(r"[vV]?([0-9]{1,3})", words[0])
    if found is None or int(found[1]) > MOST_VARIANTS:
        digits = re.search(r"[0-9]{1,3}", words[0])
        meant = f"v{int(digits[0])}" if digits and int(digits[0]) <= MOST_VARIANTS else ""
        raise Mistake(not_a_variant(words[0], MOST_VARIANTS, verb, meant))
    return int(found[1])


def _approve(rest: str) -> Command:
    return Approve(variant=_variant(rest, "approve"))


def _explain(rest: str) -> Command:
    return Explain(variant=_variant(rest, "explain"))


def _restart(rest: str) -> Command:
    words = _words(rest, 1, "restart", "/optimize restart [sha]")
    return Restart(sha=read_sha(words[0], lambda better: "")) if words else Restart()


def _reject(rest: str) -> Command:
    return Reject(reason=rest.strip(" \t\"'"))


def _try(rest: str) -> Command:
    words = _words(rest, 1, "try", "/optimize try <sha>")
    if not words:
        raise Mistake(no_commit())
    if found := re.fullmatch(r"[vV]([0-9]{1,3})", words[0]):
        raise Mistake(try_of_variant(f"v{int(found[1])}"))
    return Try(sha=read_sha(words[0], lambda better: ""))


START = "/optimize <kernel> [options]"
START_EXAMPLE = "/optimize rms_norm goal=speed"
VERBS: tuple[Verb, ...] = (
    Verb(
        name="help",
        usage="/optimize help [reason]",
        summary="shows this page, or what a reason code means",
        example="/optimize help ref_changed",
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
        name="explain",
        usage="/optimize explain [vN]",
        summary="tells what a variant tried, what came of it, and why it was kept or dropped",
        example="/optimize explain v2",
        read=_explain,
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
    Verb(
        name="retry",
        usage="/optimize retry",
        summary="does a job that failed again, at the same commit; what was found stays",
        example="/optimize retry",
        read=_alone(Retry()),
    ),
    Verb(
        name="restart",
        usage="/optimize restart [sha]",
        summary="ends the open campaign, if there is one, and begins anew on the current head with its options",
        example="/optimize restart",
        read=_restart,
    ),
)
WORDS = {verb.name: verb for verb in VERBS}
MEANT = {
    **dict.fromkeys(("stop", "abort", "kill", "halt", "end", "quit"), "cancel"),
    **dict.fromkeys(("yes", "y", "ok", "okay", "accept", "lgtm", "go", "continue", "ship", "merge", "push"), "approve"),
    **dict.fromkeys(("no", "n", "deny", "decline", "refuse", "drop"), "reject"),
    **dict.fromkeys(("why", "show", "describe", "details", "diff", "what"), "explain"),
    **dict.fromkeys(("rerun", "again", "resume", "redo", "repeat"), "retry"),
    **dict.fromkeys(("reset", "fresh", "anew"), "restart"),
    **dict.fromkeys(("progress", "state", "where", "queue", "eta", "ping"), "status"),
    **dict.fromkeys(("kernels", "ls", "targets"), "list"),
    **dict.fromkeys(("usage", "commands", "options", "info", "man"), "help"),
    **dict.fromkeys(("test", "measure", "judge", "bench", "benchmark"), "try"),
}
"""What people say for a verb. It is offered to them and never taken: a guess must not push, stop or start anything."""
