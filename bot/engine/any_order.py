"""Whether the turns of a walk may be taken in any order: none knows of another, and nothing behind knows the last one.

Said of a walk of one plain shape, and of nothing else: over a parameter that nobody moves, in steps of a constant; its
lines give names values and store. Names: each turn gives one a value before it reads it, or nobody outside of the walk
ever does, and behind the walk nobody reads it. Memory: who is stored to is touched at the turn's own columns alone; two
pointers are taken to be of places apart, or of one where both are touched so, as where a gradient is written over its
input. Calls: those that `bot/engine/reckoning.py` knows to reckon and no more.
"""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import addresses, kernels, ranges, source
from bot.engine.bindings import bound_in, made_of
from bot.engine.finding import findall
from bot.engine.ranges import Walk
from bot.engine.reckoning import LANGUAGE, reckons, refuse_other_meanings
from bot.engine.row_reads import STORE, Access, accesses
from bot.engine.source import NotUnderstood

GIVES = m.Assign(targets=[m.AssignTarget(target=m.Name())]) | m.AugAssign(target=m.Name())
STORES = m.Expr(value=m.Call(func=m.Attribute(value=m.Name(LANGUAGE), attr=m.Name(STORE))))
"""What a turn may do, with the line before."""
STRANGE = m.CompFor() | m.Lambda() | m.SimpleStatementSuite()
"""What binds names where nobody looks for them, or stands where no line is."""
LINES = m.Assign() | m.AnnAssign() | m.AugAssign()
WIDE = m.Call(func=m.Attribute(attr=m.Name("arange") | m.Name("zeros") | m.Name("full")))
"""What makes more than one number."""
INVARIANT = ("program_id", *addresses.CASTS)
"""What a part of an address that is the same in every turn may ask for."""
DEEPEST = 12
"""Names that stand for names."""


