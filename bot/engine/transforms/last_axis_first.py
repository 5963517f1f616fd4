"""Let programs that run side by side be neighbours along the grid's last axis.

    batch_head_id = tl.program_id(0)
    tile_m = tl.program_id(1)
    tile_n = tl.program_id(2)

A GPU hands programs out along the first axis of a grid, then along the second. Here those that run at the same time are
of different heads, and the two that read the same 64 rows of attention for their halves of a head come a whole round of
the GPU apart, when the cache has forgotten them. Counted the other way round they run side by side: Liger's
fused_neighborhood_attention of 1x16x2048x128 took 69 us in place of 109 for that product on an H100, and 58 in place
of 102 for each of three of its backward pass (*sketch*). Another kernel may share along the first axis what it loses
along the last, which nobody can read off its text: a race tells.

The grid stays as it is, and with it how many programs each axis may have. All of them, fewer than 2**31, are numbered
as the GPU hands them out, and each takes its places from that number. Asks for a kernel that asks once for each of two
or three axes and never how many there are, that waits for no other, and that calls nothing which might ask besides. It
has to be launched, and nothing else be done with it: a part of another kernel would count otherwise than that. A grid
with fewer axes has one program along those it lacks, so that nothing changes.
"""

from __future__ import annotations

import builtins
from collections.abc import Collection
from functools import partial

import libcst as cst
import libcst.matchers as m

from bot.engine import kernels, source
from bot.engine.bindings import times_bound
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood
from bot.engine.transforms.rewrite import Rewrite, each_kernel, only_these, refuse_long_lines

PROGRAM, ROW = "program", "program_id"
TITLE = "Neighbours along the last axis of the grid run side by side"
WHY = "Programs along the first axis are handed out together. What those along the last one share stays in the cache."
COMMENT = "Programs are counted along the last axis first: neighbours differ in that alone."
PLACES = {
    2: ("{0} // {1}", "{0} % {1}"),
    3: (
        "{0} // (tl.num_programs(1) * tl.num_programs(2))",
        "{0} // tl.num_programs(2) % tl.num_programs(1)",
        "{0} % tl.num_programs(2)",
    ),
}
"""Where a program stands along each axis, the last one counted first; of two axes the second has so many."""
AT_LAUNCH = "tl.num_programs(1)"
"""How many that is, where only the launch knows."""
NUMBERS = {
    2: "tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)",
    3: "(tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)) * tl.num_programs(0) + tl.program_id(0)",
}
"""Which one it is in the order that a GPU hands them out."""
ASKS = m.Name("program_id") | m.Name("num_programs") | m.Name("inline_asm_elementwise")


def _asked(kernel: cst.FunctionDef) -> list[cst.Call]:
    """What asks for each axis, in the order of the axes."""
    asking = kernels.calls(kernel, "program_id")
    axes = kernels.program_axes(kernel)
    known = {axis: call for axis, call in zip(axes, asking, strict=True) if axis is not None}
    if len(asking) != len(known) or sorted(known) not in ([0, 1], [0, 1, 2]):
        raise NotUnderstood("it does not ask once for each of several axes")
    if any(source.code(call.func) != "tl.program_id" or len(call.args) != 1 for call in asking):
        raise NotUnderstood("it asks in other words")
    if any(findall(call, m.Comment()) for call in asking) or findall(kernel, m.While()):
        raise NotUnderstood("a comment would be lost, or it waits for others")
    if _asks_besides(kernel, asking) or findall(kernel, m.FunctionDef() | m.Lambda()) != [kernel]:
        raise NotUnderstood("it asks for more than its places")
    if findall(kernel, m.Return(value=~m.MatchIfTrue(lambda said: said is None))):
        raise NotUnderstood("it hands something back, so that a kernel calls it which asks by itself")
    return [known[axis] for axis in sorted(known)]


