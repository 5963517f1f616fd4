"""Walk from its end over a row that is read again.

    for turn in range(0, n_cols, BLOCK_SIZE):
        i = (tl.cdiv(n_cols, BLOCK_SIZE) - 1) * BLOCK_SIZE - turn

A cache lets go of what nobody has asked for longest. Where all rows that are under way do not fit, a second walk from
the front asks for each part of its row just when that has gone, and so finds none of it; from the end it finds what is
left. Where they fit, nothing changes. The turns are the same, and nothing is rounded otherwise: only walks whose turns
know nothing of each other are turned (`bot/engine/any_order.py`).

The loop still counts upwards, since the compiler knows of such a count, and not of one that goes down, that it is a
multiple of the block: of that depends how much one instruction loads.
"""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from bot.engine import kernels, ranges, source
from bot.engine.any_order import Turns
from bot.engine.finding import findall
from bot.engine.row_reads import row_reads
from bot.engine.source import NotUnderstood
from bot.engine.transforms.rewrite import Rewrite, each_kernel, refuse_long_lines

WHY = "A row is read again: from its end, which the cache still holds."
TURN = "turn"


def _walk(kernel: cst.FunctionDef, call: cst.Call) -> cst.For:
    """The one loop around a load, which begins at the front."""
    around = [loop for loop in kernels.loops(kernel) if any(call is one for one in kernels.calls(loop))]
    if len(around) != 1:
        raise NotUnderstood("a row is not read by one walk")
    if ranges.from_the_end(around[0]):
        raise NotUnderstood("a walk begins at the end already")
    return around[0]


def _last_walks(kernel: cst.FunctionDef) -> list[cst.For]:
    """Each loop that reads a row for the last time."""
    reads = row_reads(kernel)
    for call in reads.again:
        _walk(kernel, call)  # asked whether it is one
    return [_walk(kernel, call) for call in reads.last]


def _turned(loop: cst.For, walk: ranges.Walk) -> cst.For:
    place = source.assignment(f"{walk.target} = {walk.last} - {TURN}")
    body = loop.body.with_changes(body=(place, *loop.body.body))
    above = (*loop.leading_lines, *source.comment_lines(WHY))
    return loop.with_changes(target=cst.Name(TURN), body=body, leading_lines=above)


def _change(module: cst.Module, name: str) -> cst.Module:
    kernel = source.kernel_named(module, name)
    assert kernel is not None
    if findall(kernel, m.Name(TURN)):
        raise NotUnderstood(f"{TURN} is a name already")
    new: dict[cst.CSTNode, cst.CSTNode] = {}
    ends = set[str]()
    for loop in _last_walks(kernel):
        walk = ranges.walk_of(loop)
        if walk is None:
            raise NotUnderstood("a walk is not one from zero, block by block")
        Turns(module, kernel, loop, walk).refuse_order()
        ends.add(walk.end)
        new[loop] = _turned(loop, walk)
    if len(ends) > 1:
        raise NotUnderstood(f"{TURN} would be of two types where one end is a wider number")
    if not new:
        raise NotUnderstood("no row is read again")
    changed = cst.ensure_type(source.exchanged(kernel, new), cst.FunctionDef)
    refuse_long_lines(kernel, changed)
    return source.spliced(module, [(kernel, [changed])])


def rewrite(text: str) -> Rewrite | None:
    """Every kernel of the file whose programs walk over a row of their own again."""
    return each_kernel(
        text,
        _change,
        title="Rows that are read again are read from their end",
        why="Where the rows under way do not fit the cache, it still holds their ends when a second walk begins.",
    )


def applies(text: str) -> bool:
    return rewrite(text) is not None
