"""Let what is stored leave the cache first, where a row is read again.

    tl.store(X_ptr + offsets, gradient, mask=mask, eviction_policy="evict_first")

A loss reads its row for the largest element and the sum, and again for the gradient. In between lies the row, and what
the other programs store, which nobody reads for now, takes its place in the cache. `cache_hints` also tells the loads
which of them is the last, and that costs rows that fit anyway: in a sketch of cross_entropy's winner on an H100 the
stores alone took 480 us of its forward pass to 434 at 2048 x 128256 and 124 to 115 at 512 x 128256, and left 4096 x
32000 at 200; all hints took them to 430, 119 and 203.

Which rows are read again, and which stores belong to their last walk, `bot/engine/row_reads.py` says. Loads keep what
they say or do not say, so that a walk that loads ahead may have it too.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst
import libcst.matchers as m

from bot.engine import kernels, source
from bot.engine.finding import findall
from bot.engine.row_reads import row_reads
from bot.engine.source import NotUnderstood
from bot.engine.transforms import cache_hints
from bot.engine.transforms.rewrite import Rewrite, each_kernel, in_place

WHY = "A row is read again: what is stored meanwhile leaves the cache first."


def _walked(kernel: cst.FunctionDef, calls: Sequence[cst.Call]) -> list[cst.Call]:
    """What stands in the innermost loops around some calls, or with them outside of any."""
    found = list[cst.Call]()
    for call in calls:
        inside = [kernels.calls(loop) for loop in (kernel, *findall(kernel, m.For()))]
        around = sorted((one for one in inside if any(call is other for other in one)), key=len)
        found += around[0]
    return found


def _behind_the_last_read(kernel: cst.FunctionDef) -> list[cst.Call]:
    """Stores of a walk that reads its rows for the last time, and not those of a branch that never reads them."""
    reads = row_reads(kernel)
    if not reads.again:
        raise NotUnderstood("no row is read again")
    walked = _walked(kernel, reads.last)
    stores = [call for call in reads.stores if any(call is one for one in walked)]
    if not stores:
        raise NotUnderstood("nothing is stored behind the last read of a row")
    return stores


def _change(module: cst.Module, name: str) -> cst.Module:
    kernel = source.kernel_named(module, name)
    assert kernel is not None
    stores = _behind_the_last_read(kernel)
    if any(cache_hints.has_hints(call) for call in stores):
        raise NotUnderstood("a store says already how long the cache keeps it")
    hint = cst.SimpleString(f'"{cache_hints.FIRST}"')

    def hinted(call: cst.CSTNode) -> cst.CSTNode:
        return source.with_argument(cst.ensure_type(call, cst.Call), cache_hints.HINT, hint)

    return in_place(module, kernel, stores, hinted, WHY)


def rewrite(text: str) -> Rewrite | None:
    """Every kernel of the file that reads a row again and stores as it does."""
    return each_kernel(
        text,
        _change,
        title="What is stored leaves the cache first",
        why="A row is read again, and what is stored meanwhile takes its place in the cache, though nobody reads that.",
        seen="In a sketch of cross_entropy on an H100 the forward pass of 2048 x 128256 took 434 us in place of 480.",
    )


def applies(text: str) -> bool:
    return rewrite(text) is not None
