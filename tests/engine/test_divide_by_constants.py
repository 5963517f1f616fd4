"""Columns are divided by constants where the launch hands the divisor over, and only there."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bot.engine.transforms import divide_by_constants
from tests.engine.library import changes, interpret, sample

CHANNELS = '''"""An op in the shape that group_norm of Liger has: several channels are one row."""

import torch
import triton
import triton.language as tl


@triton.jit
def _k(
    x_ptr,
    y_ptr,
    w_ptr,
    row_stride,
    width,  # elements of all channels of a group
    each,
    BLOCK_SIZE: tl.constexpr,
):
    batch = tl.program_id(0)
    group = tl.program_id(1)
    row = (batch * tl.num_programs(1) + group) * row_stride
    block = tl.arange(0, BLOCK_SIZE)
    total = 0.0
    for start in tl.range(0, width, BLOCK_SIZE):
        cols = start + block
        total += tl.sum(tl.load(x_ptr + row + cols, mask=cols < width, other=0.0))
    mean = total / width

    length = width // each
    for start in tl.range(0, width, BLOCK_SIZE):
        cols = start + block
        mask = cols < width
        # The channel of each element
        channel = group * each + cols // length
        w = tl.load(w_ptr + channel, mask=mask)
        x = tl.load(x_ptr + row + cols, mask=mask)
        tl.store(y_ptr + row + cols, (x - mean) * w, mask=mask)


def run(x, w, groups):
    batches, channels, length = x.shape
    width = channels // groups * length
    y = torch.empty_like(x)
    BLOCK_SIZE = min(64, triton.next_power_of_2(width))
    _k[(batches, groups)](x, y, w, width, width, channels // groups, BLOCK_SIZE=BLOCK_SIZE)
    return y
'''
COLUMN = "channel = group * each + cols // length"


def divided(text: str) -> str | None:
    found = divide_by_constants.rewrite(text)
    return found.text if found is not None else None


def test_two_sizes_become_constants_and_nothing_else_changes() -> None:
    after = divided(CHANNELS)
    assert after is not None
    ast.parse(after)
    gone, new = changes(CHANNELS, after)
    assert gone == ["    width,  # elements of all channels of a group", "    each,"]
    assert new == [
        "    width: tl.constexpr,  # elements of all channels of a group",
        "    each: tl.constexpr,",
        f"        # {divide_by_constants.WHY}",
    ]
    assert after.index("# The channel of each") < after.index(divide_by_constants.WHY) < after.index(COLUMN)


def test_it_says_what_was_measured_and_what_was_compiled() -> None:
    found = divide_by_constants.rewrite(CHANNELS)
    assert found is not None and found.kernels == ("_k",)
    assert found.seen.startswith("On an H200 it made group_norm's forward")


def test_a_remainder_is_no_different_and_the_reason_is_given_once() -> None:
    after = divided(CHANNELS.replace("tl.load(w_ptr + channel", "tl.load(w_ptr + channel + cols % length"))
    assert after is not None and after.count(divide_by_constants.WHY) == 1


def test_a_size_that_is_a_constant_already_stays_and_the_other_follows() -> None:
    after = divided(CHANNELS.replace("    each,\n", "    each: tl.constexpr,\n"))
    assert after is not None
    assert "    width: tl.constexpr,  # elements" in after and after.count("each: tl.constexpr,\n") == 1


def test_divided_columns_are_not_divided_again() -> None:
    after = divided(CHANNELS)
    assert after is not None and divided(after) is None


@pytest.mark.parametrize("kernel", ["rms_norm", "layer_norm", "cross_entropy", "geglu", "jsd", "softmax"])
def test_a_kernel_that_divides_no_columns_is_left_alone(kernel: str) -> None:
    assert divided(sample(kernel)) is None


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("only a number is divided", "cols // length", "start // length"),
        ("what was loaded is divided", "cols // length", "tl.load(w_ptr + cols) // length"),
        ("a quotient of floats", "cols // length", "cols / length"),
        ("a divisor that is loaded", "length = width // each", "length = tl.load(w_ptr)"),
        ("a divisor that depends on the program", "length = width // each", "length = width // (group + 1)"),
        ("a divisor that may be negative", "length = width // each", "length = (each - width) // each"),
        ("a divisor that is made twice", "    length = width", "    length = 1\n    length = width"),
        ("a size that is set anew", "    length = width", "    width += 0\n    length = width"),
        ("a size that is moved in a loop", "        # The channel", "        each = each + 0\n        # The channel"),
        ("a size with a type of its own", "    each,\n", "    each: tl.int32,\n"),
        ("a size that is asked for its type", "total / width", "total / width.to(tl.float32)"),
        ("a size that the grid is made of", "_k[(batches, groups)]", "_k[(batches, width)]"),
        ("a part of it in the grid", "_k[(batches, groups)]", "_k[(batches, 2 * (channels // groups))]"),
        ("the grid by another name", "_k[(batches, groups)]", "n = 2 * width\n    _k[(triton.cdiv(n, 8), groups)]"),
        ("the grid of a helper", "_k[(batches, groups)]", "w, n = plan(x, width)\n    _k[(n, groups)]"),
        (
            "a size by another name",
            "    _k[(batches, groups)](x, y, w, width, width, channels // groups,",
            "    each = channels // groups\n    _k[(batches, channels // groups)](x, y, w, width, width, each,",
        ),
        ("a sum that is asked for its type", "mean = total / width", "mean = total / (width + each).to(tl.float32)"),
        ("a quotient that may be negative", "channel = group", "channel = (each - width) // 2 + group"),
        ("a remainder that may be negative", "channel = group", "channel = -width % each + group"),
        ("a grid in the dark", "_k[(batches, groups)]", "_k[grid]"),
        ("a kernel that nobody launches", "    _k[(batches, groups)](", "    print("),
        ("a kernel that is called as well", "    return y\n", "    return _k(y)\n"),
        ("a kernel that tunes itself", "@triton.jit", "@triton.autotune(configs=[], key=[])\n@triton.jit"),
    ],
)  # fmt: skip
def test_sizes_stay_numbers_when_it_is_not_sure(why: str, before: str, after: str) -> None:
    assert before in CHANNELS
    assert divided(CHANNELS.replace(before, after)) is None, why


def test_a_language_by_another_name_is_left_alone() -> None:
    assert divided(CHANNELS.replace("tl.", "lang.").replace("as tl", "as lang")) is None


RUN = """
import sys, torch

