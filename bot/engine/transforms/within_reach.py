"""Let products over a matrix stop where a mask has left zeros in it.

A kernel of scores stores minus infinity wherever a column lies farther from its row than its mask reaches (`reaches`).
Of such rows a softmax is zero there, and so is its gradient (`zeros`). Still all further products go through every
column, and the gradient of the weights is made for tiles that are multiplied by zeros alone. Here such a loop begins
and ends within reach, and a tile of that gradient that lies out of reach stays zero. The kernels are told what the
kernel of the scores is told of its reach, in the backward pass by what the Function of autograd keeps (`passes`).

The places of a loop stay multiples of its step, so that what is left out is zeros to the last, and all sums are the
same. There is one difference: zero times what is no finite number is NaN. Where a score, a value or a gradient is not
finite, the products as they were spread that over all rows and columns, and these keep it in the neighbourhood. The
reach is taken to be no less than zero, as it was: below that all rows are NaN.

Refused unless all of it is in the source: who gets the matrices, what the loops add up, where rows and columns lie.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import (
    addresses,
    by_place,
    exchanging,
    imports,
    kernels,
    last_places,
    long_lines,
    passes,
    product_sums,
    reaches,
    source,
    tile_stores,
    zeros,
)
from bot.engine.bindings import bound_in, times_bound
from bot.engine.finding import findall
from bot.engine.reaches import Reach
from bot.engine.source import LaunchSite, NotUnderstood
from bot.engine.tile_stores import Tiled
from bot.engine.transforms.rewrite import Rewrite, refuse_long_lines
from bot.engine.zeros import Factor, Zeros

NEW_NAMES = ("reach", "first", "last")
STEPS = m.Call(m.Name("range"), [m.Arg(m.Integer("0")), m.Arg(m.Name()), m.Arg(m.Name())])


@dataclass(frozen=True, slots=True)
class Reader:
    """A launch that is given a matrix which is zero out of reach."""

    kernel: cst.FunctionDef
    site: LaunchSite
    pointer: str
    matrix: Zeros


def _readers(module: cst.Module, matrix: Zeros) -> list[Reader]:
    """All launches that are given the matrix. Raises NotUnderstood where somebody may change it."""
    found = []
    for kernel in kernels.kernels(module):
        for site in source.sites(module, kernel.name.value):
            told = [p for p in source.parameters(kernel) if m.matches(by_place.told(site, p), m.Name(matrix.name))]
            if site.function is not matrix.function or not told:
                continue
            product_sums.load_of(kernel, told[0])
            found.append(Reader(kernel, site, told[0], matrix))
    if zeros.uses(matrix.function, matrix.name) != matrix.others + len(found):
        raise NotUnderstood("others get the matrix")
    return found


def _refuse_shared(module: cst.Module, kernel: cst.FunctionDef, site: LaunchSite, reach: Reach) -> None:
    """The kernel has to be launched here alone, by a line of its own that gives everything by its place."""
    name, taken = kernel.name.value, (*NEW_NAMES, *reach.constants)
    if imports.mentions(module, name) != 2 or len(source.sites(module, name)) != 1 or not zeros.is_alone(site):
        raise NotUnderstood("others know the kernel")
    if len(site.call.args) != len(source.parameters(kernel)):
        raise NotUnderstood("the launch leaves something to the kernel")
    known = [n for n in taken if findall(kernel.params, m.Name(n)) or findall(kernel.body, m.Name(n))]
    if known or len(set(taken)) != len(taken):
        raise NotUnderstood("a name is the kernel's already")


def _in_loop(reader: Reader, added: product_sums.Sum, load: cst.Call) -> tuple[str, str]:
    """The end of the loop and its step, where it goes through chunks of the matrix that are loaded and multiplied."""
    kernel, loop = reader.kernel, added.loop
    product_sums.refuse_reckoned(loop)
    if not m.matches(loop.iter, STEPS):
        raise NotUnderstood("the loop is not from the first column on, step by step")
    end, step = (source.code(arg.value) for arg in cst.ensure_type(loop.iter, cst.Call).args[1:])
    if not kernels.is_handed(kernel, end) or not kernels.is_handed(kernel, step):
        raise NotUnderstood("the loop ends, or goes on, by what changes")
    if step not in kernels.constants(kernel):
        raise NotUnderstood("the loop goes on by what is no constant")
    made = [name for name in bound_in(loop) if name != added.total]
    if any(times_bound(kernel, name) != 1 or name in source.parameters(kernel) for name in made):
        raise NotUnderstood("a turn may need what another made")
    chunks = [source.targets(line)[0] for line in loop.body.body if source.value(line) is load]
    if len(chunks) != 1 or source.loads(kernel, chunks[0]) != 1:
        raise NotUnderstood("a chunk serves for more than a product")
    chunk = m.Name(chunks[0])
    turned = m.Call(m.Attribute(m.Name("tl"), m.Name("trans")), [m.Arg(chunk, keyword=None, star="")])
    if not any(m.matches(arg.value, chunk | turned) for arg in added.product.args):
        raise NotUnderstood("a chunk is not multiplied as it is")
    return end, step


def _bounds(kernel: cst.FunctionDef, start: str, block: str, end: str, step: str) -> tuple[str, ...]:
    """Where the loop begins and ends. One that is compiled for a single turn is not pipelined, and stays so."""
    first = f"first = tl.maximum(0, {start}.to(tl.int64) - reach) // {step} * {step}"
    last = f"last = tl.minimum({end}, {start}.to(tl.int64) + {block} + reach)"
    if end not in kernels.constants(kernel):
        return first, last
    return "first = 0", f"last = {end}", f"if {end} > {step}:\n    {first}\n    {last}\n"


def _within(module: cst.Module, reader: Reader, reach: Reach) -> cst.FunctionDef:
    """The kernel with a loop that begins and ends within reach."""
    kernel, matrix = reader.kernel, reader.matrix
    added, load = product_sums.sum_of(module, kernel), product_sums.load_of(kernel, reader.pointer)
    end, step = _in_loop(reader, added, load)
    names = addresses.names_of(kernel)
    tiled, terms = Tiled(reader.site, kernel, names, ()), addresses.terms(load.args[0].value, names)
    terms.remove((reader.pointer,))
    *outer, one, other = tile_stores.indexed(tiled, terms, matrix.name)
    if len(outer) + 2 != matrix.axes or not all(product_sums.is_of_program(kernel, index) for index in outer):
        raise NotUnderstood("it is not known which matrix is read")
    place = source.code(added.loop.target)
    columns = [n for n, v in names.made.items() if m.matches(v, product_sums.counted(m.Name(place), step))]
    if len(columns) != 1 or (source.loads(kernel, place), source.loads(added.loop.body, place)) != (2, 1):
        raise NotUnderstood("places are not counted by the loop")
    product_sums.refuse_wrapped(added.loop, columns[0])
    ks, rows = (one, other) if one.startswith(f"{columns[0]}[") else (other, one)
    axes = {index[index.find("[") :] for index in (ks, rows)}
    if not ks.startswith(f"{columns[0]}[") or axes != {tile_stores.DOWN, tile_stores.ACROSS}:
        raise NotUnderstood("rows and columns are not those of the matrix")
    _refuse_outside(tiled, load, {ks, rows}, matrix.size)
    start, block = product_sums.side(kernel, rows, added.at)
    far = source.assignment(f"reach = {reach.far}")
    why = f"Farther from its row than the mask of {reach.kernel.name.value} reaches {reader.pointer} holds zeros."
    above, said = source.split_above(added.loop)
    far = far.with_changes(leading_lines=(*above, *source.comment_lines(why)))
    bounds = [cst.parse_statement(line) for line in _bounds(kernel, start, block, end, step)]
    loop = added.loop.with_changes(iter=source.expression(f"range(first, last, {step})"), leading_lines=said)
    return _told(kernel, {added.loop: (far, *bounds, loop)}, reach)


def _refuse_outside(tiled: Tiled, load: cst.Call, indices: set[str], size: str) -> None:
    """Behind the last row and column there has to be nothing, and in its place zero."""
    other = kernels.argument(load, 2, "other")
    asked = [said.partition(" < ") for said in product_sums.asked(tiled.kernel, kernels.argument(load, 1, "mask"))]
    params = source.parameters(tiled.kernel)
    ended = {index for index, _, end in asked if end in params and tiled.host(end) == size}
    if not isinstance(other, cst.Float | cst.Integer) or other.evaluated_value != 0 or not indices <= ended:
        raise NotUnderstood("what is read may lie outside of the matrix")


def _told(kernel: cst.FunctionDef, new: exchanging.New, reach: Reach) -> cst.FunctionDef:
    """The kernel with other lines, and with the constants of the reach as its last parameters."""
    lines = cst.ensure_type(exchanging.exchanged(kernel, new), cst.FunctionDef)
    changed = last_places.with_constants(lines, reach.constants)
    refuse_long_lines(kernel, changed)
    return changed


def _launched(site: LaunchSite, matrix: Zeros, reach: Reach) -> cst.Call:
    return last_places.with_values(site.call, [matrix.told[name] for name in reach.constants])


def _filled(module: cst.Module, matrix: Zeros, factor: Factor) -> Reader:
    """The launch that fills a matrix which is multiplied by zeros out of reach."""
    found = []
    for kernel in kernels.kernels(module):
        for site in source.sites(module, kernel.name.value):
            told = [p for p in source.parameters(kernel) if m.matches(by_place.told(site, p), m.Name(factor.name))]
            if site.function is matrix.function and told and matrix.since < site.position < factor.until:
                found.append(Reader(kernel, site, told[0], matrix))
    if len(found) != 1:
        raise NotUnderstood("the gradient is not filled once")
    sizes = tile_stores.sizes(found[0].site, found[0].kernel, found[0].pointer, factor.name)
    if len(sizes) != matrix.axes or sizes[-2:] != (matrix.size, matrix.size):
        raise NotUnderstood("the gradient is not of rows and columns")
    return found[0]


def _left_out(module: cst.Module, reader: Reader, factor: Factor, reach: Reach) -> cst.FunctionDef:
    """The kernel with a loop that tiles out of reach do not enter."""
    kernel = reader.kernel
    added = product_sums.sum_of(module, kernel)
    store = product_sums.store_of(module, kernel, added)
    tiled = Tiled(reader.site, kernel, addresses.names_of(kernel), ())
    terms = addresses.terms(store.args[0].value, tiled.names)
    terms.remove((reader.pointer,))
    *_, down, across = tile_stores.indexed(tiled, terms, factor.name)
    row, rows = product_sums.side(kernel, down, added.at)
    column, columns = product_sums.side(kernel, across, added.at)
    test = f"({column} - {row} - {rows} < reach) & ({row} - {column} - {columns} < reach)"  # in 32 bits, of any reach
    above, said = source.split_above(added.loop)
    why = f"Farther from its row than the mask of {reach.kernel.name.value} reaches it is multiplied by zeros."
    top = source.assignment(f"reach = {reach.far}")
    top = top.with_changes(leading_lines=(*above, *source.comment_lines(why)))
    inner = cst.IndentedBlock(body=[added.loop.with_changes(leading_lines=said)])
    return _told(kernel, {added.loop: (top, cst.If(source.expression(test), inner))}, reach)


def _found(module: cst.Module, kernel: cst.FunctionDef) -> Iterator[tuple[Reach, Reader, Factor | None]]:
    """Every launch that is given a matrix of the kernel's which is zero out of reach, or fills one that is multiplied
    by such a matrix."""
    reach = reaches.reach_of(module, kernel)
    (site,) = source.sites(module, kernel.name.value)
    weights = zeros.weights(module, site, reach)
    yield from ((reach, reader, None) for reader in _readers(module, weights))
    kept = passes.kept_weights(module, weights)
    gradient, factor = zeros.multiplied(module, kept)  # which knows that nobody else gets the weights
    yield from ((reach, reader, None) for reader in _readers(module, kept))
    yield from ((reach, reader, None) for reader in _readers(module, gradient))
    if factor is not None:
        yield reach, _filled(module, kept, factor), factor


def _changes(module: cst.Module, relied_on: Collection[str]) -> tuple[dict[cst.CSTNode, tuple[cst.CSTNode]], list[str]]:
    new, names = dict[cst.CSTNode, tuple[cst.CSTNode]](), list[str]()
    for kernel in kernels.kernels(module):
        found = list[tuple[Reach, Reader, Factor | None]]()
        with contextlib.suppress(NotUnderstood, ValueError):  # what was found until then is sure
            for one in _found(module, kernel):
                found.append(one)
        for reach, reader, factor in found:
            site, name = reader.site, reader.kernel.name.value
            try:
                if name in relied_on or site.position <= reader.matrix.since:
                    raise NotUnderstood("others launch the kernel, or it is launched before")
                _refuse_shared(module, reader.kernel, site, reach)
                made = _within(module, reader, reach) if factor is None else _left_out(module, reader, factor, reach)
                call = _launched(site, reader.matrix, reach)
            except (NotUnderstood, ValueError):
                continue
            new |= {reader.kernel: (made,), site.call: (call,)}
            names.append(name)
    return new, names


def rewrite(text: str, relied_on: Collection[str] = ()) -> Rewrite | None:
    """`relied_on`: names that other files import, whose parameters have to stay."""
    if "_softmax_forward(" not in text or "tl.where(" not in text:
        return None
    try:
        module = source.parse(text)
        new, names = _changes(module, relied_on)
    except (NotUnderstood, RecursionError):
        return None
    if not names:
        return None
    changed = cst.ensure_type(exchanging.exchanged(module, new), cst.Module)
    return Rewrite(
        text=source.written(long_lines.in_lines(changed, text)),
        kernels=tuple(names),
        title="Products stop where a mask has left zeros",
        why="Farther from its row than a mask reaches a softmax is zero, and so is its gradient. Products over such a "
        "matrix go through all of its columns, and make tiles that are multiplied by zeros.",
        seen="1.38x for fused_neighborhood_attention on an H200, where its mask was made where it is read besides.",
    )


def applies(text: str) -> bool:
    return rewrite(text) is not None
