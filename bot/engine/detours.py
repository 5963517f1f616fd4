"""Where the host takes a tensor of a launch through float32: a copy of what goes in, or a result that is cast at once.

The copy, or the result, may belong to another function than the one that launches: an autograd function that casts what
it hands to the function with the launch, or what it gets from it. Seen are the callers of this file; each has to cast.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

import libcst as cst
import libcst.matchers as m

from bot.engine import added_up, kernels, runs, source
from bot.engine.bindings import times_bound
from bot.engine.finding import findall
from bot.engine.source import LaunchSite, NotUnderstood

FLOAT32 = m.Attribute(value=m.Name("torch"), attr=m.Name("float32"))
METADATA = m.OneOf(*(m.Name(n) for n in ("stride", "size", "shape", "dim", "ndim", "numel", "is_contiguous", "device")))
"""What may be asked of a tensor and does not depend on its type."""
VIEWS = m.OneOf(*(m.Name(n) for n in ("view", "reshape", "flatten", "contiguous")))
MAKING = m.OneOf(*(m.Name(n) for n in ("empty", "zeros", "empty_like", "zeros_like")))
MADE = m.Call(func=m.Attribute(value=m.Name("torch"), attr=MAKING))
WIDENED = m.Call(func=m.Attribute(attr=m.Name("to")), args=[m.Arg(value=FLOAT32, keyword=None)]) | m.Call(
    func=m.Attribute(attr=m.Name("float")), args=[]
)
DENSE = "ensure_contiguous"
"""A decorator that makes every tensor it is handed dense. A copy in another type is dense too, and may be needed so."""


@dataclass(frozen=True, slots=True)
class Copied:
    """`x.to(torch.float32)`, of which nothing but a launch, or the function with the launch, is handed the result."""

    call: cst.Call
    line: cst.SimpleStatementLine | None
    """The line that gives it a name, if it has one."""

    @property
    def original(self) -> cst.BaseExpression:
        return cst.ensure_type(self.call.func, cst.Attribute).value


@dataclass(frozen=True, slots=True)
class Cast:
    """`name.to(like.dtype)`, all that becomes of a result."""

    call: cst.Call
    name: str
    like: str
    line: cst.SimpleStatementLine | None
    """`name = name.to(like.dtype)`, where it is a line of its own."""


@dataclass(frozen=True, slots=True)
class Received:
    """A call of the function with the launch, and what is done with the result."""

    line: cst.SimpleStatementLine
    cast: Cast


@dataclass(frozen=True, slots=True)
class Result:
    """`name = torch.empty(..., dtype=torch.float32)` for a launch, cast to a parameter's type by all who get it."""

    line: cst.SimpleStatementLine
    call: cst.Call
    like: str
    """The parameter, of the function with the launch, in whose type it ends up."""
    received: tuple[Received, ...]
    cast: Cast | None
    """Where the function casts it by itself."""

    def in_its_type(self) -> cst.Call:
        made = self.call
        dtype = next(arg for arg in made.args if arg.keyword is not None and arg.keyword.value == "dtype")
        if not kernels.called_name(made).endswith("_like") or not m.matches(made.args[0].value, m.Name(self.like)):
            typed = dtype.with_changes(value=source.expression(f"{self.like}.dtype"))
            return made.with_changes(args=[typed if arg is dtype else arg for arg in made.args])
        others = [arg for arg in made.args if arg is not dtype]
        others[-1] = others[-1].with_changes(comma=made.args[-1].comma)
        return made.with_changes(args=others)


def _asked(function: cst.FunctionDef, name: str) -> int:
    """How often something is asked of a tensor that is the same for any type."""
    return len(findall(function, m.Attribute(value=m.Name(name), attr=METADATA)))


@lru_cache(maxsize=8)
def _every_call(module: cst.Module) -> tuple[tuple[cst.FunctionDef, cst.Call], ...]:
    return tuple((one, call) for one in source.all_functions(module) for call in kernels.calls(one))


@lru_cache(maxsize=8)
def _named(module: cst.Module) -> Counter[str]:
    return Counter(cst.ensure_type(name, cst.Name).value for name in findall(module, m.Name()))


def times_named(module: cst.Module, name: str) -> int:
    """How often a name stands in a file, as a name or behind a dot."""
    return _named(module)[name]


