"""Lines of a host function that stand together and are torch's arithmetic on rows, and what of it is wanted below.

Lines that read each other's results are a group; whoever writes one down as a kernel stores what is wanted of it. A
name is wanted where anything else in the function reads it, unless a line below that is always come to gives it
another value first, or where the next turn of a loop would begin with it. Lines that free a tensor (`del`) may stand
among them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import libcst as cst
import libcst.matchers as m

from bot.engine import source
from bot.engine.bindings import times_bound
from bot.engine.finding import findall
from bot.engine.row_expressions import FULL, NUMBER, Expression, Kernel, Leaf, Reader, as_stored, every, launches_of
from bot.engine.source import NotUnderstood

FEWEST, MOST = 2, 300
"""Launches of torch's in place of which a kernel is worth its lines; and how much is too much to write down."""
TAKEN = re.compile(
    r"(_rounded|kind|first|start|offsets|mask|n_cols|BLOCK_SIZE|tl|torch|triton|new_.*|(largest|total|part)(_\d+)?|.*_ptr|num_.*|_+)"
)
"""What a kernel of rows and its launch call things."""
STRANGE = m.Yield() | m.Await() | m.Global() | m.Nonlocal() | m.Lambda() | m.Try() | m.Match() | m.CompFor()
"""With these in a function a name may be read where nobody looks."""
FREES = m.SimpleStatementLine(body=[m.Del(m.Name() | m.Tuple())])


Block = Sequence[cst.BaseStatement]
Way = tuple[cst.CSTNode, ...]
"""What a block stands in, the function first."""


@dataclass(frozen=True)
class Step:
    """A line, what it works out, and as what type it is stored."""

    line: cst.SimpleStatementLine
    name: str
    value: Expression
    kind: str = ""


@dataclass(frozen=True)
class Group:
    """Lines that belong together, and those of their names that are wanted below."""

    steps: tuple[Step, ...]
    wanted: tuple[str, ...]

    @property
    def read(self) -> frozenset[str]:
        """Names that stand for what they did above."""
        return frozenset((*self.kernel.leaves(FULL), *self.kernel.leaves(NUMBER)))

    @cached_property
    def last(self) -> dict[str, Step]:
        """Who gave each name the value that it has in the end."""
        return {step.name: step for step in self.steps}

    @property
    def helper(self) -> str:
        return f"_{self.wanted[0].strip('_').lower()}_in_rows"

    @cached_property
    def kernel(self) -> Kernel:
        """A store rounds by itself, but for what is stored in another type."""
        values = {name: self.last[name] for name in self.wanted}
        stored = {name: one.value if one.kind else as_stored(one.value) for name, one in values.items()}
        return Kernel(f"{self.helper}_kernel", stored)

    @property
    def kinds(self) -> tuple[str, ...]:
        """As what types results are stored, where that is said."""
        return tuple(dict.fromkeys(kind for name in self.wanted if (kind := self.last[name].kind)))

    @property
    def arguments(self) -> str:
        return ", ".join((*self.kernel.leaves(FULL), *self.kernel.leaves(NUMBER), *self.kinds))


@dataclass(frozen=True)
class Run:
    """Lines of a block that are read, one below the other; among them may be some that free a tensor."""

    block: Block
    at: int
    steps: tuple[Step, ...]
    freed: tuple[cst.SimpleStatementLine, ...]

    @property
    def lines(self) -> Block:
        return self.block[self.at : self.at + len(self.steps) + len(self.freed)]


def _numbers(function: cst.FunctionDef) -> frozenset[str]:
    """Parameters that nobody gives another value, and that are only ever multiplied with or divided by:
    `x / temperature`. Most likely they are numbers; whether they are is seen when it is run."""
    scales, others = set[str](), set[str]()
    for found in findall(function, m.BinaryOperation()):
        one = cst.ensure_type(found, cst.BinaryOperation)
        scaled = isinstance(one.operator, cst.Multiply | cst.Divide)
        others |= {source.code(one.left)} | (set() if scaled else {source.code(one.right)})
        scales |= {source.code(one.right)} if scaled else set()
    others |= {source.code(cst.ensure_type(one, cst.Attribute).value) for one in findall(function, m.Attribute())}
    known = set(source.parameters(function)) & scales - others
    return frozenset(name for name in known if not times_bound(function, name))


