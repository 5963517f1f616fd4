"""Add atomically in float32: two vectors that all programs add to become one in float32, and the last program rounds.

In 16 bits an atomic addition is a loop of compare and swap. On sm_90 each of its turns waits for all memory and empties
the cache, and the programs wait for each other: on an H200 group_norm's backward took 761 us for a shape (128 x 128 x
512, 32 groups) whose bytes need 12 us, and 46 us with partial sums. Those were refused, as torch's two sums and two
casts made a call 62 us longer on the host, and a launch of our own in their place costs it nearly as much. In float32
an addition is one instruction, for which nobody waits once it says that the sums are read when all programs are done.
Each program counts itself behind its additions, and the last one rounds. So the host makes one fill in place of two,
and no cast.

Asks for what partial_sums does, for two vectors of one size, for columns of the kernel's to go over them by, and for a
grid that is never empty, as somebody has to be last: its sizes stand in a `view` with a -1. What is added is rounded
less often than before, and in whatever order the programs come, as before.
"""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from bot.engine import atomics, bindings, commas, kernels, runs, source
from bot.engine.atomics import Added, Vector
from bot.engine.finding import findall
from bot.engine.source import LONGEST, LaunchSite, NotUnderstood
from bot.engine.transforms.rewrite import Rewrite, each_kernel, refuse_long_lines

BOTH, POINTER, SIZE = "sums", "sums_ptr", "n_sums"
IN_KERNEL = "Counted behind its own additions: whoever is done last rounds what all have added."
IN_HOST = "Both in float32, one behind the other, and how many programs are done: the last one rounds."
ROUNDED = """
n_done = tl.atomic_add((sums_ptr + 2 * n_sums).to(tl.pointer_type(tl.int32)), 1)
if n_done == tl.num_programs(0) * tl.num_programs(1) - 1:
    for sum_start in range(0, n_sums, {block}):
        sum_cols = sum_start + {cols}
        sum_mask = sum_cols < n_sums
        tl.store({first} + sum_cols, tl.load(sums_ptr + sum_cols, mask=sum_mask), mask=sum_mask)
        tl.store({second} + sum_cols, tl.load(sums_ptr + n_sums + sum_cols, mask=sum_mask), mask=sum_mask)
"""
OWN = ("sums_ptr", "n_sums", "n_done", "sum_start", "sum_cols", "sum_mask")
"""Names that the kernel gets."""
VIEW = m.Call(func=m.Attribute(attr=m.OneOf(m.Name("view"), m.Name("reshape"))))


def _columns(kernel: cst.FunctionDef) -> tuple[str, str]:
    """A name for the kernel's columns in its own body, and how many they are."""
    for line in source.statements(kernel):
        for name in source.targets(line):
            made = source.value(line)
            if not source.is_plain(line, name) or bindings.times_bound(kernel, name) != 1:
                continue
            if isinstance(made, cst.Call) and source.code(made.func) == "tl.arange" and len(made.args) == 2:
                first, last = (arg.value for arg in made.args)
                if kernels.integer(first) == 0 and source.code(last) in source.parameters(kernel):
                    return name, source.code(last)
    raise NotUnderstood("it has no columns to go over the sums by")


def _is_never_empty(site: LaunchSite, grid: tuple[str, ...]) -> bool:
    """Whether the launch has programs: torch refuses a view with a -1 beside a size that is zero."""
    before = source.statements(site.function)[: site.position]
    plain = [line for line in before if isinstance(line, cst.SimpleStatementLine)]
    views = [cst.ensure_type(view, cst.Call) for line in plain for view in findall(line, VIEW)]
    shapes = [{source.code(arg.value) for arg in view.args} for view in views]
    return any({"-1", *grid} <= shape for shape in shapes) and all(_stays(site, size) for size in grid)


def _stays(site: LaunchSite, size: str) -> bool:
    return bindings.times_bound(site.function, size) <= 1


def _calls(first: Added, second: Added) -> dict[cst.CSTNode, cst.BaseExpression]:
    """The additions as they are now: the second ones lie behind the first."""
    found: dict[cst.CSTNode, cst.BaseExpression] = {}
    for one, place in zip((first, second), (POINTER, f"{POINTER} + {SIZE}"), strict=True):
        added = f"{place} + {source.code(one.index)}, {source.code(one.value)}"
        found[one.call] = source.expression(f'tl.atomic_add({added}, sem="relaxed")')
    return found


def _parameters(kernel: cst.FunctionDef, unread: str) -> cst.Parameters:
    parameters = list(kernel.params.params)
    last = parameters[-1]
    if last.default is not None or len(parameters) < 3 or findall(last, m.Comment()):
        raise NotUnderstood("the sums cannot come last")
    between = commas.plain(parameters[-2].comma)
    kept = [p for p in parameters if p.name.value != unread]
    if kept[-1] is last:
        kept[-1] = last.with_changes(comma=between)
    new = [cst.Param(name=cst.Name(POINTER), comma=between), cst.Param(name=cst.Name(SIZE), comma=last.comma)]
    return kernel.params.with_changes(params=[*kept, *new])


