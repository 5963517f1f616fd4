"""What a kernel does with one of its pointers: only store through it or only load, and how far its offsets reach."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst
import libcst.matchers as m

from bot.engine import addresses, kernels, source
from bot.engine.addresses import CASTS
from bot.engine.bindings import times_bound
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood

WIDE, FAR = "tl.float32", "tl.int64"
TIMES = m.BinaryOperation(operator=m.Multiply() | m.LeftShift())


def accesses(kernel: cst.FunctionDef, pointer: str, what: str) -> tuple[cst.Call, ...]:
    """Every `tl.store` or `tl.load` through a pointer. Raises NotUnderstood where the kernel does more with it."""
    found = [call for call in kernels.calls(kernel, what) if source.code(call.func) == f"tl.{what}" and call.args]
    mine = [call for call in found if any(m.matches(p, m.Name(pointer)) for p in addresses.parts(call.args[0].value))]
    if not mine or source.loads(kernel, pointer) != len(mine) or times_bound(kernel, pointer):
        raise NotUnderstood(f"{pointer} serves for more than a {what}, or for none")
    return tuple(mine)


def _behind(node: cst.CSTNode, kernel: cst.FunctionDef) -> list[cst.CSTNode]:
    """An offset, and what its names stand for: the kernel's own, and the heads of its loops."""
    names, waiting, seen, found = addresses.names_of(kernel), [node], set[str](), list[cst.CSTNode]()
    loops = [cst.ensure_type(loop, cst.For) for loop in findall(kernel, m.For(target=m.Name()))]
    while waiting:
        one = waiting.pop()
        found.append(one)
        for name in {cst.ensure_type(n, cst.Name).value for n in findall(one, m.Name())} - seen:
            seen.add(name)
            heads = [loop.iter for loop in loops if m.matches(loop.target, m.Name(name))]
            if name in names.unknown and len(heads) != times_bound(kernel, name):
                raise NotUnderstood(f"{name} is more than one thing")
            waiting += [names.made[name]] if name in names.made else heads
    return found


def _made_of(node: cst.CSTNode, kernel: cst.FunctionDef) -> list[cst.Call]:
    """The calls that an offset is made of."""
    return [call for one in _behind(node, kernel) for call in kernels.calls(one)]


def is_block(kernel: cst.FunctionDef, calls: Sequence[cst.Call]) -> bool:
    """Whether each access is one to many elements, and not to a number of this program."""
    return all(any(kernels.called_name(c) == "arange" for c in _made_of(call.args[0], kernel)) for call in calls)


def _bare(node: cst.BaseExpression) -> cst.BaseExpression:
    """`rows * stride` of `(rows * stride)[:, None].to(tl.int64)`."""
    while (inner := node.value if isinstance(node, cst.Subscript) else addresses.without_casts(node)) is not node:
        node = inner
    return node


def _is_block_start(product: cst.CSTNode, kernel: cst.FunctionDef) -> bool:
    """`program * BLOCK`, of which `tl.arange(0, BLOCK)` counts on."""
    sides = [side for name in ("left", "right") if (side := getattr(product, name, None)) is not None]
    counted = [source.code(call.args[1].value) for call in kernels.calls(kernel, "arange") if len(call.args) == 2]
    return any(source.code(side) in counted for side in sides)


def _terms(node: cst.BaseExpression, kernel: cst.FunctionDef) -> Iterator[cst.BaseExpression]:
    """The parts of an address, with its names written out where they are sums or products themselves. `cols[None, :]`
    is none where it counts the places of a block: a row has not so many."""
    for whole in addresses.parts(_bare(node)):
        part = _bare(whole)
        made = addresses.names_of(kernel).made.get(part.value) if isinstance(part, cst.Name) else None
        starts = [one for one in addresses.parts(made) if _is_block_start(one, kernel)] if made is not None else []
        is_block = isinstance(addresses.without_casts(whole), cst.Subscript) and bool(starts)
        yield from (part,) if made is None or is_block else _terms(made, kernel)


