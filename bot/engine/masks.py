"""A kernel that fills a matrix with ones and zeros, each of them said by its row and its column alone."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import addresses, kernels, source
from bot.engine.bindings import bound_in, times_bound
from bot.engine.finding import findall, nodes
from bot.engine.source import NotUnderstood

CALLED = frozenset(("program_id", "arange", "store", "maximum", "minimum", "where", "abs"))
ROW = m.Call(m.Attribute(m.Name("tl"), m.Name("program_id")), [m.Arg(m.Integer("0"))])
COLUMNS = m.Call(m.Attribute(m.Name("tl"), m.Name("arange")), [m.Arg(m.Integer("0")), m.Arg(m.Name())])
ONE_OF_TWO = m.Float("1.0") | m.Float("0.0")
EITHER = m.Call(
    m.Attribute(m.Name("tl"), m.Name("where")),
    [m.Arg(keyword=None), m.Arg(ONE_OF_TWO, keyword=None), m.Arg(ONE_OF_TWO, keyword=None)],
)
"""`tl.where(condition, 1.0, 0.0)`."""
DOWN = m.Subscript(
    m.Name(), [m.SubscriptElement(m.Slice(None, None, None)), m.SubscriptElement(m.Index(m.Name("None")))]
)
"""`rows[:, None]`."""
ALONG = m.Subscript(
    m.Name(), [m.SubscriptElement(m.Index(m.Name("None"))), m.SubscriptElement(m.Slice(None, None, None))]
)
"""`columns[None, :]`."""
COUNTED = (cst.Name, cst.Integer, cst.Call, cst.Attribute, cst.BinaryOperation)
COUNTS = (cst.Add, cst.Multiply, cst.FloorDivide, cst.Modulo)
"""What stays a whole number from zero on, made of such."""
STORED = m.SimpleStatementLine(
    [
        m.Expr(
            m.Call(
                m.Attribute(m.Name("tl"), m.Name("store")),
                [m.Arg(keyword=None), m.Arg(m.Name(), keyword=None), m.Arg(keyword=m.Name("mask"))],
            )
        )
    ]
)
"""`tl.store(address, name, mask=...)`."""
ELSEWHERE = (
    m.Attribute()
    | m.BooleanOperation()
    | m.Not()
    | m.Subscript()
    | m.Lambda()
    | m.IfExp()
    | m.NamedExpr()
    | m.Comparison(comparisons=[m.AtLeastN(n=2)])
)


@dataclass(frozen=True, slots=True)
class Mask:
    kernel: cst.FunctionDef
    pointer: str
    row: str
    columns: str
    size: str
    """The parameter with the width of a row."""
    lines: tuple[cst.BaseStatement, ...]
    """What makes the value, without the row and the columns themselves."""
    value: cst.Name

    def parameters(self) -> tuple[str, ...]:
        """Those that the value is made of."""
        return tuple(p for p in source.parameters(self.kernel) if any(findall(one, m.Name(p)) for one in self.lines))

    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for line in self.lines for name in bound_in(line)))


def _body_of(kernel: cst.FunctionDef) -> list[cst.BaseStatement]:
    """Its statements without the docstring."""
    lines = list(source.statements(kernel))
    return lines[1:] if lines and m.matches(lines[0], kernels.DOCSTRING) else lines


def _only_one(kernel: cst.FunctionDef, lines: list[cst.BaseStatement], made: m.BaseMatcherNode) -> str:
    """The name that one line gives to what is made so, once and for all."""
    found = [line for line in lines if m.matches(source.value(line), made)]
    names = source.targets(found[0]) if len(found) == 1 else ()
    if len(names) != 1 or len(findall(kernel, made)) != 1 or times_bound(kernel, names[0]) != 1:
        raise NotUnderstood("the row or the columns of a place have no name")
    return names[0]


def _refuse_others(kernel: cst.FunctionDef, lines: list[cst.BaseStatement]) -> None:
    if not _calls_only(kernel, CALLED) or any(len(kernels.calls(kernel, one)) != 1 for one in ("program_id", "arange")):
        raise NotUnderstood("something else is called")
    for line in lines:
        inner = line.body.body if isinstance(line, cst.If) and line.orelse is None else (line,)
        asked = findall(line.test, m.Name()) if isinstance(line, cst.If) else []
        if any(one.value not in kernels.constants(kernel) or times_bound(kernel, one.value) for one in asked):
            raise NotUnderstood("what is done depends on more than constants")
        if not all(len(source.targets(one)) == 1 and source.is_plain(one, source.targets(one)[0]) for one in inner):
            raise NotUnderstood("a line does more than to give a name a value")


def _said_by(line: cst.BaseStatement) -> list[cst.CSTNode]:
    """What a line reads: its conditions, and the values that it gives."""
    found = [one.value for one in findall(line, m.Assign())]
    return [*found, line.test] if isinstance(line, cst.If) else found


def _calls_only(node: cst.CSTNode, names: Collection[str]) -> bool:
    """Whether all that is called is Triton's and of these names: a module may have a function of the same one."""
    known = m.Call(m.Attribute(m.Name("tl"), m.OneOf(*map(m.Name, names))))
    return all(m.matches(call, known) for call in kernels.calls(node))


