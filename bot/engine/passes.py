"""How a matrix of zeros out of reach (`zeros`) goes from the forward pass of a Function of autograd to the backward.

It is what a function returns, an argument of `ctx.save_for_backward`, and in the same place of `ctx.saved_tensors`.
What its kernel was told of the reach goes with it: as attributes of `ctx` that the forward pass sets itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import source
from bot.engine.bindings import bound_in, times_bound
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood
from bot.engine.zeros import Zeros, given, made, named, refuse_hidden, uses

KEPT = ("staticmethod", "ensure_contiguous")
"""Decorators of a pass that leave its arguments their shapes."""


@dataclass(frozen=True, slots=True)
class Passes:
    """The two passes of a Function of autograd, and how the forward one calls the function that makes weights."""

    forward: cst.FunctionDef
    backward: cst.FunctionDef
    at: int
    """The statement with the call."""
    results: tuple[str, ...]
    handed: Mapping[str, str]
    """Of each parameter of the function that is called, the parameter of the forward pass that it gets."""
    saved: tuple[str, ...]
    restored: tuple[str, ...]


def _pair(module: cst.Module, function: cst.FunctionDef) -> tuple[cst.FunctionDef, cst.FunctionDef]:
    """The passes of the one class whose forward pass calls the function."""
    name, found = function.name.value, []
    for one in (line for line in module.body if isinstance(line, cst.ClassDef)):
        if findall(one, m.Name(name)):
            found.append(one)
    if len(found) != 1 or len(findall(module, m.Name(name))) != 2:
        raise NotUnderstood("several call the function, or none")
    if [source.code(base.value) for base in found[0].bases] not in (["torch.autograd.Function"], ["Function"]):
        raise NotUnderstood("the class is no Function of autograd's")
    mine, own = m.Name(found[0].name.value), m.Attribute(m.Name(found[0].name.value), m.Name("apply"))
    if len(findall(module, mine)) - len(findall(module, own)) != 1:
        raise NotUnderstood("others know the class")
    if found[0].decorators or function.decorators or any(bound_in(found[0])[one] for one in ("forward", "backward")):
        raise NotUnderstood("somebody may put another function in its place")
    methods = [one for one in found[0].body.body if isinstance(one, cst.FunctionDef)]
    if sorted(one.name.value for one in methods) != ["backward", "forward"]:
        raise NotUnderstood("the class has not these two passes")
    passes = {one.name.value: one for one in methods}
    for one in methods:
        refuse_hidden(one)
        if any(source.code(decorator.decorator) not in KEPT for decorator in one.decorators):
            raise NotUnderstood("a pass is called by others first")
        if source.parameters(one)[0] != "ctx" or len(findall(one.body, m.Name("ctx"))) != len(
            findall(one.body, m.Attribute(m.Name("ctx")))
        ):
            raise NotUnderstood("others get what is kept")
        if findall(one.body, m.Attribute(m.Name("ctx"), m.Name(m.MatchRegex("__.*")))):
            raise NotUnderstood("others get what is kept")
    return passes["forward"], passes["backward"]


def _passes(module: cst.Module, function: cst.FunctionDef) -> Passes:
    forward, backward = _pair(module, function)
    at, results = named(forward, m.Call(m.Name(function.name.value)))
    call = cst.ensure_type(source.value(source.statements(forward)[at]), cst.Call)
    if any(arg.keyword is not None or arg.star or not isinstance(arg.value, cst.Name) for arg in call.args):
        raise NotUnderstood("the function is not simply called")
    told = [source.code(arg.value) for arg in call.args]
    plain = [one for one in told if one in source.parameters(forward) and not given(forward, one)]
    placed = [one.name.value for one in (*function.params.posonly_params, *function.params.params)]
    handed = {p: one for p, one in zip(placed, told, strict=False) if one in plain}
    saving = m.Call(m.Attribute(m.Name("ctx"), m.Name("save_for_backward")))
    lines = [line for line in source.statements(forward) if m.matches(line, m.SimpleStatementLine([m.Expr(saving)]))]
    if len(lines) != 1 or len(findall(forward, m.Attribute(attr=m.Name("save_for_backward")))) != 1:
        raise NotUnderstood("tensors are not kept once")
    args = cst.ensure_type(findall(lines[0], saving)[0], cst.Call).args
    saved = [arg.value for arg in args if not arg.star]
    _, restored = named(backward, m.Attribute(m.Name("ctx"), m.Name("saved_tensors")))
    if not all(isinstance(one, cst.Name) for one in saved) or not len(restored) == len(saved) == len(args):
        raise NotUnderstood("it is not known which tensor is which")
    if times_bound(backward, "ctx") or results[-1:] == ():
        raise NotUnderstood("what is kept is changed")
    return Passes(forward, backward, at, results, handed, tuple(map(source.code, saved)), restored)


def _returned(zeros: Zeros) -> int:
    """Which of the function's results the matrix is."""
    last = source.statements(zeros.function)[-1]
    result = last.body[0] if isinstance(last, cst.SimpleStatementLine) and len(last.body) == 1 else None
    elements = getattr(getattr(result, "value", None), "elements", ())
    told = [source.code(one.value) for one in elements]
    starred = any(isinstance(one, cst.StarredElement) for one in elements)
    if (
        not isinstance(result, cst.Return)
        or len(findall(zeros.function, m.Return())) != 1
        or told.count(zeros.name) != 1
        or starred
        or isinstance(result.value, cst.Set)
    ):
        raise NotUnderstood("the function does not return the matrix")
    return told.index(zeros.name)


