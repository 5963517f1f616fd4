"""Reads and edits the places where a module launches its kernels. Everything that is not edited stays byte for byte."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import libcst as cst
import libcst.matchers as m

from bot.engine import commas, exchanging
from bot.engine.bindings import bound_in
from bot.engine.finding import findall

ESTIMATED, MEASURED = "(estimated for ", "(measured on "
"""Part of every comment beside a rule: a later rule for the same launch takes its place."""
NUMBERS = WARPS, STAGES = "num_warps", "num_stages"
"""What every launch may say beside the arguments of its kernel."""


class NotUnderstood(Exception):
    """The source is not of a shape that can be edited safely; the text says what is in the way."""


NOTHING = cst.SimpleWhitespace("")
TIGHT = cst.AssignEqual(whitespace_before=NOTHING, whitespace_after=NOTHING)


@dataclass(frozen=True, slots=True)
class LaunchSite:
    """`kernel[grid](...)` in a statement of a function, or in a branch of it."""

    kernel: str
    function: cst.FunctionDef
    position: int
    """Index in the function's body of the statement that holds it."""
    call: cst.Call
    parameters: tuple[str, ...] = ()
    """Of the kernel, in their order; none where it is another module's."""

    @property
    def grid(self) -> cst.BaseExpression:
        subscript = cst.ensure_type(self.call.func, cst.Subscript)
        index = cst.ensure_type(subscript.slice[0].slice, cst.Index)
        return index.value

    def argument(self, name: str) -> cst.BaseExpression | None:
        """What is given by name: a launch number counts nowhere else."""
        return next((a.value for a in self.call.args if a.keyword is not None and a.keyword.value == name), None)


@lru_cache(maxsize=32)
def parse(text: str) -> cst.Module:
    """Once, whoever asks: no node ever changes."""
    try:
        return cst.parse_module(text)
    except (cst.ParserSyntaxError, RecursionError, ValueError) as error:
        raise NotUnderstood(f"the source does not parse: {str(error).splitlines()[0]}") from error


def functions(module: cst.Module) -> tuple[cst.FunctionDef, ...]:
    return tuple(node for node in module.body if isinstance(node, cst.FunctionDef))


def all_functions(module: cst.Module) -> tuple[cst.FunctionDef, ...]:
    """Those of the module and those of its classes."""
    found = list(functions(module))
    for node in module.body:
        if isinstance(node, cst.ClassDef) and isinstance(node.body, cst.IndentedBlock):
            found += [inner for inner in node.body.body if isinstance(inner, cst.FunctionDef)]
    return tuple(found)


def statements(function: cst.FunctionDef) -> Sequence[cst.BaseStatement]:
    return function.body.body if isinstance(function.body, cst.IndentedBlock) else ()


def kernel_named(module: cst.Module, name: str) -> cst.FunctionDef | None:
    return next((f for f in functions(module) if f.name.value == name), None)


def named_by(module: cst.Module, function: cst.FunctionDef) -> tuple[cst.FunctionDef, ...]:
    """The functions of the file that one names, and those that these name."""
    found, names = [function], {function.name.value}
    for one in found:  # which grows
        more = [other for other in functions(module) if other.name.value not in names]
        found += [other for other in more if findall(one, m.Name(other.name.value))]
        names |= {other.name.value for other in found}
    return tuple(found[1:])


def imports(module: cst.Module, path: str, name: str) -> int:
    """How often a module imports a name from the file at a path."""
    dotted = "." + path.removesuffix(".py").replace("/", ".")
    lines = [cst.ensure_type(found, cst.ImportFrom) for found in findall(module, m.ImportFrom())]
    mine = [one for one in lines if not one.relative and one.module and dotted.endswith("." + code(one.module))]
    return sum(len(findall(line, m.ImportAlias(name=m.Name(name), asname=None))) for line in mine)


def declared(function: cst.FunctionDef) -> tuple[cst.Param, ...]:
    found = function.params
    return (*found.posonly_params, *found.params, *found.kwonly_params)


def parameters(function: cst.FunctionDef) -> tuple[str, ...]:
    return tuple(str(parameter.name.value) for parameter in declared(function))


