"""More of a product's operands under way, where a kernel's list of launch numbers offers little.

A kernel of matrix products that tunes itself takes the best of its list, and no more than that. Liger's fused_moe lets
the gradients of its weights choose steps of 16 or 32 tokens, two of them at a time: at most 32 KB of a Hopper SM's 227,
and half of the 128 bytes that a row of shared memory is laid out for. Its best in both kernels is the largest of
everything (128 x 128 x 32, on an H100), which is a list that ends too early.

Steps become twice as long and three are under way. The list stays as long as it was, so that nobody tunes for longer;
what no longer fits a smaller GPU, Triton's own tuning leaves out.

Asks for `[triton.Config({...}, num_stages=2) for step in [16, 32] ...]`, said at the kernel or returned by a function
of the module that nobody else calls. Every kernel that takes the list has to multiply in a loop that goes by such
steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import kernels, source
from bot.engine.finding import findall, nodes
from bot.engine.source import NotUnderstood
from bot.engine.transforms.rewrite import Rewrite, refuse_long_lines

FEW_STAGES, STAGES = 2, 3
LONGEST_STEP = 32
"""Numbers of half precision in 64 bytes."""
CONFIG = m.Call(func=m.Attribute(m.Name("triton"), m.Name("Config")))
RANGE = m.Call(func=m.Name("range") | m.Attribute(m.Name("tl"), m.Name("range")))
TITLE = "Longer steps, and more of them under way"
COMMENT = "Longer steps, and three of them under way: tensor cores wait for less."


@dataclass(frozen=True, slots=True)
class Listed:
    """A list of configurations, one for each step of several clauses."""

    whole: cst.ListComp
    stages: cst.Integer
    steps: tuple[cst.Integer, ...]


def _clauses(whole: cst.ListComp) -> Iterator[cst.CompFor]:
    clause: cst.CompFor | None = whole.for_in
    while clause is not None:
        yield clause
        clause = clause.inner_for_in


def _numbers(clause: cst.CompFor) -> tuple[cst.Integer, ...]:
    """Those that a clause goes through, where they are written down."""
    if not isinstance(clause.iter, cst.List | cst.Tuple) or clause.ifs:
        return ()
    found = tuple(one.value for one in clause.iter.elements if isinstance(one.value, cst.Integer))
    return found if len(found) == len(clause.iter.elements) else ()


def _steps(whole: cst.ListComp, constants: cst.Dict, step: str) -> tuple[cst.Integer, ...]:
    """What the constant of this name is given in turn, and nothing else is."""
    entries = [one for one in constants.elements if isinstance(one, cst.DictElement)]
    given = [one.value for one in entries if m.matches(one.key, m.SimpleString()) and _text(one.key) == step]
    if len(entries) != len(constants.elements) or len(given) != 1 or not isinstance(given[0], cst.Name):
        raise NotUnderstood(f"nobody can tell what {step} is given")
    name = given[0].value
    mine = [one for one in _clauses(whole) if m.matches(one.target, m.Name(name))]
    numbers = _numbers(mine[0]) if len(mine) == 1 else ()
    if not numbers or source.loads(whole.elt, name) != 1:
        raise NotUnderstood(f"{step} is no number of a list, or is more than a step")
    return numbers


def _text(node: cst.BaseExpression) -> str:
    return str(cst.ensure_type(node, cst.SimpleString).evaluated_value)


def _listed(whole: cst.BaseExpression, step: str) -> Listed:
    if not isinstance(whole, cst.ListComp) or not m.matches(whole.elt, CONFIG):
        raise NotUnderstood("the list is written in another way")
    call = cst.ensure_type(whole.elt, cst.Call)
    constants, stages = kernels.argument(call, 0, "kwargs"), kernels.argument(call, 2, "num_stages")
    if not isinstance(stages, cst.Integer) or not isinstance(constants, cst.Dict):
        raise NotUnderstood("how many steps are under way is no number, or several")
    steps = _steps(whole, constants, step)
    if kernels.integer(stages) != FEW_STAGES or max(int(one.value, 0) for one in steps) > LONGEST_STEP:
        raise NotUnderstood("more is under way, or one step at a time on purpose")
    return Listed(whole, stages, steps)


def _step(kernel: cst.FunctionDef) -> str:
    """The constant that its loops over products go by."""
    loops = [cst.ensure_type(one, cst.For) for one in findall(kernel, m.For(iter=RANGE))]
    loops = [loop for loop in loops if kernels.calls(loop.body, "dot")]
    found = {source.code(step) for loop in loops for step in [_by(cst.ensure_type(loop.iter, cst.Call))] if step}
    if len(found) != 1 or not found <= kernels.constants(kernel):
        raise NotUnderstood("it multiplies in no loop, or steps are said in several ways")
    return found.pop()


def _by(call: cst.Call) -> cst.BaseExpression:
    step = kernels.argument(call, 2, "step")
    stages = kernels.argument(call, 3, "num_stages")
    if step is None or stages is not None:
        raise NotUnderstood("a loop goes one by one, or says how many are under way")
    return step


def _offered(kernel: cst.FunctionDef) -> cst.BaseExpression:
    """What its decorator is given for a list."""
    decorator = cst.ensure_type(kernel.decorators[0].decorator, cst.Call)
    configs = kernels.argument(decorator, 0, "configs")
    if configs is None:
        raise NotUnderstood("it is given no list")
    return configs


def _returned(module: cst.Module, configs: cst.BaseExpression, takers: int) -> cst.BaseExpression:
    """The list itself: of a function that makes it for these alone, the one that is no list of one."""
    if not m.matches(configs, m.Call(func=m.Name(), args=[])):
        return configs
    name = source.code(cst.ensure_type(configs, cst.Call).func)
    function = source.kernel_named(module, name)
    if function is None or function.params.params or len(findall(module, m.Name(name))) != 1 + takers:
        raise NotUnderstood(f"{name} makes lists for others too")
    found = [cst.ensure_type(one, cst.Return).value for one in findall(function, m.Return())]
    several = [one for one in found if not m.matches(one, m.List(elements=[m.Element()]))]
    if len(several) != 1 or several[0] is None:
        raise NotUnderstood(f"{name} makes several lists")
    return several[0]


def _lists(module: cst.Module) -> Iterator[tuple[Listed, tuple[str, ...]]]:
    """Each list with the kernels that take it."""
    takers: dict[str, list[cst.FunctionDef]] = {}
    for kernel in source.functions(module):
        if kernels.is_tuned(kernel):
            takers.setdefault(source.code(_offered(kernel)), []).append(kernel)
    for same in takers.values():
        try:
            steps = {_step(kernel) for kernel in same}
            if len(steps) != 1:
                raise NotUnderstood("its kernels go by different constants")
            whole = _returned(module, _offered(same[0]), len(same))
            yield _listed(whole, steps.pop()), tuple(str(kernel.name.value) for kernel in same)
        except NotUnderstood:
            continue


def _longer(module: cst.Module, lists: Sequence[Listed]) -> cst.Module:
    stages = {one.stages: cst.Integer(str(STAGES)) for one in lists}
    steps = {step: cst.Integer(str(2 * int(step.value, 0))) for one in lists for step in one.steps}
    new: dict[cst.CSTNode, cst.CSTNode] = {**stages, **steps}

    class Longer(cst.CSTTransformer):  # type: ignore[misc]  # libcst is not followed
        def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> cst.CSTNode:
            if original_node in new:
                return new[original_node]
            if not isinstance(updated_node, cst.SimpleStatementLine | cst.Decorator):
                return updated_node
            if not any(node is one.whole for node in nodes(original_node) for one in lists):
                return updated_node
            return updated_node.with_changes(leading_lines=source.commented(updated_node.leading_lines, COMMENT))

    changed = cst.ensure_type(module.visit(Longer()), cst.Module)
    refuse_long_lines(module, changed)
    return changed


def _why(lists: Sequence[Listed]) -> str:
    longest = max(int(step.value, 0) for one in lists for step in one.steps)
    return (
        f"The list of launch numbers ends where {FEW_STAGES} steps of {longest} are under way, which tensor cores wait "
        f"for. Steps are twice as long, {STAGES} are under way, and the list is as long as it was."
    )


def rewrite(text: str) -> Rewrite | None:
    """Every such list of the file."""
    if "autotune" not in text or "num_stages" not in text:
        return None
    try:
        module = source.parse(text)
        found = list(_lists(module))
        lists = [listed for listed, _ in found]
        longer = _longer(module, lists)
    except NotUnderstood:
        return None
    if not found:
        return None
    return Rewrite(
        text=str(longer.code),
        kernels=tuple(dict.fromkeys(name for _, names in found for name in names)),
        title=TITLE,
        why=_why(lists),
    )


def applies(text: str) -> bool:
    return rewrite(text) is not None
