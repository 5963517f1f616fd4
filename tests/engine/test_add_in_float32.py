"""Two vectors that all programs add to become one in float32, which is rounded once."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bot.engine.transforms import add_in_float32, partial_sums
from tests.engine.library import changes, sample
from tests.engine.test_partial_sums import GROUPS

DB = "    db = torch.zeros(channels, dtype=b.dtype, device=b.device)"


def wide(text: str) -> str | None:
    found = add_in_float32.rewrite(text)
    return found.text if found is not None else None


def test_additions_zeros_and_launch_change_and_nothing_else() -> None:
    after = wide(GROUPS)
    assert after is not None
    ast.parse(after)
    gone, new = changes(GROUPS, after)
    assert gone == [
        "    db_ptr,",
        "    dtype: tl.constexpr,",
        "        tl.atomic_add(dw_ptr + channel, dw.to(dtype))",
        "        tl.atomic_add(db_ptr + channel, db.to(dtype))",
        "    dw = torch.zeros((channels), dtype=w.dtype, device=w.device)",
        DB,
        "    triton_dtype = tl.float32 if x.dtype == torch.float32 else tl.bfloat16",
        "        dw,",
        "        db,",
        "        dtype=triton_dtype,",
    ]
    assert new == [
        "    db_offset,",
        "        tl.atomic_add(dw_ptr + channel, dw.to(tl.float32))",
        "        tl.atomic_add(dw_ptr + db_offset + channel, db.to(tl.float32))",
        f"    # {add_in_float32.IN_HOST}",
        "    sums = torch.zeros((2, channels), dtype=torch.float32, device=w.device)",
        "        sums,",
        "        db_offset=channels,",
        "    dw, db = sums.to(w.dtype).unbind(0) if w.dtype == b.dtype else (sums[0].to(w.dtype), sums[1].to(b.dtype))",
    ]


def test_two_of_one_type_need_no_choice() -> None:
    after = wide(GROUPS.replace("dtype=b.dtype", "dtype=w.dtype"))
    assert after is not None and "    dw, db = sums.to(w.dtype).unbind(0)\n    return dw, db\n" in after


def test_a_type_that_serves_for_more_stays() -> None:
    after = wide(GROUPS.replace("x = tl.load(", "x = dtype(0) + tl.load("))
    assert after is not None
    assert "    dtype: tl.constexpr,\n    db_offset,\n):" in after
    assert "triton_dtype = " in after and "        dtype=triton_dtype,\n        db_offset=channels,\n" in after


def test_what_is_not_rounded_before_it_is_added_stays_so() -> None:
    plain = GROUPS.replace("dw.to(dtype)", "dw").replace("db.to(dtype)", "db")
    after = wide(plain)
    assert after is not None and "tl.atomic_add(dw_ptr + db_offset + channel, db)" in after


def test_it_is_done_once_and_leaves_nothing_to_share() -> None:
    after = wide(GROUPS)
    assert after is not None
    assert wide(after) is None and partial_sums.rewrite(after) is None


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
        ("something is said of one", DB, f"{DB}  # for the bias"),
        ("something is said above one", DB, f"    # for the bias\n{DB}"),
        ("a name that is taken in the kernel", "        dw = 0.0", "        db_offset = 1\n        dw = 0.0"),
        ("a name that is taken by the host", "    BLOCK_SIZE = settings", "    sums = 1\n    BLOCK_SIZE = settings"),
        ("a type without a name", "dtype=triton_dtype,\n    )", "**{'dtype': triton_dtype},\n    )"),
        ("a parameter with a default", "dtype: tl.constexpr,", "dtype: tl.constexpr = None,"),
        ("a launch that may not happen", "    _k[(batches, 4)](", "    if width:\n     _k[(batches, 4)]("),
        (
            "two launches",
            "    return dw, db",
            "    _k[(1, 4)](x, 1, dw, db, width, 1, BLOCK_SIZE=1, dtype=1)\n    return 1",
        ),
        ("a grid of one axis in the kernel", "group = tl.program_id(1)", "group = tl.program_id(0)"),
        ("a long line", "dtype=b.dtype", f"dtype=b.{'d' * 40}type"),
    ],
)
def test_what_is_not_sure_stays_as_it_is(why: str, before: str, after: str) -> None:
    assert before in GROUPS, why
    assert wide(GROUPS.replace(before, after, 1)) is None, why


SCRIPT = """
import torch
import half
import wide

torch.manual_seed(5)
x = torch.randn(6, 8, 40)
for dtype in (torch.float16, torch.float32):
    rows = x.to(dtype)
    exact = ((rows.double() ** 2).sum(dim=(0, 2)), rows.double().sum(dim=(0, 2)))
    for types in ((dtype, dtype), (torch.float32, dtype)):
        w, b = (torch.ones(8, dtype=one) for one in types)
        before, after = half.run(rows, w, b), wide.run(rows, w, b)
        for was, now, truth in zip(before, after, exact):
            assert (now.dtype, now.shape, now.stride()) == (was.dtype, was.shape, was.stride())
            off, now_off = ((one.double() - truth).abs().max() for one in (was, now))
            assert now_off <= off + 1e-9, (dtype, types, off, now_off)
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