def _asks_besides(kernel: cst.FunctionDef, asking: Collection[cst.Call]) -> bool:
    """Whether it asks for anything else. A row that is called `program_id` is a number like another."""
    named = findall(kernel, ASKS)
    spoken = [cst.ensure_type(one, cst.Attribute).attr for one in findall(kernel, m.Attribute(attr=ASKS))]
    alone = [cst.ensure_type(one, cst.Name).value for one in named if not any(one is attr for attr in spoken)]
    return len(spoken) != len(asking) or not set(alone) <= {ROW} or (ROW in alone and not _is_a_row(kernel))


def _is_a_row(kernel: cst.FunctionDef) -> bool:
    """Whether the name is given to the row first of all, and never to anything else."""
    lines = [line for line in source.statements(kernel) if findall(line, m.Name(ROW)) or kernels.calls(line)]
    made = next((line for line in lines if source.is_plain(line, ROW)), None)
    return made is not None and made is lines[0] and times_bound(kernel, ROW) == 1


def _from_triton(module: cst.Module) -> set[str]:
    """What the module imports from Triton, in whatever branch."""
    found = set[str]()
    for line in findall(module, m.ImportFrom()):
        of = cst.ensure_type(line, cst.ImportFrom)
        if isinstance(of.names, cst.ImportStar) or of.module is None or of.relative:
            continue
        if source.code(of.module).partition(".")[0] == "triton":
            if any(m.matches(alias.name, ASKS) for alias in of.names):
                raise NotUnderstood("who asks has another name")
            found |= {source.code(alias.asname.name if alias.asname else alias.name) for alias in of.names}
    return found


def _may_ask(module: cst.Module, kernel: cst.FunctionDef, known: set[str]) -> bool:
    """Whether something that is called might ask for a place by itself, or wait for others."""
    helpers = source.named_by(module, kernel)
    if any(findall(one, ASKS | m.While()) for one in helpers):
        return True
    own = {str(one.name.value) for one in source.functions(module)}
    return any(_calls_others(one, known | own | {*vars(builtins)}) for one in (kernel, *helpers))


def _calls_others(function: cst.FunctionDef, known: set[str]) -> bool:
    for call in kernels.calls(function):
        root: cst.BaseExpression = call.func
        while isinstance(root, cst.Attribute | cst.Call | cst.Subscript):
            root = root.func if isinstance(root, cst.Call) else root.value
        if not isinstance(root, cst.Name):
            continue  # a method of what was worked out here: a tensor's
        name = str(root.value)
        if root is not call.func and (name in source.parameters(function) or times_bound(function, name)):
            continue
        if name not in known:
            return True
    return False


def _refuse_parts(module: cst.Module, kernel: cst.FunctionDef) -> None:
    """Raises NotUnderstood unless it is launched, or tunes itself, and nothing else is done with it."""
    name = str(kernel.name.value)
    launches = findall(module, m.Call(func=m.Subscript(value=m.Name(name))))
    named = len(findall(module, m.Name(name)))
    if named != 1 + len(launches) or not (launches or kernels.is_tuned(kernel)):
        raise NotUnderstood("a kernel may call it, and asks by itself")
    names = [str(one.name.value) for one in source.functions(module) if kernels.is_kernel(one) or kernels.is_tuned(one)]
    if len(names) != len(set(names)):
        raise NotUnderstood("a name stands for two functions")


def _tiles(module: cst.Module, kernel: cst.FunctionDef, relied_on: Collection[str]) -> str:
    """How many there are along the second axis, in constants of the kernel where every launch says it so: to divide by
    a number that only the launch knows takes 25 instructions before a program can load anything (sm_90). What others
    launch may have another grid there."""
    if kernel.name.value in relied_on:
        return AT_LAUNCH
    launches = findall(module, m.Call(func=m.Subscript(value=m.Name(kernel.name.value))))
    said = {_cut(cst.ensure_type(call, cst.Call), kernel) for call in launches}
    if len(said) != 1 or not kernels.is_kernel(kernel):
        return AT_LAUNCH
    width, block = said.pop()
    return f"tl.cdiv({width}, {block})" if width and block else AT_LAUNCH