LAUNCH = m.Call(func=m.Subscript(value=m.Name(), slice=[m.SubscriptElement(slice=m.Index())]))
ANY_LAUNCH = m.Call(func=m.Subscript(value=m.Name()))
"""However its grid is written."""


def _launches_in(statement: cst.BaseStatement) -> Iterator[cst.Call]:
    """Launches in a statement and in the branches and `with` blocks it holds; loops and functions are left out."""
    if isinstance(statement, cst.SimpleStatementLine):
        yield from (cst.ensure_type(call, cst.Call) for call in findall(statement, LAUNCH))
    elif isinstance(statement, cst.With | cst.If | cst.Else):
        for inner in statement.body.body:
            if isinstance(inner, cst.BaseStatement):
                yield from _launches_in(inner)
        if isinstance(statement, cst.If) and statement.orelse is not None:
            yield from _launches_in(statement.orelse)


Found = tuple[cst.FunctionDef, int, cst.Call]
"""Where a launch was found, and which statement of the function holds it."""


def launched(call: cst.CSTNode) -> str:
    """The name that is launched."""
    return str(
        cst.ensure_type(cst.ensure_type(cst.ensure_type(call, cst.Call).func, cst.Subscript).value, cst.Name).value
    )


@lru_cache(maxsize=64)
def _launches(module: cst.Module) -> tuple[Mapping[str, Sequence[Found]], Counter[str]]:
    """Of each name the launches that are looked into, and how many there are anywhere."""
    found: dict[str, list[Found]] = {}
    for function in all_functions(module):
        for position, statement in enumerate(statements(function)):
            for call in _launches_in(statement):
                found.setdefault(launched(call), []).append((function, position, call))
    return found, Counter(map(launched, findall(module, ANY_LAUNCH)))


def sites(module: cst.Module, kernel: str) -> tuple[LaunchSite, ...]:
    """Every launch of a kernel, or none at all when one of them is somewhere that is not looked into."""
    found, all_there_are = _launches(module)
    mine = found.get(kernel, ())
    if len(mine) != all_there_are[kernel]:
        raise NotUnderstood(f"{kernel} is launched inside of a loop")
    definition = kernel_named(module, kernel) if mine else None
    known = parameters(definition) if definition is not None else ()
    return tuple(LaunchSite(kernel, *one, known) for one in mine)


def loads(node: cst.CSTNode, name: str) -> int:
    """How often a variable is read."""

    class Reader(cst.CSTVisitor):  # type: ignore[misc]  # libcst is not followed
        count = 0

        def visit_Name(self, node: cst.Name) -> None:
            self.count += node.value == name

        def visit_Arg(self, node: cst.Arg) -> bool:
            node.value.visit(self)
            return False

        def visit_Attribute(self, node: cst.Attribute) -> bool:
            node.value.visit(self)
            return False

        def visit_AssignTarget(self, node: cst.AssignTarget) -> bool:
            return False

        def visit_Param(self, node: cst.Param) -> bool:
            return False

    reader = Reader()
    node.visit(reader)
    return reader.count


def targets(statement: cst.CSTNode) -> tuple[str, ...]:
    """Names that a plain assignment statement binds."""
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return ()
    assign = statement.body[0]
    if not isinstance(assign, cst.Assign) or len(assign.targets) != 1:
        return ()
    target = assign.targets[0].target
    if isinstance(target, cst.Name):
        return (target.value,)
    if isinstance(target, cst.Tuple):
        return tuple(e.value.value for e in target.elements if isinstance(e.value, cst.Name))
    return ()


def is_plain(statement: cst.CSTNode, name: str) -> bool:
    """`name = ...` alone, not an unpacking."""
    return targets(statement) == (name,) and not isinstance(
        cst.ensure_type(cst.ensure_type(statement, cst.SimpleStatementLine).body[0], cst.Assign).targets[0].target,
        cst.Tuple,
    )


