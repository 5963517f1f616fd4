"""Launch numbers for one architecture alone: the one that they were measured on, or estimated for.

Another GPU keeps the numbers that it had, for nobody knows what these cost there. A function of the module tells one
from the other by what torch remembers of each device; torch.compile takes it for a constant.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import libcst as cst
import libcst.matchers as m

from bot.engine import callers, source
from bot.engine.bindings import bound_in
from bot.engine.finding import findall, nodes
from bot.engine.most_warps import ANYWHERE, MOST_WARPS
from bot.engine.source import LaunchSite, NotUnderstood

NVIDIA, AMD = re.compile(r"sm_(\d+)(\d)"), re.compile(r"gfx[0-9a-f]+")
CALL = m.Call(
    func=m.Name(m.MatchRegex(r"_is_(sm_\d+|gfx[0-9a-f]+)$")), args=[m.Arg(m.Attribute(attr=m.Name("device")))]
)
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
OF_TENSORS = ("stride", "shape", "dtype", "device", "numel", "element_size", "view", "size", "is_contiguous", "ndim")
"""What is asked of tensors, and of little else that a launch is given."""
TENSOR = m.Attribute(value=m.Name("torch"), attr=m.Name("Tensor"))
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
        return f"{self.text} if {self.where} else {self.old if self.keeps else otherwise(self.old)}"

    def for_who_asks_nothing(self, name: str) -> Said:
        """Where a caller may ask for a number by this name."""
        if not name:
            return self
        if not self.where:
            return replace(self, text=callers.kept(self.text, name))
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


def _may_be_missing(function: cst.FunctionDef, name: str) -> bool:
    compared = m.Comparison(
        left=m.Name(name), comparisons=[m.ComparisonTarget(m.Is() | m.IsNot(), comparator=m.Name("None"))]
    )
    without = [one for one in source.declared(function) if one.default is not None and one.name.value == name]
    return bool(without or findall(function, compared))


def _is_tensor(function: cst.FunctionDef, name: str) -> bool:
    """Whether it is asked what tensors are asked, said to be one, or made by torch."""
    asked = m.Attribute(value=m.Name(name), attr=m.OneOf(*map(m.Name, OF_TENSORS)))
    said = m.Param(name=m.Name(name), annotation=m.Annotation(TENSOR))
    made = m.Assign(targets=[m.AssignTarget(m.Name(name))], value=m.Call(func=m.Attribute(value=m.Name("torch"))))
    return bool(findall(function, asked | said | made))


def _tensor(site: LaunchSite) -> str:
    """Who has a device: best an argument of the launch that the function was given, known from its first line."""
    given = [str(arg.value.value) for arg in site.call.args if isinstance(arg.value, cst.Name)]
    handed = source.parameters(site.function)
    for name in (*(name for name in given if name in handed), *given, *handed):
        if _is_tensor(site.function, name) and not _may_be_missing(site.function, name):
            return name
    raise NotUnderstood(f"nothing beside the launch of {site.kernel} is surely a tensor")


def condition(site: LaunchSite, arch: str) -> str:
    _function(arch)  # or nobody knows how to ask
    return f"{name_of(arch)}({_tensor(site)}.device)"


def parted(text: str) -> tuple[str, str, str]:
    """A number where a gate holds, that gate, and what it is elsewhere; of one without a gate the first alone."""
    value = source.expression(text)
    if isinstance(value, cst.IfExp) and findall(value.test, CALL):
        return source.code(value.body), source.code(value.test), source.code(value.orelse)
    return text, "", ""


def sides(choice: cst.IfExp) -> tuple[cst.BaseExpression, ...]:
    """Both sides of a choice; of one by a gate the side of the GPU that is measured on."""
    return (choice.body,) if findall(choice.test, CALL) else (choice.body, choice.orelse)


def otherwise(text: str) -> str:
    """What a number is where no gate holds."""
    _, gate, elsewhere = parted(text)
    return otherwise(elsewhere) if gate else text


def _makes(statement: cst.CSTNode, name: str) -> bool:
    own = isinstance(statement, cst.FunctionDef | cst.ClassDef) and statement.name.value == name
    return own or bool(bound_in(statement)[name])


def with_function(module: cst.Module, kernel: str, arch: str) -> cst.Module:
    """The module with what its launches ask, above the first of them.

    Raises NotUnderstood without torch at hand, and where the name means something else.
    """
    function = cst.ensure_type(cst.parse_statement(_function(arch).strip() + "\n"), cst.FunctionDef)
    there = source.kernel_named(module, name_of(arch))
    if there is not None and source.code(there).strip() == source.code(function).strip():
        return module
    if any(_makes(one, name_of(arch)) for one in module.body):
        raise NotUnderstood(f"{name_of(arch)} is something else in this module")
    if "import torch" not in source.written(module).splitlines():
        raise NotUnderstood(WITHOUT_TORCH)
    first = source.sites(module, kernel)[0].function
    at = next(at for at, one in enumerate(module.body) if any(node is first for node in nodes(one)))
    above = function.with_changes(leading_lines=(cst.EmptyLine(), cst.EmptyLine()))
    return module.with_changes(body=(*module.body[:at], above, *module.body[at:]))
