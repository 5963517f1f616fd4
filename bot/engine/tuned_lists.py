"""Reads the list of launch numbers of a kernel that tunes itself: where it is written, and by which steps its products
go."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from bot.engine import kernels, source
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood

RANGE = m.Call(func=m.Name("range") | m.Attribute(m.Name("tl"), m.Name("range")))
CONFIG = m.Call(func=m.Attribute(m.Name("triton"), m.Name("Config")))
OF_ONE = m.List(elements=[m.Element(value=CONFIG)])


def offered(kernel: cst.FunctionDef) -> cst.BaseExpression:
    """What its decorator is given for a list, which nobody prunes."""
    decorator = cst.ensure_type(kernel.decorators[0].decorator, cst.Call)
    configs = kernels.argument(decorator, 0, "configs")
    words = [arg.keyword.value for arg in decorator.args if arg.keyword is not None]
    if configs is None or "prune_configs_by" in words or any(arg.star for arg in decorator.args):
        raise NotUnderstood("it is given no list, or somebody prunes it")
    return configs


def written(module: cst.Module, kernel: cst.FunctionDef) -> list[cst.BaseExpression]:
    """The lists themselves: those that a function of the module returns, where it makes them for such kernels alone."""
    configs = offered(kernel)
    if not m.matches(configs, m.Call(func=m.Name(), args=[])):
        return [configs]
    name = source.code(cst.ensure_type(configs, cst.Call).func)
    function = source.kernel_named(module, name)
    same = [one for one in source.functions(module) if kernels.is_tuned(one)]
    takers = sum(source.code(offered(one)) == source.code(configs) for one in same)
    if function is None or function.params.params or function.decorators:
        raise NotUnderstood(f"nobody can tell what {name} makes")
    if len(findall(module, m.Name(name))) != 1 + takers:
        raise NotUnderstood(f"{name} makes lists for others too")
    found = [cst.ensure_type(one, cst.Return).value for one in findall(function, m.Return())]
    return [one for one in found if one is not None]


def loop_of(kernel: cst.FunctionDef) -> tuple[cst.For, str, str]:
    """The one loop of a kernel, over products, with its end and the constant that it goes by: from 0, and no more."""
    loops = [cst.ensure_type(one, cst.For) for one in findall(kernel, m.For())]
    if len(loops) != 1 or findall(kernel, m.While()) or not m.matches(loops[0].iter, RANGE):
        raise NotUnderstood("it has no loop, or another one besides")
    said = list(cst.ensure_type(loops[0].iter, cst.Call).args)
    if len(said) != 3 or any(arg.keyword is not None or arg.star for arg in said):
        raise NotUnderstood("the loop says more, or goes one by one")
    start, end, step = (arg.value for arg in said)
    if not m.matches(start, m.Integer("0")) or not kernels.calls(loops[0].body, "dot"):
        raise NotUnderstood("it multiplies nothing there, or does not go from the beginning")
    if not isinstance(step, cst.Name) or step.value not in kernels.constants(kernel):
        raise NotUnderstood("its step is no constant")
    return loops[0], source.code(end), str(step.value)


def entry(constants: cst.BaseExpression | None, name: str) -> cst.BaseExpression:
    """What a configuration gives a constant."""
    if not isinstance(constants, cst.Dict):
        raise NotUnderstood("nobody can tell which constants it gives")
    entries = [one for one in constants.elements if isinstance(one, cst.DictElement)]
    mine = [one.value for one in entries if m.matches(one.key, m.SimpleString()) and _text(one.key) == name]
    if len(entries) != len(constants.elements) or len(mine) != 1:
        raise NotUnderstood(f"nobody can tell what {name} is given")
    return mine[0]


def _text(node: cst.BaseExpression) -> str:
    return str(cst.ensure_type(node, cst.SimpleString).evaluated_value)
