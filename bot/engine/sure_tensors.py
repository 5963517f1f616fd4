"""Which name is surely a tensor where a kernel is launched: whoever asks anything else for its device fails.

What a launch is given may be None, a flag or a number; what a function is given may be a list or a configuration. So a
tensor is said to be one, made by torch whichever way the function takes, or asked what tensors alone are asked: in a
line that every way to the launch goes through, and in no part of it that may be left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import libcst as cst
import libcst.matchers as m

from bot.engine import source
from bot.engine.bindings import bound_in, times_bound
from bot.engine.finding import findall, kind_of, nodes, parts_of
from bot.engine.source import LaunchSite, NotUnderstood

OF_TENSORS = ("stride", "shape", "numel", "element_size", "view", "contiguous", "reshape", "is_contiguous")
"""What is asked of tensors, and of little else."""
OF_WHAT_IS_LAUNCHED = (*OF_TENSORS, "dtype", "device", "size", "ndim")
"""And of little else that a launch is given."""
NAMED_BY_CUSTOM = ("self", "cls", "ctx")
"""Whatever these are asked: a context keeps the shape of something else."""
TENSOR = m.Attribute(value=m.Name("torch"), attr=m.Name("Tensor"))
SHAPED = [f"{maker}{like}" for maker in ("empty", "zeros", "ones", "full", "rand", "randn") for like in ("", "_like")]
MADE = m.Call(func=m.Attribute(m.Name("torch"), m.OneOf(*map(m.Name, (*SHAPED, "empty_strided", "tensor", "arange")))))
TURNED = ("contiguous", "view", "reshape", "flatten", "transpose", "permute", "squeeze", "unsqueeze", "detach", "clone")
STILL_ONE = m.Call(func=m.Attribute(attr=m.OneOf(*map(m.Name, TURNED))))
"""A tensor of the same device."""
NONE = m.Name("None")
LATER = cst.Lambda | cst.BaseComp | cst.FunctionDef | cst.ClassDef | cst.Try
"""What may be evaluated never, or not to the end."""


def _parts(node: cst.CSTNode) -> Sequence[Any]:
    """What is evaluated wherever the node is."""
    match node:
        case cst.If() | cst.While() | cst.IfExp():
            return (node.test,)
        case cst.For():
            return (node.iter,)
        case cst.BooleanOperation():
            return (node.left,)
        case cst.AssignTarget(target=cst.Attribute(value=inner)):
            return (inner,)
    read = None if isinstance(node, LATER) else parts_of(kind_of(node), with_air=False)
    return read(node) if read is not None else ()


def _evaluated(tree: Any) -> Iterator[cst.CSTNode]:
    if isinstance(tree, list | tuple):
        for one in tree:
            yield from _evaluated(one)
    elif isinstance(tree, cst.CSTNode):
        yield tree
        yield from _evaluated(_parts(tree))


def _on_the_way(block: Sequence[cst.CSTNode], line: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """What is evaluated in a block before the line, and in it."""
    for one in block:
        yield from _evaluated(() if isinstance(one, cst.With) else one)
        if not any(inner is line for inner in nodes(one)):
            continue
        while isinstance(one, cst.If | cst.Else | cst.With):
            yield from _evaluated(one.items if isinstance(one, cst.With) else ())
            if any(inner is line for inner in nodes(one.body)):
                yield from _on_the_way(one.body.body, line)
                break
            one = getattr(one, "orelse", None) or line
        return


def _questions(evaluated: Iterable[cst.CSTNode]) -> set[tuple[str, str]]:
    """Names, and what they are asked."""
    asked = [one for one in evaluated if isinstance(one, cst.Attribute) and isinstance(one.value, cst.Name)]
    return {(cst.ensure_type(one.value, cst.Name).value, one.attr.value) for one in asked}


def _values(function: cst.FunctionDef, name: str) -> list[cst.BaseExpression]:
    """What the name is set to, in lines that set nothing else."""
    found = findall(function, m.Assign(targets=[m.AssignTarget(m.Name(name))]))
    return [cst.ensure_type(one, cst.Assign).value for one in found]


def _may_be_missing(function: cst.FunctionDef, name: str) -> bool:
    """Whether it is None somewhere, or deleted."""
    compared = m.Comparison(left=m.Name(name), comparisons=[m.ComparisonTarget(m.Is() | m.IsNot(), comparator=NONE)])
    without = [one for one in source.declared(function) if one.default is not None and one.name.value == name]
    none = [value for value in _values(function, name) if findall(value, NONE)]
    deleted = [one for one in findall(function, m.Del()) if findall(one, m.Name(name))]
    return bool(without or none or deleted or findall(function, compared))


def is_one_throughout(function: cst.FunctionDef, name: str) -> bool:
    """Whether what a function is given by this name, if it is a tensor, is one in each of its lines, and of one
    device."""
    values = _values(function, name)
    same = len(values) == times_bound(function, name) and all(m.matches(one, STILL_ONE) for one in values)
    return same and name in source.parameters(function)


def _is_one(site: LaunchSite, name: str, asked: set[tuple[str, str]], *, given: bool) -> bool:
    said = findall(site.function, m.Param(name=m.Name(name), annotation=m.Annotation(TENSOR)))
    told = any((name, what) in asked for what in (OF_WHAT_IS_LAUNCHED if given else OF_TENSORS))
    if not given:
        return (bool(said) or told) and is_one_throughout(site.function, name) and name not in NAMED_BY_CUSTOM
    values = _values(site.function, name)
    made = len(values) == times_bound(site.function, name) and all(m.matches(one, MADE) for one in values)
    return bool(said) or told or (made and bool(values))


def known_from(site: LaunchSite, name: str) -> int | None:
    """Behind which statement of the function a tensor, or another of its device, is there; -1 where it is handed."""
    if is_one_throughout(site.function, name):
        return -1
    at = source.last_binding(site, name)
    if at is not None:
        return at
    body = source.statements(site.function)
    bound = [at for at in range(site.position + 1) if bound_in(body[at])[name]]
    behind = range(max(bound, default=-1) + 1, site.position)  # who is asked something there was set in each branch
    return next((at for at in behind if any(name == whom for whom, _ in _questions(_evaluated(body[at])))), None)


def one_of(site: LaunchSite) -> str:
    """The name that is known first. Of what is known from the function's first line, best what the launch is given."""
    given = [str(arg.value.value) for arg in site.call.args if isinstance(arg.value, cst.Name) and not arg.star]
    handed = source.parameters(site.function)
    asked = _questions(_on_the_way(source.statements(site.function), source.line_of(site)))
    found = [name for name in given if _is_one(site, name, asked, given=True)]
    found += [name for name in handed if _is_one(site, name, asked, given=False)]
    sure = [name for name in found if not _may_be_missing(site.function, name)]
    if not sure:
        raise NotUnderstood(f"nothing beside the launch of {site.kernel} is surely a tensor")
    since = {name: site.position if (at := known_from(site, name)) is None else at for name in sure}
    return min(sure, key=since.__getitem__)
