"""Whether a launch that writes over the tensor it reads may as well write to another, and what it looks like then.

    kernel[(rows,)](x_ptr=x, x_stride=x.stride(0), dx_ptr=x, dx_stride=x.stride(0), ...)

It may where the kernel only loads through the one pointer, stores all columns of its row through the other on every way
out, and loads each element before it stores there: then it does not matter whether both are the same tensor.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import addresses, commas, kernels, row_stores, runs, source
from bot.engine.added_up import Modules
from bot.engine.addresses import Names
from bot.engine.bindings import times_bound
from bot.engine.finding import findall
from bot.engine.row_stores import Matrix, Stored
from bot.engine.source import LaunchSite, NotUnderstood

OUT = "out"
"""What the other tensor is called."""
LOAD = m.Call(func=m.Attribute(value=m.Name("tl"), attr=m.Name("load")))


@dataclass(frozen=True, slots=True)
class Launched:
    site: LaunchSite
    """With the other tensor."""
    before: LaunchSite
    kernel: cst.FunctionDef
    comment: str
    """What the author said beside the pointer."""


def _kernel(modules: Modules, path: str, name: str) -> cst.FunctionDef:
    """The kernel of the files that a name means in one of them."""
    homes = [
        kernel
        for one, module in modules.items()
        if (one == path or source.imports(modules[path], one, name) == 1)
        and (kernel := source.kernel_named(module, name)) is not None
    ]
    if len(homes) != 1 or not kernels.is_kernel(homes[0]):
        raise NotUnderstood(f"{name} is not a kernel of these files")
    return homes[0]


def _site(function: cst.FunctionDef) -> LaunchSite:
    """Its one launch, which always happens."""
    launches = findall(function, source.LAUNCH)
    for position, line in enumerate(source.statements(function)):
        if len(launches) == 1 and m.matches(line, m.SimpleStatementLine(body=[m.Expr(value=source.LAUNCH)])):
            call = cst.ensure_type(launches[0], cst.Call)
            kernel = source.code(cst.ensure_type(call.func, cst.Subscript).value)
            return LaunchSite(kernel, function, position, call)
    raise NotUnderstood("it is not one launch that always happens")


def _sizes(site: LaunchSite, tensor: str) -> tuple[str, str]:
    """Rows and columns: `rows, columns = tensor.shape`, and nobody names them anew."""
    for line in source.statements(site.function)[: site.position]:
        names = source.targets(line)
        if len(names) == 2 and source.code(source.value(line)) == f"{tensor}.shape":
            if any(times_bound(site.function, name) != 1 for name in names):
                break
            return names[0], names[1]
    raise NotUnderstood(f"the sizes of {tensor} have no names")


def _with_out(site: LaunchSite, kernel: cst.FunctionDef, first: str, named: tuple[str, str]) -> Launched:
    """The launch with another tensor for a pointer and for the stride of its rows."""
    pointer, stride = (runs.given(site, kernel, parameter) for parameter in named)
    args, comment = [], ""
    for arg in site.call.args:
        if arg.value is pointer and isinstance(arg.comma, cst.Comma):
            said = findall(arg.comma, m.TrailingWhitespace(comment=m.Comment()))
            comment = "".join(source.code(cst.ensure_type(one, cst.TrailingWhitespace)).rstrip() for one in said[:1])
            arg = arg.with_changes(comma=commas.plain(arg.comma))
        if arg.value is pointer or arg.value is stride:
            arg = arg.with_changes(value=source.expression(re.sub(rf"\b{first}\b", OUT, source.code(arg.value))))
        args.append(arg)
    moved = LaunchSite(site.kernel, site.function, site.position, site.call.with_changes(args=args))
    return Launched(moved, site, kernel, comment)


def _beside_loads(value: cst.BaseExpression, name: str) -> int:
    """How often a name is read, but for where something is loaded from."""
    return source.loads(value, name) - sum(source.loads(call, name) for call in findall(value, LOAD))


def _aliases(pointer: str, names: Names) -> frozenset[str]:
    """The pointer and what is made of it; what is loaded through it is not."""
    known = {pointer}
    while True:
        more = {n for n, value in names.made.items() if any(_beside_loads(value, one) > 0 for one in known)} - known
        if not more:
            return frozenset(known)
        known |= more


def _loads_before(kernel: cst.FunctionDef, read: str, last: Stored, renamed: Mapping[str, str]) -> None:
    """Raises NotUnderstood unless the kernel only loads through a pointer, each element before it is stored."""
    names = addresses.names_of(kernel)
    pointers, calls = _aliases(read, names), kernels.calls(kernel)
    if pointers & _aliases(renamed[read], names):
        raise NotUnderstood("a name may stand for both pointers")
    loads = [
        (at, call.args[0].value)
        for at, call in enumerate(calls)
        if m.matches(call, LOAD) and call.args and any(source.loads(call.args[0].value, one) for one in pointers)
    ]
    moved = [names.moved[one] for one in pointers if one in names.moved]
    made = [names.made[one] for one in pointers if one in names.made]
    places = [*moved, *made, *(where for _, where in loads)]
    known = sum(source.loads(place, one) for place in places for one in pointers) + len(moved)
    types = sum(len(findall(kernel, m.Attribute(value=m.Name(one), attr=m.Name("dtype")))) for one in pointers)
    if not loads or sum(source.loads(kernel, one) for one in pointers) != known + types:
        raise NotUnderstood(f"{read} serves for more than loads")
    end = next(at for at, call in enumerate(calls) if call is last.call)
    stored = sorted(addresses.terms(last.address, names))
    for at, where in loads:
        terms = [tuple(sorted(renamed.get(one, one) for one in term)) for term in addresses.terms(where, names)]
        if at > end or sorted(terms) != stored:
            raise NotUnderstood("an element may be loaded after it was stored, or after another was")


def launched(modules: Modules, path: str, function: cst.FunctionDef, first: str) -> Launched:
    """The one launch of a function of a file with another tensor to write to than its first argument. Raises
    NotUnderstood where it would not do the same."""
    site = _site(function)
    kernel = _kernel(modules, path, site.kernel)
    rows, columns = _sizes(site, first)
    given = {parameter: kernels.told(site.call, kernel, parameter) for parameter in source.parameters(kernel)}
    told = {parameter: source.code(value) for parameter, value in given.items() if value is not None}
    handed = [parameter for parameter, value in told.items() if value == first]
    strides = [parameter for parameter, value in told.items() if value.startswith(f"{first}.stride(")]
    if len(handed) != 2 or any(arg.star for arg in site.call.args):
        raise NotUnderstood(f"{first} is not handed over twice")
    for write, read in (handed, handed[::-1]):
        for stride in strides:
            moved = _with_out(site, kernel, first, (write, stride))
            try:
                stores = row_stores.stores_of(Matrix(moved.site, kernel, write, OUT, rows, columns))
            except NotUnderstood:
                continue
            if len(findall(kernel, m.Return())) != len(stores) - 1:
                raise NotUnderstood("a way out leaves a row as it is")
            others = {one: stride for one in strides if one != stride}
            _loads_before(kernel, read, stores[0], {read: write, **others})  # branches come behind
            return moved
    raise NotUnderstood("the kernel does not write all of it by a pointer and a stride of its own")
