"""Walk a row that is too wide for the registers of a program, block after block; narrower rows stay as they are.

A program that holds a row of 32,768 columns and more has 32 or more elements a thread in every intermediate result. It
spills, or leaves room for no neighbour: on an H200 a softmax over 65,536 columns reached 58 % of the roof that way.
The walking kernel reads the row once for each result that the next step waits for, and tells the cache to keep it until
the last time: on an H200 a sketch of softmax took 177 us for 4096 x 32000 without that and 146 us with it, where the
kernel that holds a row takes 171 (docs/results/h200/sketches). Sums and maxima are kept a lane at a time in float32 and
reduced once; a maximum and the sum of exponentials below it are made in one pass, online.

Refused unless the kernel is one straight line: one program_id(0), one block of columns masked by their number, branches
about constants alone, whole-row sums, maxima and minima, and nothing loaded after a part of the row was stored. Stores
of the row come in the last pass, behind the loads of the same block, so that an op may write over what it reads.
Refused as well where a reduction may count what stands behind the last column: in other blocks it is another amount.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, replace

import libcst as cst
import libcst.matchers as m

from bot.engine import kernels, padding, rows, source
from bot.engine.finding import findall
from bot.engine.rows import Conditions, Row, Step
from bot.engine.source import LaunchSite, NotUnderstood
from bot.engine.transforms import cache_hints
from bot.engine.transforms.rewrite import Rewrite, each_kernel

WIDEST = 16384
"""Columns that a program holds: 16 elements a thread with 32 warps."""
STEPS, WIDEST_STEP, WARPS = 4, 16384, 16
"""A quarter of the row with sixteen warps: the quickest that an H200 ran over 32,000 and 65,536 columns."""
MINUS = m.BinaryOperation(left=m.Name(), operator=m.Subtract(), right=m.Name())
EXP = m.Call(func=m.Attribute(attr=m.Name("exp")), args=[m.Arg(value=MINUS)])
SCALED = m.BinaryOperation(left=MINUS, operator=m.Multiply(), right=m.Name() | m.Float())
EXP2 = m.Call(func=m.Attribute(attr=m.Name("exp2")), args=[m.Arg(value=SCALED)])
LOWEST = "-3.4e38"
"""Not minus infinity: a first block of nothing else would make a NaN of the difference."""
NAMES = ("wide", "kernel")
INDENT = "    "
LINES = 110


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the new body, with the constant conditions it stands under."""

    conditions: Conditions
    text: str


def _text(node: cst.CSTNode) -> str:
    return source.code(node).strip()


