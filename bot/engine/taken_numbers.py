"""Reads who is given the numbers that a kernel which tunes itself has chosen, `_kernel.best_config`.

A kernel that takes them has no list of its own: what does not fit a GPU is left out for nobody, but is an error. The
tuned kernel was there before it, so what takes no more shared memory fits as well."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst
import libcst.matchers as m

from bot.engine import imports, kernels, reckoning, source, tuned_lists
from bot.engine.descriptors import Shape, without_ones
from bot.engine.finding import findall
from bot.engine.source import LaunchSite, NotUnderstood

STAGES = m.Attribute(attr=m.Name(source.STAGES))
"""Of a configuration: how many steps it has under way."""
KWARGS = m.Subscript(m.Attribute(attr=m.Name("kwargs")), [m.SubscriptElement(m.Index(m.SimpleString()))])
OPERANDS = frozenset(("load", "dot", "reshape", "trans"))
"""What a turn may call beside what reckons."""


def reads(tree: cst.CSTNode, name: str) -> int:
    """How often somebody asks there what a kernel has chosen."""
    return len(findall(tree, m.Attribute(value=m.Name(name), attr=m.Name("best_config"))))


def readers(module: cst.Module, kernel: str) -> frozenset[str]:
    """The functions that ask what a kernel has chosen, and may hand it on. Raises NotUnderstood where the file does
    more with the kernel than to launch it and to ask that."""
    launches = [one for one in findall(module, source.ANY_LAUNCH) if source.launched(one) == kernel]
    known = 1 + len(launches) + reads(module, kernel)
    if {imports.mentions(module, kernel), len(findall(module, m.Name(kernel)))} != {known}:
        raise NotUnderstood(f"somebody may read the list of {kernel}")
    return frozenset(str(one.name.value) for one in source.functions(module) if reads(one, kernel))


def _takers(module: cst.Module) -> set[str]:
    """Names of what is launched with somebody's number of steps, and of kernels of products that are launched elsewhere
    alone. Raises NotUnderstood where that number serves for something else."""
    given = m.Arg(keyword=m.Name(source.STAGES), value=STAGES)
    launches = [cst.ensure_type(one, cst.Call) for one in findall(module, source.ANY_LAUNCH)]
    mine = [call for call in launches if any(m.matches(arg, given) for arg in call.args)]
    asked = len(findall(module, STAGES)) + len(findall(module, m.Attribute(attr=m.Name("all_kwargs"))))
    if asked != len(mine) or imports.mentions(module, source.STAGES):
        raise NotUnderstood("how many steps are under way is read for something else")
    known = set(map(source.launched, launches))
    makes = [str(one.name.value) for one in kernels.kernels(module) if kernels.calls(one, "dot")]
    return {*map(source.launched, mine), *(name for name in makes if name not in known)}


def _is_taken(site: LaunchSite, kernel: cst.FunctionDef, name: str) -> bool:
    """Whether a launch gives a constant what was chosen for the constant of that name."""
    given = kernels.told(site.call, kernel, name)
    if isinstance(given, cst.Name) and (at := source.last_binding(site, given.value)) is not None:
        given = source.value(source.statements(site.function)[at])
    if not m.matches(given or cst.Ellipsis(), KWARGS):
        return False
    return bool(cst.ensure_type(findall(given, m.SimpleString())[0], cst.SimpleString).evaluated_value == name)


def _loads(module: cst.Module, kernel: cst.FunctionDef, step: str) -> int:
    """How many loads a turn has, at most. Raises NotUnderstood where it has something else to hold."""
    loop, _, by = tuned_lists.loop_of(kernel)
    helpers = [one for one in kernels.calls(kernel.body) if isinstance(one.func, cst.Name) and one is not loop.iter]
    others = [one for one in kernels.calls(loop.body) if kernels.called_name(one) not in OPERANDS]
    if by != step or not all(reckoning.reckons(one, module, kernel) for one in (*helpers, *others)):
        raise NotUnderstood("who takes its numbers goes by other steps, or does more in a turn")
    return len(kernels.calls(loop.body, "load"))


def _operands(loop: cst.For, step: str, shapes: Mapping[str, Shape]) -> int:
    """How many different blocks each turn loads, of one step and one side."""
    lines = [one for one in loop.body.body if isinstance(one, cst.SimpleStatementLine)]
    found = [call for line in lines for call in kernels.calls(line, "load") if isinstance(call.func, cst.Attribute)]
    shaped = [one for one in found if step in without_ones(shapes.get(source.code(one.func.value), ()))]
    return len({source.code(one) for one in shaped})


def refuse_heavier(module: cst.Module, kernel: cst.FunctionDef, shapes: Mapping[str, Shape]) -> None:
    """Raises NotUnderstood where others take what a kernel has chosen, and one may have no room for as many steps."""
    if not reads(module, str(kernel.name.value)):
        return
    loop, _, step = tuned_lists.loop_of(kernel)
    sides = {side for shape in shapes.values() for side in without_ones(shape)}
    for name in sorted(_takers(module)):
        taker = source.kernel_named(module, name)
        if len(findall(module, m.FunctionDef(name=m.Name(name)))) != 1 or taker is None or not kernels.is_kernel(taker):
            raise NotUnderstood(f"nobody can tell what {name} loads, which takes its numbers")
        mine = sides & kernels.constants(taker)
        if not all(_is_taken(site, taker, one) for site in source.sites(module, name) for one in mine):
            raise NotUnderstood(f"{name} may be given larger numbers")
        if _loads(module, taker, step) > _operands(loop, step, shapes):
            raise NotUnderstood(f"{name} takes its numbers, and may have no room for them")
