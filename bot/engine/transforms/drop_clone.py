"""Leave an input where it lies that was cloned only for a gradient to be written over the clone.

    gradient = x.clone()
    loss, gradient = dispatch("loss_and_grad", gradient, target, impl=impl)

What `dispatch` runs may write over its first argument, and x is the caller's. Liger-kernel's jsd moves 4 of its 10
bytes an element (bfloat16, after `reduce_loss`) for such a clone, which took an H200 0.25 of 0.9 ms (8192 x 32000).
Triton's kernel has a pointer to read and another to write, and gets the same tensor for both.

So the function that is registered under that word gets a mode, by which it writes to a tensor of its own: no parameter
more, which nobody else could be told of, and in place as before in any other mode. Who cloned asks `resolve_impl` as
`dispatch` does. If what will run has that mode, it gets the input itself; any other gets a clone. What is written asks
for a contiguous input as well: a clone of an input with gaps has none, and whoever calls from a file that is not seen
may hand over such a one.

Refused unless the kernel only loads through the one pointer, only stores all of each row through the other, on every
way out, and loads each element before it stores there, so that it does not matter whether both are the same; unless
nobody else writes to the input, in either function; and unless each name means what it says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import kernels, source, written_over
from bot.engine.added_up import Modules
from bot.engine.bindings import times_bound
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood
from bot.engine.transforms.rewrite import FilesRewrite
from bot.engine.written_over import OUT, Launched

REGISTRY = "liger_kernel.backends"
"""The package whose `dispatch` hands the mode on, and whose `resolve_impl` says what it will run."""
WHY = "Who has this mode writes elsewhere and leaves its first argument as it is: nothing to clone."
REGISTERS = ("register_op", "register_impl")
ASK, CHOSEN, MODE = "resolve_impl", "selected", "out_of_place"
WORDS = ("shape", "dtype", "device", "stride", "size", "numel", "element_size", "is_cuda", "ndim", "dim")
"""What may be asked of a tensor without touching an element of it."""
ASKED = m.OneOf(*(m.Name(word) for word in WORDS))
Changes = dict[str, list[tuple[cst.CSTNode, list[cst.BaseStatement]]]]


@dataclass(frozen=True, slots=True)
class Cloned:
    """`name = given.clone()`, handed over as the first argument and bound again to what comes back."""

    path: str
    function: cst.FunctionDef
    given: str
    name: str
    word: str
    """What is asked for by `dispatch`."""
    impl: str
    """Who is asked for, if anybody."""
    mode: str
    line: cst.SimpleStatementLine


@dataclass(frozen=True, slots=True)
class Writer:
    """The function registered under the word, which launches a kernel that writes over its first argument."""

    path: str
    function: cst.FunctionDef
    first: str
    modes: cst.Tuple
    """Those it is registered with."""
    plain: str
    """The one mode it has."""
    known: cst.If
    """Where it refuses others."""


def _text(node: cst.CSTNode | None) -> str:
    return str(node.evaluated_value) if isinstance(node, cst.SimpleString) else ""


def _has(module: cst.Module, name: str) -> bool:
    """Whether the module has a name of the registry, and nothing else by that name."""
    lines = [cst.ensure_type(found, cst.ImportFrom) for found in findall(module, m.ImportFrom())]
    mine = [one for one in lines if not one.relative and one.module and source.code(one.module) == REGISTRY]
    made = m.AssignTarget(target=m.Name(name)) | m.FunctionDef(name=m.Name(name)) | m.Param(name=m.Name(name))
    every = findall(module, m.ImportAlias(name=m.Name(name)) | m.AsName(name=m.Name(name)) | made)
    return len(every) == sum(len(findall(line, m.ImportAlias(name=m.Name(name), asname=None))) for line in mine) == 1


def _only_asked(function: cst.FunctionDef, tensor: str, besides: int) -> None:
    """Raises NotUnderstood where a function does more with a tensor than to ask for its sizes, `besides` so often."""
    asked = len(findall(function, m.Attribute(value=m.Name(tensor), attr=ASKED)))
    if times_bound(function, tensor) or source.loads(function, tensor) != asked + besides:
        raise NotUnderstood(f"{tensor} may be written, or goes elsewhere")


def _free(function: cst.FunctionDef, *names: str) -> None:
    if any(findall(function, m.Name(name)) for name in names):
        raise NotUnderstood("a name is taken")


def _first_of(function: cst.FunctionDef, call: cst.Call, between: list[cst.BaseStatement]) -> cst.BaseExpression | None:
    """The first argument behind the word, said in the call or in a tuple that is made for it."""
    if len(call.args) < 2 or call.args[1].keyword is not None:
        return None
    said, star = call.args[1].value, call.args[1].star
    if not star or not isinstance(said, cst.Name):
        return None if star else said
    made = [line for line in between if source.is_plain(line, said.value)]
    if len(made) != 1 or times_bound(function, said.value) != 1 or source.loads(function, said.value) != 1:
        return None
    value = source.value(made[0])
    first = value.elements[0] if isinstance(value, cst.Tuple) and value.elements else None
    return first.value if isinstance(first, cst.Element) else None


def _named(function: cst.FunctionDef, call: cst.Call) -> tuple[str, str]:
    """The names of who is asked for, if anybody, and of the mode. Other words for them are not understood."""
    named = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
    if "backend" in named or "mode" not in named or any(arg.star == "**" for arg in call.args):
        raise NotUnderstood("the call says more than it shows, or no mode")
    said = [named[word] for word in ("impl", "mode") if word in named]
    if any(not isinstance(one, cst.Name) or times_bound(function, str(one.value)) for one in said):
        raise NotUnderstood("who is asked for may be another by then")
    impl, mode = (source.code(named[word]) if word in named else "" for word in ("impl", "mode"))
    if mode not in source.parameters(function) or source.loads(function, mode) != 1:
        raise NotUnderstood("the mode is read elsewhere too")
    return impl, mode


def _cloned(path: str, function: cst.FunctionDef, at: int) -> Cloned:
    body = list(source.statements(function))
    name = next(iter(source.targets(body[at])), "")
    given = next((p for p in source.parameters(function) if source.code(source.value(body[at])) == f"{p}.clone()"), "")
    if not given or not source.is_plain(body[at], name) or times_bound(function, name) != 2:
        raise NotUnderstood("it is no clone of what was given, made once and bound once more")
    end = next((n for n in range(at + 1, len(body)) if name in source.targets(body[n])), at)
    call = source.value(body[end])
    if not isinstance(call, cst.Call) or not m.matches(call.func, m.Name("dispatch")):
        raise NotUnderstood(f"{name} does not come back from a dispatched op")
    between = body[at + 1 : end + 1]
    first = _first_of(function, call, between)
    if not m.matches(first, m.Name(name)) or sum(source.loads(line, name) for line in between) != 1:
        raise NotUnderstood(f"{name} is not handed over first, and once")
    _only_asked(function, given, besides=1)
    _free(function, CHOSEN)
    line = cst.ensure_type(body[at], cst.SimpleStatementLine)
    return Cloned(path, function, given, name, _text(call.args[0].value), *_named(function, call), line)


def _clones(modules: Modules) -> Iterator[Cloned]:
    for path, module in modules.items():
        if not _has(module, "dispatch"):
            continue
        for function in source.functions(module):
            for at in range(len(source.statements(function))):
                try:
                    yield _cloned(path, function, at)
                except NotUnderstood:
                    continue


def _writer(modules: Modules, word: str) -> Writer:
    """The one function of the files that is registered under the word."""
    found = []
    for path, module in modules.items():
        for function in source.functions(module):
            calls = [one.decorator for one in function.decorators if isinstance(one.decorator, cst.Call)]
            if any(call.args and _text(call.args[0].value) == word for call in calls):
                found.append((path, module, function, calls[0]))
    if not word or len(found) != 1 or len(found[0][2].decorators) != 1:
        raise NotUnderstood(f'not one function is registered as "{word}", and as nothing else')
    path, module, function, call = found[0]
    register, modes = kernels.called_name(call), kernels.argument(call, len(call.args), "modes")
    if register not in REGISTERS or not _has(module, register) or not isinstance(modes, cst.Tuple):
        raise NotUnderstood("it is registered in another way, or without modes")
    if not findall(module, m.ImportAlias(name=m.Name("torch"), asname=None)):
        raise NotUnderstood("it has no torch")
    if function.params.posonly_params or not function.params.params:
        raise NotUnderstood("its first argument has no name")
    _free(function, OUT)
    plain, known = _refusing(function, modes)
    return Writer(path, function, str(function.params.params[0].name.value), modes, plain, known)


def _refusing(function: cst.FunctionDef, modes: cst.Tuple) -> tuple[str, cst.If]:
    """`if mode not in (None, "default"): raise ...` of the one mode there is, which nobody else asks for."""
    plain = _text(modes.elements[0].value) if len(modes.elements) == 1 else ""
    wanted = [f"mode not in (None, {quote}{plain}{quote})" for quote in ("'", '"')]
    for one in source.statements(function):
        if isinstance(one, cst.If) and one.orelse is None and source.code(one.test) in wanted:
            only = m.IndentedBlock(body=[m.SimpleStatementLine(body=[m.Raise()])])
            alone = source.loads(function, "mode") == source.loads(one, "mode")
            if plain and alone and m.matches(one.body, only) and "mode" in source.parameters(function):
                return plain, one
    raise NotUnderstood("what it does with a mode is not sure")


def _documented(statement: cst.BaseStatement, first: str) -> cst.BaseStatement:
    """A docstring of several lines with one more at its end: what the author said stays together."""
    strings = findall(statement, m.SimpleString()) if m.matches(statement, kernels.DOCSTRING) else []
    end = re.search(r'\n( +)"""$', source.code(strings[0])) if strings else None
    if end is None:
        return statement
    text = cst.ensure_type(strings[0], cst.SimpleString)
    said = f'{text.value[: end.start()]}\n\n{end[1]}With ``mode="{MODE}"`` ``{first}`` stays as it is.{end[0]}'
    return cst.ensure_type(statement.deep_replace(text, text.with_changes(value=said)), cst.BaseStatement)


