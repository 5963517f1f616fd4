"""No products for a tile that a mask throws away whole.

Attention within a window multiplies every tile of queries with every tile of keys, and then puts minus infinity where
the window does not reach: in all of a tile, for nearly all tiles of a long sequence. What a tile is multiplied for can
be asked first, where the mask is made of rows and columns: no memory is waited for then. (Where it is loaded, the tiles
that count wait for it as well: on an H100 that made such a kernel slower.)

Asks for products that are added up in one loop, which does nothing else, and for a `tl.where` behind it that gives a
sum to a place the mask keeps, and something else to all others. In between stands only what scales the sum, and what
makes the mask, which moves in front of the loop. What a thrown away sum would have been nobody sees, infinite or not.
"""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import kernels, masks, source
from bot.engine.bindings import bound_in, times_bound
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood
from bot.engine.transforms.rewrite import Rewrite, each_kernel, refuse_long_lines

TITLE = "No products for tiles that a mask throws away"
WHY = (
    "A mask that is made of rows and columns throws whole tiles away, after their rows were loaded and multiplied. "
    "Whether it keeps anything of a tile can be asked first."
)
COMMENT = "A tile that is thrown away whole needs no products."
KEPT = m.Call(
    m.Attribute(m.Name("tl"), m.Name("where")),
    [m.Arg(keyword=None), m.Arg(m.Name(), keyword=None), m.Arg(keyword=None)],
)
SUM = m.Call(
    m.Attribute(m.Name("tl"), m.Name("zeros")), [m.Arg(m.Tuple([m.Element(), m.Element()])), m.ZeroOrMore(m.Arg())]
)
"""`tl.zeros((rows, columns), ...)`."""
ADDING = m.Call(
    m.Name("range")
    | m.Attribute(m.Name("tl"), m.OneOf(*map(m.Name, ("range", "dot", "trans", "load", "arange"))))
    | m.Attribute(~m.Name("tl"), m.Name("to"))
)
"""What such a loop may call: a module may have functions of the same names."""
AIR = (cst.EmptyLine(indent=False),)
PURE = frozenset(("maximum", "minimum", "where", "abs"))


@dataclass(frozen=True, slots=True)
class Thrown:
    loop: cst.For
    sum: str
    moved: tuple[cst.BaseStatement, ...]
    """What makes the mask, from behind the loop."""
    keeps: cst.BaseExpression
    """The condition under which a place is kept."""


def _loop(kernel: cst.FunctionDef, lines: list[cst.BaseStatement], at: int, name: str) -> int:
    """Where the last loop in front of a line stands, which only adds products to the sum of this name."""
    found = max((i for i in range(at) if isinstance(lines[i], cst.For)), default=-1)
    if found < 0:
        raise NotUnderstood("there is no loop")
    loop = cst.ensure_type(lines[found], cst.For)
    inner = loop.body.body
    if loop.orelse is not None or not all(isinstance(one, cst.SimpleStatementLine) for one in inner):
        raise NotUnderstood("the loop does more than to add up")
    added = findall(loop, m.AugAssign(target=m.Name(name), operator=m.AddAssign()))
    given = findall(loop, m.Assign(targets=[m.AssignTarget(m.Name())]))
    if len(added) != 1 or not kernels.calls(added[0], "dot") or source.loads(loop, name) != 1:
        raise NotUnderstood("the loop adds up no products")
    others = [call for call in kernels.calls(loop) if not m.matches(call, ADDING)]
    if any(arg.keyword is not None and arg.keyword.value != "num_stages" for arg in getattr(loop.iter, "args", ())):
        raise NotUnderstood("the loop says more of how it runs")
    if others or len(given) + 1 != len(inner) or times_bound(kernel, source.code(loop.target)) != 1:
        raise NotUnderstood("the loop does more than to add up")
    return found


def _scales(line: cst.BaseStatement, name: str) -> bool:
    """`sum = sum * number`."""
    value = source.value(line)
    if not source.is_plain(line, name) or not isinstance(value, cst.BinaryOperation):
        return False
    if not isinstance(value.operator, cst.Multiply | cst.Divide | cst.Add | cst.Subtract):
        return False
    sides = [one for one in (value.left, value.right) if not m.matches(one, m.Name(name))]
    return len(sides) == 1 and m.matches(sides[0], m.Name() | m.Integer() | m.Float())


