"""Let warps meet once for sums that do not need each other.

    c1 = tl.sum(x_hat * wdy, axis=0) / n_cols
    c2 = tl.sum(wdy, axis=0) / n_cols

For each sum over a row every warp writes its part to shared memory, waits for all others, and reads. The backward of
poly_norm does so four times a row, one behind the other, its forward three times, and that of layer_norm twice.
`tl.reduce` takes several blocks at once and adds each up as `tl.sum` does, in the same order: warps meet once, and the
sums wait together. All that the sums are of is held at the same time, which may ask for more registers.

Looked for among the lines of one block, of sums over the same axis in assignments. They are taken where the first of
them stands, so whatever the others are made of has to be there by then. What is loaded only for a sum stays behind the
stores before it: such sums are left alone, and so are sums that are asked for another type, those in a condition, and
running sums in the type of their rows, which the next idea may have to take in float32 (`sum_in_float32`). `tl.sum`
counts what is true in int32, and `tl.reduce` does not: truths and short integers stay with it as well. All have to be
over blocks of the same shape, or it no longer compiles: of one size where a kernel has no other, and else as the
constants of the kernel say it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import add_each, columns, kernels, own_types, source, tiles
from bot.engine.bindings import bound_in
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood
from bot.engine.transforms import own_kernel
from bot.engine.transforms.rewrite import Rewrite, each_kernel, refuse_long_lines

WHY = "Warps meet once for all of these sums."
REAL = {"exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sigmoid", "sin", "cos", "tanh", "erf", "float"}
QUOTIENT = m.BinaryOperation(operator=m.Divide())
RESHAPES = {"expand_dims", "reshape", "view", "broadcast_to", "join", "trans", "permute", "dot"}
NAMES = ("first_sum", "second_sum", "third_sum", "fourth_sum")
AXIS = m.Arg(keyword=None, star="") | m.Arg(keyword=m.Name("axis"))
PLAIN = kernels.ELEMENTWISE - {"load", "store"}
"""What a sum may be of, wherever it is taken: it neither reads memory nor writes there."""
TRUTH = (
    m.Comparison()
    | m.BinaryOperation(operator=m.BitAnd() | m.BitOr() | m.BitXor())
    | m.UnaryOperation(operator=m.BitInvert() | m.Not())
)
SHORT = m.Attribute(attr=m.OneOf(*(m.Name(one) for one in ("int1", "int8", "int16", "uint8", "uint16"))))
CONDITION = m.IfExp() | m.BooleanOperation() | m.Lambda() | m.NamedExpr()


@dataclass(frozen=True, slots=True)
class Sum:
    at: int
    """Which line of the block."""
    call: cst.Call
    axis: str

    @property
    def of(self) -> cst.BaseExpression:
        return self.call.args[0].value


def _axis(kernel: cst.FunctionDef, call: cst.Call) -> str:
    """What it adds up over, in the kernel's words; of a single axis that nobody names, the first."""
    if not call.args or call.args[0].star or call.args[0].keyword is not None:
        return ""
    if len(call.args) == 1:
        return "" if _has_other_shapes(kernel) else "0"
    return source.code(call.args[1].value) if len(call.args) == 2 and m.matches(call.args[1], AXIS) else ""


def _is_true(value: cst.BaseExpression, known: set[str]) -> bool:
    """Whether it is true or false of each element, for all that is known."""
    return m.matches(value, TRUTH) or (isinstance(value, cst.Name) and value.value in known)


def _is_real(value: cst.CSTNode, known: set[str]) -> bool:
    """Whether it is of floating-point numbers for certain: `tl.sum` counts what is short or true in int32."""
    if isinstance(value, cst.Name):
        return value.value in known
    if isinstance(value, cst.BinaryOperation) and not m.matches(value, TRUTH):
        return m.matches(value, QUOTIENT) or _is_real(value.left, known) or _is_real(value.right, known)
    if isinstance(value, cst.UnaryOperation) and not m.matches(value, TRUTH):
        return _is_real(value.expression, known)
    if isinstance(value, cst.Subscript):
        return _is_real(value.value, known)
    return isinstance(value, cst.Float) or (isinstance(value, cst.Call) and _makes_real(value, known))


def _makes_real(call: cst.Call, known: set[str]) -> bool:
    name, args = kernels.called_name(call), [arg.value for arg in call.args]
    if name in ("to", "cast"):
        return bool(args) and source.code(args[-1]) in ("tl.float32", "tl.float16", "tl.bfloat16")
    if name == "load":
        other = kernels.argument(call, 2, "other")
        return other is not None and _is_real(other, known)
    if name == "where":
        return len(args) == 3 and any(_is_real(one, known) for one in args[1:])
    if name in ("abs", "maximum", "minimum"):
        return any(_is_real(one, known) for one in args)
    return name in REAL


def _sum_of(kernel: cst.FunctionDef, rows: set[str], at: int, line: cst.BaseStatement) -> Sum | None:
    """The one sum of a row that a line takes."""
    assigns = m.Assign(targets=[m.AssignTarget(m.Name())]) | m.AugAssign(target=m.Name())
    if not m.matches(line, m.SimpleStatementLine(body=[assigns])) or findall(line, CONDITION):
        return None
    found = [call for call in kernels.calls(line, "sum") if source.code(call.func) == "tl.sum"]
    if len(found) != 1 or findall(found[0], m.Comment()) or not (axis := _axis(kernel, found[0])):
        return None
    one = Sum(at, found[0], axis)
    if not _is_real(one.of, columns.spread(kernel, _is_real)):
        return None
    if any(kernels.called_name(call) not in PLAIN for call in kernels.calls(one.of)):
        return None
    counts = _is_true(one.of, columns.spread(kernel, _is_true))
    return one if not counts and columns.holds(one.of, columns.is_arange, rows) else None


