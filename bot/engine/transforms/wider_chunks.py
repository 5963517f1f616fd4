"""Fewer chunks of the rows, where each of them reads all of a weight again.

A loss behind a linear layer takes its rows in chunks, so that never all of the logits exist at once. Each chunk then
reads the weight for its logits and again for the gradient of its rows, and reads and writes the weight's gradient: for
2048 rows of 2048 numbers and 32000 classes Liger's fused_linear_cross_entropy has sixteen chunks of 128 rows, moves 524
MB in each and 68 times what it has to in all, and stands at 26 % of its roof, which is arithmetic.

How wide a chunk is, is a budget: as much as the input takes. It becomes that and a share of what input and weight take
together, so that what is held at most grows by no more than a share of itself, whatever the sizes are. Where that makes
no chunk fewer, nothing changes; where it does, the chunks are as even as multiples of eight rows allow.

A chunk of fused_linear_jsd holds nine blocks in float32 as wide as its logits, where that of cross entropy is one in
half precision: there `free_early` comes first, and chunks twice as wide take what it frees. On an H100 that is 1.58x
with a percent less memory, and the plain way 1.41x of fused_linear_cross_entropy with 2.4 % more.

What such a loop is, and when it is left alone, `chunks` says.
"""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import source
from bot.engine.finding import findall
from bot.engine.source import LONGEST, NotUnderstood
from bot.engine.transforms import chunks, free_early
from bot.engine.transforms.chunks import Chunked
from bot.engine.transforms.rewrite import Rewrite


@dataclass(frozen=True, slots=True)
class Way:
    share: int = 12
    """A twelfth of what input and weight take: both have a gradient as large, and a chunk's logits their type, so it is
    4 % of everything, where 5 % are allowed."""
    multiple: int = 8
    """Products of half precision want multiples of eight rows."""
    times: int = 1
    """As wide as before, or more where what a chunk leaves is freed early."""


WAYS = {
    "": Way(),
    "in_64s": Way(multiple=64),
    "by_a_24th": Way(24),
    "by_a_48th": Way(48),
    "by_a_96th": Way(96),
    "freed_by_a_48th": Way(48, times=2),
    "freed_by_a_40th": Way(40, times=2),
}
"""The others are for a race to tell: rows that fill the tiles of a product, and fewer more where a row holds several
blocks as wide as its logits."""
WHY = "Every chunk reads all of {weight}: a {share}th of what it and {rows} take, on top, makes fewer of them."
FREED = "Every chunk reads all of {weight}: wider ones take what is freed, and a {share}th of it and {rows}."
MOST, FEWEST = "most_rows", "fewest_chunks"


def _lines(chunked: Chunked, way: Way) -> list[cst.BaseStatement]:
    total, width, multiple = chunked.total, chunked.width, way.multiple
    if any(findall(chunked.function, m.Name(name)) for name in (MOST, FEWEST)):
        raise NotUnderstood("a name is taken")
    held = f"({total} + {chunked.classes}) * {chunked.columns}"
    before = width if way.times == 1 else f"{way.times} * {width}"
    most = f"({before} + {held} // ({way.share} * {chunked.classes})) // {multiple} * {multiple}"
    even = f"({total} + {multiple} * {FEWEST} - 1) // ({multiple} * {FEWEST}) * {multiple}"
    said = (WHY if way.times == 1 else FREED).format(weight=chunked.weight, rows=chunked.rows, share=way.share)
    new = [
        source.assignment(f"{MOST} = max({width}, {most})", said),
        source.assignment(f"{FEWEST} = ({total} + {MOST} - 1) // {MOST}"),
        source.assignment(f"{width} = max({width}, min({MOST}, {even}))"),
    ]
    if any(len(line) + 4 > LONGEST for one in new for line in source.code(one).splitlines()):
        raise NotUnderstood("a line would be too long")
    return [chunked.made, *new]


def _why(chunked: Chunked, way: Way) -> str:
    spent = f"One part in {way.share} of what it and {chunked.rows} take"
    if way.times > 1:
        spent = f"What a chunk leaves is freed early. That, and one part in {way.share} of what both take"
    return (
        f"Every chunk of the rows reads all of {chunked.weight}, twice where there are gradients, and reads and writes "
        f"a gradient as large. {spent}, spent on wider chunks, makes fewer of them."
    )


def _freed(text: str, way: Way) -> str | None:
    if way.times == 1:
        return text
    found = free_early.rewrite(text)
    return found.text if found is not None else None


def rewrite(text: str, way: str = "") -> Rewrite | None:
    """Every loop of the file over chunks of its rows."""
    chosen = WAYS[way]
    if "range(" not in text or ".shape[0]" not in text:
        return None
    try:
        freed = _freed(text, chosen)
        if freed is None:
            return None
        module = source.parse(freed)
        found = chunks.chunked(module)
        changes = [(chunked.made, _lines(chunked, chosen)) for chunked in found]
    except NotUnderstood:
        return None
    if not found:
        return None
    return Rewrite(
        text=source.written(source.spliced(module, changes)),
        kernels=tuple(dict.fromkeys(name for chunked in found for name in chunks.launched(chunked))),
        title="Fewer and wider chunks" + (f", {way.replace('_', ' ')}" if way else ""),
        why=_why(found[0], chosen),
    )


def applies(text: str) -> bool:
    return rewrite(text) is not None
