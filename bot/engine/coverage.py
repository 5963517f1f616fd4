"""Whether a launch provably writes every element of a tensor, argued from the source of kernel and host."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import addresses, kernels, runs, source
from bot.engine.addresses import Names, Product
from bot.engine.bindings import bound_in, times_bound
from bot.engine.finding import findall
from bot.engine.source import LaunchSite, NotUnderstood

UNEQUAL = m.Comparison(comparisons=[m.ComparisonTarget(operator=m.NotEqual())])
PERHAPS = m.IfExp() | m.BooleanOperation() | m.Lambda() | m.GeneratorExp() | m.ListComp()
LESS = m.BinaryOperation(operator=m.FloorDivide() | m.Divide() | m.Subtract() | m.RightShift() | m.Modulo()) | m.IfExp()
"""What makes a block that may be smaller than the width it is made of."""
PROGRAMS = tuple(kernels.PROGRAMS)


@dataclass(frozen=True, slots=True)
class Output:
    site: LaunchSite
    kernel: cst.FunctionDef
    pointer: str
    """The parameter of the kernel that gets the tensor."""
    name: str
    """What the host calls it."""
    dims: tuple[str, ...]
    """Its sizes, in the host's words."""
    condition: str = ""
    """The host's words for when it is there at all."""
    is_packed: bool = False
    """Made of its sizes, so that its rows lie one behind the other."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One store with what it stands in, outermost first."""

    call: cst.Call
    around: tuple[cst.For | cst.If, ...]
    branch: tuple[bool, ...]
    """For each `if` around it: whether the store stands in the body of it."""


def _stores(body: cst.BaseSuite, around: tuple[cst.For | cst.If, ...], branch: tuple[bool, ...]) -> list[Stored]:
    found: list[Stored] = []
    for statement in body.body:
        if isinstance(statement, cst.For):
            found += _stores(statement.body, (*around, statement), branch)
        elif isinstance(statement, cst.If):
            found += _stores(statement.body, (*around, statement), (*branch, True))
            if isinstance(statement.orelse, cst.Else):
                found += _stores(statement.orelse.body, (*around, statement), (*branch, False))
        elif isinstance(statement, cst.BaseStatement | cst.BaseSmallStatement):
            found += [Stored(call, around, branch) for call in kernels.calls(statement, "store")]
    return found


def only_stored(kernel: cst.FunctionDef, pointers: frozenset[str]) -> list[Stored]:
    """The stores through a pointer, once it is sure that it serves for nothing else."""
    types = m.Attribute(value=m.OneOf(*(m.Name(p) for p in pointers)), attr=m.Name("dtype"))
    if sum(source.loads(kernel, p) for p in pointers) == 0:
        raise NotUnderstood("the pointer is not used")
    for call in kernels.calls(kernel):
        read = sum(source.loads(arg, p) for arg in call.args for p in pointers)
        typed = sum(len(findall(arg, types)) for arg in call.args)
        if kernels.called_name(call) != "store" and read > typed:
            raise NotUnderstood(f"{kernels.called_name(call)} gets the pointer")
    everything = _stores(kernel.body, (), ())
    mine = [s for s in everything if s.call.args and any(source.loads(s.call.args[0], p) for p in pointers)]
    addressed = sum(source.loads(stored.call.args[0], p) for stored in mine for p in pointers)
    if any(findall(part, m.Call(func=m.Attribute(attr=m.Name("store")))) for part in findall(kernel, PERHAPS)):
        raise NotUnderstood("a store may be left out")
    making = 0
    for found in findall(kernel, m.Assign() | m.AugAssign()):
        targets = bound_in(found)
        if sum(source.loads(found.value, p) for p in pointers) and set(targets) - pointers:
            raise NotUnderstood("a name may stand for the pointer, or for something else")
        making += sum(source.loads(found.value, p) for p in pointers)
        if isinstance(found, cst.AugAssign) and m.matches(found.target, m.OneOf(*(m.Name(p) for p in pointers))):
            making += 1
    if addressed + len(findall(kernel, types)) + making != sum(source.loads(kernel, p) for p in pointers):
        raise NotUnderstood("the pointer serves for more than stores")
    if not mine:
        raise NotUnderstood("nothing is stored there")
    return mine