def value(statement: cst.CSTNode) -> cst.BaseExpression:
    """What a plain assignment gives; nothing of any other statement."""
    if not targets(statement):
        return cst.Ellipsis()
    return cst.ensure_type(cst.ensure_type(statement, cst.SimpleStatementLine).body[0], cst.Assign).value


def last_binding(site: LaunchSite, name: str) -> int | None:
    """Index of the statement that gave a variable the value the launch sees; None when a branch may have changed it, or
    another kind of line did."""
    body = statements(site.function)
    bound = [i for i in range(site.position) if bound_in(body[i])[name]]
    compound = [body[i] for i in range(site.position + 1) if not isinstance(body[i], cst.SimpleStatementLine)]
    if not bound or name not in targets(body[bound[-1]]) or any(bound_in(statement)[name] for statement in compound):
        return None
    return bound[-1]


@lru_cache(maxsize=16)
def _empty(indent: str, newline: str) -> cst.Module:
    return cst.Module(body=(), default_indent=indent, default_newline=newline)


PLAIN = _empty("    ", "\n")


@lru_cache(maxsize=512)
def _remembered(node: cst.CSTNode, module: cst.Module) -> str:
    return str(module.code_for_node(node))


def code(node: cst.CSTNode) -> str:
    return _remembered(node, PLAIN) if isinstance(node, cst.FunctionDef) else str(PLAIN.code_for_node(node))


def written(module: cst.Module) -> str:
    """The text of a module. Of what a change left as it was it is known already."""
    ways = module.default_indent, module.default_newline
    plain = _empty(*ways)
    body = "".join(_remembered(one, plain) for one in module.body)
    text = "".join((*map(plain.code_for_node, module.header), body, *map(plain.code_for_node, module.footer)))
    if not module.has_trailing_newline:
        return text.removesuffix(module.default_newline)
    return text or str(module.default_newline)


def expression(text: str) -> cst.BaseExpression:
    return cst.parse_expression(text)


def assignment(text: str, comment: str = "") -> cst.SimpleStatementLine:
    """A new statement with a line of comment above it."""
    statement = cst.ensure_type(cst.parse_statement(text), cst.SimpleStatementLine)
    return statement.with_changes(leading_lines=comment_lines(comment))


def comment_lines(comment: str) -> tuple[cst.EmptyLine, ...]:
    return (cst.EmptyLine(comment=cst.Comment(f"# {comment}")),) if comment else ()


def tells_of_a_rule(line: cst.EmptyLine) -> bool:
    """Whether it is a comment of ours beside a rule for launch numbers."""
    return line.comment is not None and any(mark in line.comment.value for mark in (ESTIMATED, MEASURED))


def without_ours(lines: Sequence[cst.EmptyLine]) -> tuple[cst.EmptyLine, ...]:
    return tuple(line for line in lines if not tells_of_a_rule(line))


def _arch_of(comment: str) -> str:
    """Which architecture a comment beside a rule names."""
    return next((comment.partition(mark)[2].partition(")")[0] for mark in (ESTIMATED, MEASURED) if mark in comment), "")


def commented(lines: Sequence[cst.EmptyLine], why: str) -> tuple[cst.EmptyLine, ...]:
    """Leading lines with a comment below them, in place of earlier ones of ours and of the same words. What was said of
    a rule for another architecture stays, as the rule does."""
    mine = _arch_of(why)
    others = [line for line in lines if mine and tells_of_a_rule(line) and _arch_of(line.comment.value) != mine]
    kept = [line for line in lines if line in others or not tells_of_a_rule(line)]
    kept = [line for line in kept if line.comment is None or line.comment.value != f"# {why}"]
    return (*kept, *comment_lines(why))


def with_statements(function: cst.FunctionDef, body: Sequence[cst.BaseStatement]) -> cst.FunctionDef:
    block = cst.ensure_type(function.body, cst.IndentedBlock)
    return function.with_changes(body=block.with_changes(body=tuple(body)))


def replaced(module: cst.Module, old: cst.CSTNode, new: cst.CSTNode) -> cst.Module:
    """The module with one node in place of another. A node of an earlier module is not found, and that is a bug."""
    return cst.ensure_type(exchanging.exchanged(module, {old: (new,)}), cst.Module)


