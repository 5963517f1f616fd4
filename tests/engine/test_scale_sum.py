"""A sum of products with one number becomes that number times a sum that is there already."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bot.engine.transforms import scale_sum, sum_behind_loop, sum_in_float32
from tests.engine.library import changes, sample

TWICE = '''"""An op in the shape that group_norm of Liger has."""

import torch
import triton
import triton.language as tl


@triton.jit
def _k(x_ptr, g_ptr, w_ptr, out_ptr, n_rows, n_cols, BLOCK_SIZE: tl.constexpr):
    group = tl.program_id(0)
    cols = tl.arange(0, BLOCK_SIZE)
    mean = tl.load(w_ptr)
    c1 = 0.0
    c2 = 0.0
    for row in range(group * n_rows, (group + 1) * n_rows):
        w = tl.load(w_ptr + row)
        dw = 0.0
        db = 0.0
        for start in range(0, n_cols, BLOCK_SIZE):
            mask = start + cols < n_cols
            x = tl.load(x_ptr + row * n_cols + start + cols, mask=mask, other=0.0)
            g = tl.load(g_ptr + row * n_cols + start + cols, mask=mask, other=0.0)

            x_hat = (x - mean) * 2.0
            dw += tl.sum(g * x_hat)
            db += tl.sum(g)

            wg = w * g
            c1 += tl.sum(x_hat * wg)
            c2 += tl.sum(wg)

        tl.store(out_ptr + row * 2, dw)
        tl.store(out_ptr + row * 2 + 1, db)
    tl.store(out_ptr + group, c1 - c2)


def run(x, g, w, rows):
    n, n_cols = x.shape
    out = torch.zeros(2 * n + 1, dtype=torch.float32)
    _k[(n // rows,)](x, g, w, out, rows, n_cols, BLOCK_SIZE=min(triton.next_power_of_2(n_cols), 32))
    return out
'''


def scaled(text: str) -> str | None:
    found = scale_sum.rewrite(text)
    return found.text if found is not None else None


def test_two_of_four_sums_go_and_nothing_else() -> None:
    after = scaled(TWICE)
    assert after is not None
    ast.parse(after)
    assert changes(TWICE, after) == (
        ["            wg = w * g", "            c1 += tl.sum(x_hat * wg)", "            c2 += tl.sum(wg)"],
        [f"        # {scale_sum.WHY}", "        c1 += w * dw", "        c2 += w * db"],
    )
    assert f"            db += tl.sum(g)\n\n        # {scale_sum.WHY}\n" in after


def test_it_is_done_once() -> None:
    after = scaled(TWICE)
    assert after is not None and scaled(after) is None


def test_it_opens_the_way_for_sums_that_wait_for_the_loop() -> None:
    """Of four sums two had to be done in the loop, so that nothing was gained by the others' waiting."""
    after = scaled(TWICE)
    assert after is not None and sum_behind_loop.rewrite(TWICE) is None
    behind = sum_behind_loop.rewrite(after)
    assert behind is not None
    assert "            db += g\n        dw = tl.sum(dw, axis=0)\n        db = tl.sum(db, axis=0)\n" in behind.text
    assert "        c1 += w * dw\n" in behind.text


def test_what_others_read_stays() -> None:
    after = scaled(TWICE.replace("            c2 += tl.sum(wg)\n", "            c2 += tl.max(wg)\n"))
    assert after is not None and "            wg = w * g\n" in after and "        c1 += w * dw\n" in after
    assert "c2 += tl.max(wg)" in after


def test_a_name_from_before_the_loop_stays() -> None:
    """Whoever reads it behind the loop reads what the last turn made."""
    after = scaled(TWICE.replace("        dw = 0.0", "        wg = w * 1.0\n        dw = 0.0"))
    assert after is not None and "            wg = w * g\n" in after and "        c1 += w * dw\n" in after


def test_what_is_made_by_a_load_stays() -> None:
    again = (
        "wg = w * g",
        "g2 = tl.load(g_ptr + row * n_cols + start + cols, mask=mask, other=0.0)\n            wg = w * g",
    )
    after = scaled(TWICE.replace(*again))
    assert after is not None and "            g2 = tl.load(" in after and "wg = " not in after


@pytest.mark.parametrize(
    ("what", "before", "after", "new"),
    [
        ("two numbers", "wg = w * g", "wg = w * mean * g", "c1 += w * mean * dw"),
        ("the same number twice", "wg = w * g", "wg = w * w * g", "c1 += w * w * dw"),
        ("an axis that both are over", "tl.sum(", "tl.sum(axis=0, input=", ""),
        ("a number in float32", "w = tl.load(w_ptr + row)", "w = tl.load(w_ptr + row).to(tl.float32)", "c1 += w * dw"),
        ("a size of the launch", "wg = w * g", "wg = n_rows * g", "c1 += n_rows * dw"),
        ("a number that was a sum", "w = tl.load(w_ptr + row)", "w = c1 + 1.0", ""),
    ],
)
def test_numbers_in_other_words(what: str, before: str, after: str, new: str) -> None:
    assert before in TWICE
    found = scaled(TWICE.replace(before, after))
    assert (found is not None and f"        {new}\n" in found) if new else found is None, what


