"""A comment behind an argument stays with it when another comes behind."""

from __future__ import annotations

import libcst as cst
import pytest

from bot.engine import source
from bot.engine.source import NotUnderstood


def with_more(call: str) -> str:
    found = cst.ensure_type(cst.parse_expression(call), cst.Call)
    return source.code(source.with_new_argument(found, "n", source.expression("1")))


@pytest.mark.parametrize(
    ("call", "more"),
    [
        ("k(\n    x,  # rows\n    y,  # made\n)", "k(\n    x,  # rows\n    y,  # made\n    n=1,\n)"),
        ("k(\n    x,\n    # how many\n    m=2,\n)", "k(\n    x,\n    # how many\n    m=2,\n    n=1,\n)"),
        ("k(\n    x,  # the rows\n    **more,\n)", "k(\n    x,  # the rows\n    n=1,\n    **more,\n)"),
        ("k(x)", "k(x, n=1)"),
        ("k(x, y)", "k(x, y, n=1)"),
        ("k()", "k(n=1)"),
    ],
)  # fmt: skip
def test_what_is_said_of_one_argument_is_not_said_of_the_next(call: str, more: str) -> None:
    assert with_more(call) == more


@pytest.mark.parametrize(
    "call",
    [
        "k(\n    x,\n    y  # the last\n)",
        "k(\n    x, y,  # both\n)",
        "k(\n    x,\n    y,\n    # and no more\n)",
    ],
)
def test_where_a_word_would_be_lost_or_moved_nothing_is_added(call: str) -> None:
    with pytest.raises(NotUnderstood, match="said of the last argument"):
        with_more(call)
