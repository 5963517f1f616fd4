"""Reads a kernel whose one loop adds up products of tiles: what it adds to, where its rows begin, and what it loads.

row_start = tl.program_id(1) * BLOCK_M
rows = row_start + tl.arange(0, BLOCK_M)
for start in range(0, size, BLOCK_K):
    ...
    acc += tl.dot(chunk, other)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import libcst as cst
import libcst.matchers as m

from bot.engine import addresses, kernels, reckoning, source
from bot.engine.bindings import bound_in, times_bound
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood

PRODUCTS = m.Call(m.Attribute(m.Name("tl"), m.Name("dot") | m.Name("trans")) | m.Name("range"))
DOT = m.Call(m.Attribute(m.Name("tl"), m.Name("dot")), [m.Arg(keyword=None, star="")] * 2)
PLAIN = m.SimpleStatementLine([m.Assign([m.AssignTarget(m.Name())])])
ADDED = m.SimpleStatementLine([m.AugAssign(m.Name(), m.AddAssign(), DOT)])
TURNS = ("arange", "load", "dot", "trans", *addresses.CASTS)
"""What a turn may call."""


def refuse_reckoned(loop: cst.For) -> None:
    """Raises NotUnderstood unless a turn does no more than to find places, to load and to multiply what it loads: its
    places may then be counted in more bits."""
    sums = findall(loop.body, m.BinaryOperation(operator=m.DoesNotMatch(m.Add() | m.Multiply() | m.BitAnd())))
    asked = findall(loop.body, m.ComparisonTarget(operator=m.DoesNotMatch(m.LessThan())))
    others = [call for call in kernels.calls(loop.body) if kernels.called_name(call) not in TURNS]
    if sums or asked or others or findall(loop.body, m.UnaryOperation() | m.BooleanOperation() | m.IfExp()):
        raise NotUnderstood("a turn reckons with its places")


def refuse_wrapped(loop: cst.For, place: str) -> None:
    """Raises NotUnderstood unless a turn's places serve for addresses and are compared as they are: a product of them
    may be another number in more bits."""
    loads = [call.args[0].value for call in kernels.calls(loop.body, "load") if call.args]
    names = {one.value for one in loads if isinstance(one, cst.Name)}
    made = [line for line in loop.body.body if names.intersection(source.targets(line))]
    here = m.Name(place)
    alone = findall(loop.body, m.Comparison(left=here | m.Subscript(here)))
    known = 1 + len(alone) + sum(len(findall(one, here)) for one in (*loads, *made))
    if len(findall(loop.body, here)) != known or any(source.loads(loop.body, one) != 1 for one in names):
        raise NotUnderstood("a turn reckons with its places")


@dataclass(frozen=True, slots=True)
class Sum:
    """The kernel's one loop, which adds up products."""

    loop: cst.For
    at: int
    total: str
    product: cst.Call


def is_known(call: cst.Call, module: cst.Module, kernel: cst.FunctionDef) -> bool:
    """Whether a call leaves nothing but its value, or stores."""
    return bool(m.matches(call, PRODUCTS)) or reckoning.reckons(call, module, kernel)


def sum_of(module: cst.Module, kernel: cst.FunctionDef) -> Sum:
    reckoning.refuse_other_meanings(module, kernel)
    found = [(at, one) for at, one in enumerate(source.statements(kernel)) if isinstance(one, cst.For)]
    if len(found) != 1 or len(findall(kernel, m.For() | m.While())) != 1 or found[0][1].orelse is not None:
        raise NotUnderstood("it has not one loop, in its own lines")
    ((at, loop),) = found
    adds = [line for line in loop.body.body if m.matches(line, ADDED)]
    if len(adds) != 1 or not all(line is adds[0] or m.matches(line, PLAIN) for line in loop.body.body):
        raise NotUnderstood("the loop does more than to add up products")
    if not all(is_known(one, module, kernel) for one in kernels.calls(loop.body)):
        raise NotUnderstood("nobody knows what is called")
    if kernels.calls(loop.body, "store"):
        raise NotUnderstood("a turn stores")
    add = cst.ensure_type(cst.ensure_type(adds[0], cst.SimpleStatementLine).body[0], cst.AugAssign)
    total = source.code(add.target)
    if bound_in(loop)[total] != 1 or source.loads(loop, total) != 1 or not m.matches(loop.target, m.Name()):
        raise NotUnderstood("a turn asks for what was added up")
    behind = source.statements(kernel)[at + 1 :]
    if any(source.loads(line, name) for name in bound_in(loop) if name != total for line in behind):
        raise NotUnderstood("what a turn makes is read behind the loop")
    return Sum(loop, at, total, cst.ensure_type(add.value, cst.Call))


