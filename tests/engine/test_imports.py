"""One of Python's own modules comes to where a repository's style check wants it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bot.engine import source
from bot.engine.imports import with_import, without_unread
from bot.engine.source import NotUnderstood

SORTED_LIKE_LIGER = """
[lint]
select = ["I"]
[lint.isort]
force-single-line = true
lines-between-types = 1
"""


def brought(text: str) -> str:
    return with_import(source.parse(text), "functools").code


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import torch\n", "import functools\n\nimport torch\n"),
        ('"""Doc."""\n\nimport torch\n', '"""Doc."""\n\nimport functools\n\nimport torch\n'),
        (
            "from __future__ import annotations\n\nimport torch\n",
            "from __future__ import annotations\n\nimport functools\n\nimport torch\n",
        ),
        ("import math\n\nimport torch\n", "import functools\nimport math\n\nimport torch\n"),
        ("import ast\n\nimport torch\n", "import ast\nimport functools\n\nimport torch\n"),
        ("import ast\nimport math\n\nimport torch\n", "import ast\nimport functools\nimport math\n\nimport torch\n"),
        (
            "import ast\n\nfrom typing import Any\n\nimport torch\n",
            "import ast\nimport functools\n\nfrom typing import Any\n\nimport torch\n",
        ),
        (
            "from typing import Any\n\nimport torch\n",
            "import functools\n\nfrom typing import Any\n\nimport torch\n",
        ),
        ("# Licence.\nimport torch\n", "# Licence.\nimport functools\n\nimport torch\n"),
        ("import functools as ft\n\nimport torch\n", "import functools\nimport functools as ft\n\nimport torch\n"),
        (
            '"""Doc."""\n\n# Licence.\n\nimport torch\n',
            '"""Doc."""\n\n# Licence.\n\nimport functools\n\nimport torch\n',
        ),
        (
            '"""Doc."""\n\n# Licence.\n\n# Not every build has it.\nimport torch\n',
            '"""Doc."""\n\n# Licence.\n\nimport functools\n\n# Not every build has it.\nimport torch\n',
        ),
        (
            '"""Doc."""\n\n# For the widths.\nimport math\n\nimport torch\n',
            '"""Doc."""\n\nimport functools\n\n# For the widths.\nimport math\n\nimport torch\n',
        ),
        ("import math\r\n\r\nimport torch\r\n", "import functools\r\nimport math\r\n\r\nimport torch\r\n"),
        (
            '"""Doc."""\n\n# Not every build has it.\nimport torch\n',
            '"""Doc."""\n\nimport functools\n\n# Not every build has it.\nimport torch\n',
        ),
    ],
)
def test_it_stands_where_the_sorted_have_it(before: str, after: str, tmp_path: Path) -> None:
    assert brought(before) == after
    file, config = tmp_path / "op.py", tmp_path / "ruff.toml"
    file.write_bytes(after.encode())
    config.write_text(SORTED_LIKE_LIGER, encoding="utf-8")
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--config", str(config), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("text", ["import functools\n\nimport torch\n", "import ast, functools\n\nimport torch\n"])
def test_what_is_there_stays_as_it_is(text: str) -> None:
    assert brought(text) == text


def test_where_it_is_imported_only_below_what_may_need_it_it_is_not_brought() -> None:
    """A decorator is asked for above it, while the module is imported."""
    late = "import torch\n\n\ndef op():\n    pass\n\n\nimport functools\n"
    with pytest.raises(NotUnderstood, match="imported below"):
        brought(late)


def test_a_part_of_it_or_another_name_for_it_is_not_it() -> None:
    text = "import functools as f\nfrom functools import partial\n\nimport torch\n"
    assert "import functools\n" in brought(text)


@pytest.mark.parametrize("text", ["import torch\n\nfunctools = 1\n", "import torch\n\n\ndef functools():\n    pass\n"])
def test_where_the_name_is_something_else_it_is_not_brought(text: str) -> None:
    with pytest.raises(NotUnderstood, match="functools is something else"):
        brought(text)


def test_without_any_import_there_is_no_place() -> None:
    with pytest.raises(NotUnderstood, match="nothing is imported"):
        brought("x = 1\n")


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("a line", "x = math.pi"),
        ("a default", "def op(x, limit=math.inf):\n    pass"),
        ("an annotation", "def op(x: math.Number):\n    pass"),
        ("an annotation in a string", "def op(x: 'math.Number'):\n    pass"),
        ("what others may import", "__all__ = ['math']"),
        ("a place", "places[math.pi] = 1"),
        ("a decorator", "@math.op\ndef op(x):\n    pass"),
    ],
)
def test_an_import_stays_where_somebody_needs_it(what: str, line: str) -> None:
    gone = [source.parse("share = math.ceil(1.5)\n").body[0]]
    text = f"import math\n\nimport torch\n\n{line}\n"
    assert without_unread(source.parse(text), gone).code == text, what
    docstring = text.replace(line, "def op(x):\n    '''Some math.'''\n    return x.math(math=x)")
    assert without_unread(source.parse(docstring), gone).code == docstring.removeprefix("import math\n\n")


def test_what_stands_below_the_imports_keeps_its_distance() -> None:
    gone = [source.parse("share = math.ceil(1.5)\n").body[0]]
    text = "import torch\n\nimport math\n\n\ndef op(x):\n    pass\n"
    assert without_unread(source.parse(text), gone).code == text.replace("\nimport math\n", "")
