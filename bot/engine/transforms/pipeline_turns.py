"""Load the next turns' rows while one is worked on, where a loop is written out up to a constant.

    for i in tl.static_range(0, MAX_BLOCKS):
        if i < n_blocks:
            v = tl.load(V_ptr + i * n_tokens * D + tok * D + cols, mask=d_mask, other=0.0).to(tl.float32)
            ms = tl.sum(v * v, axis=0) / D

`tl.static_range` writes every turn out, each behind a branch of its own. No load is moved over a branch, so each turn
asks for its row, waits for it, lets all warps meet for its sums, and only then asks for the next. As a loop that counts
to the number of the launch, in stages, it has the next rows under way meanwhile. On an H100 sketches of Liger's
attn_res so took 145 to 188 us for backward passes of 178 to 214 us, and with half the warps 74 to 99 us for forward
passes of 82 to 102.

How many stages there is room for is said in the kernel, from the types of what it is handed, as in `pipeline_steps`:
four of up to 8 KiB a turn, three of up to 40. A loop that counted no further than its constant does not now either.
Refused unless the counter is only added to and multiplied with numbers of the launch, compared, and handed to loads,
stores, the question of `tl.where` and what adds up; as an index, a shape or half of a quotient it may have to be a
constant, and beside one it was Python's arithmetic. What is stored in the loop has to be a new tensor where the kernel
is launched, and nothing else be done with that: what is loaded ahead must not be what an earlier turn still writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import addresses, host_tensors, kernels, source
from bot.engine.bindings import ASSIGNMENT, bound_in, made_of, times_bound
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood
from bot.engine.transforms.pipeline_steps import BITS, LEAVES, NESTED, PARAMETER, STAGES
from bot.engine.transforms.rewrite import Rewrite, each_kernel

SHORT_STAGES, SHORT_BYTES, MOST_BYTES = 4, 8192, 40960
"""Of all rows loaded in one turn. Two turns are held, and the smallest chips since Ampere have 99 KiB in all."""
TITLE = "Load the rows of the turns to come while one is worked on"
WHY = (
    "A loop that is written out up to a constant, with a branch in each turn, asks for a row and waits for it. As a "
    "loop in stages that counts to the number of the launch it has the next rows under way meanwhile."
)
COMMENT = "The rows of the turns to come are loaded while one is worked on, as long as they fit into shared memory."
HANDED_TO = ("load", "store", "where", "sum", "max", "min")
BRANCHES = m.If() | m.IfExp() | m.BooleanOperation() | m.Lambda() | m.NamedExpr() | m.AnnAssign()
HINTED = m.Arg(keyword=m.Name("eviction_policy") | m.Name("cache_modifier") | m.Name("volatile"))
GROWN = m.AugAssign(operator=~(m.AddAssign() | m.SubtractAssign() | m.MultiplyAssign()))
NARROW = m.OneOf(*(m.Name(name) for name in ("int8", "uint8", "int16", "uint16", "int1")))
"""Types that a counter would widen, where a constant did not."""
LARGEST = 2**16
"""A literal that the counter may be multiplied with."""


@dataclass(frozen=True, slots=True)
class Turns:
    loop: cst.For
    branch: cst.If
    number: str
    """How many turns there are."""
    most: str
    """The constant that they are written out up to."""
    rows: tuple[tuple[str, str], ...]
    """Through which pointers rows are loaded, and the constant that each is as long as."""
    stored: frozenset[str]
    """Pointers that are stored through."""
    loaded: frozenset[str]
    """Those that anything is loaded through."""

    @property
    def bits(self) -> str:
        return " + ".join(f"{size} * {name}.dtype.element_ty.primitive_bitwidth" for name, size in self.rows)


def _head(kernel: cst.FunctionDef, loop: cst.For) -> tuple[str, str, cst.If]:
    """The counter, the constant, and the one branch that each turn is."""
    call, counter, body = loop.iter, loop.target, loop.body.body
    if not isinstance(call, cst.Call) or source.code(call.func) != "tl.static_range" or loop.orelse is not None:
        raise NotUnderstood("it is not written out")
    said = [source.code(arg.value) for arg in call.args]
    plain = all(arg.keyword is None and not arg.star for arg in call.args) and isinstance(counter, cst.Name)
    if any(findall(part, m.Comment()) for part in (call, *_edges(loop))):
        raise NotUnderstood("a comment would be lost")
    if not plain or said[:-1] not in ([], ["0"]) or said[-1] not in kernels.constants(kernel):
        raise NotUnderstood("it does not count from zero to a constant")
    branch = body[0] if len(body) == 1 else None
    if not isinstance(branch, cst.If) or branch.orelse is not None or not isinstance(branch.body, cst.IndentedBlock):
        raise NotUnderstood("a turn is not one branch")
    return source.code(counter), said[-1], branch


def _edges(loop: cst.For) -> list[cst.CSTNode]:
    """What stands behind the colon, and below the last line."""
    body = loop.body
    return [body.header, *body.footer] if isinstance(body, cst.IndentedBlock) else []


def _number(kernel: cst.FunctionDef, branch: cst.If, counter: str) -> str:
    """`counter < number`, where that is what the launch said all the way."""
    number = source.code(branch.test).removeprefix(f"{counter} < ")
    if source.code(branch.test) != f"{counter} < {number}" or number not in source.parameters(kernel):
        raise NotUnderstood("a turn does not ask whether it still counts")
    if times_bound(kernel, number) or number in kernels.constants(kernel):
        raise NotUnderstood(f"{number} is not what the launch said, or a branch that is no branch")
    return number


def _open(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """An expression's parts, but for what is handed to calls."""
    yield node
    for child in () if isinstance(node, cst.Call) else node.children:
        yield from _open(child)