class _Proof:
    def __init__(self, output: Output) -> None:
        self.output, self.site, self.kernel = output, output.site, output.kernel
        self.names: Names = addresses.names_of(output.kernel)
        self.grid = runs.grid_of(output.site)
        self.constants = kernels.constants(output.kernel)

    def host(self, parameter: str) -> str:
        if times_bound(self.kernel, parameter):
            raise NotUnderstood(f"{parameter} is not what the launch hands over")
        return source.code(runs.given(self.site, self.kernel, parameter))

    def check(self) -> None:
        if findall(self.kernel, m.Return() | m.While() | m.Break() | m.Continue()):
            raise NotUnderstood("a program may end early")
        pointers = addresses.derived(self.output.pointer, self.names)
        whole = [stored for stored in only_stored(self.kernel, pointers) if self._is_whole(stored)]
        said = {self._conditions(stored) for stored in whole}
        if () in said or self._same_condition(said) or self._either_way(said):
            return
        raise NotUnderstood("a store depends on what only the launch knows")

    def _conditions(self, stored: Stored) -> tuple[tuple[str, bool], ...]:
        """The `if`s around a store, all of them about constants; `a != b` counts as not `a == b`."""
        found, sides = [], iter(stored.branch)
        for outer in stored.around:
            if isinstance(outer, cst.For):
                continue
            side, test = next(sides), outer.test
            changing = {*self.names.made, *self.names.unknown}
            if any(source.loads(test, n) for n in changing) or not self._constant(test):
                raise NotUnderstood("a store depends on what was loaded")
            text = source.code(test)
            if m.matches(test, UNEQUAL):
                text, side = text.replace(" != ", " == "), not side
            found.append((text, side))
        return tuple(found)

    def _constant(self, test: cst.BaseExpression) -> bool:
        used = {name.value for name in findall(test, m.Name()) if isinstance(name, cst.Name)}
        return not used & (set(source.parameters(self.kernel)) - self.constants) and not kernels.calls(test)

    def _same_condition(self, said: set[tuple[tuple[str, bool], ...]]) -> bool:
        """The tensor is there exactly when the kernel writes it."""
        for conditions in said:
            if self.output.condition and len(conditions) == 1 and conditions[0][1]:
                parameter = conditions[0][0]
                if parameter in self.constants and self.host(parameter) == self.output.condition:
                    return True
        return False

    def _either_way(self, said: set[tuple[tuple[str, bool], ...]]) -> bool:
        return any(len(one) == 1 and ((one[0][0], not one[0][1]),) in said for one in said)

    def _is_whole(self, stored: Stored) -> bool:
        """Whether the store, over all programs and turns, reaches every element."""
        found = addresses.terms(stored.call.args[0].value, self.names)
        if (self.output.pointer,) not in found:
            return False
        found.remove((self.output.pointer,))
        loops = [outer for outer in stored.around if isinstance(outer, cst.For)]
        mask = kernels.argument(stored.call, 2, "mask")
        if mask is None:
            return self._scalars(found, loops)
        return self._rows(found, loops, mask)

    def _stride(self, factor: str, axis: int) -> bool:
        """Whether a parameter holds the stride of the tensor along an axis, perhaps 0 where there is no tensor."""
        if factor not in source.parameters(self.kernel):
            return False
        said, _, when = self.host(factor).partition(" if ")
        if when and not when.endswith((" is not None else 0", f"{self.output.condition or None} else 0")):
            return False
        back = axis - len(self.output.dims)
        if self.output.is_packed and back == -2 and said == self.output.dims[-1]:
            return True
        return said in (f"{self.output.name}.stride({axis})", f"{self.output.name}.stride({back})")

    def _indices(self, found: list[Product], axes: int) -> list[str] | None:
        """For each axis the index that the address multiplies with its stride; the last of all has a stride of one."""
        indices, rest = [], list(found)
        for axis in range(axes):
            last = axis == len(self.output.dims) - 1
            match: list[Product] = [t for t in rest if len(t) == 2 and any(self._stride(f, axis) for f in t)]
            match = match or [t for t in rest if last and len(t) == 1]
            if len(match) != 1:
                return None
            rest.remove(match[0])
            indices.append(next((f for f in match[0] if not self._stride(f, axis)), match[0][0]))
        return indices if not rest else None

    def _scalars(self, found: list[Product], loops: list[cst.For]) -> bool:
        """One element a program, or a row of its run."""
        indices = self._indices(found, len(self.output.dims))
        if indices is None:
            return False
        if len(indices) == 1:
            return self._every_row(indices[0], loops)
        return not loops and tuple(indices) == PROGRAMS[: len(indices)] and self.grid == self.output.dims

    def _every_row(self, index: str, loops: list[cst.For]) -> bool:
        if index == PROGRAMS[0]:
            return not loops and self.grid[0] == self.output.dims[0] and len(self.grid) == 1
        run = runs.run_of(self.kernel)
        inside = len(loops) == 1 and loops[0] is run.loop and index == run.row
        handed = times_bound(self.kernel, run.rows) + times_bound(self.kernel, run.each) == 0
        if times_bound(self.kernel, run.row) != 1 or not handed:
            raise NotUnderstood("a run of rows is not the one that the launch hands over")
        return inside and runs.shares_all_rows(self.site, self.kernel, run) == self.output.dims[0]

    def _rows(self, found: list[Product], loops: list[cst.For], mask: cst.BaseExpression) -> bool:
        """A row a program or turn, and all of its columns."""
        if isinstance(mask, cst.Name) and mask.value in self.names.made:
            mask = self.names.made[mask.value]
        if not m.matches(mask, m.Comparison(comparisons=[m.ComparisonTarget(operator=m.LessThan())])):
            return False
        compared = cst.ensure_type(mask, cst.Comparison)
        width, columns = compared.comparisons[0].comparator, addresses.terms(compared.left, self.names)
        if not isinstance(width, cst.Name) or not all(column in found for column in columns):
            return False
        rest = [term for term in found if term not in columns]
        if len(self.output.dims) != 2 or self.host(width.value) != self.output.dims[1]:
            return False
        indices = self._indices(rest, 1)
        across = self._across(columns, width.value, loops)
        return indices is not None and across is not None and self._every_row(indices[0], across)

    def _across(self, columns: list[Product], width: str, loops: list[cst.For]) -> list[cst.For] | None:
        """The loops that are left when the one across the row is taken away; None when it does not reach the end."""
        aranges = [call for call in kernels.calls(self.kernel, "arange") if (source.code(call),) in columns]
        if len(aranges) != 1 or kernels.integer(kernels.argument(aranges[0], 0, "start")) != 0:
            return None
        block = source.code(kernels.argument(aranges[0], 1, "end") or aranges[0])
        if len(columns) == 1:
            return loops if self._holds_a_row(block) else None
        steps = [source.code(arg.value) for arg in cst.ensure_type(loops[-1].iter, cst.Call).args] if loops else []
        start = source.code(loops[-1].target) if loops else ""
        if start and times_bound(self.kernel, start) != 1:
            return None
        return loops[:-1] if steps == ["0", width, block] and (start,) in columns and len(columns) == 2 else None

    def _holds_a_row(self, block: str) -> bool:
        """Whether the host computes the block from the width; that it is enough is what the kernel relies on."""
        if block not in self.constants:
            return False
        given = runs.given(self.site, self.kernel, block)
        at = source.last_binding(self.site, given.value) if isinstance(given, cst.Name) else None
        if at is None:
            return False
        made = source.statements(self.site.function)[at]
        width, since = self.output.dims[1], source.statements(self.site.function)[at + 1 : self.site.position]
        if kernels.calls(made, "min") or findall(made, LESS) or any(bound_in(line)[width] for line in since):
            return False
        return bool(source.loads(made, width))


def check(output: Output) -> None:
    """Raises NotUnderstood unless every element is written, and none is read, by the launch."""
    _Proof(output).check()
