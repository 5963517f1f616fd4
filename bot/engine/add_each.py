"""What `tl.reduce` adds up several blocks with, so that warps meet once for all of them: `_add_each_of_2` and so on."""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst

from bot.engine import source
from bot.engine.source import NotUnderstood


def name(count: int) -> str:
    return f"_add_each_of_{count}"


def _written(count: int) -> str:
    letters = "abcdefgh"
    ours, theirs = letters[:count], letters[count : 2 * count]
    added = ", ".join(f"{one} + {other}" for one, other in zip(ours, theirs, strict=True))
    return f"@triton.jit\ndef {name(count)}({', '.join(ours + theirs)}):\n    return {added}\n"


def defined_above(module: cst.Module, kernel: str, counts: Collection[int]) -> cst.Module:
    """The module with what adds up each of so many above the kernel, where the file has it not yet."""
    new: list[cst.BaseStatement] = []
    for count in sorted(counts):
        written, there = _written(count), source.kernel_named(module, name(count))
        if there is not None and source.code(there.with_changes(leading_lines=())).strip() != written.strip():
            raise NotUnderstood("a name is taken")
        if there is None:
            parsed = cst.parse_module(written, config=module.config_for_parsing).body[0]
            new.append(parsed.with_changes(leading_lines=(cst.EmptyLine(), cst.EmptyLine())))
    function = source.kernel_named(module, kernel)
    assert function is not None
    return source.spliced(module, [(function, [*new, function])]) if new else module
