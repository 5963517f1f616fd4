"""Two vectors that all programs add to become one in float32, which the last program rounds."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bot.engine.transforms import add_in_float32, partial_sums, sum_behind_loop
from tests.engine.library import changes, sample
from tests.engine.test_partial_sums import GROUPS

DB = "    db = torch.zeros(channels, dtype=b.dtype, device=b.device)"
VIEW = "    x = x.view(batches, 4, -1)\n"
COLUMNS = "    cols = tl.arange(0, BLOCK_SIZE)\n"


def wide(text: str) -> str | None:
    found = add_in_float32.rewrite(text)
    return found.text if found is not None else None


def test_additions_vectors_and_launch_change_and_the_last_program_rounds() -> None:
    after = wide(GROUPS)
    assert after is not None
    ast.parse(after)
    gone, new = changes(GROUPS, after)
    assert gone == [
        "    dtype: tl.constexpr,",
        "        tl.atomic_add(dw_ptr + channel, dw.to(dtype))",
        "        tl.atomic_add(db_ptr + channel, db.to(dtype))",
        "    dw = torch.zeros((channels), dtype=w.dtype, device=w.device)",
        DB,
        "    triton_dtype = tl.float32 if x.dtype == torch.float32 else tl.bfloat16",
        "        dtype=triton_dtype,",
    ]
    assert new == [
        "    sums_ptr,",
        "    n_sums,",
        '        tl.atomic_add(sums_ptr + channel, dw, sem="relaxed")',
        '        tl.atomic_add(sums_ptr + n_sums + channel, db, sem="relaxed")',
        "",
        f"    # {add_in_float32.IN_KERNEL}",
        "    n_done = tl.atomic_add((sums_ptr + 2 * n_sums).to(tl.pointer_type(tl.int32)), 1)",
        "    if n_done == tl.num_programs(0) * tl.num_programs(1) - 1:",
        "        for sum_start in range(0, n_sums, BLOCK_SIZE):",
        "            sum_cols = sum_start + cols",
        "            sum_mask = sum_cols < n_sums",
        "            tl.store(dw_ptr + sum_cols, tl.load(sums_ptr + sum_cols, mask=sum_mask), mask=sum_mask)",
        "            tl.store(db_ptr + sum_cols, tl.load(sums_ptr + n_sums + sum_cols, mask=sum_mask), mask=sum_mask)",
        "    dw = torch.empty((channels), dtype=w.dtype, device=w.device)",
        "    db = torch.empty(channels, dtype=b.dtype, device=b.device)",
        f"    # {add_in_float32.IN_HOST}",
        "    sums = torch.zeros(2 * channels + 1, dtype=torch.float32, device=w.device)",
        "        sums_ptr=sums,",
        "        n_sums=channels,",
    ]


def test_a_launch_fewer_is_asked_of_the_host_and_no_cast() -> None:
    """Of torch's calls each `zeros` is a fill, and each `to` and `sum` a kernel."""
    after = wide(GROUPS)
    assert after is not None
    asked = [[text.count(call) for call in ("torch.zeros(", ".sum(dim", "dtype)\n", "_k[")] for text in (GROUPS, after)]
    assert asked == [[2, 0, 0, 1], [1, 0, 0, 1]]


def test_what_the_author_said_of_the_vectors_stays() -> None:
    after = wide(GROUPS)
    assert after is not None and "dw_ptr,  # one number a channel\n    db_ptr,\n" in after


def test_a_type_that_serves_for_more_stays() -> None:
    after = wide(GROUPS.replace("x = tl.load(", "x = dtype(0) + tl.load("))
    assert after is not None
    assert "    dtype: tl.constexpr,\n    sums_ptr,\n    n_sums,\n):" in after
    assert "triton_dtype = " in after and "        dtype=triton_dtype,\n        sums_ptr=sums,\n" in after


def test_vectors_in_any_order_and_zeros_without_a_device() -> None:
    swapped = GROUPS.replace(f"{DB}\n", "").replace(VIEW, f"{VIEW}{DB}\n")
    after = wide(swapped.replace(", device=w.device", ""))
    assert after is not None
    assert "    dw = torch.empty((channels), dtype=w.dtype)\n    # " in after
    assert "    sums = torch.zeros(2 * channels + 1, dtype=torch.float32)\n" in after


def test_it_is_done_once_and_leaves_nothing_to_share() -> None:
    after = wide(GROUPS)
    assert after is not None
    assert wide(after) is None and partial_sums.rewrite(after) is None


def test_what_waits_for_its_loop_still_may() -> None:
    """One block of columns is left, and every call of the kernel is known to other rewrites."""
    after = wide(GROUPS.replace("settings(width)", "min(width, 128)"))
    assert after is not None and sum_behind_loop.rewrite(after) is not None


