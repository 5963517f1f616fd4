"""Which libraries an op takes along is read in the text of its package, and nothing of it is run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bot.bench import imports
from bot.bench.imports import libraries

OP = "pkg/ops/k.py"
PACKAGE = {"pkg/__init__.py": "", "pkg/ops/__init__.py": ""}
NEAR = {"pkg/ops/m.py": "import beside", "pkg/m.py": "import above"}
"""Two modules of one name: which of them was meant is told by what it imports."""


def found(root: Path, files: dict[str, str], module: str = "pkg.ops.k") -> tuple[str, ...]:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return libraries(root, module)


def test_libraries_are_found_also_where_an_own_module_imports_them(tmp_path: Path) -> None:
    files = {
        OP: "import torch\nimport pkg.ops.near\nfrom pkg.ops.far import f",
        "pkg/ops/near.py": "import triton.language as tl",
        "pkg/ops/far.py": "from pkg.ops.farther import g",
        "pkg/ops/farther.py": "from numpy.linalg import norm",
    }
    assert found(tmp_path, {**PACKAGE, **files}) == ("torch", "triton.language", "numpy.linalg")


def test_the_packages_in_which_a_module_lies_are_imported_before_it(tmp_path: Path) -> None:
    files = {
        "pkg/__init__.py": "import first",
        "pkg/ops/__init__.py": "import second",
        OP: "import third\nfrom pkg.other.deep import x",
        "pkg/other/__init__.py": "import fourth",
        "pkg/other/deep.py": "import fifth",
    }
    assert found(tmp_path, files) == ("first", "second", "third", "fourth", "fifth")


@pytest.mark.parametrize(
    ("file", "text", "library"),
    [
        (OP, "from .m import x", "beside"),
        (OP, "from ..m import x", "above"),
        (OP, "from . import m", "beside"),
        (OP, "from .. import m", "above"),
        (OP, "from pkg import m", "above"),
        (OP, "from pkg.ops import m", "beside"),
        (OP, "import pkg.ops.m", "beside"),
        (OP, "import pkg.m as other", "above"),
        ("pkg/ops/__init__.py", "from .m import x", "beside"),
        ("pkg/ops/__init__.py", "from ..m import x", "above"),
        ("pkg/__init__.py", "from .m import x", "above"),
        ("pkg/__init__.py", "from .ops import m", "beside"),
    ],
)
def test_an_own_module_is_followed_however_it_is_named(file: str, text: str, library: str, tmp_path: Path) -> None:
    assert found(tmp_path, {**PACKAGE, OP: "", **NEAR, file: text}) == (library,)


def test_a_module_that_lies_in_no_package_is_an_own_one(tmp_path: Path) -> None:
    assert found(tmp_path, {"k.py": "import helper", "helper.py": "import torch"}, "k") == ("torch",)


def test_an_own_name_that_is_no_file_is_no_library(tmp_path: Path) -> None:
    assert found(tmp_path, {**PACKAGE, OP: "import pkg.gone\nfrom .gone import x\nfrom pkg import *"}) == ()
    assert libraries(tmp_path, "nobody.knows") == ()


TRIES = """
try:
    import tried
except ImportError:
    import instead
except ValueError:
    import in_vain
else:
    import gone_well
finally:
    import at_last
"""
ASKS = """
if sys.version_info > (3, 12):
    import newer
elif windows:
    import windows
else:
    import older
"""
CHECKED = """
if TYPE_CHECKING:
    import never
else:
    import at_run_time
if not typing.TYPE_CHECKING:
    import unchecked
else:
    import never
with suppress(ImportError):
    import suppressed
"""
INSIDE = """
if debugging:
    try:
        if True:
            import deep
    except ImportError:
        pass
"""


@pytest.mark.parametrize(
    ("text", "libraries"),
    [
        (TRIES, ("tried", "instead", "in_vain", "gone_well", "at_last")),
        (ASKS, ("newer", "windows", "older")),
        (INSIDE, ("deep",)),
        (CHECKED, ("at_run_time", "unchecked", "suppressed")),
    ],
)
def test_whatever_may_be_imported_with_the_module_counts(text: str, libraries: tuple[str, ...], tmp_path: Path) -> None:
    assert found(tmp_path, {**PACKAGE, OP: text}) == libraries


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    import never",
        "async def f():\n    import never",
        "class C:\n    import never",
        "class C:\n    def f(self):\n        import never",
        "if TYPE_CHECKING:\n    import never",
        "if typing.TYPE_CHECKING:\n    import never",
    ],
)
def test_what_a_call_or_a_type_checker_alone_imports_does_not(text: str, tmp_path: Path) -> None:
    assert found(tmp_path, {**PACKAGE, OP: f"{text}\nimport torch"}) == ("torch",)


def test_each_is_named_once_in_the_order_in_which_they_come(tmp_path: Path) -> None:
    files = {OP: "import b, a\nfrom c.d import e, f\nimport a as g\nfrom .m import x", "pkg/ops/m.py": "import b, h"}
    assert found(tmp_path, {**PACKAGE, **files}) == ("b", "a", "c.d", "h")


@pytest.mark.parametrize("text", [b"import never\nimport (", b"import never  # \xff", b"import never\n\0"])
def test_a_file_that_is_no_python_is_passed_over(text: bytes, tmp_path: Path) -> None:
    files = {**PACKAGE, OP: "from . import broken, m", **NEAR, "pkg/ops/broken.py": ""}
    found(tmp_path, files)
    (tmp_path / "pkg/ops/broken.py").write_bytes(text)
    assert libraries(tmp_path, "pkg.ops.k") == ("beside",)


@pytest.mark.parametrize("text", ["x = " + "-" * 5000 + "1", "x = " + "1+" * 5000 + "1", "import " + "a" * 300])
def test_a_text_that_nobody_can_read_costs_nobody_a_bench(text: str, tmp_path: Path) -> None:
    """What was found until then may be enough."""
    files = {**PACKAGE, OP: "import early\nfrom . import m", "pkg/ops/m.py": f"{text}\nimport late"}
    assert found(tmp_path, files)[:1] == ("early",)


def test_and_so_is_one_that_nobody_may_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Path.read_text

    def refuse(path: Path, **words: Any) -> str:
        if path.name == "secret.py":
            raise PermissionError(path)
        return read(path, **words)

    monkeypatch.setattr(Path, "read_text", refuse)
    files = {OP: "from . import secret, m", **NEAR, "pkg/ops/secret.py": "import never"}
    assert found(tmp_path, {**PACKAGE, **files}) == ("beside",)


def test_modules_that_import_each_other_come_to_an_end(tmp_path: Path) -> None:
    files = {OP: "import torch\nfrom . import m, k", "pkg/ops/m.py": "from .k import x\nimport triton"}
    assert found(tmp_path, {**PACKAGE, **files}) == ("torch", "triton")


@pytest.mark.parametrize(("most", "libraries"), [(4, ("a", "b")), (5, ("a", "b", "c"))])
def test_no_more_than_so_many_files_are_read(
    most: int, libraries: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A guess is not worth the reading of a whole framework."""
    monkeypatch.setattr(imports, "MOST_FILES", most)
    files = {OP: "import a\nfrom . import m", "pkg/ops/m.py": "import b\nfrom . import n", "pkg/ops/n.py": "import c"}
    assert found(tmp_path, {**PACKAGE, **files}) == libraries
