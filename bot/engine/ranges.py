"""What a loop walks over, and whether it goes from the end: `bot/engine/transforms/walk_back.py` writes such walks, and
whoever reads a kernel after it takes them for the walk that they are."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import kernels, source
from bot.engine.finding import findall

NAMES = ("range", "static_range")
MIRRORED = m.SimpleStatementLine(
    body=[m.Assign(targets=[m.AssignTarget(m.Name())], value=m.BinaryOperation(operator=m.Subtract()))]
)


@dataclass(frozen=True, slots=True)
class Walk:
    """From zero to its end, by blocks: `range(0, n, BLOCK)`, or `range(tl.cdiv(n, BLOCK))`, which counts them."""

    target: str
    end: cst.BaseExpression
    """Of the row in the first case, how many blocks in the other."""
    block: str
    counts: bool

    @property
    def last(self) -> str:
        """What the target is in the last turn."""
        end = source.code(self.end)
        return f"{end} - 1" if self.counts else f"(tl.cdiv({end}, {self.block}) - 1) * {self.block}"


def walk_of(loop: cst.For) -> Walk | None:
    call, target = loop.iter, loop.target
    if not isinstance(call, cst.Call) or kernels.called_name(call) not in NAMES or not isinstance(target, cst.Name):
        return None
    told = [arg.value for arg in call.args if arg.keyword is None and not arg.star]
    if len(told) == 1:
        told = [cst.Integer("0"), *told]
    if len(told) < 2 or kernels.integer(told[0]) != 0:
        return None
    if len(told) == 3:
        return Walk(target.value, told[1], source.code(told[2]), counts=False)
    counted = told[1] if isinstance(told[1], cst.Call) and kernels.called_name(told[1]) == "cdiv" else None
    if counted is None or len(counted.args) != 2:
        return None
    return Walk(target.value, counted, source.code(counted.args[1].value), counts=True)


def from_the_end(loop: cst.For) -> str:
    """Of a walk from the end the name of its place in the row, which the first line of every turn makes; else empty."""
    walk, body = walk_of(loop), loop.body.body
    if walk is None or len(body) < 2 or not m.matches(body[0], MIRRORED) or source.loads(loop.body, walk.target) != 1:
        return ""
    (name,) = source.targets(body[0])
    return name if source.code(source.value(body[0])) == f"{walk.last} - {walk.target}" else ""


def straight_loop(loop: cst.For) -> cst.For:
    """The walk as if it began at the front; its lines stay the nodes that they are."""
    name = from_the_end(loop)
    if not name:
        return loop
    return loop.with_changes(target=cst.Name(name), body=loop.body.with_changes(body=loop.body.body[1:]))


def straight(kernel: cst.FunctionDef) -> cst.FunctionDef:
    """The kernel, made anew, as if all of its walks began at the front: for whoever asks what is walked over alone."""
    loops = [cst.ensure_type(found, cst.For) for found in findall(kernel, m.For())]
    walks = {loop: straight_loop(loop) for loop in loops if from_the_end(loop)}
    return cst.ensure_type(source.exchanged(kernel, walks), cst.FunctionDef) if walks else kernel
