"""Load the next block of a row while one is worked on: `tl.range(..., num_stages=3)` around the steps over a row.

A loss goes over its row in blocks: it asks for one, waits for it, and lets all warps meet to add it up; only then it
asks for the next. With three stages two more are under way. The blocks under way lie in shared memory, so they have to
be small: where the launch takes blocks of up to 32,768 columns they become 8192. On an H200 such loads around a run of
rows (pipeline_rows) gave rms_norm 1.28x; a race in which only the steps became smaller gave cross_entropy's forward
1.25x at 4096 x 32000 in bfloat16, and cost it 4 % at 512 x 128256.

How many stages there is room for is said in the kernel, from the types of what it is handed: it is a constant of the
compiler's, and no launch has to know of it. Refused unless each access of the kernel goes on by the block, the loop
loads by the columns of the step, and what it stores lies where it loads: a block that is loaded ahead must not be one
that an earlier step still writes. A loop with another loop, a branch that leaves, or an atomic in it stays as it is. So
does one whose loads say how long the cache should keep them: a load ahead is a copy to shared memory, which Triton
writes without that. On an H200 a sketch of softmax that walks 4096 x 32000 took 142 us so and 186 us loaded ahead.
"""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import addresses, by_place, columns, kernels, settings_table, source, steps
from bot.engine.finding import findall
from bot.engine.source import LaunchSite, NotUnderstood
from bot.engine.transforms.rewrite import Rewrite, each_kernel

STAGES = 3
CAP, EACH = 8192, 16
"""Columns of a step, and how many of them a thread takes."""
MOST_BYTES = 49152
"""Of all blocks loaded in one step. Two steps are held: 96 KiB, and the smallest chips since Ampere have 99."""
SOMETIMES_BITS = 32
"""What is counted for a load that only some launches do: its type need not be known then."""
BITS, PARAMETER = "step_bits", "STEP_STAGES"
WHY = "The blocks to come are loaded while one is worked on, as long as they fit into shared memory."
WHY_STEPS = "Small steps, so that several are under way."
HINTED = m.Arg(keyword=m.Name("eviction_policy"))
LEAVES = m.Return() | m.Break() | m.Continue()
NESTED = m.For() | m.While() | m.FunctionDef()


@dataclass(frozen=True, slots=True)
class Loop:
    """A walk over the row: the pointers it loads through in every turn, and how many it sometimes loads through."""

    node: cst.For
    call: cst.Call
    pointers: tuple[str, ...]
    sometimes: int

    @property
    def bits(self) -> str:
        known = [f"{name}.dtype.element_ty.primitive_bitwidth" for name in self.pointers]
        parts = [*known, *([str(SOMETIMES_BITS * self.sometimes)] if self.sometimes else [])]
        if len(known) < 3:
            return " + ".join(parts)
        apart = "\n    + ".join(parts)  # too much for a line, whatever the pointers are called
        return f"(\n    {apart}\n)"


def _split(call: cst.Call, parameters: tuple[str, ...]) -> tuple[str, frozenset[str]]:
    """The pointer of an access, and what is added to it."""
    if not call.args or call.args[0].keyword is not None:
        raise NotUnderstood("an access without an address")
    found = [source.code(part) for part in addresses.parts(call.args[0].value)]
    if found[0] not in parameters:
        raise NotUnderstood("an address does not begin with a pointer of the kernel's")
    return found[0], frozenset(found[1:])


def _is_spread(call: cst.Call, spread: set[str]) -> bool:
    return any(source.loads(call.args[0].value, name) for name in spread) or bool(kernels.calls(call.args[0], "arange"))


def _always(body: cst.BaseSuite) -> list[cst.Call]:
    """Loads of the loop's own statements, not of its branches."""
    lines = [line for line in body.body if isinstance(line, cst.SimpleStatementLine)]
    return [call for line in lines for call in kernels.calls(line, "load")]


