"""How a kernel file could hide that it fails, or that it is not what it looks like."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from bot.guardrails.reach import PLAIN_DUNDERS, is_dunder
from bot.guardrails.source import Sign, Source

OWN_METHODS = {*PLAIN_DUNDERS, "__post_init__", "__repr__"}
TENSORS = {"Tensor", "Parameter", "type"}
ASM = "inline_asm_elementwise"
ASM_MEMORY = ("st.", "ld.", "atom", "red.", "clock", "timer", "sleep", "bar.", "trap", "mbarrier", "%sm", "cp.")


CAUGHT = "it catches errors, so that a kernel that fails is replaced in silence"
IMPORT_ERRORS = {"ImportError", "ModuleNotFoundError"}


def _falls_back(part: ast.stmt) -> bool:
    """Another place to import from, or a plain word for there being none."""
    nothing = isinstance(part, ast.Assign) and isinstance(part.value, ast.Constant | ast.Tuple)
    return nothing or isinstance(part, ast.Import | ast.ImportFrom | ast.Pass)


def _only_imports(node: ast.Try | ast.TryStar) -> bool:
    """`try: from new.place import f; except ImportError: from old.place import f`, as libraries do."""
    caught = [part for handler in node.handlers for part in _types(handler.type)]
    tried = all(isinstance(part, ast.Import | ast.ImportFrom) for part in node.body)
    handled = all(_falls_back(part) for handler in node.handlers for part in handler.body)
    return tried and handled and not node.orelse and all(name in IMPORT_ERRORS for name in caught)


def _types(node: ast.expr | None) -> list[str]:
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return [part.id if isinstance(part, ast.Name) else "" for part in parts]


def _classes(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for base in node.bases:
        name = base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
        if name in TENSORS:
            yield f"{node.name} is a {name} of its own, which can put the work off until somebody looks", node.name
    if any(keyword.arg == "metaclass" for keyword in node.keywords):
        yield f"{node.name} has a metaclass, which changes what its methods mean", node.name


def _calls(node: ast.Call) -> Iterator[tuple[str, str]]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name == "type" and len(node.args) == 3:
        yield "it builds a class at run time, which cannot be reviewed", "type"
    if name == ASM:
        code = node.args[0] if node.args else next((k.value for k in node.keywords if k.arg == "asm"), None)
        text = code.value if isinstance(code, ast.Constant) and isinstance(code.value, str) else None
        if text is None or any(word in text for word in ASM_MEMORY):
            yield "its assembly touches memory or clocks, past everything that is checked", ast.unparse(node)


def _autotune(source: Source) -> Iterator[Sign]:
    """Counted once a file: a kernel that is tuned already may be tuned otherwise (C-24)."""
    for node in source.nodes:
        if isinstance(node, ast.Attribute | ast.Name) and "triton.autotune" in source.dotted(node):
            yield Sign("it tunes itself at the first call, in everybody's first step", "autotune", node.lineno)
            return


def hiding(source: Source) -> Iterator[Sign]:
    yield from _autotune(source)
    for node in source.nodes:
        found: list[tuple[str, str]] = []
        match node:
            case ast.Try(handlers=[_, *_]) | ast.TryStar() if not _only_imports(node):
                found = [(CAUGHT, " ".join(ast.unparse(handler) for handler in node.handlers))]
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if is_dunder(name) and name not in OWN_METHODS:
                    found = [(f"it defines {name}, which changes what plain syntax means", name)]
            case ast.ClassDef():
                found = list(_classes(node))
            case ast.Call():
                found = list(_calls(node))
            case ast.Constant(value="meta"):
                found = [("it asks for the device without memory, on which launches are recorded", "meta")]
        for why, about in found:
            yield Sign(why, about, getattr(node, "lineno", 1))