def _is_there(lines: Sequence[cst.BaseStatement], first: Sum, one: Sum) -> bool:
    """Whether what a sum is of is the same where the first stands."""
    between = lines[first.at : one.at]
    bound = {name for line in between for name in bound_in(line)}
    if any(findall(line, m.Return() | m.Break() | m.Continue()) for line in between):
        return False
    return not any(source.loads(one.of, name) for name in bound)


def _has_other_shapes(kernel: cst.FunctionDef) -> bool:
    """Whether a block of it may have another shape than the next."""
    return bool(findall(kernel, kernels.NEW_AXIS)) or any(kernels.calls(kernel, one) for one in RESHAPES)


def _together(
    kernel: cst.FunctionDef, lines: Sequence[cst.BaseStatement], shapes: Mapping[cst.Call, tiles.Shape] | None
) -> Iterator[list[Sum]]:
    """Sums of a block that can be taken where the first of them stands, as many as there are names. `shapes`: what
    they are of, where that may differ."""

    def alike(first: Sum, one: Sum) -> bool:
        return shapes is None or (first.call in shapes and shapes[first.call] == shapes.get(one.call))

    rows = columns.of_rows(kernel)
    found = [one for at, line in enumerate(lines) if (one := _sum_of(kernel, rows, at, line)) is not None]
    while found:
        first, *others = found
        same = (one for one in others if one.axis == first.axis and alike(first, one))
        group = [first, *(one for one in same if _is_there(lines, first, one))][: len(NAMES)]
        if len(group) > 1:
            yield group
        found = [one for one in others if one.at > group[-1].at]


def _taken(group: Sequence[Sum], names: str) -> cst.SimpleStatementLine:
    blocks = ", ".join(source.code(one.of) for one in group)
    given = f"({blocks}), {group[0].axis}, {add_each.name(len(group))}"
    line = f"{names} = tl.reduce({given})"
    if len(line) > source.IN_A_BODY:
        line = f"{names} = tl.reduce(\n    {given}\n)"
    return source.assignment(line, WHY)


def _changed(
    lines: Sequence[cst.BaseStatement], group: Sequence[Sum], number: int
) -> dict[int, list[cst.BaseStatement]]:
    """Lines by their place: each reads its sum, and all of them are taken above the first. Every group of a kernel has
    names of its own: one may stand between another and who reads that."""
    new: dict[int, list[cst.BaseStatement]] = {}
    names = [name if number == 1 else f"{name}_{number}" for name in NAMES[: len(group)]]
    for name, one in zip(names, group, strict=True):
        line = cst.ensure_type(source.exchanged(lines[one.at], {one.call: cst.Name(name)}), cst.SimpleStatementLine)
        new[one.at] = [line]
    first = cst.ensure_type(new[group[0].at][0], cst.SimpleStatementLine)
    taken = _taken(group, ", ".join(names))
    taken = taken.with_changes(leading_lines=(*first.leading_lines, *taken.leading_lines))
    new[group[0].at] = [taken, first.with_changes(leading_lines=())]
    return new


def _adds_in_its_own_type(module: cst.Module, kernel: cst.FunctionDef) -> bool:
    try:
        return bool(own_types.added_in_their_own_type(module, kernel))
    except NotUnderstood:
        return False  # nobody will take it in float32


def _change(module: cst.Module, name: str) -> cst.Module:
    kernel = source.kernel_named(module, name)
    assert kernel is not None
    if any(name.value.startswith(NAMES) for name in findall(kernel, m.Name()) if isinstance(name, cst.Name)):
        raise NotUnderstood("a name is taken")
    if findall(kernel, SHORT):
        raise NotUnderstood("a sum may be of short integers")
    ends = {source.code(call.args[-1].value) for call in kernels.calls(kernel, "arange") if call.args}
    if len(ends) > 1 and not findall(kernel, kernels.NEW_AXIS):
        raise NotUnderstood("blocks may be of different sizes")
    if _adds_in_its_own_type(module, kernel):
        raise NotUnderstood("a running sum is in the type of its rows")
    blocks = [cst.ensure_type(one, cst.IndentedBlock).body for one in findall(kernel, m.IndentedBlock())]
    shapes = tiles.summed(module, kernel) if _has_other_shapes(kernel) else None
    groups = [(lines, group) for lines in blocks for group in _together(kernel, lines, shapes)]
    if not groups:
        raise NotUnderstood("no two sums of a row can be taken together")
    changes: list[tuple[cst.CSTNode, Sequence[cst.BaseStatement]]] = []
    for number, (lines, group) in enumerate(groups, start=1):
        changes += [(lines[at], new) for at, new in _changed(lines, group, number).items()]
    counts = {len(group) for _, group in groups}
    changed = source.spliced(module, changes)
    after = source.kernel_named(changed, name)
    assert after is not None
    refuse_long_lines(kernel, after)
    return add_each.defined_above(changed, name, counts)


def rewrite(text: str, only: str = "") -> Rewrite | None:
    """Every kernel of the file that takes several sums of a row, or one of them."""
    if "tl.sum(" not in text or not set(own_kernel.IMPORTS[1:]) <= set(text.splitlines()):
        return None
    return each_kernel(
        text,
        _change,
        title="Warps meet once for several sums",
        why="All warps of a program meet for each sum over a row. Sums that do not need each other can be taken "
        "at once.",
        only=only,
    )


def applies(text: str) -> bool:
    return rewrite(text) is not None
