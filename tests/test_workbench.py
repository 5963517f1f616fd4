"""What a newcomer types works as the pages say, and the pins agree with what pyproject.toml asks for."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests import order
from tests.suites.rooms import OPS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")

needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="no make on this machine")


def pins(name: str) -> dict[str, Requirement]:
    """The requirement lines of a constraints file, hashes and comments left out."""
    lines = (ROOT / "constraints" / name).read_text(encoding="utf-8").splitlines()
    wanted = [line.split("#")[0].rstrip(" \\") for line in lines if re.match(r"[A-Za-z]", line)]
    found = [Requirement(line) for line in wanted]
    return {canonicalize_name(requirement.name): requirement for requirement in found}


def asked(*groups: list[str]) -> dict[str, Requirement]:
    found = [Requirement(text) for group in groups for text in group if not text.startswith("kernelwright")]
    return {canonicalize_name(requirement.name): requirement for requirement in found}


def version(requirement: Requirement) -> str:
    (only,) = requirement.specifier
    assert only.operator == "==", f"{requirement} is no exact pin"
    return only.version


def make(*words: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """As typed by a person: nothing that an outer make was told is passed on."""
    told = {"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "ARGS", "MARKS", "KERNEL", "PY", "PYTHON", "HEAVY"}
    kept = {name: value for name, value in os.environ.items() if name not in told}
    return subprocess.run(["make", *words], cwd=cwd, env=kept, capture_output=True, text=True, timeout=60)


def test_the_readme_shows_how_to_try_it() -> None:
    blocks = "\n".join(re.findall(r"```\w*\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL))
    assert re.search(r"^make demo\b", blocks, re.MULTILINE)
    assert re.search(r"^make test\b", blocks, re.MULTILINE)


@needs_make
def test_help_lists_every_target_and_no_other() -> None:
    (phony,) = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    shown = re.findall(r"^make ([a-z-]+)  ", make("help").stdout, re.MULTILINE)
    assert sorted(shown) == sorted(phony.split())
    assert make().stdout == make("help").stdout


@needs_make
def test_only_browser_installs_a_system_package() -> None:
    for target in ("demo", "test", "lint", "gpu-test", "lock", "clean"):
        assert "apt" not in make("--always-make", "--dry-run", target).stdout
    assert "apt-get install" in make("--dry-run", "browser").stdout


@needs_make
def test_tests_need_neither_gpu_nor_browser() -> None:
    assert '-m "not gpu and not browser and not judge and not long and not full"' in make("--dry-run", "test").stdout
    assert '-m "not gpu"' in make("--dry-run", "test", "MARKS=not gpu").stdout


@needs_make
def test_what_make_was_told_stays_with_it() -> None:
    steps = make("--dry-run", "test").stdout
    for name in ("MAKEFLAGS", "ARGS", "MARKS", "KERNEL", "PYTHON"):
        assert f"-u {name} " in steps


@needs_make
def test_torch_is_installed_before_anything_may_ask_for_it() -> None:
    steps = make("--always-make", "--dry-run", "test").stdout
    assert steps.index("^torch==") < steps.index("constraints/base.txt") < steps.index('-r "constraints/heavy.txt"')
    assert "--require-hashes -r constraints/base.txt" in steps
    chosen = make("--always-make", "--dry-run", "demo", "TORCH_INDEX=https://example.org/cpu", "KERNEL=softmax").stdout
    assert '--index-url "https://example.org/cpu" "$torch"' in chosen
    assert 'demo --kernel "softmax"' in chosen


@pytest.fixture
def empty_clone(tmp_path: Path) -> Path:
    """A path with a space, holding what make looks at before it installs."""
    clone = tmp_path / "a clone"
    shutil.copytree(ROOT / "constraints", clone / "constraints")
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, clone)
    return clone


@needs_make
def test_an_old_python_is_named(empty_clone: Path) -> None:
    old = empty_clone / "python3.9"
    old.write_text(
        f"#!/bin/sh\nexec '{sys.executable}' -c 'import sys; sys.version_info = (3, 9); exec(sys.argv[2])' \"$@\"\n"
    )
    old.chmod(0o755)
    ran = make("test", "PYTHON=./python3.9", cwd=empty_clone)
    assert ran.returncode != 0
    assert "needs Python 3.11 or newer, ./python3.9 is 3.9: make PYTHON=" in ran.stderr
    assert not (empty_clone / ".venv").exists()


@needs_make
def test_a_missing_python_is_named(empty_clone: Path) -> None:
    ran = make("demo", "PYTHON=python3-of-nowhere", cwd=empty_clone)
    assert ran.returncode != 0
    assert "no python3-of-nowhere found" in ran.stderr
    assert "3.11" in ran.stderr


def test_ci_ends_with_the_tests() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "set -euo pipefail" in script
    last = script.rstrip().splitlines()[-1]
    assert last.startswith("make test ")
    for name in ("make test-long", "one_comment", "goes_on_where", "planted", "what_is_broken"):
        assert name in script, "of what takes many minutes some is asked for by name"
    assert "make test-judge" in script, "make test hears a share of the suites alone"
    assert "make lint" in script
    assert "make browser" in script
    assert subprocess.run(["bash", "-n", str(ROOT / ".ci" / "run")]).returncode == 0
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


def test_long_files_come_first_and_the_rest_stays_in_order() -> None:
    first, later = order.FIRST[0], order.FIRST[-1]
    names = ["tests/a.py::one", f"{later}::x[1]", "tests/a.py::two", f"{first}::y", later]
    items = [SimpleNamespace(nodeid=name) for name in names]
    order.long_ones_first(items)
    assert [item.nodeid for item in items] == [names[3], names[1], names[4], names[0], names[2]]


def test_what_is_heard_of_an_op_stays_together() -> None:
    heard = order.group_of("tests/suites/test_cheats.py::test_cheats_are_refused[jsd]")
    assert heard == order.group_of("tests/suites/test_honest.py::test_honest_rewrites_pass[jsd]") == "tests/suites/jsd"
    assert order.group_of("tests/suites/test_cheats.py::test_enough") == "tests/suites/test_cheats.py"
    assert order.group_of("tests/a.py::test_one[jsd]") == "tests/a.py"


def test_the_long_files_are_files() -> None:
    assert len(set(order.FIRST)) == len(order.FIRST)
    heard = {path.removeprefix(order.HEARINGS) for path in order.FIRST if path.startswith(order.HEARINGS)}
    assert heard == set(OPS)
    files = [path for path in order.FIRST if not path.startswith(order.HEARINGS)]
    assert [path for path in files if (ROOT / path).parent.exists() and not (ROOT / path).exists()] == []


def test_the_base_is_locked_by_hash() -> None:
    text = (ROOT / "constraints" / "base.txt").read_text(encoding="utf-8")
    assert "://" not in text
    assert "--index-url" not in text
    entries = re.split(r"^(?=[A-Za-z])", text, flags=re.MULTILINE)[1:]
    assert len(entries) == len(pins("base.txt")) > 15
    assert [entry.splitlines()[0] for entry in entries if "--hash=sha256:" not in entry] == []


def test_the_base_lock_answers_pyproject() -> None:
    locked, wanted = pins("base.txt"), asked(PROJECT["dependencies"])
    assert set(wanted) <= set(locked)
    assert [name for name, asks in wanted.items() if version(locked[name]) not in asks.specifier] == []
    assert not {"torch", "triton", "numpy", "pandas", "matplotlib"} & set(locked)


def test_the_tools_are_pinned_and_answer_pyproject() -> None:
    extras = PROJECT["optional-dependencies"]
    locked, wanted = pins("test.txt"), asked(extras["test"], extras["report"])
    assert set(wanted) <= set(locked)
    assert all(version(requirement) for requirement in locked.values())
    assert [name for name, asks in wanted.items() if version(locked[name]) not in asks.specifier] == []


def test_the_heavy_pins_answer_pyproject() -> None:
    locked, wanted = pins("heavy.txt"), asked(PROJECT["optional-dependencies"]["gpu"])
    assert set(locked) == {"torch", "triton", "numpy"}
    assert version(locked["torch"]) in wanted["torch"].specifier
    assert version(locked["triton"]) in wanted["triton"].specifier
    assert "2.3.5" in locked["numpy"].specifier
    assert "2.4.0" not in locked["numpy"].specifier, "Triton 3.6's interpreter fails with numpy 2.4"


def test_no_two_pins_disagree() -> None:
    seen: dict[str, str] = {}
    for name in ("base.txt", "heavy.txt", "test.txt"):
        for package, requirement in pins(name).items():
            assert seen.setdefault(package, str(requirement.specifier)) == str(requirement.specifier), package


def test_what_is_made_is_not_committed() -> None:
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert {".venv/", "build/", "dist/", "demo-output/", "__pycache__/"} <= set(ignored)
