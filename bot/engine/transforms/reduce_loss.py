"""Add a loss up in the kernel that makes it, one number a row, and do not store an element of it.

A loss of a row a program that goes through its columns in steps often stores a float32 for each element, only for the
host to add them all up: a write and a read of twice the bytes of a bfloat16 input, and a fill before that where rows
may be left out. By arithmetic jsd's forward moves 22 bytes an element so (a clone 4, the fill 4, the kernel 4 and 6,
the sum 4), and 10 with the sums made in the kernel.

Each step is summed over its columns at once and not kept a lane at a time: that costs a barrier a step, and no
registers. Compiled for sm_90 (4096 columns a step, 4 warps) liger-kernel's jsd needs 80 registers as it is, 64 with a
sum a step, and 96 with lanes. Lanes behind the last column hold what the arithmetic made of their fill, NaNs too, and
are left out.

Launch and kernel, and who adds up what the launch wrote, may stand in several files, so it is given all files of a
target. Refused unless the pointer and its stride serve for the stores of one row alone, the stores are all columns of a
float32 matrix that the host makes for this launch, a row a program, and the matrix goes to this launch and is then
added up, by the function itself or by everybody who calls it in these files. A caller in any other file is not seen:
where the matrix is returned the idea says so to the maintainer, and the tests of all that import these files are run on
a winner. What a docstring says of the matrix stays as it is, with a comment that says what is so now. A row that the
kernel leaves early keeps its zero, or gets one where the kernel stored many.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import added_up, kernels, row_stores, runs, source
from bot.engine.added_up import Modules
from bot.engine.addresses import CASTS
from bot.engine.bindings import times_bound
from bot.engine.finding import findall
from bot.engine.host_tensors import ALLOCATED
from bot.engine.row_stores import Matrix, Stored
from bot.engine.source import LaunchSite, NotUnderstood
from bot.engine.transforms.rewrite import FilesRewrite

IN_KERNEL = "Added up here, a number a row: nobody looks at the loss of a single column."
IN_HOST = "A sum for each row, made by the kernel, in place of ({rows}, {columns}): it is only ever added up."
FLOAT32 = [m.Arg(value=m.Attribute(m.Name("tl"), m.Name("float32")), keyword=None)]
WIDE = m.Call(func=m.Attribute(attr=m.Name("to")), args=FLOAT32)
LOADED = m.Call(func=m.Attribute(value=m.Call(func=m.Attribute(attr=m.Name("load"))), attr=m.Name("to")), args=FLOAT32)
Changes = list[tuple[cst.CSTNode, list[cst.BaseStatement]]]


@dataclass(frozen=True, slots=True)
class Tile:
    """`name = torch.zeros((rows, columns), dtype=torch.float32, ...)` of the host, for one launch."""

    matrix: Matrix
    line: cst.SimpleStatementLine
    width: cst.BaseExpression
    """Where the number of columns stands."""
    is_filled: bool

    def narrow(self) -> cst.SimpleStatementLine:
        """The same with one column."""
        line = cst.ensure_type(self.line.deep_replace(self.width, cst.Integer("1")), cst.SimpleStatementLine)
        said = source.comment_lines(IN_HOST.format(rows=self.matrix.rows, columns=self.matrix.columns))
        return line.with_changes(leading_lines=(*line.leading_lines, *said))


def _launch(modules: Modules, path: str, kernel: str) -> tuple[str, LaunchSite]:
    """The one launch, in the kernel's file or in one that imports it. Its name stands nowhere else."""
    found: list[tuple[str, LaunchSite]] = []
    for where, module in modules.items():
        launches = source.sites(module, kernel)
        homes = 1 if where == path else source.imports(module, path, kernel)
        if len(findall(module, m.Name(kernel))) != homes + len(launches):
            raise NotUnderstood(f"{kernel} is more than launched")
        found += [(where, site) for site in launches]
    if len(found) != 1:
        raise NotUnderstood(f"{kernel} is launched {len(found)} times")
    return found[0]


