"""Which tier a kernel is of: element-wise, with a reduction, or fused and in several passes (T-01)."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Literal, TypeAlias

from bot.model.variant import SourceFile

Tier: TypeAlias = Literal[1, 2, 3]
KNOWN: dict[str, Tier] = {
    **dict.fromkeys(("swiglu", "geglu", "dyt", "relu_squared"), 1),
    **dict.fromkeys(("rms_norm", "layer_norm", "softmax", "sparsemax"), 2),
    **dict.fromkeys(("cross_entropy", "fused_linear_cross_entropy"), 3),
}
"""As the people who tune these kernels sort them; any other is sorted by what its source does."""
WORDS: dict[Tier, str] = {1: "element-wise", 2: "with a reduction", 3: "fused, in several passes"}
REDUCES = {"sum", "max", "min", "argmax", "argmin", "reduce", "associative_scan", "cumsum", "sort"}
FUSES = {"dot", "dot_scaled"}


def _is_kernel(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef) and any("jit" in ast.unparse(one) for one in node.decorator_list)


def _calls(node: ast.AST) -> set[str]:
    """Names of what is called as `tl.name(...)`."""
    called = (one.func for one in ast.walk(node) if isinstance(one, ast.Call))
    return {
        one.attr
        for one in called
        if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name) and one.value.id in ("tl", "language")
    }


def _passes(node: ast.AST) -> int:
    """Loops that go over a whole row, block after block: from 0, by a step."""
    found = 0
    for loop in (one for one in ast.walk(node) if isinstance(one, ast.For)):
        match loop.iter:
            case ast.Call(args=[ast.Constant(value=0), _, _]):
                found += 1
    return found


def tier_of(kernel: str, sources: Sequence[SourceFile]) -> Tier | None:
    """None where nothing can be said: no source, or no Triton kernel in it."""
    if kernel in KNOWN:
        return KNOWN[kernel]
    kernels: list[ast.AST] = []
    for file in sources:
        try:
            kernels += [node for node in ast.walk(ast.parse(file.text)) if _is_kernel(node)]
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    if not kernels:
        return None
    if any(_calls(one) & FUSES or (_passes(one) > 1 and _calls(one) & REDUCES) for one in kernels):
        return 3
    return 2 if any(_calls(one) & REDUCES for one in kernels) else 1
