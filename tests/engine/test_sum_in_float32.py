"""A kernel that adds up its rows in their own type takes them as float32, and nothing else about it changes."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bot.engine.transforms import pipeline_rows, sum_in_float32, walk_rows
from tests.engine.library import changes, sample

HALF = '''"""An op in the shape that group_norm of Liger has."""

import torch
import triton
import triton.language as tl


@triton.jit
def _forward(y_ptr, x_ptr, m_ptr, w_ptr, n_cols, n_channels, BLOCK_SIZE: tl.constexpr, WITH: tl.constexpr = True):
    row = tl.program_id(0)
    # a number for the row
    w = tl.load(w_ptr + row)  # of its type
    total = 0.0
    squares = 0.0
    for i in range(0, n_cols, BLOCK_SIZE):
        cols = i + tl.arange(0, BLOCK_SIZE)
        mask = cols < n_cols
        x = tl.load(
            x_ptr + row * n_cols + cols,
            mask=mask,
            other=0.0,
        )
        if WITH:
            x = x * w
        total += tl.sum(x)
        squares += tl.sum(x * x, axis=0)
    m = total / n_cols
    for i in range(0, n_cols, BLOCK_SIZE):
        cols = i + tl.arange(0, BLOCK_SIZE)
        mask = cols < n_cols
        x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0)
        channel = tl.load(w_ptr + cols // n_channels, mask=mask)
        tl.store(y_ptr + row * n_cols + cols, (x - m) * channel, mask=mask)
    tl.store(m_ptr + row, squares / n_cols - m * m)


@triton.jit
def _backward(dx_ptr, dy_ptr, y_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    dot = tl.float32(0.0)
    for i in range(0, n_cols, BLOCK_SIZE):
        cols = i + tl.arange(0, BLOCK_SIZE)
        dy = tl.load(dy_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0)
        y = tl.load(y_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0)
        dot += tl.sum(dy * y)
    for i in range(0, n_cols, BLOCK_SIZE):
        cols = i + tl.arange(0, BLOCK_SIZE)
        dy = tl.load(dy_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0)
        y = tl.load(y_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0)
        tl.store(dx_ptr + row * n_cols + cols, y * (dy - dot), mask=cols < n_cols)


def forward(x, w):
    n_rows, n_cols = x.shape
    BLOCK_SIZE = triton.next_power_of_2(n_cols)
    y = torch.zeros_like(x)
    m = torch.zeros((n_rows,), dtype=torch.float32, device=x.device)
    _forward[(n_rows,)](y, x, m, w, n_cols, 1, BLOCK_SIZE=BLOCK_SIZE, num_warps=4)
    return y, m


def backward(dy, y):
    n_rows, n_cols = y.shape
    BLOCK_SIZE = triton.next_power_of_2(n_cols)
    dx = torch.empty_like(y)
    _backward[(n_rows,)](dx, dy, y, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=4)
    return dx
'''
"""Two kernels that add up in the type of their rows."""

HELD = (
    HALF[: HALF.index("def _backward")]
    + """def _backward(dx_ptr, dy_ptr, y_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    dy = tl.load(dy_ptr + row * n_cols + cols, mask=mask, other=0.0)
    y = tl.load(y_ptr + row * n_cols + cols, mask=mask, other=0.0)
    dot = tl.sum(dy * y, axis=0)
    dx = y * (dy - dot)
    tl.store(dx_ptr + row * n_cols + cols, dx, mask=mask)
"""
    + HALF[HALF.index("\n\ndef forward") :]
)
"""The same with a backward that holds its row."""

ONE = """import triton
import triton.language as tl


def exp(x):
    return x


@triton.jit
def _k(x_ptr, y_ptr, n_cols, dtype: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    cols = tl.arange(0, BLOCK_SIZE)
    total = 0.0
    for i in range(0, n_cols, BLOCK_SIZE):
        x = tl.load(x_ptr + i + cols, mask=i + cols < n_cols, other=0.0)
        other = tl.load(y_ptr + i + cols, mask=i + cols < n_cols, other=0)
        total += tl.sum(x)
    tl.store(y_ptr, total)
"""


def wide(text: str, only: str = "") -> str | None:
    found = sum_in_float32.rewrite(text, only)
    return found.text if found is not None else None


def test_the_loads_that_are_added_up_change_and_nothing_else() -> None:
    after = wide(HALF, "_forward")
    assert after is not None
    ast.parse(after)
    gone, new = changes(HALF, after)
    assert gone == ["    w = tl.load(w_ptr + row)  # of its type", "        )"]
    assert new == [
        f"    # {sum_in_float32.WHY}",
        "    w = tl.load(w_ptr + row).to(tl.float32)  # of its type",
        "        ).to(tl.float32)",
    ]


def test_every_kernel_of_the_file_or_the_one_that_is_asked_for() -> None:
    found, alone = sum_in_float32.rewrite(HALF), sum_in_float32.rewrite(HALF, "_backward")
    assert found is not None and found.kernels == ("_forward", "_backward")
    assert alone is not None and alone.kernels == ("_backward",)
    assert alone.text.count(".to(tl.float32)") == 2
    assert wide(HALF, "_other") is None


def test_a_row_that_is_held_and_added_up_once_stays_as_it_is() -> None:
    """In float32 it would take twice the registers."""
    assert wide(HELD, "_forward") is not None
    assert wide(HELD, "_backward") is None


@pytest.mark.parametrize(
    "line", ["total = total + tl.sum(x)", "total = tl.sum(x) + total", "part = tl.sum(x)\n        total += part"]
)
def test_however_a_sum_runs(line: str) -> None:
    assert wide(ONE.replace("total += tl.sum(x)", line)) is not None


@pytest.mark.parametrize("line", ["total = tl.sum(x)", "total -= tl.sum(x)", "tl.store(y_ptr + i, tl.sum(x))"])
def test_a_sum_for_each_turn_does_not_run(line: str) -> None:
    assert wide(ONE.replace("total += tl.sum(x)", line)) is None


def test_it_is_done_once() -> None:
    after = wide(HALF)
    assert after is not None and wide(after) is None


def test_a_kernel_that_tunes_itself_is_one_too() -> None:
    tuned = ONE.replace("@triton.jit\n", '@triton.autotune(configs=[], key=["n_cols"])\n@triton.jit\n')
    assert wide(tuned) is not None


@pytest.mark.parametrize(
    "after",
    [
        "tl.cumsum(x, 0)",
        "x.sum()",
        "tl.sum(-x)",
        "tl.sum(tl.abs(x))",
        "tl.sum(tl.where(x > 0, x, 0.0))",
        "tl.sum(tl.maximum(x, tl.max(x)))",
        "tl.sum(max(x, 0.0))",
        "tl.sum(x[:, None], axis=0)",
        "tl.sum(x if BLOCK_SIZE > 4 else 0.0)",
        "tl.sum(2.0 * other)",
        "tl.sum(x) + tl.sum(x / n_cols)",
    ],
)
def test_however_a_row_comes_into_a_sum(after: str) -> None:
    before, found = ONE.replace("tl.sum(x)", after), wide(ONE.replace("tl.sum(x)", after))
    assert found is not None
    gone, _ = changes(before, found)
    assert len(gone) == 1 and ("y_ptr" in gone[0]) == ("other" in after)


def test_what_a_loop_that_is_written_out_makes_is_known_behind_it() -> None:
    load = "        x = tl.load(x_ptr + i + cols, mask=i + cols < n_cols, other=0.0)\n"
    assert load in ONE
    inner = "        for j in {}(4):\n    " + load.replace("x_ptr + i", "x_ptr + j")
    assert wide(ONE.replace(load, inner.format("tl.static_range"))) is not None
    assert wide(ONE.replace(load, inner.format("range"))) is None, "Triton knows no such name there"


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("taken as float32 already", "other=0.0)", "other=0.0).to(tl.float32)"),
        ("taken as float32 by name", "tl.sum(x)", "tl.sum(tl.cast(x, tl.float32))"),
        ("taken as float32 in a line of its own", "        total +=", "        x = x.to(tl.float32)\n        total +="),
        ("the sum says its type", "tl.sum(x)", "tl.sum(x, dtype=tl.float32)"),
        ("a quotient is in float32", "tl.sum(x)", "tl.sum(x / n_cols)"),
        ("an exponential is in float32", "tl.sum(x)", "tl.sum(tl.exp(x))"),
        ("it meets float32", "tl.sum(x)", "tl.sum(tl.where(x > 0, x, total))"),
        ("only its largest is asked for", "total += tl.sum(x)", "total = tl.maximum(total, tl.max(x))"),
        ("added up in float32, a lane at a time", "total = 0.0", "total = tl.zeros((BLOCK_SIZE,), tl.float32)"),
        ("a row of truths", "tl.sum(x)", "tl.sum(x > 0)"),
        ("the author chose the type", "tl.sum(x)", "tl.sum(x.to(dtype))"),
    ],
)  # fmt: skip
def test_what_is_added_up_in_float32_already_stays(why: str, before: str, after: str) -> None:
    text = ONE.replace("tl.sum(x)", "x") if "lane" in why else ONE
    assert before in text and (wide(text) is not None or "lane" in why)
    assert wide(text.replace(before, after)) is None, why


@pytest.mark.parametrize(
    ("why", "after"),
    [
        ("whole numbers", "tl.sum(other)"),
        ("whole numbers beside floats", "tl.sum(x) + tl.sum(other)"),
        ("its type is asked for", "tl.sum(x).to(x.dtype)"),
        ("its type is told to it elsewhere", "tl.sum(x) + tl.sum(x.to(tl.float16))"),
        ("a function that is not known", "tl.sum(x) + tl.sum(exp(x))"),
        ("a sum of something unknown", "tl.sum(x) + tl.sum(mystery(i))"),
        ("something unknown beside a row", "tl.sum(x)\n        y = x + mystery(i)"),
        ("another sum of something unknown", "tl.sum(x)\n        total += tl.sum(mystery(i))"),
        ("a place in memory", "tl.sum(x) + tl.load(y_ptr + x)"),
        ("a whole quotient", "tl.sum(x) + tl.sum(x // 2)"),
        ("bits", "tl.sum(x) + tl.sum(x & 1)"),
        ("a product of matrices", "tl.sum(x) + tl.sum(tl.dot(x, x))"),
        ("two results", "tl.sum(x)\n        low, at = tl.max(x, 0, return_indices=True)"),
        ("all of its arguments", "tl.sum(x)\n        tl.maximum(*x)"),
        ("a loop without a range", "tl.sum(x)\n        while total > 0:\n            total -= 1.0"),
    ],
)
def test_it_is_refused_where_it_is_not_sure(why: str, after: str) -> None:
    assert wide(ONE.replace("tl.sum(x)", after)) is None, why


def test_a_line_that_would_be_too_long_stays() -> None:
    line = "        x = tl.load(x_ptr + i + cols, mask=i + cols < n_cols, other=0.0)"
    for room, fits in ((len(".to(tl.float32)"), True), (len(".to(tl.float32)") - 1, False)):
        padded = line.replace("i + cols,", f"i + cols{' ' * (120 - len(line) - room)},")
        assert line in ONE and (wide(ONE.replace(line, padded)) is not None) == fits


def test_a_variable_that_may_be_either_of_two_rows_gets_both_in_float32() -> None:
    either = ONE.replace("other=0)", "other=0.0)").replace(
        "        total +=", "        if n_cols > 5:\n            x = other\n        total +="
    )
    after = wide(either)
    assert after is not None and after.count(").to(tl.float32)") == 2
    stored = ONE.replace("other=0)", "other=0.0)").replace(
        "        total +=",
        "        z = x\n        if n_cols > 5:\n            z = other\n        tl.store(y_ptr, z)\n        total +=",
    )
    after = wide(stored)
    assert after is not None and after.count(").to(tl.float32)") == 2, "or the branches would differ"


def test_a_running_sum_that_is_of_the_type_of_a_row_cannot_change_it() -> None:
    grown = ONE.replace("total = 0.0", "total = tl.zeros((BLOCK_SIZE,), dtype)").replace(
        "+= tl.sum(x)", "+= x + tl.sum(x)"
    )
    assert wide(grown) is None


def test_a_running_sum_in_the_type_of_a_row_is_one_of_float32() -> None:
    """It begins with a row, and goes on with others."""
    grown = ONE.replace("total = 0.0", "total = tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0)")
    after = wide(grown.replace("+= tl.sum(x)", "+= x"))
    assert after is not None and after.count(").to(tl.float32)") == 2


@pytest.mark.parametrize("kernel", ["rms_norm", "softmax", "cross_entropy", "layer_norm", "jsd", "geglu"])
def test_nothing_in_the_sample_adds_up_in_another_type(kernel: str) -> None:
    text = sample(kernel)
    assert wide(text) is None
    for transform in (walk_rows, pipeline_rows):
        found = transform.rewrite(text)
        assert found is None or wide(found.text) is None


SCRIPT = """
import torch
import half
import wide

torch.manual_seed(5)
x, w = 9 + torch.randn(3, 1000), torch.ones(3)
for dtype in (torch.float16, torch.float32):
    rows, weight = x.to(dtype), w.to(dtype)
    wanted = rows.double().var(dim=1, correction=0)
    far = {}
    for module in (half, wide):
        y, variance = module.forward(rows, weight)
        dx = module.backward(rows, rows / 100)
        assert y.dtype == dx.dtype == dtype
        far[module.__name__] = float((variance.double() - wanted).abs().max())
    assert far["wide"] < 1e-3, far
    assert (far["half"] > 0.1) == (dtype == torch.float16), far
print("wide sums agree")
"""


def test_a_variance_in_half_precision_is_far_off_until_it_is_added_up_in_float32(tmp_path: Path) -> None:
    after = wide(HALF)
    assert after is not None
    for name, text in {"half": HALF, "wide": after}.items():
        plain = text.replace("WITH: tl.constexpr = True", "WITH: tl.constexpr = False")
        plain = plain.replace("tl.float32(0.0)", "0.0")  # the interpreter has no number of a type
        (tmp_path / f"{name}.py").write_text(plain, encoding="utf-8")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == ["wide sums agree"]