def _openly(node: cst.CSTNode, name: str) -> bool:
    return any(isinstance(one, cst.Name) and one.value == name for one in _open(node))


def _derived(kernel: cst.FunctionDef, called: str) -> frozenset[str]:
    """Names that may hold what this function of Triton's gives, or what is made of that."""
    call = m.Call(func=m.Name(called) | m.Attribute(attr=m.Name(called)))
    return made_of(findall(kernel, ASSIGNMENT), call)


def _refuse_constants(kernel: cst.FunctionDef, loop: cst.For, counter: str) -> None:
    """Raises NotUnderstood where the counter may have to be a constant, or outlives its loops."""
    loops = findall(kernel, m.For(target=m.Name(counter)))
    if len(findall(kernel, m.Name(counter))) != sum(len(findall(one, m.Name(counter))) for one in loops):
        raise NotUnderstood("its counter is known outside of it")
    if bound_in(loop.body)[counter]:
        raise NotUnderstood("its counter is given another value")
    for call in kernels.calls(loop.body):
        handed = [at for at, arg in enumerate(call.args) if findall(arg, m.Name(counter))]
        if handed and source.code(call.func) not in [f"tl.{name}" for name in HANDED_TO]:
            raise NotUnderstood("its counter is handed to what may ask for a constant")
        if handed and kernels.called_name(call) not in ("load", "store") and (handed != [0] or call.args[0].keyword):
            raise NotUnderstood("its counter is more than a question")
        if "static" in kernels.called_name(call) or findall(call.func, m.Name(counter)):
            raise NotUnderstood("a turn asks for constants")
    loaded = _derived(kernel, "load")

    def strange(part: cst.CSTNode) -> bool:
        """Beside the counter: a constant, with which it was Python's arithmetic, or what was loaded."""
        if isinstance(part, cst.Name):
            return part.value in kernels.constants(kernel) or part.value in loaded
        return isinstance(part, cst.Call | cst.Float) or (
            isinstance(part, cst.Integer) and int(part.value, 0) > LARGEST
        )

    for one in findall(loop.body, m.Subscript() | m.UnaryOperation() | m.BinaryOperation()):
        if not _openly(one, counter):
            continue
        whole = isinstance(one, cst.BinaryOperation) and isinstance(one.operator, cst.Add | cst.Subtract | cst.Multiply)
        if not whole or any(map(strange, _open(one))):
            raise NotUnderstood("its counter is more than added to and multiplied with numbers of the launch")


