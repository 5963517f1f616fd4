"""Reads what a Triton kernel is made of: how it finds its place, what it loads, and what it does with it."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst
import libcst.matchers as m

from bot.engine import commas, source
from bot.engine.bindings import times_bound
from bot.engine.finding import findall, nodes
from bot.engine.source import NotUnderstood

NEW_AXIS = m.SubscriptElement(slice=m.Index(value=m.Name("None")))
"""As in `rows[:, None]`."""
DOCSTRING = m.SimpleStatementLine([m.Expr(m.SimpleString())])
MULTIPLE = 16
"""Triton is told of a number whether it is a multiple of this, and of nothing less."""
PROGRAMS = {f"tl.program_id({axis})": axis for axis in range(3)}
"""Which axis of the grid is asked for."""
LANGUAGE = ("tl", "triton.language")
MINUS_INFINITY = ('float("-inf")', '-float("inf")')
TANH, LOG = "_tanh_by_exp2", "_quick_log"
"""What the rewrites of these names bring along."""

ELEMENTWISE = frozenset(
    (
        *("load", "store", "arange", "program_id", "zeros", "full", "where", "to", "cast", "cdiv", "broadcast_to"),
        *(
            "abs",
            "exp",
            "exp2",
            "log",
            "log2",
            "log1p",
            "sqrt",
            "sqrt_rn",
            "rsqrt",
            "sigmoid",
            "sin",
            "cos",
            "tanh",
            "erf",
        ),
        *("fma", "floor", "ceil", "maximum", "minimum", "clamp", "div_rn", "fdiv", "pow"),
        *("constexpr", "static_assert", "multiple_of", "max_contiguous"),
        *(TANH, LOG),
    )
)
"""Names a kernel may call when each of its elements is to depend on no other."""


def called_name(call: cst.Call) -> str:
    """The last word of what is called: `exp` of tl.exp, `to` of x.to."""
    func = call.func
    if isinstance(func, cst.Attribute):
        return str(func.attr.value)
    return str(func.value) if isinstance(func, cst.Name) else ""


def calls(node: cst.CSTNode, name: str = "") -> list[cst.Call]:
    found = [one for one in nodes(node, with_air=False) if isinstance(one, cst.Call)]
    return [call for call in found if not name or called_name(call) == name]


def loops(node: cst.CSTNode) -> list[cst.For]:
    """All of them, the node itself too."""
    return [one for one in nodes(node) if isinstance(one, cst.For)]


def is_constant(parameter: cst.Param) -> bool:
    said = parameter.annotation
    return said is not None and "constexpr" in source.code(said.annotation)


def constants(kernel: cst.FunctionDef) -> frozenset[str]:
    """Parameters that it is compiled for."""
    return frozenset(str(one.name.value) for one in source.declared(kernel) if is_constant(one))


def arange_of(block: str) -> m.Call:
    """`tl.arange(0, block)`, as a matcher."""
    return m.Call(func=m.Attribute(m.Name("tl"), m.Name("arange")), args=[m.Arg(m.Integer("0")), m.Arg(m.Name(block))])


def is_kernel(function: cst.FunctionDef) -> bool:
    """Decorated with triton.jit, and with nothing that changes how it is launched."""
    names = [source.code(decorator.decorator) for decorator in function.decorators]
    return names in (["triton.jit"], ["jit"])


def is_tuned(function: cst.FunctionDef) -> bool:
    """Decorated with triton.autotune above triton.jit: of a list of launch numbers it takes the best that fit."""
    found = [decorator.decorator for decorator in function.decorators]
    if len(found) != 2 or not isinstance(found[0], cst.Call):
        return False
    return source.code(found[0].func) == "triton.autotune" and source.code(found[1]) == "triton.jit"


def tuned(text: str) -> frozenset[str]:
    """Names of the kernels of a source that tune themselves; none where it cannot be read."""
    try:
        found = source.functions(source.parse(text))
    except NotUnderstood:
        return frozenset()
    return frozenset(str(function.name.value) for function in found if is_tuned(function))


def kernels(module: cst.Module) -> tuple[cst.FunctionDef, ...]:
    return tuple(function for function in source.functions(module) if is_kernel(function))


def helpers_are_elementwise(function: cst.FunctionDef, module: cst.Module, seen: frozenset[str] = frozenset()) -> bool:
    """Whether everything it calls works on each element alone, also in the jitted functions of the module."""
    for call in calls(function):
        name = called_name(call)
        if name in ELEMENTWISE:
            continue
        helper = source.kernel_named(module, name) if isinstance(call.func, cst.Name) else None
        if helper is None or not is_kernel(helper) or name in seen:
            return False
        if not helpers_are_elementwise(helper, module, seen | {function.name.value}):
            return False
    return True


def has_loop(function: cst.FunctionDef) -> bool:
    return bool(findall(function, m.For() | m.While()))


def integer(node: cst.BaseExpression | None) -> int | None:
    if isinstance(node, cst.Integer):
        return int(node.value, 0)
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        inner = integer(node.expression)
        return None if inner is None else -inner
    return None


def number(node: cst.BaseExpression | None, known: Mapping[str, int] | None = None) -> int | None:
    """What an expression of whole numbers and of names that are `known` comes to."""
    match node:
        case cst.Name():
            return (known or {}).get(node.value)
        case cst.BinaryOperation():
            left, right = number(node.left, known), number(node.right, known)
            return None if left is None or right is None else worked_out(node.operator, left, right)
        case cst.Call(func=cst.Name(value="min" | "max" as name)):
            told = [number(arg.value, known) for arg in node.args if arg.keyword is None and not arg.star]
            numbers = [one for one in told if one is not None]
            if not numbers or len(numbers) != len(node.args):
                return None
            return min(numbers) if name == "min" else max(numbers)
    return integer(node)


def worked_out(operator: cst.BaseBinaryOp, left: int, right: int) -> int | None:
    """Of whole numbers; None where it is another operation."""
    match operator:
        case cst.Add():
            return left + right
        case cst.Subtract():
            return left - right
        case cst.Multiply():
            return left * right
        case cst.FloorDivide() if right:
            return left // right
    return None


def is_handed(kernel: cst.FunctionDef, name: str) -> bool:
    """Whether a name is a parameter that is given no other value."""
    return name in source.parameters(kernel) and not times_bound(kernel, name)


def argument(call: cst.Call, position: int, name: str) -> cst.BaseExpression | None:
    """Behind `*sizes` nobody knows which place is which."""
    starred = False
    for index, arg in enumerate(call.args):
        starred = starred or arg.star == "*"
        if arg.keyword is None and index == position and not starred:
            return arg.value
        if arg.keyword is not None and arg.keyword.value == name:
            return arg.value
    return None


def told(call: cst.Call, function: cst.FunctionDef, parameter: str) -> cst.BaseExpression | None:
    """What a call of a function, or a launch of a kernel, is given for one of its parameters."""
    return argument(call, source.parameters(function).index(parameter), parameter)


def program_axes(function: cst.FunctionDef) -> list[int | None]:
    """The axes that the kernel asks its place on; None for one that is not a number."""
    return [integer(argument(call, 0, "axis")) for call in calls(function, "program_id")]


def with_constant(kernel: cst.FunctionDef, name: str) -> cst.FunctionDef:
    """A new constant as the last one, with a default of 1: whoever else launches the kernel need not know of it."""
    parameters = list(kernel.params.params)
    old = parameters[-1]
    if len(parameters) < 2 or findall(old, m.Comment()):
        raise NotUnderstood("a comment would come to stand behind the new parameter")
    said = next((one.annotation for one in reversed(parameters) if is_constant(one)), None)
    if said is None or findall(said, m.Comment()):
        raise NotUnderstood("the kernel does not say how it writes a constant")
    # black breaks behind the last of several in one line, and there it has to stay
    tight = parameters[-2].whitespace_after_param
    parameters[-1] = old.with_changes(comma=commas.plain(parameters[-2].comma), whitespace_after_param=tight)
    parameters.append(
        old.with_changes(
            name=cst.Name(name), annotation=said, equal=cst.AssignEqual(), default=cst.Integer("1"), comma=old.comma
        )
    )
    return kernel.with_changes(params=kernel.params.with_changes(params=parameters))
