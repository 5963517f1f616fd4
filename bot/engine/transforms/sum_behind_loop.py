"""Add up behind the loop: `total += tl.sum(x)` of each turn becomes `total += x`, and one sum when the loop is over.

A sum over a block makes all warps of a program meet, twice, and nobody needs the result before the loop has ended. So
each lane keeps a number of its own, in float32, and the lanes meet once. dyt's backward has no other reduction in its
loop over the rows: compiled for sm_90 the loop has no shuffles left, and of three barriers a row none, or two where
rows are loaded ahead and have to be waited for. The price is a register for each element that a thread holds.

Refused unless the running sum begins with zero in front of the loop, is named in it by such additions alone, and what
is added has an element for each column of the kernel's one block. Refused as well where little is saved: with one
reduction left in the loop the warps meet all the same; and a loop over the blocks of a row mostly has one turn, so such
a loop is taken where the host keeps the block small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import libcst as cst
import libcst.matchers as m

from bot.engine import columns, kernels, runs, source
from bot.engine.finding import findall
from bot.engine.running_sums import BY_SUM, begins, blocks, named
from bot.engine.source import NotUnderstood
from bot.engine.transforms.rewrite import Rewrite, each_kernel

WIDEST = 16384
"""A block that is kept at most this wide: a row of the usual width has several, and a lane's number fits beside it."""
WHY = "Each lane adds up its own, and the lanes meet once, behind the loop."
KNOWN = (kernels.ELEMENTWISE - {"broadcast_to"}) | {
    *columns.REDUCTIONS,
    *("num_programs", "range", "float32", "atomic_add", "static_range", "pointer_type"),
}
"""What a kernel may call when each of its values is to be a number, or to have an element for each column."""
Edit = Callable[[cst.CSTNode], Any]


@dataclass(frozen=True, slots=True)
class Grown:
    """A running sum: where it begins, the loop that it grows in, how it grows, and what follows in the same block."""

    name: str
    begun: cst.SimpleStatementLine
    loop: cst.For
    sums: tuple[cst.AugAssign, ...]
    after: tuple[cst.CSTNode, ...]


def _grown(kernel: cst.FunctionDef) -> Iterator[Grown]:
    for block in blocks(kernel):
        for at, loop in enumerate(block):
            if not isinstance(loop, cst.For):
                continue
            sums: dict[str, list[cst.AugAssign]] = {}
            for found in findall(loop.body, BY_SUM):
                one = cst.ensure_type(found, cst.AugAssign)
                sums.setdefault(cst.ensure_type(one.target, cst.Name).value, []).append(one)
            for name, mine in sums.items():
                begun = begins(block, at, name)
                alone = named((loop,), name) == len(mine) and named((kernel,), name) == named(block, name)
                if begun is not None and alone:
                    line = cst.ensure_type(block[begun], cst.SimpleStatementLine)
                    yield Grown(name, line, loop, tuple(mine), tuple(block[at + 1 :]))


def _summed(one: cst.AugAssign) -> cst.BaseExpression:
    """What is added up, over all of its columns."""
    call = cst.ensure_type(one.value, cst.Call)
    axis = kernels.argument(call, 1, "axis")
    if len(call.args) > 2 or (len(call.args) == 2 and kernels.integer(axis) != 0) or findall(call, m.Comment()):
        raise NotUnderstood("a sum is not over the columns alone")
    value = call.args[0].value
    lines = "\n" in source.code(value) and not value.lpar
    return value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()]) if lines else value


def _only_block(kernel: cst.FunctionDef) -> str:
    """The parameter with the columns of the kernel's one block, where no value has another shape."""
    called = {kernels.called_name(call) for call in kernels.calls(kernel.body)}
    if len(kernels.calls(kernel, "arange")) != 1 or findall(kernel, m.Subscript()) or not called <= KNOWN:
        raise NotUnderstood("it has more than one block of columns")
    return runs.block_of(kernel)


def _by_block(loop: cst.For, block: str) -> bool:
    """`range(0, width, BLOCK)`: as many turns as a row has blocks."""
    steps = [arg.value for arg in loop.iter.args if arg.keyword is None] if isinstance(loop.iter, cst.Call) else []
    return len(steps) != 2 and not (len(steps) == 3 and source.loads(steps[2], block) == 0)


def _is_short(module: cst.Module, kernel: cst.FunctionDef, block: str) -> bool:
    """Whether every launch says itself that its block is not a whole row: `min(BLOCK, 4096)`."""
    found = source.sites(module, str(kernel.name.value))
    values = [runs.value_of(site, runs.given(site, kernel, block)) for site in found]
    limits = [_limit(value) for value in values]
    return bool(limits) and all(limit is not None and limit <= WIDEST for limit in limits)


