"""Atomic additions become a share for each program of the first axis, where nobody else writes to it."""

from __future__ import annotations

import ast

import pytest

from bot.engine.transforms import partial_sums
from tests.engine.library import changes, sample

GROUPS = '''"""An op in the shape that group_norm of Liger has."""

import torch
import triton
import triton.language as tl


@triton.jit
def _k(
    x_ptr,
    x_stride,
    dw_ptr,  # one number a channel
    db_ptr,
    width: tl.constexpr,
    each: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    dtype: tl.constexpr,
):
    batch = tl.program_id(0)
    group = tl.program_id(1)
    cols = tl.arange(0, BLOCK_SIZE)
    for channel in range(group * each, (group + 1) * each):
        dw = 0.0
        db = 0.0
        for start in tl.range(0, width, BLOCK_SIZE):
            x = tl.load(x_ptr + batch * x_stride + channel * width + start + cols, mask=start + cols < width, other=0.0)
            dw += tl.sum(x * x)
            db += tl.sum(x)

        # These must be atomic
        tl.atomic_add(dw_ptr + channel, dw.to(dtype))
        tl.atomic_add(db_ptr + channel, db.to(dtype))


def run(x, w, b):
    batches, channels, width = x.shape
    x = x.view(batches, 4, -1)
    dw = torch.zeros((channels), dtype=w.dtype, device=w.device)
    db = torch.zeros(channels, dtype=b.dtype, device=b.device)
    triton_dtype = tl.float32 if x.dtype == torch.float32 else tl.bfloat16
    BLOCK_SIZE = settings(width)
    _k[(batches, 4)](
        x,
        x.stride(0),
        dw,
        db,
        width,
        channels // 4,
        BLOCK_SIZE=BLOCK_SIZE,
        dtype=triton_dtype,
    )
    return dw, db
'''


def shared(text: str) -> str | None:
    found = partial_sums.rewrite(text)
    return found.text if found is not None else None


def test_additions_zeros_and_launch_change_and_nothing_else() -> None:
    after = shared(GROUPS)
    assert after is not None
    ast.parse(after)
    gone, new = changes(GROUPS, after)
    assert gone == [
        "    dtype: tl.constexpr,",
        "        tl.atomic_add(dw_ptr + channel, dw.to(dtype))",
        "        tl.atomic_add(db_ptr + channel, db.to(dtype))",
        "    dw = torch.zeros((channels), dtype=w.dtype, device=w.device)",
        "    db = torch.zeros(channels, dtype=b.dtype, device=b.device)",
        "    triton_dtype = tl.float32 if x.dtype == torch.float32 else tl.bfloat16",
        "        dtype=triton_dtype,",
    ]
    assert new == [
        "    dw_row_stride,",
        "    db_row_stride,",
        f"        # {partial_sums.IN_KERNEL}",
        "        tl.store(dw_ptr + batch * dw_row_stride + channel, dw)",
        "        tl.store(db_ptr + batch * db_row_stride + channel, db)",
        f"    # {partial_sums.IN_HOST}",
        "    dw = torch.zeros((batches, channels), dtype=torch.float32, device=w.device)",
        "    db = torch.zeros((batches, channels), dtype=torch.float32, device=b.device)",
        "        dw_row_stride=dw.stride(0),",
        "        db_row_stride=db.stride(0),",
        "    dw = dw.sum(dim=0).to(w.dtype)",
        "    db = db.sum(dim=0).to(b.dtype)",
    ]


def test_a_type_that_serves_for_more_stays() -> None:
    text = GROUPS.replace("x = tl.load(", "x = dtype(0) + tl.load(")
    after = shared(text)
    assert after is not None
    assert "    dtype: tl.constexpr,\n    dw_row_stride,\n    db_row_stride,\n):" in after
    assert "triton_dtype = " in after and "        dtype=triton_dtype,\n        dw_row_stride=" in after


def test_shares_are_not_shared_again() -> None:
    after = shared(GROUPS)
    assert after is not None and shared(after) is None


@pytest.mark.parametrize("kernel", ["rms_norm", "cross_entropy"])
def test_a_kernel_without_atomics_is_left_alone(kernel: str) -> None:
    assert shared(sample(kernel)) is None


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("the run of somebody else", "group * each, (group + 1)", "group * each, (group + 2)"),
        ("all channels", "range(group * each, (group + 1) * each)", "range(0, each)"),
        ("the run of the first axis", "group = tl.program_id(1)", "group = tl.program_id(0) + tl.program_id(1)"),
        ("one program for a batch", "group = tl.program_id(1)", "group = batch"),
        ("another place", "tl.atomic_add(dw_ptr + channel,", "tl.atomic_add(dw_ptr + channel // 2,"),
        ("the same place twice", "tl.atomic_add(db_ptr", "tl.atomic_add(dw_ptr"),
        ("an addition in a loop", "            db += tl.sum(x)", "            tl.atomic_add(db_ptr + channel, 1.0)"),
        ("an addition with a mask", "dw.to(dtype))", "dw.to(dtype), mask=channel < 7)"),
        ("another atomic", "tl.atomic_add(db_ptr", "tl.atomic_max(db_ptr"),
        ("the sum so far is read", "        dw = 0.0", "        dw = tl.load(dw_ptr + channel)"),
        ("sums that begin with something", "torch.zeros((channels)", "torch.ones((channels)"),
        ("sums of two axes", "torch.zeros((channels)", "torch.zeros((channels, 2)"),
        ("sums that somebody made", "dw = torch.zeros((channels), dtype=w.dtype, device=w.device)", "dw = w"),
        ("sums that are filled before", "    BLOCK_SIZE = settings", "    dw += 1\n    BLOCK_SIZE = settings"),
        ("a launch that may not happen", "    _k[(batches, 4)](", "    if width:\n     _k[(batches, 4)]("),
        ("a grid of one axis", "_k[(batches, 4)]", "_k[(batches,)]"),
        ("a grid in the dark", "_k[(batches, 4)]", "_k[grid]"),
        ("a name that is taken", "        dw = 0.0", "        dw_row_stride = 1\n        dw = 0.0"),
    ],
)  # fmt: skip
def test_additions_stay_when_it_is_not_sure(why: str, before: str, after: str) -> None:
    assert before in GROUPS
    assert shared(GROUPS.replace(before, after)) is None, why