def _knowing(writer: Writer) -> cst.If:
    """The mode is no longer refused, and is named where the others are refused."""
    known = writer.known
    modes = cst.ensure_type(cst.ensure_type(known.test, cst.Comparison).comparisons[0].comparator, cst.Tuple)
    changed = cst.ensure_type(known.deep_replace(modes, _with_mode(modes)), cst.If)
    for text in findall(changed, m.FormattedStringText()):
        part = cst.ensure_type(text, cst.FormattedStringText)
        said = part.value.replace(f"mode='{writer.plain}'", f"mode='{writer.plain}' or '{MODE}'")
        changed = cst.ensure_type(changed.deep_replace(part, part.with_changes(value=said)), cst.If)
    return changed


def _with_mode(modes: cst.Tuple) -> cst.Tuple:
    *others, last = modes.elements
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    new = cst.Element(cst.SimpleString(f'"{MODE}"'))
    return modes.with_changes(elements=[*others, last.with_changes(comma=comma), new])


def _returned(line: cst.BaseStatement, first: str) -> cst.BaseStatement:
    """The last line with the tensor that was written in place of the first argument."""
    value = (
        cst.ensure_type(line.body[0], cst.Return).value
        if m.matches(line, m.SimpleStatementLine(body=[m.Return()])) and isinstance(line, cst.SimpleStatementLine)
        else None
    )
    parts = [element.value for element in value.elements] if isinstance(value, cst.Tuple) else [value]
    mine = [part for part in parts if isinstance(part, cst.Name) and part.value == first]
    if len(mine) != 1:
        raise NotUnderstood(f"{first} is not what comes back")
    return cst.ensure_type(line.deep_replace(mine[0], cst.Name(OUT)), cst.BaseStatement)


