"""What a kernel file could keep from one call to the next: an op that remembers answers the benchmark, not training.

A module may hold tables that are only read. Whatever functions fill, hand on or hang values on is state (BC-16).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from bot.guardrails.plain import FILLING_METHODS, Plain
from bot.guardrails.reach import IMPORTS
from bot.guardrails.source import FUNCTIONS, Function, Sign, Source, assigned, parameters, root

CACHES = {"functools.lru_cache", "functools.cache", "functools.cached_property", "functools.singledispatch"}
CONTEXT_METHODS = {"__init__", "forward", "backward", "setup_context", "jvp", "vjp"}
"""Methods whose first argument is new in each call, or is just being made."""
DEVICE_FACTS = ("torch.cuda.get_device_", "torch.cuda.current_device", "torch.cuda.is_available", "torch.version")
PLAIN_TYPES = {"int", "bool", "str", "float", "device", "dtype"}
COLLECTIONS = (ast.Dict, ast.List, ast.Set, ast.DictComp, ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.Yield)
Said = Iterator[tuple[str, str]]


class _Keeping:
    """The signs of one source."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._plain = Plain(source)
        self._parts: dict[Function, set[str]] = {}

    def _parts_of_others(self, function: Function) -> set[str]:
        """Variables like `c` of `c = TABLE["x"]`, which stand for a part of something that outlives the call."""
        if function not in self._parts:
            pairs = [pair for node in ast.walk(function) for pair in assigned(node)]
            self._parts[function] = {t.id for t, value in pairs if isinstance(t, ast.Name) and self._outlives(value)}
        return self._parts[function]

    def _outlives(self, value: ast.expr) -> bool:
        start = root(value)
        fresh = isinstance(value, ast.Call) and isinstance(value.func, ast.Name | ast.Subscript)
        return not fresh and (start in self._plain.kept or self._source.defines(start))

    def _is_own(self, node: ast.AST, name: str) -> bool:
        """Whether what is changed ends with the call: a variable, an argument, or the context autograd hands over."""
        function = self._source.function(node)
        if function is None or not self._source.local(name, function):
            return False
        if self._is_first_of_method(function, name):
            return isinstance(function, ast.FunctionDef) and function.name in CONTEXT_METHODS
        return name not in self._parts_of_others(function)

    def _is_first_of_method(self, function: Function, name: str) -> bool:
        return parameters(function)[:1] == (name,) and isinstance(self._source.scope(function), ast.ClassDef)

    def attribute(self, node: ast.Attribute) -> Said:
        function, shown = self._source.function(node), ast.unparse(node)
        plain = isinstance(node.value, ast.Name) and function is not None
        context = plain and function is not None and self._is_first_of_method(function, root(node))
        if not (context and self._is_own(node, root(node))):
            yield f"it hangs a value on {shown}, where it outlives the call or patches somebody else", shown

    def item(self, node: ast.Subscript) -> Said:
        if self._source.function(node) is not None and not self._is_own(node, root(node)):
            yield f"it fills {ast.unparse(node.value)}, which outlives the call", ast.unparse(node)

    def call(self, node: ast.Call) -> Said:
        if not isinstance(node.func, ast.Attribute) or node.func.attr not in FILLING_METHODS:
            return
        library = any(dotted.split(".")[0] in IMPORTS for dotted in self._source.dotted(node.func))
        if root(node.func) and not library and self._source.function(node) and not self._is_own(node, root(node.func)):
            yield f"it changes {ast.unparse(node.func.value)}, which outlives the call", ast.unparse(node)

    def table(self, node: ast.Name) -> Said:
        if node.id not in self._plain.kept or self._source.local(node.id, self._source.function(node)):
            return
        if not self._plain.is_read(node) and not self._plain.is_built(node):
            why = f"it keeps {node.id} in the module and does more than read it: work could move between calls"
            yield why, f"{node.id} in {type(self._source.parents[node]).__name__}"

    def cache(self, node: ast.Attribute | ast.Name) -> Said:
        found = self._source.dotted(node) & CACHES
        if found and not any(self._is_device_fact(function) for function in self._decorated(node)):
            why = f"it remembers answers with {min(found)}: that serves the benchmark, not the training step"
            yield why, ast.unparse(node)

    def _decorated(self, node: ast.AST) -> Iterator[ast.FunctionDef]:
        """The function a node decorates, as `@cache` or `@lru_cache(maxsize=None)`."""
        outer = self._source.parents[node]
        if isinstance(outer, ast.Call) and outer.func is node:
            node, outer = outer, self._source.parents[outer]
        if isinstance(outer, ast.FunctionDef) and any(part is node for part in outer.decorator_list):
            yield outer

    def _is_device_fact(self, function: ast.FunctionDef) -> bool:
        """A cached function that can only say something about the machine or about plain numbers."""
        spec, inside = function.args, [node for part in function.body for node in ast.walk(part)]
        arguments = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]
        types = {ast.unparse(a.annotation).split(".")[-1] if a.annotation else "" for a in arguments}
        open_ended = spec.vararg or spec.kwarg or any(isinstance(node, COLLECTIONS) for node in inside)
        calls = [node for node in inside if isinstance(node, ast.Call)]
        return types <= PLAIN_TYPES and not open_ended and all(map(self._asks_the_machine, calls))

    def _asks_the_machine(self, node: ast.Call) -> bool:
        dotted = self._source.dotted(node.func)
        device = bool(dotted) and all(name.startswith(DEVICE_FACTS) for name in dotted)
        return device or self._plain.calls_plainly(node)

    def defaults(self, node: Function) -> Said:
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None and not self._plain.is_plain(default):
                yield f"a default argument holds {ast.unparse(default)}, which all calls share", ast.unparse(default)

    def class_values(self, node: ast.ClassDef) -> Said:
        for part in node.body:
            for target, value in assigned(part):
                if not self._plain.is_plain(value):
                    shown = f"{ast.unparse(target)} = {ast.unparse(value)}"
                    yield f"{node.name} holds {shown}, which all calls share", shown

    def said(self, node: ast.AST) -> Said:
        match node:
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                shown = ", ".join(names)
                yield f"it sets {shown} outside of its function: work could move between calls", shown
            case ast.Attribute(ctx=ast.Store() | ast.Del()):
                yield from self.attribute(node)
            case ast.Subscript(ctx=ast.Store() | ast.Del()):
                yield from self.item(node)
            case ast.Name(ctx=ast.Load()):
                yield from self.table(node)
                yield from self.cache(node)
            case ast.Attribute():
                yield from self.cache(node)
            case ast.Call():
                yield from self.call(node)
            case ast.ClassDef():
                yield from self.class_values(node)
        if isinstance(node, FUNCTIONS):
            yield from self.defaults(node)


def keeping(source: Source) -> Iterator[Sign]:
    signs = _Keeping(source)
    for node in source.nodes:
        for why, about in signs.said(node):
            yield Sign(why, about, getattr(node, "lineno", 1))
