"""Running sums of a kernel: `total += tl.sum(x)` in a loop, of a number that begins with zero in front of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst
import libcst.matchers as m

from bot.engine import source
from bot.engine.finding import findall

ZERO = m.Float() | m.Call(func=m.Attribute(value=m.Name("tl"), attr=m.Name("float32")), args=[m.Arg(value=m.Float())])
BY_SUM = m.AugAssign(
    target=m.Name(),
    operator=m.AddAssign(),
    value=m.Call(func=m.Attribute(value=m.Name("tl"), attr=m.Name("sum"))),
)


def blocks(kernel: cst.FunctionDef) -> Iterator[Sequence[cst.CSTNode]]:
    """The statements of each block, in order."""
    yield from (found.body for found in findall(kernel, m.IndentedBlock()) if isinstance(found, cst.IndentedBlock))


def named(nodes: Sequence[cst.CSTNode], name: str) -> int:
    return sum(len(findall(node, m.Name(name))) for node in nodes)


def begins(block: Sequence[cst.CSTNode], at: int, name: str) -> int | None:
    """Index of `name = 0.0`, with nothing said of the name between it and the loop that stands at this place."""
    for index in range(at - 1, -1, -1):
        if named((block[index],), name):
            value = source.value(block[index]) if source.is_plain(block[index], name) else None
            return index if value is not None and m.matches(value, ZERO) and _is_zero(value) else None
    return None


def _is_zero(value: cst.BaseExpression) -> bool:
    number = value.args[0].value if isinstance(value, cst.Call) else value
    return isinstance(number, cst.Float) and number.evaluated_value == 0