def _step(line: cst.BaseStatement, reader: Reader) -> Step | None:
    """A line that is read, or None where it is anything else."""
    names = source.targets(line)
    if len(names) != 1 or not source.is_plain(line, names[0]) or len(findall(line, m.Comment())) > _said_above(line):
        return None
    value, kind = source.value(line), ""
    if m.matches(value, m.Call(func=m.Attribute(attr=m.Name("to")), args=[m.Arg(m.Name(), keyword=None, star="")])):
        call = cst.ensure_type(value, cst.Call)
        value, kind = cst.ensure_type(call.func, cst.Attribute).value, source.code(call.args[0].value)
    if _is_handed_on(value) and not findall(value, m.Name(names[0])):
        return None  # one tensor with two names
    try:
        found = reader.read(value)
    except NotUnderstood:
        return None
    if len(list(itertools.islice(every(found), MOST + 1))) > MOST:
        return None
    is_work = not isinstance(found, Leaf) and (found.extent == FULL or not kind)
    return Step(cst.ensure_type(line, cst.SimpleStatementLine), names[0], found, kind) if is_work else None


def _is_handed_on(value: cst.BaseExpression) -> bool:
    """Whether it may be the tensor itself, without a gap or of the type that it has."""
    while m.matches(value, m.Call(func=m.Attribute(attr=m.Name("contiguous")))):
        value = cst.ensure_type(cst.ensure_type(value, cst.Call).func, cst.Attribute).value
    return isinstance(value, cst.Name)


def _said_above(line: cst.BaseStatement) -> int:
    return sum(one.comment is not None for one in getattr(line, "leading_lines", ()))


def _run(block: Block, at: int, numbers: frozenset[str]) -> Run:
    """The lines from here on that are read, each with what those above it stand for. What has another type, or is
    freed, is not read any more."""
    known: dict[str, Expression] = {}
    gone, done, steps, freed = set[str](), set[str](), list[Step](), list[cst.SimpleStatementLine]()
    for line in block[at:]:
        if steps and m.matches(line, FREES):
            names = names_of(cst.ensure_type(line, cst.SimpleStatementLine))
            if names & gone:
                break
            freed.append(cst.ensure_type(line, cst.SimpleStatementLine))
            gone |= names
            continue
        step = _step(line, Reader(known, numbers))
        if step is None or step.name in numbers or step.name in gone:
            break
        if any(findall(source.value(line), m.Name(name)) for name in done | gone):
            break
        steps.append(step)
        known[step.name] = step.value
        done = (done | {step.name}) if step.kind else done - {step.name}
    while freed and block[at + len(steps) + len(freed) - 1] is freed[-1]:
        freed.pop()  # below the last line that is read
    return Run(block, at, tuple(steps), tuple(freed))


def names_of(line: cst.SimpleStatementLine) -> set[str]:
    """What a line frees."""
    return {source.code(name) for name in findall(line.body[0], m.Name())}


def _together(steps: Sequence[Step]) -> list[list[Step]]:
    """Steps that read each other's results, in the order of their first lines."""
    groups: list[list[Step]] = []
    for step in steps:
        needed = [one for one in groups if any(findall(source.value(step.line), m.Name(other.name)) for other in one)]
        needed += [one for one in groups if one not in needed and any(other.name == step.name for other in one)]
        if needed:
            first, *others = [one for one in groups if one in needed]
            for other in others:
                first += other
                groups.remove(other)
            first.append(step)
        else:
            groups.append([step])
    return groups


def _reads(node: cst.CSTNode, name: str) -> int:
    """How often a name is read, also where a part of what it names is given a value."""
    parts = (
        one for target in findall(node, m.AssignTarget()) for one in findall(target, m.Subscript() | m.Attribute())
    )
    return source.loads(node, name) + sum(bool(findall(one, m.Name(name))) for one in parts)


def _is_wanted(way: Way, run: Run, name: str) -> bool:
    """Whether what a name stands for behind the run may be read. `way`: what the run stands in."""
    for line in run.block[run.at + len(run.lines) :]:
        if _reads(line, name):
            return True
        if name in source.targets(line) and not any(isinstance(node, cst.With) for node in way):
            return False
        if findall(line, m.Break() | m.Continue()):
            break
    if _reads(way[0], name) > sum(_reads(line, name) for line in run.lines):
        return True
    is_made_above = any(name in source.targets(line) for line in run.block[: run.at])
    is_turn = any(isinstance(node, cst.For | cst.While) for node in way)
    return is_turn and not is_made_above and _begins_with(run.steps, name)


def _begins_with(steps: Sequence[Step], name: str) -> bool:
    """Whether a name is read before it is made."""
    for step in steps:
        if source.loads(source.value(step.line), name):
            return True
        if step.name == name:
            return False
    return False


def _statements(node: cst.CSTNode) -> Block:
    body = getattr(node, "body", None)
    lines = body.body if isinstance(body, cst.IndentedBlock) else ()
    return [line for line in lines if isinstance(line, cst.BaseStatement)]


