"""Make a mask where it is read, when the row and the column of a place say all of it.

Some kernels fill a matrix with ones and zeros that only say which places belong together, a window around each row for
one, and another kernel reads it to throw away what lies outside. The matrix is filled with zeros, written, and read
again for every tile of every head, and each tile waits for it, where a comparison of two numbers says the same.

Asks for a kernel that does nothing else, whose only reader finds each place by the same row and column and the same
width, and for a host that hands the matrix to these two launches alone. The lines that make the value are written where
it was loaded, with the reader's own rows and columns; its parameter goes, and so do matrix and launch. The kernel that
filled it stays in its file, for whoever wants the matrix.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import addresses, by_place, coverage, kernels, long_lines, masks, runs, source
from bot.engine.bindings import times_bound
from bot.engine.finding import findall
from bot.engine.host_tensors import ALLOCATED
from bot.engine.masks import ALONG, DOWN, Mask
from bot.engine.source import LaunchSite, NotUnderstood
from bot.engine.transforms import drop_zero_fill
from bot.engine.transforms.rewrite import Rewrite, refuse_long_lines

HOLDS_A_ROW = ("next_power_of_2", "calculate_settings")
"""Functions of the host that give a block no smaller than a row, first of all."""
NEXT_POWER = m.Attribute(m.Name("triton"), m.Name("next_power_of_2"))
HIDDEN = m.Match() | m.Global() | m.Nonlocal() | m.ClassDef() | m.NamedExpr() | m.Name("locals")
"""What may give a name another value without saying so."""
TITLE = "A mask is made where it is read"


@dataclass(frozen=True, slots=True)
class Read:
    """Where the matrix is read: `name = tl.load(pointer + rows * width + columns, mask=inside, other=0.0)`."""

    line: cst.SimpleStatementLine
    address: cst.SimpleStatementLine | None
    """The line that gives the address a name, where it has one."""
    rows: cst.BaseExpression
    columns: cst.BaseExpression
    inside: cst.BaseExpression
    other: cst.BaseExpression

    @property
    def name(self) -> str:
        return source.targets(self.line)[0]


@dataclass(frozen=True, slots=True)
class Pair:
    """The launch that fills the matrix and the one that reads it."""

    mask: Mask
    fills: LaunchSite
    reader: cst.FunctionDef
    reads: LaunchSite
    made: cst.SimpleStatementLine
    """The host's line that makes the matrix."""
    pointer: str
    """The reader's parameter that gets it."""
    named: Mapping[str, str]
    """What the reader calls the parameters that the mask is made of."""


def _matrix(module: cst.Module, mask: Mask, site: LaunchSite) -> tuple[str, cst.SimpleStatementLine]:
    """What the host calls the matrix, and the line that makes it: of its sizes alone, and of float32."""
    given = runs.given(site, mask.kernel, mask.pointer)
    name = given.value if isinstance(given, cst.Name) else ""
    lines = [line for line in source.statements(site.function)[: site.position] if name in source.targets(line)]
    if len(lines) != 1 or times_bound(site.function, name) != 1 or not m.matches(source.value(lines[0]), ALLOCATED):
        raise NotUnderstood("the matrix is not made once, by the host")
    call = cst.ensure_type(source.value(lines[0]), cst.Call)
    width = source.code(runs.given(site, mask.kernel, mask.size))
    sizes = [source.code(arg.value) for arg in call.args if arg.keyword is None]
    named = {arg.keyword.value: source.code(arg.value) for arg in call.args if arg.keyword is not None}
    if sizes != [width, width] or set(named) != {"device", "dtype"} or named["dtype"] != "torch.float32":
        raise NotUnderstood("the matrix is not as wide as it is long, or not of float32")
    if not m.matches(kernels.argument(call, len(call.args), "device"), m.Attribute(m.Name(), m.Name("device"))):
        raise NotUnderstood("nobody knows what the device is")
    coverage.check(coverage.Output(site, mask.kernel, mask.pointer, name, (width, width), is_packed=True))
    _refuse_narrow(module, mask, site, width)
    return name, cst.ensure_type(lines[0], cst.SimpleStatementLine)


