"""Nodes for nodes, and everything else the very same."""

import libcst as cst
import libcst.matchers as m
import pytest

from bot.engine import source
from bot.engine.exchanging import NotInside, exchanged
from bot.engine.finding import findall

TEXT = """import torch


def first(x):
    # What is said.
    y = x + 1
    return y * 2  # behind


def second(x):
    if x:
        return first(x + 1)
    return first(0)
"""
MODULE = cst.parse_module(TEXT)


def found(pattern: m.BaseMatcherNode, tree: cst.CSTNode = MODULE) -> list[cst.CSTNode]:
    return findall(tree, pattern)


def test_one_goes_and_what_does_not_hold_it_stays_the_very_same() -> None:
    (two,) = found(m.Integer("2"))
    after = cst.ensure_type(exchanged(MODULE, {two: (cst.Integer("3"),)}), cst.Module)
    assert source.written(after) == TEXT.replace("y * 2", "y * 3")
    assert after.body[2] is MODULE.body[2] and after.body[1] is not MODULE.body[1]
    assert found(m.SimpleStatementLine(), after)[1] is found(m.SimpleStatementLine())[1]


def test_a_line_may_become_several_or_none() -> None:
    line = found(m.SimpleStatementLine(body=[m.Assign()]))[0]
    many = [cst.parse_statement("a = 1"), cst.parse_statement("b = 2")]
    text = source.written(cst.ensure_type(exchanged(MODULE, {line: many}), cst.Module))
    assert text == TEXT.replace("    # What is said.\n    y = x + 1\n", "    a = 1\n    b = 2\n")
    assert "What is said" not in source.written(cst.ensure_type(exchanged(MODULE, {line: ()}), cst.Module))


def test_what_stands_below_one_that_goes_is_not_looked_at() -> None:
    outer = found(m.BinaryOperation(operator=m.Multiply()))[0]
    inner = found(m.Integer("2"))[0]
    text = source.code(exchanged(MODULE, {outer: (cst.Name("z"),), inner: (cst.Integer("3"),)}))
    assert text == TEXT.replace("y * 2", "z")


def test_a_comment_may_go_too() -> None:
    comment = next(one for one in found(m.Comment()) if cst.ensure_type(one, cst.Comment).value == "# behind")
    assert source.code(exchanged(MODULE, {comment: (cst.Comment("# now"),)})) == TEXT.replace("# behind", "# now")


def test_one_that_we_wrote_twice_goes_twice() -> None:
    name = cst.Name("x")
    both = cst.BinaryOperation(name, cst.Add(), name)
    assert source.code(exchanged(both, {name: (cst.Name("y"),)})) == "y + y"


def test_the_tree_itself() -> None:
    assert exchanged(MODULE, {MODULE: (MODULE.body[0],)}) is MODULE.body[0]
    assert exchanged(MODULE, {}) is MODULE


@pytest.mark.parametrize("several", [(), (cst.Name("a"), cst.Name("b"))])
def test_there_is_one_place_for_a_value(several: tuple[cst.Name, ...]) -> None:
    with pytest.raises(NotInside, match="stands in no list"):
        exchanged(MODULE, {found(m.Integer("2"))[0]: several})


def test_a_node_of_another_tree_is_a_mistake_of_ours() -> None:
    with pytest.raises(NotInside, match="of another tree"):
        exchanged(MODULE, {cst.Name("x"): (cst.Name("y"),)})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "x = 1",
        "x = 1\n",
        "# first\n\nx = 1\n\n\n# last\n",
        "x = 1\n# last",
        "def f():\n\treturn 1\n",
        "x = 1\r\n",
    ],
)
def test_a_text_is_written_as_libcst_writes_it(text: str) -> None:
    assert source.written(cst.parse_module(text)) == cst.parse_module(text).code == text