def _moved(
    kernel: cst.FunctionDef, between: list[cst.BaseStatement], loop: cst.For, name: str
) -> list[cst.BaseStatement]:
    theirs, found = {*bound_in(loop), name}, list[cst.BaseStatement]()
    for line in between:
        if _scales(line, name):
            continue
        bound = bound_in(line)
        if any(source.loads(line, one) for one in theirs) or any(source.loads(loop, one) for one in bound):
            raise NotUnderstood("the mask is made of what the loop makes")
        if not masks.only_called(line, PURE) or findall(line, m.Return()):
            raise NotUnderstood("something is loaded or stored behind the loop")
        if not bound or any(times_bound(kernel, one) != sum(bound_in(i)[one] for i in between) for one in bound):
            raise NotUnderstood("a name of the mask stood for something else before")
        found.append(line)
    return found


def _is_condition(kernel: cst.FunctionDef, node: cst.BaseExpression) -> bool:
    """Whether a value is true or false, and no number."""
    if isinstance(node, cst.Name):
        made = [one.value for one in findall(kernel, m.Assign(targets=[m.AssignTarget(m.Name(node.value))]))]
        return times_bound(kernel, node.value) == 1 and len(made) == 1 and _is_condition(kernel, made[0])
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.BitAnd | cst.BitOr):
        return _is_condition(kernel, node.left) and _is_condition(kernel, node.right)
    return isinstance(node, cst.Comparison) and len(node.comparisons) == 1


def _thrown(kernel: cst.FunctionDef, lines: list[cst.BaseStatement], at: int) -> Thrown:
    """Of the line `sum = tl.where(keeps, sum, other)`."""
    (name,) = source.targets(lines[at])
    keeps, kept, other = (arg.value for arg in cst.ensure_type(source.value(lines[at]), cst.Call).args)
    if not m.matches(kept, m.Name(name)) or source.loads(lines[at], name) != 1 or kernels.calls(keeps):
        raise NotUnderstood("it is not the sum that is kept")
    start = _loop(kernel, lines, at, name)
    loop = cst.ensure_type(lines[start], cst.For)
    made = [line for line in lines[:start] if name in bound_in(line)]
    if len(made) != 1 or not m.matches(source.value(made[0]), SUM):
        raise NotUnderstood("the sum does not begin with zeros")
    behind = [one for one in set(bound_in(loop)) - {name} for line in lines[start + 1 :] if source.loads(line, one)]
    if behind or any(source.loads(other, one) for one in bound_in(loop)):
        raise NotUnderstood("something of the loop is used behind it")
    moved = _moved(kernel, lines[start + 1 : at], loop, name)
    if not masks.spans(kernel, keeps) or not _is_condition(kernel, keeps):
        raise NotUnderstood("the mask is not made of rows and columns")
    return Thrown(loop, name, tuple(moved), keeps)


def _asked(found: Thrown) -> list[cst.BaseStatement]:
    """The mask, and the loop under the question whether it keeps anything."""
    empty, said = source.split_above(found.loop)
    asked = source.expression(f"tl.max(tl.max(({source.code(found.keeps)}).to(tl.int32), axis=1), axis=0) > 0")
    inner = found.loop.with_changes(leading_lines=said)
    above = (*(empty or AIR), *source.comment_lines(COMMENT))
    return [*found.moved, cst.If(test=asked, body=cst.IndentedBlock([inner]), leading_lines=above)]


def change(module: cst.Module, name: str) -> cst.Module:
    kernel = source.kernel_named(module, name)
    assert kernel is not None
    lines = list(source.statements(kernel))
    kept = [
        at for at, line in enumerate(lines) if len(source.targets(line)) == 1 and m.matches(source.value(line), KEPT)
    ]
    for at in kept:
        try:
            found = _thrown(kernel, lines, at)
        except NotUnderstood:
            continue
        new = list[cst.BaseStatement]()
        for line in lines:
            new += _asked(found) if line is found.loop else [] if line in found.moved else [line]
        changed = source.with_statements(kernel, new)
        refuse_long_lines(kernel, changed)
        return source.spliced(module, [(kernel, [changed])])
    raise NotUnderstood("no tile is thrown away")


def rewrite(text: str, only: str = "") -> Rewrite | None:
    if "tl.where(" not in text or "tl.dot(" not in text:
        return None
    return each_kernel(text, change, title=TITLE, why=WHY, only=only)


def applies(text: str) -> bool:
    return rewrite(text) is not None
