"""What stands behind an argument or a parameter: its comma, a break, and what somebody said of it there."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
import libcst.matchers as m

from bot.engine.finding import findall

BROKEN = m.Comma(whitespace_after=m.ParenthesizedWhitespace())


def plain(comma: cst.Comma | cst.MaybeSentinel) -> cst.Comma | cst.MaybeSentinel:
    """The comma and the break behind it, without a comment: of what stands before the break, or in lines below it."""
    if not m.matches(comma, BROKEN):
        return comma
    behind = cst.ensure_type(comma.whitespace_after, cst.ParenthesizedWhitespace)
    first = cst.TrailingWhitespace(newline=behind.first_line.newline)
    bare = behind.with_changes(first_line=first, empty_lines=())
    return cst.ensure_type(comma.with_changes(whitespace_after=bare), cst.Comma)


def followed(
    last: cst.Comma | cst.MaybeSentinel, between: cst.Comma | cst.MaybeSentinel
) -> cst.Comma | cst.MaybeSentinel:
    """The comma of what was the last and is no more: as between others, with what was said of it."""
    made = plain(between)
    if not m.matches(made, BROKEN) or not m.matches(last, BROKEN):
        return made
    behind = made.whitespace_after.with_changes(first_line=last.whitespace_after.first_line)
    return cst.ensure_type(made.with_changes(whitespace_after=behind), cst.Comma)


def moves_a_comment(last: cst.Comma | cst.MaybeSentinel, between: cst.Comma | cst.MaybeSentinel) -> bool:
    """Whether something said of the last would be lost, or be said of what follows it."""
    now, then = (
        len(findall(comma, m.Comment())) if isinstance(comma, cst.Comma) else 0
        for comma in (last, followed(last, between))
    )
    return now != then


def is_spoken_of(
    parts: Sequence[cst.Arg] | Sequence[cst.Param], at: int, begin: cst.BaseParenthesizableWhitespace
) -> bool:
    """Whether somebody said something of an argument or a parameter: behind it, or in lines above it. `begin`: what
    stands before the first one."""
    before = parts[at - 1].comma.whitespace_after if at and isinstance(parts[at - 1].comma, cst.Comma) else begin
    above = before.empty_lines if isinstance(before, cst.ParenthesizedWhitespace) else ()
    return bool(findall(parts[at], m.Comment()) or any(line.comment is not None for line in above))
