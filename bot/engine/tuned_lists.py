"""Reads the list of launch numbers of a kernel that tunes itself: where it is written, and by which steps its products
go."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
import libcst.matchers as m

from bot.engine import kernels, source
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood

SHORTEST_STEP = 16
"""What a product asks for."""
RANGE = m.Call(func=m.Name("range") | m.Attribute(m.Name("tl"), m.Name("range")))
CONFIG = m.Call(func=m.Attribute(m.Name("triton"), m.Name("Config")))
OF_ONE = m.List(elements=[m.Element(value=CONFIG)])
HARMLESS = frozenset(("configs", "key", "reset_to_zero", "restore_value", "warmup", "rep", "use_cuda_graph"))
"""What a decorator may say beside its list without taking something out of it."""


def offered(kernel: cst.FunctionDef) -> cst.BaseExpression:
    """What its decorator is given for a list, which nobody prunes."""
    decorator = cst.ensure_type(kernel.decorators[0].decorator, cst.Call)
    configs = kernels.argument(decorator, 0, "configs")
    words = [arg.keyword.value for arg in decorator.args if arg.keyword is not None]
    if len(decorator.args) - len(words) > 2 or any(arg.star for arg in decorator.args):
        raise NotUnderstood("nobody can tell what else it is given")
    if configs is None or not HARMLESS.issuperset(words):
        raise NotUnderstood("it is given no list, or somebody prunes it")
    return configs


def takers(module: cst.Module, configs: str) -> list[cst.FunctionDef]:
    """The kernels that are given the same list."""
    tuned = [kernel for kernel in source.functions(module) if kernels.is_tuned(kernel)]
    return [kernel for kernel in tuned if source.code(offered(kernel)) == configs]


def written(module: cst.Module, kernel: cst.FunctionDef) -> list[cst.BaseExpression]:
    """The lists themselves: those that a private function of the module returns, where it makes them for such kernels
    alone."""
    configs = offered(kernel)
    if not m.matches(configs, m.Call(func=m.Name(), args=[])):
        return [configs]
    name = source.code(cst.ensure_type(configs, cst.Call).func)
    function = source.kernel_named(module, name)
    if function is None or function.params.params or function.decorators or not name.startswith("_"):
        raise NotUnderstood(f"nobody can tell what {name} makes, or for whom")
    if len(findall(module, m.Name(name))) != 1 + len(takers(module, source.code(configs))):
        raise NotUnderstood(f"{name} makes lists for others too")
    found = [cst.ensure_type(one, cst.Return).value for one in findall(function, m.Return())]
    return [one for one in found if one is not None]


def loop_of(kernel: cst.FunctionDef) -> tuple[cst.For, cst.BaseExpression, str]:
    """The one loop of a kernel, over products, with its end and the constant that it goes by: from 0, and no more."""
    loops = [cst.ensure_type(one, cst.For) for one in findall(kernel.body, m.For())]
    if len(loops) != 1 or not m.matches(loops[0].iter, RANGE) or not isinstance(loops[0].target, cst.Name):
        raise NotUnderstood("it has no loop, or another one besides")
    said = list(cst.ensure_type(loops[0].iter, cst.Call).args)
    if len(said) != 3 or any(arg.keyword is not None or arg.star for arg in said):
        raise NotUnderstood("the loop says more, or goes one by one")
    start, end, step = (arg.value for arg in said)
    if not m.matches(start, m.Integer("0")) or not kernels.calls(loops[0].body, "dot"):
        raise NotUnderstood("it multiplies nothing there, or does not go from the beginning")
    if not isinstance(step, cst.Name) or step.value not in kernels.constants(kernel):
        raise NotUnderstood("its step is no constant")
    return loops[0], end, str(step.value)


def entry(constants: cst.BaseExpression | None, name: str) -> cst.BaseExpression:
    """What a configuration gives a constant."""
    mine = [value for key, value in entries(constants) if key == name]
    if len(mine) != 1:
        raise NotUnderstood(f"nobody can tell what {name} is given")
    return mine[0]


def entries(constants: cst.BaseExpression | None) -> list[tuple[str, cst.BaseExpression]]:
    if not isinstance(constants, cst.Dict):
        raise NotUnderstood("nobody can tell which constants it gives")
    plain = [one for one in constants.elements if isinstance(one, cst.DictElement)]
    found = [(one.key.evaluated_value, one.value) for one in plain if isinstance(one.key, cst.SimpleString)]
    if len(found) != len(constants.elements):
        raise NotUnderstood("nobody can tell which constants it gives")
    return [(str(key), value) for key, value in found]


def clauses(whole: cst.ListComp) -> Iterator[cst.CompFor]:
    clause: cst.CompFor | None = whole.for_in
    while clause is not None:
        yield clause
        clause = clause.inner_for_in


def comprehended(whole: cst.BaseExpression) -> tuple[cst.ListComp, cst.Call]:
    """A list with a configuration for each number of several clauses, and what makes it."""
    if not isinstance(whole, cst.ListComp) or not m.matches(whole.elt, CONFIG):
        raise NotUnderstood("the list is written in another way")
    if any(clause.ifs for clause in clauses(whole)):
        raise NotUnderstood("some are left out")
    return whole, cst.ensure_type(whole.elt, cst.Call)


def numbers(whole: cst.ListComp, given: cst.BaseExpression | None) -> tuple[cst.Integer, ...]:
    """What a constant is given in turn: a number, or those of a clause that serve for nothing else."""
    if isinstance(given, cst.Integer):
        return (given,)
    if not isinstance(given, cst.Name) or len(findall(whole, m.Name(given.value))) != 2:  # where it is bound, and here
        raise NotUnderstood("a constant is no number, or one that serves for something else too")
    mine = [one.iter for one in clauses(whole) if m.matches(one.target, m.Name(given.value))]
    if len(mine) != 1 or not isinstance(mine[0], cst.List | cst.Tuple):
        raise NotUnderstood("nobody can tell which numbers it is given")
    found = tuple(one.value for one in mine[0].elements if isinstance(one.value, cst.Integer))
    if not found or len(found) != len(mine[0].elements):
        raise NotUnderstood("some are no numbers")
    return found
