"""Load the next blocks of a product while one is multiplied, where its author had the loop written out.

    for k0 in tl.static_range(0, K, BLOCK_K):
        x = tl.load(...)
        phi = tl.load(...)
        acc += tl.dot(x, phi)

`tl.static_range` writes a loop out, turn by turn. Nothing is left to pipeline, and each turn asks for its blocks and
waits. Liger's mhc_coeffs multiplies rows of 8192 numbers so, in 32 turns, with one program of four warps on each
multiprocessor: 120 us on an H100 for the 23 us that its bytes take. Compiled for sm_90 it has 15,498 lines of PTX, 147
registers and no load ahead; as `tl.range(..., num_stages=3)` 716 and 58, and two steps of `cp.async` are under way.

How many stages there is room for is said in the kernel, from the types of what it is handed, as in `pipeline_steps`:
at most 48 KiB a step, two steps held. Where many programs share a multiprocessor, others work while one waits, and more
of them fit with one block each: on an H200 such loads made mhc_coeffs' forward pass 1.13x in 256 programs, 0.71x in 384
and 0.84x in 616. So where a kernel is compiled for the sizes that make its grid, 256 are the most that load ahead, and
both loops go through the same turn. Refused unless the loop goes on by a constant block, its counter serves for
nothing but the columns of a step, nothing is stored in it, and whatever outlives it is a sum in float32 that begins
with zero in front of it: a loop that is run needs each name to keep its type.
"""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import addresses, kernels, own_turn, source
from bot.engine.bindings import bound_in, times_bound
from bot.engine.finding import findall
from bot.engine.source import LONGEST, NotUnderstood
from bot.engine.transforms.pipeline_steps import BITS, LEAVES, MOST_BYTES, NESTED, PARAMETER, STAGES
from bot.engine.transforms.rewrite import Rewrite, each_kernel

WHY = "The blocks to come are loaded while these are multiplied, as long as they fit into shared memory."
FEW, COUNT = 256, "programs"
"""Two on a multiprocessor, of the 132 that an H200 has, are few."""
WHY_FEW = "Of few programs each loads the blocks to come while these are multiplied; of many, others work meanwhile."
SIZES = m.Tuple(elements=[m.AtLeastN(m.Element(m.DoesNotMatch(m.Integer("1"))), n=1)])
"""One zero becomes many with the first turn, and a loop that is run keeps its shapes."""
ZERO = m.Call(
    func=m.Attribute(m.Name("tl"), m.Name("zeros")),
    args=[m.Arg(SIZES), m.Arg(m.Attribute(m.Name("tl"), m.Name("float32")))],
)


@dataclass(frozen=True, slots=True)
class Product:
    loop: cst.For
    call: cst.Call
    """`tl.static_range(0, size, block)`."""
    loads: tuple[tuple[str, tuple[str, str]], ...]
    """Through which pointer, and the constants that a block is as high and as wide as."""


def _walk(kernel: cst.FunctionDef, loop: cst.For) -> cst.Call:
    """The range of a loop over constant steps whose counter is for the columns of a step alone."""
    call, counter = loop.iter, loop.target
    if not isinstance(call, cst.Call) or source.code(call.func) != "tl.static_range" or len(call.args) != 3:
        raise NotUnderstood("it is not written out")
    first, size, block = (source.code(arg.value) for arg in call.args)
    plain = all(arg.keyword is None and not arg.star for arg in call.args) and isinstance(counter, cst.Name)
    if not plain or first != "0" or not {size, block} <= kernels.constants(kernel):
        raise NotUnderstood("it does not go on by a constant block")
    step = m.BinaryOperation(left=m.Name(source.code(counter)), operator=m.Add(), right=kernels.arange_of(block))
    columns = findall(loop.body, step)
    if not columns or source.loads(loop.body, source.code(counter)) != len(columns):
        raise NotUnderstood("its counter is for more than the columns of a step")
    elsewhere = sum(source.loads(line, source.code(counter)) for line in source.statements(kernel) if line is not loop)
    if elsewhere:
        raise NotUnderstood("its counter is known outside of it")
    return call


