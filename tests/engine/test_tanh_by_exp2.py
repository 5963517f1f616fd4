"""A tanh of libdevice's becomes one without a branch: where it applies, what it leaves, and how right it is."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from bot.engine.transforms import TRANSFORMS, tanh_by_exp2
from tests.engine.library import HEAD, changes, interpret

IMPORTS = """import operator

import torch
import triton
import triton.language as tl

from lib.ops import compare_version
from lib.ops import ensure_contiguous
from lib.utils import is_npu_available

if compare_version("triton", operator.ge, "3.0.0") and not is_npu_available():
    try:
        # typical import path
        from triton.language.extra.libdevice import tanh
    except ModuleNotFoundError:
        from triton.language.extra.cuda.libdevice import tanh
else:
    from triton.language.math import tanh
"""
BY_ITSELF = """import torch
import triton
import triton.language as tl
from triton.language.extra.libdevice import tanh
"""
KERNEL = '''

@triton.jit
def _k(x, y, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    v = tl.load(x + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    t = tanh(0.5 * v)
    tl.store(y + row * n_cols + cols, t * v, mask=mask)


def run(x, y, n_rows, n_cols):
    """One row a program."""
    BLOCK_SIZE, num_warps = settings(n_cols)
    _k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps)
    return y
'''
OP = f'"""An op."""\n\n{IMPORTS}{KERNEL}'
PLAIN = f'"""An op."""\n\n{BY_ITSELF}{KERNEL}'
LIBRARY = PLAIN.replace("libdevice import tanh", "import libdevice").replace("extra.import", "extra import")
LIBRARY = LIBRARY.replace("tanh(0.5", "libdevice.tanh(0.5")
NEW = tanh_by_exp2.TEXT.format(tanh="tanh").strip("\n").splitlines()


def smooth(text: str) -> str | None:
    found = tanh_by_exp2.rewrite(text)
    return found.text if found is not None else None


@pytest.mark.parametrize("text", [OP, PLAIN])
def test_the_calls_change_and_a_helper_comes_before_the_first_kernel(text: str) -> None:
    after = smooth(text)
    assert after is not None
    ast.parse(after)
    first = "\n\n\n@triton.jit\ndef _k("
    helped = text.replace(first, "\n\n\n" + "\n".join(NEW) + first, 1)
    assert after == helped.replace("t = tanh(0.5 * v)", "t = _tanh_by_exp2(0.5 * v)")


def test_libdevice_by_its_own_name() -> None:
    after = smooth(LIBRARY)
    assert after is not None
    gone, new = changes(LIBRARY, after)
    assert gone == ["    t = libdevice.tanh(0.5 * v)"]
    assert "    t = _tanh_by_exp2(0.5 * v)" in new and "        y = libdevice.tanh(x)" in new


def test_what_is_said_above_the_first_kernel_stays_with_it() -> None:
    after = smooth(PLAIN.replace("@triton.jit", "# One row a program.\n@triton.jit", 1))
    assert after is not None and f"{NEW[-1]}\n\n\n# One row a program.\n@triton.jit\ndef _k(" in after


def test_another_kernel_may_be_the_first() -> None:
    other = "@triton.jit\ndef _other(x):\n    tl.store(x, 1.0)\n\n\n@triton.jit\ndef _k("
    after = smooth(PLAIN.replace("@triton.jit\ndef _k(", other))
    assert after is not None and f"{NEW[-1]}\n\n\n@triton.jit\ndef _other(" in after


def test_what_it_says() -> None:
    found = tanh_by_exp2.rewrite(OP)
    assert found is not None and found.kernels == ("_k",)
    assert found.seen.startswith("A sketch of dyt's backward") and "another tanh" in found.seen


@pytest.mark.parametrize("text", [OP, PLAIN, LIBRARY])
def test_rewriting_twice_changes_nothing_more(text: str) -> None:
    after = smooth(text)
    assert after is not None and smooth(after) is None


def test_a_kernel_that_tunes_itself_takes_it_too() -> None:
    tuned = '@triton.autotune(configs=[triton.Config({"BLOCK_SIZE": 64})], key=["n_cols"])\n@triton.jit\ndef _k('
    after = smooth(OP.replace("@triton.jit\ndef _k(", tuned))
    assert after is not None and "    t = _tanh_by_exp2(0.5 * v)" in after


SOFTCAP = "    t = tanh(0.5 * v)\n"


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("it is of one number", "tanh(0.5 * v)", "tanh(tl.sum(v, axis=0))"),
        ("two arguments", "tanh(0.5 * v)", "tanh(0.5 * v, v)"),
        ("a name of its argument", "tanh(0.5 * v)", "tanh(arg0=0.5 * v)"),
        ("it is another module's", "triton.language.extra.libdevice", "numpy"),
        ("it is nobody's libdevice", "triton.language.extra.libdevice", "triton.language.math"),
        ("it has another name", "libdevice import tanh", "libdevice import tanh as smooth"),
        ("the name is given anew", "    t = tanh", "    tanh = tl.sigmoid\n    t = tanh"),
        ("it comes as an argument", "def _k(x,", "def _k(tanh, x,"),
        ("there is one of that name", "\n\n@triton.jit", "\n\ndef tanh(x):\n    return x\n\n\n@triton.jit"),
        ("the helper's name is taken", "    return y\n", "    return _tanh_by_exp2\n"),
        ("tl has no name", "import triton.language as tl\n", "import triton.language as tl  # all of it\n"),
        ("most launches may take none", SOFTCAP, f"    t = v\n    if n_cols > 7:\n    {SOFTCAP}"),
        ("nobody calls it", "tanh(0.5 * v)", "tl.sigmoid(v)"),
    ],
)
def test_a_tanh_stays_when_it_is_not_sure(why: str, before: str, after: str) -> None:
    assert smooth(PLAIN) is not None and before in PLAIN
    assert smooth(PLAIN.replace(before, after)) is None, why


@pytest.mark.parametrize(("more", "fits"), [(0, True), (1, False)])
def test_a_line_may_become_as_long_as_a_line_may_be(more: int, fits: bool) -> None:
    room = 120 - len("    t = _tanh_by_exp2(0.5 * v + )")
    text = PLAIN.replace("tanh(0.5 * v)", f"tanh(0.5 * v + {'1' * (room + more)})")
    assert (smooth(text) is not None) == fits


def test_what_stands_behind_a_condition_goes_along_with_what_does_not() -> None:
    more = f"{SOFTCAP}    if n_cols > 7:\n        t = tanh(t)\n"
    after = smooth(PLAIN.replace(SOFTCAP, more))
    assert after is not None and after.count("_tanh_by_exp2(") == 3


def test_other_rewrites_go_on_from_it() -> None:
    found = TRANSFORMS["tile_rows"].rewrite(smooth(PLAIN) or "")
    assert found is not None and found.kernels == ("_k",)


def test_a_kernel_without_one_is_left_alone() -> None:
    assert smooth(HEAD) is None


RUN = """
import sys, torch

