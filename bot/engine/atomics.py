"""Atomic additions of a kernel: each program of the second axis adds to its own run of places, all programs of the
first axis to the same, in vectors of zeros that the host makes for one launch."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import addresses, kernels, runs, source
from bot.engine.addresses import Names
from bot.engine.finding import findall
from bot.engine.ranges import RANGE
from bot.engine.source import LaunchSite, NotUnderstood

SECOND = "tl.program_id(1)"
ADDITION = m.Expr(value=m.Call(func=m.Attribute(value=m.Name("tl"), attr=m.Name("atomic_add"))))


@dataclass(frozen=True, slots=True)
class Added:
    """`tl.atomic_add(pointer + index, value)` in its line."""

    line: cst.SimpleStatementLine
    call: cst.Call
    pointer: str
    index: cst.BaseExpression
    value: cst.BaseExpression
    cast: str
    """The parameter with the type that the value is rounded to before it is added; empty where there is none."""

    @property
    def stride(self) -> str:
        return f"{self.pointer.removesuffix('_ptr')}_row_stride"


@dataclass(frozen=True, slots=True)
class Vector:
    """`name = torch.zeros(size, dtype=..., device=...)` of the host."""

    name: str
    line: cst.SimpleStatementLine
    call: cst.Call
    size: str
    dtype: str


def _run(loop: cst.For, kernel: cst.FunctionDef, names: Names) -> str:
    """The loop's variable, where it goes over the run of this program of the second axis."""
    call, target = loop.iter, loop.target
    if not m.matches(call, RANGE) or not isinstance(call, cst.Call) or not isinstance(target, cst.Name):
        raise NotUnderstood("the loop is no range")
    bounds = [arg.value for arg in call.args if arg.keyword is None]
    if len(bounds) != 2:
        raise NotUnderstood("the loop has a step, or no beginning")
    first = addresses.terms(bounds[0], names)
    each = [factor for factor in first[0] if factor != SECOND] if len(first) == 1 else []
    if len(each) != 1 or len(first[0]) != 2 or each[0] not in source.parameters(kernel):
        raise NotUnderstood("the loop does not begin at the run of its program")
    if not runs.one_more(bounds[1], each[0], names, SECOND):
        raise NotUnderstood("the loop does not end with the run of its program")
    return str(target.value)


def _added(line: cst.BaseStatement, index: str) -> Added | None:
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1 or not m.matches(line.body[0], ADDITION):
        return None
    call = cst.ensure_type(cst.ensure_type(line.body[0], cst.Expr).value, cst.Call)
    address, value = (kernels.argument(call, at, name) for at, name in ((0, "pointer"), (1, "val")))
    known = {0: "", 1: ""} if len(call.args) == 2 and all(arg.keyword is None for arg in call.args) else None
    plain = m.BinaryOperation(left=m.Name(), operator=m.Add(), right=m.Name(index))
    if known is None or value is None or not isinstance(address, cst.BinaryOperation) or not m.matches(address, plain):
        raise NotUnderstood("an addition is not to one place of its program")
    cast = ""
    if m.matches(value, m.Call(func=m.Attribute(attr=m.Name("to")), args=[m.Arg(value=m.Name(), keyword=None)])):
        rounded = cst.ensure_type(value, cst.Call)
        cast = cst.ensure_type(rounded.args[0].value, cst.Name).value
        value = cst.ensure_type(rounded.func, cst.Attribute).value
    return Added(line, call, cst.ensure_type(address.left, cst.Name).value, address.right, value, cast)


def additions(kernel: cst.FunctionDef) -> list[Added]:
    """All atomics of a kernel, each of which is understood."""
    names = addresses.names_of(kernel)
    found = []
    for loop in source.statements(kernel):
        inside = loop.body.body if isinstance(loop, cst.For) else ()
        for line in inside:
            if kernels.calls(line, "atomic_add") and isinstance(loop, cst.For) and isinstance(line, cst.BaseStatement):
                one = _added(line, _run(loop, kernel, names))
                found += [one] if one is not None else []
    if not found or len(found) != sum("atomic" in kernels.called_name(call) for call in kernels.calls(kernel)):
        raise NotUnderstood("there are no atomics, or not all of them are understood")
    for one in found:
        if source.loads(kernel, one.pointer) != 1 or one.pointer not in source.parameters(kernel):
            raise NotUnderstood(f"{one.pointer} serves for more than one addition")
        if one.stride in {n.value for n in findall(kernel, m.Name()) if isinstance(n, cst.Name)}:
            raise NotUnderstood(f"{one.stride} is taken")
    return found