def _own(module: cst.Module, site: LaunchSite) -> tuple[str, ...]:
    """Names that the module or the host's function gives to something else than what is imported."""
    return (*(one.name.value for one in findall(module, m.FunctionDef())), *source.parameters(site.function))


def _refuse_narrow(module: cst.Module, mask: Mask, site: LaunchSite, width: str) -> None:
    """What lies behind the block is as the host made it: only where a block is known to hold a row there is nothing."""
    (across,) = kernels.calls(mask.kernel, "arange")
    block = runs.given(site, mask.kernel, source.code(across.args[1].value))
    at = source.last_binding(site, block.value) if isinstance(block, cst.Name) else None
    line = source.statements(site.function)[at] if at is not None else None
    made = source.value(line) if line is not None else None
    if line is None or not isinstance(made, cst.Call) or not m.matches(block, m.Name(source.targets(line)[0])):
        raise NotUnderstood("nobody knows how wide a block is")
    imported = [one.name for one in findall(module, m.ImportAlias(asname=None))]
    known = m.matches(made.func, NEXT_POWER) or any(made.func.deep_equals(name) for name in imported)
    if not known or kernels.called_name(made) not in HOLDS_A_ROW or times_bound(site.function, block.value) != 1:
        raise NotUnderstood("a row may be wider than a block")
    if [source.code(arg.value) for arg in made.args] != [width] or kernels.called_name(made) in _own(module, site):
        raise NotUnderstood("a row may be wider than a block")


def _reader(module: cst.Module, site: LaunchSite, name: str) -> tuple[cst.FunctionDef, LaunchSite]:
    """The only other launch that is given the matrix, after it was filled."""
    found = []
    for kernel in kernels.kernels(module):
        for other in source.sites(module, kernel.name.value):
            if other.call is not site.call and source.loads(other.call, name):
                found.append((kernel, other))
    if len(found) != 1 or source.loads(site.function, name) != 2:
        raise NotUnderstood("the matrix is read by nobody, or by several")
    ((kernel, other),) = found
    if len(findall(module, m.Name(kernel.name.value))) != 2:
        raise NotUnderstood("others know the reader")
    if other.function is not site.function or other.position <= site.position:
        raise NotUnderstood("it is not read behind the launch that fills it")
    return kernel, other


def _stays(function: cst.FunctionDef, value: cst.BaseExpression) -> bool:
    """Whether what the host hands over means the same at both launches."""
    if not isinstance(value, cst.Name):
        return isinstance(value, cst.Integer)
    return times_bound(function, value.value) == (0 if value.value in source.parameters(function) else 1)


def _annotated(kernel: cst.FunctionDef, name: str) -> str:
    """What is said of a parameter's type: Triton takes a number as that."""
    (found,) = findall(kernel.params, m.Param(m.Name(name)))
    return source.code(found.annotation.annotation) if found.annotation is not None else ""


def _named(mask: Mask, site: LaunchSite, reader: cst.FunctionDef, reads: LaunchSite) -> dict[str, str]:
    told = {p: by_place.told(reads, p) for p in source.parameters(reader) if not times_bound(reader, p)}
    found = {}
    for parameter in {*mask.parameters(), mask.size}:
        value = runs.given(site, mask.kernel, parameter)
        same = [p for p, given in told.items() if given is not None and given.deep_equals(value)]
        alike = [p for p in same if _annotated(reader, p) == _annotated(mask.kernel, parameter)]
        if not alike or times_bound(mask.kernel, parameter) or not _stays(site.function, value):
            raise NotUnderstood(f"the reader does not know {parameter}")
        found[parameter] = alike[0]
    return found


