"""Rows of one group are added up in registers, and to memory once."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bot.engine.transforms import add_once_a_run
from tests.engine.library import changes, sample

GROUPED = '''"""An op in the shape of Liger's modulated_rms_norm: rows of a group share a scale and a shift."""

import math

import torch
import triton
import triton.language as tl


@triton.jit
def _backward(
    dy_ptr,
    dx_ptr,
    scale_ptr,
    dscale_ptr,
    dshift_ptr,
    n_rows,
    n_cols,
    stride,
    rows_per_program,
    rows_of_group: tl.constexpr,
    has_shift: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    program = tl.program_id(0).to(tl.int64)
    first = program * rows_per_program
    last = min((program + 1) * rows_per_program, n_rows)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols

    for row in range(first, last):
        group = row // rows_of_group
        dscale_base = dscale_ptr + group * stride
        dy = tl.load(dy_ptr + row * stride + cols, mask=mask, other=0.0)
        scale = tl.load(scale_ptr + group * stride + cols, mask=mask, other=0.0)
        tl.store(dx_ptr + row * stride + cols, dy * scale, mask=mask)
        # of the whole group
        if rows_of_group == 1:
            tl.store(dscale_base + cols, dy * dy, mask=mask)
        else:
            tl.atomic_add(dscale_base + cols, dy * dy, sem="relaxed", mask=mask)
        if has_shift:
            tl.atomic_add(dshift_ptr + group * stride + cols, dy, mask=mask)


def run(dy, scale, rows_of_group, programs, has_shift=True):
    n_rows, n_cols = dy.shape
    dx = torch.empty_like(dy)
    dscale = torch.zeros(scale.shape, dtype=torch.float32)
    dshift = torch.zeros(scale.shape, dtype=torch.float32)
    rows_per_program = math.ceil(n_rows / programs)
    _backward[(programs,)](
        dy,
        dx,
        scale,
        dscale,
        dshift,
        n_rows,
        n_cols,
        dy.stride(0),
        rows_per_program,
        rows_of_group,
        has_shift,
        BLOCK_SIZE=triton.next_power_of_2(n_cols),
    )
    return dx, dscale, dshift
'''
HAND_ON = "if (row + 1 == last) | ((row + 1) // rows_of_group != group):"


def once(text: str) -> str | None:
    found = add_once_a_run.rewrite(text)
    return found.text if found is not None else None


def test_additions_change_and_nothing_else() -> None:
    after = once(GROUPED)
    assert after is not None
    ast.parse(after)
    gone, new = changes(GROUPED, after)
    assert gone == [
        '            tl.atomic_add(dscale_base + cols, dy * dy, sem="relaxed", mask=mask)',
        "            tl.atomic_add(dshift_ptr + group * stride + cols, dy, mask=mask)",
    ]
    assert new == [
        f"    # {add_once_a_run.WHY}",
        "    dscale_run = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)",
        "    dshift_run = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)",
        "            dscale_run += dy * dy",
        f"            {HAND_ON}",
        '                tl.atomic_add(dscale_base + cols, dscale_run, sem="relaxed", mask=mask)',
        "                dscale_run = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)",
        "            dshift_run += dy",
        f"            {HAND_ON}",
        "                tl.atomic_add(dshift_ptr + group * stride + cols, dshift_run, mask=mask)",
        "                dshift_run = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)",
    ]


RUN = """
import sys, torch

sys.path.insert(0, sys.argv[1])
import after, before

for rows, of_group in ((12, 3), (12, 12), (12, 1), (7, 7), (10, 5), (9, 3)):
    for programs in (1, 2, 5, 16):
        dy, scale = torch.randn(rows, 19), torch.randn(rows // of_group, 19)
        expected, found = (m.run(dy, scale, of_group, programs) for m in (before, after))
        for one, other in zip(expected, found):
            torch.testing.assert_close(other, one, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(found[2], dy.view(-1, of_group, 19).sum(1), rtol=1e-5, atol=1e-5)
"""


def ran(place: Path, after: str) -> bool:
    place.mkdir()
    (place / "before.py").write_text(GROUPED, encoding="utf-8")
    (place / "after.py").write_text(after, encoding="utf-8")
    command = [sys.executable, "-c", RUN, str(place)]
    done = subprocess.run(command, env={**os.environ, "TRITON_INTERPRET": "1"}, timeout=100, capture_output=True)
    return done.returncode == 0


def test_the_sums_are_those_of_before(tmp_path: Path) -> None:
    after = once(GROUPED)
    assert after is not None and ran(tmp_path / "right", after)
    for name, wrong in (("end", "((row + 1) // rows_of_group != group)"), ("group", "(row + 1 == last)")):
        one_sided = after.replace(HAND_ON, f"if {wrong}:")
        assert one_sided != after and not ran(tmp_path / name, one_sided), "both ends of a run are needed"


def test_it_is_done_once() -> None:
    after = once(GROUPED)
    assert after is not None and once(after) is None


@pytest.mark.parametrize("kernel", ["rms_norm", "layer_norm", "softmax"])
def test_rows_without_groups_are_left_alone(kernel: str) -> None:
    assert not add_once_a_run.applies(sample(kernel))


ABOVE = "        # of the whole"
SHIFT = "            tl.atomic_add(dshift_ptr + group * stride + cols, dy, mask=mask)"


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("no loop over a run", "for row in range(first, last):", "for row in range(first, last, 2):"),
        ("no groups", "group = row // rows_of_group", "group = row % rows_of_group"),
        ("groups of what is no parameter", "group = row // rows_of_group", "group = row // last"),
        ("a group that changes", ABOVE, f"        group += 1\n{ABOVE}"),
        ("somebody looks at what comes back", SHIFT, SHIFT.replace("tl.atomic", "old = tl.atomic")),
        ("another atomic", SHIFT, SHIFT.replace("atomic_add", "atomic_max")),
        ("a place of the row", SHIFT, SHIFT.replace("group * stride", "row * stride")),
        ("a place of all", SHIFT, SHIFT.replace("group * stride + ", "")),
        ("a place of the row and its group", SHIFT, SHIFT.replace("+ cols", "+ row + cols")),
        ("a mask of the row", SHIFT, SHIFT.replace("mask=mask", "mask=mask & (row > 0)")),
        ("a mask of what is in memory", SHIFT, SHIFT.replace("mask=mask", "mask=tl.load(dy_ptr + cols) > 0")),
        ("a mask that was in memory", "    mask = cols < n_cols", "    mask = (cols < n_cols) & (tl.load(dx_ptr) > 0)"),
        ("a branch of the row", "        if has_shift:", "        if row > 3:"),
        ("a branch of what is in memory", "        if has_shift:", "        if tl.sum(dy, axis=0) > 3:"),
        ("a loop in the loop", ABOVE, f"        for i in range(2):\n            x = i\n{ABOVE}"),
        ("it reads what it adds to", ABOVE, f"        x = tl.load(dscale_base + cols)\n{ABOVE}"),
        ("it stores to it besides", ABOVE, f"        tl.store(dshift_ptr + cols, dy)\n{ABOVE}"),
        ("two sums in the same places", SHIFT, SHIFT.replace("dshift_ptr", "dscale_ptr")),
        ("a name that is taken", "    mask = ", "    dscale_run = 1\n    mask = "),
        ("a second block", "    mask = ", "    more = tl.arange(0, BLOCK_SIZE)\n    mask = "),
        ("a block of two dimensions", "dy * scale", "dy[None, :] * scale"),
        ("no pointer", SHIFT, SHIFT.replace("dshift_ptr + group * stride", "group * stride + dshift_ptr")),
        ("a line that is too long", SHIFT, SHIFT.replace("=mask", f"=mask & (n_cols > {'1' * 40})")),
    ],
)  # fmt: skip
def test_rows_add_one_by_one_when_it_is_not_sure(why: str, before: str, after: str) -> None:
    assert before in GROUPED
    assert once(GROUPED.replace(before, after, 1)) is None, why
