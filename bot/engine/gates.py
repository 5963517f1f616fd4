"""Launch numbers for one architecture alone: the one that they were measured on, or estimated for.

Another GPU keeps the numbers that it had, for nobody knows what these cost there. A function of the module tells one
from the other by what torch remembers of each device; torch.compile takes it for a constant.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace

import libcst as cst
import libcst.matchers as m

from bot.engine import callers, kernels, source, sure_tensors
from bot.engine.bindings import bound_in
from bot.engine.finding import findall
from bot.engine.most_warps import ANYWHERE, MOST_WARPS
from bot.engine.source import LaunchSite, NotUnderstood

NVIDIA, AMD = re.compile(r"sm_(\d+)(\d)"), re.compile(r"gfx[0-9a-f]+")
NAME = re.compile(r"_is_(sm_\d+|gfx[0-9a-f]+)")
CALL = m.Call(func=m.Name(m.MatchRegex(f"{NAME.pattern}$")), args=[m.Arg(m.Attribute(attr=m.Name("device")))])
SAYS = '"""Whether launch numbers that were chosen for {arch} are for this device."""'
ON_NVIDIA = f"""
def {{name}}(device):
    {SAYS}
    if device.type != "cuda" or torch.version.hip is not None:
        return False
    known = torch.cuda.get_device_properties(device)
    return (known.major, known.minor) == ({{major}}, {{minor}})
"""
ON_AMD = f"""
def {{name}}(device):
    {SAYS}
    if device.type != "cuda" or torch.version.hip is None:
        return False
    return torch.cuda.get_device_properties(device).gcnArchName.split(":")[0] == "{{arch}}"
"""
TORCH = m.SimpleStatementLine(
    body=[m.Import(names=[m.ZeroOrMore(), m.ImportAlias(m.Name("torch"), asname=None), m.ZeroOrMore()])]
)
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


def most_warps(arch: str) -> int:
    """Of a launch there."""
    return MOST_WARPS if NVIDIA.fullmatch(arch) else ANYWHERE


def _function(arch: str) -> str:
    if (found := NVIDIA.fullmatch(arch)) is not None:
        return ON_NVIDIA.format(name=name_of(arch), arch=arch, major=found[1], minor=found[2])
    if AMD.fullmatch(arch):
        return ON_AMD.format(name=name_of(arch), arch=arch)
    raise NotUnderstood(f"nobody here knows how code tells {arch} apart")


def condition(site: LaunchSite, arch: str) -> str:
    _function(arch)  # or nobody knows how to ask
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


def _makes(statement: cst.CSTNode, name: str) -> bool:
    own = isinstance(statement, cst.FunctionDef | cst.ClassDef) and statement.name.value == name
    return own or bool(bound_in(statement)[name])


def with_function(module: cst.Module, arch: str) -> cst.Module:
    """The module with what its launches ask, above the first of all of them: whoever asks for another one brings the
    same lines to the same place.

    Raises NotUnderstood without torch at hand, and where the name means something else.
    """
    function = cst.ensure_type(cst.parse_statement(_function(arch).strip() + "\n"), cst.FunctionDef)
    there = source.kernel_named(module, name_of(arch))
    if there is not None and source.code(there).strip() == source.code(function).strip():
        return module
    if any(_makes(one, name_of(arch)) for one in module.body):
        raise NotUnderstood(f"{name_of(arch)} is something else in this module")
    if not any(m.matches(one, TORCH) for one in module.body):
        raise NotUnderstood(WITHOUT_TORCH)
    at = next(at for at, one in enumerate(module.body) if findall(one, source.LAUNCH))
    above = function.with_changes(leading_lines=(cst.EmptyLine(), cst.EmptyLine()))
    return module.with_changes(body=(*module.body[:at], above, *module.body[at:]))
