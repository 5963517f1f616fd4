"""Rules about sums, products, constants and precision: what a slip of the pen does to a formula."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from tests.mutants.text import Text, called, is_kernel

Change = tuple[ast.AST, str]
"""A node and the text to put in its place."""
Rule = Callable[[Text, ast.AST], Iterator[Change]]

FUNCTIONS = {
    "tl.max": ("tl.sum", "tl.min"),
    "tl.sum": ("tl.max",),
    "tl.exp": ("tl.exp2",),
    "tl.log": ("tl.log2",),
    "tl.rsqrt": ("tl.sqrt",),
    "tl.sigmoid": ("tl.exp",),
    "tl.minimum": ("tl.maximum",),
    "max": ("min",),
    "min": ("max",),
    "triton.cdiv": ("int.__floordiv__",),
    ".sum": (".mean", ".amax"),
}
FLOATS = ("tl.float32", "torch.float32")
ADDRESSING = ("tl.program_id", "tl.arange", "tl.minimum")


def drop_operand(text: Text, node: ast.AST) -> Iterator[Change]:
    """a + b, a * b, a - b, a / b: one of the two is forgotten."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div):
        yield node, text.inner(node.left)
        yield node, text.inner(node.right)


def swap_operands(text: Text, node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub | ast.Div):
        sign = "-" if isinstance(node.op, ast.Sub) else "/"
        yield node, f"({text.inner(node.right)} {sign} {text.inner(node.left)})"


def wrong_sign(text: Text, node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        sign = "-" if isinstance(node.op, ast.Add) else "+"
        yield node, f"({text.inner(node.left)} {sign} {text.inner(node.right)})"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield node, text.inner(node.operand)


def wrong_operator(text: Text, node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
        sign = "/" if isinstance(node.op, ast.Mult) else "*"
        yield node, f"({text.inner(node.left)} {sign} {text.inner(node.right)})"


def wrong_function(text: Text, node: ast.AST) -> Iterator[Change]:
    name = called(node)
    for other in FUNCTIONS.get(name, ()):
        assert isinstance(node, ast.Call)
        if name.startswith("."):
            assert isinstance(node.func, ast.Attribute)
            yield node.func, f"{text.of(node.func.value)}{other}"
        else:
            yield node.func, other


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _is_place(text: Text, node: ast.AST) -> bool:
    """An axis, a dimension, the start of a range: other rules know better what to do to these."""
    owner = text.parents[node]
    named = isinstance(owner, ast.keyword) and owner.arg in ("axis", "dim", "other")
    call = text.parents[owner] if isinstance(owner, ast.keyword) else owner
    return named or called(call) in ("tl.program_id", "tl.arange", "range", ".stride", ".view", ".size", "tl.zeros")


def wrong_constant(text: Text, node: ast.AST) -> Iterator[Change]:
    if not _is_number(node) or _is_place(text, node):
        return
    assert isinstance(node, ast.Constant)
    value = node.value
    if isinstance(value, float) and value not in (0.0, 1.0):
        yield node, repr(value * 1.01)
        yield node, repr(value * 1.0001)
    else:
        yield node, repr(type(value)(value + 1))


def low_precision(text: Text, node: ast.AST) -> Iterator[Change]:
    """What is kept or added up in float32 is not any more."""
    if isinstance(node, ast.Attribute) and text.of(node) in FLOATS:
        home = text.of(node).split(".")[0]
        yield node, f"{home}.float16"
        yield node, f"{home}.bfloat16"


def _is_intermediate(text: Text, node: ast.AST) -> bool:
    if not (isinstance(node, ast.Assign | ast.AugAssign) and is_kernel(text.function(node))):
        return False
    if not isinstance(node.value, ast.BinOp | ast.Call | ast.UnaryOp):
        return False
    inside = list(ast.walk(node.value))
    return not any(
        called(part) in (*ADDRESSING, "tl.zeros", "tl.load") or isinstance(part, ast.Compare) for part in inside
    )


def rounded_intermediate(text: Text, node: ast.AST) -> Iterator[Change]:
    """One step of the formula passes through half precision."""
    if _is_intermediate(text, node):
        assert isinstance(node, ast.Assign | ast.AugAssign)
        if any(word in text.of(node.value) for word in ("stride", "program")):
            return
        for kind in ("float16", "bfloat16"):
            yield node.value, f"({text.of(node.value)}).to(tl.{kind}).to(tl.float32)"


RULES: dict[str, Rule] = {
    "drop_operand": drop_operand,
    "swap_operands": swap_operands,
    "wrong_sign": wrong_sign,
    "wrong_operator": wrong_operator,
    "wrong_function": wrong_function,
    "wrong_constant": wrong_constant,
    "low_precision": low_precision,
    "rounded_intermediate": rounded_intermediate,
}
