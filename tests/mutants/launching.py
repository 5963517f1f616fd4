"""Rules about addresses, masks, loops and what the host hands to a kernel."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from tests.mutants.arithmetic import Change, Rule
from tests.mutants.text import Text, called, is_kernel

MEMORY = ("tl.load", "tl.store")
MODES = {
    "eps": ("1e-6",),
    "offset": ("0.0",),
    "casting_mode": ("0", "1", "-1"),
    "in_place": ("True", "False"),
    "beta": ("0.5", "0.0", "1.0"),
    "ignore_index": ("-100",),
    "shift_labels": ("None",),
}
"""Arguments that callers rarely set, and what a wrapper that forgot them would use."""


def _keyword(call: ast.Call, name: str) -> ast.keyword | None:
    return next((keyword for keyword in call.keywords if keyword.arg == name), None)


def _rebuilt(text: Text, call: ast.Call, without: tuple[str, ...]) -> str:
    kept = [text.of(argument) for argument in call.args]
    kept += [text.of(keyword) for keyword in call.keywords if keyword.arg not in without]
    return f"{text.of(call.func)}({', '.join(kept)})"


def mask_off(text: Text, node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Call) and called(node) in MEMORY and _keyword(node, "mask"):
        yield node, _rebuilt(text, node, ("mask", "other"))


def mask_edge(text: Text, node: ast.AST) -> Iterator[Change]:
    """One column too few, and one too many."""
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Lt) and is_kernel(text.function(node)):
        left, right = text.inner(node.left), text.inner(node.comparators[0])
        yield node, f"({left} < {right} - 1)"
        yield node, f"({left} <= {right})"


def wrong_fill(text: Text, node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Call) and called(node) == "tl.load" and (other := _keyword(node, "other")):
        was = text.of(other.value)
        yield other.value, "0.0" if "inf" in was else "1.0"
        yield other.value, 'float("nan")'


def wrong_address(text: Text, node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Call) and called(node) in MEMORY:
        yield node.args[0], f"{text.inner(node.args[0])} + 1"


def wrong_stride(text: Text, node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id.endswith("stride"):
        yield node, f"({node.id} + 1)"
        yield node, "BLOCK_SIZE"
    if isinstance(node, ast.Call) and called(node) == ".stride":
        assert isinstance(node.func, ast.Attribute)
        yield node, f"{text.of(node.func.value)}.stride(-1)"


def narrow_index(text: Text, node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Attribute) and text.of(node) == "tl.int64":
        yield node, "tl.int32"


def loop(text: Text, node: ast.AST) -> Iterator[Change]:
    if not (isinstance(node, ast.Call) and called(node) == "range" and len(node.args) >= 2):
        return
    start, end, *step = (text.of(argument) for argument in node.args)
    tail = "".join(f", {part}" for part in step)
    yield node, f"range({start}, {end} - 1{tail})"
    yield node, f"range({start} + 1, {end}{tail})"
    if step:
        yield node, f"range({start}, {step[0]}, {step[0]})"
        yield node, f"range({start}, {end}, {step[0]} + 1)"
        yield node, f"range({start}, {end}, 2 * {step[0]})"


def drop_statement(text: Text, node: ast.AST) -> Iterator[Change]:
    """A store, a second assignment, or one that adds to what is there."""
    function = text.function(node)
    if isinstance(node, ast.Expr) and called(node.value) == "tl.store":
        yield node, "pass"
    if isinstance(node, ast.AugAssign):
        yield node, "pass"
    if isinstance(node, ast.Assign) and isinstance(target := node.targets[0], ast.Name) and function is not None:
        known = [a.arg for a in function.args.args]
        known += [
            name.id
            for name in ast.walk(function)
            if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store) and name.lineno < node.lineno
        ]
        if target.id in known:
            yield node, "pass"


def overwrite(text: Text, node: ast.AST) -> Iterator[Change]:
    """s += x becomes s = x."""
    if isinstance(node, ast.AugAssign) and "stride" not in text.of(node.value):
        yield node, f"{text.of(node.target)} = {text.of(node.value)}"


def condition(text: Text, node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.If | ast.IfExp):
        yield node.test, f"(not ({text.of(node.test)}))"
        yield node.test, "True"
        yield node.test, "False"
    if isinstance(node, ast.keyword) and isinstance(node.value, ast.Compare):
        yield node.value, f"(not ({text.of(node.value)}))"


def comparison(text: Text, node: ast.AST) -> Iterator[Change]:
    """== becomes !=, outside of conditions, which have a rule of their own."""
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.NotEq | ast.Eq):
        sign = "==" if isinstance(node.ops[0], ast.NotEq) else "!="
        yield node, f"({text.inner(node.left)} {sign} {text.inner(node.comparators[0])})"


def grid(text: Text, node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript) and isinstance(node.func.slice, ast.Tuple):
        size = node.func.slice.elts[0]
        yield size, f"{text.of(size)} - 1"
        yield size, f"{text.of(size)} + 1"


def half_a_block(text: Text, node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.keyword) and node.arg == "BLOCK_SIZE":
        yield node.value, f"max({text.of(node.value)} // 2, 1)"


def swap_tensors(text: Text, node: ast.AST) -> Iterator[Change]:
    """Two neighbours of what is saved, restored, returned or handed to a kernel."""
    match node:
        case ast.Call() if called(node) == "ctx.save_for_backward" or isinstance(node.func, ast.Subscript):
            names = node.args
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=value) if not is_kernel(text.function(node)):
            if not isinstance(value, ast.Attribute | ast.Call):
                return
        case ast.Return(value=ast.Tuple(elts=names)):
            pass
        case _:
            return
    tensors = [name for name in names if isinstance(name, ast.Name | ast.Call) and "stride" not in text.of(name)]
    for one, other in pairwise(tensors):
        first, second = text.of(one), text.of(other)
        if first != second and "\n" not in text.of(node)[: text.of(node).find(first)].strip("\n"):
            start, end = text._span(one)
            begin, stop = text._span(other)
            owner_start, owner_end = text._span(node)
            raw = text._raw
            yield (
                node,
                (
                    raw[owner_start:start] + second.encode() + raw[end:begin] + first.encode() + raw[stop:owner_end]
                ).decode(),
            )


def buffer(text: Text, node: ast.AST) -> Iterator[Change]:
    """Memory of another size, or somebody else's."""
    if called(node) == "torch.empty_like":
        assert isinstance(node, ast.Call)
        yield node, text.of(node.args[0])
        yield node, f"torch.empty({text.of(node.args[0])}.shape[::-1], dtype={text.of(node.args[0])}.dtype)"
    if called(node) == "torch.empty":
        assert isinstance(node, ast.Call)
        size = node.args[0]
        if isinstance(size, ast.Tuple):
            for index in range(len(size.elts)):
                parts = [text.of(p) + (" - 1" if i == index else "") for i, p in enumerate(size.elts)]
                yield size, f"({', '.join(parts)})"
        else:
            yield size, f"{text.of(size)} - 1"


