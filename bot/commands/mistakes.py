"""What can be wrong with a command line, each with its way out. Values have theirs beside the table of options."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from bot.commands.quoting import LONGEST_PASTE, paste, shown
from bot.model.commands import CommandError
from bot.model.reasons import ReasonCode

HELP = "`/optimize help` shows every command."
LISTED = 240
"""Characters of kernel names that one sentence lists; a comment cuts longer sentences."""


class Mistake(Exception):
    """Carries the answer to where the parser began. Never leaves this room."""

    def __init__(self, error: CommandError) -> None:
        super().__init__(error.what)
        self.error = error


def choices(names: Sequence[str]) -> str:
    """`a`, `b` or `c`"""
    quoted = [f"`{name}`" for name in names]
    return f"{', '.join(quoted[:-1])} or {quoted[-1]}" if len(quoted) > 1 else "".join(quoted)


def listed(kernels: Collection[str]) -> str:
    """As many names as fit, and how many do not."""
    fitting: list[str] = []
    for name in kernels:
        if sum(len(one) + 4 for one in fitting) + len(name) > LISTED:
            break
        fitting.append(name)
    more = len(kernels) - len(fitting)
    return ", ".join(f"`{name}`" for name in fitting) + (f" and {more} more" if more else "")


def comment_too_long(length: int, most: int, what: str) -> CommandError:
    return CommandError(
        code=ReasonCode.COMMENT_TOO_LONG,
        what=f"the {what} has {length} characters, and at most {most} characters are read",
        why="A command fits on one line; reading megabytes for one would only help somebody who wants to keep me busy.",
        hint="Write the command in a short comment of its own.",
        paste="/optimize help",
    )


def several(lines: Sequence[str]) -> CommandError:
    first = lines[0] if re.fullmatch(r"[ -_a-~]+", lines[0]) and len(lines[0]) <= LONGEST_PASTE else ""
    return CommandError(
        code=ReasonCode.MULTIPLE_COMMANDS,
        what=f"this comment holds {len(lines)} commands, {shown(lines[0])} and {shown(lines[1])} among them",
        why="One comment is one command, so that it is clear which one was answered. None was carried out.",
        hint="Write each one in a comment of its own, one after the other.",
        paste=first,
    )


def unseen_characters(found: Sequence[str], words: Sequence[str]) -> CommandError:
    return CommandError(
        code=ReasonCode.PARSE_ERROR,
        what=f"the command holds characters nobody can see ({', '.join(found[:5])})",
        why="They make a line read differently from what it says, so I do not act on it.",
        hint="Type the line instead of pasting it from elsewhere.",
        paste=paste(["/optimize", *words]),
    )


def ends_in_backslash() -> CommandError:
    return CommandError(
        code=ReasonCode.PARSE_ERROR,
        what="the line ends in a backslash",
        why="A backslash keeps the character behind it as it is, and there is none.",
        hint="Remove the backslash and write the command in a new comment.",
    )


def unclosed_quote(rest: str) -> CommandError:
    return CommandError(
        code=ReasonCode.UNCLOSED_QUOTE,
        what=f"a quotation mark opens at {shown(rest)} and never closes",
        why="Text in quotation marks is one value, so I cannot tell where this one ends.",
        hint='Close it on the same line, as in `target="forward under 0.3ms"`. Prose belongs on another line.',
    )


def no_kernel(kernels: Sequence[str], rest: Sequence[str] = ()) -> CommandError:
    known = f"These can be optimised: {listed(kernels)}." if kernels else "I know no kernel in this repository."
    return CommandError(
        code=ReasonCode.MISSING_VALUE,
        what="no kernel was named",
        why=known,
        hint=f"Write the kernel behind the command. {HELP}",
        paste=paste(["/optimize", kernels[0], *rest]) if kernels else "/optimize help",
    )


def unknown_kernel(word: str, close: Sequence[str], kernels: Sequence[str], line: str) -> CommandError:
    known = f"These are known on the default branch: {listed(kernels)}." if kernels else "No kernel is known here."
    return CommandError(
        code=ReasonCode.UNKNOWN_KERNEL,
        what=f"{shown(word)} is not a kernel here",
        why=f"A kernel is looked up by its name, never by a path. {known}",
        hint=f"Did you mean {choices(close)}?" if close else "`/optimize list` shows the kernels.",
        paste=line if close else "/optimize list",
        kernel=word,
    )


def hindered(code: ReasonCode, what: str, hint: str) -> CommandError:
    """A kernel that is here, and lacks what it takes to be optimised."""
    return CommandError(
        code=code,
        what=what,
        why="Kernels are looked up on the default branch: what a pull request adds counts once it is merged.",
        hint=f"{hint[:1].upper()}{hint[1:]}.",
    )


def misspelt_command(word: str, rest: str) -> CommandError:
    """`/optimise rms_norm`"""
    return CommandError(
        code=ReasonCode.UNKNOWN_VERB,
        what=f"{shown(word)} is not my command",
        why="It is spelled `/optimize`, with a z, and I do not act on a word that is only almost a command.",
        hint="Did you mean the line below?",
        paste=paste(["/optimize", *rest.split()]),
    )


def unknown_verb(word: str, close: Sequence[str], line: str) -> CommandError:
    return CommandError(
        code=ReasonCode.UNKNOWN_VERB,
        what=f"{shown(word)} is neither a command nor a kernel here",
        why="I do not act on a word that is only almost a command.",
        hint=f"Did you mean {choices(close)}? {HELP}",
        paste=line,
    )


def unknown_option(word: str, close: Sequence[str], options: Sequence[str], line: str) -> CommandError:
    return CommandError(
        code=ReasonCode.UNKNOWN_OPTION,
        what=f"{shown(word)} is not an option",
        why=f"The options are {', '.join(f'`{name}`' for name in options)}.",
        hint=f"Did you mean {choices(close)}?" if close else HELP,
        paste=line if close else "",
    )


def stray_word(word: str, line: str, better: str = "") -> CommandError:
    """`better` is the option and value that were meant, where one is near."""
    return CommandError(
        code=ReasonCode.UNKNOWN_OPTION,
        what=f"I do not know what {shown(word)} is for",
        why="One command names one kernel; options like `goal=speed` follow, values with spaces in quotation marks.",
        hint=f"Did you mean `{better}`?"
        if better
        else f"Write the option's name before a value, and prose on another line. {HELP}",
        paste=line,
    )


def extra_words(verb: str, usage: str, words: Sequence[str], line: str) -> CommandError:
    return CommandError(
        code=ReasonCode.UNKNOWN_OPTION,
        what=f"I do not know what {shown(' '.join(words))} behind `{verb}` is for",
        why=f"The command is `{usage}`. Prose belongs on another line.",
        hint="Write the command alone.",
        paste=line,
    )


def twice(name: str) -> CommandError:
    return CommandError(
        code=ReasonCode.DUPLICATE_OPTION,
        what=f"`{name}` is given twice",
        why="I do not guess which of the two you mean; an old name of an option counts as the option.",
        hint=f"Keep one `{name}` and write the command in a new comment.",
    )


def missing_value(name: str, values: str, line: str) -> CommandError:
    return CommandError(
        code=ReasonCode.MISSING_VALUE,
        what=f"`{name}` has no value",
        why=f"`{name}` takes {values}.",
        hint=f"Write `{name}=` and the value behind it.",
        paste=line,
    )


def bad_value(name: str, value: str, why: str, better: str, line: str) -> CommandError:
    return CommandError(
        code=ReasonCode.BAD_VALUE,
        what=f"{shown(value)} is not a value of `{name}`",
        why=why,
        hint=f"Did you mean `{name}={better}`?" if better else f"Write `{name}=` and one of these.",
        paste=line,
    )


def not_a_sha(value: str) -> CommandError:
    return CommandError(
        code=ReasonCode.BAD_VALUE,
        what=f"{shown(value)} is not the SHA of a commit",
        why="A commit is named by 7 to 40 hexadecimal digits of its SHA; a branch or a tag can move.",
        hint="Copy the SHA from the pull request's list of commits.",
    )


def no_commit() -> CommandError:
    return CommandError(
        code=ReasonCode.MISSING_VALUE,
        what="`try` has no commit",
        why="The kernel's file as it stands in a commit becomes a variant, so I need to know which commit.",
        hint="Push the commit to a branch, then write `/optimize try` and 7 or more digits of its SHA.",
    )


def try_of_variant(name: str) -> CommandError:
    return CommandError(
        code=ReasonCode.BAD_VALUE,
        what=f"{name} is a variant, and `try` takes a commit",
        why="A variant of the campaign was judged already; `try` brings a source of yours.",
        hint=f"Did you mean `/optimize explain {name}`?",
        paste=f"/optimize explain {name}",
    )


def needless_word(word: str, line: str) -> CommandError:
    """`/optimize run rms_norm`"""
    return CommandError(
        code=ReasonCode.UNKNOWN_VERB,
        what=f"{shown(word)} is not a command",
        why="To start a campaign, the kernel stands right behind `/optimize`.",
        hint=f"Did you mean `{line}`?" if line else HELP,
        paste=line,
    )


def not_a_variant(word: str, last: int, verb: str, meant: str) -> CommandError:
    """`meant` is the variant whose number the word holds, if it holds one."""
    without = "take the recommended one" if verb == "approve" else "hear about the best one"
    return CommandError(
        code=ReasonCode.BAD_VALUE,
        what=f"{shown(word)} is not a variant",
        why=f"Variants are named v1, v2 and so on, v{last} at most.",
        hint=f"Did you mean {choices([meant])}?" if meant else f"Name one from the table, or none to {without}.",
        paste=paste(["/optimize", verb, meant]),
    )


def variant_alone(name: str, lines: Sequence[str]) -> CommandError:
    """`/optimize v3`: which verb was meant is not guessed; the line offered changes nothing."""
    return CommandError(
        code=ReasonCode.MISSING_VALUE,
        what=f"you named {name}, and not what to do with it",
        why="A variant can be explained, and while its question waits it can be approved.",
        hint=f"Did you mean {choices(lines)}?",
        paste=lines[0],
    )


def verb_behind(verb: str, line: str) -> CommandError:
    """`/optimize rms_norm cancel`, `/optimize --cancel`"""
    return CommandError(
        code=ReasonCode.UNKNOWN_OPTION,
        what=f"`{verb}` is a command of its own",
        why="It stands right behind `/optimize`, without a kernel: a pull request has one campaign at a time.",
        hint=f"Did you mean `{line}`?",
        paste=line,
    )


def split_name(words: Sequence[str], kernel: str, line: str) -> CommandError:
    """`/optimize cross entropy`"""
    return CommandError(
        code=ReasonCode.UNKNOWN_KERNEL,
        what=f"{shown(' '.join(words))} is not a kernel here",
        why="A kernel's name is one word.",
        hint=f"Did you mean {choices([kernel])}?",
        paste=line,
    )