def _refuse_what_lasts(kernel: cst.FunctionDef, loop: cst.For) -> None:
    """Sums in float32 may outlive the loop; all else is made anew in each turn."""
    called = {kernels.called_name(call) for call in kernels.calls(loop.body)}
    if findall(loop.body, LEAVES | NESTED) or any(
        n == "store" or "barrier" in n or n.startswith("atomic") for n in called
    ):
        raise NotUnderstood("more than a product")
    if "dot" not in called or any(not isinstance(one.target, cst.Name) for one in _grown(loop)):
        raise NotUnderstood("no product, or a part of something grows")
    lines = source.statements(kernel)
    at = next(place for place, line in enumerate(lines) if line is loop)
    sums = {source.code(one.target) for one in _grown(loop)}
    for name in sums:
        begins = [line for line in lines[:at] if source.is_plain(line, name) and m.matches(source.value(line), ZERO)]
        within = [one for one in _grown(loop) if source.code(one.target) == name]
        if (
            len(begins) != 1
            or times_bound(kernel, name) != 1 + len(within)
            or source.loads(loop.body, name) > len(within)
        ):
            raise NotUnderstood(f"{name} is no sum that begins with zero")
        if any(not isinstance(one.operator, cst.AddAssign) for one in within):
            raise NotUnderstood(f"{name} is more than a sum")
    made = bound_in(loop.body).keys() - sums
    if any(len(findall(kernel, m.Name(name))) != len(findall(loop.body, m.Name(name))) for name in made):
        raise NotUnderstood("what a turn makes is known outside of it")


def _grown(loop: cst.For) -> list[cst.AugAssign]:
    return [cst.ensure_type(one, cst.AugAssign) for one in findall(loop.body, m.AugAssign())]


def _lengths(kernel: cst.FunctionDef) -> dict[str, str]:
    """Of each name that is a range of places, how many there are."""
    found: dict[str, str] = {}
    for line in findall(kernel, m.SimpleStatementLine()):
        ranges = kernels.calls(source.value(line), "arange") if len(source.targets(line)) == 1 else []
        if len(ranges) == 1 and len(ranges[0].args) == 2 and times_bound(kernel, source.targets(line)[0]) == 1:
            found[source.targets(line)[0]] = source.code(ranges[0].args[1].value)
    return found


def _block(kernel: cst.FunctionDef, load: cst.Call) -> tuple[str, tuple[str, str]]:
    """`pointer + rows[:, None] * stride + columns[None, :] * stride`: the pointer, and how many of each."""
    parts = [source.code(part) for part in addresses.parts(load.args[0].value)]
    if parts[0] not in source.parameters(kernel) or any(arg.keyword is None for arg in load.args[1:]):
        raise NotUnderstood("an address does not begin with a pointer of the kernel's")
    if findall(load, m.Arg(keyword=m.Name("eviction_policy") | m.Name("cache_modifier"))):
        raise NotUnderstood("a load says how long the cache keeps it, and would say nothing any more")
    lengths, sizes = _lengths(kernel), []
    for shape in ("[:, None]", "[None, :]"):
        names = [name for name in lengths if any(part.startswith(name + shape) for part in parts)]
        if len(names) != 1 or lengths[names[0]] not in kernels.constants(kernel):
            raise NotUnderstood("nobody knows how large a block is")
        sizes.append(lengths[names[0]])
    return parts[0], (sizes[0], sizes[1])


def _product(kernel: cst.FunctionDef, loop: cst.For) -> Product:
    call = _walk(kernel, loop)
    _refuse_what_lasts(kernel, loop)
    loads = kernels.calls(loop.body, "load")
    if len(loads) < 2:
        raise NotUnderstood("a product of less than two blocks")
    return Product(loop, call, tuple(_block(kernel, load) for load in loads))


def _limit(kernel: cst.FunctionDef, name: str) -> str:
    """The constant that a range of places ends at, as each mask says."""
    place = m.Name(name) | m.Subscript(value=m.Name(name))
    found = findall(kernel, m.Comparison(left=place, comparisons=[m.ComparisonTarget(m.LessThan(), m.Name())]))
    said = {source.code(cst.ensure_type(one, cst.Comparison).comparisons[0].comparator) for one in found}
    if len(said) != 1 or not said <= kernels.constants(kernel) or any(times_bound(kernel, one) for one in said):
        raise NotUnderstood("nobody knows how many programs there are")
    return said.pop()


def _programs(kernel: cst.FunctionDef) -> str:
    """How many there are, where each axis of the grid goes over places that the kernel is compiled for."""
    lengths, terms = _lengths(kernel), []
    lines = [line for line in source.statements(kernel) if len(source.targets(line)) == 1]
    own = {source.targets(line)[0]: source.code(source.value(line)) for line in lines}
    asked = [source.code(call) for call in kernels.calls(kernel, "program_id")]
    for call in asked:
        spellings = {call, *(name for name, said in own.items() if said == call and times_bound(kernel, name) == 1)}
        wanted = {
            f"{said} * {block} + tl.arange(0, {block})": block for said in spellings for block in lengths.values()
        }
        ranges = [(name, wanted[said]) for name, said in own.items() if name in lengths and said in wanted]
        if len(ranges) != 1 or asked.count(call) != 1 or ranges[0][1] not in kernels.constants(kernel):
            raise NotUnderstood("an axis of the grid is for something else")
        (name, block) = ranges[0]
        terms.append(f"(({_limit(kernel, name)} + {block} - 1) // {block})")
    if not terms or any(call not in kernels.PROGRAMS for call in asked):
        raise NotUnderstood("no axis of the grid")
    return " * ".join(terms)