def vector(site: LaunchSite, kernel: cst.FunctionDef, pointer: str) -> Vector:
    """The host's zeros for a pointer, which nobody looks at before the launch."""
    given = runs.given(site, kernel, pointer)
    body = source.statements(site.function)
    at = source.last_binding(site, given.value) if isinstance(given, cst.Name) else None
    if at is None or not isinstance(given, cst.Name) or not isinstance(body[site.position], cst.SimpleStatementLine):
        raise NotUnderstood("the sums are not made for a launch that always happens")
    name, line = given.value, cst.ensure_type(body[at], cst.SimpleStatementLine)
    if not source.is_plain(line, name) or source.loads(site.call, name) != 1:
        raise NotUnderstood(f"{name} is not handed over once")
    call = source.value(line)
    zeros = m.Call(func=m.Attribute(value=m.Name("torch"), attr=m.Name("zeros")))
    if not isinstance(call, cst.Call) or not m.matches(call, zeros):
        raise NotUnderstood(f"{name} is not made of zeros")
    if any(findall(between, m.Name(name)) for between in body[at + 1 : site.position]):
        raise NotUnderstood(f"{name} is looked at before the launch")
    sizes, dtype = [arg for arg in call.args if arg.keyword is None], kernels.argument(call, 9, "dtype")
    size = sizes[0].value if len(sizes) == 1 else cst.Ellipsis()
    if isinstance(size, cst.Tuple) and len(size.elements) == 1:
        size = size.elements[0].value
    if not isinstance(size, cst.Name) or dtype is None:
        raise NotUnderstood(f"{name} is no vector with a type")
    return Vector(name, line, call, size.value, source.code(dtype))


def launch_of(module: cst.Module, kernel: cst.FunctionDef) -> LaunchSite:
    """The one launch, on a grid of two axes."""
    launches = source.sites(module, str(kernel.name.value))
    if len(launches) != 1 or set(kernels.program_axes(kernel)) != {0, 1}:
        raise NotUnderstood("it is not launched once, on a grid of two axes")
    return launches[0]


def zeros_in_float32(vector: Vector, first: str, why: str) -> cst.SimpleStatementLine:
    """The zeros with one more axis in front of theirs, in float32."""
    size = next(arg for arg in vector.call.args if arg.keyword is None)
    args = [
        arg.with_changes(value=source.expression(f"({first}, {vector.size})"))
        if arg is size
        else arg.with_changes(value=source.expression("torch.float32"))
        if arg.keyword is not None and arg.keyword.value == "dtype"
        else arg
        for arg in vector.call.args
    ]
    assign = cst.ensure_type(vector.line.body[0], cst.Assign)
    made = assign.with_changes(value=vector.call.with_changes(args=args))
    lines = (*vector.line.leading_lines, *source.comment_lines(why))
    return vector.line.with_changes(body=[made], leading_lines=lines)


def unread(kernel: cst.FunctionDef, found: list[Added]) -> str:
    """The parameter that only said what to round to."""
    casts = {one.cast for one in found}
    (cast,) = casts if len(casts) == 1 else ("",)
    return cast if cast and cast in source.parameters(kernel) and source.loads(kernel, cast) == len(found) else ""


def idle(site: LaunchSite, unread: str) -> cst.SimpleStatementLine | None:
    """The line that made what is no longer handed over, where it served for nothing else."""
    given = site.argument(unread) if unread else None
    at = source.last_binding(site, given.value) if isinstance(given, cst.Name) else None
    if at is None or not isinstance(given, cst.Name) or source.loads(site.function, given.value) != 1:
        return None
    line = source.statements(site.function)[at]
    plain = source.is_plain(line, given.value) and not kernels.calls(line) and not findall(line, m.Comment())
    return cst.ensure_type(line, cst.SimpleStatementLine) if plain else None
