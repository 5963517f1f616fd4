"""Whether a call leaves nothing but its value: of Triton's language, of its libraries, of a value's own casts, or of a
helper of the file that is made of such calls. A name counts for what it is where nobody gives it another meaning."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from bot.engine import addresses, kernels, source
from bot.engine.bindings import bound_in, root
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood

LANGUAGE = "tl"
LIBRARY = "triton"
BUILT_IN = ("float", "range")
TOUCHES = frozenset(("load", "store"))
RECKONS = (kernels.ELEMENTWISE | {"sum", "max", "min", "expand_dims", "num_programs"}) - TOUCHES


def refuse_other_meanings(module: cst.Module, kernel: cst.FunctionDef) -> None:
    """Raises NotUnderstood where `tl` is not Triton's language, or a word of Python's is another."""
    language = m.Attribute(value=m.Name(LIBRARY), attr=m.Name("language"))
    imports = findall(module, m.ImportAlias(name=language, asname=m.AsName(name=m.Name(LANGUAGE))))
    if not imports:
        raise NotUnderstood("the language has another name here")
    given, own = bound_in(module), {*source.parameters(kernel), *_functions(module)}
    if given[LANGUAGE] != len(imports) or LANGUAGE in own or any(given[name] or name in own for name in BUILT_IN):
        raise NotUnderstood("a name of Triton's or Python's has another meaning here")


def _functions(module: cst.Module) -> list[str]:
    """Names of all that is defined in the file, at whatever depth."""
    found = findall(module, m.FunctionDef() | m.ClassDef())
    return [str(one.name.value) for one in found if isinstance(one, cst.FunctionDef | cst.ClassDef)]


def _comes_of_the_library(module: cst.Module, name: str) -> bool:
    """Whether all that gives a name a meaning are imports of it from Triton."""
    lines = [cst.ensure_type(one, cst.ImportFrom) for one in findall(module, m.ImportFrom())]
    mine = [one for one in lines if one.module is not None and source.code(one.module).split(".")[0] == LIBRARY]
    times = sum(len(findall(line, m.ImportAlias(name=m.Name(name), asname=None))) for line in mine)
    return bool(times) and bound_in(module)[name] == times and name not in _functions(module)


def _helper(module: cst.Module, name: str) -> cst.FunctionDef | None:
    """The one function of the file with this name, if nothing else has it."""
    helpers = [one for one in source.functions(module) if one.name.value == name]
    alone = len(helpers) == 1 == _functions(module).count(name) and not bound_in(module)[name]
    return helpers[0] if alone and kernels.is_kernel(helpers[0]) else None


def reckons(call: cst.Call, module: cst.Module, function: cst.FunctionDef, seen: frozenset[str] = frozenset()) -> bool:
    """Of a call in a function of the module. Where a kernel itself loads and stores is for others to judge; a helper,
    which has been `seen`, does neither."""
    name, func = kernels.called_name(call), call.func
    mine = {*source.parameters(function), *bound_in(function.body)}
    if isinstance(func, cst.Attribute):
        owner = root(func)
        if m.matches(owner, m.Name(LANGUAGE)):
            return name in RECKONS or (name in TOUCHES and not seen)
        return name in addresses.CASTS and (not isinstance(owner, cst.Name) or owner.value in mine)
    if not isinstance(func, cst.Name) or name in mine:
        return False
    if name == "float" or (name in RECKONS and _comes_of_the_library(module, name)):
        return True
    helper = _helper(module, name) if name not in seen else None
    return helper is not None and all(reckons(one, module, helper, seen | {name}) for one in kernels.calls(helper.body))
