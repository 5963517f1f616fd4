"""Lists of launch numbers that end early go on, and stay as long as they were."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from bot.engine.transforms import further_ahead
from tests.engine.library import changes
from tests.engine.on_paper import played
from tests.engine.products import FILES, HOST_TEXT, KERNELS, KERNELS_TEXT


def further(text: str) -> str | None:
    found = further_ahead.rewrite(text)
    return found.text if found is not None else None


def test_steps_are_twice_as_long_and_three_are_under_way() -> None:
    found = further_ahead.rewrite(KERNELS_TEXT)
    assert found is not None and found.kernels == ("_weights_kernel",)
    config = 'triton.Config({"BLOCK_N": bn, "BLOCK_K": bk, "BLOCK_M": bm}, num_warps=nw, num_stages='
    assert changes(KERNELS_TEXT, found.text) == (
        [f"        {config}2)", "        for bm in [16, 32]"],
        [f"    # {further_ahead.COMMENT}", f"        {config}3)", "        for bm in [32, 64]"],
    )
    assert "ends where 2 steps of 32 are under way" in found.why
    ast.parse(found.text)


def test_it_goes_on_once() -> None:
    after = further(KERNELS_TEXT)
    assert after is not None and further(after) is None


def test_it_makes_the_same_products(tmp_path: Path) -> None:
    after = further(KERNELS_TEXT)
    assert after is not None
    assert played({**FILES, KERNELS: after}, tmp_path) == played(FILES, tmp_path)


def test_a_list_may_stand_at_the_kernel() -> None:
    at = KERNELS_TEXT.index("    return [\n        triton")
    listed = KERNELS_TEXT[at:].partition("return ")[2].partition("\n    ]\n")[0] + "\n    ]"
    after = further(KERNELS_TEXT.replace("configs=_weights_configs()", f"configs={listed}"))
    assert after is not None
    assert f"# {further_ahead.COMMENT}\n@triton.autotune(" in after and after.count("[32, 64]") == 1


ENOUGH = "more is under way"
OTHERWISE = "the list is written in another way"


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("for bm in [16, 32]", "for bm in [16, 64]", ENOUGH),
        ("num_warps=nw, num_stages=2", "num_warps=nw, num_stages=3", ENOUGH),
        ("num_warps=nw, num_stages=2", "num_warps=nw, num_stages=1", "one step at a time, which may be meant"),
        ("num_warps=nw, num_stages=2", "num_warps=nw", "nobody says how many are under way"),
        ("num_warps=nw, num_stages=2", "num_warps=nw, num_stages=bm", OTHERWISE),
        ('"BLOCK_M": bm}, num_warps=nw', '"BLOCK_M": bm, "MORE": bm}, num_warps=nw', "a step is another size as well"),
        ('"BLOCK_M": bm}, num_warps=nw', '"BLOCK_M": bm // 1}, num_warps=nw', OTHERWISE),
        ('"BLOCK_M": bm}, num_warps=nw', '"BLOCK_M": bm, **MORE}, num_warps=nw', OTHERWISE),
        ("for bm in [16, 32]", "for bm in STEPS", OTHERWISE),
        ("for bm in [16, 32]", "for bm in [16, 32] if bm < bn", "some are left out"),
        ("        triton.Config({", "        made({", OTHERWISE),
        ("tl.range(0, M, BLOCK_M)", "tl.range(0, M, BLOCK_M, num_stages=2)", "the loop says it itself"),
        ("tl.range(0, M, BLOCK_M)", "tl.range(0, M)", "the loop goes one by one"),
        ("tl.range(0, M, BLOCK_M)", "tl.range(0, M, 2 * BLOCK_M)", "the loop goes by another step"),
        ("acc = tl.dot(tl.trans(a), b, acc=acc)", "acc += tl.sum(a) * tl.sum(b)", "nothing is multiplied"),
        (
            "acc = tl.dot(tl.trans(a), b, acc=acc)",
            "acc += tl.dot(tl.trans(a), b) * tl.load(x + m // 32)",
            "a scale a step",
        ),
        ("acc = tl.dot(tl.trans(a)", "n_seen = m + BLOCK_M\n        acc = tl.dot(tl.trans(a)", "the step is counted"),
        ("acc = tl.dot(tl.trans(a)", "tl.store(x + m, 1.0)\n        acc = tl.dot(tl.trans(a)", "a store each step"),
        ("acc = tl.dot(tl.trans(a), b", "acc = tl.dot(tl.trans(tl.exp(a)), b", "a zero is no zero then"),
        (
            "b = tl.load(x + steps[:, None] * K + cols[None, :], mask=b_mask, other=0.0)",
            "b = others.load(x, steps)",
            "who?",
        ),
        (
            "mask=b_mask, other=0.0)\n        acc = tl.dot(tl.trans",
            "mask=b_mask)\n        acc = tl.dot(tl.trans",
            "anything",
        ),
        (
            "mask=b_mask, other=0.0)\n        acc = tl.dot(tl.trans",
            "mask=b_mask, other=1.0)\n        acc = tl.dot(tl.trans",
            "1",
        ),
        ("steps = m + tl.arange(0, BLOCK_M)", "steps = tl.arange(0, BLOCK_M)", "the mask ends elsewhere"),
        ("b_mask = (steps < M)[:, None]", "b_mask = (steps // 2 < M)[:, None]", "so does this"),
        ("b_mask = (steps < M)[:, None]", "b_mask = ((steps < M) < 1)[:, None]", "it is the other way round"),
        (
            "        acc = tl.dot(tl.trans(a)",
            "        a_mask, _ = b_mask, 0\n        acc = tl.dot(tl.trans(a)",
            "two masks of a name",
        ),
        ("        acc = tl.dot(tl.trans(a)", "        M = M - 1\n        acc = tl.dot(tl.trans(a)", "the end moves"),
        (
            "        acc = tl.dot(tl.trans(a)",
            "        n = a.shape[0]\n        acc = tl.dot(tl.trans(a)",
            "the size is asked for",
        ),
        ('configs=_weights_configs(), key=["N", "K"]', "_weights_configs(), [], {}", "it is pruned, by a place"),
        ('"BLOCK_K": bk, "BLOCK_M": bm}, num_warps=nw', '"BLOCK_M": bm}, num_warps=nw', "a side is said elsewhere"),
        ("for nw in (4, 8)", "for nw in (4, 8) if bm < 32 or nw == 8", "some are left out by a clause below"),
        ("for nw in (4, 8)", "for nw in [bm // 4]", "a step says how many warps"),
        ("for bm in [16, 32]", "for bm in [8, 32]", "a step that is none of a product"),
        ("for bk in [64]", "for bk in [128]", "the smallest would not fit every GPU"),
        ("a_mask = (steps < M)[:, None] & (rows < N)[None, :]", "a_mask = (rows < N)[None, :]", "steps have no mask"),
        ("b_mask = (steps < M)[:, None]", "b_mask = (steps < M + BLOCK_M)[:, None]", "the mask ends elsewhere"),
        ("tl.range(0, M, BLOCK_M)", "tl.range(tl.program_id(0), M, BLOCK_M)", "it begins elsewhere"),
        ("tl.range(0, M, BLOCK_M)", "tl.range(0, tl.program_id(0) * BLOCK_N, BLOCK_M)", "it goes up to a diagonal"),
        ("    tl.store(dw +", "    for n in range(2):\n        acc += n\n    tl.store(dw +", "there is another loop"),
        ('_weights_configs(), key=["N", "K"]', "_weights_configs(), key=[], prune_configs_by={}", "it is pruned"),
        ("def _weights_configs():", "@fewer\ndef _weights_configs():", "nobody looks into a decorator"),
        ("def _rows_configs():", "ALL = _weights_kernel.configs\n\n\ndef _rows_configs():", "the list is read later"),
        ("configs=_rows_configs()", "configs=_weights_configs()", "the list serves a kernel of other steps too"),
        ("def _rows_configs():", "ALL = _weights_configs()\n\n\ndef _rows_configs():", "somebody else takes the list"),
    ],
)
def test_left_alone(before: str, after: str, why: str) -> None:
    assert before in KERNELS_TEXT
    assert further(KERNELS_TEXT.replace(before, after)) is None, why


def test_every_kernel_that_takes_a_list_is_asked_however_it_says_so() -> None:
    at = KERNELS_TEXT.rindex("@triton.autotune")
    kernel = KERNELS_TEXT[at:].replace("_weights_kernel", "_others_kernel")
    turned = kernel.replace('configs=_weights_configs(), key=["N", "K"]', "key=[], configs=_weights_configs()")
    both = further_ahead.rewrite(f"{KERNELS_TEXT}\n\n{turned}")
    assert both is not None and both.kernels == ("_weights_kernel", "_others_kernel")
    assert further(f"{KERNELS_TEXT}\n\n{turned.replace('(steps < M)[:, None] & (rows', '(rows')}") is None


def test_a_public_function_may_serve_others() -> None:
    assert further(KERNELS_TEXT.replace("_weights_configs", "weights_configs")) is None


def test_a_diagonal_by_another_name_is_one() -> None:
    rows = "    rows = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)\n    cols = tl.program_id(1) * BLOCK_K"
    begun = f"    at = tl.program_id(0) * 8\n    end = at + 8\n{rows}"
    assert rows in KERNELS_TEXT
    text = KERNELS_TEXT.replace(rows, begun).replace("range(0, M, BLOCK_M)", "range(0, end, BLOCK_M)")
    assert further(text.replace("steps < M", "steps < end")) is None
    loaded = text.replace("end = at + 8", "end = tl.load(M + at)")
    assert further(loaded.replace("steps < M", "steps < end")) is not None, "as many rows as an expert has"


def test_the_same_list_written_twice_is_left_alone() -> None:
    at = KERNELS_TEXT.index("    return [\n        triton")
    listed = KERNELS_TEXT[at:].partition("return ")[2].partition("\n    ]\n")[0] + "\n    ]"
    once = KERNELS_TEXT.replace("configs=_weights_configs()", f"configs={listed}")
    kernel = once[once.rindex("@triton.autotune") :]
    assert further(once) is not None
    assert further(f"{once}\n\n{kernel.replace('_weights_kernel', '_others_kernel')}") is None


def test_what_somebody_measured_is_not_taken_away() -> None:
    said = "    # 16 was best (measured on A100, PR 12).\n    return [\n"
    after = further(KERNELS_TEXT.replace("    return [\n", said))
    assert after is not None and said.partition("\n")[0] in after


def test_left_alone_where_nothing_tunes_itself_or_nothing_can_be_read() -> None:
    assert further(HOST_TEXT) is None
    assert further("autotune num_stages (") is None
