"""What goes through float32 for no reason no longer does, and what has one stays."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bot.engine.transforms import drop_detours
from tests.engine.library import changes, sample

DETOURS = '''"""An op in the shape that mhc_pre of Liger has."""

import torch
import triton
import triton.language as tl


def ensure_contiguous(fn):
    return lambda ctx, *args: fn(ctx, *(arg.contiguous() for arg in args))


@triton.jit
def _forward(x_ptr, w_ptr, out_ptr, n_rows, n_cols, stride_x, stride_o, stride_oc, BLOCK_N: tl.constexpr):
    pid = tl.program_id(0)
    pid_c = tl.program_id(1)
    rows = pid * BLOCK_N + tl.arange(0, BLOCK_N)
    cols = pid_c * 16 + tl.arange(0, 16)
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    x = tl.load(x_ptr + rows[:, None] * stride_x + cols[None, :], mask=mask, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + rows, mask=rows < n_rows, other=0.0)
    tl.store(out_ptr + rows[:, None] * stride_o + cols[None, :] * stride_oc, x * w[:, None], mask=mask)


@triton.jit
def _backward(g_ptr, w_ptr, dx_ptr, dw_ptr, n_rows, n_cols, stride_g, stride_dx, BLOCK_N: tl.constexpr):
    pid = tl.program_id(0)
    rows = pid * BLOCK_N + tl.arange(0, BLOCK_N)
    w = tl.load(w_ptr + rows, mask=rows < n_rows, other=0.0).to(tl.float32)
    for start in range(0, n_cols, 16):
        cols = start + tl.arange(0, 16)
        mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
        g = tl.load(g_ptr + rows[:, None] * stride_g + cols[None, :], mask=mask, other=0.0).to(tl.float32)
        tl.store(dx_ptr + rows[:, None] * stride_dx + cols[None, :], g * w[:, None], mask=mask)
        tl.atomic_add(dw_ptr + rows, tl.sum(g, axis=1), mask=rows < n_rows)


def weighted(x, w, out=None):
    assert x.is_contiguous()
    n_rows, n_cols = x.shape
    if out is None:
        out = torch.empty((n_rows, n_cols), device=x.device, dtype=torch.float32)
    grid = (triton.cdiv(n_rows, 4), triton.cdiv(n_cols, 16))
    _forward[grid](x, w, out, n_rows, n_cols, x.stride(0), out.stride(0), out.stride(1), BLOCK_N=4)
    return out


def gradients(x, w, grad):
    assert grad.is_contiguous() and grad.shape == x.shape
    n_rows, n_cols = x.shape
    dx = torch.empty_like(x, dtype=torch.float32)
    dw = torch.zeros(n_rows, device=x.device, dtype=torch.float32)
    _backward[(triton.cdiv(n_rows, 4),)](
        grad, w, dx, dw, n_rows, n_cols, grad.stride(0), dx.stride(0), BLOCK_N=4
    )
    return dx, dw


class Weighted(torch.autograd.Function):
    @staticmethod
    @ensure_contiguous
    def forward(ctx, x, w):
        shape = x.shape
        flat = x.view(-1, shape[-1])
        out = weighted(flat, w)  # [N, C] fp32
        ctx.save_for_backward(flat, w)
        ctx.shape = shape
        out = out.to(flat.dtype)
        return out.view(shape)

    @staticmethod
    @ensure_contiguous
    def backward(ctx, grad):
        flat, w = ctx.saved_tensors
        go = grad.view(-1, flat.shape[1]).to(torch.float32)
        dx, dw = gradients(flat, w, go)
        return dx.to(flat.dtype).view(ctx.shape), dw.to(w.dtype)
'''
PLACES = {
    "a result": "    # In the type that it ends up in: the kernel rounds as it stores.",
    "a copy": "        # As it is: the kernel makes float32 of what it loads.",
    "a row": "    # Rows are counted in 64 bits: nothing here says how far apart they lie.",
}
FORWARD = "        # In flat.dtype, not in float32: the kernel rounds as it stores."
GRADIENT = "        go = grad.view(-1, flat.shape[1])"
CALL = "        dx, dw = gradients"
ADDRESS = "g_ptr + rows[:, None] * stride_g + cols[None, :], mask=mask, other="


def direct(text: str) -> str | None:
    found = drop_detours.rewrite(text)
    return found.text if found is not None else None


def test_types_casts_and_the_count_of_rows_change_and_nothing_else() -> None:
    after = direct(DETOURS)
    assert after is not None
    ast.parse(after)
    gone, new = changes(DETOURS, after)
    stored, loaded, gradient = (line for line in DETOURS.splitlines() if re.search(r"(out|g|dx)_ptr \+ rows", line))
    assert gone == [
        stored,
        loaded,
        gradient,
        "        out = torch.empty((n_rows, n_cols), device=x.device, dtype=torch.float32)",
        "    dx = torch.empty_like(x, dtype=torch.float32)",
        "        out = out.to(flat.dtype)",
        "        go = grad.view(-1, flat.shape[1]).to(torch.float32)",
        "        return dx.to(flat.dtype).view(ctx.shape), dw.to(w.dtype)",
    ]
    counted = [line.replace("rows[:, None] *", "rows[:, None].to(tl.int64) *") for line in (stored, loaded, gradient)]
    assert new == [
        PLACES["a row"],
        counted[0],
        f"    {PLACES['a row']}",
        *counted[1:],
        f"    {PLACES['a result']}",
        "        out = torch.empty((n_rows, n_cols), device=x.device, dtype=x.dtype)",
        PLACES["a result"],
        "    dx = torch.empty_like(x)",
        FORWARD,
        PLACES["a copy"],
        GRADIENT,
        "        return dx.view(ctx.shape), dw.to(w.dtype)",
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("rows[:, None] * stride_o +", "place +"),
        ("rows[:, None] * stride_o +", "rows[:, None] * (pid * stride_o) +"),
    ],
    ids=["behind a name", "on both sides"],
)
def test_where_the_address_does_not_say_it_the_number_of_the_program_has_64_bits(before: str, after: str) -> None:
    text = DETOURS.replace("    mask = (rows", "    place = rows[:, None] * stride_o\n    mask = (rows", 1)
    found = drop_detours.rewrite(text.replace(before, after), only="_forward")
    assert found is not None
    assert [line for line in changes(text.replace(before, after), found.text)[1] if "int64" in line] == [
        "    pid = tl.program_id(0).to(tl.int64)"
    ]


def test_an_expression_is_widened_whole() -> None:
    text = DETOURS.replace("out_ptr + rows[:, None] * stride_o", "out_ptr + (rows[:, None] + 0) * stride_o")
    after = direct(text.replace("x * w[:, None], mask", "x, mask"))
    assert after is not None and "out_ptr + (rows[:, None] + 0).to(tl.int64) * stride_o +" in after
    too_long = direct(text)
    assert too_long is not None and too_long.count("tl.program_id(0).to(tl.int64)") == 2


def without_comments(text: str) -> list[str]:
    """Who comes second says again why, in a place of its own."""
    return [line for line in text.splitlines() if not line.lstrip().startswith("#")]


@pytest.mark.parametrize(("kernel", "other"), [("_forward", "_backward"), ("_backward", "_forward")])
def test_one_kernel_may_be_changed_alone(kernel: str, other: str) -> None:
    """On an H200 mhc_post_res's forward was 2.9x as fast so, and its backward half as fast in the same shape."""
    found = drop_detours.rewrite(DETOURS, only=kernel)
    assert found is not None and found.kernels == (kernel,)
    then = drop_detours.rewrite(found.text, only=other)
    assert then is not None and without_comments(then.text) == without_comments(direct(DETOURS) or "")
    assert drop_detours.rewrite(DETOURS, only="nobody") is None


