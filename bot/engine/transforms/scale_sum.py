"""Scale a sum and not what is added up: where W is one number, the sum of `x * W` is W times the sum of `x`.

The backward of a norm adds up a row twice: for the gradient of a weight, and times that weight for its own. Where one
weight belongs to the whole row, as to a channel of group_norm, the second sum is the first one times the weight. All
warps of a program meet for each sum of a block; of the four of group_norm's backward two are left.

Looked for in a loop with two running sums, one of which begins with zero in front of it, while the other adds up
products of the same with numbers that the loop does not change. The result is rounded otherwise. Half precision could
overflow where the products did not, so the sums have to be such as `sum_in_float32` can make in float32, which every
idea brings along. Refused where a line that goes has a comment, and in a function that kernels call: what it is handed
may be no number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import kernels, own_types, source
from bot.engine.finding import findall, nodes
from bot.engine.running_sums import BY_SUM, begins, blocks, named
from bot.engine.source import NotUnderstood
from bot.engine.transforms.rewrite import Rewrite, each_kernel

WHY = "A sum of products with one number is that number times the sum without it."
OF_NUMBERS = ("program_id", "num_programs", "range", "cdiv", "min", "max", "minimum", "maximum", "load", "float32")
"""What a call makes a number of, where it is given numbers alone; `load` is of one address then."""
FREE = kernels.ELEMENTWISE - {"load", "store", "static_assert"}
"""Calls that nobody misses once nobody reads what they make."""
PRODUCT = m.BinaryOperation(operator=m.Multiply())
BINDS = m.AssignTarget() | m.AugAssign() | m.AnnAssign() | m.For() | m.NamedExpr()


@dataclass(frozen=True, slots=True)
class Sum:
    """`name += tl.sum(a * b, ...)`, a line of a loop."""

    line: cst.SimpleStatementLine
    name: str
    factors: Counter[str]
    over: str
    """What else the sum is told."""


def _bound(node: cst.CSTNode, name: str) -> int:
    """How often something gives a name a value."""
    return sum(named((cst.ensure_type(one.target, cst.CSTNode),), name) for one in _bindings(node))


def _bindings(node: cst.CSTNode) -> list[cst.AssignTarget | cst.AugAssign | cst.AnnAssign | cst.For | cst.NamedExpr]:
    kinds = (cst.AssignTarget, cst.AugAssign, cst.AnnAssign, cst.For, cst.NamedExpr)
    return [one for one in findall(node, BINDS) if isinstance(one, kinds)]


def _made(loop: cst.For, name: str, before: int) -> tuple[int, cst.BaseExpression] | None:
    """The one line of a loop that gives a name its value, and which, for those who stand behind it."""
    lines = [at for at, line in enumerate(loop.body.body[:before]) if source.is_plain(line, name)]
    return (lines[0], source.value(loop.body.body[lines[0]])) if lines and _bound(loop, name) == 1 else None


def _names(node: cst.CSTNode) -> set[str]:
    return {cst.ensure_type(name, cst.Name).value for name in findall(node, m.Name())}


def _factors(loop: cst.For, node: cst.BaseExpression, before: int) -> Iterator[str]:
    """What is multiplied, with the loop's own names for products written out. Each name in it means one thing in a turn
    of the loop."""
    if isinstance(node, cst.BinaryOperation) and m.matches(node, PRODUCT):
        yield from _factors(loop, node.left, before)
        yield from _factors(loop, node.right, before)
        return
    made = _made(loop, node.value, before) if isinstance(node, cst.Name) else None
    if made is not None and m.matches(made[1], PRODUCT):
        yield from _factors(loop, made[1], made[0])
        return
    if any(_bound(loop, name) and _made(loop, name, before) is None for name in _names(node)):
        raise NotUnderstood("a factor changes in a turn of the loop")
    yield source.code(node.with_changes(lpar=(), rpar=()))


def _sums(loop: cst.For) -> list[Sum]:
    """The running sums among a loop's own lines, of names that it says nothing else of."""
    found = []
    for at, line in enumerate(loop.body.body):
        if not isinstance(line, cst.SimpleStatementLine) or not m.matches(line, m.SimpleStatementLine(body=[BY_SUM])):
            continue
        grown = cst.ensure_type(line.body[0], cst.AugAssign)
        name, call = cst.ensure_type(grown.target, cst.Name).value, cst.ensure_type(grown.value, cst.Call)
        if named((loop,), name) != 1 or not call.args or call.args[0].keyword is not None or call.args[0].star:
            continue
        try:
            factors = Counter(_factors(loop, call.args[0].value, at))
        except NotUnderstood:
            continue
        found.append(Sum(line, name, factors, ", ".join(source.code(arg).rstrip(", ") for arg in call.args[1:])))
    return found


def _is_number(kernel: cst.FunctionDef, node: cst.CSTNode, seen: frozenset[str] = frozenset()) -> bool:
    """Whether an expression is one number for certain, or one address."""
    if isinstance(node, cst.Name):
        values = list(_values(kernel, node.value)) if node.value not in seen else []
        return all(value is not None and _is_number(kernel, value, seen | {node.value}) for value in values)
    if isinstance(node, cst.Call):
        return _makes_a_number(kernel, node, seen)
    if isinstance(node, cst.BinaryOperation):
        return all(_is_number(kernel, side, seen) for side in (node.left, node.right))
    return isinstance(node, cst.BaseNumber)