def _cast_to(kernel: cst.FunctionDef, kind: str) -> list[cst.BaseExpression]:
    """What the kernel makes another type of at once."""
    casts = [call for name in CASTS for call in kernels.calls(kernel, name)]
    return [addresses.without_casts(call) for call in casts if any(source.code(a.value) == kind for a in call.args)]


def _is_one_of(node: cst.CSTNode, others: Sequence[cst.CSTNode]) -> bool:
    return any(node is other for other in others)


def _rows(kernel: cst.FunctionDef, calls: Sequence[cst.Call], last: str) -> list[cst.BinaryOperation]:
    """What these accesses multiply by the length of a row. What is multiplied by the `last` stride counts columns, and
    a row has not so many."""
    parts = [part for call in calls for part in _terms(call.args[0].value, kernel)]
    products = [cst.ensure_type(part, cst.BinaryOperation) for part in parts if m.matches(part, m.BinaryOperation())]
    return [one for one in products if last not in (source.code(one.left), source.code(one.right))]


def _programs(node: cst.CSTNode, kernel: cst.FunctionDef) -> list[cst.Call]:
    """The numbers of programs, 32 bits each, that it is made of."""
    wide = _cast_to(kernel, FAR)
    found = [call for call in _made_of(node, kernel) if kernels.called_name(call) == "program_id"]
    return [call for call in found if not _is_one_of(call, wide)]


def narrow(kernel: cst.FunctionDef, calls: Sequence[cst.Call], last: str) -> list[cst.Call]:
    """The numbers of programs, 32 bits each, that these accesses multiply by the length of a row."""
    return [call for one in _rows(kernel, calls, last) for call in _programs(one, kernel)]


def _counts_rows(side: cst.BaseExpression, kernel: cst.FunctionDef) -> bool:
    """Whether 32 bits hold it: no number of a row is multiplied by anything before, as by the length of one. What a
    loop counts will not do either: to Triton's interpreter that is one of Python's numbers, which nothing widens."""
    behind = _behind(side, kernel)
    products = [one for part in behind for one in findall(part, TIMES) if _programs(one, kernel)]
    heads = [cst.ensure_type(loop, cst.For).iter for loop in findall(kernel, m.For())]
    looped = any(_is_one_of(part, heads) for part in behind)
    return not looped and all(_is_block_start(one, kernel) for one in products)


def counted(kernel: cst.FunctionDef, call: cst.Call, last: str) -> list[cst.BaseExpression]:
    """The numbers of rows, 32 bits each, in the address of an access. Raises NotUnderstood where one is not in it but
    behind a name, on both sides of a product, or more than a number of rows."""
    written, wide = addresses.parts(addresses.without_casts(call.args[0].value)), _cast_to(kernel, FAR)
    found = []
    for product in _rows(kernel, [call], last):
        sides = [side for side in (product.left, product.right) if _programs(side, kernel)]
        if sides and (len(sides) > 1 or not _is_one_of(product, written)):
            raise NotUnderstood("the number of a row is not in the address itself")
        if not all(_counts_rows(side, kernel) for side in sides):
            raise NotUnderstood("what is multiplied may be more than 32 bits hold")
        found += [side for side in sides if not _is_one_of(addresses.without_casts(side), wide)]
    return found


def as_loaded(kernel: cst.FunctionDef, loads: Sequence[cst.Call]) -> list[cst.Call]:
    """Those of the loads that do not become float32 at once. Raises NotUnderstood where what stands for an element that
    is not there may be another number in another type."""
    wide = _cast_to(kernel, WIDE)
    for load in loads:
        other = kernels.argument(load, 2, "other")
        if other is not None and not (isinstance(other, cst.BaseNumber) and other.evaluated_value == 0):
            raise NotUnderstood("what stands for an element that is not there is no zero")
    return [load for load in loads if not _is_one_of(load, wide)]


def cast(value: cst.BaseExpression, kind: str) -> cst.Call:
    """The value with `.to(kind)` behind it."""
    alone = m.matches(value, m.Name() | m.Call() | m.Subscript() | m.Attribute()) or bool(value.lpar)
    inner = value if alone else value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return cst.Call(cst.Attribute(inner, cst.Name("to")), [cst.Arg(source.expression(kind))])