def test_it_is_done_once() -> None:
    after = direct(DETOURS)
    assert after is not None and direct(after) is None


def test_the_idea_names_what_now_returns_another_type() -> None:
    found = drop_detours.rewrite(DETOURS)
    assert found is not None and found.kernels == ("_forward", "_backward")
    assert "weighted and gradients now return the type of the inputs" in found.why


@pytest.mark.parametrize("kernel", ["rms_norm", "layer_norm", "cross_entropy", "jsd", "softmax"])
def test_sums_and_numbers_of_a_row_stay_in_float32(kernel: str) -> None:
    assert direct(sample(kernel)) is None


def test_a_load_that_stays_in_its_own_type_is_widened_as_its_copy_was() -> None:
    plain = DETOURS.replace("other=0.0).to(tl.float32)\n        tl.store", "other=0.0)\n        tl.store")
    assert plain != DETOURS
    after = direct(plain)
    assert after is not None and "other=0.0).to(tl.float32)\n        tl.store" in after


def test_a_copy_may_be_made_in_the_call_or_by_the_function_that_launches() -> None:
    named = "        go = grad.view(-1, flat.shape[1]).to(torch.float32)\n"
    inside = DETOURS.replace(named, "").replace("w, go)", "w, grad.view(-1, flat.shape[1]).float())")
    after = direct(inside)
    assert after is not None and "gradients(flat, w, grad.view(-1, flat.shape[1]))" in after
    launching = DETOURS.replace("    n_rows, n_cols = x.shape\n    dx", "    g = x.contiguous().float()\n    dx")
    launching = launching.replace("        grad, w, dx", "        g, w, dx")
    launching = launching.replace("assert grad.is_contiguous() and grad.shape == x.shape", "n_rows, n_cols = x.shape")
    assert (after := direct(launching)) is not None and "    g = x.contiguous().float()" in after
    alone = launching.replace("n_rows, n_cols = x.shape\n    g = x", "n_rows, n_cols = x.shape\n    g = grad")
    assert (after := direct(alone)) is not None and "    g = grad.contiguous()\n" in after