def _refuse_hidden(site: LaunchSite) -> None:
    """The launch has to be a line of its own that is given names and numbers, in a function that is plain to read."""
    inner = [one for one in findall(site.function, m.FunctionDef()) if one is not site.function]
    if inner or findall(site.function, HIDDEN):
        raise NotUnderstood("a name may get a value that nobody sees")
    if not all(isinstance(arg.value, cst.Name | cst.Integer) and arg.star != "**" for arg in site.call.args):
        raise NotUnderstood("something happens as the launch is made")
    line = source.line_of(site)
    if len(line.body) != 1 or not isinstance(line.body[0], cst.Expr) or line.body[0].value is not site.call:
        raise NotUnderstood("the launch is part of something")


def _pairs(module: cst.Module) -> list[Pair]:
    found = []
    for kernel in kernels.kernels(module):
        try:
            mask = masks.mask_of(kernel)
            (site,) = source.sites(module, kernel.name.value)
            if len(findall(module, m.Name(kernel.name.value))) != 2:
                raise NotUnderstood("others know the kernel")
            _refuse_hidden(site)
            if runs.grid_of(site) != (source.code(runs.given(site, kernel, mask.size)),):
                raise NotUnderstood("a row has no program of its own")
            name, made = _matrix(module, mask, site)
            reader, reads = _reader(module, site, name)
            (pointer,) = [p for p in source.parameters(reader) if m.matches(by_place.told(reads, p), m.Name(name))]
            found.append(Pair(mask, site, reader, reads, made, pointer, _named(mask, site, reader, reads)))
        except (NotUnderstood, ValueError):
            continue
    return found


def _once(kernel: cst.FunctionDef, node: cst.BaseExpression, shape: m.BaseMatcherNode) -> bool:
    return m.matches(node, shape) and times_bound(kernel, cst.ensure_type(node, cst.Subscript).value.value) == 1


def _load_and_address(pair: Pair) -> tuple[cst.BaseStatement, cst.SimpleStatementLine | None]:
    """The reader's line that loads the matrix, and the one above that names the address, if there is one."""
    reader, body = pair.reader, source.statements(pair.reader)
    if source.loads(reader, pair.pointer) != 1 or times_bound(reader, pair.pointer):
        raise NotUnderstood("the matrix is read in several places")
    used = next((line for line in body if source.loads(line, pair.pointer)), body[0])
    if not source.targets(used) or kernels.calls(used):
        return used, None
    place = source.targets(used)[0]
    if not source.is_plain(used, place) or times_bound(reader, place) != 1 or source.loads(reader, place) != 1:
        raise NotUnderstood("the address is used twice, or is one of several")
    load = next((line for line in body if source.loads(line, place)), used)
    return load, cst.ensure_type(used, cst.SimpleStatementLine)


def _place(pair: Pair, address: cst.BaseExpression) -> tuple[cst.BaseExpression, cst.BaseExpression]:
    """The rows and the columns of `pointer + rows[:, None] * width + columns[None, :]`, in any order."""
    at, width = addresses.parts(address), m.Name(pair.named[pair.mask.size])
    products = [part for part in at if isinstance(part, cst.BinaryOperation) and m.matches(part.operator, m.Multiply())]
    columns = [part for part in at if _once(pair.reader, part, ALONG)]
    factors = [side for one in products for side in (one.left, one.right)]
    rows = [side for side in factors if _once(pair.reader, side, DOWN)]
    widths = [side for side in factors if m.matches(side, width)]
    if not any(m.matches(part, m.Name(pair.pointer)) for part in at):
        raise NotUnderstood("a place is counted from elsewhere")
    if (len(at), len(products), len(columns), len(rows), len(widths)) != (3, 1, 1, 1, 1):
        raise NotUnderstood("a place is not found by its row and its column")
    return rows[0], columns[0]


def _read(pair: Pair) -> Read:
    load, address = _load_and_address(pair)
    call = source.value(load)
    if len(source.targets(load)) != 1 or not isinstance(call, cst.Call) or source.code(call.func) != "tl.load":
        raise NotUnderstood("it is not read in a line of its own")
    given = {arg.keyword.value if arg.keyword is not None else "": arg.value for arg in call.args}
    if len(call.args) != 3 or set(given) != {"", "mask", "other"} or not m.matches(given["other"], m.Float()):
        raise NotUnderstood("it is read without a mask")
    rows, columns = _place(pair, source.value(address) if address is not None else given[""])
    _refuse_outside(pair.reader, given["mask"], (rows, columns), pair.named[pair.mask.size])
    line = cst.ensure_type(load, cst.SimpleStatementLine)
    return Read(line, address, rows, columns, given["mask"], given["other"])


