"""More constants behind the last parameter of a kernel, and behind the last argument of its launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import libcst as cst
import libcst.matchers as m

from bot.engine import kernels, source
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood


def with_constants(kernel: cst.FunctionDef, names: Sequence[str]) -> cst.FunctionDef:
    """Without a value of their own: every launch has to give them."""
    params = kernel.params
    said = next((one.annotation for one in reversed(params.params) if kernels.is_constant(one)), None)
    if said is None or findall(said, m.Comment()):
        raise NotUnderstood("the kernel does not say how it writes a constant")
    if params.posonly_params or params.kwonly_params or isinstance(params.star_arg, cst.Param) or params.star_kwarg:
        raise NotUnderstood("the kernel takes more than its parameters")
    if params.params[-1].default is not None:
        raise NotUnderstood("a parameter without a value would follow one that has one")
    new = [cst.Param(cst.Name(name), said) for name in names]
    followed = _followed(params.params, new, "whitespace_after_param")
    return kernel.with_changes(params=params.with_changes(params=followed))


def with_values(call: cst.Call, values: Sequence[str]) -> cst.Call:
    """Each by its place."""
    if any(arg.keyword is not None or arg.star for arg in call.args):
        raise NotUnderstood("the launch does not give everything by its place")
    new = [cst.Arg(source.expression(value)) for value in values]
    return call.with_changes(args=_followed(call.args, new, "whitespace_after_arg"))


def _followed(parts: Sequence[Any], more: Sequence[Any], behind: str) -> list[Any]:
    """Parameters or arguments with more of them at the end, written as the last one was."""
    if len(parts) < 2 or any(findall(one, m.Comment()) for one in parts[-2:]):
        raise NotUnderstood("something is said of the last one")
    *others, last = parts
    between, nothing = others[-1].comma, cst.SimpleWhitespace("")
    new = [last.with_changes(comma=between, **{behind: nothing})]
    new += [one.with_changes(comma=between) for one in more]
    new[-1] = new[-1].with_changes(comma=last.comma, **{behind: getattr(last, behind)})
    return [*others, *new]