def _sizes(call: cst.Call) -> tuple[cst.BaseExpression, cst.BaseExpression]:
    said = [arg.value for arg in call.args if arg.keyword is None and not arg.star]
    named = {arg.keyword.value: source.code(arg.value) for arg in call.args if arg.keyword is not None}
    if len(said) + len(named) != len(call.args) or not set(named) <= {"dtype", "device"}:
        raise NotUnderstood("more is said of the tensor than its sizes, type and device")
    if named.get("dtype") != "torch.float32":
        raise NotUnderstood("the tensor is not of float32")
    if len(said) == 1 and isinstance(said[0], cst.Tuple | cst.List):
        said = [element.value for element in said[0].elements]
    if len(said) != 2:
        raise NotUnderstood("the tensor is no matrix")
    return said[0], said[1]


def _tile(site: LaunchSite, kernel: cst.FunctionDef, pointer: str) -> Tile:
    """What the host made for a pointer: a matrix, once, for a launch that always happens."""
    given, body = runs.given(site, kernel, pointer), source.statements(site.function)
    at = source.last_binding(site, given.value) if isinstance(given, cst.Name) else None
    if at is None or not isinstance(given, cst.Name) or not isinstance(body[site.position], cst.SimpleStatementLine):
        raise NotUnderstood("it is not made for a launch that always happens")
    name, line = str(given.value), cst.ensure_type(body[at], cst.SimpleStatementLine)
    if not source.is_plain(line, name) or times_bound(site.function, name) != 1:
        raise NotUnderstood(f"{name} is not made once")
    call = source.value(line)
    if not isinstance(call, cst.Call) or not m.matches(call, ALLOCATED):
        raise NotUnderstood(f"{name} is not made of zeros, nor of nothing")
    rows, columns = _sizes(call)
    words = {n.value for size in (rows, columns) for n in findall(size, m.Name()) if isinstance(n, cst.Name)}
    between = cst.IndentedBlock(body=body[at + 1 : site.position])
    changed = findall(between, m.AssignTarget() | m.AugAssign() | m.For())
    if any(findall(one, m.Name(word)) for one in changed for word in words):
        raise NotUnderstood("the sizes may be others when it is launched")
    matrix = Matrix(site, kernel, pointer, name, source.code(rows), source.code(columns))
    return Tile(matrix, line, columns, kernels.called_name(call) == "zeros")


def _sum_of(matrix: Matrix) -> str:
    """A name for the sum that the kernel does not use yet."""
    stem = matrix.pointer.removesuffix("_ptr")
    taken = {found.value for found in findall(matrix.kernel, m.Name()) if isinstance(found, cst.Name)}
    free = [name for name in (f"{stem}_sum", f"row_{stem}_sum") if name not in taken]
    if not free:
        raise NotUnderstood("there is no name for the sum")
    return free[0]


def _is_float32(one: Stored) -> bool:
    """Whether all that is loaded is made float32 at once and nothing less later: a sum of float16 is one of float16."""
    others = [call for call in kernels.calls(one.loop, "store") if call is not one.call]
    narrow, apart = (
        sum(not m.matches(call, WIDE) for node in nodes for name in CASTS for call in kernels.calls(node, name))
        for nodes in ([one.loop], others)
    )
    return narrow == apart and len(findall(one.loop, LOADED)) == len(kernels.calls(one.loop, "load"))