def side(kernel: cst.FunctionDef, index: str, before: int) -> tuple[str, str]:
    """Where the rows `start + tl.arange(0, BLOCK)` of `rows[:, None]` start, and how many they are: `start` is the
    program times so many, and made before a statement."""
    made = addresses.names_of(kernel).made
    rows = made.get(index.partition("[")[0])
    sizes = [name for name in kernels.constants(kernel) if m.matches(rows, counted(m.Name(), name))]
    if len(sizes) != 1 or not kernels.is_handed(kernel, sizes[0]):
        raise NotUnderstood("rows do not begin with a name")
    start = source.code(cst.ensure_type(rows, cst.BinaryOperation).left)
    if [at for at, line in enumerate(source.statements(kernel)) if source.is_plain(line, start) and at < before] == []:
        raise NotUnderstood("the first row is not known before the loop")
    factors = addresses.terms(made[start], addresses.names_of(kernel)) if start in made else []
    if not any(sorted(factors) == [tuple(sorted((sizes[0], program)))] for program in kernels.PROGRAMS):
        raise NotUnderstood("the first row is not the program times a block")
    return start, sizes[0]


def counted(start: m.BaseMatcherNode, size: str) -> m.BaseMatcherNode:
    return m.BinaryOperation(left=start, operator=m.Add(), right=kernels.arange_of(size))


def is_of_program(kernel: cst.FunctionDef, said: str) -> bool:
    """Whether it is one number of a program, and not of a row."""
    waiting, seen, made = [source.expression(said)], set[str](), addresses.names_of(kernel).made
    while waiting:
        one = waiting.pop()
        called = kernels.calls(one)
        if any(source.code(call) not in kernels.PROGRAMS for call in called) or findall(one, m.Subscript()):
            return False
        for name in {found.value for found in findall(one, m.Name()) if isinstance(found, cst.Name)} - seen:
            seen.add(name)
            if name in made:
                waiting.append(made[name])
            elif not kernels.is_handed(kernel, name) and name not in ("tl", "program_id"):
                return False
    return True


def asked(kernel: cst.FunctionDef, mask: cst.BaseExpression | None) -> Iterator[str]:
    """What a mask of `&` asks for, each with its axis: `rows[:, None] < size` of `inside[:, None]` too."""
    made = addresses.names_of(kernel).made
    node: Any = made.get(mask.value) if isinstance(mask, cst.Name) else mask
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.BitAnd):
        yield from asked(kernel, node.left)
        yield from asked(kernel, node.right)
        return
    below = m.Comparison(comparisons=[m.ComparisonTarget(m.LessThan())])
    if m.matches(node, m.Subscript(m.Name())) and m.matches(made.get(node.value.value), below):
        inner = cst.ensure_type(made[node.value.value], cst.Comparison)
        node = inner.with_changes(left=node.with_changes(value=inner.left, lpar=(), rpar=()))
    if m.matches(node, below):
        yield source.code(node.with_changes(lpar=(), rpar=()))


def load_of(kernel: cst.FunctionDef, pointer: str) -> cst.Call:
    """The one load through a pointer that serves for nothing else."""
    names = addresses.names_of(kernel)
    loads = [call for call in kernels.calls(kernel, "load") if source.code(call.func) == "tl.load" and call.args]
    found = [call for call in loads if (pointer,) in addresses.terms(call.args[0].value, names)]
    if len(found) != 1 or source.loads(kernel, pointer) != 1 or times_bound(kernel, pointer):
        raise NotUnderstood("the matrix is not loaded once")
    place = found[0].args[0].value
    if isinstance(place, cst.Name):
        if source.loads(kernel, place.value) != 1 or place.value not in names.made:
            raise NotUnderstood("a place of the matrix serves for more than a load")
        place = names.made[place.value]
    if source.loads(place, pointer) != 1:
        raise NotUnderstood("a place of the matrix serves for more than a load")
    return found[0]


def store_of(module: cst.Module, kernel: cst.FunctionDef, added: Sum) -> cst.Call:
    """The kernel's only store, of the sum from zero on, or so many times that. Raises NotUnderstood for others."""
    stores, total = kernels.calls(kernel, "store"), m.Name(added.total)
    if len(stores) != 1 or not m.matches(kernels.argument(stores[0], 1, "value"), total):
        raise NotUnderstood("more than the sum is stored")
    if not all(is_known(one, module, kernel) for one in kernels.calls(kernel.body)):
        raise NotUnderstood("nobody knows what is called")
    body = source.statements(kernel)
    made = [at for at, line in enumerate(body) if bound_in(line)[added.total] and at != added.at]
    first, *others = made or [added.at]
    begins = m.Call(m.Attribute(m.Name("tl"), m.Name("zeros")))
    if first >= added.at or not m.matches(source.value(body[first]), begins):
        raise NotUnderstood("the sum does not begin with zero")
    handed = m.Name(m.MatchIfTrue(lambda name: kernels.is_handed(kernel, name)))
    scaled = m.BinaryOperation(total, m.Multiply(), handed)
    if not all(at > added.at and m.matches(source.value(body[at]), scaled) for at in others):
        raise NotUnderstood("something else is done to the sum")
    if not all(source.is_plain(body[at], added.total) for at in (first, *others)):
        raise NotUnderstood("something else is done to the sum")
    if source.loads(kernel, added.total) != 2 + len(others):
        raise NotUnderstood("the sum serves for more")
    return stores[0]
