"""Twice as many programs in a grid that is sized by the number of multiprocessors.

Such a kernel walks over its rows one after another, and one program on a multiprocessor waits for each of them. A
second one works meanwhile. On an H200 the backward of rms_norm fell from 47.1 us to 34.1 us (4096 x 4096) and from
55.1 us to 32.8 us (8192 x 1024). The price is a second share of every partial sum.

Where the registers of a multiprocessor hold one program and no second, the price is all there is: on an H200 the same
backward went from 44.8 us to 50.1 us (2048 x 8192, 16 warps of 113 registers). So whoever knows how wide a row may be
says so, and wider ones keep their one program.

A kernel whose grid has an axis for the blocks of a row (dyt) has several programs on each multiprocessor where rows are
wide, and a share of every sum for each of them. So there the number follows the width from the start, and the rows: of
few rows the shares would be a good part of all memory. On an H100 dyt's backward with four where it has one now went
from 50.8 us to 35.2 us (8192 x 1024), but took 6.3 % more memory than v0; with two for each of four blocks it went from
89.2 us to 92.4 us (8192 x 4096).

A kernel that multiplies tiles waits for no row: it loads the next ones meanwhile, a program takes most of the shared
memory of a multiprocessor, and its sums may be split among the programs by their number. It is left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import addresses, columns, kernels, processors, runs, source
from bot.engine.finding import findall, nodes
from bot.engine.source import NotUnderstood
from bot.engine.transforms.rewrite import Rewrite, indent_of

WORDS = {2: "Two", 4: "Four", 8: "Eight"}
UP_TO_FOUR, UP_TO_TWO = 1024, 2048
"""Columns up to which a row in blocks leaves a multiprocessor idle with fewer: a block of 1024 is a program, and four
are enough."""
ROWS = 4096
"""So many rows for each further program on each of 132 multiprocessors: two sums in float32 take 4.3 % of three
matrices in half precision then, wherever rows are as wide as those of the sums."""
PRODUCTS = ("dot", "dot_scaled")
WHY = "while one waits for a row, the others work."


@dataclass(frozen=True, slots=True)
class Doubled:
    module: cst.Module
    kernels: tuple[str, ...]
    title: str


Taken = Callable[[cst.FunctionDef], set[str]]
"""Names of the columns that a program takes."""


NEW = m.Call(
    func=m.Attribute(m.Name("torch"), m.Name("empty") | m.Name("zeros") | m.Name("ones") | m.Name("full"))
    | m.Attribute(attr=m.Name("new_empty") | m.Name("new_zeros"))
)


def _counts(function: cst.FunctionDef) -> list[cst.BaseExpression]:
    """Expressions for the number of multiprocessors."""
    return [found for found in findall(function, processors.COUNT) if isinstance(found, cst.BaseExpression)]


def _launched(function: cst.FunctionDef, module: cst.Module) -> list[cst.FunctionDef]:
    """The kernels that a function launches."""
    found = [source.kernel_named(module, source.launched(call)) for call in findall(function, source.LAUNCH)]
    return [kernel for kernel in found if kernel is not None]


def _multiplies_tiles(module: cst.Module, kernel: cst.FunctionDef) -> bool:
    """Whether a kernel does, or what it calls."""
    return any(kernels.calls(one, name) for one in (kernel, *source.named_by(module, kernel)) for name in PRODUCTS)


def _multiplied(function: cst.FunctionDef, count: cst.BaseExpression) -> tuple[cst.BaseExpression, int]:
    """The expression with the factor it already has. Behind `rows //` another factor would be one of the rows."""
    for found in findall(function, m.BinaryOperation()):
        product = cst.ensure_type(found, cst.BinaryOperation)
        if product.right is count and m.matches(product, m.BinaryOperation(left=m.Integer(), operator=m.Multiply())):
            return product, kernels.integer(product.left) or 1
        if product.right is count and not _depends(function, count):
            raise NotUnderstood("something is divided by the number of multiprocessors")
    return count, 1


def _makes_room(function: cst.FunctionDef) -> bool:
    """Whether it makes a tensor by that number for somebody else."""
    return bool(_counts(function)) and bool(findall(function, NEW)) and not findall(function, source.LAUNCH)


def _is_counted_out(module: cst.Module, function: cst.FunctionDef, line: cst.SimpleStatementLine) -> bool:
    """Whether a kernel takes the shares of all programs at once, of which there are no more than a number says."""
    for kernel in _launched(function, module):
        made = addresses.names_of(kernel).made
        for site in source.sites(module, str(kernel.name.value)):
            told = {name: kernels.told(site.call, kernel, name) for name in source.parameters(kernel)}
            fixed = {name for name, value in told.items() if isinstance(value, cst.Integer)}
            counts = {name for name, value in told.items() if value and source.code(value) in source.targets(line)}
            blocks = {
                at for at, value in made.items() if any(m.matches(value, kernels.arange_of(one)) for one in fixed)
            }
            compared = m.Comparison(comparisons=[m.ComparisonTarget(m.LessThan(), m.Name())])
            for found in (cst.ensure_type(one, cst.Comparison) for one in findall(kernel, compared)):
                if source.code(found.left) in blocks and source.code(found.comparisons[0].comparator) in counts:
                    return True
    return False


def _is_multiplied_later(function: cst.FunctionDef, line: cst.SimpleStatementLine) -> bool:
    """Whether its author has several on each already, where the number is read: `2 * count`, or more where a program
    has few warps. Twice as many would be more than is said of them."""
    warps = m.Name(m.MatchIfTrue(lambda name: name.endswith("warps")))
    for found in findall(function, m.BinaryOperation(operator=m.Multiply())):
        product = cst.ensure_type(found, cst.BinaryOperation)
        sides = (product.left, product.right)
        for one, times in (sides, sides[::-1]):
            says_more = isinstance(times, cst.Integer) or findall(times, warps)
            if says_more and isinstance(one, cst.Name) and one.value in source.targets(line):
                return True
    return False


def _statement_of(function: cst.FunctionDef, node: cst.CSTNode) -> cst.SimpleStatementLine:
    for found in findall(function, m.SimpleStatementLine()):
        if any(inner is node for inner in _descendants(found)):
            return cst.ensure_type(found, cst.SimpleStatementLine)
    raise NotUnderstood("the number of multiprocessors is not part of a statement")


def _descendants(node: cst.CSTNode) -> list[cst.CSTNode]:
    return [node, *(inner for child in node.children for inner in _descendants(child))]


def _wholes(kernel: cst.FunctionDef) -> set[str]:
    """Names of the columns of a row that a program takes at once."""
    made = addresses.names_of(kernel).made
    return {name for name, value in made.items() if isinstance(value, cst.Call) and columns.is_arange(value)}


def _blocks(kernel: cst.FunctionDef) -> set[str]:
    """Names of the columns of a program's own block of a row."""
    made = addresses.names_of(kernel).made
    return {name for name, value in made.items() if all(kernels.calls(value, n) for n in ("program_id", "arange"))}