sys.path.insert(0, sys.argv[1])
import after

near = torch.exp(torch.empty(200_000, dtype=torch.float64).uniform_(-90, 3.2))
odd = torch.tensor([0.0, 1e-45, 1e-38, 0.5477, 0.5478, 9.0, 44.0, 45.0, 89.0, 3e38, float("inf")], dtype=torch.float64)
x = torch.cat([near, -near, odd, -odd]).float()
y = torch.empty_like(x)
after.taken[(1,)](x, y, x.numel(), BLOCK_SIZE=2**19)
truth = torch.tanh(x.double())
off = (y.double() - truth).abs() / (truth.abs() * 2**-23).clamp(min=1e-45)
assert float(off.max()) < 4, float(off.max())
assert torch.equal(torch.signbit(y), torch.signbit(x))
nothing = torch.full((4,), float("nan"))
after.taken[(1,)](nothing, y, 4, BLOCK_SIZE=4)
assert y[:4].isnan().all()
"""
TAKEN = """

@triton.jit
def taken(x, y, n, BLOCK_SIZE: tl.constexpr):
    at = tl.arange(0, BLOCK_SIZE)
    tl.store(y + at, _tanh_by_exp2(tl.load(x + at, mask=at < n, other=0.0)), mask=at < n)
"""


def test_it_is_right_to_a_few_units_of_the_last_place_wherever_it_is_taken(tmp_path: Path) -> None:
    """Nothing, next to nothing, both sides of the seam, where an exponential overflows, infinities, and no number."""
    after = smooth(PLAIN)
    assert after is not None
    interpret(tmp_path, RUN, after=after + TAKEN)