def _limit(value: cst.BaseExpression) -> int | None:
    if not isinstance(value, cst.Call) or kernels.called_name(value) != "min":
        return kernels.integer(value)
    found = [number for arg in value.args if (number := kernels.integer(arg.value)) is not None]
    return min(found, default=None)


def _reads(grown: Grown) -> list[cst.Name]:
    """Where the sum is read behind the loop, until the name stands for something else."""
    found: list[cst.Name] = []
    for statement in grown.after:
        value = source.value(statement) if source.is_plain(statement, grown.name) else statement
        names = [name for name in findall(value, m.Name(grown.name)) if isinstance(name, cst.Name)]
        if names and (isinstance(statement, cst.For | cst.While) or _binds(statement, grown.name)):
            raise NotUnderstood(f"{grown.name} is read or made anew in a loop or branch behind its own")
        found += names
        if value is not statement:
            break
    return found


def _binds(statement: cst.CSTNode, name: str) -> bool:
    """Whether a branch gives the name another value, or a statement changes it."""
    changed = findall(statement, m.AugAssign(target=m.Name(name)))
    made = [target for target in findall(statement, m.AssignTarget()) if findall(target, m.Name(name))]
    return bool(changed or (made and not source.is_plain(statement, name)))


class _Behind(cst.CSTTransformer):  # type: ignore[misc]  # libcst is not followed
    """The kernel with some of its nodes changed, each once."""

    def __init__(self) -> None:
        super().__init__()
        self.edits: dict[int, Edit] = {}
        self._kept: list[cst.CSTNode] = []

    def at(self, node: cst.CSTNode, edit: Edit) -> None:
        self._kept.append(node)  # an id is of a node for as long as somebody holds it
        self.edits[id(node)] = edit

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> Any:
        edit = self.edits.get(id(original_node))
        return edit(updated_node) if edit is not None else updated_node


def _begun(grown: Grown, block: str, why: str) -> Edit:
    def edit(node: cst.CSTNode) -> cst.CSTNode:
        line = cst.ensure_type(node, cst.SimpleStatementLine)
        made = cst.ensure_type(line.body[0], cst.Assign)
        zeros = source.expression(f"tl.zeros(({block},), dtype=tl.float32)")
        lines = (*line.leading_lines, *source.comment_lines(why))
        return line.with_changes(body=[made.with_changes(value=zeros)], leading_lines=lines)

    return edit


def _added(value: cst.BaseExpression) -> Edit:
    return lambda node: cst.ensure_type(node, cst.AugAssign).with_changes(value=value)


def _met(name: str) -> str:
    return f"tl.sum({name}, axis=0)"


def _one_number(name: str) -> Edit:
    return lambda node: source.expression(_met(name))


def _followed(names: Sequence[str]) -> Edit:
    """A loop, and behind it one number for each of these."""
    lines = [source.assignment(f"{name} = {_met(name)}") for name in names]
    return lambda node: cst.FlattenSentinel([cst.ensure_type(node, cst.For), *lines])


def _all_go(grown: Sequence[Grown], loop: cst.For) -> bool:
    """Whether none of a loop's reductions has to be done in it."""
    every = sum(kernels.called_name(call) in columns.REDUCTIONS for call in kernels.calls(loop.body))
    return sum(len(one.sums) for one in grown if one.loop is loop) == every


def _behind(module: cst.Module, name: str) -> cst.Module:
    kernel = source.kernel_named(module, name)
    assert kernel is not None
    block, change, told = _only_block(kernel), _Behind(), ""
    wide, found = columns.of_rows(kernel), list(_grown(kernel))
    often: dict[cst.For, list[str]] = {}
    for grown in found:
        if not _all_go(found, grown.loop) or (_by_block(grown.loop, block) and not _is_short(module, kernel, block)):
            continue
        values, reads = [_summed(one) for one in grown.sums], _reads(grown)
        if not reads or not all(columns.holds(value, columns.is_arange, wide) for value in values):
            continue
        change.at(grown.begun, _begun(grown, block, "" if told else WHY))
        for one, value in zip(grown.sums, values, strict=True):
            change.at(one, _added(value))
        if len(reads) > 1:
            often.setdefault(grown.loop, []).append(grown.name)
        else:
            change.at(reads[0], _one_number(grown.name))
        told = grown.name
    for loop, names in often.items():
        change.at(loop, _followed(names))
    if not told:
        raise NotUnderstood("no sum waits for a loop")
    return source.replaced(module, kernel, kernel.visit(change))


def rewrite(text: str) -> Rewrite | None:
    """Every kernel of the file whose loop adds up sums."""
    return each_kernel(
        text,
        _behind,
        title="Add up behind the loop",
        why="In each turn all warps of a program meet to add up a block, and nobody reads the sum before the loop is "
        "over. Each lane keeps its own, and they meet once.",
        tuned=True,
    )


def applies(text: str) -> bool:
    return rewrite(text) is not None
