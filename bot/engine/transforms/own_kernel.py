"""For rewrites that bring a kernel of their own along: whether a file can hold it, and where it comes to stand."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
import libcst.matchers as m

from bot.engine import source
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood

IMPORTS = ("import torch", "import triton", "import triton.language as tl")
"""What the kernel and its launch are written with."""


def module_with_room(text: str, names: Sequence[str]) -> cst.Module | None:
    """The module, where it has these imports and none of the new names is taken."""
    try:
        module = source.parse(text)
    except NotUnderstood:
        return None
    lines = text.splitlines()
    missing, taken = any(line not in lines for line in IMPORTS), any(findall(module, m.Name(name)) for name in names)
    return None if missing or taken else module


def placed_above(
    module: cst.Module, function: cst.FunctionDef, helper: str, changed: Sequence[cst.BaseStatement]
) -> str:
    """The text with the helper above the function that calls it, which becomes another one."""
    new = list(cst.parse_module(helper, config=module.config_for_parsing).body)
    new[0] = new[0].with_changes(leading_lines=(cst.EmptyLine(), cst.EmptyLine()))
    return str(source.spliced(module, [(function, [*new, *changed])]).code)