def _size(zeros: Zeros, passes: Passes) -> str:
    """What the backward pass calls the size: both take the shape of one tensor apart."""
    at, shape = made(zeros.function, zeros.size)
    places = source.targets(source.statements(zeros.function)[at])
    tensor = source.code(shape).removesuffix(".shape")
    before = source.statements(zeros.function)[:at]
    saved = passes.handed.get(tensor, "")
    if not m.matches(shape, m.Attribute(m.Name(), m.Name("shape"))) or any(bound_in(one)[tensor] for one in before):
        raise NotUnderstood("the size is no tensor's that is kept")
    if passes.saved.count(saved) != 1:
        raise NotUnderstood("the size is no tensor's that is kept")
    restored = passes.restored[passes.saved.index(saved)]
    _, names = named(passes.backward, m.Attribute(m.Name(restored), m.Name("shape")))
    if len(names) != len(places):
        raise NotUnderstood("the shape is taken apart otherwise")
    return names[places.index(zeros.size)]


def _kept(zeros: Zeros, passes: Passes) -> dict[str, str]:
    """What `ctx` calls each constant."""
    found = {}
    for constant, name in zeros.told.items():
        handed = passes.handed.get(name, "")
        setting = m.Assign([m.AssignTarget(m.Attribute(m.Name("ctx"), m.Name()))], m.Name(handed))
        kept = [
            cst.ensure_type(line.body[0], cst.Assign).targets[0].target.attr.value
            for line in source.statements(passes.forward)
            if m.matches(line, m.SimpleStatementLine([setting]))
        ]
        kept = [one for one in kept if len(findall(passes.forward, m.Attribute(m.Name("ctx"), m.Name(one)))) == 1]
        if not handed or not kept:
            raise NotUnderstood("the backward pass is not told the reach")
        found[constant] = f"ctx.{kept[0]}"
    return found


def kept_weights(module: cst.Module, zeros: Zeros) -> Zeros:
    """The same matrix in the backward pass."""
    passes = _passes(module, zeros.function)
    name = passes.results[_returned(zeros)] if _returned(zeros) < len(passes.results) else ""
    if uses(passes.forward, name) != 2 or passes.saved.count(name) != 1:
        raise NotUnderstood("others get the matrix between the passes")
    restored = passes.restored[passes.saved.index(name)]
    since, _ = named(passes.backward, m.Attribute(m.Name("ctx"), m.Name("saved_tensors")))
    return Zeros(passes.backward, restored, _size(zeros, passes), zeros.axes, _kept(zeros, passes), since, 2)