def _writes_elsewhere(writer: Writer, launched: Launched) -> cst.FunctionDef:
    function, first = writer.function, writer.first
    if len(findall(function, m.Return())) != 1 or findall(function, m.Yield() | m.Lambda()):
        raise NotUnderstood("it may end elsewhere")
    _only_asked(function, first, besides=3)  # two pointers, and what comes back
    body = list(source.statements(function))
    made = f'{OUT} = torch.empty_like({first}) if mode == "{MODE}" else {first}{launched.comment}'
    lines = source.launched_after(launched.before, [source.assignment(made)], launched.site.call)
    at = launched.before.position
    changed = [*body[:at], *lines, *body[at + 1 : -1], _returned(body[-1], first)]
    known = [_knowing(writer) if one is writer.known else one for one in changed]
    decorator = function.decorators[0]
    told = cst.ensure_type(decorator.deep_replace(writer.modes, _with_mode(writer.modes)), cst.Decorator)
    whole = source.with_statements(function, [_documented(known[0], first), *known[1:]])
    return whole.with_changes(decorators=[told])


def _chosen(cloned: Cloned, plain: str) -> list[cst.BaseStatement]:
    """The clone, made only where what will run cannot do without."""
    given, name = cloned.given, cloned.name
    requested = f"requested={cloned.impl}, " if cloned.impl else ""
    asked = f'{ASK}("{cloned.word}", {requested}device={given}.device if {given}.is_cuda else None)'
    first = source.assignment(f"{CHOSEN} = {asked}")
    test = f'"{MODE}" in {CHOSEN}.modes and {cloned.mode} in (None, "{plain}") and {given}.is_contiguous()'
    written = f'if {test}:\n    {name}, {cloned.mode} = {given}, "{MODE}"\nelse:\n    {name} = {given}.clone()\n'
    if any(len(line) + 4 > source.LONGEST for line in (source.code(first).strip(), *written.splitlines())):
        raise NotUnderstood("a line would be too long")
    above = (*cloned.line.leading_lines, *source.comment_lines(WHY))
    return [first.with_changes(leading_lines=above), cst.ensure_type(cst.parse_statement(written), cst.If)]


