"""Private functions of a kernel's files that another file asks for: a test that launches the kernel itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.targets.imports import relied_on
from tests.targets.shelf import lay_out

OP = "src/pkg/ops/sums.py"
BASE = {
    "src/pkg/__init__.py": "",
    "src/pkg/ops/__init__.py": "from pkg.ops.sums import sums\n",
    OP: "def sums(x): ...\n@jit\ndef _kernel(x): ...\ndef _other(x): ...\ndef __dir__(): ...\n_SIZE = 1\n",
}


def found(root: Path, user: str, path: str = "test/test_sums.py") -> tuple[str, ...]:
    return relied_on(lay_out(root, {**BASE, path: user}), [OP], root="src", under=("src", "test"))


@pytest.mark.parametrize(
    "user",
    [
        "from pkg.ops.sums import _kernel",
        "from pkg.ops.sums import sums\nfrom pkg.ops.sums import _kernel as launched",
        "def test():\n    from pkg.ops.sums import _kernel",
        "import pkg.ops.sums as s\ns._kernel[(1,)](0)",
        "from pkg.ops import sums\nsums._kernel[(1,)](0)",
    ],
)
def test_who_asks_for_it_by_name_or_asks_the_module(tmp_path: Path, user: str) -> None:
    assert found(tmp_path, user) == ("_kernel",)


@pytest.mark.parametrize(
    "user",
    [
        "from pkg.ops.sums import sums",
        "from pkg.ops.products import _kernel",
        "import pkg.ops.products as s\ns._kernel[(1,)](0)",
        "# from pkg.ops.sums import _kernel",
        "from pkg.ops.sums import __dir__, _SIZE",
        "from pkg.ops.sums import _kernel (",
    ],
)
def test_who_does_not(tmp_path: Path, user: str) -> None:
    assert found(tmp_path, user) == ()


def test_another_module_of_the_library_counts_and_a_file_elsewhere_does_not(tmp_path: Path) -> None:
    asks = "from .sums import _other\n"
    assert found(tmp_path / "one", asks, "src/pkg/ops/fused.py") == ("_other",)
    assert found(tmp_path / "two", asks, "docs/fused.py") == ()


def test_files_of_the_kernel_ask_each_other_for_what_they_like(tmp_path: Path) -> None:
    files = {**BASE, "src/pkg/ops/backend.py": "from pkg.ops.sums import _kernel\n"}
    tree = lay_out(tmp_path, files)
    assert relied_on(tree, [OP, "src/pkg/ops/backend.py"], root="src", under=("src", "test")) == ()


def test_a_file_that_cannot_be_read_has_none(tmp_path: Path) -> None:
    tree = lay_out(tmp_path, {**BASE, OP: "def _kernel(:\n", "test/test_sums.py": "from pkg.ops.sums import _kernel\n"})
    assert relied_on(tree, [OP], root="src", under=("src", "test")) == ()
