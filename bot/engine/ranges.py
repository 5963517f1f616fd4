"""What a loop walks over, and whether it goes from the end: `bot/engine/transforms/walk_back.py` writes such walks, and
whoever reads a kernel after it takes them for the walk that they are."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import kernels, source
from bot.engine.bindings import bound_in

NAMES = ("range", "static_range")
RANGE = m.Call(func=m.Name("range") | m.Attribute(value=m.Name("tl"), attr=m.Name("range")))
PLAIN = m.Arg(value=m.Name(), keyword=None, star="")
COUNT = m.Call(func=m.Attribute(value=m.Name("tl"), attr=m.Name("cdiv")), args=[PLAIN, PLAIN])
PLACES = 3
"""How many arguments of a range have a place: what else it says does not change its turns."""
MIRRORED = m.SimpleStatementLine(
    body=[m.Assign(targets=[m.AssignTarget(m.Name())], value=m.BinaryOperation(operator=m.Subtract()))]
)


@dataclass(frozen=True, slots=True)
class Walk:
    """From zero to its end, by blocks: `range(0, n, BLOCK)`, or `range(tl.cdiv(n, BLOCK))`, which counts them."""

    target: str
    end: str
    block: str
    counts: bool

    @property
    def last(self) -> str:
        """What the target is in the last turn."""
        blocks = f"tl.cdiv({self.end}, {self.block}) - 1"
        return blocks if self.counts else f"({blocks}) * {self.block}"


def is_range(loop: cst.For) -> bool:
    """Whether it is compiled as a loop: what its body first gives a value nobody behind it knows."""
    return bool(m.matches(loop.iter, RANGE))


def walk_of(loop: cst.For) -> Walk | None:
    if not is_range(loop) or not isinstance(loop.target, cst.Name) or not isinstance(loop.body, cst.IndentedBlock):
        return None
    args = cst.ensure_type(loop.iter, cst.Call).args
    told = [arg.value for arg in args if arg.keyword is None]
    named = {arg.keyword.value for arg in args if arg.keyword is not None}
    if any(arg.star for arg in args) or len(told) > PLACES or named & {"arg1", "arg2", "step"}:
        return None
    if len(told) > 1 and kernels.integer(told.pop(0)) != 0:
        return None
    if len(told) == 2 and all(isinstance(one, cst.Name) for one in told):
        return Walk(loop.target.value, source.code(told[0]), source.code(told[1]), counts=False)
    if len(told) != 1 or not m.matches(told[0], COUNT):
        return None
    end, block = (source.code(arg.value) for arg in cst.ensure_type(told[0], cst.Call).args)
    return Walk(loop.target.value, end, block, counts=True)


def from_the_end(loop: cst.For) -> str:
    """Of a walk from the end the name of its place in the row, which the first line of every turn makes; else empty."""
    walk, body = walk_of(loop), loop.body.body
    if walk is None or len(body) < 2 or not m.matches(body[0], MIRRORED):
        return ""
    (name,) = source.targets(body[0])
    made = bound_in(loop.body)
    moves = any(made[one] for one in (walk.end, walk.block, walk.target)) or made[name] != 1
    if moves or source.loads(loop.body, walk.target) != 1:
        return ""
    return name if source.code(source.value(body[0])) == f"{walk.last} - {walk.target}" else ""


def straight_loop(loop: cst.For) -> cst.For:
    """The walk as if it began at the front; its lines stay the nodes that they are."""
    name = from_the_end(loop)
    if not name:
        return loop
    return loop.with_changes(target=cst.Name(name), body=loop.body.with_changes(body=loop.body.body[1:]))


def straight(kernel: cst.FunctionDef) -> cst.FunctionDef:
    """The kernel, made anew, as if all of its walks began at the front: for whoever asks what is walked over alone."""
    walks = {loop: straight_loop(loop) for loop in kernels.loops(kernel) if from_the_end(loop)}
    return cst.ensure_type(source.exchanged(kernel, walks), cst.FunctionDef) if walks else kernel
