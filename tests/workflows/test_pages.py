"""docs/security.md and docs/install.md say what is so."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from bot.cli.entry import VERBS
from bot.render import workflows
from tests.workflows.test_files import ACTION_TEXT, TEXTS

ROOT = Path(__file__).parents[2]
SECURITY = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
INSTALL = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", SECURITY)
ROWS = [row for row in SECURITY.split("## Threats")[1].split("\n## ")[0].splitlines() if row.startswith("| ")][1:]


@pytest.mark.parametrize(("path", "name"), sorted(set(NAMED)))
def test_every_test_that_the_page_names_is_there(path: str, name: str) -> None:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    assert not name or name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_threat_has_a_control_and_a_test() -> None:
    assert len(ROWS) >= 23
    for row in ROWS:
        threat, control, tests = (cell.strip() for cell in row.strip("|").split("|"))
        assert threat and len(control) > 10
        assert tests.startswith("`tests/"), threat


def test_the_page_admits_what_it_does_not_hold() -> None:
    assert "## Do not run this on a public repository" in SECURITY
    assert "**It protects nothing.**" in SECURITY.split("## What hiding a label does not do")[1]


def test_every_variable_that_the_files_read_is_explained() -> None:
    read = set(re.findall(r"vars\.(KERNELWRIGHT_\w+)", "".join(TEXTS.values())))
    table = set(re.findall(r"^\| `(KERNELWRIGHT_\w+)` \|", INSTALL, re.MULTILINE))
    assert read == table
    secrets = set(re.findall(r"secrets\.(\w+)", "".join(TEXTS.values()) + ACTION_TEXT))
    assert secrets == {"KERNELWRIGHT_APP_KEY"} and "`KERNELWRIGHT_APP_KEY`" in INSTALL


def test_the_commands_shown_are_there() -> None:
    assert set(re.findall(r"^kernelwright ([\w-]+)", INSTALL, re.MULTILINE)) <= set(VERBS)
    assert (
        f"init` writes {['', 'one', 'two', 'three', 'four', 'five', 'six', 'seven'][len(workflows.names())]}" in INSTALL
    )