def _widths(module: cst.Module, kernel: cst.FunctionDef, taken: set[str]) -> set[str]:
    """What the launches hand over for the number of columns, which those that a program takes are compared with."""
    parameters, found = source.parameters(kernel), set()
    for node in findall(kernel, m.Comparison(comparisons=[m.ComparisonTarget(m.LessThan(), m.Name())])):
        compared = cst.ensure_type(node, cst.Comparison)
        width = source.code(compared.comparisons[0].comparator)
        if width in parameters and source.code(compared.left) in taken:
            for site in source.sites(module, str(kernel.name.value)):
                value = kernels.argument(site.call, parameters.index(width), width)
                found.add(source.code(value) if value is not None else "")
    return found


def _known(function: cst.FunctionDef, line: cst.SimpleStatementLine, sizes: set[str]) -> str:
    """The one variable with a size that the launches agree on, once it is sure that the line knows it."""
    if len(sizes) != 1 or not (size := next(iter(sizes))).isidentifier():
        raise NotUnderstood("the launches do not agree on a size")
    body = source.statements(function)
    at = next(at for at, statement in enumerate(body) if any(one is line for one in nodes(statement)))
    everywhere = sum(len(findall(target, m.Name(size))) for target in findall(function, m.AssignTarget()))
    before = sum(size in source.targets(statement) for statement in body[:at])
    if before != everywhere or not (before or size in source.parameters(function)):
        raise NotUnderstood("the size is not known yet")
    return size


def _width(module: cst.Module, function: cst.FunctionDef, line: cst.SimpleStatementLine, taken: Taken) -> str:
    launched = _launched(function, module)
    return _known(function, line, {width for one in launched for width in _widths(module, one, taken(one))})


def _rows(module: cst.Module, function: cst.FunctionDef, line: cst.SimpleStatementLine) -> str:
    found = [
        source.code(runs.given(site, kernel, runs.strides_of(kernel).rows))
        for kernel in _launched(function, module)
        for site in source.sites(module, str(kernel.name.value))
    ]
    return _known(function, line, set(found))