@pytest.mark.parametrize("kernel", ["rms_norm", "cross_entropy"])
def test_a_kernel_without_atomics_is_left_alone(kernel: str) -> None:
    assert wide(sample(kernel)) is None


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("another place", "tl.atomic_add(dw_ptr + channel,", "tl.atomic_add(dw_ptr + channel // 2,"),
        ("the same place twice", "tl.atomic_add(db_ptr", "tl.atomic_add(dw_ptr"),
        ("one vector", "        tl.atomic_add(db_ptr + channel, db.to(dtype))\n", ""),
        ("another size", "db = torch.zeros(channels,", "db = torch.zeros(batches,"),
        ("in float32 already", "dtype=b.dtype", "dtype=torch.float32"),
        ("a name that is taken in the kernel", "        dw = 0.0", "        n_sums = 1\n        dw = 0.0"),
        ("a name of the end that is taken", "        dw = 0.0", "        sum_mask = 1\n        dw = 0.0"),
        ("a name that is taken by the host", "    BLOCK_SIZE = settings", "    sums = 1\n    BLOCK_SIZE = settings"),
        ("a type without a name", "dtype=triton_dtype,\n    )", "**{'dtype': triton_dtype},\n    )"),
        ("a parameter with a default", "dtype: tl.constexpr,", "dtype: tl.constexpr = None,"),
        ("something is said of the last parameter", "dtype: tl.constexpr,", "dtype: tl.constexpr,  # rounded to"),
        ("a launch that may not happen", "    _k[(batches, 4)](", "    if width:\n     _k[(batches, 4)]("),
        (
            "two launches",
            "    return dw, db",
            "    _k[(1, 4)](x, 1, dw, db, width, 1, BLOCK_SIZE=1, dtype=1)\n    return 1",
        ),
        ("a grid of one axis in the kernel", "group = tl.program_id(1)", "group = tl.program_id(0)"),
        ("a grid of three axes", "_k[(batches, 4)]", "_k[(batches, 4, 1)]"),
        ("a grid that may be empty", VIEW, ""),
        ("a grid of which one axis may be", VIEW, "    x = x.view(batches, -1)\n"),
        ("a view that torch makes of nothing", VIEW, "    x = x.view(batches, 4, width)\n"),
        ("a view that may not be made", VIEW, "    if width:\n        x = x.view(batches, 4, -1)\n"),
        ("a size that changes", VIEW, f"{VIEW}    batches = batches - 1\n"),
        ("a program that is over before", COLUMNS, f"{COLUMNS}    if group == width:\n        return\n"),
        ("columns that do not begin at zero", COLUMNS, "    cols = tl.arange(1, BLOCK_SIZE)\n"),
        ("columns of a number that nobody handed over", COLUMNS, "    cols = tl.arange(0, 64)\n"),
        ("columns without a name", COLUMNS, ""),
        ("columns that move on", COLUMNS, f"{COLUMNS}    cols += 1\n"),
        ("a long line", "dw_ptr", f"d{'w' * 40}_ptr"),
        ("a long line of the host", "device=w.device", f"device=w.{'d' * 50}evice"),
    ],
)  # fmt: skip
def test_what_is_not_sure_stays_as_it_is(why: str, before: str, after: str) -> None:
    assert before in GROUPS, why
    assert wide(GROUPS.replace(before, after)) is None, why


SCRIPT = """
import torch
import half
import wide

torch.manual_seed(5)
for shape in ((6, 8, 40), (1, 4, 3), (5, 20, 2)):  # the last has more channels than a block
    x = torch.randn(shape)
    for dtype in (torch.float16, torch.float32):
        rows = x.to(dtype)
        exact = ((rows.double() ** 2).sum(dim=(0, 2)), rows.double().sum(dim=(0, 2)))
        for types in ((dtype, dtype), (torch.float32, dtype)):
            w, b = (torch.ones(shape[1], dtype=one) for one in types)
            before, after = half.run(rows, w, b), wide.run(rows, w, b)
            for was, now, truth in zip(before, after, exact):
                assert (now.dtype, now.shape, now.stride()) == (was.dtype, was.shape, was.stride())
                off, now_off = ((one.double() - truth).abs().max() for one in (was, now))
                assert now_off <= off + 1e-9, (shape, dtype, types, off, now_off)
print("wide additions are no further off")
"""


def test_what_comes_of_it_has_the_same_form_and_is_no_further_off(tmp_path: Path) -> None:
    plain = GROUPS.replace("settings(width)", "triton.next_power_of_2(width)")
    after = wide(plain)
    assert after is not None
    for name, text in {"half": plain, "wide": after}.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == ["wide additions are no further off"]
