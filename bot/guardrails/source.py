"""A kernel file read without running it: its tree, what surrounds each node, and what its names stand for."""

from __future__ import annotations

import ast
import threading
import tokenize
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple, TypeAlias

UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError)
"""What is raised for text that is no program, or one that is long, nested or renamed beyond reason."""
LONGEST_TEXT = 300_000
"""Characters; the longest op of Liger-Kernel has 60,000. Some signs take time that grows with the square."""
MOST_RENAMINGS = 32
"""Meanings of one name, and renamings of a renaming, that are followed."""

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class Sign(NamedTuple):
    """Something suspicious, in words. Where v0 has the same words about the same expression, it is v0's own."""

    why: str
    about: str
    line: int


_ONE_AT_A_TIME = threading.Lock()
"""Python 3.11 counts the depth of all threads' trees in one number, and fails where it finds two at once."""


@lru_cache(maxsize=8)
def parse(text: str) -> ast.Module:
    """The tree of a text, which every guardrail reads and none changes. Raises one of UNREADABLE."""
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"it has {len(text)} characters, more than {LONGEST_TEXT}")
    with _ONE_AT_A_TIME:
        return ast.parse(text)


def root(node: ast.AST) -> str:
    """The name an expression starts from: `x` of x.view(-1)[0].flags; empty where there is none."""
    while True:
        match node:
            case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Starred(value=inner):
                node = inner
            case ast.Call(func=inner):
                node = inner
            case ast.Name(id=name):
                return name
            case _:
                return ""


def parameters(function: Function) -> tuple[str, ...]:
    spec = function.args
    named = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]
    named += [extra for extra in (spec.vararg, spec.kwarg) if extra is not None]
    return tuple(argument.arg for argument in named)


def assigned(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Targets with what they are set to, where that is plain to see; a tuple is taken apart."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                    yield from zip(target.elts, value.elts, strict=False)
                else:
                    yield target, value
        case ast.NamedExpr(target=target, value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
            yield target, value


def _bound(node: ast.AST) -> Iterator[str]:
    """Names that this one node binds in the scope it stands in."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name
        case ast.ClassDef(name=name) | ast.ExceptHandler(name=str(name)):
            yield name
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from ((alias.asname or alias.name).split(".")[0] for alias in names)


def _is_outside(node: ast.AST, owner: Function | ast.ClassDef) -> bool:
    """Whether a child of a definition is evaluated where the definition stands."""
    if isinstance(owner, ast.Lambda):
        return node is owner.args
    if isinstance(owner, ast.ClassDef):
        return any(node is part for part in (*owner.bases, *owner.keywords, *owner.decorator_list))
    return node is owner.args or node is owner.returns or any(node is part for part in owner.decorator_list)


class Source:
    """One text with everything the signs look up in it. Raises one of UNREADABLE."""

    def __init__(self, text: str) -> None:
        self.tree = parse(text)
        self.nodes = tuple(ast.walk(self.tree))
        self.parents = {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}
        self.values: dict[str, list[ast.expr | None]] = {}
        """Names of the module with what they are set to; None where that is not plain to see."""
        self.modules: set[str] = set()
        """What surely is a module: the names that `import` binds."""
        self._scopes: dict[ast.AST | None, set[str]] = {None: set()}
        self._imported: dict[str, set[str]] = {}
        self._definitions: set[str] = set()
        given = {target: value for node in self.nodes for target, value in assigned(node)}
        for node in self.nodes:
            self._bind(node, given)
            self._import(node)
        self._follow_renamings([(t.id, value) for t, value in given.items() if isinstance(t, ast.Name)])

    def _bind(self, node: ast.AST, given: dict[ast.expr, ast.expr]) -> None:
        names = tuple(_bound(node))
        scope = self.scope(node) if names else None
        if not names or isinstance(scope, ast.ClassDef):
            return
        self._scopes.setdefault(scope, set()).update(names)
        if scope is None and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self._definitions.add(node.name)
        elif scope is None and isinstance(node, ast.Name) and not self._in_comprehension(node):
            self.values.setdefault(node.id, []).append(given.get(node))

    def _in_comprehension(self, node: ast.Name) -> bool:
        """`n` of `{n: 2 * n for n in sizes}` is nobody's but the comprehension's."""
        walrus = isinstance(self.parents[node], ast.NamedExpr)
        return not walrus and any(isinstance(outer, ast.comprehension) for outer in self.around(node))

    def _import(self, node: ast.AST) -> None:
        if not isinstance(node, ast.Import | ast.ImportFrom):
            return
        start = f"{'.' * node.level}{node.module or ''}." if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            shown = alias.name if start or alias.asname else alias.name.split(".")[0]
            self._imported.setdefault(alias.asname or shown, set()).add(start + shown)
            self.modules |= set() if start else {shown}

    def _follow_renamings(self, given: list[tuple[str, ast.expr]]) -> None:
        for _ in range(MOST_RENAMINGS):
            before = sum(map(len, self._imported.values()))
            for name, value in given:
                if found := self.dotted(value):
                    known = self._imported.setdefault(name, set())
                    known |= found
                    if len(known) > MOST_RENAMINGS:
                        raise ValueError(f"{name} stands for too many things to follow")
            if sum(map(len, self._imported.values())) == before:
                return
        raise ValueError("names are renamed too often to follow")

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """What a node stands in, from the inside out."""
        while (outer := self.parents.get(node)) is not None:
            yield outer
            node = outer

    def scope(self, node: ast.AST) -> Function | ast.ClassDef | None:
        """The innermost function or class that runs a node; defaults, bases and decorators are run outside of it."""
        for outer in self.around(node):
            if isinstance(outer, (ast.ClassDef, *FUNCTIONS)) and not _is_outside(node, outer):
                return outer
            node = outer
        return None

    def function(self, node: ast.AST) -> Function | None:
        """The innermost function that runs a node."""
        found = self.scope(node)
        while isinstance(found, ast.ClassDef):
            found = self.scope(found)
        return found

    def dotted(self, node: ast.AST) -> frozenset[str]:
        """Where an expression leads in imported modules: `c.Event` after `from torch import cuda as c`."""
        tail: list[str] = []
        while True:
            match node:
                case ast.Attribute(value=inner, attr=name):
                    tail.append(name)
                    node = inner
                case ast.Call(func=ast.Name(id="getattr"), args=[inner, ast.Constant(value=str(name)), *_]):
                    tail.append(name)
                    node = inner
                case ast.Name(id=name):
                    return frozenset(".".join([start, *reversed(tail)]) for start in self._imported.get(name, ()))
                case _:
                    return frozenset()

    def local(self, name: str, function: Function | None) -> bool:
        """Whether a name belongs to this one function."""
        return function is not None and (name in parameters(function) or name in self._scopes.get(function, ()))

    def known(self, name: str, node: ast.AST) -> bool:
        """Whether a name is bound anywhere it could be seen from, so that it is not the builtin."""
        functions = [outer for outer in self.around(node) if isinstance(outer, FUNCTIONS)]
        return name in self._scopes[None] or any(self.local(name, function) for function in functions)

    def defines(self, name: str) -> bool:
        """Whether a name is a function or a class of the module's own."""
        return name in self._definitions
