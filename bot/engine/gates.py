"""Launch numbers for one architecture alone: the one that they were measured on, or estimated for.

Another GPU keeps the numbers that it had, for nobody knows what these cost there. A function of the module tells one
from the other by what torch remembers of each device; torch.compile takes it for a constant.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import libcst as cst
import libcst.matchers as m

from bot.engine import callers, imports, kernels, source, sure_tensors
from bot.engine.finding import findall
from bot.engine.most_warps import ANYWHERE, MOST_WARPS
from bot.engine.source import LaunchSite, NotUnderstood

NVIDIA, AMD = re.compile(r"sm_(\d+)(\d)"), re.compile(r"gfx[0-9a-f]+")
ARCH = r"(?:sm_\d+|gfx[0-9a-f]+)"
NAME, OURS = re.compile(f"_is_{ARCH}"), re.compile(f"_(?:is|asks_for)_{ARCH}")
CALL = m.Call(func=m.Name(m.MatchRegex(f"{NAME.pattern}$")), args=[m.Arg(m.Attribute(attr=m.Name("device")))])
CACHE = "functools"
ASKS = """
@functools.cache
def {asks}(device: torch.device) -> bool:
    if device.type != "cuda" or torch.version.hip is {other}:
        return False
    return {test}


@torch.compiler.assume_constant_result
def {name}(device):
    \"\"\"Whether launch numbers that were chosen for {arch} are for this device.\"\"\"
    return {asks}(device)
"""
"""Two, as torch.compile follows a function with a cache and warns of it. Without one, torch takes longer to answer than
many a launch: 14 us and more beside an H200."""
TORCH = imports.plain("torch")
AIR = re.compile(r"([(\[{])\s+|,?\s+([)\]}])")
"""Of brackets in lines of their own."""
WITHOUT_TORCH = "launch numbers for one architecture alone need `import torch` to ask for it"


@dataclass(frozen=True, slots=True)
class Said:
    """A number as the source says it, where it holds, and what a launch takes elsewhere."""

    text: str
    where: str = ""
    old: str = ""
    keeps: bool = False
    """Whether some rows keep the old one on this GPU too."""

    @property
    def expression(self) -> str:
        if not self.where:
            return self.text
        return f"{whole(self.text)} if {self.where} else {self.old if self.keeps else otherwise(self.old, self.where)}"

    def for_who_asks_nothing(self, name: str) -> Said:
        """Where a caller may ask for a number by this name."""
        if not name:
            return self
        if not self.where:
            return replace(self, text=callers.kept(whole(self.text), name))
        return replace(self, where=f"{self.where} and {callers.unasked(name)}")


def name_of(arch: str) -> str:
    return f"_is_{arch}"


def is_ours(statement: ast.stmt) -> bool:
    """Whether it is one of those that come with any launch numbers for one architecture."""
    if isinstance(statement, ast.FunctionDef):
        return OURS.fullmatch(statement.name) is not None
    return ast.unparse(statement) == f"import {CACHE}"


def _asks(arch: str) -> str:
    return f"_asks_for_{arch}"


def most_warps(arch: str) -> int:
    """Of a launch there."""
    return MOST_WARPS if NVIDIA.fullmatch(arch) else ANYWHERE


def functions(arch: str) -> str:
    """What a module needs to ask for an architecture."""
    if (found := NVIDIA.fullmatch(arch)) is not None:
        other, test = "not None", f"torch.cuda.get_device_capability(device) == ({found[1]}, {found[2]})"
    elif AMD.fullmatch(arch):  # "gfx942:sramecc+:xnack-" is one
        other, test = "None", f'torch.cuda.get_device_properties(device).gcnArchName[:{len(arch)}] == "{arch}"'
    else:
        raise NotUnderstood(f"nobody here knows how code tells {arch} apart")
    return ASKS.format(name=name_of(arch), asks=_asks(arch), arch=arch, other=other, test=test)


def condition(site: LaunchSite, arch: str) -> str:
    functions(arch)  # or nobody knows how to ask
    return f"{name_of(arch)}({sure_tensors.one_of(site)}.device)"


def whole(text: str) -> str:
    """An expression as it may stand in front of an `if`."""
    return f"({text})" if m.matches(source.expression(text), m.IfExp(lpar=[])) else text


def told(value: cst.BaseExpression) -> str:
    """An expression as it may stand behind an `else`: in one line, where nothing is said of its parts.

    Raises NotUnderstood where it gives a name a value, which somebody may read: it is not evaluated everywhere then.
    """
    if findall(value, m.NamedExpr()):
        raise NotUnderstood("what stands there gives a name a value")
    text = source.code(value)
    if "\n" not in text:
        return text
    flat = " ".join(AIR.sub(lambda found: found[1] or found[2], text).split())
    if not findall(value, m.Comment()) and ast.dump(ast.parse(f"({text})")) == ast.dump(ast.parse(f"({flat})")):
        return flat
    return text if getattr(value, "lpar", ()) else f"({text})"


def _of(where: str) -> str:
    """The function that a gate asks."""
    found = findall(source.expression(where), CALL) if where else []
    return kernels.called_name(cst.ensure_type(found[0], cst.Call)) if found else ""


def parted(text: str, arch: str) -> tuple[str, str, str]:
    """A number on GPUs of an architecture, the gate to it, and what it is elsewhere; of one without it the first
    alone."""
    value = source.expression(text)
    if arch and isinstance(value, cst.IfExp) and _of(told(value.test)) == name_of(arch):
        return told(value.body), told(value.test), told(value.orelse)
    return text, "", ""


def sides(choice: cst.IfExp) -> tuple[cst.BaseExpression, ...]:
    """Both sides of a choice; of one by a gate the side of the GPU that is measured on."""
    return (choice.body,) if findall(choice.test, CALL) else (choice.body, choice.orelse)


def otherwise(text: str, where: str) -> str:
    """What a number is where this gate does not hold. What others hold for stays."""
    value = source.expression(text)
    gate = told(value.test) if isinstance(value, cst.IfExp) else ""
    if not isinstance(value, cst.IfExp) or not _of(gate):
        return text
    elsewhere = otherwise(told(value.orelse), where)
    return elsewhere if _of(gate) == _of(where) else f"{told(value.body)} if {gate} else {elsewhere}"


def _are_there(module: cst.Module, ours: Sequence[cst.FunctionDef]) -> bool:
    known = [source.kernel_named(module, one.name.value) for one in ours]
    return all(
        there is not None and source.code(there).strip() == source.code(one).strip()
        for there, one in zip(known, ours, strict=True)
    )


def with_function(module: cst.Module, arch: str) -> cst.Module:
    """The module with what its launches ask, above the first of all of them: whoever asks for another one brings the
    same lines to the same place.

    Raises NotUnderstood without torch at hand, and where a name means something else.
    """
    ours = [cst.ensure_type(one, cst.FunctionDef) for one in cst.parse_module(functions(arch).strip() + "\n").body]
    if _are_there(module, ours):
        return module
    for name in (name_of(arch), _asks(arch)):
        if any(imports.makes(one, name) for one in module.body):
            raise NotUnderstood(f"{name} is something else in this module")
    if not any(m.matches(one, TORCH) for one in module.body):
        raise NotUnderstood(WITHOUT_TORCH)
    at = next(at for at, one in enumerate(module.body) if findall(one, source.LAUNCH))
    above = [one.with_changes(leading_lines=(cst.EmptyLine(), cst.EmptyLine())) for one in ours]
    return imports.with_import(module.with_changes(body=(*module.body[:at], *above, *module.body[at:])), CACHE)
