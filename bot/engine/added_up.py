"""Whether a tensor that a launch filled is only ever added up: by the function itself, or by all that call it.

A function is called by its name, or by the word that a decorator registered it under: `@register("jsd")` and
`dispatch("jsd", ...)`. Seen is what stands in the files that are asked. Who calls it from anywhere else is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import source
from bot.engine.bindings import times_bound
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood

ASKS = m.Call(func=m.Name("resolve_impl"))
"""Whoever asks which function is registered under a word gets nothing of what it returns."""
Modules = Mapping[str, cst.Module]
"""The files by their paths."""


@dataclass(frozen=True, slots=True)
class Returned:
    """Where in what a function returns the tensor is: `at` of `many`, or all of it."""

    at: int = 0
    many: int = 0


def _sums(node: cst.CSTNode, name: str) -> int:
    """How often all elements are added up: `torch.sum(x)` or `x.sum()`."""
    by_torch = m.Call(
        func=m.Attribute(value=m.Name("torch"), attr=m.Name("sum")), args=[m.Arg(value=m.Name(name), keyword=None)]
    )
    by_itself = m.Call(func=m.Attribute(value=m.Name(name), attr=m.Name("sum")), args=[])
    return len(findall(node, by_torch | by_itself))


def returns(function: cst.FunctionDef, name: str) -> list[Returned]:
    found = []
    for line in findall(function, m.Return()):
        value = cst.ensure_type(line, cst.Return).value
        elements = [e.value for e in value.elements] if isinstance(value, cst.Tuple) else []
        if m.matches(value, m.Name(name)):
            found.append(Returned())
        found += [Returned(at, len(elements)) for at, one in enumerate(elements) if m.matches(one, m.Name(name))]
    return found


def _words(function: cst.FunctionDef) -> list[str]:
    """What the decorators register it under. Raises NotUnderstood where one may do something else."""
    found = []
    for decorator in function.decorators:
        call = decorator.decorator
        word = call.args[0].value if isinstance(call, cst.Call) and call.args else None
        if not isinstance(word, cst.SimpleString) or not isinstance(word.evaluated_value, str):
            raise NotUnderstood(f"{function.name.value} is decorated")
        found.append(word.evaluated_value)
    return found


def _by_name(module: cst.Module, name: str) -> list[cst.Call]:
    """Calls of a function by its name, which stands nowhere else but where it is defined or imported."""
    calls = [cst.ensure_type(call, cst.Call) for call in findall(module, m.Call(func=m.Name(name)))]
    homes = findall(module, m.FunctionDef(name=m.Name(name)) | m.ImportAlias(name=m.Name(name), asname=None))
    if len(findall(module, m.Name(name))) != len(calls) + len(homes):
        raise NotUnderstood(f"{name} is handed on")
    return calls


def _by_word(module: cst.Module, word: str) -> list[cst.Call]:
    """Calls with the word as their first argument, which stands nowhere else but in decorators."""

    def is_it(node: cst.CSTNode) -> bool:
        return isinstance(node, cst.SimpleString) and node.evaluated_value == word

    firsts = [
        call
        for found in findall(module, m.Call())
        if (call := cst.ensure_type(found, cst.Call)).args and is_it(call.args[0].value)
    ]
    if sum(map(is_it, findall(module, m.SimpleString()))) != len(firsts):
        raise NotUnderstood(f'"{word}" is more than the name of an op')
    decorators = {id(cst.ensure_type(one, cst.Decorator).decorator) for one in findall(module, m.Decorator())}
    return [call for call in firsts if id(call) not in decorators and not m.matches(call, ASKS)]


def _received(module: cst.Module, call: cst.Call, returned: Returned) -> None:
    """Raises NotUnderstood unless the caller names the tensor and does nothing but add it up."""
    for function in source.all_functions(module):
        for line in findall(function, m.SimpleStatementLine(body=[m.Assign()])):
            assign = cst.ensure_type(cst.ensure_type(line, cst.SimpleStatementLine).body[0], cst.Assign)
            if assign.value is not call:
                continue
            target = assign.targets[0].target
            elements = [e.value for e in target.elements] if isinstance(target, cst.Tuple) else []
            named: cst.CSTNode = elements[returned.at] if elements and len(elements) == returned.many else target
            if not isinstance(named, cst.Name) or len(assign.targets) != 1 or len(elements) != returned.many:
                raise NotUnderstood("a caller does not take the tensor apart")
            name = str(named.value)
            if times_bound(function, name) != 1 or source.loads(function, name) != _sums(function, name):
                raise NotUnderstood(f"{name} is more than added up by {function.name.value}")
            return
    raise NotUnderstood("a caller does not name what it gets")


def check(modules: Modules, function: cst.FunctionDef, name: str, *, before: int) -> bool:
    """Raises NotUnderstood unless the function, which reads the tensor so often `before` that, adds it up, or returns
    it to callers that do. True where it is returned: then others may see it too."""
    returned, summed = returns(function, name), _sums(function, name)
    if source.loads(function, name) != before + summed + len(returned) or len(returned) > 1 or not (returned or summed):
        raise NotUnderstood(f"{name} is not only added up")
    if not returned:
        return False
    title = str(function.name.value)
    if not any(function is one for module in modules.values() for one in source.functions(module)):
        raise NotUnderstood(f"{title} is a method, which is called by other names")
    words = _words(function)
    found = [
        (module, call)
        for module in modules.values()
        for calls in (_by_name(module, title), *(_by_word(module, word) for word in words))
        for call in calls
    ]
    if not found:
        raise NotUnderstood(f"nobody in these files calls {title}")
    for module, call in found:
        _received(module, call, returned[0])
    return True