def _makes_a_number(kernel: cst.FunctionDef, call: cst.Call, seen: frozenset[str]) -> bool:
    name, func = kernels.called_name(call), call.func
    if any(arg.star for arg in call.args):
        return False
    if name == "to" and isinstance(func, cst.Attribute):
        return _is_number(kernel, func.value, seen)
    known = source.code(func) in (name, f"tl.{name}") and name in OF_NUMBERS
    return known and all(_is_number(kernel, arg.value, seen) for arg in call.args)


def _values(kernel: cst.FunctionDef, name: str) -> Iterator[cst.BaseExpression | None]:
    """All that a name ever stands for; None where it is not seen. Of a loop its range."""
    if name not in source.parameters(kernel) and not _bound(kernel, name):
        yield None
    for found in findall(kernel, m.Assign() | m.AugAssign() | m.AnnAssign() | m.For() | m.NamedExpr()):
        targets = [one.target for one in found.targets] if isinstance(found, cst.Assign) else [found.target]
        if any(named((target,), name) for target in targets):
            alone = len(targets) == 1 and isinstance(targets[0], cst.Name)
            value = found.iter if isinstance(found, cst.For) else found.value
            yield value if alone else None


def _scaled(kernel: cst.FunctionDef, block: Sequence[cst.CSTNode], at: int, loop: cst.For) -> dict[str, Sum]:
    """Sums of a loop that are others times numbers, by what is to be added behind it in their place."""
    sums, found = _sums(loop), dict[str, Sum]()
    plain = [one for one in sums if begins(block, at, one.name) is not None]
    for mine in sums:
        for other in plain:
            more = mine.factors - other.factors
            is_part = other is not mine and not other.factors - mine.factors and other.over == mine.over
            if more and is_part and all(_is_constant(kernel, loop, factor) for factor in more):
                found[f"{mine.name} += {' * '.join([*more.elements(), other.name])}"] = mine
                break
    return found


def _is_constant(kernel: cst.FunctionDef, loop: cst.For, factor: str) -> bool:
    node = source.expression(factor)
    return isinstance(node, cst.Name) and not _bound(loop, node.value) and _is_number(kernel, node)


def _without(loop: cst.For, gone: Sequence[cst.CSTNode], known: set[str]) -> cst.For:
    """The loop without lines, and without those that only they had a use for. A name that is `known` before may be read
    behind it."""
    body = [line for line in loop.body.body if not any(line is one for one in gone)]
    if any(findall(line, m.Comment()) for line in gone):
        raise NotUnderstood("what is said of a line would be lost")
    left = loop.with_changes(body=loop.body.with_changes(body=body))
    for name in {name for line in gone for name in _names(line)} - known:
        made = _made(left, name, len(body))
        if made is not None and named((left,), name) == 1 and _is_free(made[1]):
            return _without(left, [body[made[0]]], known)
    return left


def _is_free(value: cst.BaseExpression) -> bool:
    return all(kernels.called_name(call) in FREE for call in kernels.calls(value))


def _known_before(kernel: cst.FunctionDef, loop: cst.For) -> set[str]:
    """Names that have a value where the loop begins."""
    known = set(source.parameters(kernel))
    for node in nodes(kernel, with_air=False):
        if node is loop:
            return known
        known |= _names(node.target) if isinstance(node, cst.AssignTarget | cst.For) else set()
    return known


def _behind(text: str, why: str) -> cst.SimpleStatementLine:
    line = source.assignment(text, why)
    return line.with_changes(leading_lines=(cst.EmptyLine(indent=False), *line.leading_lines)) if why else line


def _next(kernel: cst.FunctionDef) -> tuple[cst.For, list[cst.BaseStatement]] | None:
    """A loop with such sums, and what stands in its place."""
    for block in blocks(kernel):
        for at, loop in enumerate(block):
            found = _scaled(kernel, block, at, loop) if isinstance(loop, cst.For) else {}
            if found and isinstance(loop, cst.For):
                left = _without(loop, [one.line for one in found.values()], _known_before(kernel, loop))
                return loop, [left, *(_behind(text, "" if number else WHY) for number, text in enumerate(found))]
    return None


def _change(module: cst.Module, name: str) -> cst.Module:
    if not source.sites(module, name) or findall(module, m.Call(func=m.Name(name))):
        raise NotUnderstood(f"{name} is not launched here, or not only launched")
    done = False
    while (kernel := source.kernel_named(module, name)) is not None and (found := _next(kernel)) is not None:
        own_types.added_in_their_own_type(module, kernel)  # raises where they cannot be made in float32
        module, done = source.spliced(module, [found]), True
    if not done:
        raise NotUnderstood("no sum is another one times a number")
    return module


def rewrite(text: str) -> Rewrite | None:
    """Every kernel of the file that adds up products with one number."""
    if text.count("tl.sum(") < 2:
        return None
    return each_kernel(
        text,
        _change,
        title="Scale a sum, not what is added up",
        why="All warps of a program meet for each sum. A loop adds up the same twice, once times one number: the one "
        "sum is the other times the number.",
        tuned=True,
    )


def applies(text: str) -> bool:
    return rewrite(text) is not None