def _blocks(node: cst.CSTNode, way: Way = ()) -> Iterator[tuple[Block, Way]]:
    """Each block of a function, and what it stands in."""
    block, way = _statements(node), (*way, node)
    yield block, way
    for line in block:
        if isinstance(line, cst.For | cst.While | cst.If | cst.With):
            yield from _blocks(line, way)
        other = line.orelse if isinstance(line, cst.If) else None
        while other is not None:
            yield from _blocks(other, way)
            other = other.orelse if isinstance(other, cst.If) else None


def _groups(way: Way, run: Run) -> list[Group]:
    """What becomes of a run; lines that none of them holds stay. Raises NotUnderstood where one would read what
    another has overwritten, or something is wanted that is no whole tensor."""
    found = []
    for steps in _together(run.steps):
        names = tuple(dict.fromkeys(step.name for step in steps))
        gone = {name for line in run.freed for name in names_of(line)}
        wanted = tuple(name for name in names if name not in gone and _is_wanted(way, run, name))
        if not wanted or any(step.value.extent != FULL for step in steps if step.name in wanted):
            raise NotUnderstood("a result is none of a whole tensor, or of no use")
        group = Group(tuple(steps), wanted)
        if max(launches_of(group.last[name].value) for name in wanted) < FEWEST or not group.kernel.reduces:
            raise NotUnderstood("too little to do")
        if any(TAKEN.fullmatch(name) for name in (*names, *group.read, *group.kinds)):
            raise NotUnderstood("a name is taken")
        if {*group.kinds} & {*group.read, *names} or not _named_above(steps) <= {*group.read, *group.kinds}:
            raise NotUnderstood("the lines read more than what is handed over")
        found.append(group)
    for one in found:
        if any(
            {step.name for step in one.steps} & (other.read | {*other.kinds}) for other in found if other is not one
        ):
            raise NotUnderstood("one would read what another has made")
    return found


def _named_above(steps: Sequence[Step]) -> set[str]:
    """What the lines of a group read of what was there before them, a shape or a type too."""
    made, found = {"torch", "True"}, set[str]()
    for step in steps:
        value = source.value(step.line)
        names = {source.code(name) for name in findall(value, m.Name())}
        found |= {name for name in names - made if source.loads(value, name)}
        made.add(step.name)
    return found


def freed_after(groups: Sequence[Group], run: Run) -> Iterator[tuple[int, cst.SimpleStatementLine]]:
    """Behind which group a tensor is freed. What the lines made for themselves is not made any more."""
    made = {step.name for step in run.steps}
    for line in run.freed:
        names = names_of(line)
        readers = [at for at, one in enumerate(groups) if names & set(one.kernel.leaves(FULL))]
        above = {name for one in groups for name in one.kernel.leaves(FULL)}
        if not names <= made | above or (names & above and not names <= above):
            raise NotUnderstood("something else is freed")
        if readers:
            yield readers[-1], line
        elif findall(line, m.Comment()):
            raise NotUnderstood("a comment would be lost")


def _of_other_shapes(function: cst.FunctionDef) -> frozenset[str]:
    """Names of what is surely no tensor as wide as the rows: parameters that are said to be numbers, and what was
    reduced along them. A kernel that is handed one would never fit, and nobody launch it."""
    declared = {str(one.name.value): one.annotation for one in source.declared(function)}
    said = {name: source.code(one.annotation) for name, one in declared.items() if one is not None}
    kept = m.Call(args=[m.ZeroOrMore(), m.Arg(keyword=m.Name("keepdim"), value=m.Name("True")), m.ZeroOrMore()])
    reduced = m.Assign(targets=[m.AssignTarget(m.Name())], value=kept | m.Attribute(value=kept))
    narrow = [source.code(cst.ensure_type(one, cst.Assign).targets[0].target) for one in findall(function, reduced)]
    numbers = {name for name, kind in said.items() if kind in ("float", "int") and not times_bound(function, name)}
    return frozenset(numbers | {name for name in narrow if times_bound(function, name) == narrow.count(name)})


def found(function: cst.FunctionDef) -> Iterator[tuple[Run, list[Group]]]:
    """Runs of a function of the host's, and what becomes of each."""
    if findall(function, STRANGE) or findall(function, m.FunctionDef()) != [function]:
        return
    if findall(function, m.Name("tl") | m.Name("jit") | m.Name("language")):
        return
    numbers, others = _numbers(function), _of_other_shapes(function)
    for block, way in _blocks(function):
        at = 0
        while at < len(block):
            run = _run(block, at, numbers)
            try:
                if run.steps and (groups := _groups(way, run)):
                    if any(others & {*one.kernel.leaves(FULL)} for one in groups):
                        raise NotUnderstood("it would never be handed tensors of one shape")
                    list(freed_after(groups, run))
                    yield run, groups
            except NotUnderstood:
                pass
            at += max(1, len(run.lines))