def _loop(kernel: cst.FunctionDef, node: cst.For, block: str) -> Loop:
    call = node.iter
    if not isinstance(call, cst.Call) or source.code(call.func) not in ("range", "tl.range") or len(call.args) != 3:
        raise NotUnderstood("not a plain walk over the row")
    if any(arg.keyword is not None or arg.star for arg in call.args) or source.code(call.args[2].value) != block:
        raise NotUnderstood("it does not go on by the block")
    called = {kernels.called_name(found) for found in kernels.calls(node.body)}
    if findall(node.body, LEAVES | NESTED) or any(name.startswith("atomic") or "barrier" in name for name in called):
        raise NotUnderstood("more than a walk")
    return _with_loads(kernel, node, call)


def _with_loads(kernel: cst.FunctionDef, node: cst.For, call: cst.Call) -> Loop:
    spread, parameters = columns.of_rows(kernel), source.parameters(kernel)
    loads = [found for found in kernels.calls(node.body, "load") if _is_spread(found, spread)]
    stores = [_split(found, parameters)[1] for found in kernels.calls(node.body, "store")]
    places = {_split(found, parameters)[1] for found in loads}
    if any(findall(found, HINTED) for found in loads):
        raise NotUnderstood("a load says how long the cache keeps it, and would say nothing any more")
    if findall(kernel, kernels.NEW_AXIS):
        raise NotUnderstood("a block may be several rows high, and more bytes than are counted")
    if not loads or (stores and places | set(stores) != set(stores[:1])):
        raise NotUnderstood("it loads nothing of the row, or elsewhere than it stores")
    always = [found for found in _always(node.body) if any(found is one for one in loads)]
    if not always:
        raise NotUnderstood("what it loads depends on the launch")
    pointers = tuple(_split(found, parameters)[0] for found in always)
    return Loop(node, call, pointers, len(loads) - len(always))


def _block_of(text: str, kernel: cst.FunctionDef) -> str:
    """The constant that every access of the kernel goes on by."""
    found = [name for name in source.parameters(kernel) if "BLOCK" in name.upper()]
    if len(found) != 1 or not steps.by_block(text, str(kernel.name.value), found[0]):
        raise NotUnderstood("not every access goes on by one block")
    return found[0]


def _loops(kernel: cst.FunctionDef, block: str) -> list[Loop]:
    found = []
    for node in (one for one in kernel.body.body if isinstance(one, cst.For | cst.If)):
        for loop in [node] if isinstance(node, cst.For) else findall(node, m.For()):
            try:
                found.append(_loop(kernel, cst.ensure_type(loop, cst.For), block))
            except NotUnderstood:
                continue
    return found


def _stages(loops: list[Loop], block: str) -> list[cst.SimpleStatementLine]:
    """What is loaded in one step, and how many steps there is room for; of several loops the one that loads most."""
    most = max(loops, key=lambda loop: (len(loop.pointers) + loop.sometimes, loop.bits))
    limit = f"{MOST_BYTES * 8}"
    return [
        source.assignment(f"{BITS}: tl.constexpr = {most.bits}", WHY),
        source.assignment(f"{PARAMETER}: tl.constexpr = {STAGES} if {block} * {BITS} <= {limit} else 1"),
    ]


def _staged(loop: Loop) -> cst.Call:
    call = loop.call.with_changes(func=source.expression("tl.range"))
    return source.with_argument(call, "num_stages", source.expression(PARAMETER))


def _pipelined(kernel: cst.FunctionDef, loops: list[Loop], block: str) -> list[cst.BaseStatement]:
    """The kernel's statements with the loops staged, and the stages said above the first of them."""
    body: list[cst.BaseStatement] = []
    said = False
    for statement in kernel.body.body:
        inside = [
            loop for loop in loops if any(found is loop.node for found in (statement, *findall(statement, m.For())))
        ]
        changed = statement
        for loop in inside:
            changed = changed.deep_replace(loop.call, _staged(loop))
        body += [*(_stages(loops, block) if inside and not said else ()), changed]
        said = said or bool(inside)
    return body


