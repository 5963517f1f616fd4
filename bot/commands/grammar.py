"""From the text of a comment to a Command, or to a CommandError that says how to write it right."""

from __future__ import annotations

import re
from collections.abc import Collection

from bot.commands import mistakes, optimize
from bot.commands.markdown import COMMAND, command_lines, looks_like_command
from bot.commands.mistakes import Mistake
from bot.commands.names import known
from bot.commands.quoting import bare, unseen, visible, without_unseen
from bot.commands.verbs import VERBS, WORDS
from bot.model.commands import Command, CommandError, Help

__all__ = ["VERBS", "parse"]

LONGEST_COMMENT = 65_536
"""GitHub's own limit for a comment."""
LONGEST_LINE = 1000
_ALMOST = re.compile(r"\A {0,3}(/(?:optimise|optimisze|optmize|optimze|optimse))(?=\s|\Z)([^\n]*)", re.IGNORECASE)
"""How the command is misspelled most. Only as the first word of a comment, where it can be nothing else."""
ASKING = ("?", "-h", "--help")


def _read(line: str, kernels: Collection[str]) -> Command:
    body = re.sub(r"\A[.,:;!?]+(?=\s|\Z)", "", visible(line[len(COMMAND) :])).strip()
    first, *rest = without_unseen(body).split(maxsplit=1) or [""]
    verb = WORDS.get(bare(first).lower())
    if verb is not None and verb.name == "reject":
        # The reason is prose: nobody acts on it, and emoji are made of joiners.
        return verb.read("".join(rest))
    if hidden := unseen(body):
        raise Mistake(mistakes.unseen_characters(hidden, without_unseen(body).split()))
    if first in ASKING:
        return Help()
    return verb.read("".join(rest)) if verb else optimize.read(body, kernels)


def _only(lines: tuple[str, ...]) -> str:
    if len(lines) > 1:
        raise Mistake(mistakes.several(lines))
    if len(lines[0]) > LONGEST_LINE:
        raise Mistake(mistakes.comment_too_long(len(lines[0]), LONGEST_LINE, "command line"))
    return lines[0]


def _offered(error: CommandError, kernels: Collection[str]) -> CommandError:
    """A line offered for pasting is one that works; any other is worse than none."""
    try:
        if error.paste:
            _read(error.paste, kernels)
    except Mistake:
        return error.model_copy(update={"paste": ""})
    return error


def parse(text: str, kernels: Collection[str]) -> Command | CommandError | None:
    """None when the comment holds no command. Never raises."""
    if len(text) > LONGEST_COMMENT:
        # Too long for Markdown; a person who means a command still hears why nothing happens.
        return mistakes.comment_too_long(len(text), LONGEST_COMMENT, "comment") if looks_like_command(text) else None
    lines = command_lines(text)
    try:
        if lines:
            return _read(_only(lines), known(kernels))
        if almost := _ALMOST.match(text):
            raise Mistake(mistakes.misspelt_command(almost[1], almost[2].strip()[:LONGEST_LINE]))
        return None
    except Mistake as mistake:
        return _offered(mistake.error, known(kernels))