def _making(lines: list[cst.BaseStatement], value: str) -> tuple[cst.BaseStatement, ...]:
    """The lines that a value comes from."""
    wanted, kept = {value}, list[cst.BaseStatement]()
    for line in reversed(lines):
        if wanted & set(bound_in(line)):
            kept.insert(0, line)
            wanted |= {n.value for part in _said_by(line) for n in findall(part, m.Name())}
    return tuple(kept)


def _words(calls: Collection[cst.Call]) -> set[int]:
    """The last words of what is called: `where` of `tl.where`."""
    return {id(call.func.attr) for call in calls if isinstance(call.func, cst.Attribute)}


def _refuse_no_plain(mask: Mask) -> None:
    """Each value has to be one of whole numbers and comparisons, so that it is the same wherever it is made."""
    calls = [call for line in mask.lines for call in kernels.calls(line)]
    functions = {id(call.func) for call in calls}
    for line in mask.lines:
        for part in _said_by(line):
            for node in nodes(part, with_air=False):
                if id(node) in functions:
                    continue
                if m.matches(node, ELSEWHERE) or isinstance(node, cst.Divide | cst.Power | cst.MatrixMultiply):
                    raise NotUnderstood("a value is made of more than whole numbers")
    known = {*mask.names(), *mask.parameters(), mask.row, mask.columns, "tl"}
    said = [name for line in mask.lines for part in _said_by(line) for name in findall(part, m.Name())]
    if any(name.value not in known for name in said if id(name) not in _words(calls)):
        raise NotUnderstood("a name is one of the module")
    if any(arg.star or arg.keyword is not None for call in calls for arg in call.args):
        raise NotUnderstood("something is given by name")
    made = [line for line in mask.lines if mask.value.value in bound_in(line)]
    if len(made) != 1 or not m.matches(source.value(made[0]), EITHER):
        raise NotUnderstood("what is stored is not one or zero")
    floats = [id(f) for f in findall(source.value(made[0]), m.Float())]
    if any(id(f) not in floats for line in mask.lines for f in findall(line, m.Float())):
        raise NotUnderstood("a value is made of more than whole numbers")


def mask_of(kernel: cst.FunctionDef) -> Mask:
    """Raises NotUnderstood for a kernel that does anything else than to fill a matrix so, a row a program."""
    *lines, last = _body_of(kernel)
    if len(kernels.calls(kernel, "store")) != 1 or not m.matches(last, STORED):
        raise NotUnderstood("it does not end with its only store")
    address, value, guard = (arg.value for arg in kernels.calls(last, "store")[0].args)
    _refuse_others(kernel, lines)
    row, columns = _only_one(kernel, lines, ROW), _only_one(kernel, lines, COLUMNS)
    size = _width(kernel, guard, columns)
    names = addresses.names_of(kernel)
    terms = addresses.terms(address, names)
    pointers = [term[0] for term in terms if len(term) == 1 and term[0] in source.parameters(kernel)]
    if row not in names.made or columns not in names.made:
        raise NotUnderstood("the row or the columns of a place have a parameter's name")
    down, across = source.code(names.made[row]), source.code(names.made[columns])
    expected = [tuple(sorted((size, down))), (across,), tuple(pointers)]
    if len(pointers) != 1 or sorted(terms) != sorted(expected) or source.loads(kernel, pointers[0]) != 1:
        raise NotUnderstood("a place is not the row times the width, and the column")
    made = [line for line in lines if not m.matches(source.value(line), ROW | COLUMNS)]
    mask = Mask(kernel, pointers[0], row, columns, size, _making(made, value.value), value)
    _refuse_no_plain(mask)
    return mask


def _width(kernel: cst.FunctionDef, guard: cst.BaseExpression, columns: str) -> str:
    """The parameter N of `columns < N`."""
    made = addresses.names_of(kernel).made
    guard = made[guard.value] if isinstance(guard, cst.Name) and guard.value in made else guard
    inside = m.Comparison(m.Name(columns), [m.ComparisonTarget(m.LessThan(), m.Name())])
    if not m.matches(guard, inside):
        raise NotUnderstood("the store is not masked by the width")
    size = str(cst.ensure_type(guard, cst.Comparison).comparisons[0].comparator.value)
    if size not in source.parameters(kernel) or times_bound(kernel, size):
        raise NotUnderstood("the width is no parameter")
    return size


def counts_places(kernel: cst.FunctionDef, name: str) -> bool:
    """Whether a name stands for whole numbers of 32 bits from zero on, as programs and their places are counted."""
    sizes = [arg.value for call in kernels.calls(kernel, "arange") for arg in call.args]
    blocks = {s.value for s in sizes if isinstance(s, cst.Name)} & kernels.constants(kernel)
    made, seen, left = addresses.names_of(kernel).made, set[str](), [name]
    while left:
        one = left.pop()
        if one in blocks or one in seen:
            continue
        if one not in made or not _calls_only(made[one], ("program_id", "num_programs", "arange")):
            return False
        parts = [n for n in nodes(made[one], with_air=False) if isinstance(n, cst.BaseExpression | cst.BaseBinaryOp)]
        if not all(isinstance(part, (*COUNTED, *COUNTS)) for part in parts):
            return False
        seen.add(one)
        words = {id(word) for call in kernels.calls(made[one]) for word in findall(call.func, m.Name())}
        left += [n.value for n in findall(made[one], m.Name()) if id(n) not in words]
    return True