def _written(pair: Pair, read: Read) -> list[cst.BaseStatement]:
    """The lines of the mask, of the reader's rows and columns."""
    mask, reader = pair.mask, pair.reader
    known = source.parameters(reader)
    taken = [n for n in mask.names() if n in known or source.loads(reader, n) or times_bound(reader, n)]
    if taken or times_bound(reader, read.name) != 1:
        raise NotUnderstood(f"{', '.join(taken) or read.name} is a name of the reader's already")
    into: dict[str, cst.BaseExpression] = {p: cst.Name(name) for p, name in pair.named.items()}
    into |= {mask.row: read.rows, mask.columns: read.columns}

    class Renamed(cst.CSTTransformer):  # type: ignore[misc]  # libcst is not followed
        def visit_Attribute(self, node: cst.Attribute) -> bool:
            return False

        def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
            return into.get(original_node.value, updated_node)

    lines = [cst.ensure_type(line.visit(Renamed()), cst.BaseStatement) for line in mask.lines]
    value = f"tl.where({source.code(read.inside)}, {mask.value.value}, {source.code(read.other)})"
    last = source.assignment(f"{read.name} = {value}")
    empty, said = source.split_above(read.line)
    if said or (read.address is not None and findall(read.address, m.Comment())) or findall(read.line, m.Comment()):
        raise NotUnderstood("something is said of the load")
    return [lines[0].with_changes(leading_lines=(*empty, *source.comment_lines(_why(pair)))), *lines[1:], last]


def _why(pair: Pair) -> str:
    return f"What {pair.mask.kernel.name.value} says of a place: nobody fills {pair.pointer} and reads it."


def _refuse_outside(
    reader: cst.FunctionDef, mask: cst.BaseExpression, places: tuple[cst.BaseExpression, ...], width: str
) -> None:
    """What is read has to lie in the matrix, for both its rows and its columns: from zero on, and below its width."""
    for place in places:
        if not masks.counts_places(reader, cst.ensure_type(place, cst.Subscript).value.value):
            raise NotUnderstood("nobody knows where places begin")
    made = addresses.names_of(reader).made
    left, bounds = [mask], list[str]()
    while left:
        one = left.pop()
        one = made.get(one.value, one) if isinstance(one, cst.Name) else one
        if isinstance(one, cst.BinaryOperation) and isinstance(one.operator, cst.BitAnd):
            left += [one.left, one.right]
        else:
            bounds.append(source.code(one.with_changes(lpar=(), rpar=())))
    if not all(f"{source.code(place)} < {width}" in bounds for place in places):
        raise NotUnderstood("what is read may lie outside of the matrix")


def _with_mask(pair: Pair, read: Read) -> list[cst.BaseStatement]:
    """The reader's lines with those of the mask. Air above the address that goes is above what follows it."""
    lines, written, air = list[cst.BaseStatement](), _written(pair, read), tuple[cst.EmptyLine, ...]()
    for line in source.statements(pair.reader):
        if line is read.address:
            air = tuple(cst.ensure_type(line, cst.SimpleStatementLine).leading_lines)
            continue
        first, *others = written if line is read.line else [line]
        above = (*air, *getattr(first, "leading_lines", ()))
        lines += [first.with_changes(leading_lines=above) if air else first, *others]
        air = ()
    return lines


def _kernel(pair: Pair) -> cst.FunctionDef:
    reader = pair.reader
    parameters = list(reader.params.params)
    gone = next((at for at, one in enumerate(parameters) if one.name.value == pair.pointer), len(parameters))
    if gone >= len(parameters) - 1 or any(findall(one, m.Comment()) for one in parameters[max(0, gone - 1) : gone + 1]):
        raise NotUnderstood("the parameter is the last, or something is said of it")
    if gone == 0 and findall(reader.whitespace_before_params, m.Comment()):
        raise NotUnderstood("something is said of the first parameter")
    del parameters[gone]
    params = reader.params.with_changes(params=parameters)
    changed = source.with_statements(reader.with_changes(params=params), _with_mask(pair, _read(pair)))
    refuse_long_lines(reader, changed)
    return changed


