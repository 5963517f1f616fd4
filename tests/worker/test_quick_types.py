"""Quick types give the same types, the same numbers and the same complaints as Triton's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import triton
from triton.language import core

from bot.worker import quick_types

ROOT = Path(__file__).parents[2]


def scene(how: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.worker.scenes.typed", how],
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_types_numbers_and_complaints_are_those_of_stock_triton() -> None:
    quick, stock = scene("quick"), scene("stock")
    assert len(stock["said"]) == 33
    assert any("float16[4, 8]" in said or "fp16" in said for said in stock["said"])
    assert "power of 2" in stock["told"][-1]
    assert quick == stock


def test_a_version_nobody_tried_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    before = core.tensor.__init__, core.block_type.__init__
    monkeypatch.setattr(triton, "__version__", "3.7.0")
    quick_types.install()
    assert (core.tensor.__init__, core.block_type.__init__) == before