def _callers(module: cst.Module, function: cst.FunctionDef) -> list[tuple[cst.FunctionDef, cst.Call]]:
    """Every call of a plain function of the file, with the function that it stands in."""
    name, plain = str(function.name.value), any(function is one for one in source.functions(module))
    found = [(one, call) for one, call in _every_call(module) if m.matches(call.func, m.Name(name))]
    if not plain or function.decorators or not found or times_named(module, name) != 1 + len(found):
        raise NotUnderstood(f"not every call of {name} is known")
    if any(arg.star for _, call in found for arg in call.args):
        raise NotUnderstood(f"nobody knows what {name} is handed")
    return found


def _root(node: cst.BaseExpression) -> tuple[str, bool]:
    """The tensor that something is a view of, and whether it was made dense on the way."""
    dense = False
    while isinstance(node, cst.Call) and m.matches(node.func, m.Attribute(attr=VIEWS)):
        dense |= kernels.called_name(node) == "contiguous"
        node = cst.ensure_type(node.func, cst.Attribute).value
    if not isinstance(node, cst.Name):
        raise NotUnderstood("it is not known what is copied")
    return str(node.value), dense


def _copied(function: cst.FunctionDef, value: cst.BaseExpression) -> Copied:
    """A value that is the copy of a parameter in float32. Raises NotUnderstood where anybody else looks at either."""
    line = None
    if isinstance(value, cst.Name):
        name = str(value.value)
        lines = [one for one in findall(function, m.SimpleStatementLine()) if source.is_plain(one, name)]
        if len(lines) != 1 or times_bound(function, name) != 1:
            raise NotUnderstood(f"{name} is not made once")
        if source.loads(function, name) != 1 + _asked(function, name):
            raise NotUnderstood(f"{name} goes to more than the launch")
        line = cst.ensure_type(lines[0], cst.SimpleStatementLine)
        value = source.value(line)
    if not isinstance(value, cst.Call) or not m.matches(value, WIDENED):
        raise NotUnderstood("what is handed over is no copy in float32")
    found = Copied(value, line)
    root, dense = _root(found.original)
    if root not in source.parameters(function) or times_bound(function, root):
        raise NotUnderstood(f"{root} is not what the function was handed")
    if source.loads(function, root) != 1 + _asked(function, root):
        raise NotUnderstood(f"{root} is used beside its copy")
    if not dense and DENSE not in [source.code(one.decorator) for one in function.decorators]:
        raise NotUnderstood(f"{root} may have gaps that its copy has not")
    return found


def copies(module: cst.Module, site: LaunchSite, kernel: cst.FunctionDef, pointer: str) -> tuple[Copied, ...]:
    """The copies in float32 that a launch reads through a pointer; each caller may make one. Raises NotUnderstood."""
    function, given = site.function, runs.given(site, kernel, pointer)
    if not isinstance(given, cst.Name) or given.value not in source.parameters(function):
        return (_copied(function, given),)
    name = str(given.value)
    if source.loads(function, name) != 1 + _asked(function, name) or times_bound(function, name):
        raise NotUnderstood(f"{name} goes to more than the launch")
    handed = [(caller, kernels.told(call, function, name)) for caller, call in _callers(module, function)]
    if any(value is None for _, value in handed):
        raise NotUnderstood(f"a caller hands over no {name}")
    return tuple(_copied(caller, value) for caller, value in handed if value is not None)


def _guarded(statement: cst.BaseStatement, name: str) -> list[cst.BaseStatement]:
    """The statement, or those of `if name is None:`."""
    absent = m.Comparison(m.Name(name), [m.ComparisonTarget(m.Is(), m.Name("None"))])
    if isinstance(statement, cst.If) and m.matches(statement.test, absent) and statement.orelse is None:
        return [one for one in statement.body.body if isinstance(one, cst.BaseStatement)]
    return [statement]


def _made(site: LaunchSite, name: str) -> tuple[cst.SimpleStatementLine, cst.Call]:
    """Where the host makes a tensor in float32 for a launch, perhaps only where it was handed none."""
    before = source.statements(site.function)[: site.position]
    lines = [one for statement in before for one in _guarded(statement, name) if source.is_plain(one, name)]
    value = source.value(lines[0]) if len(lines) == 1 else None
    if not isinstance(value, cst.Call) or not m.matches(value, MADE):
        raise NotUnderstood(f"{name} is not made once, before the launch")
    said = {arg.keyword.value: arg.value for arg in value.args if arg.keyword is not None}
    if not m.matches(said.get("dtype"), FLOAT32) or "out" in said:
        raise NotUnderstood(f"{name} is not made in float32")
    return cst.ensure_type(lines[0], cst.SimpleStatementLine), value


