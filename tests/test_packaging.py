"""The wheel holds everything a campaign needs, and starts from another directory."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

CACHES = {"__pycache__", ".pytest_cache", ".ruff_cache", ".mypy_cache", ".hypothesis"}

pytestmark = pytest.mark.slow


def pip(*words: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *words]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110)
    assert ran.returncode == 0, ran.stderr[-2000:]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling")
    out = tmp_path_factory.mktemp("wheel")
    pip("wheel", "-qq", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(out), ".")
    (built,) = out.glob("kernelwright-*.whl")
    return built


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def shipped(folder: str) -> set[str]:
    """The files below a folder, caches left out."""
    found = (path.relative_to(ROOT) for path in (ROOT / folder).rglob("*") if path.is_file())
    return {path.as_posix() for path in found if path.suffix != ".pyc" and not CACHES & set(path.parts)}


def test_every_template_is_in_the_wheel(names: set[str]) -> None:
    assert {f"bot/_{name}" for name in shipped("templates")} <= names
    assert any(name.startswith("bot/_templates/sample/") for name in names)
    assert any(name.startswith("bot/_templates/comments/") for name in names)


def test_the_pins_are_in_the_wheel(names: set[str]) -> None:
    assert {f"bot/_constraints/{name}.txt" for name in ("base", "heavy", "test")} <= names


def test_every_module_and_data_file_is_in_the_wheel(names: set[str]) -> None:
    assert shipped("bot") - names == set()


def test_nothing_else_is_in_the_wheel(names: set[str]) -> None:
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"bot"}
    assert [name for name in names if name.endswith(".pyc") or CACHES & set(name.split("/"))] == []


def test_the_licence_travels(wheel: Path, names: set[str]) -> None:
    (licence,) = (name for name in names if name.endswith("/LICENSE"))
    with zipfile.ZipFile(wheel) as archive:
        assert b"Apache License" in archive.read(licence)


def test_it_starts_from_another_directory(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    pip("install", "-qq", "--no-deps", "--no-index", "--target", str(site), str(wheel))
    environment = dict(os.environ, PYTHONPATH=str(site))
    show = "import bot, runpy; print(bot.__file__); runpy.run_module('bot', run_name='__main__')"
    ran = subprocess.run(
        [sys.executable, "-c", show, "--help"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(str(site))
    assert "optimize" in ran.stdout
