"""The target's Python is looked at without running any code of its packages."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

from bot.bench.interpreter import look_at
from bot.errors import OperatorError


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with a .pth file in it, as an editable install of a pull request would leave one."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    library = next((folder / "lib").glob("python3.*")) / "site-packages"
    (library / "evil.pth").write_text(f"import pathlib; pathlib.Path({str(folder / 'ran')!r}).touch()\n")
    return folder


def test_this_python_has_what_is_needed() -> None:
    found = look_at(sys.executable)
    assert found.version == ".".join(map(str, sys.version_info[:3]))
    assert any((library / "torch").is_dir() for library in found.libraries)
    assert all(root.is_absolute() for root in found.roots)
    assert found.torch == importlib.metadata.version("torch")
    assert found.triton == importlib.metadata.version("triton")


def test_a_python_without_torch_is_refused_with_what_to_type(bare: Path) -> None:
    with pytest.raises(OperatorError) as refused:
        look_at(str(bare / "bin/python"))
    assert "has no torch, triton, numpy" in str(refused.value)
    assert "-m pip install torch triton numpy" in refused.value.hint


def test_no_pth_code_runs_while_looking(bare: Path) -> None:
    with pytest.raises(OperatorError):
        look_at(str(bare / "bin/python"))
    assert not (bare / "ran").exists()


def test_a_virtual_environment_shows_its_own_packages(bare: Path) -> None:
    library = next((bare / "lib").glob("python3.*")) / "site-packages"
    for name in ("torch", "triton", "numpy"):
        (library / name).mkdir()
    look_at.cache_clear()
    assert look_at(str(bare / "bin/python")).libraries == (library,)


@pytest.mark.parametrize("python", ["/nonexistent/python", "/bin/false", "/bin/echo"])
def test_what_is_no_python_is_refused(python: str) -> None:
    with pytest.raises(OperatorError, match="does not start"):
        look_at(python)
