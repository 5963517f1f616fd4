"""Which matrices of a host are zero farther from the diagonal than the mask of their scores reaches.

A kernel fills a new matrix with scores that are minus infinity there (`reaches`), `_softmax_forward` makes weights of
them, and `_softmax_backward` a gradient that the weights are a factor of, whatever finite numbers it is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import addresses, kernels, runs, source, tile_stores
from bot.engine.bindings import bound_in, times_bound
from bot.engine.finding import findall
from bot.engine.host_tensors import ALLOCATED
from bot.engine.reaches import Reach
from bot.engine.source import LaunchSite, NotUnderstood
from bot.engine.tile_stores import Tiled

SOFTMAX = ("_softmax_forward", "_softmax_backward")
"""Functions of a package's `ops.softmax`: rows of weights of the last axis, and their gradient."""
HIDDEN = m.Global() | m.Nonlocal() | m.ClassDef() | m.NamedExpr() | m.Lambda() | m.Match()
HIDDEN |= m.OneOf(*(m.Name(name) for name in ("locals", "eval", "exec")))
ASKED = m.OneOf(*(m.Name(name) for name in ("stride", "shape", "dtype", "device")))
"""What of a tensor may be asked for without a change to it."""
LIKE = ("empty_like", "zeros_like")


@dataclass(frozen=True, slots=True)
class Zeros:
    """A matrix, or many of them, and what is known of it behind a statement of its function."""

    function: cst.FunctionDef
    name: str
    size: str
    """What the host calls its last two sizes."""
    axes: int
    told: Mapping[str, str]
    """In the host's words, each constant that the reach is made of."""
    since: int
    others: int
    """How often it is spoken of, but by launches."""


@dataclass(frozen=True, slots=True)
class Factor:
    """A matrix that serves for nothing but to be multiplied by weights that are zero out of reach."""

    name: str
    until: int
    """The statement that multiplies it."""


def refuse_hidden(function: cst.FunctionDef) -> None:
    if len(findall(function, m.FunctionDef())) != 1 or findall(function, HIDDEN):
        raise NotUnderstood("a name may get a value that nobody sees")


def given(function: cst.FunctionDef, name: str) -> int:
    """How often a variable gets a value: `ctx.name = ...` gives it none."""
    kept = findall(function, m.AssignTarget(m.Attribute(m.Name("ctx"), m.Name(name))))
    return times_bound(function, name) - len(kept)


def _gives(line: cst.BaseStatement) -> tuple[str, ...]:
    """The names that a line gives values, if it does nothing else with them."""
    names = source.targets(line)
    if len(findall(line, m.AssignTarget())) != 1 or findall(line, m.AssignTarget(m.Name() | m.Tuple())) == []:
        return ()
    target = cst.ensure_type(findall(line, m.AssignTarget())[0], cst.AssignTarget).target
    elements = target.elements if isinstance(target, cst.Tuple) else ()
    return names if all(m.matches(one, m.Element(m.Name())) for one in elements) else ()


def made(function: cst.FunctionDef, name: str) -> tuple[int, cst.BaseExpression]:
    """The one statement of the function's own lines that gives a name its value."""
    lines = source.statements(function)
    found = [at for at, line in enumerate(lines) if name in _gives(line)]
    if len(found) != 1 or given(function, name) != 1 or name in source.parameters(function):
        raise NotUnderstood(f"{name} is not made in one line")
    return found[0], source.value(lines[found[0]])


def named(function: cst.FunctionDef, how: m.BaseMatcherNode) -> tuple[int, tuple[str, ...]]:
    """The one statement whose value is made so, and the names that it gives."""
    lines = source.statements(function)
    found = [at for at, line in enumerate(lines) if m.matches(source.value(line), how)]
    names = _gives(lines[found[0]]) if len(found) == 1 else ()
    if not names or len(findall(function, how)) != 1:
        raise NotUnderstood("it is not made in one line")
    if any(given(function, name) != 1 for name in names) or any(n in source.parameters(function) for n in names):
        raise NotUnderstood("a name is given twice")
    return found[0], names