def _refuse_more(branch: cst.If) -> None:
    called = {kernels.called_name(call) for call in kernels.calls(branch.body)}
    if findall(branch.body, LEAVES | NESTED | BRANCHES | GROWN):
        raise NotUnderstood("a turn is more than one line behind the other")
    if any("barrier" in name or "asm" in name or name.startswith("atomic") for name in called):
        raise NotUnderstood("turns depend on each other")
    if findall(branch.body, HINTED):
        raise NotUnderstood("a load says how long the cache keeps it, and would say nothing any more")


def _lengths(kernel: cst.FunctionDef) -> dict[str, str]:
    """Of each name that is a row of places, the constant that says how many there are."""
    found: dict[str, str] = {}
    for line in findall(kernel, m.SimpleStatementLine()):
        names = source.targets(line)
        if len(names) != 1 or times_bound(kernel, names[0]) != 1:
            continue
        for size in kernels.constants(kernel):
            if m.matches(source.value(line), kernels.arange_of(size)):
                found[names[0]] = size
    return found


def _pointer(kernel: cst.FunctionDef, call: cst.Call) -> str:
    if not call.args or call.args[0].keyword is not None:
        raise NotUnderstood("an access without an address")
    first = source.code(addresses.parts(call.args[0].value)[0])
    if first not in source.parameters(kernel) or times_bound(kernel, first):
        raise NotUnderstood("an address does not begin with a pointer of the kernel's")
    return first


def _rows(kernel: cst.FunctionDef, branch: cst.If) -> tuple[tuple[str, str], ...]:
    lengths, spread, rows = _lengths(kernel), _derived(kernel, "arange"), list[tuple[str, str]]()
    for load in kernels.calls(branch.body, "load"):
        pointer, place = _pointer(kernel, load), load.args[0].value
        along = [name for name in spread if source.loads(place, name)]
        if len(along) > 1 or not set(along) <= {*lengths} or findall(place, m.Subscript() | m.Call()):
            raise NotUnderstood("more than a row is loaded, or nobody knows how much")
        rows += [(pointer, lengths[along[0]])] if along else []
    if not rows:
        raise NotUnderstood("no row is loaded in it")
    return tuple(rows)


def _turns(kernel: cst.FunctionDef, loop: cst.For) -> Turns:
    counter, most, branch = _head(kernel, loop)
    number = _number(kernel, branch, counter)
    _refuse_constants(kernel, loop, counter)
    _refuse_more(branch)
    stored = frozenset(_pointer(kernel, call) for call in kernels.calls(branch.body, "store"))
    loaded = frozenset(_pointer(kernel, call) for call in kernels.calls(branch.body, "load"))
    if stored & loaded:
        raise NotUnderstood("a turn loads what another stores")
    return Turns(loop, branch, number, most, _rows(kernel, branch), stored, loaded)


def _handed(site: source.LaunchSite, kernel: cst.FunctionDef, pointer: str) -> str:
    told = kernels.told(site.call, kernel, pointer)
    if not isinstance(told, cst.Name):
        raise NotUnderstood("something without a name is handed over")
    return str(told.value)


def _other_uses(function: cst.FunctionDef, name: str) -> bool:
    """Whether more is done with a tensor than to make it, to hand it to a launch and to return it."""
    bound = len(findall(function, m.AssignTarget(m.Name(name))))
    handed = sum(
        isinstance(arg.value, cst.Name) and arg.value.value == name
        for launch in findall(function, source.LAUNCH)
        for arg in cst.ensure_type(launch, cst.Call).args
    )
    returned = sum(len(findall(one, m.Name(name))) for one in findall(function, m.Return()))
    return bool(len(findall(function, m.Name(name))) != bound + handed + returned)


