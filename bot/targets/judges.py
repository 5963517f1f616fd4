"""Which files of a repository judge a kernel: its tests, its benchmark, and whatever steers them or the style check."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

from bot.model.ids import RepoPath
from bot.model.site import KernelSite

STEERING = frozenset(
    {
        "conftest.py",
        "pytest.ini",
        ".pytest.ini",
        "pyproject.toml",
        "setup.cfg",
        "tox.ini",
        "noxfile.py",
        "ruff.toml",
        ".ruff.toml",
        ".flake8",
        ".pylintrc",
        ".isort.cfg",
        ".style.yapf",
        ".editorconfig",
        ".pre-commit-config.yaml",
        "mypy.ini",
        "Makefile",
        "makefile",
        "GNUmakefile",
        "sitecustomize.py",
        "usercustomize.py",
    }
)
"""Read by pytest, make, a style checker or Python itself, in whatever folder they stand."""


def _home(path: RepoPath, site: KernelSite) -> PurePosixPath:
    """The widest folder around a test that holds no source, for a test's own helpers stand beside it; else the test."""
    sources = [PurePosixPath(site.source_root), *map(PurePosixPath, site.files)]
    folders = [folder for folder in PurePosixPath(path).parents if folder.name]
    apart = [folder for folder in folders if not any(source.is_relative_to(folder) for source in sources)]
    return apart[-1] if apart else PurePosixPath(path)


def judging(paths: Iterable[RepoPath], site: KernelSite) -> tuple[RepoPath, ...]:
    """Those of the paths that decide whether a variant is right, fast or in good style. Never the kernel's own."""
    homes = {_home(path, site) for path in (site.test_file, site.benchmark_file, *site.dependent_tests)}
    rest = (path for path in paths if path not in site.files)
    found = ((path, PurePosixPath(path)) for path in rest)
    return tuple(text for text, path in found if path.name in STEERING or any(map(path.is_relative_to, homes)))