class Walk:
    """Writes the body of the walking kernel."""

    def __init__(self, row: Row) -> None:
        self.row, self.lines = row, [Line((), row.docstring)] if row.docstring else []
        self._told: set[int] = set()
        self._online = self._pairs()
        self._names = {name for step in row.steps for name in (*step.reads, step.binds)}
        if {"start", "seen"} & self._names or any(self._lanes(s) in self._names for s in row.steps if s.reduced):
            raise NotUnderstood("it uses a name that the loop needs")

    def body(self) -> str:
        for number in range(self.row.passes):
            self._numbers(number)
            self._pass(number)
        self._numbers(self.row.passes)
        return "\n".join(_spaced(_indented(self.lines)))

    def _lanes(self, step: Step) -> str:
        return f"{step.binds}_lanes"

    def _pairs(self) -> dict[int, int]:
        """(sum, maximum): `d = tl.sum(tl.exp(x - m))` where `m = tl.max(x)` is the maximum of the same x."""
        found: dict[int, int] = {}
        for at, step in enumerate(self.row.steps):
            if step.reduced is None or kernels.called_name(step.reduced) != "sum" or step.conditions:
                continue
            below = self._exponential(at, step.reduced.args[0].value)
            largest = [i for i, s in enumerate(self.row.steps[:at]) if below and s.binds == below[1]]
            top = self.row.steps[largest[0]] if len(largest) == 1 else None
            if top is not None and below and _is_plain_max(top, below[0]) and not top.conditions:
                again = self.row.steps[largest[0] : at]
                if _is_plain_sum(step) and not any(s.binds == below[0] for s in again):
                    found[at] = largest[0]
        return found if len(set(found.values())) == len(found) else {}

    def _exponential(self, at: int, node: cst.BaseExpression) -> tuple[str, str, str] | None:
        """(x, m, how) of `tl.exp(x - m)` or of a power of two of it, also by the name it was given right before."""
        if isinstance(node, cst.Name):
            made = [s for s in self.row.steps[:at] if s.binds == node.value]
            if len(made) != 1 or made[0].conditions or not isinstance(made[0].node, cst.Assign):
                return None
            node = made[0].node.value
        if not isinstance(node, cst.Call) or not (m.matches(node, EXP) or m.matches(node, EXP2)):
            return None
        inner = cst.ensure_type(node.args[0].value, cst.BinaryOperation)
        difference = cst.ensure_type(inner.left if m.matches(node, EXP2) else inner, cst.BinaryOperation)
        left, right = _text(difference.left), _text(difference.right)
        how = _text(node).replace(f"{left} - {right}", "{}")
        return (left, right, how) if how.count("{}") == 1 else None

    def _say(self, at: int, text: str, inside: bool) -> None:
        """A step, with its comments the first time it is written."""
        step = self.row.steps[at]
        deeper = INDENT if inside else ""
        if at not in self._told:
            self._told.add(at)
            while len(self.lines) and not self.lines[-1].text and step.comments[:1] == ("",):
                self.lines.pop()
            self.lines += [Line(step.conditions, f"{deeper}{comment}" if comment else "") for comment in step.comments]
            text = f"{text}  {step.trailing}" if step.trailing else text
        self.lines.append(Line(step.conditions, textwrap.indent(text, deeper)))

    def _numbers(self, depth: int) -> None:
        for at, step in enumerate(self.row.steps):
            if not step.is_row and step.reduced is None and step.depth == depth:
                self._say(at, _text(step.node), inside=False)

    def _reduced(self, number: int) -> list[int]:
        """Reductions of a pass; a sum that is made online belongs to the pass of its maximum."""
        online = [at for at, top in self._online.items() if self.row.steps[top].depth == number + 1]
        plain = [at for at, s in enumerate(self.row.steps) if s.reduced is not None and s.depth == number + 1]
        return sorted({*online, *(at for at in plain if at not in self._online)})

    def _pass(self, number: int) -> None:
        reduced, last = self._reduced(number), number == self.row.passes - 1
        steps = self.row.steps
        stores = [at for at, s in enumerate(steps) if s.is_row and s.is_store] if last else []
        if not reduced and not stores:
            return
        self.lines.append(Line((), ""))
        self._starts(reduced)
        self.lines.append(Line((), f"for start in range(0, {self.row.width}, {self.row.block}):"))
        tops = [top for top in self._online.values() if top in reduced]
        plain = [at for at in reduced if at not in self._online]
        for at in rows.needed(self.row, [*plain, *stores]):
            if at in tops:
                self._both(at)
            elif at in plain:
                self._gathered(at)
            else:
                self._say(at, self._again(at), inside=True)
        if not last:
            self._ends(plain, tops)

    def _again(self, at: int) -> str:
        """A row step of the loop: the columns go on from the start of the block."""
        step = self.row.steps[at]
        if step.binds == self.row.columns:
            return f"{step.binds} = start + {_text(cst.ensure_type(step.node, cst.Assign).value)}"
        return _text(step.node)

    def _starts(self, reduced: list[int]) -> None:
        for at in reduced:
            step = self.row.steps[at]
            kind = kernels.called_name(step.reduced) if step.reduced is not None else ""
            if at in self._online.values():
                text = f"{step.binds} = {LOWEST}  # not -inf: a first block of nothing else would make NaNs"
            elif at in self._online:
                text = f"{step.binds} = 0.0"
            elif kind == "sum":
                text = f"{self._lanes(step)} = tl.zeros(({self.row.block},), dtype=tl.float32)"
            else:
                worst = '-float("inf")' if kind == "max" else 'float("inf")'
                text = f"{self._lanes(step)} = tl.full(({self.row.block},), {worst}, dtype=tl.float32)"
            self.lines.append(Line(step.conditions, text))

    def _gathered(self, at: int) -> None:
        step = self.row.steps[at]
        assert step.reduced is not None
        value, lanes = _text(step.reduced.args[0].value), self._lanes(step)
        kind = kernels.called_name(step.reduced)
        text = f"{lanes} += {value}" if kind == "sum" else f"{lanes} = tl.{kind}imum({lanes}, {value})"
        self._say(at, text, inside=True)

    def _both(self, at: int) -> None:
        """The maximum so far, and the sum below it, which shrinks when the maximum grows."""
        total = next(sum_at for sum_at, top in self._online.items() if top == at)
        top, name = self.row.steps[at].binds, self.row.steps[total].binds
        row = _text(cst.ensure_type(self.row.steps[at].reduced, cst.Call).args[0].value)
        reduced = cst.ensure_type(self.row.steps[total].reduced, cst.Call)
        below = self._exponential(total, reduced.args[0].value)
        how = below[2] if below else "tl.exp({})"
        shrunk, added = how.format(f"{top} - seen"), how.format(f"{row} - seen")
        grown = [f"{name} = {name} * {shrunk} + tl.sum({added}, axis=0)"]
        if len(grown[0]) > LINES:
            grown = [f"{name} = {name} * {shrunk}", f"{name} += tl.sum({added}, axis=0)"]
        lines = (f"seen = tl.maximum({top}, tl.max({row}, axis=0))", *grown, f"{top} = seen")
        self._say(at, "\n".join(lines), inside=True)
        self._told.add(total)

    def _ends(self, plain: list[int], tops: list[int]) -> None:
        for at in (at for at in plain if at not in tops):
            step = self.row.steps[at]
            assert step.reduced is not None
            args = (step.reduced.args[0].with_changes(value=cst.Name(self._lanes(step))), *step.reduced.args[1:])
            node = step.node.deep_replace(step.reduced, step.reduced.with_changes(args=args))
            self.lines.append(Line(step.conditions, _text(cst.ensure_type(node, cst.BaseSmallStatement))))


