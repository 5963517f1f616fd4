"""Sizes that nobody was told, asked of a judge that is a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bot.bench.bailiff import Objection
from bot.bench.unseen import unseen_sizes
from bot.targets.suites import suite_of


def test_the_judge_says_sizes_that_it_drew(tmp_path: Path) -> None:
    cases = suite_of("rms_norm", "full").cases
    first = unseen_sizes("rms_norm", cases, 7, 3, sys.executable, tmp_path)
    assert len(first) == 3 and all([name for name, _ in sizes] == ["rows", "cols"] for sizes in first)
    assert first == unseen_sizes("rms_norm", cases, 7, 3, sys.executable, tmp_path), (
        "so that anybody can time them again"
    )


def test_of_a_kernel_without_a_recipe_nobody_knows_any(tmp_path: Path) -> None:
    cases = suite_of("rms_norm", "full").cases
    with pytest.raises(Objection, match="nobody can say what sizes tiled_mlp is asked for"):
        unseen_sizes("tiled_mlp", cases, 7, 1, sys.executable, tmp_path)
    with pytest.raises(Objection, match="nobody can say what sizes rms_norm is asked for"):
        unseen_sizes("rms_norm", (), 7, 1, sys.executable, tmp_path)
