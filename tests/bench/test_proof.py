"""The tests of a repository are tests of the files in its tree, or they do not count."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bot.bench import proof
from bot.bench.commands import run_command
from bot.model.finalization import CommandRun
from bot.model.site import KernelSite

SITE = KernelSite(
    kernel="softmax",
    preset="liger",
    source_root="src",
    module="lib.ops.softmax",
    files=("src/lib/ops/softmax.py",),
    test_file="test/test_softmax.py",
    benchmark_file="bench.py",
    test_command=("{python}", "-m", "pytest", "-q", "-p", "no:cacheprovider", "{test}"),
    style_command=("true",),
    environment=(("PYTHONPATH", "src"),),
)
INSTALLED = "import sys\nsys.path.insert(0, 'elsewhere')\n"
HOOKED = """import importlib.machinery, importlib.util, sys

class First:
    def find_spec(self, name, path=None, target=None):
        place = "elsewhere/" + name.replace(".", "/")
        if name == "lib.ops.softmax":
            return importlib.util.spec_from_file_location(name, place + ".py")

sys.meta_path.insert(0, First())
"""


def ran(tree: Path, conftest: str, test: str = "import lib.ops.softmax\n\ndef test(): pass\n") -> CommandRun:
    for root, text in (("src", "this = 1\n"), ("elsewhere", "that = 2\n")):
        (tree / root / "lib" / "ops").mkdir(parents=True)
        (tree / root / "lib" / "ops" / "softmax.py").write_text(text, encoding="utf-8")
    (tree / "test").mkdir()
    (tree / "test" / "conftest.py").write_text(conftest, encoding="utf-8")
    (tree / SITE.test_file).write_text(test, encoding="utf-8")
    command, environment = proof.words(SITE, dict(SITE.environment))
    argv = [word.replace("{python}", sys.executable).replace("{test}", SITE.test_file) for word in command]
    return run_command(tuple(argv), tree, environment, 60.0)


def test_tests_of_this_tree_count_and_the_command_is_the_target_s(tmp_path: Path) -> None:
    run = ran(tmp_path, "")
    held = proof.held(run, tmp_path, SITE)
    assert proof.IMPORTED.search(run.output) and held.passed and held.summary.startswith("1 passed")
    assert held.argv[-2:] == ("no:cacheprovider", SITE.test_file)


@pytest.mark.parametrize("conftest", [INSTALLED, HOOKED])
def test_tests_of_another_copy_do_not(tmp_path: Path, conftest: str) -> None:
    run = ran(tmp_path, conftest)
    held = proof.held(run, tmp_path, SITE)
    assert run.passed and not held.passed and held.exit_code == 1
    assert held.summary.startswith("the tests imported another lib.ops.softmax than this tree's")


def test_nothing_is_said_of_tests_that_import_nothing_of_it_or_fail_anyhow(tmp_path: Path) -> None:
    quiet = ran(tmp_path / "a", INSTALLED, "def test(): pass\n")
    assert proof.held(quiet, tmp_path / "a", SITE).passed
    failing = ran(tmp_path / "b", INSTALLED, "import lib.ops.softmax\n\ndef test(): assert 0\n")
    assert proof.held(failing, tmp_path / "b", SITE).summary == failing.summary


def test_a_command_that_is_no_plain_pytest_is_asked_nothing() -> None:
    other = SITE.model_copy(update={"test_command": ("tox", "-e", "{test}")})
    assert proof.words(other, {"A": "b"}) == (("tox", "-e", "{test}"), {"A": "b"})


def test_a_module_that_is_no_single_file_of_the_kernel_is_not_compared(tmp_path: Path) -> None:
    run = ran(tmp_path, INSTALLED)
    assert proof.held(run, tmp_path, SITE.model_copy(update={"files": ("src/lib/ops/other.py",)})).passed
