"""Divide once a row: `x * (1.0 / d)` in place of `x / d` for each element of a row, where d is one number.

A GPU has no division. Of each `x / d` it makes a reciprocal and a product, with two comparisons and two more products
around them for a d so large or so small that its reciprocal is none; what hangs on d alone is done once a thread at
best. On an H200 a sketch of cross_entropy with gradient, which divides each element by a sum and by a number of rows,
took 167 us for 4096 x 32000 in steps of 16,384 columns, and 152 us with products (docs/results/h200/sketches). A kernel
that waits for memory gains nothing.

The product is rounded twice, which is what the approximate division of Triton is allowed as well. The reciprocal of a d
below 2.9e-39 is infinite, and of one above 8.5e37 it may be zero. A sum of exponentials below a maximum, or a count, is
neither; of any other d nothing is argued, and the checks have the word.

A cap, `cap * tanh(x / cap)`, stays a division: cross_entropy caps a row, and the label's own logit by itself, and says
that the largest of the row is no less than that logit. With a product for the row alone it was, by some last bits.

A sum of a row has the row's type, and so has its reciprocal. That of a number that the launch hands over, or of a
count, is float32, and of a row in float64 half the digits would be lost: such a number divides float32 alone. A
constant is a number of Python's own, which divides half precision in float32 and is multiplied with it in half
precision: it stays a divisor, by whatever name.

So does the largest element of a row, and what is made of it other than by a sum or by exponentials, as quantization
divides by: it may be as small as its row, its reciprocal infinite and the row's zeros no numbers; and where a quotient
becomes one of 256 numbers, its last bit decides which.

Where a quotient is compared all stay: what else is divided by the same number may no longer be equal to it, as the
share of an element of the row that nucleus sampling cuts off at.

Refused where something is divided by a row, by an expression other than a sum of one, or by a constant, and where a
kernel speaks of two axes: what is one number there is not sure.
"""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from bot.engine import addresses, columns, kernels, source
from bot.engine.addresses import CASTS
from bot.engine.finding import findall, nodes
from bot.engine.source import NotUnderstood
from bot.engine.transforms.rewrite import Rewrite, each_kernel, in_place

WHY = "Divided once: a product takes each element a fraction of a division."
FLOAT32 = m.Arg(value=m.Attribute(attr=m.Name("float32")))
QUOTIENT = m.BinaryOperation(operator=m.Divide(), right=m.Name() | m.Call())
AROUND = m.For() | m.While() | m.Comparison()
LARGEST, EXPONENTIALS = ("max", "min"), ("exp", "exp2")
SHORTER = m.AugAssign(target=m.Name(), operator=m.DivideAssign(), value=m.Name() | m.Call())


def _is_widened(call: cst.Call) -> bool:
    return kernels.called_name(call) in CASTS and any(m.matches(arg, FLOAT32) for arg in call.args)


def _is_reached(value: cst.BaseExpression, known: set[str]) -> bool:
    """Whether it is made of a row, be it of its sum alone."""
    return columns.holds(value, columns.is_arange, known, through_sums=True)


def _is_of_the_largest(value: cst.BaseExpression, known: set[str]) -> bool:
    """Whether it may be as small as the largest element of a row. A sum, and how far below it something is, are not."""
    if isinstance(value, cst.Call) and kernels.called_name(value) in (*EXPONENTIALS, "sum"):
        return False
    if isinstance(value, cst.Name):
        return value.value in known
    if isinstance(value, cst.Call) and kernels.called_name(value) in LARGEST:
        return True
    return any(_is_of_the_largest(child, known) for child in value.children)


def _is_compared(kernel: cst.FunctionDef, divisions: list[cst.CSTNode]) -> bool:
    """Whether one of the quotients is, or what is made of one."""

    def is_one(node: cst.CSTNode, known: set[str]) -> bool:
        found = {*findall(node, m.BinaryOperation()), *findall(node, m.AugAssign())}
        return any(one in found for one in divisions) or columns.holds(node, lambda _: False, known)

    shorter = {cst.ensure_type(one.target, cst.Name).value for one in divisions if isinstance(one, cst.AugAssign)}
    made = columns.spread(kernel, lambda value, known: is_one(value, known | shorter)) | shorter
    return any(is_one(node, made) for node in _comparisons_behind(kernel, divisions))


