"""Kernels that choose their launch numbers themselves (triton.autotune).

Without a clock the first of such a list that fits stands for the kernel, and nobody races other numbers against it:
whoever reads that there was nothing to do is to know that this was not looked at. With one it is tuned once for v0, and
once more for a variant that changes it. What was chosen stands for all processes that time it, so an interval holds for
that choice: two campaigns on H200s had 1.022x and 1.034x of the same lists of mlp, each within a tenth of a percent.
"""

from __future__ import annotations

import ast
from collections.abc import Collection

from bot.model.campaign import Profile
from bot.model.measurement import Evidence
from bot.model.variant import SourceFile

UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
MANY = 3
"""Names that one sentence holds."""


def _is_tuner(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")) == "autotune"


def _tuned(files: Collection[SourceFile]) -> dict[str, str]:
    """Each by its name, with its list and its lines in the order that Python reads them in."""
    found: dict[str, str] = {}
    for file in files:
        try:
            nodes = list(ast.walk(ast.parse(file.text)))
        except UNREADABLE:
            continue
        functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
        found |= {one.name: ast.dump(one) for one in functions if any(map(_is_tuner, one.decorator_list))}
    return found


def kernels(profile: Profile) -> tuple[str, ...]:
    """Of those that were launched, in the order in which they were."""
    tuned = _tuned(profile.sources)
    launched = (launch.kernel for case in profile.baseline.cases for launch in case.launches)
    return tuple(dict.fromkeys(name for name in launched if name in tuned))


def _named(names: Collection[str]) -> str:
    return ", ".join([*list(names)[:MANY], *(["others"] if len(names) > MANY else [])])


def anew(profile: Profile, files: Collection[SourceFile], variant: str) -> str:
    """A sentence about those that a variant has changed; nothing where no GPU has timed, or where it changed none."""
    before, after = _tuned(profile.sources), _tuned(files)
    names = [name for name in kernels(profile) if name in after and after[name] != before[name]]
    if profile.baseline.runner.evidence is Evidence.STATIC or not names:
        return ""
    tunes, its, were = (
        ("tunes itself", "its list", "it was") if len(names) == 1 else ("tune themselves", "their lists", "they were")
    )
    return (
        f"{_named(names)} {tunes} (triton.autotune), and {variant} changes {its} or lines: {were} tuned once for "
        f"{variant}, for all processes that timed it, so its interval says nothing of what another tuning would choose"
    )


def said(profile: Profile) -> str:
    """A sentence; nothing where a GPU tuned them, or where none tunes itself."""
    if profile.baseline.runner.evidence is not Evidence.STATIC or not (names := kernels(profile)):
        return ""
    tunes, lists = ("tunes itself", "its list") if len(names) == 1 else ("tune themselves", "each list")
    return (
        f"{_named(names)} {tunes} (triton.autotune), which takes a GPU: here the first of {lists} that fits was "
        "compiled and estimated, and no launch numbers were raced against it. A variant may change such a list, never "
        "take it away."
    )