def test_the_function_that_launches_may_cast_by_itself() -> None:
    inside = DETOURS.replace("    return dx, dw", "    return dx.to(x.dtype), dw").replace("dx.to(flat.dtype)", "dx")
    after = direct(inside)
    assert after is not None and "    return dx, dw" in after and "dx = torch.empty_like(x)\n" in after


def test_the_type_may_be_that_of_another_argument() -> None:
    after = direct(DETOURS.replace("dx.to(flat.dtype)", "dx.to(w.dtype)"))
    assert after is not None and "    dx = torch.empty_like(x, dtype=w.dtype)" in after


def test_rows_that_are_counted_in_64_bits_already_stay_as_they_are() -> None:
    wide = DETOURS.replace("tl.program_id(0)", "tl.program_id(0).to(tl.int64)")
    after = direct(wide)
    assert after is not None and "to(tl.int64).to(" not in after
    assert [line for line in changes(wide, after)[1] if "program_id" in line] == []


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("the kernel reads it back", "    w = tl.load(w_ptr", "    w = tl.load(out_ptr"),
        ("the kernel adds to it", "    tl.store(out_ptr", "    tl.atomic_add(out_ptr"),
        ("its type is asked for", "x * w[:, None]", "(x * w[:, None]).to(out_ptr.dtype.element_ty)"),
        ("a number a program", "out_ptr + rows[:, None] * stride_o + cols[None, :] * stride_oc", "out_ptr + pid"),
        ("a row that may be another", "    cols = pid_c", "    rows = rows + 1\n    cols = pid_c"),
        ("another float", "dtype=torch.float32)\n    grid", "dtype=torch.float64)\n    grid"),
        ("the caller brings one", "weighted(flat, w)  #", "weighted(flat, w, w)  #"),
        ("the caller looks at it", "        ctx.shape = shape", "        ctx.shape = shape + out.shape"),
        ("it is saved", "        ctx.save_for_backward(flat, w)", "        ctx.save_for_backward(flat, w, out)"),
        ("it is cast to a named type", "out.to(flat.dtype)", "out.to(torch.bfloat16)"),
        ("the type of what nobody handed over", "out.to(flat.dtype)", "out.to(shape.dtype)"),
        ("the tensor is another in the end", "        ctx.shape = shape", "        flat = flat.double()"),
        ("the parameter is another by then", "    assert x.is_contiguous()", "    x = x.double()"),
        ("it is more than returned", "    return out\n", "    print(out)\n    return out\n"),
        ("it may be made twice", "    grid = (", "    if n_rows > 3:\n        out = torch.empty_like(x)\n    grid = ("),
        ("somebody else calls", "class Weighted", "print(weighted(torch.ones(3, 3), None))\n\n\nclass Weighted"),
        ("it is handed on", "class Weighted", "other = weighted\n\n\nclass Weighted"),
        ("it is decorated", "def weighted(x, w, out", "@torch.no_grad()\ndef weighted(x, w, out"),
        ("two launches", "    return out\n", "    _forward[grid](x, w, x, 1, 1, 1, 1, 1, BLOCK_N=4)\n    return out\n"),
        ("the kernel goes elsewhere", "class Weighted", "print(_forward)\n\n\nclass Weighted"),
    ],
)  # fmt: skip
def test_a_result_stays_when_it_is_not_sure(why: str, before: str, after: str) -> None:
    assert before in DETOURS, why
    text = DETOURS.replace(before, after, 1)
    ast.parse(text)
    assert FORWARD not in (direct(text) or ""), why


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("the kernel stores there", "    for start in", "    tl.store(g_ptr + rows, 0.0)\n    for start in"),
        ("the pointer moves", "    for start in", "    g_ptr += pid * stride_g\n    for start in"),
        ("another type has another number", f"{ADDRESS}0.0", f"{ADDRESS}1e6"),
        ("its type is asked for", "    dx = torch", "    assert grad.dtype == torch.float32\n    dx = torch"),
        ("it makes a tensor of its type", "    dx = torch", "    more = torch.empty_like(grad)\n    dx = torch"),
        ("it is used beside", CALL, f"        ctx.more = go\n{CALL}"),
        ("the original is used beside", CALL, f"        grad.zero_()\n{CALL}"),
        ("the original is a part of another", "grad.view(-1", "ctx.more.view(-1"),
        ("it may have gaps", "    @ensure_contiguous\n    def backward", "    def backward"),
        ("it may be another", CALL, f"        if flat.shape[0] > 3:\n            go = go + 1\n{CALL}"),
        ("another type", "(torch.float32)\n        dx", "(torch.float64)\n        dx"),
        ("another caller has no copy", "class Weighted", "def more(x, g):\n    gradients(x, x, g)\n\n\nclass Weighted"),
        ("handed over twice", "        grad, w, dx, dw", "        grad, grad, dx, dw"),
    ],
)  # fmt: skip
def test_a_copy_stays_when_it_is_not_sure(why: str, before: str, after: str) -> None:
    assert before in DETOURS, why
    text = DETOURS.replace(before, after, 1)
    ast.parse(text)
    assert f"\n{GRADIENT}\n" not in (direct(text) or ""), why