sys.path.insert(0, sys.argv[1])
import after, before

for batches, channels, length, groups in ((2, 6, 5, 3), (1, 4, 33, 2), (3, 2, 64, 1), (1, 1, 1, 1), (2, 4, 1, 2)):
    x, w = torch.randn(batches, channels, length), torch.randn(channels)
    grouped = x.reshape(batches, groups, -1)
    expected = (grouped - grouped.mean(dim=-1, keepdim=True)).reshape(x.shape) * w[:, None]
    torch.testing.assert_close(before.run(x, w, groups), expected)
    assert torch.equal(after.run(x, w, groups), before.run(x, w, groups))
"""


def test_the_result_is_the_one_of_before_to_the_bit(tmp_path: Path) -> None:
    after = divided(CHANNELS)
    assert after is not None
    interpret(tmp_path, RUN, before=CHANNELS, after=after)


COMPILED = """
import re, sys
from triton import compile
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

sys.path.insert(0, sys.argv[1])
import after, before

for kernel in (before._k, after._k):
    sizes = {"width": 4096, "each": 4} if kernel is after._k else {}
    constants = {"BLOCK_SIZE": 1024, **sizes}
    types = {n: "constexpr" if n in constants else "*bf16" if "_ptr" in n else "i32" for n in kernel.arg_names}
    aligned = {(at,): [["tt.divisibility", 16]] for at, n in enumerate(kernel.arg_names) if n not in constants}
    source = ASTSource(kernel, signature=types, constexprs=constants, attrs=aligned)
    text = compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]
    print(len(set(re.findall(r"ld.global.b16 .*(\\[.*\\])", text))))
"""


def test_lanes_that_share_a_quotient_share_a_load(tmp_path: Path) -> None:
    """Of the addresses of a weight for each of a thread's eight columns one is left for all of them."""
    after = divided(CHANNELS)
    assert after is not None
    (tmp_path / "before.py").write_text(CHANNELS, encoding="utf-8")
    (tmp_path / "after.py").write_text(after, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", COMPILED, str(tmp_path)],
        env={**os.environ, "TRITON_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    assert done.stdout.split() == ["8", "1"]