def _refuse_old(module: cst.Module, kernel: cst.FunctionDef, turns: Turns) -> None:
    """Raises NotUnderstood unless whatever is stored through is made for each launch, and is not what is loaded."""
    launches = source.sites(module, str(kernel.name.value)) if turns.stored else ()
    known = findall(module, m.Name(kernel.name.value))
    if turns.stored and (not launches or len(known) != 1 + len(launches)):
        raise NotUnderstood("nobody knows what it stores to")
    for site in launches:
        new = {_handed(site, kernel, one) for one in turns.stored}
        for name in new:
            made = list(host_tensors.bindings(site.function, name))
            if len(made) != 1 or times_bound(site.function, name) != 1 or not m.matches(made[0], host_tensors.NEW):
                raise NotUnderstood(f"{name} is not new")
            if findall(made[0], m.Arg(keyword=m.Name("out"))) or _other_uses(site.function, name):
                raise NotUnderstood(f"{name} may be known by another name")
        if new & {_handed(site, kernel, one) for one in turns.loaded}:
            raise NotUnderstood("what is stored is what is loaded")


def _stages(turns: Turns) -> list[cst.SimpleStatementLine]:
    """What a turn loads, and how many turns there is room for."""
    few = f"{STAGES} if {BITS} <= {MOST_BYTES * 8} else 1"
    return [
        source.assignment(f"{BITS}: tl.constexpr = {turns.bits}", COMMENT),
        source.assignment(f"{PARAMETER}: tl.constexpr = {SHORT_STAGES} if {BITS} <= {SHORT_BYTES * 8} else {few}"),
    ]


def _counted(turns: Turns) -> cst.For:
    """The loop to the number of the launch, without the branch in each turn."""
    call = cst.ensure_type(turns.loop.iter, cst.Call)
    stop = source.expression(f"tl.minimum({turns.number}, {turns.most})")
    args = [*call.args[:-1], call.args[-1].with_changes(value=stop)]
    staged = source.with_argument(
        call.with_changes(func=source.expression("tl.range"), args=args), "num_stages", cst.Name(PARAMETER)
    )
    block = cst.ensure_type(turns.branch.body, cst.IndentedBlock)
    first, *others = block.body
    above = (*turns.branch.leading_lines, *getattr(first, "leading_lines", ()))
    body = block.with_changes(body=[first.with_changes(leading_lines=above), *others])
    return turns.loop.with_changes(iter=staged, body=body)


def _pipelined(module: cst.Module, name: str) -> cst.Module:
    kernel = source.kernel_named(module, name)
    assert kernel is not None
    if findall(kernel, m.Name(PARAMETER) | m.Name(BITS) | NARROW):
        raise NotUnderstood("it loads ahead already, a name is taken, or a type is narrow")
    found: list[Turns] = []
    for loop in (line for line in source.statements(kernel) if isinstance(line, cst.For)):
        try:
            turns = _turns(kernel, loop)
            _refuse_old(module, kernel, turns)
        except NotUnderstood:
            continue
        found += [turns] if not found or turns.bits == found[0].bits else []
    if not found:
        raise NotUnderstood("no loop over rows that is written out")
    top, *others = found
    empty, said = source.split_above(top.loop)
    bits, stages = _stages(top)
    above = bits.with_changes(leading_lines=(*empty, *bits.leading_lines))
    begun = [above, stages, _counted(top).with_changes(leading_lines=said)]
    return source.spliced(module, [(top.loop, begun), *((one.loop, [_counted(one)]) for one in others)])


def rewrite(text: str, only: str = "") -> Rewrite | None:
    """Every kernel of the file with such a loop."""
    if "tl.static_range(" not in text:
        return None
    return each_kernel(text, _pipelined, title=TITLE, why=WHY, only=only)


def applies(text: str) -> bool:
    return rewrite(text) is not None
