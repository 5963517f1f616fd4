"""A threshold that was looked for among sorted elements is found in steps, and the sort goes."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from bot.analysis.callers import left_behind
from bot.engine.transforms import drop_sort
from tests.engine.library import changes, interpret

OP = '''"""An op in the shape of a sparse softmax."""

import torch
import triton
import triton.language as tl


@triton.jit
def _kernel(x_ptr, x_stride, top_ptr, top_stride, out_ptr, out_stride, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_row = x_ptr + row * x_stride
    top_row = top_ptr + row * top_stride
    out_row = out_ptr + row * out_stride
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols

    z = tl.load(top_row + cols, mask=mask, other=-float("inf")).to(tl.float32)
    sums = tl.cumsum(tl.where(mask, z, 0.0), 0)
    bound = (sums - 1.0) / (cols + 1).to(tl.float32)
    above = (z > bound) & mask
    count = tl.sum(above.to(tl.int32), 0)
    total = tl.sum(tl.where(above, z, 0.0), 0)
    threshold = (total - 1.0) / tl.maximum(count, 1).to(tl.float32)

    # What is kept.
    x = tl.load(x_row + cols, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_row + cols, tl.maximum(x - threshold, 0.0), mask=mask)


def sparse(x):
    n_rows, n_cols = x.shape
    top = torch.sort(x.float(), dim=-1, descending=True).values
    out = torch.empty_like(x)
    _kernel[(n_rows,)](
        x, x.stride(0), top, top.stride(0), out, out.stride(0), n_cols, BLOCK_SIZE=triton.next_power_of_2(n_cols)
    )
    return out
'''


HELPER = ["def _add_each_of_2(a, b, c, d):", "    return a + c, b + d", "", ""]
"""For both sums of a step warps meet once."""


def unsorted(text: str) -> str | None:
    found = drop_sort.rewrite(text)
    return found.text if found is not None else None


def test_the_sort_and_all_that_led_from_it_to_the_threshold_go() -> None:
    after = unsorted(OP)
    assert after is not None
    ast.parse(after)
    gone, new = changes(OP, after)
    assert "    top = torch.sort(x.float(), dim=-1, descending=True).values" in gone
    assert [line for line in new if line != "@triton.jit"] == [
        *HELPER,
        "def _kernel(x_ptr, x_stride, out_ptr, out_stride, n_cols, BLOCK_SIZE: tl.constexpr):",
        "",
        f"    # {drop_sort.WHY}",
        '    above = (x > tl.max(tl.where(mask, x, -float("inf")), 0) - 1.0) & mask',
        "    kept_sum, count = tl.reduce((tl.where(above, x, 0.0), above.to(tl.int32)), 0, _add_each_of_2)",
        "    k_before = count + 1",
        "    threshold = -1.0",
        "    while (count > 0) & (count < k_before):",
        "        k_before = count",
        "        threshold = (kept_sum - 1.0) / k_before.to(tl.float32)",
        "        above = (x > threshold) & mask",
        "        kept_sum, count = tl.reduce((tl.where(above, x, 0.0), above.to(tl.int32)), 0, _add_each_of_2)",
        "        x, x.stride(0), out, out.stride(0), n_cols, BLOCK_SIZE=triton.next_power_of_2(n_cols)",
    ]
    assert "top" not in after


def test_who_launches_the_kernel_himself_can_still_do_so() -> None:
    found = drop_sort.rewrite(OP, ["_kernel"])
    assert found is not None
    gone, new = changes(OP, found.text)
    assert (
        "def _kernel(x_ptr, x_stride, top_ptr, top_stride, out_ptr, out_stride, n_cols, BLOCK_SIZE: tl.constexpr):"
        in (found.text.splitlines())
    )
    assert [line for line in new if line != "@triton.jit"][:8] == [
        *HELPER,
        "",
        f"    # {drop_sort.WHY}",
        "    # top_ptr and top_stride are not read: they are there for who launches this kernel himself.",
        '    above = (x > tl.max(tl.where(mask, x, -float("inf")), 0) - 1.0) & mask',
    ]
    assert new[-1].strip().startswith("x, x.stride(0), x, x.stride(0), out, out.stride(0), n_cols,")
    assert "    top = torch.sort(x.float(), dim=-1, descending=True).values" in gone
    assert (
        drop_sort.rewrite(found.text, ["_kernel"]) is None
        and left_behind(ast.parse(OP), ast.parse(found.text), ["_kernel"]) == ()
    )
    other = drop_sort.rewrite(OP)
    assert other is not None and left_behind(ast.parse(OP), ast.parse(other.text), ["_kernel"]) == ("_kernel",)


def test_by_name_it_is_handed_the_row_as_well() -> None:
    named = OP.replace(
        "top, top.stride(0), out, out.stride(0), n_cols,",
        "out_ptr=out, out_stride=out.stride(0), n_cols=n_cols, top_ptr=top, top_stride=top.stride(0),",
    )
    found = drop_sort.rewrite(named, ["_kernel"])
    assert found is not None
    assert "        top_ptr=x,\n        top_stride=x.stride(0),\n" in found.text


def test_what_is_not_sorted_any_more_is_left_as_it_is() -> None:
    after = unsorted(OP)
    assert after is not None and unsorted(after) is None


def test_names_may_be_others_and_lines_more() -> None:
    other = OP.replace("tl.cumsum(tl.where(mask, z, 0.0), 0)", "tl.cumsum(valid, 0)").replace(
        "    sums =", "    valid = tl.where(mask, z, 0.0)\n    sums ="
    )
    assert unsorted(other) == unsorted(OP)


def test_the_rows_may_be_sorted_as_they_are_and_handed_over_by_name() -> None:
    named = OP.replace(
        "top, top.stride(0), out, out.stride(0), n_cols,",
        "out_ptr=out, out_stride=out.stride(0), n_cols=n_cols, top_ptr=top, top_stride=top.stride(0),",
    )
    after = unsorted(named.replace("x.float(), dim", "x, dim"))
    assert after is not None and "top" not in after and "out_ptr=out, out_stride=out.stride(0)" in after


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("it is sorted the other way", "descending=True", "descending=False"),
        ("it is sorted along another axis", "dim=-1", "dim=0"),
        ("the places are used as well", ".values\n", ".values\n    extra = top.sum()\n"),
        ("something else is sorted", "torch.sort(x.float()", "torch.sort(x.abs()"),
        ("something is made of the sorted row", "x - threshold", "x - threshold - z"),
        ("the running sum is another", "tl.where(mask, z, 0.0), 0)", "tl.where(mask, z, 1.0), 0)"),
        ("the bound is another", "sums - 1.0", "sums - 2.0"),
        ("equal ones are kept", "(z > bound)", "(z >= bound)"),
        ("it counts from nothing", "(cols + 1)", "(cols + 0)"),
        ("the threshold is another", "total - 1.0", "total - 0.5"),
        (
            "somebody said why",
            "    above = (z > bound) & mask",
            "    # What lies above.\n    above = (z > bound) & mask",
        ),
        ("a name is bound again", "    total =", "    z = z + 0.0\n    total ="),
        ("a name is changed in place", "    total =", "    z += 1.0\n    total ="),
        ("a name is changed in a loop", "    total =", "    for count in range(2):\n        pass\n    total ="),
        (
            "the threshold is read before the row is there",
            "    # What is kept.",
            "    least = threshold + 1.0\n    # What is kept.",
        ),
        ("both rows have one stride", "row * x_stride", "row * top_stride"),
        ("the sorted rows are loaded once more", "x - threshold", "x - threshold - tl.load(top_ptr)"),
        ("the name is taken", "    total =", "    k_before = 1\n    total ="),
        ("the other name is taken", "    total =", "    kept_sum = 1\n    total ="),
        ("the helper's name is taken", "@triton.jit", "def _add_each_of_2(a):\n    return a\n\n\n@triton.jit"),
        ("the helper could not be compiled", "import triton\n", "from triton import jit, next_power_of_2\n"),
        ("it is sorted in another type", 'other=-float("inf")).to(tl.float32)', 'other=-float("inf")).to(tl.float64)'),
        ("the sorted row is another one", "top_ptr + row * top_stride", "top_ptr + row // 2 * top_stride"),
        ("the rows change before the launch", "    out = torch", "    x = x - 1\n    out = torch"),
        ("a part of them changes", "    out = torch", "    x[0] = 1\n    out = torch"),
        ("they change in place", "    out = torch", "    x.mul_(2)\n    out = torch"),
        ("the kernel's row is another one", "        x, x.stride(0), top,", "        y, x.stride(0), top,"),
        ("the sorted rows are another's too", "    return out", "    return out, top"),
    ],
)
def test_it_is_left_alone_where(why: str, before: str, after: str) -> None:
    changed = OP.replace(before, after)
    assert changed != OP and unsorted(changed) is None, why


def test_a_row_that_is_loaded_beside_the_sorted_one_is_not_taken_for_it() -> None:
    """The row itself without a cast, and a gate with one."""
    gated = OP.replace(
        "mask=mask, other=0.0).to(tl.float32)\n",
        "mask=mask, other=0.0)\n    g = tl.load(gate_row + cols, mask=mask).to(tl.float32)\n",
    )
    gated = gated.replace("x - threshold, 0.0)", "x - threshold, 0.0) * g").replace(
        "    out_row =", "    gate_row = gate_ptr + row * gate_stride\n    out_row ="
    )
    gated = gated.replace("top_stride, out_ptr", "top_stride, gate_ptr, gate_stride, out_ptr").replace(
        "top.stride(0), out,", "top.stride(0), gate, gate.stride(0), out,"
    )
    ast.parse(gated)
    assert "g = tl.load(gate_row" in gated and unsorted(gated) is None


RUN = """
import importlib.util
import sys

