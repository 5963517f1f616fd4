"""What the rewrites of sums make computes what it computed before, under Triton's interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from bot.engine.transforms import sum_at_once, sum_behind_loop, sum_together
from tests.engine.test_sum_at_once import ONE
from tests.engine.test_sum_behind_loop import ROWS
from tests.engine.test_sum_together import SUMS

TOGETHER = """
import torch
import at_once
import together

torch.manual_seed(5)
for shares, columns, dtype in ((1, 1, torch.float32), (132, 100, torch.bfloat16), (300, 33, torch.float32)):
    first = torch.randn(shares, columns)
    for second in (torch.randn(shares, 2 * columns), torch.randn(shares), None):
        found = together._sum_shares(first, dtype, second, torch.float32)
        for sums, tensor, kind in zip(found, (first, second), (dtype, torch.float32)):
            wanted = None if tensor is None else tensor.double().sum(dim=0)
            assert (sums is None) == (wanted is None), (shares, columns)
            if sums is not None:
                assert sums.shape == wanted.shape and sums.dtype == kind, (sums, wanted)
                rtol = 0.01 if kind == torch.bfloat16 else 1e-5
                torch.testing.assert_close(sums.double(), wanted, rtol=rtol, atol=1e-4)
    found = at_once._sum_shares(first, dtype)
    wanted = first.double().sum(dim=0)
    assert found.dtype == dtype
    torch.testing.assert_close(found.double(), wanted, rtol=0.01 if dtype == torch.bfloat16 else 1e-5, atol=1e-4)
print("sums agree")
"""
BEHIND = """
import torch
import triton
import as_it_was
import in_lanes

torch.manual_seed(5)
x = torch.randn(7, 50)
found = []
for module in (as_it_was, in_lanes):
    module.settings = lambda n_cols: (64, 4)
    made = torch.full((132,), 9.0), torch.full((132,), 9.0), torch.full_like(x, 9.0)
    module.run(x, made[2], made[0], made[1])
    found.append(made)
for old, new in zip(*found):
    torch.testing.assert_close(old, new)
assert not torch.equal(found[0][0], torch.full((132,), 9.0))
print("lanes agree")
"""


HELD = ROWS.replace("tl.float32(0.0)", "0.0")
"""The interpreter has no number of a type."""


def said_by(script: str, modules: Path) -> list[str]:
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(modules)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def test_sums_of_one_launch_are_those_of_torch_and_sums_in_lanes_those_of_the_loop(tmp_path: Path) -> None:
    """One process for both: its start takes most of the time."""
    made = {
        "together": sum_together.rewrite(SUMS),
        "at_once": sum_at_once.rewrite(ONE),
        "in_lanes": sum_behind_loop.rewrite(HELD),
    }
    texts = {name: found.text for name, found in made.items() if found is not None}
    assert texts.keys() == made.keys()
    for name, text in {**texts, "as_it_was": HELD}.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    assert said_by(TOGETHER + BEHIND, tmp_path) == ["sums agree", "lanes agree"]
