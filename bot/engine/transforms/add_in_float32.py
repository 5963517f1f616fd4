"""Add atomically in float32: two vectors that all programs add to become one in float32, rounded once afterwards.

In 16 bits an atomic addition is a loop of compare and swap on many chips, and those of all programs to one place wait
for each other: on an H200 group_norm's backward took 761 us for a shape (128 x 128 x 512, 32 groups) whose bytes need
12 us, and 46 us with partial sums. Those were refused, as torch's two sums and two casts made a call 62 us longer on
the host. This asks hardly more of it: one fill in place of two, and one cast in place of the other.

Asks for what partial_sums does, and for two vectors of one size. What is added is rounded less often than before, and
in whatever order the programs come, as before.
"""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from bot.engine import atomics, kernels, source
from bot.engine.atomics import Added, Vector
from bot.engine.finding import findall
from bot.engine.source import LONGEST, LaunchSite, NotUnderstood
from bot.engine.transforms.rewrite import Rewrite, each_kernel

BOTH = "sums"
IN_HOST = "Both are added up in float32, one behind the other, and rounded once."


def _offset(second: Added) -> str:
    return f"{second.pointer.removesuffix('_ptr')}_offset"


def _calls(first: Added, second: Added) -> dict[cst.CSTNode, cst.BaseExpression]:
    """The additions as they are now: the second ones lie behind the first."""
    places = (first.pointer, f"{first.pointer} + {_offset(second)}")
    found: dict[cst.CSTNode, cst.BaseExpression] = {}
    for one, place in zip((first, second), places, strict=True):
        value = source.code(one.value)
        rounded = f"{value}.to(tl.float32)" if one.cast else value
        found[one.call] = source.expression(f"tl.atomic_add({place} + {source.code(one.index)}, {rounded})")
    return found


def _parameters(kernel: cst.FunctionDef, second: Added, unread: str) -> cst.Parameters:
    parameters = list(kernel.params.params)
    last = parameters[-1]
    if last.default is not None or len(parameters) < 3:
        raise NotUnderstood("the offset cannot come last")
    kept = [p for p in parameters if p.name.value not in (second.pointer, unread)]
    if kept[-1] is last:
        kept[-1] = last.with_changes(comma=kernels.plain_comma(parameters[-2].comma))
    return kernel.params.with_changes(params=[*kept, cst.Param(name=cst.Name(_offset(second)), comma=last.comma)])


def _launched(
    site: LaunchSite, kernel: cst.FunctionDef, first: Added, second: Added, unread: str, size: str
) -> cst.Call:
    names, args = source.parameters(kernel), []
    call = source.with_argument(site.call, _offset(second), source.expression(size))
    for at, arg in enumerate(call.args):
        said = arg.keyword.value if arg.keyword is not None else names[at] if at < len(names) else ""
        if arg.star or (said == unread and arg.keyword is None):
            raise NotUnderstood("nobody knows what the launch hands over")
        if said == first.pointer:
            args.append(arg.with_changes(value=cst.Name(BOTH)))
        elif said not in (second.pointer, unread):
            args.append(arg)
    return call.with_changes(args=args)


def _rounded(one: Vector, other: Vector) -> str:
    names = f"{one.name}, {other.name}"
    together = f"{BOTH}.to({one.dtype}).unbind(0)"
    if one.dtype == other.dtype:
        return f"{names} = {together}"
    alone = f"({BOTH}[0].to({one.dtype}), {BOTH}[1].to({other.dtype}))"
    return f"{names} = {together} if {one.dtype} == {other.dtype} else {alone}"


def _change(module: cst.Module, name: str) -> cst.Module:
    kernel = source.kernel_named(module, name)
    assert kernel is not None
    found, site = atomics.additions(kernel), atomics.launch_of(module, kernel)
    if len(found) != 2 or _offset(found[1]) in _names(kernel):
        raise NotUnderstood("there are not two vectors, or the offset's name is taken")
    first, second = found
    one, other = (atomics.vector(site, kernel, added.pointer) for added in found)
    if "torch.float32" in (one.dtype, other.dtype):
        raise NotUnderstood("they are added up in float32 already")
    if one.size != other.size or BOTH in _names(site.function) or findall(other.line, m.Comment()):
        raise NotUnderstood("the vectors are not of one size, something is said of one, or their name is taken")
    unread, line = atomics.unread(kernel, found), source.line_of(site)
    rounded, idle = _rounded(one, other), atomics.idle(site, unread)
    if len(rounded) > LONGEST - 4:
        raise NotUnderstood("a line would be too long")
    call = line.deep_replace(site.call, _launched(site, kernel, first, second, unread, one.size))
    changed = cst.ensure_type(source.exchanged(kernel, _calls(first, second)), cst.FunctionDef)
    changes: list[tuple[cst.CSTNode, list[cst.BaseStatement]]] = [
        (one.line, [atomics.zeros_in_float32(one, "2", IN_HOST, BOTH)]),
        (other.line, []),
        (line, [cst.ensure_type(call, cst.SimpleStatementLine), source.assignment(rounded)]),
        (kernel, [changed.with_changes(params=_parameters(kernel, second, unread))]),
    ]
    changes += [(idle, [])] if idle is not None else []
    return source.spliced(module, changes)


def _names(node: cst.CSTNode) -> set[str]:
    return {cst.ensure_type(name, cst.Name).value for name in findall(node, m.Name())}


def rewrite(text: str) -> Rewrite | None:
    """Every kernel of the file that adds to two vectors of half precision that others add to."""
    if "atomic_add(" not in text:
        return None
    return each_kernel(
        text,
        _change,
        title="Add atomically in float32",
        why="All programs add to the same few cache lines, in half precision, where each addition is a loop of compare "
        "and swap. In float32 it is one instruction, and the sum is rounded once.",
        seen="On an H200 the additions are most of the time where the bytes are few: 761 us for group_norm's backward "
        "at 128 x 128 x 512, and 46 us with partial sums, which cost the host 62 us more.",
    )


def applies(text: str) -> bool:
    return rewrite(text) is not None
