"""What a chunk of rows leaves behind is freed once it was read for the last time.

A name of a loop holds its tensor until it is given another one, in the next turn or never. Liger's fused_linear_jsd
works on a chunk of its logits in a dozen steps, each into a tensor of its own, and of nine as large as the chunk that
exist at once at the worst moment four are read again. A `del` behind the last line that reads one gives it back.

By itself that saves memory alone. Chunks that may be wider for it are what `wider_chunks` makes of that.

Only names that every turn gives a value of its own before it reads them, that nothing outside of the loop and no inner
function knows, and that hold what was computed: a part of another tensor holds nothing. Refused where fewer than two of
them outlive their last reader, and where the file knows of streams: memory that is freed on one may be read on another.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst
import libcst.matchers as m

from bot.engine import source
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood
from bot.engine.transforms import chunks
from bot.engine.transforms.chunks import Chunked
from bot.engine.transforms.rewrite import Rewrite

WHY = "Freed once it was read for the last time, so that less of {rows} x {classes} exists at once."
AGAIN = "read for the last time"
FEWEST = 2
COMPUTED = (cst.Call, cst.BinaryOperation, cst.Tuple)
SCOPES = m.Lambda() | m.FunctionDef() | m.ListComp() | m.SetComp() | m.DictComp() | m.GeneratorExp()
ELSEWHERE = SCOPES | m.Del() | m.Global() | m.Nonlocal() | m.Index() | m.Slice()
"""Where a name is known to others, has an end of its own, or is a number."""
STREAM = re.compile(r"(\w+_)?[sS]treams?(Context)?")


def _mentions(node: cst.CSTNode, name: str) -> int:
    return len(findall(node, m.Name(name)))


def _binds(line: cst.CSTNode, name: str) -> bool:
    """Whether the line gives it a value that has nothing to do with the one before."""
    return name in source.targets(line) and source.loads(line, name) == 0


def _is_its_own(chunked: Chunked, name: str) -> bool:
    """Whether only the loop knows it, and each turn computes it before anything else is done with it."""
    if _mentions(chunked.function, name) != _mentions(chunked.loop, name):
        return False
    if any(_mentions(one, name) for one in findall(chunked.loop, ELSEWHERE)):
        return False
    first = next(line for line in chunked.loop.body.body if _mentions(line, name))
    return _binds(first, name) and isinstance(source.value(first), COMPUTED)


def _last_readers(chunked: Chunked, name: str) -> Iterator[cst.BaseStatement]:
    """The last line that reads each value that it is given."""
    lines = [line for line in chunked.loop.body.body if _mentions(line, name)]
    for line, after in zip(lines, [*lines[1:], None], strict=True):
        if (after is None or _binds(after, name)) and not _binds(line, name):
            yield line


def _frees(chunked: Chunked) -> dict[cst.BaseStatement, list[str]]:
    """Behind which lines what is freed, in the order of the loop."""
    lines = chunked.loop.body.body
    names = dict.fromkeys(name for line in lines for name in source.targets(line))
    frees: dict[cst.BaseStatement, list[str]] = {}
    for name in names:
        if _is_its_own(chunked, name):
            for line in _last_readers(chunked, name):
                frees.setdefault(line, []).append(name)
    return {line: frees[line] for line in lines if line in frees}


def _changes(chunked: Chunked) -> list[tuple[cst.CSTNode, list[cst.BaseStatement]]]:
    frees = _frees(chunked)
    if sum(len(names) for names in frees.values()) < FEWEST:
        return []
    why = WHY.format(rows=chunked.width, classes=chunked.classes)
    changes: list[tuple[cst.CSTNode, list[cst.BaseStatement]]] = []
    for number, (line, names) in enumerate(frees.items()):
        free = cst.ensure_type(cst.parse_statement(f"del {', '.join(names)}"), cst.SimpleStatementLine)
        if number == 0:
            free = free.with_changes(leading_lines=source.comment_lines(why))
        else:
            said = cst.TrailingWhitespace(cst.SimpleWhitespace("  "), cst.Comment(f"# {AGAIN}"))
            free = free.with_changes(trailing_whitespace=said)
        changes.append((line, [line, free]))
    return changes


def rewrite(text: str) -> Rewrite | None:
    """Every loop of the file over chunks of its rows."""
    if "range(" not in text or ".shape[0]" not in text:
        return None
    try:
        module = source.parse(text)
    except NotUnderstood:
        return None
    if any(STREAM.fullmatch(cst.ensure_type(name, cst.Name).value) for name in findall(module, m.Name())):
        return None
    found = [(one, _changes(one)) for one in chunks.chunked(module)]
    found = [(one, changes) for one, changes in found if changes]
    if not found:
        return None
    return Rewrite(
        text=source.written(source.spliced(module, [change for _, changes in found for change in changes])),
        kernels=tuple(dict.fromkeys(name for one, _ in found for name in chunks.launched(one))),
        title="Free what a chunk of rows leaves",
        why="The names of a loop hold their tensors until they are given others. Each is freed behind the last line "
        "that reads it.",
    )


def applies(text: str) -> bool:
    return rewrite(text) is not None
