"""Whether all that comes of a kernel is the same, whichever of its programs takes a row, and in whatever order.

So it is where a turn hands nothing to the next, nobody but the bounds of the loop asks which program it is, and what a
program has at the end are sums of its own rows, which the host adds up with those of all others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import libcst as cst
import libcst.matchers as m

from bot.engine import addresses, host_tensors, imports, kernels, runs, source
from bot.engine.bindings import bound_in, times_bound
from bot.engine.finding import findall, nodes
from bot.engine.runs import Run
from bot.engine.source import LaunchSite, NotUnderstood

DIM = m.Arg(keyword=m.Name("dim"), value=m.Integer("0")) | m.Arg(keyword=None, value=m.Integer("0"))
HELPER = "_sum_shares"
"""What `sum_at_once` and `sum_together` add shares up with."""
PARTS = tuple(m.Name(name) for name in ("stride", "shape", "dtype", "device", "element_size", "numel"))
"""What may be asked of shares beside their sum."""


def _sums(kernel: cst.FunctionDef, run: Run) -> frozenset[str]:
    """What outlives a turn: added to, and read by none."""
    body, bound, parameters = run.loop.body, bound_in(run.loop.body), source.parameters(kernel)
    counter = source.code(run.loop.target)
    added = Counter(source.code(one.target) for one in findall(body, m.AugAssign(operator=m.AddAssign())))
    kept = {
        name
        for name, times in bound.items()
        if name in parameters
        or times_bound(kernel, name) != times
        or source.loads(kernel.body, name) != source.loads(body, name)
    }
    if source.loads(kernel.body, counter) != source.loads(body, counter) + 1:  # the loop itself names it
        raise NotUnderstood("the last row is known behind the loop")
    if any(not added[name] == bound[name] == source.loads(body, name) for name in kept):
        raise NotUnderstood("a turn hands on more than a sum")
    return frozenset(kept)


def _is_share(node: cst.BaseExpression, sums: frozenset[str], names: addresses.Names) -> bool:
    """A sum as it is, or added up further: the share of all rows is the sum of such shares then."""
    node = addresses.without_casts(node)
    if isinstance(node, cst.Name):
        made = names.made.get(node.value)
        return node.value in sums or (made is not None and _is_share(made, sums, names))
    of_it = isinstance(node, cst.Call) and source.code(node.func) == "tl.sum"
    return of_it and _is_share(cst.ensure_type(node, cst.Call).args[0].value, sums, names)


def _asks(module: cst.Module, name: str, seen: frozenset[str] = frozenset()) -> bool:
    """Whether a function of the file asks which program it is, or calls one that does."""
    helper = source.kernel_named(module, name)
    if helper is None or name in seen:
        return False
    called = {kernels.called_name(call) for call in kernels.calls(helper)}
    return (
        "program_id" in called
        or imports.calls_others(module, helper)
        or any(_asks(module, one, seen | {name}) for one in called)
    )


def _stored(kernel: cst.FunctionDef, run: Run) -> list[cst.Call]:
    """What is stored behind the loop, and added to memory."""
    lines = source.statements(kernel)
    behind = lines[next(at for at, line in enumerate(lines) if line is run.loop) + 1 :]
    found = [call for line in behind for call in kernels.calls(line)]
    kinds = [(kernels.called_name(call), call) for call in found]
    if any(name.startswith("atomic") and name != runs.ADDS for name, _ in kinds):
        raise NotUnderstood("programs do more than add to what others have")
    return [call for name, call in kinds if name in ("store", runs.ADDS)]


def refuse_what_tells_programs_apart(
    module: cst.Module, site: LaunchSite, kernel: cst.FunctionDef, run: Run, program: str, bounds: Sequence[cst.CSTNode]
) -> None:
    """Raises NotUnderstood where it may matter which rows a program takes. `bounds`: lines that may ask which it is."""
    sums, stored, names = _sums(kernel, run), _stored(kernel, run), addresses.names_of(kernel)
    places = [call.args[0].value for call in stored]
    if any(_asks(module, kernels.called_name(call)) for call in kernels.calls(kernel)):
        raise NotUnderstood("a function of the file asks which program it is")
    if imports.calls_others(module, kernel):
        raise NotUnderstood("a function of another file may ask which program it is")
    known = sum(source.loads(part, program) for part in (*bounds, *places))
    if program.isidentifier() and source.loads(kernel.body, program) != known:
        raise NotUnderstood("which program it is matters to more than the bounds and the place of its sums")
    if any(len(call.args) < 2 or not _is_share(call.args[1].value, sums, names) for call in stored):
        raise NotUnderstood("more than a sum is stored behind the loop")
    own = [place for place in places if source.loads(place, program)]
    for pointer in {runs.base_of(place, names, source.parameters(kernel)) for place in own}:
        _refuse_other_uses(site, runs.given(site, kernel, pointer))


def _refuse_other_uses(site: LaunchSite, shares: cst.BaseExpression) -> None:
    """Raises NotUnderstood unless the host makes the shares and does nothing with them but to add them up."""
    name, function = m.Name(source.code(shares)), site.function
    told = [call for call in findall(function, source.LAUNCH) if call is site.call or _instead(site, call)]
    arguments = [arg for call in told for arg in cst.ensure_type(call, cst.Call).args if m.matches(arg.value, name)]
    added = m.Call(m.Attribute(name, m.Name("sum")), args=m.OneOf([DIM], []))
    by_torch = m.Call(m.Attribute(m.Name("torch"), m.Name("sum")), args=m.OneOf([m.Arg(name), DIM], [m.Arg(name)]))
    compared = m.Comparison(left=name, comparisons=[m.ComparisonTarget(m.Is() | m.IsNot(), m.Name("None"))])
    fine = m.AssignTarget(name) | m.Attribute(name, m.OneOf(*PARTS)) | added | by_torch | compared
    handed = [call for call in findall(function, m.Call(m.Name(HELPER))) if isinstance(call, cst.Call)]
    handed_over = sum(m.matches(arg.value, name) for call in handed for arg in call.args)
    known = len(arguments) + len(findall(function, fine)) + handed_over
    if not isinstance(shares, cst.Name) or known != len(findall(function, name)) or not _is_of_programs(site, shares):
        raise NotUnderstood("the host does more with the programs' sums than to add them up")


def _instead(site: LaunchSite, call: cst.CSTNode) -> bool:
    """Whether a launch stands in the other branch of ours."""
    for found in findall(site.function, m.If()):
        branch = cst.ensure_type(found, cst.If)
        if branch.orelse is not None:
            ways = [{*nodes(branch.body)}, {*nodes(branch.orelse)}]
            if any(site.call in one and call in other for one, other in (ways, ways[::-1])):
                return True
    return False


def _is_of_programs(site: LaunchSite, shares: cst.Name) -> bool:
    """Whether the host makes them, with an entry for each program, wherever it makes them."""
    values = list(host_tensors.bindings(site.function, shares.value))
    if not values or len(values) != bound_in(site.function)[shares.value]:
        return False
    made = [one.body if isinstance(one, cst.IfExp) and m.matches(one.orelse, m.Name("None")) else one for one in values]
    return all(_entries(one) == runs.grid_of(site)[0] for one in made if not m.matches(one, m.Name("None")))


def _entries(made: cst.BaseExpression) -> str:
    """How many a new tensor has on its first axis."""
    if not isinstance(made, cst.Call) or not m.matches(made, host_tensors.NEW) or not made.args:
        return ""
    size = made.args[0].value
    return source.code(size.elements[0].value if isinstance(size, cst.Tuple) and size.elements else size)