def test_an_axis_is_asked_for_in_both() -> None:
    both = TWICE.replace("tl.sum(g * x_hat)", "tl.sum(g * x_hat, axis=0)").replace("tl.sum(g)", "tl.sum(g, axis=0)")
    assert scaled(both) is None
    after = scaled(both.replace("tl.sum(x_hat * wg)", "tl.sum(x_hat * wg, axis=0)").replace("(wg)", "(wg, axis=0)"))
    assert after is not None and "        c1 += w * dw\n        c2 += w * db\n" in after


@pytest.mark.parametrize("kernel", ["rms_norm", "layer_norm", "cross_entropy", "softmax"])
def test_a_weight_for_each_column_is_no_number(kernel: str) -> None:
    assert scaled(sample(kernel)) is None


FIRST, LAST = "            dw += tl.sum(g * x_hat)\n", "            c1 += tl.sum(x_hat * wg)\n"
ALONE = TWICE.replace("            c2 += tl.sum(wg)\n", "")
"""With one sum that is another times a number."""


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("a weight for each column", "w = tl.load(w_ptr + row)", "w = tl.load(w_ptr + cols)"),
        ("a weight of something unknown", "w = tl.load(w_ptr + row)", "w = weight(w_ptr, row)"),
        ("a weight that is a block", "w = tl.load(w_ptr + row)", "w = tl.zeros((32,), dtype=tl.float32)"),
        ("a weight that the loop makes", "            x_hat = ", "            w = w + 1.0\n            x_hat = "),
        ("a weight that nobody makes", "w = tl.load(w_ptr + row)", "v = tl.load(w_ptr + row)"),
        ("a sum that begins with something", "        dw = 0.0\n", "        dw = 1.0\n"),
        ("a sum that began before", "        dw = 0.0\n", ""),
        ("a sum that is read in between", "            db += tl.sum(g)", "            db += tl.sum(g) + dw"),
        ("a sum that is read in between the turns", "            db += tl.sum(g)", "            db += tl.sum(g) * c1"),
        ("a sum in a branch", FIRST, "            if start > 0:\n                dw += tl.sum(g * x_hat)\n"),
        ("another factor", "tl.sum(g * x_hat)", "tl.sum(g * x)"),
        ("a factor twice", "tl.sum(g * x_hat)", "tl.sum(g * g * x_hat)"),
        ("something added", "wg = w * g", "wg = w + g"),
        ("something that is divided", "wg = w * g", "wg = w / g"),
        ("the other way round", "tl.sum(g * x_hat)", "tl.sum(g * x_hat * w * w)"),
        ("a factor that changes in between", LAST, f"            g = g + 1.0\n{LAST}"),
        ("a product that changes in between", LAST, f"            x_hat = x\n{LAST}"),
        ("a difference", "c1 += tl.sum", "c1 -= tl.sum"),
        ("what is said of it", LAST, f"            # of the whole row\n{LAST}"),
        ("what is said behind it", "tl.sum(x_hat * wg)", "tl.sum(x_hat * wg)  # of the row"),
        ("what is said of what only it needs", "wg = w * g", "wg = w * g  # of the row"),
        ("a function that kernels call", "def run(", "@triton.jit\ndef _o(x):\n    _k(x, x, x, x, 1, 1)\n\n\ndef run("),
        ("nobody launches it", "_k[(n // rows,)]", "_other[(n // rows,)]"),
        ("rows whose type is asked for", "            x_hat = ", "            y = x.dtype\n            x_hat = "),
    ],
)  # fmt: skip
def test_what_is_not_sure_stays_as_it_is(why: str, before: str, after: str) -> None:
    assert before in ALONE and scaled(ALONE) is not None
    assert scaled(ALONE.replace(before, after)) is None, why


SCRIPT = """
import torch
import twice
import once
import behind

torch.manual_seed(5)
for dtype in (torch.float32, torch.float16):
    x, g = (torch.randn(6, 50).to(dtype) for _ in range(2))
    w = torch.randn(6).to(dtype)
    was, now, late = (module.run(x, g, w, 3) for module in (twice, once, behind))
    torch.testing.assert_close(now, was, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(late, was, rtol=1e-5, atol=1e-4)
print("the same sums")
"""


def test_what_comes_of_it_is_the_same_number(tmp_path: Path) -> None:
    wide = sum_in_float32.rewrite(TWICE)
    assert wide is not None
    once = scaled(wide.text)
    assert once is not None
    behind = sum_behind_loop.rewrite(once)
    assert behind is not None
    for name, text in {"twice": wide.text, "once": once, "behind": behind.text}.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == ["the same sums"]
