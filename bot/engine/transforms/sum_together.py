"""Add up the shares of two sums in one launch: `a.sum(dim=0).to(type)` twice is four launches of torch.

The backward of a norm leaves a share of every sum for each program, and torch adds them up: for each tensor one kernel
that sums and another that rounds. On an H200 the four of layer_norm's backward took 11 us of 116 us (8192 x 4096 in
bfloat16), besides what lies between them, and of 79 us at 8192 x 1024. One kernel reads both tensors, adds in float32,
and rounds as it stores.

Looked for where two such sums stand side by side, of tensors in float32 that the function made itself with as many
rows, each used for nothing else. With one tensor missing, or more elements than 32 bits count, torch does what it did.
A single sum is for `sum_at_once`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import libcst as cst
import libcst.matchers as m

from bot.engine import source
from bot.engine.bindings import bound_in, times_bound
from bot.engine.finding import findall
from bot.engine.host_tensors import ALLOCATED
from bot.engine.source import NotUnderstood
from bot.engine.transforms import own_kernel
from bot.engine.transforms.rewrite import Rewrite

NAMES = ("_sum_columns", "_sum_shares_kernel", "_sum_shares")
WHY = "One launch adds up and rounds both."
OVER_ROWS: tuple[list[m.Arg], ...] = (
    [m.Arg(keyword=m.Name("dim"), value=m.Integer("0"))],
    [m.Arg(keyword=None, value=m.Integer("0"))],
    [],
)
"""`dim=0`, `0`, or nothing where there is one axis."""
ROUNDED = m.Call(
    func=m.Attribute(
        value=m.Call(
            func=m.Attribute(value=m.Name(), attr=m.Name("sum")),
            args=m.OneOf(*OVER_ROWS),
        ),
        attr=m.Name("to"),
    ),
    args=[m.Arg(keyword=None, star="")],
)
A_TYPE = (
    m.Attribute(attr=m.Name("dtype"))
    | m.Attribute(value=m.Name("torch"))
    | m.Name(m.MatchIfTrue(lambda name: "type" in name))
)
SEVERAL = m.Call(func=m.Attribute(attr=m.Name("size")), args=[]) | m.Attribute(attr=m.Name("shape"))
A_SHAPE = m.Name(m.MatchIfTrue(lambda name: "shape" in name or "size" in name))
"""One size alone that may be all of them. Where there are two, each is a number."""
HELPER = '''@triton.jit
def _sum_columns(shares_ptr, sum_ptr, n_shares, n_cols, SHARES: tl.constexpr, COLUMNS: tl.constexpr):
    cols = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((SHARES, COLUMNS), dtype=tl.float32)
    for start in range(0, n_shares, SHARES):
        shares = start + tl.arange(0, SHARES)[:, None]
        total += tl.load(shares_ptr + shares * n_cols + cols, mask=(shares < n_shares) & (cols < n_cols), other=0.0)
    tl.store(sum_ptr + cols, tl.sum(total, axis=0), mask=cols < n_cols)


@triton.jit
def _sum_shares_kernel(
    first_ptr,
    first_sum_ptr,
    first_cols,
    second_ptr,
    second_sum_ptr,
    second_cols,
    n_shares,
    SHARES: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    if tl.program_id(1) == 0:
        _sum_columns(first_ptr, first_sum_ptr, n_shares, first_cols, SHARES, COLUMNS)
    else:
        _sum_columns(second_ptr, second_sum_ptr, n_shares, second_cols, SHARES, COLUMNS)


def _sum_shares(first, first_type, second, second_type):
    """Both tensors added up over their first axis, each rounded once."""
    if first is None or second is None or max(first.numel(), second.numel()) >= 2**31:
        both = ((first, first_type), (second, second_type))
        return tuple(None if shares is None else shares.sum(dim=0).to(dtype) for shares, dtype in both)
    n_shares, widest = first.shape[0], max(first.stride(0), second.stride(0))
    first_sum = torch.empty(first.shape[1:], dtype=first_type, device=first.device)
    second_sum = torch.empty(second.shape[1:], dtype=second_type, device=second.device)
    COLUMNS = 32
    _sum_shares_kernel[((widest + COLUMNS - 1) // COLUMNS, 2)](
        first,
        first_sum,
        first.stride(0),
        second,
        second_sum,
        second.stride(0),
        n_shares,
        SHARES=min(1 << (n_shares - 1).bit_length(), 256),
        COLUMNS=COLUMNS,
        num_warps=8,
    )
    return first_sum, second_sum
'''


@dataclass(frozen=True, slots=True)
class Sum:
    """`name = shares.sum(dim=0).to(dtype)`, perhaps under a condition."""

    statement: cst.CSTNode
    name: str
    shares: str
    dtype: str
    condition: str
    said: tuple[cst.EmptyLine, ...]
    """The lines above it, and those inside of its condition."""
    whole: bool
    """`shares.sum()`: of a tensor with one axis."""


def _is_otherwise_none(function: cst.FunctionDef, one: Sum) -> bool:
    """Whether a name that is given its sum under a condition has nothing else to stand for without it."""
    if not isinstance(one.statement, cst.If) or one.name == one.shares:
        return True
    nothing = [
        line
        for line in source.statements(function)
        if source.is_plain(line, one.name) and m.matches(source.value(line), m.Name("None"))
    ]
    return one.name not in source.parameters(function) and times_bound(function, one.name) == 1 + len(nothing)


def _sum(statement: cst.CSTNode) -> Sum | None:
    condition, line = "", statement
    said: tuple[cst.EmptyLine, ...] = ()
    if isinstance(statement, cst.If) and statement.orelse is None and len(statement.body.body) == 1:
        condition, line, said = source.code(statement.test), statement.body.body[0], tuple(statement.leading_lines)
    names = source.targets(line)
    if len(names) != 1 or not source.is_plain(line, names[0]):
        return None
    made = cst.ensure_type(line, cst.SimpleStatementLine)
    value = source.value(made)
    if not condition and isinstance(value, cst.IfExp) and m.matches(value.orelse, m.Name("None")):
        condition, value = source.code(value.test), value.body
    if not isinstance(value, cst.Call) or not m.matches(value, ROUNDED):
        return None
    inner = cst.ensure_type(cst.ensure_type(value.func, cst.Attribute).value, cst.Call)
    shares = source.code(cst.ensure_type(inner.func, cst.Attribute).value)
    dtype = source.code(value.args[0].value)
    if not m.matches(value.args[0].value, A_TYPE):
        return None
    said = (*said, *made.leading_lines)
    if len(findall(statement, m.Comment())) != sum(line.comment is not None for line in said):
        return None  # what is said behind a line would be lost
    return Sum(statement, names[0], shares, dtype, condition, said, whole=not inner.args)


def _rows_of(function: cst.FunctionDef, one: Sum) -> str:
    """How many rows the shares have; raises NotUnderstood unless the function made them, in float32."""
    body = source.statements(function)
    made = [line for line in body if source.is_plain(line, one.shares) and line is not one.statement]
    targets = [t for t in findall(function, m.AssignTarget()) if findall(t, m.Name(one.shares))]
    changed = findall(function, m.AugAssign(target=m.Name(one.shares)))
    own = 1 + (one.name == one.shares)
    if len(made) != 1 or len(targets) != own or changed or body.index(made[0]) > _place(body, one):
        raise NotUnderstood(f"{one.shares} is not made once")
    value = source.value(made[0])
    condition = ""
    if isinstance(value, cst.IfExp) and m.matches(value.orelse, m.Name("None")):
        condition, value = source.code(value.test), value.body
    if condition != one.condition:
        raise NotUnderstood(f"{one.shares} is not there exactly when it is added up")
    return rows_made(value, axes=1 if one.whole else 2)


def rows_made(value: cst.BaseExpression, axes: int) -> str:
    """The rows of a new tensor of so many axes in float32."""
    if not isinstance(value, cst.Call) or not m.matches(value, ALLOCATED):
        raise NotUnderstood("the shares are not made here")
    keywords = {arg.keyword.value: source.code(arg.value) for arg in value.args if arg.keyword is not None}
    if any(arg.star for arg in value.args):
        raise NotUnderstood("a size may be several")
    sizes = [arg.value for arg in value.args if arg.keyword is None]
    if len(sizes) == 1 and isinstance(sizes[0], cst.Tuple):
        if not all(isinstance(element, cst.Element) for element in sizes[0].elements):
            raise NotUnderstood("a size may be several")
        sizes = [element.value for element in sizes[0].elements]
    if keywords.get("dtype") != "torch.float32" or set(keywords) - {"dtype", "device"} or len(sizes) != axes:
        raise NotUnderstood("the shares are not in float32, or of another shape")
    if any(m.matches(size, SEVERAL) or (axes == 1 and m.matches(size, A_SHAPE)) for size in sizes):
        raise NotUnderstood("a size may be several")
    return source.code(sizes[0])


def _is_settled(function: cst.FunctionDef, pair: tuple[Sum, Sum], rows: str) -> bool:
    """Whether the number of rows is the same where either is made."""
    body = source.statements(function)
    first, last = sorted(next(at for at, line in enumerate(body) if source.is_plain(line, one.shares)) for one in pair)
    names = {str(node.value) for node in findall(source.expression(rows), m.Name()) if isinstance(node, cst.Name)}
    return not any(names & set(bound_in(line)) for line in body[first:last])


def _place(body: object, one: Sum) -> int:
    assert isinstance(body, list | tuple)
    return next(at for at, statement in enumerate(body) if statement is one.statement)


def _given(one: Sum) -> str:
    dtype = f"{one.dtype} if {one.condition}" if one.condition else one.dtype
    return f"{one.shares}, {dtype} else None" if one.condition else f"{one.shares}, {dtype}"


def _together(first: Sum, second: Sum) -> cst.SimpleStatementLine:
    given = f"{_given(first)}, {_given(second)}"
    text = f"{first.name}, {second.name} = _sum_shares({given})"
    if len(text) > source.IN_A_BODY:
        text = f"{first.name}, {second.name} = _sum_shares(\n    {given}\n)"
    lines = (*first.said, *(line for line in second.said if line.comment is not None), *source.comment_lines(WHY))
    return source.assignment(text).with_changes(leading_lines=lines)


def _asks_for(one: Sum, name: str) -> bool:
    """Whether its type or its condition is of that name."""
    said = [source.expression(text) for text in (one.dtype, one.condition) if text]
    return any(findall(expression, m.Name(name)) for expression in said)


def _pairs(function: cst.FunctionDef) -> list[tuple[Sum, Sum]]:
    """Neighbours that may be added up together."""
    found = []
    for one, other in pairwise(source.statements(function)):
        first, second = _sum(one), _sum(other)
        if first is None or second is None or second.shares == first.name or first.shares == second.shares:
            continue
        if not all(_is_otherwise_none(function, one) for one in (first, second)) or _asks_for(second, first.name):
            continue
        try:
            rows = _rows_of(function, first)
            if rows == _rows_of(function, second) and _is_settled(function, (first, second), rows):
                found.append((first, second))
        except NotUnderstood:
            continue
    return found


def rewrite(text: str) -> Rewrite | None:
    """The one function of the file with two such sums side by side."""
    if text.count(".sum(") < 2:
        return None
    module = own_kernel.module_with_room(text, NAMES)
    if module is None:
        return None
    found = [(function, pair) for function in source.functions(module) for pair in _pairs(function)]
    if len(found) != 1:
        return None
    ((function, (first, second)),) = found
    if not own_kernel.knows_the_device(function):
        return None
    inside = source.spliced(
        cst.Module(body=[function]), [(first.statement, [_together(first, second)]), (second.statement, [])]
    )
    return Rewrite(
        text=own_kernel.placed_above(module, function, HELPER, inside.body),
        kernels=(),
        title="Add up the shares of two sums in one launch",
        why="torch adds up the shares of all programs in one kernel and rounds the sum in another, for each of two "
        "tensors: four launches of little work each. One kernel adds up and rounds both.",
        seen="On an H200 torch's four kernels took 11 us of layer_norm's backward of 116 us (8192 x 4096 in bfloat16), "
        "besides what lies between them.",
    )


def applies(text: str) -> bool:
    return rewrite(text) is not None