def programs_on_each(function: cst.FunctionDef) -> int:
    """How many programs a function has on a multiprocessor where it has most: one as it is written, more by ours."""
    found = [1]
    for count in _counts(function):
        for product in findall(function, m.BinaryOperation(operator=m.Multiply())):
            if isinstance(product, cst.BinaryOperation) and product.right is count:
                found += _times(product.left)
    return max(found)


def _times(node: cst.BaseExpression) -> list[int]:
    """The numbers that `4`, `2 if wide else 1`, `min(4, n)` and the like may be, and perhaps more."""
    if isinstance(node, cst.IfExp):
        return [*_times(node.body), *_times(node.orelse)]
    if isinstance(node, cst.Call):
        return [times for arg in node.args for times in _times(arg.value)]
    return [kernels.integer(node) or 1]


def _doubled(module: cst.Module, function: cst.FunctionDef, up_to: int | None) -> Doubled | None:
    counts = _counts(function)
    launched = _launched(function, module)
    if len(counts) != 1 or not launched or not all(kernels.has_loop(kernel) for kernel in launched):
        return None
    if any(_multiplies_tiles(module, kernel) for kernel in launched):
        return None
    old, factor = _multiplied(function, counts[0])
    if 2 * factor not in WORDS or _depends(function, counts[0]):
        return None
    line = _statement_of(function, counts[0])
    if _is_counted_out(module, function, line) or _is_multiplied_later(function, line):
        return None
    count, word = source.code(counts[0]), WORDS[2 * factor]
    times, where, title = str(2 * factor), f"{word} on each, not one", f"{word} programs on each multiprocessor"
    if up_to is None and factor == 1 and all(_blocks(kernel) for kernel in launched):
        width, rows = _width(module, function, line, _blocks), _rows(module, function, line)
        times = f"min(4 if {width} <= {UP_TO_FOUR} else 2 if {width} <= {UP_TO_TWO} else 1, 1 + {rows} // {ROWS})"
        where = "Up to four on each where rows are short and many"
        title = f"Up to four programs on each multiprocessor, up to {UP_TO_TWO} columns"
    elif up_to is not None:
        times = f"({2 * factor} if {_width(module, function, line, _wholes)} <= {up_to} else {factor})"
        where = f"{word} on each where a row of up to {up_to} columns leaves room"
        title = f"{title}, up to {up_to} columns"
    new = _product(times, count, _room_for(module, line, old))
    kept = [found for found in line.leading_lines if found.comment is None or WHY not in found.comment.value]
    lines = (*kept, *source.comment_lines(f"{where}: {WHY}"))
    changed = cst.ensure_type(line.deep_replace(old, new), cst.SimpleStatementLine)
    changed = changed.with_changes(leading_lines=lines)
    return Doubled(
        module=source.replaced(module, line, changed),
        kernels=tuple(str(kernel.name.value) for kernel in launched),
        title=title,
    )


def _room_for(module: cst.Module, line: cst.SimpleStatementLine, value: cst.BaseExpression) -> int:
    """How long what a line gives may become; whatever it is where that is not all it says."""
    if source.value(line) is not value:
        return source.LONGEST
    before = source.code(line.with_changes(leading_lines=())).partition(source.code(value))[0]
    return source.LONGEST - indent_of(source.written(module), line) - len(before.strip()) - 1


def _product(times: str, count: str, room: int) -> cst.BaseExpression:
    """In two lines where one has no room for it, as formatters write it."""
    said = f"{times} * {count}"
    return source.value(
        source.assignment(f"made = {said}" if len(said) <= room else f"made = (\n    {times}\n    * {count}\n)")
    )


def _depends(function: cst.FunctionDef, count: cst.BaseExpression) -> bool:
    """Whether how many there are on each follows the width already."""
    products = findall(function, m.BinaryOperation(left=m.IfExp() | m.Call(), operator=m.Multiply()))
    return any(getattr(product, "right", None) is count for product in products)


def rewrite(text: str, up_to: int | None = None) -> Rewrite | None:
    """The one function of the file that sizes its grid so; with several it is not clear which one waits.
    `up_to`: the widest row that leaves room for others on its multiprocessor, where some do not."""
    try:
        module = source.parse(text)
        functions = source.all_functions(module)
        if any(_makes_room(function) for function in functions):
            return None
        found = [done for f in functions if (done := _doubled(module, f, up_to)) is not None]
    except NotUnderstood:
        return None
    if len(found) != 1:
        return None
    (done,) = found
    return Rewrite(
        text=source.written(done.module),
        kernels=done.kernels,
        title=done.title,
        why="A program that walks over its rows waits for each of them; its neighbours work meanwhile.",
    )


def applies(text: str) -> bool:
    return rewrite(text) is not None