@dataclass(frozen=True, slots=True)
class Turns:
    """The turns of one walk of a kernel."""

    module: cst.Module
    kernel: cst.FunctionDef
    loop: cst.For
    walk: Walk

    @property
    def made(self) -> frozenset[str]:
        """Names that a turn gives a value."""
        return frozenset(bound_in(self.loop.body))

    def refuse_order(self) -> None:
        """Raises NotUnderstood where it is not sure that any order will do."""
        self._refuse_shape()
        self._refuse_target()
        for name in sorted(self.made):
            self._refuse_name(name)
        for call in kernels.calls(self.loop.body):
            if not reckons(call, self.module, self.kernel):
                raise NotUnderstood("a turn calls what may do more than to reckon")
        self._refuse_memory()

    def _refuse_shape(self) -> None:
        if findall(self.kernel, STRANGE):
            raise NotUnderstood("the kernel holds more than plain lines, branches and loops")
        refuse_other_meanings(self.module, self.kernel)
        given, parameters = bound_in(self.kernel.body), source.parameters(self.kernel)
        if given[self.walk.end] or self.walk.end not in parameters or given[self.walk.block]:
            raise NotUnderstood("a walk may move its end or its step")
        if not any(one.name.value == self.walk.end and _may_be_wide(one) for one in source.declared(self.kernel)):
            raise NotUnderstood("the end of a walk may be a number of few bits")
        if self.walk.block not in kernels.constants(self.kernel):
            raise NotUnderstood("a walk does not go on by a constant")
        for statement in findall(self.loop.body, m.SimpleStatementLine()):
            for line in cst.ensure_type(statement, cst.SimpleStatementLine).body:
                if not m.matches(line, GIVES) and not m.matches(line, STORES):
                    raise NotUnderstood("a turn does more than to give names values and to store")

    def _loops(self) -> list[cst.For]:
        """The other walks: those that this one does not stand in, and that do not stand in it."""
        mine = kernels.loops(self.loop)
        return [one for one in kernels.loops(self.kernel) if one not in mine and self.loop not in kernels.loops(one)]

    def _refuse_target(self) -> None:
        """It becomes a name with a value before the walk: of the same type as now where all of its walks are alike."""
        name = self.walk.target
        walks = [self.loop, *(one for one in self._loops() if ranges.walk_of(one) == self.walk)]
        if bound_in(self.kernel)[name] != len(walks) or name in source.parameters(self.kernel):
            raise NotUnderstood("the place in the row has another meaning elsewhere")
        heads = len(walks)  # each names it once
        if source.loads(self.kernel.body, name) != heads + sum(source.loads(one.body, name) for one in walks):
            raise NotUnderstood("the place in the row is read behind the walk")

    def _has_a_value_before(self, name: str) -> bool:
        """Of what is first given a value in a loop Triton knows nothing outside of it."""
        local = sum(bound_in(one.body)[name] for one in (self.loop, *self._outermost()))
        return name in source.parameters(self.kernel) or bound_in(self.kernel.body)[name] != local

    def _outermost(self) -> list[cst.For]:
        loops = [one for one in self._loops() if ranges.is_range(one)]
        return [one for one in loops if not any(one in kernels.loops(other.body) for other in loops)]

    def _refuse_name(self, name: str) -> None:
        before = self._has_a_value_before(name)
        if before and not _begins_anew(self.loop, name):
            raise NotUnderstood(f"{name} may be carried from turn to turn")
        own = [one for one in self._outermost() if not before or _begins_anew(one, name)]
        own = [one for one in own if bound_in(one.body)[name]]
        if source.loads(self.kernel.body, name) != sum(source.loads(one.body, name) for one in (self.loop, *own)):
            raise NotUnderstood(f"{name} is read behind the walk")

    def _refuse_memory(self) -> None:
        inside = kernels.calls(self.loop.body)
        mine = [access for access in accesses(self.kernel) if any(access.call is call for call in inside)]
        for base in {access.place.base for access in mine if access.kind == STORE}:
            rows = {self._row(access) for access in mine if access.place.base == base}
            if len(rows) != 1:
                raise NotUnderstood("a turn touches a place that another one stores to")

    def _row(self, access: Access) -> tuple[str, ...]:
        """Where the row begins that an access is of, if it is of the turn's own columns."""
        parts = self._parts(access.call.args[0].value)
        places = [part for part in parts if self._is_place(part)]
        lanes = [part for part in parts if self._is_lanes(part)]
        rest = [part for part in parts if part not in places and part not in lanes]
        if access.place.mixed:
            raise NotUnderstood("an address adds up parameters, of which one may be another pointer")
        if len(places) != 1 or len(lanes) != 1:
            raise NotUnderstood("who is stored to is touched elsewhere than at the turn's own columns")
        for part in rest:
            moved = {cst.ensure_type(name, cst.Name).value for name in findall(part, m.Name())}
            asks = {kernels.called_name(call) for call in kernels.calls(part)}
            if moved & {*self.made, *self._wide(), self.walk.target} or not asks <= set(INVARIANT):
                raise NotUnderstood("a row begins elsewhere in another turn")
        return tuple(sorted(source.code(part) for part in rest))

    def _wide(self) -> frozenset[str]:
        """Names of more than one number: two turns may share what is added to their columns."""
        return made_of(findall(self.kernel, LINES), WIDE)

    def _parts(self, node: cst.BaseExpression, depth: int = 0) -> list[cst.BaseExpression]:
        """What an address adds up, with the names that a turn makes once written out."""
        found: list[cst.BaseExpression] = []
        for part in addresses.parts(node):
            value = self._line(part.value) if isinstance(part, cst.Name) else None
            found += [part] if value is None or depth > DEEPEST else self._parts(value, depth + 1)
        return found

    def _line(self, name: str) -> cst.BaseExpression | None:
        lines = [line for line in self.loop.body.body if source.is_plain(line, name)]
        return source.value(lines[0]) if len(lines) == 1 == bound_in(self.loop.body)[name] else None

    def _is_place(self, part: cst.BaseExpression) -> bool:
        if not self.walk.counts:
            return bool(m.matches(part, m.Name(self.walk.target)))
        block, place = m.Name(self.walk.block), m.Name(self.walk.target)
        times = m.BinaryOperation(left=place, operator=m.Multiply(), right=block)
        return bool(m.matches(part, times | m.BinaryOperation(left=block, operator=m.Multiply(), right=place)))

    def _is_lanes(self, part: cst.BaseExpression) -> bool:
        """The columns of a block, or a name for them that is made once, at the kernel's own margin."""
        if isinstance(part, cst.Name) and bound_in(self.kernel)[part.value] == 1:
            lines = [line for line in source.statements(self.kernel) if source.is_plain(line, part.value)]
            part = source.value(lines[0]) if lines else part
        arange = m.Call(func=m.Attribute(value=m.Name(LANGUAGE), attr=m.Name("arange")))
        return m.matches(part, arange) and _said(part) == ("0", self.walk.block)


def _may_be_wide(parameter: cst.Param) -> bool:
    """Whether the kernel says no type of it: what a host hands over has 32 bits and more."""
    return parameter.annotation is None or kernels.is_constant(parameter)


def _said(call: cst.CSTNode) -> tuple[str, ...]:
    args = cst.ensure_type(call, cst.Call).args
    return tuple(source.code(arg.value) for arg in args if arg.keyword is None and not arg.star)


def _begins_anew(loop: cst.For, name: str) -> bool:
    """Whether every turn gives it a value before it reads it."""
    for statement in loop.body.body:
        if source.is_plain(statement, name):
            return not source.loads(source.value(statement), name)
        if source.loads(statement, name) or bound_in(statement)[name]:
            return False
    return False
