"""Whether who calls a function today can call it so after a change: its own business is what it does, not how it is
asked."""

from __future__ import annotations

import ast
from collections.abc import Collection

Function = ast.FunctionDef | ast.AsyncFunctionDef


def decorators(node: Function | ast.ClassDef) -> list[str]:
    """By name: what a decorator is told may be tuned."""
    return [ast.unparse(one.func if isinstance(one, ast.Call) else one) for one in node.decorator_list]


def _functions(tree: ast.Module) -> dict[str, Function]:
    return {node.name: node for node in tree.body if isinstance(node, Function)}


def _placed(function: Function) -> list[str]:
    return [one.arg for one in (*function.args.posonlyargs, *function.args.args)]


def _needed(function: Function) -> set[str]:
    """Parameters without which nobody can call it."""
    args, placed = function.args, _placed(function)
    alone = {one.arg for one, default in zip(args.kwonlyargs, args.kw_defaults, strict=True) if default is None}
    return {*placed[: len(placed) - len(args.defaults)], *alone}


def _takes(before: Function, after: Function) -> bool:
    """Each parameter in its place or by its name, and none that has to be given besides."""
    old, new, placed = before.args, after.args, _placed(before)
    named = {*_placed(after), *(one.arg for one in new.kwonlyargs)}
    return (
        # Behind a `*more` nothing can be put: who hands over more would hand it to that.
        (_placed(after) if old.vararg else _placed(after)[: len(placed)]) == placed
        and {one.arg for one in old.kwonlyargs} <= named
        and _needed(after) <= _needed(before)
        and (not old.vararg or bool(new.vararg))
        and (not old.kwarg or bool(new.kwarg))
        and decorators(before) == decorators(after)
    )


def left_behind(before: ast.Module, after: ast.Module, names: Collection[str]) -> tuple[str, ...]:
    """Which of these functions of the tree before cannot be called any more as they are. Trees, not texts: who judges
    many side by side parses one at a time."""
    was, now = _functions(before), _functions(after)
    lost = (name for name in sorted(names) if name in was and not (name in now and _takes(was[name], now[name])))
    return tuple(lost)
