from __future__ import annotations

from pathlib import Path

import pytest

from bot.targets.dependents import dependent_tests, recipe_of
from tests.targets.shelf import MAKEFILE, lay_out

OP = "src/pkg/ops/softmax.py"
OWN = "test/transformers/test_softmax.py"
FILES = {
    "Makefile": MAKEFILE,
    "src/pkg/ops/__init__.py": "from pkg.ops.softmax import Softmax\n",
    OP: "class Softmax: ...\n",
    "src/pkg/ops/attention.py": "from pkg.ops.softmax import Softmax\n",
    "src/pkg/ops/geglu.py": "import torch  # no softmax here\n",
    "src/pkg/transformers/softmax.py": "from pkg.ops import Softmax\n",
    OWN: "from pkg.ops.softmax import Softmax\n",
    "test/transformers/test_attention.py": "",
    "test/transformers/test_geglu.py": "",
    "test/megatron/test_softmax.py": "",
    "test/ops/test_direct.py": "from pkg.ops import Softmax\n",
    "test/ops/helpers.py": "from pkg.ops import Softmax\n",
    "test/convergence/test_softmax.py": "from pkg.ops import Softmax\n",
    "test/gpu/test_attention.py": "",
}


def dependents(root: Path, **more: str) -> tuple[str, ...]:
    return dependent_tests(lay_out(root, {**FILES, **more}), [OP], root="src", tests="test", own=OWN)


def test_tests_of_those_who_import_the_kernel_and_tests_that_import_it_themselves(tmp_path: Path) -> None:
    assert dependents(tmp_path) == (
        "test/megatron/test_softmax.py",
        "test/ops/test_direct.py",
        "test/transformers/test_attention.py",
    )


def test_without_a_makefile_nothing_is_left_out(tmp_path: Path) -> None:
    found = dependents(tmp_path, Makefile="")
    assert {"test/convergence/test_softmax.py", "test/gpu/test_attention.py"} <= set(found)


@pytest.mark.parametrize(
    ("text", "recipe"),
    [
        ("checkstyle:\n\truff check .\n", "\truff check .\n"),
        ("checkstyle: deps\n\ta\n\n\tb\nother:\n\tc\n", "\ta\n\n\tb\n"),
        ("checkstyle :\n\ta", "\ta"),
        ("checkstyle:", ""),
        (".PHONY: checkstyle\n", None),
        ("checkstyle := x\n", None),
        ("checkstyle:= x\n", None),
        ("# checkstyle:\n", None),
        ("\techo checkstyle:\n", None),
        ("mycheckstyle:\n\ta\n", None),
        ("", None),
    ],
)
def test_recipes_of_a_makefile(tmp_path: Path, text: str, recipe: str | None) -> None:
    assert recipe_of(lay_out(tmp_path, {"Makefile": text}), "checkstyle") == recipe


@pytest.mark.parametrize("name", ["Makefile", "makefile", "GNUmakefile"])
def test_names_of_a_makefile(tmp_path: Path, name: str) -> None:
    assert recipe_of(lay_out(tmp_path, {name: "x:\n\ty\n"}), "x") == "\ty\n"
    assert recipe_of(lay_out(tmp_path / "empty", {"a": ""}), "x") is None