def _pipeline(module: cst.Module, name: str) -> cst.Module:
    kernel = source.kernel_named(module, name)
    assert kernel is not None
    if not kernels.is_kernel(kernel) or findall(kernel, m.Name(PARAMETER) | m.Name(BITS)):
        raise NotUnderstood("it chooses its numbers by itself, or loads ahead already")
    text = source.written(module)
    block = _block_of(text, kernel)
    loops = _loops(kernel, block)
    if not loops:
        raise NotUnderstood("no walk over a row")
    body = kernel.body.with_changes(body=_pipelined(kernel, loops, block))
    module = source.replaced(module, kernel, kernel.with_changes(body=body))
    return _in_small_steps(module, name, block)


def _in_small_steps(module: cst.Module, name: str, block: str) -> cst.Module:
    """Where it is launched in this file. A launch elsewhere keeps its steps, which may be small enough."""
    rule = settings_table.per_thread(name, block, EACH, CAP)
    try:
        for site in source.sites(module, name):
            _refuse_others(module, site, block)
        return source.parse(settings_table.write(source.written(module), rule, WHY_STEPS))
    except NotUnderstood:
        return module


def _refuse_others(module: cst.Module, site: LaunchSite, block: str) -> None:
    """Raises NotUnderstood where steps are small as they are, or where somebody else goes by their size: a check that a
    row fits, or a backward that is told of it and holds a row at once."""
    given = by_place.told(site, block)
    at = source.last_binding(site, given.value) if isinstance(given, cst.Name) else None
    if at is None or not isinstance(given, cst.Name):
        return
    lines = source.statements(site.function)[at:]
    known = kernels.number(source.value(lines[0]))
    if known is not None and known <= CAP:
        raise NotUnderstood("steps are small already")
    tests = [getattr(one, "test", one) for line in lines for one in findall(line, m.If() | m.While() | m.Assert())]
    if any(source.loads(test, given.value) for test in tests):
        raise NotUnderstood("it is asked for the size of a step, which may have been that of a row")
    kept = m.Assign(targets=[m.AssignTarget(m.Attribute())], value=m.Name(given.value))
    for one in (found for line in lines for found in findall(line, kept)):
        _refuse_whole_rows(module, source.code(cst.ensure_type(one, cst.Assign).targets[0].target))


def _refuse_whole_rows(module: cst.Module, kept: str) -> None:
    """Raises NotUnderstood unless all who are given what was kept of the size go over their rows in steps as well."""
    found = [cst.ensure_type(one, cst.Call) for one in findall(module, source.LAUNCH)]
    calls = [call for call in found if any(source.code(arg.value) == kept for arg in call.args)]
    text = source.written(module)
    for call in calls:
        kernel = source.code(cst.ensure_type(call.func, cst.Subscript).value)
        names = [arg.keyword.value for arg in call.args if arg.keyword is not None and source.code(arg.value) == kept]
        if not names or not all(steps.by_block(text, kernel, name) for name in names):
            raise NotUnderstood("somebody takes a row at once by the size of a step")
    if not calls:
        raise NotUnderstood("nobody knows whom the size of a step is kept for")


def rewrite(text: str, only: str = "") -> Rewrite | None:
    """Every kernel of the file that goes over its row in steps, or only one of them."""
    return each_kernel(
        text,
        _pipeline,
        title="Load the blocks of a row to come while one is worked on",
        why="Each program goes over its row in steps, asks for a block and waits for it. With three stages the loads "
        "of the next blocks are under way meanwhile. They lie in shared memory, so the steps become small.",
        seen="Up to 1.28x where rows were loaded ahead on an H200, and 1.25x where steps became smaller alone.",
        only=only,
    )


def applies(text: str) -> bool:
    return rewrite(text) is not None
