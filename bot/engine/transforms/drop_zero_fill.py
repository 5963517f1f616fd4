"""An output that the kernel writes whole needs no zeros first: torch.empty in place of torch.zeros.

The fill is a launch of its own and a write of every byte, a third of all traffic for an op that reads a matrix and
writes one. It is dropped where the source says that each element is written before anybody reads it: the tensor goes
to one launch and nowhere else before it, the kernel stores through that pointer and never loads or adds, no program
returns early, and rows and columns of the stores are those of the tensor: a program, or a turn of a loop over a
program's run of rows, for each row; one masked block or a loop of them across it; or a tile a program, on a grid that
counts them. Where tiles cover sizes that nobody says are the tensor's, its shape is asked for. Anything else is
refused. The judge hands out poisoned memory, so an element that was missed shows.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import libcst as cst
import libcst.matchers as m

from bot.engine import coverage, kernels, runs, source, tile_stores
from bot.engine.bindings import bound_in, times_bound
from bot.engine.finding import findall
from bot.engine.source import LaunchSite, NotUnderstood
from bot.engine.transforms.rewrite import Rewrite, indent_of

UNFILLED = {"zeros": "empty", "zeros_like": "empty_like", "new_zeros": "new_empty"}
WHY = "The kernel writes every element: nothing has to be zero before."
OF_SUCH = "The kernel writes every element of such a shape: nothing has to be zero before."
FILL = m.Call(
    func=m.Attribute(m.Name("torch"), m.Name("zeros") | m.Name("zeros_like")) | m.Attribute(attr=m.Name("new_zeros")),
    args=[m.AtLeastN(m.Arg(), n=1)],
)


@dataclass(frozen=True, slots=True)
class Filled:
    """`name = torch.zeros(...)`, perhaps under a condition, before one launch of its function."""

    name: str
    statement: cst.SimpleStatementLine
    call: cst.Call
    condition: str
    """When the tensor is there at all; empty where it always is."""
    reason: str = WHY
    shape: str = ""
    """The sizes that are written, in a tuple of the host's, where it has to ask whether they are the tensor's."""


def _fill(statement: cst.BaseStatement) -> Filled | None:
    names = source.targets(statement)
    if len(names) != 1 or not source.is_plain(statement, names[0]):
        return None
    line = cst.ensure_type(statement, cst.SimpleStatementLine)
    value, condition = cst.ensure_type(line.body[0], cst.Assign).value, ""
    if isinstance(value, cst.IfExp) and m.matches(value.body, FILL):
        value, condition = value.body, source.code(value.test)
    elif isinstance(value, cst.IfExp) and m.matches(value.orelse, FILL):
        # Otherwise it is another tensor under the same name, and that one is written whole as well.
        value = value.orelse
    return Filled(names[0], line, cst.ensure_type(value, cst.Call), condition) if m.matches(value, FILL) else None


def _dims(site: LaunchSite, filled: Filled) -> tuple[str, ...]:
    """The tensor's sizes, in the host's words, which mean the same at the launch."""
    call = filled.call
    if kernels.called_name(call) == "zeros_like":
        return _shape_of(site, filled)
    since = itertools.dropwhile(lambda line: line is not filled.statement, source.statements(site.function))
    _refuse_changes(list(since)[1:], source.value(filled.statement), site)
    sizes = [arg.value for arg in call.args if arg.keyword is None]
    if len(sizes) == 1 and isinstance(sizes[0], cst.Tuple | cst.List):
        sizes = [element.value for element in sizes[0].elements]
    if not sizes:
        raise NotUnderstood("its sizes are not written out")
    return tuple(source.code(size) for size in sizes)


def _refuse_changes(since: Sequence[cst.BaseStatement], sizes: cst.CSTNode, site: LaunchSite) -> None:
    """Sizes that get other values on the way to the launch are those of another tensor there."""
    launch = source.statements(site.function)[site.position]
    on_the_way = itertools.takewhile(lambda line: line is not launch, since)
    if any(findall(sizes, m.Name(name)) for line in on_the_way for name in bound_in(line)):
        raise NotUnderstood("a size changes before the launch")


def _shape_of(site: LaunchSite, filled: Filled) -> tuple[str, ...]:
    """The names that `rows, cols = tensor.shape` gave to its sizes, if nothing changed hands since."""
    body, tensor = source.statements(site.function), source.code(filled.call.args[0].value)
    since = itertools.dropwhile(lambda line: line is not filled.statement, body[: site.position])
    if any(bound_in(line)[tensor] for line in since):
        raise NotUnderstood(f"{tensor} is another tensor at the launch")
    shape = m.Assign(value=m.Attribute(value=m.Name(tensor), attr=m.Name("shape")))
    for at in range(site.position - 1, -1, -1):
        names = source.targets(body[at])
        if names and findall(body[at], shape) and not source.is_plain(body[at], names[0]):
            _refuse_changes(body[at + 1 :], body[at], site)
            return names
        if tensor in names:
            break
    raise NotUnderstood(f"the sizes of {tensor} have no names")


def _is_alone(statement: cst.BaseStatement, call: cst.Call) -> bool:
    """Whether a call is made whenever its line is come to, and nothing else in it."""
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return False
    (line,) = statement.body
    return isinstance(line, cst.Expr | cst.Assign) and line.value is call


def _untouched_before(site: LaunchSite, filled: Filled) -> None:
    body = source.statements(site.function)
    made = [at for at, statement in enumerate(body) if statement is filled.statement]
    bound = [at for at, statement in enumerate(body) if filled.name in source.targets(statement)]
    if not made or made[0] > site.position or bound != made or not _is_alone(body[site.position], site.call):
        raise NotUnderstood(f"{filled.name} is not made once, for a launch that always happens")
    for statement in body[: site.position]:
        if statement is not filled.statement and findall(statement, m.Name(filled.name)):
            raise NotUnderstood(f"{filled.name} is used before the launch")
        if findall(statement, m.Return()):
            raise NotUnderstood("the function may return before the launch")


def _pointer(site: LaunchSite, kernel: cst.FunctionDef, name: str) -> str:
    """The parameter that gets the tensor. Its strides may be asked for beside it, and nothing else."""
    handed = [p for p in source.parameters(kernel) if m.matches(_given(site, kernel, p), m.Name(name))]
    strides = len(findall(site.call, m.Call(func=m.Attribute(value=m.Name(name), attr=m.Name("stride")))))
    conditions = len(findall(site.call, m.Comparison(left=m.Name(name))))
    if len(handed) != 1 or source.loads(site.call, name) != 1 + strides + conditions:
        raise NotUnderstood(f"{name} is not handed over once")
    return handed[0]


def _given(site: LaunchSite, kernel: cst.FunctionDef, parameter: str) -> cst.BaseExpression:
    try:
        return runs.given(site, kernel, parameter)
    except NotUnderstood:
        return cst.Ellipsis()


def _checked(module: cst.Module, site: LaunchSite, filled: Filled) -> Filled:
    """Raises NotUnderstood unless every element is written by the launch, and read by nobody before."""
    kernel = source.kernel_named(module, site.kernel)
    if kernel is None or not kernels.is_kernel(kernel):
        raise NotUnderstood(f"{site.kernel} is not a plain kernel of this file")
    if kernels.argument(filled.call, len(filled.call.args), "out") is not None:
        raise NotUnderstood("the zeros go into a tensor that is there already")
    _untouched_before(site, filled)
    pointer = _pointer(site, kernel, filled.name)
    try:
        packed = kernels.called_name(filled.call) != "zeros_like"
        dims = _dims(site, filled)
        coverage.check(coverage.Output(site, kernel, pointer, filled.name, dims, filled.condition, packed))
    except NotUnderstood:
        return _in_tiles(site, filled, tile_stores.sizes(site, kernel, pointer, filled.name))
    return filled


def _in_tiles(site: LaunchSite, filled: Filled, written: tuple[str, ...]) -> Filled:
    if source.value(filled.statement) is not filled.call:
        raise NotUnderstood("it is another tensor now and then")
    try:
        if _dims(site, filled) == written:
            return filled
    except NotUnderstood:
        pass  # the host can ask for its shape
    if kernels.called_name(filled.call) != "zeros_like" or not m.matches(filled.call.args[0].value, m.Name()):
        raise NotUnderstood("it is filled in other sizes than those that are written")
    _known_before(site, filled, written)
    return replace(filled, reason=OF_SUCH, shape=f"({', '.join(written)})")


def _known_before(site: LaunchSite, filled: Filled, sizes: tuple[str, ...]) -> None:
    """Sizes have to be what they are at the launch when the tensor is made."""
    lines = source.statements(site.function)
    before = lines[: next(at for at, line in enumerate(lines) if line is filled.statement)]
    bound = {name for line in before for name in source.targets(line)} | set(source.parameters(site.function))
    for size in sizes:
        is_parameter = size in source.parameters(site.function)
        if size not in bound or times_bound(site.function, size) != (0 if is_parameter else 1):
            raise NotUnderstood(f"{size} is not known before the launch, or changes")


def _unfilled(call: cst.Call) -> cst.Call:
    func = cst.ensure_type(call.func, cst.Attribute)
    return call.with_changes(func=func.with_changes(attr=cst.Name(UNFILLED[func.attr.value])))


def _first_told(done: list[tuple[LaunchSite, Filled]]) -> list[Filled]:
    """One reason a launch and a block of lines, above the first of its tensors."""
    told: set[tuple[str, str]] = set()
    found = []
    for site, filled in done:
        lines = source.statements(site.function)
        above = {id(before) for before, line in itertools.pairwise(lines) if line is filled.statement}
        goes_on = any(id(other.statement) in above and other.reason == filled.reason for _, other in done)
        said = goes_on or (site.kernel, filled.reason) in told
        found.append(replace(filled, reason="") if said else filled)
        told.add((site.kernel, filled.reason))
    return found


def _either(filled: Filled, indent: int) -> cst.SimpleStatementLine:
    """Zeros where the shape is another: in a line, in one of its own, or in three, as formatters write it."""
    empty, like = source.code(_unfilled(filled.call)), source.code(filled.call.args[0].value)
    parts = (empty, f"if {like}.shape == {filled.shape}", f"else {source.code(filled.call)}")
    value = " ".join(parts)
    if indent + len(f"{filled.name} = {value}") > source.LONGEST:
        is_one = indent + len(f"    {value}") <= source.LONGEST
        value = "(\n    {}\n)".format(value if is_one else "\n    ".join(parts))
    made = source.assignment(f"{filled.name} = {value}", filled.reason)
    kept = filled.statement
    return made.with_changes(
        leading_lines=(*kept.leading_lines, *made.leading_lines), trailing_whitespace=kept.trailing_whitespace
    )


def _line(filled: Filled, text: str) -> cst.SimpleStatementLine:
    if filled.shape:
        return _either(filled, indent_of(text, filled.statement))
    line = cst.ensure_type(filled.statement.deep_replace(filled.call, _unfilled(filled.call)), cst.SimpleStatementLine)
    return line.with_changes(leading_lines=(*line.leading_lines, *source.comment_lines(filled.reason)))


def _sites(module: cst.Module) -> list[LaunchSite]:
    found: list[LaunchSite] = []
    names = [str(kernel.name.value) for kernel in kernels.kernels(module)]
    for kernel in kernels.kernels(module):
        if names.count(str(kernel.name.value)) > 1:
            continue
        try:
            launches = source.sites(module, str(kernel.name.value))
        except NotUnderstood:
            continue
        found += launches
    return found


def rewrite(text: str) -> Rewrite | None:
    if not any(f"{name}(" in text for name in UNFILLED):
        return None
    try:
        module = source.parse(text)
    except NotUnderstood:
        return None
    done: list[tuple[LaunchSite, Filled]] = []
    for site in _sites(module):
        for statement in source.statements(site.function)[: site.position]:
            filled = _fill(statement)
            if filled is None:
                continue
            if any(other.statement is statement for _, other in done):
                continue
            try:
                done.append((site, _checked(module, site, filled)))
            except NotUnderstood:
                continue
    if not done:
        return None
    changed = source.spliced(module, [(filled.statement, [_line(filled, text)]) for filled in _first_told(done)])
    names = list(dict.fromkeys(filled.name for _, filled in done))
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return Rewrite(
        text=source.written(changed),
        kernels=tuple(dict.fromkeys(site.kernel for site, _ in done)),
        title="No zeros where the kernel writes every element",
        why=f"{listed} {'is' if len(names) == 1 else 'are'} filled with zeros that nobody reads: the kernel writes "
        "every element. Each fill costs a launch and a write of the whole tensor.",
    )


def applies(text: str) -> bool:
    return rewrite(text) is not None
