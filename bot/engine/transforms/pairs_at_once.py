"""Load and store neighbours in one go that a kernel takes one by one.

    even = tl.load(row + columns * 2, mask=mask, other=0.0)
    odd = tl.load(row + columns * 2 + 1, mask=mask, other=0.0)

Liger's llama4_rope turns pairs of numbers that lie side by side. Each thread loads two bytes of every four, and then
the two between them, and stores them so as well: every line of the cache is asked for twice, and twice written in part.
As one block with a last axis of two a pair is one access of four bytes; compiled for sm_90 eight heads of 64 pairs take
four loads and four stores a thread in place of eight each (bfloat16, 4 warps). `tl.split` takes them apart, and
`tl.join` puts results together; both came with the same Triton, and only where the file relies on `tl.split` already.

Asks for two lines one behind the other that say the same but for the `+ 1`, with a row of columns. Stores whose numbers
are worked out in the call are left alone, and so are pairs of which a name changes in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import kernels, source
from bot.engine.bindings import bound_in
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood
from bot.engine.transforms.rewrite import Rewrite, each_kernel

RELIED_ON = "tl.split("
WHY = "Pairs lie side by side: one access takes both."
POINTERS, BOTH = "_pairs", "_both"
Change = tuple[cst.CSTNode, list[cst.BaseStatement]]


@dataclass(frozen=True, slots=True)
class Access:
    """A load into a name, or a store of one, at `place + columns * 2`, or one behind that."""

    line: cst.SimpleStatementLine
    call: cst.Call
    place: str
    columns: str
    is_odd: bool
    name: str

    @property
    def others(self) -> tuple[tuple[str, str], ...]:
        """All else that it says, by keyword: a mask, and what is there instead."""
        said = self.call.args[1 + _is_store(self.call) :]
        return tuple((arg.keyword.value if arg.keyword else "", source.code(arg.value)) for arg in said)


def _is_store(call: cst.Call) -> bool:
    return source.code(call.func) == "tl.store"


def _address(node: cst.BaseExpression) -> tuple[str, str, bool]:
    """(place, columns, whether it is one behind) of `place + columns * 2`."""
    is_odd = m.matches(node, m.BinaryOperation(operator=m.Add(), right=m.Integer("1")))
    inner = cst.ensure_type(node, cst.BinaryOperation).left if is_odd else node
    twice = m.BinaryOperation(left=m.Name(), operator=m.Multiply(), right=m.Integer("2"))
    if not m.matches(inner, m.BinaryOperation(operator=m.Add(), right=twice)):
        raise NotUnderstood("no address of pairs")
    both = cst.ensure_type(inner, cst.BinaryOperation)
    return source.code(both.left), source.code(cst.ensure_type(both.right, cst.BinaryOperation).left), is_odd


def _access(line: cst.BaseStatement) -> Access:
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        raise NotUnderstood("no line")
    (only,), names = line.body, source.targets(line)
    call = only.value if isinstance(only, cst.Expr) else source.value(line)
    if not isinstance(call, cst.Call) or source.code(call.func) not in ("tl.load", "tl.store"):
        raise NotUnderstood("neither a load nor a store")
    given = [arg.value for arg in call.args if arg.keyword is None]
    if any(arg.star for arg in call.args) or len(given) != 1 + _is_store(call):
        raise NotUnderstood("something is given by its place")
    if _is_store(call):
        name = source.code(given[1]) if isinstance(given[1], cst.Name) else ""
    else:
        name = names[0] if len(names) == 1 and source.is_plain(line, names[0]) else ""
    if not name or set(_keywords(call)) - {"mask", "other"}:
        raise NotUnderstood("a number without a name, or more than a mask is said")
    if any(
        findall(arg.value, m.Name()) for arg in call.args if arg.keyword is not None and arg.keyword.value == "other"
    ):
        raise NotUnderstood("what is not there may be a row")
    return Access(line, call, *_address(given[0]), name)


def _keywords(call: cst.Call) -> list[str]:
    return [arg.keyword.value for arg in call.args if arg.keyword is not None]


def _pairs(block: Sequence[cst.BaseStatement]) -> Iterator[tuple[int, Access, Access]]:
    """Where each two neighbours stand in a block, and both."""
    at = 0
    while at + 1 < len(block):
        try:
            first, second = _access(block[at]), _access(block[at + 1])
        except NotUnderstood:
            at += 1
            continue
        same = (first.place, first.columns, first.others) == (second.place, second.columns, second.others)
        together = _go_together(first, second) and _are_alike(block[:at], first, second)
        if same and not first.is_odd and second.is_odd and together:
            yield at, first, second
            at += 1
        at += 1


def _are_alike(before: Sequence[cst.BaseStatement], first: Access, second: Access) -> bool:
    """Whether two numbers to be stored are made of the same ones, with the same casts: pairs are of one type."""
    if not _is_store(first.call):
        return True
    made = []
    for name in (first.name, second.name):
        lines = [line for line in before if source.is_plain(line, name)]
        names = findall(source.value(lines[-1]), m.Name()) if lines else []
        made.append(({source.code(one) for one in names}, _casts(lines[-1]) if lines else []))
    return bool(made[0][0]) and made[0] == made[1]


def _casts(line: cst.BaseStatement) -> list[str]:
    found = [source.code(one) for one in findall(line, m.Call(func=m.Attribute(attr=m.Name("to"))))]
    return sorted(text.rpartition(".to(")[2] for text in found)


def _go_together(first: Access, second: Access) -> bool:
    if _is_store(first.call) != _is_store(second.call) or first.name == second.name:
        return False
    # what is loaded first may not be asked for by the second one
    return _is_store(first.call) or source.loads(second.call, first.name) == 0


def _named(access: Access, what: str) -> str:
    first = access.place.partition(" ")[0].removesuffix("_ptr")
    if not first.isidentifier():
        raise NotUnderstood("the place has no name")
    return first + what


def _is_row(kernel: cst.FunctionDef, columns: str) -> bool:
    """Whether it is made of `tl.arange` and nothing else that has a shape."""
    lines = [line for line in findall(kernel, m.SimpleStatementLine()) if columns in source.targets(line)]
    if len(lines) != 1 or not source.is_plain(lines[0], columns):
        return False
    ranges = kernels.calls(source.value(lines[0]))
    return [kernels.called_name(one) for one in ranges] == ["arange"] and not findall(
        source.value(lines[0]), m.Subscript()
    )


def _wrapped(access: Access, pointer: str, value: str = "") -> str:
    """The call for both: with the mask of either."""
    said = [f"{key}=tl.expand_dims({text}, -1)" if key == "mask" else f"{key}={text}" for key, text in access.others]
    return f"{source.code(access.call.func)}({', '.join([pointer, *([value] if value else []), *said])})"


def _change(first: Access, second: Access, *, knows: bool) -> list[Change]:
    """The two lines as one access, behind one with the addresses where nobody has worked them out."""
    pointer, both = _named(first, POINTERS), _named(first, BOTH)
    address = f"tl.expand_dims({first.place} + {first.columns} * 2, -1) + tl.arange(0, 2)"
    lines = [] if knows else [f"{pointer} = {address}"]
    if _is_store(first.call):
        lines.append(_wrapped(first, pointer, f"tl.join({first.name}, {second.name})"))
    else:
        lines += [f"{both} = {_wrapped(first, pointer)}", f"{first.name}, {second.name} = tl.split({both})"]
    above, *others = [source.assignment(line) for line in lines]
    said = (*first.line.leading_lines, *(() if knows else source.comment_lines(WHY)), *second.line.leading_lines)
    return [(first.line, [above.with_changes(leading_lines=said), *others]), (second.line, [])]


def _changes(kernel: cst.FunctionDef, block: Sequence[cst.BaseStatement]) -> Iterator[Change]:
    known: dict[str, tuple[int, str, str]] = {}
    for at, first, second in _pairs(block):
        if not _is_row(kernel, first.columns):
            continue
        pointer, both, address = _named(first, POINTERS), _named(first, BOTH), (first.place, first.columns)
        made = known.get(pointer)
        knows = made is not None and made[1:] == address and not _changed(block[made[0] : at], address)
        if any(findall(kernel, m.Name(name)) for name in (pointer, both)) or (made is not None and not knows):
            raise NotUnderstood(f"{pointer} or {both} is taken")
        known[pointer] = (at, *address) if made is None else made
        yield from _change(first, second, knows=knows)


def _changed(lines: Sequence[cst.BaseStatement], address: tuple[str, str]) -> bool:
    """Whether a name of the address gets another value in between."""
    names = {cst.ensure_type(n, cst.Name).value for one in address for n in findall(source.expression(one), m.Name())}
    return any(bound_in(line)[name] for line in lines for name in names)


def _together(module: cst.Module, name: str) -> cst.Module:
    kernel = source.kernel_named(module, name)
    assert kernel is not None
    blocks = [cst.ensure_type(one, cst.IndentedBlock) for one in findall(kernel, m.IndentedBlock())]
    changes = [change for block in blocks for change in _changes(kernel, block.body)]
    if not changes:
        raise NotUnderstood("no two neighbours are loaded or stored one behind the other")
    return source.spliced(module, changes)


def rewrite(text: str) -> Rewrite | None:
    """Every kernel of the file that takes pairs apart."""
    if RELIED_ON not in text:
        return None
    return each_kernel(
        text,
        _together,
        title="Pairs in one access",
        why="Numbers that lie side by side are loaded and stored one by one, so that every line of the cache is asked "
        "for twice and written in parts. A pair is one access.",
    )


def applies(text: str) -> bool:
    return rewrite(text) is not None
