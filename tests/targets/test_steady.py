"""Which moves of a head are harmless to a kernel, and which are not. In doubt: not."""

from __future__ import annotations

import pytest

from bot.model.site import KernelSite
from bot.targets.steady import is_harmless

SITE = KernelSite(
    kernel="norm",
    preset="liger",
    source_root="src",
    module="pkg.ops.norm",
    files=("src/pkg/ops/norm.py",),
    test_file="test/transformers/test_norm.py",
    benchmark_file="benchmark/scripts/benchmark_norm.py",
    test_command=("{python}", "-m", "pytest", "{test}"),
    style_command=("make", "checkstyle"),
)
FILES = {
    "src/pkg/__init__.py": "",
    "src/pkg/ops/__init__.py": "",
    "src/pkg/ops/norm.py": "import triton\nfrom pkg.ops.sums import total\n",
    "src/pkg/ops/sums.py": "from pkg.ops import parts\n\ndef total(): return parts.one()\n",
    "src/pkg/ops/parts.py": "def one(): return 1\n",
    "src/pkg/ops/softmax.py": "def softmax(): return 0\n",
    "src/pkg/data.json": "{}",
    "test/transformers/test_norm.py": "from pkg.ops.norm import total\n",
    "benchmark/scripts/benchmark_norm.py": "from pkg.ops.norm import total\n",
    "docs/conf.py": "x = 1\n",
    "docs/index.md": "# Words\n",
    "README.md": "# More words\n",
}


class Tree:
    def __init__(self, files: dict[str, str]) -> None:
        self._files = files

    def exists(self, path: str) -> bool:
        return path in self._files

    def read(self, path: str) -> bytes | None:
        return self._files[path].encode() if path in self._files else None

    def list(self, under: str = "") -> tuple[str, ...]:
        return tuple(path for path in self._files if path.startswith(f"{under.rstrip('/')}/" if under else ""))


def moved(*paths: str, without: bool = False) -> bool:
    """Whether it is harmless to change, add or remove these files."""
    after = {path: text for path, text in FILES.items() if path not in paths}
    if not without:
        after |= dict.fromkeys(paths, "from os import path  # new\n")
    return is_harmless(paths, SITE, Tree(FILES), Tree(after))


@pytest.mark.parametrize(
    "path", ["README.md", "docs/index.md", "docs/conf.py", "src/pkg/ops/softmax.py", "src/pkg/ops/new.py", "LICENSE"]
)
def test_what_nothing_depends_on_may_move(path: str) -> None:
    assert moved(path)


def test_an_empty_commit_is_harmless() -> None:
    assert moved()


@pytest.mark.parametrize("path", ["docs/conf.py", "src/pkg/ops/softmax.py"])
def test_it_may_also_go(path: str) -> None:
    assert moved(path, without=True)


NOT = {
    "the kernel": "src/pkg/ops/norm.py",
    "what it imports": "src/pkg/ops/sums.py",
    "what that imports": "src/pkg/ops/parts.py",
    "a package's own file": "src/pkg/ops/__init__.py",
    "a new package's file": "src/other/__init__.py",
    "data beside the sources": "src/pkg/data.json",
    "a file that shadows an import": "src/triton.py",
    "one at the root of the repository": "triton.py",
    "a new folder at the root": "triton/language.py",
    "the test": "test/transformers/test_norm.py",
    "what stands beside the test": "test/words.py",
    "the benchmark": "benchmark/scripts/benchmark_norm.py",
    "a conftest": "test/conftest.py",
    "what steers the style check": "pyproject.toml",
    "the recipe of the style check": "Makefile",
}


@pytest.mark.parametrize("what", NOT)
def test_what_something_depends_on_may_not(what: str) -> None:
    assert not moved(NOT[what])
    assert not moved("README.md", NOT[what])


@pytest.mark.parametrize("path", ["src/pkg/ops/parts.py", "src/pkg/ops/sums.py", "test/transformers/test_norm.py"])
def test_nor_may_it_go(path: str) -> None:
    assert not moved(path, without=True)