def _cut(call: cst.Call, kernel: cst.FunctionDef) -> tuple[str, str]:
    """By the names of the kernel: what `triton.cdiv` cuts into what along the second axis of a launch."""
    grid = cst.ensure_type(cst.ensure_type(call.func, cst.Subscript).slice[0].slice, cst.Index).value
    plain = m.Arg(value=m.Name(), keyword=None, star="")
    cut = m.Call(func=m.Attribute(value=m.Name("triton"), attr=m.Name("cdiv")), args=[plain, plain])
    if not m.matches(grid, m.Tuple(elements=[m.Element(), m.Element(value=cut)])):
        return "", ""
    width, block = cst.ensure_type(cst.ensure_type(grid, cst.Tuple).elements[1].value, cst.Call).args
    return _constant(call, kernel, source.code(width.value)), _constant(call, kernel, source.code(block.value))


def _constant(call: cst.Call, kernel: cst.FunctionDef, given: str) -> str:
    """The one constant of the kernel that is given this, and that nothing in it changes."""
    told = {name: kernels.told(call, kernel, name) for name in kernels.constants(kernel)}
    told = {name: value for name, value in told.items() if value is not None and not times_bound(kernel, name)}
    named = [name for name, value in told.items() if source.code(value) == given]
    return named[0] if len(named) == 1 else ""


def _change(relied_on: Collection[str], module: cst.Module, name: str) -> cst.Module:
    kernel = source.kernel_named(module, name)
    assert kernel is not None
    asked = _asked(kernel)
    if findall(kernel, m.Name(PROGRAM)) or not isinstance(kernel.body, cst.IndentedBlock):
        raise NotUnderstood("a name is taken, or there is no room")
    _refuse_parts(module, kernel)
    if _may_ask(module, kernel, {*_from_triton(module), "tl", "triton"}):
        raise NotUnderstood("it calls what might ask for a place as well")
    body = list(source.statements(kernel))
    first = next(place for place, line in enumerate(body) if kernels.calls(line, "program_id"))
    number = source.assignment(f"{PROGRAM} = {NUMBERS[len(asked)]}", COMMENT)
    above = (*body[first].leading_lines, *number.leading_lines)
    places, tiles = dict(zip(asked, PLACES[len(asked)], strict=True)), _tiles(module, kernel, relied_on)
    changed = source.exchanged(kernel, {call: _place(kernel, call, said, tiles) for call, said in places.items()})
    lines = list(source.statements(cst.ensure_type(changed, cst.FunctionDef)))
    lines[first : first + 1] = [number.with_changes(leading_lines=above), lines[first].with_changes(leading_lines=())]
    whole = source.with_statements(cst.ensure_type(changed, cst.FunctionDef), lines)
    refuse_long_lines(kernel, whole)
    return source.spliced(module, [(kernel, [whole])])


def _place(kernel: cst.FunctionDef, call: cst.Call, said: str, tiles: str) -> cst.BaseExpression:
    """In brackets where it is a part of something."""
    place = said.format(PROGRAM, tiles)
    whole = findall(kernel, m.Assign(value=m.Call()) | m.Element(value=m.Call()))
    alone = any(getattr(one, "value", None) is call for one in whole)
    return source.expression(place if alone else f"({place})")


def rewrite(text: str, only: str = "", relied_on: Collection[str] = ()) -> Rewrite | None:
    """`relied_on`: kernels that other files launch."""
    if "tl.program_id" not in text:
        return None
    return each_kernel(text, partial(_change, relied_on), title=TITLE, why=WHY, tuned=True, only=only)


def of_kernels(text: str, names: Collection[str], relied_on: Collection[str] = ()) -> Rewrite | None:
    return only_these(partial(rewrite, relied_on=relied_on), text, names)


def applies(text: str) -> bool:
    return rewrite(text) is not None