def _bits(product: Product, why: str) -> cst.SimpleStatementLine:
    """What is loaded in one step, below what is said of the loop."""
    parts = [f"{high} * {wide} * {name}.dtype.element_ty.primitive_bitwidth" for name, (high, wide) in product.loads]
    line = f"{BITS}: tl.constexpr = {' + '.join(parts)}"
    if len(line) + 4 > LONGEST:
        inside = "\n    + ".join(parts)
        line = f"{BITS}: tl.constexpr = (\n    {inside}\n)"
    said = source.assignment(line, why)
    return said.with_changes(leading_lines=(*product.loop.leading_lines, *said.leading_lines))


def _ahead(product: Product, stages: cst.BaseExpression) -> cst.For:
    """The loop that loads so many stages ahead."""
    call = product.call.with_changes(func=source.expression("tl.range"))
    changed = product.loop.deep_replace(product.call, source.with_argument(call, "num_stages", stages))
    return cst.ensure_type(changed, cst.For).with_changes(leading_lines=())


def _where_it_fits(module: cst.Module, product: Product) -> cst.Module:
    """Whatever the grid is."""
    fits = f"{STAGES} if {BITS} <= {MOST_BYTES * 8} else 1"
    lines = [
        _bits(product, WHY),
        source.assignment(f"{PARAMETER}: tl.constexpr = {fits}"),
        _ahead(product, cst.Name(PARAMETER)),
    ]
    return source.spliced(module, [(product.loop, lines)])


def _where_programs_are_few(module: cst.Module, kernel: cst.FunctionDef, product: Product, programs: str) -> cst.Module:
    """The two loops, and what both of them do in each turn."""
    grown = {source.code(one.target) for one in _grown(product.loop)}
    sums = [source.targets(line)[0] for line in source.statements(kernel) if {*source.targets(line)} & grown]
    turn = own_turn.of_loop(module, kernel, product.loop, sums)
    ahead, before = (
        one.with_changes(body=one.body.with_changes(body=[turn.call], footer=()), leading_lines=())
        for one in (_ahead(product, cst.Integer(str(STAGES))), product.loop)
    )
    test = source.expression(f"{BITS} <= {MOST_BYTES * 8} and {COUNT} <= {FEW}")
    lines = [
        _bits(product, WHY_FEW),
        source.assignment(f"{COUNT}: tl.constexpr = {programs}"),
        cst.If(test, cst.IndentedBlock([ahead]), cst.Else(cst.IndentedBlock([before]))),
    ]
    changed = cst.ensure_type(source.spliced(cst.Module([kernel]), [(product.loop, lines)]).body[0], cst.FunctionDef)
    return source.spliced(module, [(kernel, own_turn.above(changed, turn))])


def _pipelined(module: cst.Module, name: str) -> cst.Module:
    kernel = source.kernel_named(module, name)
    assert kernel is not None
    if findall(kernel, m.Name(PARAMETER) | m.Name(BITS) | m.Name(COUNT)):
        raise NotUnderstood("it loads ahead already, or a name is taken")
    products = []
    for loop in (line for line in source.statements(kernel) if isinstance(line, cst.For)):
        try:
            products.append(_product(kernel, loop))
        except NotUnderstood:
            continue
    if len(products) != 1:
        raise NotUnderstood("not one loop of products that is written out")
    (product,) = products
    try:
        return _where_programs_are_few(module, kernel, product, _programs(kernel))
    except NotUnderstood:
        return _where_it_fits(module, product)


def rewrite(text: str) -> Rewrite | None:
    """Every kernel of the file with such a loop."""
    if "tl.static_range(0, " not in text or "tl.dot(" not in text:
        return None
    return each_kernel(
        text,
        _pipelined,
        title="Load the blocks of a product to come while one is multiplied",
        why="A loop that is written out turn by turn asks for its blocks and waits for them in each. As a loop in "
        "stages it has the next blocks under way meanwhile.",
    )


def applies(text: str) -> bool:
    return rewrite(text) is not None
