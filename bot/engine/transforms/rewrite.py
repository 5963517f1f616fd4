"""What a transform hands back, and the walk over a file's kernels that most of them share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

import libcst as cst
import libcst.matchers as m

from bot.engine import kernels, long_lines, source
from bot.engine.finding import nodes
from bot.engine.source import LONGEST, NotUnderstood

Change = Callable[[cst.Module, str], cst.Module]
"""One kernel of the module, by name, rewritten. Raises NotUnderstood where it is not sure, or has nothing to do."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    text: str
    kernels: tuple[str, ...]
    """The kernels whose code or launch changed."""
    title: str
    why: str
    seen: str = ""
    """What a GPU showed of the idea elsewhere: said where the model of time cannot see it."""


@dataclass(frozen=True, slots=True)
class FilesRewrite:
    """What becomes of a target's files together; a rewrite of one file is one of these too."""

    texts: Mapping[str, str]
    """The files that change, by their paths."""
    kernels: tuple[str, ...]
    title: str
    why: str
    seen: str = ""
    spared: int = 0
    """How often each element went through memory as a float32, outside of the kernel's inputs and outputs, and no
    longer does."""


def of_one_file(path: str, rewrite: Rewrite) -> FilesRewrite:
    return FilesRewrite({path: rewrite.text}, rewrite.kernels, rewrite.title, rewrite.why, rewrite.seen)


def in_place(
    module: cst.Module,
    kernel: cst.FunctionDef,
    wanted: Collection[cst.CSTNode],
    change: Callable[[cst.CSTNode], cst.CSTNode],
    why: str,
) -> cst.Module:
    """The module with parts of the kernel's lines changed, and one line above the first of them that says why. Refused
    where a line would be too long. What is changed in a part that is wanted as well is handed on changed."""

    class InPlace(cst.CSTTransformer):  # type: ignore[misc]  # libcst is not followed
        told = False

        def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> cst.CSTNode:
            if is_wanted(original_node):
                return change(updated_node)
            if not isinstance(updated_node, cst.SimpleStatementLine) or self.told:
                return updated_node
            self.told = any(is_wanted(node) for node in nodes(original_node))
            above = (*updated_node.leading_lines, *source.comment_lines(why))
            return updated_node.with_changes(leading_lines=above) if self.told else updated_node

    def is_wanted(node: cst.CSTNode) -> bool:
        return any(node is one for one in wanted)

    changed = cst.ensure_type(kernel.visit(InPlace()), cst.FunctionDef)
    refuse_long_lines(kernel, changed)
    return source.spliced(module, [(kernel, [changed])])


def with_numbers(module: cst.Module, new: Mapping[cst.CSTNode, tuple[int, str]]) -> cst.Module:
    """The module with other numbers in some places, and above the line or decorator of each what is said of it."""

    class Numbers(cst.CSTTransformer):  # type: ignore[misc]  # libcst is not followed
        def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> cst.CSTNode:
            if original_node in new:
                return cst.Integer(str(new[original_node][0]))
            if not isinstance(updated_node, cst.SimpleStatementLine | cst.Decorator):
                return updated_node
            for why in dict.fromkeys(new[node][1] for node in nodes(original_node) if node in new):
                above = [one for one in updated_node.leading_lines if not m.matches(one.comment, m.Comment(f"# {why}"))]
                updated_node = updated_node.with_changes(leading_lines=(*above, *source.comment_lines(why)))
            return updated_node

    return cst.ensure_type(module.visit(Numbers()), cst.Module)


def indent_of(text: str, line: cst.SimpleStatementLine) -> int:
    """How far a line stands from the margin: the first one of the text that reads so."""
    said = source.code(line.with_changes(leading_lines=())).strip().partition("\n")[0]
    return next((len(one) - len(one.lstrip()) for one in text.splitlines() if one.strip() == said), 0)


def refuse_long_lines(before: cst.CSTNode, after: cst.CSTNode) -> None:
    """Raises NotUnderstood where a line is new and too long."""
    known = set(source.code(before).splitlines())
    if any(len(line) > LONGEST for line in source.code(after).splitlines() if line not in known):
        raise NotUnderstood("a line would be too long")


def each_kernel(
    text: str, change: Change, *, title: str, why: str, seen: str = "", tuned: bool = False, only: str = ""
) -> Rewrite | None:
    """Every kernel of a file, one after the other. One that is not understood stays as it is.
    `tuned`: also those that choose their launch numbers themselves. `only`: this kernel and no other."""
    try:
        module = source.parse(text)
    except NotUnderstood:
        return None
    done = []
    found = [f for f in source.functions(module) if kernels.is_kernel(f) or (tuned and kernels.is_tuned(f))]
    for name in [str(kernel.name.value) for kernel in found if only in ("", kernel.name.value)]:
        try:
            module = change(module, name)
        except (NotUnderstood, RecursionError):  # a sum of hundreds of terms is as deep a tree
            continue
        done.append(name)
    written = source.written(long_lines.in_lines(module, text)) if done else ""
    return Rewrite(text=written, kernels=tuple(done), title=title, why=why, seen=seen) if done else None


def only_these(made: Callable[[str, str], Rewrite | None], text: str, names: Collection[str]) -> Rewrite | None:
    """Of what a rewrite finds, the kernels with these names: those of another op in the same file are that op's to try.
    `made`: the text with one kernel rewritten, or all of them where none is named."""
    whole, done = made(text, ""), list[Rewrite]()
    for name in (name for name in whole.kernels if name in names) if whole is not None else ():
        found = made(done[-1].text if done else text, name)
        done += [found] if found is not None else []
    return replace(done[-1], kernels=tuple(one.kernels[0] for one in done)) if done else None