def _launched(site: LaunchSite, unread: str, size: str) -> cst.Call:
    call = source.with_argument(site.call, POINTER, cst.Name(BOTH))
    call = source.with_argument(call, SIZE, source.expression(size))
    gone = [arg for arg in call.args if unread and arg.keyword is not None and arg.keyword.value == unread]
    if any(arg.star for arg in call.args) or len(gone) != bool(unread):
        raise NotUnderstood("nobody knows what the launch hands over")
    return call.with_changes(args=[arg for arg in call.args if not any(arg is one for one in gone)])


def _end(kernel: cst.FunctionDef, first: Added, second: Added) -> list[cst.BaseStatement]:
    """What a program does behind all else: it counts itself, and the last one rounds."""
    if findall(kernel, m.Return()):
        raise NotUnderstood("a program may be over before its end")
    cols, block = _columns(kernel)
    text = ROUNDED.format(block=block, cols=cols, first=first.pointer, second=second.pointer)
    count, last = cst.parse_module(text.lstrip("\n")).body
    said = (cst.EmptyLine(indent=False), *source.comment_lines(IN_KERNEL))
    return [count.with_changes(leading_lines=said), last]


def _kernel(kernel: cst.FunctionDef, found: list[Added], unread: str) -> cst.FunctionDef:
    first, second = found
    changed = cst.ensure_type(source.exchanged(kernel, _calls(first, second)), cst.FunctionDef)
    body = [*source.statements(changed), *_end(kernel, first, second)]
    changed = source.with_statements(changed, body).with_changes(params=_parameters(kernel, unread))
    refuse_long_lines(kernel, changed)
    return changed


def _change(module: cst.Module, name: str) -> cst.Module:
    kernel = source.kernel_named(module, name)
    assert kernel is not None
    found, site = atomics.additions(kernel), atomics.launch_of(module, kernel)
    if len(found) != 2 or set(OWN) & _names(kernel) or BOTH in _names(site.function):
        raise NotUnderstood("there are not two vectors, or a name is taken")
    one, other = (atomics.vector(site, kernel, added.pointer) for added in found)
    if "torch.float32" in (one.dtype, other.dtype):
        raise NotUnderstood("they are added up in float32 already")
    grid = runs.grid_of(site)
    if one.size != other.size or not _stays(site, one.size):
        raise NotUnderstood("the vectors are not of one size")
    if len(grid) != 2 or not _is_never_empty(site, grid):
        raise NotUnderstood("there may be no last program")
    unread, line = atomics.unread(kernel, found), source.line_of(site)
    idle, call = atomics.idle(site, unread), _launched(site, unread, one.size)
    last = max((one, other), key=lambda vector: source.statements(site.function).index(vector.line))
    changes: list[tuple[cst.CSTNode, list[cst.BaseStatement]]] = [
        (vector.line, [_unfilled(vector), *([_sums(one)] if vector is last else [])]) for vector in (one, other)
    ]
    changes += [
        (line, [cst.ensure_type(line.deep_replace(site.call, call), cst.SimpleStatementLine)]),
        (kernel, [_kernel(kernel, found, unread)]),
    ]
    changes += [(idle, [])] if idle is not None else []
    return source.spliced(module, changes)


def _unfilled(vector: Vector) -> cst.SimpleStatementLine:
    """The line of a vector that is written whole, with nothing in it before."""
    empty = vector.call.with_changes(func=source.expression("torch.empty"))
    return cst.ensure_type(vector.line.deep_replace(vector.call, empty), cst.SimpleStatementLine)


def _sums(vector: Vector) -> cst.SimpleStatementLine:
    """Zeros in float32 for two such vectors and a count, where the vector is."""
    said = [arg for arg in vector.call.args if arg.keyword is not None and arg.keyword.value != "dtype"]
    told = [f"2 * {vector.size} + 1", "dtype=torch.float32", *(source.code(arg).rstrip(", ") for arg in said)]
    text = f"{BOTH} = torch.zeros({', '.join(told)})"
    if len(text) + 4 > LONGEST:
        raise NotUnderstood("a line would be too long")
    return source.assignment(text, IN_HOST)


def _names(node: cst.CSTNode) -> set[str]:
    return {cst.ensure_type(name, cst.Name).value for name in findall(node, m.Name())}


def rewrite(text: str) -> Rewrite | None:
    """Every kernel of the file that adds to two vectors of half precision that others add to."""
    if "atomic_add(" not in text:
        return None
    return each_kernel(
        text,
        _change,
        title="Add atomically in float32, and let the last program round",
        why="All programs add to the same few cache lines, in half precision, where each addition is a loop of compare "
        "and swap. In float32 it is one instruction that nobody waits for, and the last program rounds the sums: a "
        "launch less than before.",
        seen="On an H200 the additions are most of the time where the bytes are few: 761 us for group_norm's backward "
        "at 128 x 128 x 512, 36 us so, and 46 us with partial sums, which cost the host 62 us more.",
    )


def applies(text: str) -> bool:
    return rewrite(text) is not None
