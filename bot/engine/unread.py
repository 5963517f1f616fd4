"""Statements that do nothing but to set a variable which is set anew right behind them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import libcst as cst
import libcst.matchers as m

from bot.engine import source
from bot.engine.finding import findall


def before(block: Sequence[cst.BaseStatement], name: str) -> list[cst.BaseStatement]:
    """The last ones of a block that set the variable and do no more. What somebody said something of stays."""
    return list(itertools.takewhile(lambda one: _only_sets(one, name), reversed(block)))


def _only_sets(one: cst.BaseStatement, name: str) -> bool:
    if findall(one, m.Comment() | m.Call() | m.NamedExpr() | m.Await() | m.Yield()):
        return False
    if not isinstance(one, cst.If):
        return source.is_plain(one, name)
    bodies = [one.body, *([one.orelse.body] if isinstance(one.orelse, cst.Else) else [])]
    further = isinstance(one.orelse, cst.If) and not _only_sets(one.orelse, name)
    return not further and all(
        isinstance(body, cst.IndentedBlock) and all(_only_sets(inner, name) for inner in body.body) for body in bodies
    )
