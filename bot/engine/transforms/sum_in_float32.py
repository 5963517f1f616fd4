"""Add up in float32: `tl.load(...)` becomes `tl.load(...).to(tl.float32)` where a running sum is of rows as they are.

`tl.sum` adds up in the type it is given. A kernel that walks its row and hands it blocks of half precision makes a sum
that depends on the order of the additions, and other launch numbers are another order: of group_norm's 65,536 columns
smaller blocks made a variance below zero in float16, where the old order was luckier. In float32 the order does not
show, and a block is let go before the next one is read.

It gains nothing by itself and is no idea of its own: whatever changes the order brings it along
(`bot/engine/rewriting.py`). What is stored keeps its type, for a store rounds to the type of what it writes to.

A row that is held and added up once stays as it is: in float32 it takes twice the registers (softmax's backward, 65,536
columns: 1,100 bytes of spills a thread in place of 164). Refused unless what is added up are floating-point numbers by
what the text says: a load with `other=0.0`, or one that meets such a load in a sum or product. Refused where the type
of a row is asked for (`x.dtype`) or told to it in some cases alone, where a row is handed to a function that is not
known, and where a variable would have two types. Rows of float64 lose nothing: their sums and a running sum that begins
with `0.0` are of two types, which does not compile.
"""

from __future__ import annotations

import libcst as cst

from bot.engine import own_types, source
from bot.engine.source import NotUnderstood
from bot.engine.transforms.rewrite import Rewrite, each_kernel, in_place

WHY = "Added up in float32, so that another order does not change what half precision makes of it."
WIDE = source.expression("x.to(tl.float32)")


def _wide(load: cst.CSTNode) -> cst.CSTNode:
    cast = cst.ensure_type(WIDE, cst.Call).deep_clone()
    return cast.with_changes(func=cst.ensure_type(cast.func, cst.Attribute).with_changes(value=load))


def _change(module: cst.Module, name: str) -> cst.Module:
    kernel = source.kernel_named(module, name)
    assert kernel is not None
    loads = own_types.added_in_their_own_type(module, kernel)
    if not loads:
        raise NotUnderstood("no running sum is in the type of its rows")
    return in_place(module, kernel, loads, _wide, WHY)


def rewrite(text: str, only: str = "") -> Rewrite | None:
    """Every kernel of the file that adds up rows in their own type, or only one of them."""
    if "tl.load(" not in text:
        return None
    return each_kernel(
        text,
        _change,
        title="Add up in float32",
        why="tl.sum adds up in the type it is given, so that in half precision the order of the additions shows.",
        tuned=True,
        only=only,
    )


def applies(text: str) -> bool:
    return rewrite(text) is not None