def wrong_dim(text: Text, node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.keyword) and node.arg == "dim":
        yield node, f"{node.arg}=1"
    if called(node) == ".sum" and isinstance(node, ast.Call) and node.keywords:
        assert isinstance(node.func, ast.Attribute)
        yield node, f"{text.of(node.func.value)}[0]"
    if called(node) == ".view" and isinstance(node, ast.Call):
        assert isinstance(node.func, ast.Attribute)
        yield node, text.of(node.func.value)


def drop_conversion(text: Text, node: ast.AST) -> Iterator[Change]:
    if called(node) == ".to" and isinstance(node, ast.Call):
        assert isinstance(node.func, ast.Attribute)
        yield node, text.inner(node.func.value)


def ignored_argument(text: Text, node: ast.AST) -> Iterator[Change]:
    if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load) or is_kernel(text.function(node)):
        return
    owner = text.parents[node]
    passed = isinstance(owner, ast.keyword | ast.Assign) or (isinstance(owner, ast.Call) and node in owner.args)
    for value in MODES.get(node.id, ()) if passed else ():
        yield node, value


def drop_decorator(text: Text, node: ast.AST) -> Iterator[Change]:
    owner = text.parents.get(node)
    if isinstance(owner, ast.FunctionDef) and node in owner.decorator_list and text.of(node) == "ensure_contiguous":
        yield node, "staticmethod"


RULES: dict[str, Rule] = {
    "mask_off": mask_off,
    "mask_edge": mask_edge,
    "wrong_fill": wrong_fill,
    "wrong_address": wrong_address,
    "wrong_stride": wrong_stride,
    "narrow_index": narrow_index,
    "loop": loop,
    "drop_statement": drop_statement,
    "overwrite": overwrite,
    "condition": condition,
    "comparison": comparison,
    "grid": grid,
    "half_a_block": half_a_block,
    "swap_tensors": swap_tensors,
    "buffer": buffer,
    "wrong_dim": wrong_dim,
    "drop_conversion": drop_conversion,
    "ignored_argument": ignored_argument,
    "drop_decorator": drop_decorator,
}
