"""No detour through float32: a kernel reads a gradient in the type it comes in, and stores a result in the type it ends
up in.

A careful author casts what a kernel is handed, `grad_out.to(torch.float32)`, and lets it write float32 that the caller
then casts. Each is a pass over memory of its own, and four bytes an element where there were two. A kernel that widens
what it loads needs no copy, and a store rounds to the type of what it writes to as the cast does: the numbers are the
same to the last bit. liger-kernel's mhc_pre and mhc_post_res do both: by arithmetic mhc_pre's backward moves 40 bytes
for each element of its gradient (32 streams' worth of them in four) where 18 would do.

A copy is dropped where the kernel only loads through that pointer, and everybody who hands it over makes such a copy
of a dense tensor for this launch alone. A load that stays in its own type is widened then. A result is made in its last
type where the kernel only stores through the pointer, and the one thing done with it, by the function itself or by all
that call it in this file, is a cast to the type of another argument. A caller in any other file is not seen: the idea
says so to the maintainer. One number a program, as of a vector of rows, is not worth it. Gradients of weights are added
up in float32 and have to be.

The kernel now counts its way into a tensor that others hold. A row's place in it is counted in 64 bits from here on.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import libcst as cst
import libcst.matchers as m

from bot.engine import detours, kernels, pointers, runs, source
from bot.engine.finding import findall, nodes
from bot.engine.source import LONGEST, LaunchSite, NotUnderstood
from bot.engine.transforms.rewrite import Rewrite

STORED = "In the type that it ends up in: the kernel rounds as it stores."
LOADED = "As it is: the kernel makes float32 of what it loads."
COUNTED = "Rows are counted in 64 bits: nothing here says how far apart they lie."
RECEIVED = "In {like}.dtype, not in float32: the kernel rounds as it stores."
OLD_TYPE = re.compile(r"\b(?:torch\.)?(?:fp32|float32)\b")
"""In what is said behind a line, of the value that it makes."""


@dataclass(slots=True)
class _Edits:
    """What changes in a file for one launch."""

    exchanged: dict[cst.CSTNode, cst.CSTNode] = field(default_factory=dict)
    cast: dict[cst.CSTNode, str] = field(default_factory=dict)
    """To which type. What is cast may hold another: a store holds the load of what it stores."""
    gone: set[cst.CSTNode] = field(default_factory=set)
    above: dict[cst.CSTNode, str] = field(default_factory=dict)
    returned: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.exchanged)

    def more(self, other: _Edits) -> None:
        self.exchanged |= other.exchanged
        self.cast |= other.cast
        self.gone |= other.gone
        self.above |= other.above
        self.returned += other.returned


class _Editor(cst.CSTTransformer):  # type: ignore[misc]  # libcst is not followed
    def __init__(self, edits: _Edits) -> None:
        super().__init__()
        self.edits = edits

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> object:
        if original_node in self.edits.gone:
            return cst.RemoveFromParent()
        if original_node in self.edits.exchanged:
            return self.edits.exchanged[original_node]
        if original_node in self.edits.cast:
            return pointers.cast(cst.ensure_type(updated_node, cst.BaseExpression), self.edits.cast[original_node])
        if original_node in self.edits.above and isinstance(updated_node, cst.SimpleStatementLine):
            said = source.comment_lines(self.edits.above[original_node])
            return updated_node.with_changes(leading_lines=(*updated_node.leading_lines, *said))
        return updated_node


def _last_stride(site: LaunchSite, kernel: cst.FunctionDef, pointer: str) -> str:
    """The parameter that gets the stride of the last of several dimensions."""
    tensor, found = runs.given(site, kernel, pointer), dict[int, str]()
    stride = m.Call(func=m.Attribute(value=m.Name(getattr(tensor, "value", "")), attr=m.Name("stride")))
    for parameter in source.parameters(kernel):
        value = kernels.told(site.call, kernel, parameter)
        axis = kernels.integer(value.args[0].value) if isinstance(value, cst.Call) and value.args else None
        if axis is not None and m.matches(value, stride):
            found[axis] = parameter
    return found[max(found)] if len(found) > 1 and min(found) >= 0 else ""


def _widened(
    site: LaunchSite, kernel: cst.FunctionDef, pointer: str, calls: Sequence[cst.Call], *, everywhere: bool
) -> _Edits:
    """Rows counted in 64 bits, in these accesses alone where their addresses say it: such a number takes two registers
    as long as it lives. Raises NotUnderstood where there is nothing worth a change."""
    if not pointers.is_block(kernel, calls):
        raise NotUnderstood("one number a program is not worth it")
    last = _last_stride(site, kernel, pointer)
    wide: Sequence[cst.BaseExpression] = pointers.narrow(kernel, calls, last)
    if not everywhere:
        with contextlib.suppress(NotUnderstood):
            wide = [number for call in calls for number in pointers.counted(kernel, call, last)]
    lines = [line for line in findall(kernel, m.SimpleStatementLine()) if set(nodes(line)) & set(wide)]
    return _Edits(cast=dict.fromkeys(wide, pointers.FAR), above=dict.fromkeys(lines, COUNTED))


def _without_copy(
    module: cst.Module, site: LaunchSite, kernel: cst.FunctionDef, pointer: str, *, everywhere: bool
) -> _Edits:
    copies = detours.copies(module, site, kernel, pointer)
    loads = pointers.accesses(kernel, pointer, "load")
    edits = _widened(site, kernel, pointer, loads, everywhere=everywhere)
    for copied in copies:
        edits.exchanged[copied.call] = copied.original
        edits.above |= {copied.line: LOADED} if copied.line is not None else {}
    edits.cast |= dict.fromkeys(pointers.as_loaded(kernel, loads), pointers.WIDE)
    return edits


def _uncast(edits: _Edits, cast: detours.Cast) -> None:
    """A cast to the type that it has. A line that somebody said something of stays, and casts nothing any more."""
    if cast.line is None:
        edits.exchanged[cast.call] = cst.Name(cast.name)
    elif not findall(cast.line, m.Comment()):
        edits.gone.add(cast.line)


def _in_its_type(
    module: cst.Module, site: LaunchSite, kernel: cst.FunctionDef, pointer: str, *, everywhere: bool
) -> _Edits:
    result = detours.result(module, site, kernel, pointer)
    edits = _widened(site, kernel, pointer, pointers.accesses(kernel, pointer, "store"), everywhere=everywhere)
    edits.exchanged[result.call] = result.in_its_type()
    edits.above[result.line] = STORED
    for received in result.received:
        _uncast(edits, received.cast)
        comment = received.line.trailing_whitespace.comment
        if comment is not None and OLD_TYPE.search(comment.value):
            # What its author said there is not ours to change.
            edits.above[received.line] = RECEIVED.format(like=received.cast.like)
    if result.cast is not None:
        _uncast(edits, result.cast)
    edits.returned += [str(site.function.name.value)] if result.received else []
    return edits


def _site(module: cst.Module, kernel: cst.FunctionDef) -> LaunchSite:
    found = source.sites(module, str(kernel.name.value))
    if len(found) != 1 or detours.times_named(module, str(kernel.name.value)) != 2:
        raise NotUnderstood(f"{kernel.name.value} is not launched once, and nothing else")
    return found[0]


def _edits(module: cst.Module, kernel: cst.FunctionDef, *, everywhere: bool) -> _Edits:
    """What changes for a kernel; nothing where nothing of it goes through float32."""
    edits = _Edits()
    try:
        site = _site(module, kernel)
    except NotUnderstood:
        return edits
    for pointer in source.parameters(kernel):
        for look in (_without_copy, _in_its_type):
            try:
                edits.more(look(module, site, kernel, pointer, everywhere=everywhere))
            except NotUnderstood:
                continue
    first = {words: line for line, words in reversed(edits.above.items())}
    edits.above = {line: words for words, line in first.items()}
    return edits


def _why(returned: Sequence[str]) -> str:
    returning = tuple(dict.fromkeys(returned))
    seen = f" {' and '.join(returning)} now {'returns' if len(returning) == 1 else 'return'} the type of the inputs: "
    return (
        "A copy in float32 is made of what the kernel widens anyway, or a result is written in float32 only to be "
        "cast at once: each is one more pass over memory, of twice the bytes. The kernel loads and stores the types "
        "that are there, and the numbers stay the same."
        + (f"{seen}whoever calls by hand, in a file that is not of this kernel, would notice." if returning else "")
    )


def rewrite(text: str, only: str = "") -> Rewrite | None:
    """Every kernel of the file that is handed copies in float32, or whose results are cast. `only`: this kernel and no
    other. Where that makes too long a line, all addresses of a kernel count rows in 64 bits: it is told once."""
    return _rewrite(text, only, everywhere=False) or _rewrite(text, only, everywhere=True)


def _rewrite(text: str, only: str, *, everywhere: bool) -> Rewrite | None:
    if "torch.float32" not in text and ".float()" not in text:
        return None
    try:
        module = source.parse(text)
    except NotUnderstood:
        return None
    every, done = _Edits(), []
    for kernel in kernels.kernels(module):
        edits = _edits(module, kernel, everywhere=everywhere) if only in ("", kernel.name.value) else _Edits()
        if edits:
            every.more(edits)
            done.append(str(kernel.name.value))
    changed = source.written(module.visit(_Editor(every))) if done else ""
    known = set(text.splitlines())
    if not done or any(len(line) > LONGEST for line in changed.splitlines() if line not in known):
        return None
    return Rewrite(changed, tuple(done), "No detour through float32", _why(every.returned))


def applies(text: str) -> bool:
    return rewrite(text) is not None