def _imported(module: cst.Module) -> list[tuple[cst.CSTNode, list[cst.BaseStatement]]]:
    """`resolve_impl`, imported beside `dispatch` as the file imports."""
    if findall(module, m.Name(ASK)):
        if not _has(module, ASK):
            raise NotUnderstood(f"{ASK} is another")
        return []
    lines = [line for line in module.body if isinstance(line, cst.SimpleStatementLine)]
    mine = [line for line in lines if m.matches(line, _from_registry()) and _names(line) and _names(line) < [ASK]]
    home = next((line for line in mine if "dispatch" in _names(line)), None)
    if home is None or _names(home) != ["dispatch"] or len(_names(mine[-1])) != 1:
        raise NotUnderstood("dispatch is imported in a line with others")
    new = cst.ensure_type(cst.parse_statement(f"from {REGISTRY} import {ASK}"), cst.SimpleStatementLine)
    return [(mine[-1], [mine[-1], new])]


def _from_registry() -> m.SimpleStatementLine:
    return m.SimpleStatementLine(
        body=[m.ImportFrom(module=m.MatchIfTrue(lambda node: node is not None and source.code(node) == REGISTRY))]
    )


def _names(line: cst.SimpleStatementLine) -> list[str]:
    return [
        source.code(cst.ensure_type(alias, cst.ImportAlias).name) for alias in findall(line.body[0], m.ImportAlias())
    ]


def _done(modules: Modules, cloned: Cloned) -> tuple[dict[str, str], str, Cloned]:
    """The texts that change, and the kernel that is no longer given a clone."""
    writer = _writer(modules, cloned.word)
    launched = written_over.launched(modules, writer.path, writer.function, writer.first)
    changes: Changes = {cloned.path: [*_imported(modules[cloned.path]), (cloned.line, _chosen(cloned, writer.plain))]}
    function = _writes_elsewhere(writer, launched)
    changes[writer.path] = [*changes.get(writer.path, []), (writer.function, [function])]
    texts = {path: source.written(source.spliced(modules[path], mine)) for path, mine in changes.items()}
    return texts, str(launched.kernel.name.value), cloned


def _first(texts: Mapping[str, str]) -> tuple[dict[str, str], str, Cloned] | None:
    modules = {path: source.parse(text) for path, text in texts.items()}
    for cloned in _clones(modules):
        try:
            return _done(modules, cloned)
        except NotUnderstood:
            continue
    return None


def rewrite(files: Mapping[str, str]) -> FilesRewrite | None:
    """Every input of these files, by their paths, that is cloned only to be written over."""
    texts, done = dict(files), list[tuple[str, Cloned]]()
    try:
        while any(".clone()" in text for text in texts.values()) and (found := _first(texts)) is not None:
            texts |= found[0]
            done.append(found[1:])
    except NotUnderstood:
        return None
    if not done:
        return None
    cloned = done[0][1]
    return FilesRewrite(
        texts={path: text for path, text in texts.items() if text != files[path]},
        kernels=tuple(kernel for kernel, _ in done),
        title="No clone of an input that can stay as it is",
        why=f"{cloned.given} is read and written once only for the gradient to be written over its clone. The kernel "
        "has a pointer to read and another to write: in a mode of its own it is given a new tensor for the "
        "second. Implementations without that mode still get a clone.",
        spared=1,  # a clone reads and writes half precision: as much as a float32
    )


def applies(files: Mapping[str, str]) -> bool:
    return rewrite(files) is not None