def _without(call: cst.Call, name: str) -> cst.Call:
    at = next(at for at, arg in enumerate(call.args) if m.matches(arg.value, m.Name(name)))
    if at == len(call.args) - 1 or any(findall(one, m.Comment()) for one in call.args[max(0, at - 1) : at + 1]):
        raise NotUnderstood("the matrix is given last, or something is said of it")
    if at == 0 and findall(call.whitespace_before_args, m.Comment()):
        raise NotUnderstood("something is said of the first argument")
    return call.with_changes(args=[*call.args[:at], *call.args[at + 1 :]])


def _host(pair: Pair) -> cst.FunctionDef:
    """Without the matrix, the launch that fills it, and what served for these alone."""
    function, matrix = pair.fills.function, source.targets(pair.made)[0]
    body = source.statements(function)
    gone = [pair.made, source.line_of(pair.fills)]
    grid = pair.fills.grid
    if isinstance(grid, cst.Name) and source.loads(function, grid.value) == times_bound(function, grid.value) == 1:
        gone += [line for line in body if source.targets(line) == (grid.value,)]
    if any(line not in body or _says_something(line) for line in gone):
        raise NotUnderstood("a line that goes stands in a branch, or says something")
    lines = list[cst.BaseStatement]()
    for line in body:
        if line in gone:
            continue
        found = [call for call in findall(line, m.Call()) if call is pair.reads.call]
        lines.append(line.deep_replace(found[0], _without(found[0], matrix)) if found else line)
    changed = source.with_statements(function, lines)
    return source.with_statements(function, [_unread(line, function, changed) for line in lines])


def _says_something(line: cst.BaseStatement) -> bool:
    """Of what an author said nothing may go; what was said of zeros goes with them."""
    said = [str(cst.ensure_type(one, cst.Comment).value) for one in findall(line, m.Comment())]
    return any(one != f"# {drop_zero_fill.WHY}" for one in said)


def _unread(line: cst.BaseStatement, before: cst.FunctionDef, after: cst.FunctionDef) -> cst.BaseStatement:
    """`_, b = f()` of `a, b = f()` where nobody reads a any more."""
    names = source.targets(line)
    dead = [name for name in names if source.loads(before, name) and not source.loads(after, name)]
    if not dead or len(names) < 2 or len(dead) == len(names) or findall(before, m.Name("_")):
        return line
    target = cst.ensure_type(line, cst.SimpleStatementLine).body[0].targets[0].target
    if not all(isinstance(one.value, cst.Name) for one in target.elements):
        return line
    new = {n: cst.Name("_") for n in findall(target, m.Name()) if n.value in dead}
    return cst.ensure_type(source.exchanged(line, new), cst.BaseStatement)


def rewrite(text: str, relied_on: Collection[str] = ()) -> Rewrite | None:
    """`relied_on`: names that other files import, whose parameters have to stay."""
    if "tl.where(" not in text:
        return None
    try:
        module = source.parse(text)
    except NotUnderstood:
        return None
    for pair in _pairs(module):
        if pair.reader.name.value in relied_on:
            continue
        try:
            new = [(pair.reader, [_kernel(pair)]), (pair.fills.function, [_host(pair)])]
        except NotUnderstood:
            continue
        return Rewrite(
            text=source.written(long_lines.in_lines(source.spliced(module, new), text)),
            kernels=(pair.reader.name.value,),
            title=TITLE,
            why=f"{pair.mask.kernel.name.value} fills a matrix that says of each place whether it counts, and "
            f"{pair.reader.name.value} reads it for every tile. Its rows and columns say the same without it.",
        )
    return None


def applies(text: str) -> bool:
    return rewrite(text) is not None