def _is_plain_max(step: Step, of: str) -> bool:
    value = step.node.value if isinstance(step.node, cst.Assign) else None
    return value is step.reduced and step.reduced is not None and m.matches(
        step.reduced, m.Call(func=m.Attribute(attr=m.Name("max")), args=[m.Arg(value=m.Name(of)), m.ZeroOrMore()])
    )  # fmt: skip


def _is_plain_sum(step: Step) -> bool:
    return isinstance(step.node, cst.Assign) and step.node.value is step.reduced


def _indented(lines: list[Line], depth: int = 0) -> list[str]:
    """The lines with their `if`s around them; neighbours under one condition share it."""
    found: list[str] = []
    at, before = 0, ("", False)
    inside = False
    while at < len(lines):
        line = lines[at]
        inside = line.text.startswith(INDENT) if line.text else inside
        if len(line.conditions) <= depth:
            found.append(line.text)
            at, before = at + 1, ("", False)
            continue
        end = at
        while end < len(lines) and lines[end].conditions[depth : depth + 1] == line.conditions[depth : depth + 1]:
            if (lines[end].text or line.text).startswith(INDENT) != line.text.startswith(INDENT):
                break
            end += 1
        text, side = line.conditions[depth]
        shift = INDENT if line.text.startswith(INDENT) else ""
        head = f"if {text}:" if side else "else:" if before == (text, True) else f"if not ({text}):"
        found += [f"{shift}{head}", *(textwrap.indent(one, INDENT) for one in _indented(lines[at:end], depth + 1))]
        at, before = end, (text, side)
    return found


def _spaced(lines: list[str]) -> list[str]:
    """One empty line at most, and none behind a line that opens a block."""
    found: list[str] = []
    for line in lines:
        if line or (found and found[-1] and not found[-1].endswith(":")):
            found.append(line)
    return found


