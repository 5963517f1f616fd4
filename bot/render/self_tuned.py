"""Kernels that choose their launch numbers themselves (triton.autotune), where no GPU was there to let them.

Without a clock the first of such a list that fits stands for the kernel, and nobody races other numbers against it:
whoever reads that there was nothing to do is to know that this was not looked at.
"""

from __future__ import annotations

import ast

from bot.model.campaign import Profile
from bot.model.measurement import Evidence

UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
MANY = 3
"""Names that one sentence holds."""


def _is_tuner(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")) == "autotune"


def _tuned(text: str) -> set[str]:
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except UNREADABLE:
        return set()
    return {
        node.name for node in nodes if isinstance(node, ast.FunctionDef) and any(map(_is_tuner, node.decorator_list))
    }


def kernels(profile: Profile) -> tuple[str, ...]:
    """Of those that were launched, in the order in which they were."""
    tuned = set().union(*(_tuned(file.text) for file in profile.sources))
    launched = (launch.kernel for case in profile.baseline.cases for launch in case.launches)
    return tuple(dict.fromkeys(name for name in launched if name in tuned))


def said(profile: Profile) -> str:
    """A sentence; nothing where a GPU tuned them, or where none tunes itself."""
    if profile.baseline.runner.evidence is not Evidence.STATIC or not (names := kernels(profile)):
        return ""
    shown = ", ".join([*names[:MANY], *(["others"] if len(names) > MANY else [])])
    tunes, lists = ("tunes itself", "its list") if len(names) == 1 else ("tune themselves", "each list")
    return (
        f"{shown} {tunes} (triton.autotune), which takes a GPU: here the first of {lists} that fits was compiled and "
        "estimated, and no launch numbers were raced against it. A variant may change such a list, never take it away."
    )
