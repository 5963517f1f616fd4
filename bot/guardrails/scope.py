"""Only the target's files change, and what others rely on in them stays (BC-13, L-37).

That is: public names, signatures, docstrings, comments. Private functions, private kernels and new ones are the
variant's own business, but for those that other files import: a test may launch a kernel itself.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from collections.abc import Iterator
from typing import TypeAlias

from bot.analysis.callers import decorators, left_behind
from bot.guardrails.hearing import Hearing, reject
from bot.guardrails.source import UNREADABLE, parse
from bot.model.verdict import Finding

NAME = "scope"
Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
BRANCHES = (ast.If, ast.Try, ast.With, ast.For, ast.While)
SHOWN = 60
"""Characters of a comment in a message."""


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Those of a module or class, also where a condition stands around them."""
    for node in body:
        yield node
        if isinstance(node, BRANCHES):
            parts = [*node.body, *getattr(node, "orelse", []), *getattr(node, "finalbody", [])]
            parts += [part for handler in getattr(node, "handlers", []) for part in handler.body]
            yield from _statements(parts)


def _names(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, Definition):
        yield node.name
    elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        parts = [part for target in targets for part in ast.walk(target)]
        yield from (part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store))


def _shape(node: ast.stmt) -> str:
    """What a caller sees."""
    match node:
        case ast.ClassDef(bases=bases, keywords=keywords):
            return f"class {[ast.dump(part) for part in (*bases, *keywords)]} {decorators(node)}"
        case ast.FunctionDef(args=args, returns=returns) | ast.AsyncFunctionDef(args=args, returns=returns):
            shown = ast.dump(returns) if returns else ""
            return f"{type(node).__name__} {ast.dump(args)} {shown} {decorators(node)}"
    return "value"


def _surface(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every binding of a public name, with its shape."""
    for node in _statements(body):
        for name in _names(node):
            if not name.startswith("_") or (name.startswith("__") and name.endswith("__")):
                yield prefix + name, _shape(node)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from _surface(node.body, f"{prefix}{node.name}.")


def _by_name(tree: ast.Module) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, shape in _surface(tree.body):
        found.setdefault(name, []).append(shape)
    return found


def _callers(old: ast.Module, new: ast.Module) -> Iterator[str]:
    was, now = _by_name(old), _by_name(new)
    for name, shapes in was.items():
        if name not in now:
            yield f"the public name {name} is gone"
        elif now[name] != shapes:
            yield f"the signature of {name} changed, and callers rely on it"


def _tuned(tree: ast.Module) -> set[str]:
    """Private functions that choose their launch numbers themselves; of public ones callers see all decorators."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("_")]
    return {f.name for f in functions if any("autotune" in ast.unparse(one) for one in f.decorator_list)}


def _untuned(old: ast.Module, new: ast.Module) -> Iterator[str]:
    """A list may be tuned, and not be taken away: on another GPU it is what finds the numbers."""
    there = {node.name for node in ast.walk(new) if isinstance(node, ast.FunctionDef)}
    for name in sorted((_tuned(old) & there) - _tuned(new)):
        yield f"{name} chose its launch numbers itself (triton.autotune) and does so no more: change its list instead"


def _docstrings(tree: ast.Module) -> list[str]:
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Module | Definition)]
    return [text for node in nodes if (text := ast.get_docstring(node))]


def _words(old: ast.Module, new: ast.Module) -> Iterator[str]:
    """A docstring may be added to, and may move; what it said is still said."""
    now = _docstrings(new)
    for text in _docstrings(old):
        home = next((i for i, candidate in enumerate(now) if text in candidate), None)
        if home is None:
            yield f'the docstring "{text.splitlines()[0][:SHOWN]}" was removed or rewritten'
        else:
            del now[home]


def _comments(text: str) -> Counter[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return Counter(token.string.strip() for token in tokens if token.type == tokenize.COMMENT)


def lost_remarks(before: str, after: str) -> Counter[str]:
    """Comments that are not there any more, word for word, and how many of each."""
    return _comments(before) - _comments(after)


def _remarks(before: str, after: str) -> Iterator[str]:
    gone = lost_remarks(before, after)
    if gone:
        first = next(iter(gone))[:SHOWN]
        yield f'{sum(gone.values())} comment(s) of the author were removed or rewritten, first "{first}"'


def _compare(path: str, before: str, after: str, relied_on: tuple[str, ...]) -> list[Finding]:
    try:
        old, new = parse(before), parse(after)
        said = [*_callers(old, new), *_untuned(old, new), *_words(old, new), *_remarks(before, after)]
        said += [
            f"{name} cannot be called any more as it is, and another file imports it: keep its parameters"
            for name in left_behind(old, new, relied_on)
        ]
    except UNREADABLE as error:
        return [reject(NAME, f"{path} cannot be read as Python: {error or type(error).__name__}")]
    return [reject(NAME, f"{path}: {text}") for text in said]


def scope(hearing: Hearing) -> list[Finding]:
    was = {file.path: file.text for file in hearing.sources}
    paths = Counter(file.path for file in hearing.variant.files)
    outside = sorted(set(paths) - set(hearing.allowed))
    findings = [reject(NAME, f"{path} is not a file of this kernel; a variant may not touch it") for path in outside]
    findings += [reject(NAME, f"{path} is missing from the variant") for path in sorted(set(was) - set(paths))]
    findings += [reject(NAME, f"{path} is there {count} times") for path, count in paths.items() if count > 1]
    for file in hearing.variant.files:
        # A file that nobody changed is read too: what is no program has no verdict.
        findings += _compare(file.path, was.get(file.path, ""), file.text, hearing.relied_on)
    return findings