def test_a_line_that_would_be_too_long_is_not_written() -> None:
    for length, is_written in ((60, True), (90, False)):
        weights = "w" * length
        text = DETOURS.replace("gradients(x, w, grad)", f"gradients(x, {weights}, grad)")
        text = text.replace("        grad, w, dx", f"        grad, {weights}, dx").replace("(dx.to(flat", "(dx.to(w")
        text = text.replace("dx.to(flat.dtype)", "dx.to(w.dtype)")
        assert (direct(text) is not None) == is_written


SCRIPT = """
import torch
import through
import straight

torch.manual_seed(7)
for dtype in (torch.float16, torch.bfloat16, torch.float32):
    x, w = torch.randn(3, 5, 37, dtype=dtype), torch.randn(15, dtype=torch.float32)
    grad = torch.randn(3, 5, 37, dtype=dtype)
    found = []
    for module in (through, straight):
        mine, weights = x.clone().requires_grad_(), w.clone().requires_grad_()
        out = module.Weighted.apply(mine, weights)
        found.append((out, *torch.autograd.grad(out, (mine, weights), grad)))
    for was, now in zip(*found):
        assert (now.dtype, now.shape, now.stride()) == (was.dtype, was.shape, was.stride())
        # Triton's interpreter cuts bfloat16 off where torch, and a GPU, round it.
        off = (now.double() - was.double()).abs() / was.double().abs().clamp(min=1e-30)
        assert off.max() <= (2**-7 if dtype == torch.bfloat16 else 0), (dtype, off.max())
print("the same to the last bit")
"""