def with_argument(call: cst.Call, name: str, value: cst.BaseExpression) -> cst.Call:
    """The call with a named argument set, or added where it was not given.

    Raises NotUnderstood for a launch number that a dictionary may hold already: said twice, it is an error.
    """
    for argument in call.args:
        if argument.keyword is not None and argument.keyword.value == name:
            return call.with_changes(
                args=[a.with_changes(value=value) if a is argument else a for a in call.args],
            )
    if name in NUMBERS and any(argument.star == "**" for argument in call.args):
        raise NotUnderstood(f"{name} may be said in a dictionary")
    return with_new_argument(call, name, value)


def with_new_argument(call: cst.Call, name: str, value: cst.BaseExpression) -> cst.Call:
    """The call with a named argument that it does not have: the last of them, in a line of its own where the others
    have theirs."""
    new, args = cst.Arg(keyword=cst.Name(name), value=value, equal=TIGHT), list(call.args)
    at = len(args)
    while at and args[at - 1].star == "**":
        at -= 1
    if at < len(args) or not args:
        args.insert(at, new.with_changes(comma=commas.plain(args[0].comma) if args else cst.MaybeSentinel.DEFAULT))
        return call.with_changes(args=args)
    last = args[-1]
    between = args[-2].comma if len(args) > 1 else cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    if commas.moves_a_comment(last.comma, between) or findall(last.whitespace_after_arg, m.Comment()):
        raise NotUnderstood("what was said of the last argument would be said of another")
    args[-1] = last.with_changes(comma=commas.followed(last.comma, between), whitespace_after_arg=NOTHING)
    args.append(new.with_changes(comma=commas.plain(last.comma), whitespace_after_arg=last.whitespace_after_arg))
    return call.with_changes(args=args)


LONGEST = 120
"""Characters of a line."""
IN_A_BODY = LONGEST - 8
"""Of one in a loop of a kernel, or in a method, before it is indented."""


def line_of(site: LaunchSite) -> cst.SimpleStatementLine:
    """The line that holds a launch, in whatever branch it stands."""
    statement = statements(site.function)[site.position]
    for found in (statement, *findall(statement, m.SimpleStatementLine())):
        if isinstance(found, cst.SimpleStatementLine) and any(c is site.call for c in findall(found, m.Call())):
            return found
    raise NotUnderstood("a launch is not part of a line")


def exchanged(tree: cst.CSTNode, new: Mapping[cst.CSTNode, cst.CSTNode]) -> cst.CSTNode:
    """The tree with nodes for nodes."""
    return exchanging.exchanged(tree, {old: (one,) for old, one in new.items()})


def spliced(module: cst.Module, changes: Sequence[tuple[cst.CSTNode, Sequence[cst.BaseStatement]]]) -> cst.Module:
    """The module with statements replaced by others in the same block, all at once: a change makes new nodes of those
    that hold it."""
    new = dict(changes)
    if len(new) != len(changes):
        raise AssertionError("a statement is replaced twice")
    return cst.ensure_type(exchanging.exchanged(module, new), cst.Module)


def split_above(
    line: cst.SimpleStatementLine | cst.For | cst.If,
) -> tuple[tuple[cst.EmptyLine, ...], tuple[cst.EmptyLine, ...]]:
    """The empty lines above a line, and from the first comment on what is said of it."""
    above = tuple(line.leading_lines)
    at = next((at for at, found in enumerate(above) if found.comment is not None), len(above))
    return above[:at], above[at:]


def launched_after(
    site: LaunchSite, lines: Sequence[cst.SimpleStatementLine], call: cst.Call
) -> list[cst.BaseStatement]:
    """The line of a launch as another call, with new lines above it that stand above what is said of the launch."""
    line = line_of(site)
    empty, said = split_above(line)
    first, *others = lines
    changed = cst.ensure_type(line.deep_replace(site.call, call), cst.SimpleStatementLine)
    top = first.with_changes(leading_lines=(*empty, *first.leading_lines))
    return [top, *others, changed.with_changes(leading_lines=said)]