def _comparisons_behind(kernel: cst.FunctionDef, divisions: list[cst.CSTNode]) -> list[cst.CSTNode]:
    """Those that a program comes to after one of these or with it, be it in the next turn of a loop."""
    around = [found for found in findall(kernel, AROUND) if any(one in nodes(found) for one in divisions)]
    every = list(nodes(kernel))
    behind = every[min(every.index(one) for one in divisions) :]
    return [one for node in (*around, *behind) for one in findall(node, m.Comparison())]


def _numbers(kernel: cst.FunctionDef) -> frozenset[str]:
    """Constants by whatever name: what the kernel is compiled for, and what it makes once, of nothing else."""
    given, once = kernels.constants(kernel), addresses.names_of(kernel).made.keys()

    def is_number(value: cst.BaseExpression, known: set[str]) -> bool:
        names = {str(cst.ensure_type(name, cst.Name).value) for name in findall(value, m.Name())}
        return not kernels.calls(value) and names <= given | (known & once)

    return given | (columns.spread(kernel, is_number) & once)


def _divisions(kernel: cst.FunctionDef) -> list[cst.CSTNode]:
    """Of elements of a row by one number."""
    rows, places = columns.of_rows(kernel), columns.spread(kernel, columns.is_place)
    if findall(kernel, kernels.NEW_AXIS) or any(kernels.calls(kernel, name) for name in ("reshape", "expand_dims")):
        raise NotUnderstood("it may hold more than one row")

    wide = columns.spread(kernel, lambda value, known: columns.holds(value, _is_widened, known))
    reached = columns.spread(kernel, _is_reached)
    fixed = _numbers(kernel)
    largest = columns.spread(kernel, _is_of_the_largest)

    def of_a_row(value: cst.CSTNode, by: cst.BaseExpression) -> bool:
        is_row = columns.holds(value, columns.is_arange, rows) and not columns.holds(value, columns.is_arange, places)
        is_known = isinstance(by, cst.Name) or kernels.called_name(cst.ensure_type(by, cst.Call)) == "sum"
        is_one = is_known and source.code(by) not in fixed and not columns.holds(by, columns.is_arange, rows)
        is_one = is_one and not _is_of_the_largest(by, largest)
        return is_row and is_one and (_is_reached(by, reached) or columns.holds(value, _is_widened, wide))

    capped = {node for call in kernels.calls(kernel, "tanh") for node in findall(call, QUOTIENT)}
    plain = [cst.ensure_type(node, cst.BinaryOperation) for node in findall(kernel, QUOTIENT) if node not in capped]
    shorter = [cst.ensure_type(node, cst.AugAssign) for node in findall(kernel, SHORTER)]
    return [
        *(node for node in plain if of_a_row(node.left, node.right)),
        *(node for node in shorter if of_a_row(node.target, node.value)),
    ]


def _once(division: cst.CSTNode) -> cst.CSTNode:
    """`x / d` or `x /= d` with a product in its place."""
    if isinstance(division, cst.AugAssign):
        by = source.expression(f"1.0 / {source.code(division.value)}")
        return division.with_changes(operator=cst.MultiplyAssign(), value=by)
    plain = cst.ensure_type(division, cst.BinaryOperation)
    by = source.expression(f"(1.0 / {source.code(plain.right)})")
    return plain.with_changes(operator=cst.Multiply(), right=by)


def _change(module: cst.Module, name: str) -> cst.Module:
    kernel = source.kernel_named(module, name)
    assert kernel is not None
    wanted = _divisions(kernel)
    if not wanted:
        raise NotUnderstood("no element of a row is divided by one number")
    if _is_compared(kernel, wanted):
        raise NotUnderstood("a quotient is compared, perhaps with what is divided by the same number")
    return in_place(module, kernel, wanted, _once, WHY)


def rewrite(text: str) -> Rewrite | None:
    """Every kernel of the file that divides the elements of a row by one number."""
    return each_kernel(
        text,
        _change,
        title="Divide once a row",
        why="A GPU makes of each division a reciprocal, a product, and what guards them. Of one number the reciprocal "
        "is needed once, and each element takes a product.",
        seen="A sketch of cross_entropy with gradient took 152 us in place of 167 on an H200, at 4096 x 32000; a "
        "kernel that waits for memory gains nothing.",
    )


def applies(text: str) -> bool:
    return rewrite(text) is not None