def test_what_comes_of_it_is_the_same_to_the_last_bit(tmp_path: Path) -> None:
    after = direct(DETOURS)
    assert after is not None
    for name, text in {"through": DETOURS, "straight": after}.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == ["the same to the last bit"]


def rewritten(*exchanged: tuple[str, str]) -> tuple[str, ...]:
    """What the forward kernel alone says of 64 bits, where its text is another one."""
    text = DETOURS
    for before, after in exchanged:
        assert before in text
        text = text.replace(before, after)
    found = drop_detours.rewrite(text, only="_forward")
    assert found is not None
    return tuple(line.strip() for line in changes(text, found.text)[1] if "int64" in line)


ROW = "rows[:, None] * stride_o +"
WHOLE = "pid = tl.program_id(0).to(tl.int64)"


@pytest.mark.parametrize(
    "address",
    [
        "rows[:, None] * stride_o * 2 +",
        "(rows[:, None] * stride_o - 1) +",
        "(rows[:, None] << 11) * 2 +",
        "(rows[:, None] * stride_o).to(tl.int64) +",
        "(rows * stride_o)[:, None] +",
    ],
)
def test_a_product_that_was_made_in_32_bits_is_not_widened_when_it_is_too_late(address: str) -> None:
    assert rewritten((ROW, address), (" * stride_oc, x * w[:, None]", ", x")) == (WHOLE,)


def test_a_place_behind_a_name_that_is_multiplied_again_is_no_number_of_a_row() -> None:
    named = (
        "    w = tl.load(w_ptr + rows, mask=rows < n_rows, other=0.0)\n    tl",
        "    at = rows[:, None] * stride_o\n    tl",
    )
    other = (f"{ROW} cols[None, :] * stride_oc, x * w[:, None]", "at * 2 + cols[None, :] * stride_oc, x")
    assert rewritten(named, other) == (WHOLE,)


def test_what_a_loop_counts_is_not_widened_where_it_is_counted() -> None:
    """Triton's interpreter has one of Python's numbers there, and that has no `.to`."""
    loop = (
        "    tl.store(out_ptr + rows[:, None]",
        "    for row in range(pid, n_rows, 4):\n        tl.store(out_ptr + row",
    )
    assert rewritten(loop) == (WHOLE,)


def test_a_row_that_is_counted_in_64_bits_in_its_address_is_so_already() -> None:
    assert rewritten((ROW, "rows[:, None].to(tl.int64) * stride_o +")) == ()


def test_a_load_in_the_line_that_stores_it_is_widened_with_it() -> None:
    load = "g_ptr + rows[:, None] * stride_g + cols[None, :], mask=mask, other=0.0)"
    line = f"        g = tl.load({load}.to(tl.float32)\n"
    store = "dx_ptr + rows[:, None] * stride_dx + cols[None, :], g * w[:, None], mask=mask)"
    inside = DETOURS.replace(line, "").replace("tl.sum(g, axis=1)", "w")
    inside = inside.replace(store, f"{store.partition(' g')[0]}\n            tl.load({load}\n            * 1)")
    assert line not in inside and store not in inside
    after = direct(inside)
    assert after is not None and "dx_ptr + rows[:, None].to(tl.int64) * stride_dx" in after
    assert f"tl.load({load.replace('rows[:, None]', 'rows[:, None].to(tl.int64)')}.to(tl.float32)\n" in after
