"""What the named rewrites make of a source, made once: a rewrite takes half a second, the plan asks for all of them,
and every round asks again, mostly of the same incumbent. And what every idea brings along, whichever it is."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache

from bot.engine.reordered import reordered
from bot.engine.source import NotUnderstood
from bot.engine.transforms import ACROSS_FILES, PER_KERNEL, TRANSFORMS, sum_in_float32
from bot.engine.transforms.rewrite import FilesRewrite, Rewrite
from bot.model.variant import SourceFile

EVERYBODYS = frozenset(("min", "max", "range", "len", "int", "float", "tuple", "sum", "all", "isinstance"))
"""Words that rewrites read, and write, as everybody knows them."""


def _resizes(function: ast.FunctionDef) -> bool:
    """Whether a kernel gives another value to a size that it was compiled with: the host knows the one it gave."""
    given = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    sizes = {one.arg for one in given if one.annotation is not None and "constexpr" in ast.unparse(one.annotation)}
    names = (node for node in ast.walk(function) if sizes and isinstance(node, ast.Name))
    return any(name.id in sizes and not isinstance(name.ctx, ast.Load) for name in names)


@lru_cache(maxsize=128)
def speaks_plainly(text: str) -> bool:
    """Whether no line gives one of those words another meaning, and no kernel one of its sizes. What does not parse is
    nothing to any rewrite."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return False
    nodes, own = list(ast.walk(tree)), set[str]()
    if any(_resizes(node) for node in nodes if isinstance(node, ast.FunctionDef)):
        return False
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.ExceptHandler(name=str(name)):
                own.add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                own.add(name)
            case ast.alias(name=name, asname=other):
                own.add(other or name.split(".")[0])
    return not own & EVERYBODYS


@dataclass(frozen=True, slots=True)
class Along:
    """The files of an idea with what it brings along, and the kernels that this is about."""

    files: tuple[SourceFile, ...]
    kernels: tuple[str, ...] = ()


def of_file(name: str, text: str, only: str = "") -> Rewrite | None:
    """Of one file, or of one kernel in it."""
    return _of_file(name, text, only)


@lru_cache(maxsize=512)
def _of_file(name: str, text: str, only: str) -> Rewrite | None:
    """To whoever remembers calls, one that leaves the last word out is another."""
    if not speaks_plainly(text):
        return None
    return PER_KERNEL[name].rewrite(text, only) if only else TRANSFORMS[name].rewrite(text)


@lru_cache(maxsize=16)
def of_files(name: str, files: tuple[SourceFile, ...]) -> FilesRewrite | None:
    """Of all files of a target together."""
    if not all(speaks_plainly(file.text) for file in files):
        return None
    return ACROSS_FILES[name].rewrite({file.path: file.text for file in files})


@lru_cache(maxsize=256)
def in_float32(
    before: tuple[SourceFile, ...], after: tuple[SourceFile, ...], backward_only: frozenset[str] = frozenset()
) -> Along:
    """The files after a change. Where a kernel now adds up in another order it does so in float32, and so do the others
    of its file: group_norm's backward adds up what its forward made, and has another luck with every last bit of it.

    `backward_only` are kernels that no forward pass launches. Where only those change, the others stay as they are: the
    same forward in float32 was 2.8 % slower on an H200 (4,096 rows of 2,048 columns), for the sake of its backward.
    """
    try:
        places = reordered(before, after)
    except NotUnderstood:
        return Along(after)
    texts, done = {file.path: file.text for file in after}, list[str]()
    for path in dict.fromkeys(path for path, _ in places):
        asking = {kernel for at, kernel in places if at == path and sum_in_float32.rewrite(texts[path], kernel)}
        for only in sorted(backward_only) if asking <= backward_only else ("",):
            found = sum_in_float32.rewrite(texts[path], only) if asking else None
            if found is not None:
                texts[path] = found.text
                done += found.kernels
    files = tuple(SourceFile(path=file.path, text=texts[file.path]) for file in after)
    return Along(files, tuple(done)) if done else Along(after)
