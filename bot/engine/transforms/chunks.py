"""Host loops over chunks of the rows, as losses behind a linear layer have them.

    chunk_size = ...
    chunk_size = min(chunk_size, rows)
    number = triton.cdiv(rows, chunk_size)
    for chunk in range(number):
        start = chunk * chunk_size
        end = min((chunk + 1) * chunk_size, rows)

Each turn takes its rows of an input and reads all of a weight. Such a loop takes any number of rows as it is, for its
last chunk has fewer. Refused unless the width of a chunk is asked for by nothing but where chunks start and end, how
many there are, and buffers for one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import source
from bot.engine.bindings import times_bound
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood


@dataclass(frozen=True, slots=True)
class Chunked:
    """`for chunk in range(number):` over the rows of a tensor, `width` of them at a time."""

    function: cst.FunctionDef
    loop: cst.For
    made: cst.SimpleStatementLine
    """The line that says how many rows a chunk has."""
    width: str
    total: str
    """How many rows there are."""
    columns: str
    """How many numbers a row has."""
    classes: str
    """How many rows the weight has."""
    rows: str
    weight: str


def _counts(value: cst.BaseExpression, total: str, width: str) -> bool:
    """Whether that is how many chunks there are."""
    ways = (f"triton.cdiv({total}, {width})", f"({total} + {width} - 1) // {width}", f"-(-{total} // {width})")
    return source.code(value) in ways


def _line(function: cst.FunctionDef, name: str) -> tuple[int, cst.SimpleStatementLine]:
    """The one line of the function's own body that gives a name its value, and nothing else does."""
    found = [(at, one) for at, one in enumerate(source.statements(function)) if name in source.targets(one)]
    if len(found) != 1 or times_bound(function, name) != 1 or name in source.parameters(function):
        raise NotUnderstood(f"{name} is given more than one value, or none here")
    at, line = found[0]
    return at, cst.ensure_type(line, cst.SimpleStatementLine)


def _edges(loop: cst.For, width: str) -> tuple[str, str, str]:
    """`start = i * width` and `end = min((i + 1) * width, total)`: both names, and the total's."""
    turn = cst.ensure_type(loop.target, cst.Name).value
    starts, ends = (f"{turn} * {width}", f"{width} * {turn}"), f"min(({turn} + 1) * {width}, "
    start, end, total = "", "", ""
    for line in loop.body.body:
        value = source.code(source.value(line)) if len(source.targets(line)) == 1 else ""
        if value in starts:
            start = source.targets(line)[0]
        elif value.startswith(ends) and value.removeprefix(ends).removesuffix(")").isidentifier():
            end, total = source.targets(line)[0], value.removeprefix(ends).removesuffix(")")
    if not (start and end):
        raise NotUnderstood("where a chunk starts and ends is not told")
    return start, end, total


def _sizes(function: cst.FunctionDef, before: int, total: str) -> tuple[str, str]:
    """`total, columns = rows.shape`: the name of the columns, and the tensor's."""
    at, line = _line(function, total)
    names, value = source.targets(line), source.value(line)
    is_shape = m.matches(value, m.Attribute(value=m.Name(), attr=m.Name("shape")))
    if at >= before or len(names) != 2 or names[0] != total or not is_shape or times_bound(function, names[1]) != 1:
        raise NotUnderstood(f"{total} is not the number of rows of a matrix")
    return names[1], source.code(cst.ensure_type(value, cst.Attribute).value)


def _weights(function: cst.FunctionDef, before: int) -> Iterator[tuple[str, str]]:
    """Each `classes = weight.shape[0]`: the name, and the tensor's."""
    shape = m.Attribute(value=m.Name(), attr=m.Name("shape"))
    first = m.Subscript(value=shape, slice=[m.SubscriptElement(slice=m.Index(value=m.Integer("0")))])
    for line in source.statements(function)[:before]:
        names, value = source.targets(line), source.value(line)
        if len(names) == 1 and times_bound(function, names[0]) == 1 and m.matches(value, first):
            tensor = cst.ensure_type(cst.ensure_type(value, cst.Subscript).value, cst.Attribute).value
            yield names[0], source.code(tensor)


def _reads(loop: cst.For, rows: str, start: str, end: str, weight: str) -> bool:
    """Whether a turn takes its rows of the one, and all of the other, which it never takes in parts."""
    mine = m.Subscript(
        value=m.Name(rows),
        slice=[m.SubscriptElement(slice=m.Slice(lower=m.Name(start), upper=m.Name(end), step=None))],
    )
    parts = m.Subscript(value=m.Name(weight))
    return bool(findall(loop, mine)) and source.loads(loop, weight) > 0 and not findall(loop, parts)


def _asked_for(function: cst.FunctionDef, width: str) -> int:
    """How often something that may ask does: buffers of one chunk."""
    sizes = m.Tuple(elements=[m.Element(value=m.Name(width)), m.ZeroOrMore()])
    buffer = m.Call(func=m.Attribute(value=m.Name("torch"), attr=m.Name("empty")), args=[m.Arg(sizes), m.ZeroOrMore()])
    return len(findall(function, buffer))


def _chunked(function: cst.FunctionDef, at: int, loop: cst.For) -> Chunked:
    body = source.statements(function)
    if not m.matches(loop.target, m.Name()) or loop.orelse is not None or loop.asynchronous is not None:
        raise NotUnderstood("it is no plain loop")
    if not m.matches(loop.iter, m.Call(func=m.Name("range"), args=[m.Arg(m.Name(), keyword=None, star="")])):
        raise NotUnderstood("it does not count chunks")
    number = source.code(cst.ensure_type(loop.iter, cst.Call).args[0].value)
    counted, line = _line(function, number)
    widths = [name for one in body[:counted] for name in source.targets(one) if source.is_plain(one, name)]
    for width in dict.fromkeys(widths):
        try:
            start, end, total = _edges(loop, width)
        except NotUnderstood:
            continue
        if counted >= at or not _counts(source.value(line), total, width) or source.loads(function, number) != 1:
            raise NotUnderstood("how many chunks there are is told in another way, or asked again")
        made, capped = [one for one in body[:counted] if width in source.targets(one)]
        if source.code(source.value(capped)) != f"min({width}, {total})" or times_bound(function, width) != 2:
            raise NotUnderstood("a chunk is not as wide as was said, and as there are rows")
        # the count, both edges and the cap; each starts its chunks at its own width
        if source.loads(function, width) != 4 + _asked_for(function, width) or source.loads(made, width):
            raise NotUnderstood("something else follows how wide a chunk is")
        before = next(n for n, one in enumerate(body) if one is made)
        columns, rows = _sizes(function, before, total)
        for classes, weight in _weights(function, before):
            if weight != rows and _reads(loop, rows, start, end, weight):
                first = cst.ensure_type(made, cst.SimpleStatementLine)
                return Chunked(function, loop, first, width, total, columns, classes, rows, weight)
        raise NotUnderstood("no weight is read in each chunk")
    raise NotUnderstood("no width of a chunk was found")


def chunked(module: cst.Module) -> list[Chunked]:
    """Every such loop of a file."""
    found = []
    for function in source.functions(module):
        for at, statement in enumerate(source.statements(function)):
            if isinstance(statement, cst.For):
                try:
                    found.append(_chunked(function, at, statement))
                except (NotUnderstood, ValueError):
                    continue
    return found


def launched(chunked: Chunked) -> list[str]:
    """The kernels that its function launches."""
    calls = [cst.ensure_type(call, cst.Call).func for call in findall(chunked.function, source.LAUNCH)]
    return [source.code(cst.ensure_type(func, cst.Subscript).value) for func in calls]
