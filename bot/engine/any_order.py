"""Whether the turns of a walk may be taken in any order: none knows of another, and nothing behind knows the last one.

Two pointers are taken to be of the same place, as where a gradient is written over its input, or of places apart. Loads
and stores through one are looked at by `bot/engine/row_reads.py`, and that no two turns share a column by
`bot/engine/steps.py`; here it is the names.
"""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from bot.engine import kernels, source
from bot.engine.finding import findall
from bot.engine.row_reads import ATOMIC, BINDS, LOAD, STORE
from bot.engine.source import NotUnderstood

PLAIN = m.Assign() | m.AnnAssign() | m.AugAssign()
"""Lines that do nothing but to give a name a value."""


def _bound(node: cst.CSTNode) -> set[str]:
    """Names that get a value in it."""
    found = set[str]()
    for line in findall(node, BINDS):
        targets = [one.target for one in line.targets] if isinstance(line, cst.Assign) else [line.target]
        found |= {cst.ensure_type(name, cst.Name).value for target in targets for name in findall(target, m.Name())}
    return found


def _given(line: cst.CSTNode) -> set[str]:
    """Names that it gives a value itself: a loop its target alone."""
    if not isinstance(line, cst.For):
        return _bound(line)
    return {cst.ensure_type(name, cst.Name).value for name in findall(line.target, m.Name())}


def _begins_anew(loop: cst.For, name: str) -> bool:
    """Whether every turn gives it a value before it reads it."""
    if m.matches(loop.target, m.Name(name)):
        return True
    for statement in loop.body.body:
        if source.is_plain(statement, name):
            return not source.loads(source.value(statement), name)
        if source.loads(statement, name) or name in _bound(statement):
            return False
    return False


def _loops(tree: cst.CSTNode) -> list[cst.For]:
    return [cst.ensure_type(found, cst.For) for found in findall(tree, m.For())]


def _has_a_value_before(kernel: cst.FunctionDef, loop: cst.For, name: str) -> bool:
    """Of what is first given a value in another walk, or in this one, Triton knows nothing outside of that walk."""
    walks = [one for one in _loops(kernel) if loop not in _loops(one)[1:]]
    inside = {id(line) for one in walks for line in findall(one, BINDS)}
    lines = [line for line in findall(kernel.body, BINDS) if id(line) not in inside]
    return name in source.parameters(kernel) or any(name in _given(line) for line in lines)


def _is_read_outside(kernel: cst.FunctionDef, loop: cst.For, name: str) -> bool:
    """Whether anybody reads what it holds but turns of this walk, and those of others that give it a value first."""
    others = [one for one in _loops(kernel) if loop not in _loops(one) and name in _bound(one)]
    local = not _has_a_value_before(kernel, loop, name)
    own = [one for one in others if local or _begins_anew(one, name)]
    outermost = [one for one in own if not any(one in _loops(other)[1:] for other in own)]
    return source.loads(kernel.body, name) > sum(source.loads(one, name) for one in (loop, *outermost))


def _root(node: cst.BaseExpression) -> str:
    """The name that an address begins with."""
    while isinstance(node, cst.BinaryOperation):
        node = node.left
    return node.value if isinstance(node, cst.Name) else ""


def _refuse_deeds(kernel: cst.FunctionDef, loop: cst.For) -> None:
    """Raises NotUnderstood where a turn does more than to load, to reckon and to store."""
    if any(kernels.called_name(call).startswith(ATOMIC) for call in kernels.calls(loop.body)):
        raise NotUnderstood("a turn adds to what others have as well")
    lines = [line for found in findall(loop.body, m.SimpleStatementLine()) for line in found.body]
    for line in lines:
        stores = isinstance(line, cst.Expr) and m.matches(line.value, m.Call(func=m.Attribute(attr=m.Name(STORE))))
        if not stores and not m.matches(line, PLAIN):
            raise NotUnderstood("a turn does more than to load, to reckon and to store")
    accesses = [call for call in kernels.calls(kernel) if kernels.called_name(call) in (LOAD, STORE) and call.args]
    pointers = {_root(call.args[0].value) for call in accesses}
    for call in kernels.calls(loop.body):
        if call not in accesses and any(_root(arg.value) in pointers for arg in call.args):
            raise NotUnderstood("a turn hands a pointer on")


def refuse_order(kernel: cst.FunctionDef, loop: cst.For) -> None:
    """Raises NotUnderstood where it is not sure that the turns may be taken in any order."""
    _refuse_deeds(kernel, loop)
    for name in sorted(_bound(loop)):
        if _is_read_outside(kernel, loop, name):
            raise NotUnderstood(f"{name} is read behind the walk, or in the next one")
        if _has_a_value_before(kernel, loop, name) and not _begins_anew(loop, name):
            raise NotUnderstood(f"{name} may be carried from turn to turn")
