"""Products over a matrix that is zero far from its diagonal stop where the zeros begin."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from bot.engine.transforms import within_reach
from tests.engine.library import changes, interpret
from tests.engine.neighbours import FORWARD, PLAYED, SOFTMAX, TEXT

VALUES, GRAD_Q, GRAD_K, GRAD_V, GRAD_W = ALL = (
    *("_values_kernel", "_grad_q_kernel", "_grad_k_kernel", "_grad_v_kernel"),
    "_grad_weights_kernel",
)
BLOCKS = "BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,"
BACKWARD = (GRAD_Q, GRAD_K, GRAD_V, GRAD_W)


def rewritten(text: str) -> set[str]:
    found = within_reach.rewrite(text)
    return set(found.kernels) if found is not None else set()


def kernel(text: str, name: str) -> str:
    return text.partition(f"def {name}(")[2].partition("@triton.jit")[0]


def test_a_loop_begins_and_ends_within_reach() -> None:
    found = within_reach.rewrite(TEXT)
    assert found is not None and set(found.kernels) == set(ALL)
    gone, new = changes(kernel(TEXT, GRAD_K), kernel(found.text, GRAD_K))
    assert [line.strip() for line in gone] == [
        BLOCKS,
        "for start in range(0, size, BLOCK_K):",
    ]
    assert [line.strip() for line in new] == [
        f"{BLOCKS} radius: tl.constexpr, every: tl.constexpr,",
        "# Farther from its row than the mask of _scores_kernel reaches m_ptr holds zeros.",
        "reach = every * (radius // 2)",
        "first = 0",
        "last = size",
        "if size > BLOCK_K:",
        "first = tl.maximum(0, row.to(tl.int64) - reach) // BLOCK_K * BLOCK_K",
        "last = tl.minimum(size, row.to(tl.int64) + BLOCK_M + reach)",
        "for start in range(first, last, BLOCK_K):",
    ]
    ast.parse(found.text)


def test_a_tile_of_the_gradient_that_zeros_are_a_factor_of_stays_zero() -> None:
    found = within_reach.rewrite(TEXT)
    assert found is not None
    after = kernel(found.text, GRAD_W)
    assert (
        "    # Farther from its row than the mask of _scores_kernel reaches it is multiplied by zeros.\n"
        "    reach = every * (radius // 2)\n"
        "    if (col - row - BLOCK_M < reach) & (row - col - BLOCK_N < reach):\n"
        "        for start in range(0, width, BLOCK_K):\n"
        "            at = start" in after
    )
    assert "\n    total = total * scale\n" in after


def test_who_launches_them_tells_how_far_that_is() -> None:
    found = within_reach.rewrite(TEXT)
    assert found is not None
    lines = [line.strip() for line in found.text.splitlines()]
    assert lines.count("size, width, 16, 16, 16, radius, every,") == 1
    assert lines.count("size, width, 1.0, 16, 16, 16, ctx.radius, ctx.step,") == 1
    assert lines.count("size, width, 16, 16, 16, ctx.radius, ctx.step,") == 2
    assert lines.count("ctx.radius,") == lines.count("ctx.step,") == 1  # a line of arguments that became too long


def test_a_loop_that_nobody_could_know_to_be_one_turn_is_not_asked_for_it(tmp_path: Path) -> None:
    loops = kernel(TEXT, VALUES)
    text = TEXT.replace(loops, loops.replace("size: tl.constexpr", "size"), 1)
    found = within_reach.rewrite(text)
    assert found is not None and set(found.kernels) == set(ALL)
    assert (
        "    reach = every * (radius // 2)\n"
        "    first = tl.maximum(0, row.to(tl.int64) - reach) // BLOCK_K * BLOCK_K\n"
        "    last = tl.minimum(size, row.to(tl.int64) + BLOCK_M + reach)\n"
        "    # Step by step.\n" in kernel(found.text, VALUES)
    )
    (tmp_path / "ops").mkdir()
    interpret(tmp_path, PLAYED, before=text, after=found.text, **{"ops/softmax": SOFTMAX})


def test_what_somebody_says_of_a_loop_stays_above_it() -> None:
    found = within_reach.rewrite(TEXT)
    assert found is not None
    assert "    # Step by step.\n    for start in range(first, last, BLOCK_K):\n" in kernel(found.text, VALUES)


def test_results_are_the_same(tmp_path: Path) -> None:
    found = within_reach.rewrite(TEXT)
    assert found is not None
    (tmp_path / "ops").mkdir()
    interpret(tmp_path, PLAYED, before=TEXT, after=found.text, **{"ops/softmax": SOFTMAX})


def test_it_takes_what_there_is_of_the_forward_pass_alone() -> None:
    assert rewritten(FORWARD) == {VALUES}


def test_it_stops_once() -> None:
    found = within_reach.rewrite(TEXT)
    assert found is not None and within_reach.rewrite(found.text) is None


def test_a_kernel_that_others_import_keeps_its_parameters() -> None:
    found = within_reach.rewrite(TEXT, (GRAD_K, "_scores_kernel"))
    assert found is not None and set(found.kernels) == set(ALL) - {GRAD_K}


def test_scores_may_be_left_out_where_a_tile_is_masked() -> None:
    loop, ended = "    for start in range(0, width, BLOCK_K):\n", "\n    half = radius // 2\n"
    before = TEXT[TEXT.index(loop) : TEXT.index(ended)]
    masked = TEXT[TEXT.index(ended) : TEXT.index("    acc = tl.where(")]
    inner = "".join(f"    {line}\n" for line in before.splitlines())
    moved = TEXT.replace(masked, "").replace(before, f"{masked}    if tl.max((ones > 0.0).to(tl.int32)) > 0:\n{inner}")
    assert rewritten(moved) == set(ALL)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("begin = tl.maximum(0, rows[:, None] - every * half)", "begin = rows[:, None] - every * half"),
        ("(cols[None, :] < end)", "(cols[None, :] <= rows[:, None] + every * half)"),
        ("tl.where(ones > 0.0, acc", "tl.where(near & valid, acc"),
        ('float("-inf")', '-float("inf")'),
        ("grad_w = torch.zeros_like(weights)", "grad_w = torch.empty_like(weights)"),
        ("from ops.softmax", "from the.ops.softmax"),
    ],
)
def test_it_may_be_said_in_other_words(before: str, after: str) -> None:
    assert TEXT.count(before) == 1 and rewritten(TEXT.replace(before, after)) == set(ALL)


MADE = "scores = torch.empty(batches, size, size, device=q.device, dtype=q.dtype)"
SOFT = "soft, block, warps, many = _softmax_forward(flat)"
RESTORED = "q, k, v, weights = ctx.saved_tensors"
GRAD = "grad_w = torch.zeros_like(weights)"


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("- every * half", "- every * 7", "columns count that lie farther behind"),
        ("- every * half", "- radius", "columns count that lie farther behind"),
        ("- every * half", "+ every * half", "a row may count no column"),
        ("+ every * half + 1", "+ every * half", "a row does not count its own column"),
        ("rows[:, None] + every * half + 1", "rows[:, None] + rows[:, None] + every * half", "no reach"),
        ("half = radius // 2", "half = batch // 2", "the reach is no constant"),
        ("half = radius // 2", "half = radius // 2\n    half = half + 1", "the reach is another one"),
        ("near = near & (", "near = near | (", "more counts than lies near"),
        ("near = near & (", "near = (", "more counts than lies near"),
        ("    if every > 1:", "    near = rows[:, None] >= 0\n    if every > 1:", "more counts than lies near"),
        ("(apart % every) == 0", "(apart % every) == 1", "a row does not count its own column"),
        ("(apart % every) == 0", "apart > 0", "a row does not count its own column"),
        ("apart = cols[None, :] - rows[:, None]", "apart = cols[None, :] + rows[:, None]", "nor does it here"),
        (
            "(cols[None, :] < end)",
            "(cols[None, :] < end) & (cols[None, :] < width)",
            "rows behind the width have no column",
        ),
        ("ones = tl.where(near, 1.0, 0.0)", "ones = tl.where(near, 1.0, 0.5)", "all of it counts"),
        ("ones = tl.where(near, 1.0, 0.0)", "ones = tl.where(near, -1.0, 0.0)", "nothing counts"),
        ("ones = tl.where(near, 1.0, 0.0)", "ones = tl.where(near, 1e-60, 0.0)", "nothing counts"),
        ('float("-inf")', "-10000.0", "what lies far is not minus infinity"),
        ("tl.where(ones > 0.0, acc, ", "tl.where(ones > 0.0, acc, 0.0 * ", "what lies far is a number"),
        ('acc, float("-inf"))\n', 'acc, float("-inf"))\n    acc = acc + 1.0\n    acc += q_ptr\n', "more is done to it"),
        (
            "    tl.store(places, acc, mask=valid)",
            "    if every > 1:\n        tl.store(places, acc, mask=valid)",
            "not all is stored",
        ),
        ("tl.store(places, acc, mask=valid)", "tl.store(places, acc, mask=valid & near)", "not all is stored"),
        (
            "(rows[:, None] < size) & (cols[None, :] < size)\n    acc",
            "(cols[None, :] < size)\n    acc",
            "rows behind the end",
        ),
        (f"    {MADE}\n", f"    {MADE}\n    kept = scores\n", "others get the scores"),
        (MADE, "scores = torch.zeros_like(q)", "the scores are of other sizes"),
        (MADE, MADE.replace("torch.empty", "some"), "the scores may be anybody's"),
        (f"    {SOFT}\n", f"    scores[0] = 0\n    {SOFT}\n", "scores are written over"),
        (f"    {SOFT}\n", f"    flat = flat + 0.5\n    {SOFT}\n", "the softmax is of something else"),
        (
            "flat = scores.view(batches * size, size)",
            "flat = scores.view(batches, size * size)",
            "rows of another length",
        ),
        (SOFT, "soft, block, warps, many = _softmax_forward(flat, 1)", "nobody knows what else it is told"),
        (SOFT, "block, soft, warps, many = _softmax_forward(flat)", "a number has no view"),
        ("soft.view(batches, size, size)", "soft.view(batches, size * size, 1)", "rows and columns are others"),
        (
            "import _softmax_backward, _softmax_forward",
            "import _softmax_backward, x as _softmax_forward",
            "another softmax",
        ),
        ("from ops.softmax import", "from settings import", "another softmax"),
        ("def attend(", "def _softmax_forward(x):\n    return x\n\n\ndef attend(", "another softmax"),
        (
            "    out = torch.empty_like(v)\n",
            "    out = torch.empty_like(v)\n    radius = radius + 2\n",
            "another reach",
        ),
        ("    out = torch.empty_like(v)\n", "    out = torch.empty_like(v)\n    size = size + 0\n", "another size"),
        ("    out = torch.empty_like(v)\n", "    out = lambda: scores\n", "a name may get a value unseen"),
        ("import triton.language as tl", "import some.language as tl", "the language is another"),
        ("    return out, weights,", "    weights.zero_()\n    return out, weights,", "others get the weights"),
        ("return out, weights, (", "return out, weights, change([weights]), (", "others get the weights"),
        ("    return out, weights,", "    eval('weights.add_(1)')\n    return out, weights,", "others may get all"),
        (
            "    places = out_ptr",
            "    for acc in range(3):\n        pass\n    places = out_ptr",
            "another value is stored",
        ),
        ("def attend(", "if torch.version.hip:\n    _scores_kernel = other\n\n\ndef attend(", "another kernel"),
        ("radius, every):\n", "radius, every, _scores_kernel=other):\n", "another kernel"),
    ],
)
def test_all_stays_where_nobody_knows_that_the_weights_are_zero(before: str, after: str, why: str) -> None:
    assert before in FORWARD and rewritten(FORWARD.replace(before, after, 1)) == set(), why


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("ctx.save_for_backward(q, k, v, weights)", "ctx.save_for_backward(q, k, weights, v)", "another one is zero"),
        ("ctx.save_for_backward(q, k, v, weights)", "ctx.save_for_backward(q, k, v, weights + 1)", "nor is this"),
        (RESTORED, "q, k, weights, v = ctx.saved_tensors", "another one is zero"),
        (RESTORED, f"{RESTORED}\n        weights = weights + 1", "another one is zero"),
        (RESTORED, f"{RESTORED}\n        weights[0] = 1", "it is written over"),
        (RESTORED, f"{RESTORED}\n        ctx.radius = 0", "another reach"),
        ("ctx.radius = radius", "ctx.radius = radius - 1", "another reach"),
        ("ctx.radius = radius", "ctx.radius = radius\n        ctx.radius = 1", "another reach"),
        ("ctx.radius = radius", "pass", "nobody tells the backward pass"),
        ("ctx.radius = radius", "ctx.radius = radius\n        keep(ctx)", "others may change it"),
        ("ctx.radius = radius", "ctx.radius = radius\n        ctx.__dict__.update(radius=1)", "another reach"),
        ("ctx.save_for_backward(q, k, v, weights)", "ctx.save_for_backward(q, *k, v, weights)", "nobody counts them"),
        ("return out, weights, (block, warps, many)", "return *out, weights, many", "nobody counts them"),
        ("return out, weights, (block, warps, many)", "return {out, weights, (block, warps, many)}", "in any order"),
        ("def attend(q, k, v, radius, every)", "def attend(q, k, v, *more, radius=3, every=1)", "another reach"),
        ("def attend(", "@some\ndef attend(", "others may change the weights"),
        ("class Near(", "@some\nclass Near(", "it may be another class"),
        (
            "return grad_q, grad_k, grad_v, None, None\n",
            "return grad_q, grad_k, grad_v, None, None\n\n    forward = staticmethod(some(forward))\n",
            "the pass may be another one",
        ),
        ("= attend(q, k, v, radius, every)", "= attend(q, k, v, radius + 2, every)", "another reach"),
        ("= attend(q, k, v, radius, every)", "= attend(q, k, v, every=every, radius=radius)", "not by its place"),
        ("        ctx.step = every\n", "        ctx.step = every\n        out = weights\n", "others get the weights"),
        ("        batches, size, width = q.shape", "        batches, size, width = grad.shape", "another size"),
        ("        batches, size, width = q.shape", "        batches, width, size = q.shape", "another size"),
        (
            "        batches, size, width = q.shape",
            "        batches, size, width = q.shape\n        size -= 1",
            "another size",
        ),
        ("    @staticmethod\n    def backward", "    @some\n    def backward", "the pass may be called with others"),
        ("torch.autograd.Function", "Some", "nobody knows the class"),
        (
            "return grad_q, grad_k, grad_v, None, None\n",
            "return grad_q, grad_k, grad_v, None, None\n\n\nclass Other(Near):\n    pass\n",
            "others know the class",
        ),
        (
            "return grad_q, grad_k, grad_v, None, None\n",
            "return grad_q, grad_k, grad_v, None, None\n\n\nattend(1, 2, 3, 4, 5)\n",
            "others know the function",
        ),
    ],
)
def test_the_backward_pass_stays_where_nobody_knows_what_it_gets(before: str, after: str, why: str) -> None:
    assert before in TEXT and rewritten(TEXT.replace(before, after, 1)) <= {VALUES}, why


@pytest.mark.parametrize(
    ("before", "after", "stays", "why"),
    [
        ("            grad, v, grad_w,", "            grad, v, weights,", BACKWARD, "the weights are written over"),
        ("        grid = (", "        flat += 1\n        grid = (", BACKWARD, "the weights are written over"),
        (
            "made = _softmax_backward(flat_grad, flat,",
            "made = _softmax_backward(flat_grad, flat_grad,",
            (GRAD_Q, GRAD_K, GRAD_W),
            "no weights",
        ),
        (
            "made = _softmax_backward(flat_grad, flat,",
            "made = _softmax_backward(flat, flat_grad,",
            (GRAD_Q, GRAD_K, GRAD_W),
            "no weights",
        ),
        (
            "grad_s = made.view(batches, size, size)",
            "grad_s = made.view(batches, size * size, 1)",
            (GRAD_Q, GRAD_K, GRAD_W),
            "other rows",
        ),
        (
            "grad_s = made.view(",
            "made += 1\n        grad_s = made.view(",
            (GRAD_Q, GRAD_K, GRAD_W),
            "it is written over",
        ),
        ("None, None\n", "None, grad_s\n", (GRAD_Q, GRAD_K), "others get the matrix"),
        ("None, None\n", "None, grad_w\n", (GRAD_W,), "others want the gradient"),
        (GRAD, "grad_w = ctx.buffer", (GRAD_W,), "the gradient may be anybody's"),
        (GRAD, "grad_w = torch.zeros_like(q)", (GRAD_W,), "the gradient is of other sizes"),
        ("    total = total * scale", "    total = total + scale", (GRAD_W,), "zero is another number then"),
        ("    total = total * scale", "    total = tl.exp(total)", (GRAD_W,), "zero is another number then"),
        ("    total = total * scale", "    total = total * scale\n    some = total", (GRAD_W,), "it serves for more"),
        (
            "    total = total * scale",
            "    total = total * scale + at",
            (GRAD_W,),
            "what a turn made is read behind it",
        ),
        ("    total = total * scale", "    tl.atomic_add(v_ptr, 1.0)", (GRAD_W,), "it does more"),
        ("    total = total * scale", "    tl.store(v_ptr, 1.0)", (GRAD_W,), "it stores more"),
        (
            "    col = tl.program_id(2) * BLOCK_N",
            "    col = tl.program_id(2) * BLOCK_N + 1",
            (GRAD_W,),
            "columns begin elsewhere",
        ),
        (
            "16, 16, 16,\n    )\n    return",
            "16, 16, BLOCK_K=16,\n    )\n    return",
            (VALUES,),
            "a number is given by name",
        ),
        ("16, 16, 16,\n    )\n    return", "16, 16, *blocks,\n    )\n    return", (VALUES,), "nobody knows which"),
        ("    _values_kernel[", "    if every:\n        _values_kernel[", (VALUES,), "it is launched now and then"),
    ],
)
def test_a_matrix_is_zero_or_stays(before: str, after: str, stays: tuple[str, ...], why: str) -> None:
    assert before in TEXT and not rewritten(TEXT.replace(before, after, 1)) & set(stays), why


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("size: tl.constexpr, width: tl.constexpr,\n", "width: tl.constexpr, size: tl.constexpr,\n", "another end"),
        ("    row = tl", "    size = size + 0\n    row = tl", "the loop ends by what changes"),
        ("BLOCK_K: tl.constexpr,\n", "BLOCK_K: tl.constexpr = 16,\n", "a parameter has a value of its own"),
        ("BLOCK_K: tl.constexpr,\n", "radius: tl.constexpr,\n", "a name is taken"),
        ("range(0, size, BLOCK_K)", "range(BLOCK_K, size, BLOCK_K)", "it begins elsewhere"),
        ("range(0, size, BLOCK_K)", "tl.static_range(0, size, BLOCK_K)", "the loop is written out"),
        ("at = start + tl.arange(0, BLOCK_K)", "at = start + 1 + tl.arange(0, BLOCK_K)", "places begin elsewhere"),
        ("at = start + tl.arange(0, BLOCK_K)", "at = start + tl.arange(0, BLOCK_M)", "places go on otherwise"),
        ("inside = at < size", "inside = at < size\n        odd = at % 7", "a turn reckons with its places"),
        ("inside = at < size", "inside = at < size\n        odd = at * 7 < size", "nor does it wrap in more bits"),
        (
            "w = tl.load(w_ptrs, mask=w_mask, other=0.0)",
            "w = tl.exp(tl.load(w_ptrs, mask=w_mask, other=0.0))",
            "zero is one",
        ),
        ("inside = at < size", "inside = at < size\n        seen = start", "somebody asks for the turn"),
        ("total += tl.dot(w, v)", "total += tl.dot(w, v)\n        reach = 0", "a name is taken"),
        ("total += tl.dot(w, v)", "total += tl.dot(w + 1.0, v)", "a chunk is not multiplied as it is"),
        ("total += tl.dot(w, v)", "total += tl.dot(w, v) + v", "more is added"),
        ("total += tl.dot(w, v)", "total = tl.dot(w, v) - total", "a turn needs the one before"),
        ("total += tl.dot(w, v)", "total += tl.dot(w, v)\n        v_ptr += BLOCK_K", "a turn needs the one before"),
        ("total += tl.dot(w, v)", "total += tl.dot(w, v)\n        tl.store(out_ptr, 1.0)", "a turn stores"),
        ("total += tl.dot(w, v)", "total += tl.dot(w, v)\n        seen = tl.sum(w)", "a chunk serves for more"),
        ("    places = out_ptr", "    total += at\n    places = out_ptr", "a turn's places are read behind the loop"),
        ("w = tl.load(w_ptrs, mask=w_mask, other=0.0)", "w = tl.load(w_ptrs, mask=w_mask, other=1.0)", "ones outside"),
        ("w = tl.load(w_ptrs, mask=w_mask, other=0.0)", "w = tl.load(w_ptrs)", "it is read behind its end"),
        ("(rows[:, None] < size) & inside[None, :]", "inside[None, :]", "it is read behind its last row"),
        (
            "(rows[:, None] < size) & inside[None, :]",
            "(rows[:, None] < width) & inside[None, :]",
            "nor is this its end",
        ),
        ("(rows[:, None] < size) & inside[None, :]", "(rows[:, None] < size) | inside[None, :]", "nor is this its end"),
        ("w = tl.load(", "w_ptrs = w_ptrs + 1\n        w = tl.load(", "places lie beside"),
        ("+ at[None, :] * w_stride_2", "+ at[None, :] * w_stride_1", "columns are counted by rows"),
        ("+ at[None, :] * w_stride_2", "+ (at + 1)[None, :] * w_stride_2", "places lie beside"),
        ("+ at[None, :] * w_stride_2", "+ at[None, :] * w_stride_2 + 1", "places lie beside"),
        ("+ batch * w_stride_0 +", "+ rows[:, None] * w_stride_0 +", "each row is another matrix's"),
        ("row = tl.program_id(1) * BLOCK_M\n", "row = tl.program_id(1) * BLOCK_N\n", "rows begin elsewhere"),
        ("    rows = row + tl", "    row = row + 1\n    rows = row + tl", "rows begin elsewhere"),
        ("    rows = row + tl", "    rows = row - tl", "rows lie before"),
    ],
)
def test_a_loop_that_does_more_stays(before: str, after: str, why: str) -> None:
    assert before in kernel(FORWARD, VALUES)
    changed = FORWARD.replace(kernel(FORWARD, VALUES), kernel(FORWARD, VALUES).replace(before, after, 1), 1)
    assert rewritten(changed) == set(), why


def test_a_kernel_that_is_launched_elsewhere_too_stays() -> None:
    again = TEXT.replace("    return out, weights", "    ALL = [_values_kernel]\n    return out, weights", 1)
    assert rewritten(again) == {*BACKWARD}
