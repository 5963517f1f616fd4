"""Tests of a file in several processes: nothing but time is gained by it, and nothing is believed that was not run."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from bot.bench import finish, shared_tests
from bot.bench.commands import run_command
from bot.bench.gpu import parse
from bot.bench.shared_tests import MOST, hands, shared
from bot.model.finalization import CommandRun
from bot.model.site import KernelSite
from bot.targets.base import PYTEST

GPU = parse("GPU-d79bbc67, NVIDIA H200, 580.159.04, 9.0, 143771")
SEVEN = "import pytest\n\n@pytest.mark.parametrize('n', range(7))\ndef test_n(n):\n    open(f'ran-{n}', 'x').close()\n"

BARE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""None of the plug-ins that are installed here: they take most of a second each time."""


class Tree:
    """A repository with one test file, and everything that was run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[tuple[tuple[str, ...], str]] = []

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> CommandRun:
        argv = tuple(w.replace("{python}", sys.executable).replace("{test}", "test_op.py") for w in command)
        self.asked.append((argv, environment.get(shared_tests.VARIABLE, "")))
        return run_command(argv, self.folder, {**environment, **BARE}, 60)

    def shared(self, text: str, count: int = 3) -> CommandRun | None:
        (self.folder / "test_op.py").write_text(text, encoding="utf-8")
        return shared(self.run, PYTEST, {"PYTHONPATH": "src"}, count)

    @property
    def ran(self) -> list[str]:
        return sorted(path.name for path in self.folder.glob("ran-*"))


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_every_test_runs_once_and_the_answer_is_one(tree: Tree) -> None:
    found = tree.shared(SEVEN)
    assert found is not None and found.passed
    assert tree.ran == [f"ran-{n}" for n in range(7)], "a second run of one would have failed"
    assert sorted(share for _, share in tree.asked) == ["0/3", "1/3", "2/3"]
    assert found.summary == "7 passed in 3 processes"
    assert "3 passed, 4 deselected in " in found.output, "what each of them said can be read"
    assert found.argv == (sys.executable, "-m", "pytest", "test_op.py", "-q", "-p", "no:cacheprovider")


def test_who_is_left_no_test_is_no_failure(tree: Tree) -> None:
    found = tree.shared("def test_alone():\n    pass\n")
    assert found is not None and found.passed
    assert found.summary.startswith("1 passed in ")


@pytest.mark.parametrize(
    "text",
    [
        SEVEN + "    assert n != 4\n",
        "nothing = 1\n",
        "def test_(:\n",
        SEVEN.replace("range(7)", "[__import__('os').urandom(8).hex() for _ in range(7)]"),
        "import os\n\ndef test_one(): os._exit(0)\n\ndef test_two(): pass\n",
    ],
    ids=["one fails", "there is none", "it cannot be read", "others each time", "one leaves as if done"],
)
def test_what_does_not_go_well_says_nothing(text: str, tree: Tree) -> None:
    assert tree.shared(text) is None


def test_it_is_pytest_itself_on_a_gpu_that_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 16)
    assert hands(PYTEST, GPU) == MOST
    assert hands(PYTEST, None) == 1
    assert hands(("make", "test", "{test}"), GPU) == 1
    assert hands((*PYTEST, "-n", "4"), GPU) == 1
    assert hands(("{python}", "-m", "pytest", "-p", "xdist", "{test}"), GPU) == 1


@pytest.mark.parametrize(
    ("processors", "count"), [(None, 1), (2, 1), (3, 1), (4, 2), (7, 3), (15, 7), (16, 8), (64, 8)]
)
def test_each_wants_two_processors(processors: int | None, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: processors)
    assert hands(PYTEST, GPU) == count


@pytest.mark.parametrize(("memory", "count"), [(4000, 1), (16383, 1), (16384, 2), (24564, 2), (65535, 7), (81559, 8)])
def test_each_wants_some_gigabytes(memory: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    assert hands(PYTEST, GPU.model_copy(update={"memory_mib": memory})) == count


@pytest.mark.parametrize(("fails", "asked"), [("", 2), ("    assert n != 4\n", 3)])
def test_a_failure_in_shares_is_asked_once_more_as_the_repository_would(
    fails: str, asked: int, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree.folder / "test_op.py").write_text(SEVEN.replace("'x'", "'w'") + fails, encoding="utf-8")
    heard: list[str] = []
    kept: list[Path | None] = []

    def run(
        argv: Sequence[str], cwd: Path, env: Mapping[str, str], deadline: float, *, gpu: object, kernels: Path | None
    ) -> CommandRun:
        heard.append(env.get(shared_tests.VARIABLE, "alone"))
        kept.append(kernels)
        return run_command(argv, cwd, {**env, **BARE}, deadline, kernels=kernels)

    monkeypatch.setattr("os.cpu_count", lambda: 4)
    monkeypatch.setattr(finish, "run_command", run)
    site = KernelSite(
        kernel="softmax",
        preset="toml",
        source_root="src",
        module="op",
        files=("src/op.py",),
        test_file="test_op.py",
        benchmark_file="bench/op.py",
        test_command=PYTEST,
        style_command=("true",),
    )
    found = finish._test(tree.folder, site, "test_op.py", sys.executable, GPU)
    assert (found.passed, len(heard)) == (not fails, asked)
    assert sorted(heard)[:2] == ["0/2", "1/2"]
    one = tree.folder.with_name(f"{tree.folder.name}-kernels")
    assert kept == [one, one, None][:asked], "those in shares compile for each other, who runs alone for itself"
    assert found.argv[0] == "python" and "kernelwright_share" not in found.argv
