"""Reads which shape the blocks of tensor descriptors have, where a hook in a list of launch numbers gives it to
them."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst
import libcst.matchers as m

from bot.engine import kernels, source
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood

Shape = tuple[str, ...]
"""A constant for each side; "1" for one that is none."""
ONE = m.SimpleStatementLine(body=[m.Assign(targets=[m.AssignTarget()])])


def sides_of(node: cst.BaseExpression | None) -> Shape:
    """`[1, ROWS, COLUMNS]`"""
    if not isinstance(node, cst.List | cst.Tuple):
        raise NotUnderstood("nobody can tell what shape it has")
    return tuple(source.code(one.value) for one in node.elements)


def without_ones(shape: Shape) -> Shape:
    return tuple(side for side in shape if side != "1")


def blocks(hook: cst.FunctionDef, constants: frozenset[str]) -> Mapping[str, Shape]:
    """The shape of each descriptor's block, by a function that gives them to a launch and does nothing else."""
    if len(findall(hook.params, m.Param())) != 1 or len(hook.params.params) != 1 or hook.decorators:
        raise NotUnderstood("nobody can tell what it is given")
    given, called, found = str(hook.params.params[0].name.value), dict[str, str](), dict[str, Shape]()
    item = m.Subscript(m.Name(given), [m.SubscriptElement(m.Index(m.SimpleString()))])
    for line in source.statements(hook):
        if m.matches(line, kernels.DOCSTRING):
            continue
        if not m.matches(line, ONE):
            raise NotUnderstood("it does more than to give blocks their shapes")
        made = cst.ensure_type(cst.ensure_type(line, cst.SimpleStatementLine).body[0], cst.Assign)
        target = made.targets[0].target
        if isinstance(target, cst.Name) and target.value not in (given, *called) and m.matches(made.value, item):
            called[target.value] = _word(made.value)
        elif isinstance(target, cst.Attribute) and m.matches(target, m.Attribute(item, m.Name("block_shape"))):
            if not isinstance(made.value, cst.List):
                raise NotUnderstood("nobody can tell what shape a block is given")
            found[_word(target.value)] = tuple(_side(one.value, called, item) for one in made.value.elements)
        else:
            raise NotUnderstood("it does more than to give blocks their shapes")
    if not all({*shape} <= {"1", *constants} for shape in found.values()):
        raise NotUnderstood("a side of a block is no constant of the list")
    return found


def _side(node: cst.BaseExpression, called: Mapping[str, str], item: m.Subscript) -> str:
    if m.matches(node, item):
        return _word(node)
    name = source.code(node)
    if not isinstance(node, cst.Integer) and name not in called:
        raise NotUnderstood(f"nobody can tell what {name} is")
    return called.get(name, name)


def _word(item: cst.CSTNode) -> str:
    """`NAME` of `nargs["NAME"]`."""
    return str(cst.ensure_type(findall(item, m.SimpleString())[0], cst.SimpleString).evaluated_value)