def _walking(module: cst.Module, kernel: cst.FunctionDef) -> cst.FunctionDef:
    """The kernel's twin for wide rows."""
    row = rows.row_of(kernel)
    if row.passes < 2 or not any(step.is_row and step.is_store for step in row.steps):
        raise NotUnderstood("nothing in it waits for the whole row")
    padding.refuse_counted(row)
    name = f"{str(kernel.name.value).removesuffix('_kernel')}_walking_kernel"
    if any(found.name.value == name for found in source.functions(module)):
        raise NotUnderstood("there is a kernel for wide rows already")
    said = f'"""As `{kernel.name.value}`, for a row too wide to hold: walked in blocks."""'
    text = Walk(row).body()
    if row.docstring:
        text = text.replace(row.docstring, said, 1)
    else:
        text = f"{said}\n{text}"
    head = source.code(
        kernel.with_changes(leading_lines=(), name=cst.Name(name), body=cst.SimpleStatementSuite([cst.Pass()]))
    )
    head = head.rstrip()
    head = head.removesuffix("pass").rstrip()
    made = cst.parse_statement(f"{head}\n{textwrap.indent(text, INDENT)}\n", config=module.config_for_parsing)
    twin = cache_hints.kept_until_last(cst.ensure_type(made, cst.FunctionDef))
    return twin.with_changes(leading_lines=(cst.EmptyLine(), cst.EmptyLine()))


def _statements(site: LaunchSite, name: str, wide: str) -> tuple[list[cst.BaseStatement], cst.Call]:
    """The choice between the two kernels, and the launch of what was chosen."""
    given, warps = site.argument(_block_of(site)), site.argument("num_warps")
    if not isinstance(given, cst.Name):
        raise NotUnderstood("the launch does not take its block from a variable")
    if any(source.loads(site.function, n) or n in _bound(site.function) for n in NAMES):
        raise NotUnderstood("a name that the launch needs is taken")
    block = given.value
    lines: list[cst.BaseStatement] = [
        source.assignment(
            f"wide = {block} > {WIDEST}",
            f"A row of more than {WIDEST} columns is too wide for the registers of a program: it is walked in blocks.",
        ),
        source.assignment(f"kernel = {wide} if wide else {name}"),
    ]
    call = source.with_argument(
        site.call, _block_of(site), source.expression(f"min({block} // {STEPS}, {WIDEST_STEP}) if wide else {block}")
    )
    others = source.code(warps) if warps is not None else "4"
    call = source.with_argument(call, "num_warps", source.expression(f"{WARPS} if wide else {others}"))
    func = cst.ensure_type(call.func, cst.Subscript)
    return lines, call.with_changes(func=func.with_changes(value=cst.Name("kernel")))


def _block_of(site: LaunchSite) -> str:
    names = [a.keyword.value for a in site.call.args if a.keyword is not None and "BLOCK" in a.keyword.value]
    if len(names) != 1:
        raise NotUnderstood("the launch does not say its block by name")
    return str(names[0])


def _bound(function: cst.FunctionDef) -> set[str]:
    return {name for found in findall(function, m.SimpleStatementLine()) for name in source.targets(found)}


def _with_walking(module: cst.Module, name: str) -> cst.Module:
    kernel = source.kernel_named(module, name)
    assert kernel is not None
    found = source.sites(module, name)
    if len(found) != 1 or findall(found[0].function, m.Name("static_argnames")):
        raise NotUnderstood(f"{name} is launched {len(found)} times")
    (site,) = found
    twin = _walking(module, kernel)
    row = rows.row_of(kernel)
    if _block_of(site) != row.block:
        raise NotUnderstood("the block of the launch is another one")
    lines, call = _statements(site, name, str(twin.name.value))
    line = source.line_of(site)
    empty, said = source.split_above(line)
    first = cst.ensure_type(lines[0], cst.SimpleStatementLine)
    lines[0] = first.with_changes(leading_lines=(*empty, *first.leading_lines))
    launch = cst.ensure_type(line.deep_replace(site.call, call), cst.SimpleStatementLine)
    return source.spliced(module, [(line, [*lines, launch.with_changes(leading_lines=said)]), (kernel, [kernel, twin])])


def rewrite(text: str, only: str = "") -> Rewrite | None:
    """Every kernel of the file that takes a row at once and reduces it."""
    found = each_kernel(
        text,
        _with_walking,
        title=f"Walk rows of more than {WIDEST} columns in blocks",
        why="A program that holds so wide a row spills its registers or leaves no room for a neighbour. In a "
        "quarter of the row a thread holds 16 or 32 elements; the price is to read the row again for each result that "
        "the next step waits for, out of the cache, which is told to keep it. Narrower rows are held as before.",
        only=only,
    )
    return None if found is None else replace(found, text=cache_hints.loads_in_lines(found.text, text))


def applies(text: str) -> bool:
    return rewrite(text) is not None