def _cast(function: cst.FunctionDef, name: str, made: int, others: int) -> Cast:
    """The one cast of what a function has under a name since its statement `made`. `others`: how often it is read for
    something else before. Raises NotUnderstood."""
    like = m.Arg(value=m.Attribute(value=m.Name(), attr=m.Name("dtype")), keyword=None)
    found = findall(function, m.Call(func=m.Attribute(value=m.Name(name), attr=m.Name("to")), args=[like]))
    if len(found) != 1:
        raise NotUnderstood(f"{name} is not cast once")
    call, body = cst.ensure_type(found[0], cst.Call), source.statements(function)
    at = next((at for at, one in enumerate(body) if call in kernels.calls(one)), -1)
    typed = cst.ensure_type(cst.ensure_type(call.args[0].value, cst.Attribute).value, cst.Name).value
    again = source.is_plain(body[at], name) and source.value(body[at]) is call
    read = sum(source.loads(one, name) for one in (body[: at + 1] if again else body))
    if at <= made or read != 1 + others or times_bound(function, name) != 1 + again:
        raise NotUnderstood(f"{name} is more than cast")
    if times_bound(function, typed) > (typed not in source.parameters(function)):
        raise NotUnderstood(f"{typed} may be another tensor in the end")
    line = cst.ensure_type(body[at], cst.SimpleStatementLine) if again else None
    return Cast(call, name, str(typed), line)


def _received(caller: cst.FunctionDef, call: cst.Call, returned: added_up.Returned) -> Received:
    for at, line in enumerate(source.statements(caller)):
        if not m.matches(line, m.SimpleStatementLine(body=[m.Assign(targets=[m.AssignTarget()])])):
            continue
        line = cst.ensure_type(line, cst.SimpleStatementLine)
        target = cst.ensure_type(line.body[0], cst.Assign).targets[0].target
        elements = [e.value for e in target.elements] if isinstance(target, cst.Tuple) else []
        if source.value(line) is not call or len(elements) != returned.many:
            continue
        named: cst.CSTNode = elements[returned.at] if elements else target
        if isinstance(named, cst.Name):
            return Received(line, _cast(caller, str(named.value), at, 0))
    raise NotUnderstood("a caller does not name what it gets")


def _like(function: cst.FunctionDef, names: list[dict[str, str]]) -> str:
    """The parameter that is, for every caller, the tensor in whose type the result ends up."""
    for parameter in source.parameters(function):
        if all(parameter in one for one in names) and not times_bound(function, parameter):
            return parameter
    raise NotUnderstood("the type of the result is not that of a parameter")


def result(module: cst.Module, site: LaunchSite, kernel: cst.FunctionDef, pointer: str) -> Result:
    """What a launch writes through a pointer, in float32, for a cast alone. Raises NotUnderstood."""
    function, given = site.function, runs.given(site, kernel, pointer)
    if not isinstance(given, cst.Name):
        raise NotUnderstood("what is handed over has no name")
    name = str(given.value)
    line, call = _made(site, name)
    absent = m.Comparison(m.Name(name), [m.ComparisonTarget(m.Is() | m.IsNot(), m.Name("None"))])
    others = 1 + _asked(function, name) + len(findall(function, absent))
    returned = added_up.returns(function, name)
    if not returned:
        cast = _cast(function, name, site.position, others)
        return Result(line, call, _like(function, [{cast.like: cast.like}]), (), cast)
    if len(returned) != 1 or source.loads(function, name) != others + 1 or times_bound(function, name) != 1:
        raise NotUnderstood(f"{name} is more than returned")
    received, likes = [], []
    for caller, of in _callers(module, function):
        if name in source.parameters(function) and kernels.told(of, function, name) is not None:
            raise NotUnderstood(f"a caller brings {name} along")
        got = _received(caller, of, returned[0])
        given_names = {p: kernels.told(of, function, p) for p in source.parameters(function)}
        likes.append({p: got.cast.like for p, value in given_names.items() if m.matches(value, m.Name(got.cast.like))})
        received.append(got)
    return Result(line, call, _like(function, likes), tuple(received), None)
