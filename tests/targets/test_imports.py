from __future__ import annotations

from pathlib import Path

import pytest

from bot.targets.imports import importers, module_name
from tests.targets.shelf import lay_out

CHANGED = "src/pkg/ops/jsd.py"
BASE = {
    "src/pkg/__init__.py": "",
    "src/pkg/ops/__init__.py": "from pkg.ops.jsd import JSD, helper as aid\nfrom pkg.ops.other import Other\n",
    CHANGED: "class JSD: ...\ndef helper(): ...\ndef _private(): ...\nSIZE = 1\n",
    "src/pkg/ops/other.py": "class Other: ...\n",
}


def found(root: Path, user: str, path: str = "src/pkg/user.py") -> bool:
    tree = lay_out(root, {**BASE, path: user})
    return path in importers(tree, [CHANGED], root="src", among=tree.list())


@pytest.mark.parametrize(
    ("path", "name"),
    [("src/pkg/ops/jsd.py", "pkg.ops.jsd"), ("src/pkg/ops/__init__.py", "pkg.ops"), ("test/test_x.py", "test.test_x")],
)
def test_names_of_modules(path: str, name: str) -> None:
    assert module_name(path, "src") == name


@pytest.mark.parametrize(
    "user",
    [
        "import pkg.ops.jsd",
        "import pkg.ops.jsd as j",
        "from pkg.ops import jsd",
        "from pkg.ops.jsd import JSD",
        "from pkg.ops.jsd import _private",
        "from pkg.ops.jsd import *",
        "from .ops.jsd import JSD",
        "from .ops import jsd",
        "from . import ops\nfrom .ops import JSD",
        "def f():\n    from pkg.ops.jsd import JSD",
        "try:\n    from pkg.ops import JSD\nexcept ImportError: ...",
        "from pkg.ops import JSD",
        "from pkg.ops import aid",
        "from pkg.ops import (\n    Other,\n    JSD as X,\n)",
        "from pkg.ops import *",
    ],
)
def test_who_imports_the_file(tmp_path: Path, user: str) -> None:
    assert found(tmp_path, user)


@pytest.mark.parametrize(
    "user",
    [
        "from pkg.ops import Other",
        "from pkg.ops.other import JSD",
        "import pkg.ops",
        "from elsewhere.ops.jsd import JSD",
        "from pkg.ops import helper",
        "# from pkg.ops.jsd import JSD",
        "'from pkg.ops.jsd import JSD'",
        "jsd = JSD = 1",
        "from pkg.ops.jsd import (",
        "from ....ops.jsd import JSD",
        "",
    ],
)
def test_who_does_not(tmp_path: Path, user: str) -> None:
    assert not found(tmp_path, user)


def test_relative_imports_start_where_the_file_stands(tmp_path: Path) -> None:
    assert found(tmp_path, "from ..ops.jsd import JSD", "src/pkg/sub/user.py")
    assert found(tmp_path, "from .jsd import JSD", "src/pkg/ops/user.py")
    assert not found(tmp_path, "from .jsd import JSD", "src/pkg/sub/other.py")


def test_a_name_is_handed_on_by_any_number_of_packages(tmp_path: Path) -> None:
    lay_out(
        tmp_path,
        {
            "src/pkg/api/v1/__init__.py": "from pkg.ops import JSD as Divergence\n",
            "src/pkg/api/__init__.py": "from .v1 import *\n",
        },
    )
    assert found(tmp_path, "from pkg.api import Divergence")
    assert not found(tmp_path, "from pkg.api import Nothing", "src/pkg/second.py")


def test_a_star_hands_on_what_is_public(tmp_path: Path) -> None:
    lay_out(tmp_path, {"src/pkg/all/__init__.py": "from pkg.ops.jsd import *\n"})
    assert found(tmp_path, "from pkg.all import helper")
    assert found(tmp_path, "from pkg.all import SIZE", "src/pkg/b.py")
    assert not found(tmp_path, "from pkg.all import _private", "src/pkg/c.py")


def test_packages_that_import_one_another_come_to_an_end(tmp_path: Path) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        lay_out(tmp_path, {f"src/pkg/{name}/__init__.py": f"from pkg.{other} import *\nfrom pkg.ops import JSD\n"})
    assert found(tmp_path, "from pkg.a import JSD")


def test_a_registered_name_is_an_import_by_another_road(tmp_path: Path) -> None:
    changed = {CHANGED: "@register_op('jsd_loss', rank=1)\ndef f(): ...\n"}
    users = {
        "src/pkg/yes.py": "x = dispatch('jsd_loss', 1)",
        "src/pkg/no.py": "dispatch('kl_loss')\ndispatch(jsd_loss)\ndispatch()",
    }
    tree = lay_out(tmp_path, {**BASE, **changed, **users})
    assert importers(tree, [CHANGED], root="src", among=tree.list()) == ("src/pkg/yes.py",)


def test_sources_nobody_can_parse_are_passed_over(tmp_path: Path) -> None:
    nested = "from pkg.ops.jsd import JSD\nx = " + "(" * 5000 + ")" * 5000
    assert not found(tmp_path, nested)
    assert not found(tmp_path, "from pkg.ops.jsd import JSD\n\0", "src/pkg/zero.py")
