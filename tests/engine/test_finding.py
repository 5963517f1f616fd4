"""Our own search finds what libcst's finds, in the same order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import libcst as cst
import libcst.matchers as m
import pytest

from bot.engine import source
from bot.engine.finding import findall, nodes

ROOT = Path(__file__).parents[2]
TEXTS = sorted((ROOT / "templates/sample/src/sample_kernels/ops").glob("*.py"))
TEXTS += [ROOT / "bot/engine/source.py", ROOT / "bot/judge/oracle.py", ROOT / "bot/worker/nursery.py"]
PATTERNS: dict[str, Any] = {
    "names": m.Name(),
    "one name": m.Name("mask"),
    "calls": m.Call(),
    "launches": source.LAUNCH,
    "launches of one": source.LAUNCH & m.Call(func=m.Subscript(value=m.Name("_rms_norm_forward_kernel"))),
    "loops": m.For() | m.While(),
    "lines": m.SimpleStatementLine(),
    "returns": m.SimpleStatementLine(body=[m.Return()]),
    "additions": m.AugAssign(target=m.Name(), operator=m.AddAssign()),
    "bindings": m.Assign() | m.AnnAssign() | m.AugAssign() | m.For() | m.NamedExpr(),
    "all but names": ~m.Name(),
    "comments": m.Comment(),
}


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
@pytest.mark.parametrize("kind", PATTERNS)
def test_the_same_nodes_in_the_same_order(path: Path, kind: str) -> None:
    module, pattern = cst.parse_module(path.read_text()), PATTERNS[kind]
    expected, found = m.findall(module, pattern), findall(module, pattern)
    ordered = kind not in ("comments", "all but names")
    if ordered:
        assert [id(node) for node in found] == [id(node) for node in expected]
    assert {id(node) for node in found} == {id(node) for node in expected}
    assert len(found) == len(expected)


def test_the_tree_itself_counts() -> None:
    name = cst.Name("x")
    assert findall(name, m.Name("x")) == [name]
    assert findall(name, m.Name("y")) == []


def test_without_air_no_comment_is_met() -> None:
    module = cst.parse_module("# a word\nx = f(1,  # another\n      2)\n")
    assert sum(isinstance(node, cst.Comment) for node in nodes(module)) == 2
    assert not any(isinstance(node, cst.Comment) for node in nodes(module, with_air=False))
    assert len(findall(module, m.Comment())) == 2