def uses(function: cst.FunctionDef, name: str) -> int:
    """How often a variable is spoken of, but where it is asked for its strides and the like, or another is made like
    it."""
    like = m.Call(m.Attribute(m.Name("torch"), m.OneOf(*map(m.Name, LIKE))), [m.Arg(m.Name(name))])
    harmless = findall(function.body, m.Attribute(m.Name(name), ASKED) | like)
    return len(findall(function.body, m.Name(name))) - len(harmless)


def viewed(function: cst.FunctionDef, name: str, sizes: tuple[str, ...]) -> tuple[int, str, int]:
    """Where a name is given the matrix by other sizes, of which the last are these: that name, and how many."""
    view = m.Call(m.Attribute(m.Name(name), m.Name("view")), [m.AtLeastN(m.Arg(keyword=None, star=""), n=2)])
    at, names = named(function, view)
    args = [
        source.code(arg.value) for arg in cst.ensure_type(source.value(source.statements(function)[at]), cst.Call).args
    ]
    if len(names) != 1 or not source.is_plain(source.statements(function)[at], names[0]):
        raise NotUnderstood("a view has no name")
    if tuple(args[len(args) - len(sizes) :]) != sizes:
        raise NotUnderstood("rows of another size")
    return at, names[0], len(args)


def _refuse_other_softmax(module: cst.Module, function: cst.FunctionDef, name: str) -> None:
    lines = [cst.ensure_type(one, cst.ImportFrom) for one in findall(module, m.ImportFrom())]
    mine = [one for one in lines if one.module is not None and f".{source.code(one.module)}".endswith(".ops.softmax")]
    times = sum(len(findall(line, m.ImportAlias(m.Name(name), asname=None))) for line in mine)
    own = findall(module, m.FunctionDef(m.Name(name)) | m.ClassDef(m.Name(name)))
    if times != 1 or bound_in(module)[name] != 1 or own or name in source.parameters(function):
        raise NotUnderstood(f"nobody knows {name}")


def is_alone(site: LaunchSite) -> bool:
    """Whether a launch is a line of its function's own."""
    line = source.statements(site.function)[site.position]
    return bool(m.matches(line, m.SimpleStatementLine([m.Expr(m.MatchIfTrue(lambda one: one is site.call))])))


def _scores(site: LaunchSite, reach: Reach) -> tuple[str, str, int]:
    """The new matrix that the kernel fills, how wide it is, and how many sizes it has."""
    function, host = site.function, runs.given(site, reach.kernel, reach.pointer)
    name = source.code(host)
    at, value = made(function, name)
    if not is_alone(site) or at >= site.position or not m.matches(value, ALLOCATED) or not isinstance(value, cst.Call):
        raise NotUnderstood("scores are not stored to a new matrix")
    dims = tuple(source.code(arg.value) for arg in value.args if arg.keyword is None and not arg.star)
    if {arg.keyword.value for arg in value.args if arg.keyword is not None} - {"device", "dtype"}:
        raise NotUnderstood("scores are not stored to a new matrix")
    if len(dims) < 2 or dims[-1] != dims[-2] or tile_stores.sizes(site, reach.kernel, reach.pointer, name) != dims:
        raise NotUnderstood("not all of a square matrix is stored")
    if any(given(function, size) != (size not in source.parameters(function)) for size in dims):
        raise NotUnderstood("a size may change")
    tiled = Tiled(site, reach.kernel, addresses.names_of(reach.kernel), ())
    if any(tiled.host(end) != dims[-1] for end in reach.ends):
        raise NotUnderstood("rows end elsewhere")
    (store,) = kernels.calls(reach.kernel, "store")
    terms = [one for one in addresses.terms(store.args[0].value, tiled.names) if one != (reach.pointer,)]
    if set(tile_stores.indexed(tiled, terms, name)[-2:]) != reach.sides:
        raise NotUnderstood("rows and columns are not the last two axes")
    return name, dims[-1], len(dims)