import torch

torch.manual_seed(20261125)


def module(name):
    spec = importlib.util.spec_from_file_location(name, f"{sys.argv[1]}/{name}.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


before, after = module("before"), module("after")
for rows, cols, scale in ((3, 1, 1), (4, 5, 1), (5, 64, 0.01), (6, 100, 3), (2, 257, 50), (2, 1000, 1e-4)):
    for dtype in (torch.float32, torch.float16):
        x = (torch.randn(rows, cols) * scale).to(dtype)
        expected, found = before.sparse(x), after.sparse(x)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=2e-6 * max(1, scale))
        torch.testing.assert_close(found.float().sum(-1), torch.ones(rows), rtol=2e-3, atol=0)
masked = torch.randn(4, 40)
masked[:, ::3] = -float("inf")
torch.testing.assert_close(after.sparse(masked), before.sparse(masked), rtol=1e-5, atol=2e-6)
steep = -(2.0 ** torch.arange(60.0)).repeat(2, 1)  # a step leaves out a few of these
torch.testing.assert_close(after.sparse(steep), before.sparse(steep), rtol=1e-5, atol=2e-6)
equal = torch.full((2, 128), 3e6)  # their threshold is rounded to themselves
assert (after.sparse(equal) <= 1).all(), after.sparse(equal)
higher = torch.randn(3, 40) + 1000.0
torch.testing.assert_close(after.sparse(higher), before.sparse(higher), rtol=1e-5, atol=2e-3)
endless = torch.randn(2, 40)
endless[:, 7] = float("inf")
torch.testing.assert_close(after.sparse(endless), before.sparse(endless))  # whoever trains has to see it
lower = torch.zeros(2, 100)  # just above, at and below one less than the largest
lower[:, :4] = torch.tensor([1.0, 2.0 ** -20, 0.0, -(2.0 ** -20)])
torch.testing.assert_close(after.sparse(lower), before.sparse(lower), rtol=1e-6, atol=1e-6)
"""


@pytest.mark.parametrize("relied_on", [(), ("_kernel",)])
def test_the_result_is_the_one_of_before(tmp_path: Path, relied_on: tuple[str, ...]) -> None:
    after = drop_sort.rewrite(OP, relied_on)
    assert after is not None
    interpret(tmp_path, RUN, before=OP, after=after.text)