def _added(one: Stored, name: str) -> list[cst.BaseStatement]:
    """The loop over the columns with a sum in place of its store, which comes behind it."""
    block, line = cst.ensure_type(one.loop.body, cst.IndentedBlock), one.line
    if isinstance(one.value, cst.BaseNumber) and one.value.evaluated_value == 0:
        kept = block.with_changes(body=[statement for statement in block.body if statement is not line])
        stored = line.deep_replace(one.call, source.expression(f"tl.store({one.base}, 0.0)"))
        return [one.loop.with_changes(body=kept), cst.ensure_type(stored, cst.SimpleStatementLine)]
    assert one.mask is not None
    masked = f"tl.where({source.code(one.mask)}, {source.code(one.value)}, 0.0)"
    wide = masked if _is_float32(one) else f"{masked}.to(tl.float32)"
    added = source.assignment(f"{name} += tl.sum({wide}, axis=0)").with_changes(
        leading_lines=line.leading_lines, trailing_whitespace=line.trailing_whitespace
    )
    empty, said = source.split_above(one.loop)
    first = source.assignment(f"{name} = 0.0", IN_KERNEL)
    body = block.with_changes(body=[added if statement is line else statement for statement in block.body])
    return [
        first.with_changes(leading_lines=(*empty, *first.leading_lines)),
        one.loop.with_changes(body=body, leading_lines=said),
        source.assignment(f"tl.store({one.base}, {name})"),
    ]


@dataclass(frozen=True, slots=True)
class Done:
    texts: dict[str, str]
    tile: Tile
    is_returned: bool


def _reduced(modules: Modules, path: str, where: str, tile: Tile) -> Done:
    """The texts that change when the kernel of one file adds up what it stores in a matrix of another, or the same."""
    matrix = tile.matrix
    handed = 2  # the matrix and its stride
    is_returned = added_up.check(modules, matrix.site.function, matrix.name, before=handed)
    name = _sum_of(matrix)
    inside: Changes = [(one.loop, _added(one, name)) for one in row_stores.stores_of(matrix)]
    changes: dict[str, Changes] = {path: inside}
    changes[where] = [*changes.get(where, []), (tile.line, [tile.narrow()])]
    texts = {one: source.written(source.spliced(modules[one], mine)) for one, mine in changes.items()}
    return Done(texts, tile, is_returned)


def _first(modules: Modules, path: str, kernel: cst.FunctionDef) -> Done | None:
    """The first pointer of a kernel that serves for nothing else."""
    try:
        where, site = _launch(modules, path, str(kernel.name.value))
    except NotUnderstood:
        return None
    for pointer in source.parameters(kernel):
        try:
            return _reduced(modules, path, where, _tile(site, kernel, pointer))
        except NotUnderstood:
            continue
    return None


def _why(done: Done) -> str:
    matrix = done.tile.matrix
    ways = "filled, written and read again" if done.tile.is_filled else "written and read again"
    seen = (
        f" What {matrix.site.function.name.value} returns has one column now: whoever looks at single elements of it "
        "in a file that is not of this kernel would notice."
    )
    return (
        f"{matrix.name} holds a float32 for each element, and all that is done with it is to add it up: so many bytes "
        f"are {ways}. The kernel adds up its row and stores one number.{seen if done.is_returned else ''}"
    )


def rewrite(files: Mapping[str, str]) -> FilesRewrite | None:
    """Every kernel of these files, by their paths, whose loss is only added up."""
    texts, done = dict(files), []
    try:
        names = [(path, kernel.name.value) for path in texts for kernel in kernels.kernels(source.parse(texts[path]))]
    except NotUnderstood:
        return None
    for path, name in names if any("sum(" in text for text in files.values()) else ():
        modules = {one: source.parse(text) for one, text in texts.items()}
        kernel = source.kernel_named(modules[path], name)
        found = _first(modules, path, kernel) if kernel is not None else None
        if found is not None:
            texts |= found.texts
            done.append(found)
    if not done:
        return None
    return FilesRewrite(
        texts={path: text for path, text in texts.items() if text != files[path]},
        kernels=tuple(str(one.tile.matrix.kernel.name.value) for one in done),
        title="Add the loss up in the kernel",
        why=_why(next((one for one in done if one.is_returned), done[0])),
        spared=min(3 if one.tile.is_filled else 2 for one in done),
    )


def applies(files: Mapping[str, str]) -> bool:
    return rewrite(files) is not None