def weights(module: cst.Module, site: LaunchSite, reach: Reach) -> Zeros:
    """The softmax of what a kernel stores. Raises NotUnderstood where others may have changed it before."""
    function = site.function
    refuse_hidden(function)
    name, size, _ = _scores(site, reach)
    seen_at, seen, _ = viewed(function, name, (size,))
    forward, _ = SOFTMAX
    _refuse_other_softmax(module, function, forward)
    at, names = named(function, m.Call(m.Name(forward), [m.Arg(m.Name(seen), keyword=None, star="")]))
    if source.is_plain(source.statements(function)[at], names[0]) or len(findall(function, m.Name(forward))) != 1:
        raise NotUnderstood("the softmax is not taken once")
    since, found, axes = viewed(function, names[0], (size, size))
    if not site.position < seen_at < at < since:
        raise NotUnderstood("the softmax is taken of something else")
    if (uses(function, name), uses(function, seen), uses(function, names[0])) != (3, 2, 2):
        raise NotUnderstood("others get the scores")
    told = {one: source.code(runs.given(site, reach.kernel, one)) for one in reach.constants}
    if any(one not in source.parameters(function) or given(function, one) for one in told.values()):
        raise NotUnderstood("the reach is not what the function is told")
    tuples = [cst.ensure_type(one, cst.Return).value for one in findall(function, m.Return(m.Tuple()))]
    results = [one for returned in tuples for one in returned.elements if m.matches(one, m.Element(m.Name(found)))]
    return Zeros(function, found, size, axes, told, since, 1 + len(results))


def multiplied(module: cst.Module, zeros: Zeros) -> tuple[Zeros, Factor | None]:
    """The gradient of the scores, and that of the weights if it serves for nothing else."""
    function, (_, backward) = zeros.function, SOFTMAX
    _refuse_other_softmax(module, function, backward)
    at, names = named(function, m.Call(m.Name(backward)))
    call = cst.ensure_type(source.value(source.statements(function)[at]), cst.Call)
    first, second, *_ = [source.code(arg.value) for arg in call.args if arg.keyword is None and not arg.star]
    plain = source.is_plain(source.statements(function)[at], names[0])
    if not plain or any(arg.star for arg in call.args) or len(findall(function, m.Name(backward))) != 1:
        raise NotUnderstood("the softmax goes back more than once")
    if second != zeros.name:
        seen_at, seen, _ = viewed(function, zeros.name, ())
        if seen != second or uses(function, seen) != 2 or not zeros.since < seen_at < at:
            raise NotUnderstood("a gradient is multiplied by something else")
    since, found, axes = viewed(function, names[0], (zeros.size, zeros.size))
    if uses(function, names[0]) != 2 or since < at:
        raise NotUnderstood("others get the gradient")
    try:
        factor = Factor(_factor(zeros, first), at)
    except NotUnderstood:
        factor = None
    return Zeros(function, found, zeros.size, axes, zeros.told, since, 1), factor


def _factor(zeros: Zeros, name: str) -> str:
    """The new matrix, as large as the weights, that a name is a view of."""
    _, view = made(zeros.function, name)
    if not m.matches(view, m.Call(m.Attribute(m.Name(), m.Name("view")))) or uses(zeros.function, name) != 2:
        raise NotUnderstood("others get what is multiplied")
    owner = source.code(cst.ensure_type(cst.ensure_type(view, cst.Call).func, cst.Attribute).value)
    like = m.Call(m.Attribute(m.Name("torch"), m.OneOf(*map(m.Name, LIKE))), [m.Arg(m.Name(zeros.name))])
    _, value = made(zeros.function, owner)
    if not m.matches(value, like | m.IfExp(body=like, orelse=like)) or uses(zeros.function, owner) != 3:
        raise NotUnderstood("what is multiplied is not new, or others get it")
    return owner
