"""Tiles of products get twice the rows where a constant says how many, and nothing else reads it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from bot.engine.transforms import taller_tiles
from tests.engine.library import changes
from tests.engine.on_paper import played
from tests.engine.products import FILES, HOST, HOST_TEXT, KERNELS, KERNELS_TEXT


def test_the_constant_is_twice_as_much_and_a_line_says_why() -> None:
    found = taller_tiles.rewrite(FILES)
    assert found is not None
    assert changes(HOST_TEXT, found.texts[HOST]) == (
        ["ROWS_OF_A_TILE = 64"],
        [f"# {taller_tiles.COMMENT}", "ROWS_OF_A_TILE = 128"],
    )
    assert found.kernels == ("_product_kernel",)
    assert "a tile of 128 rows loads the other operand once where two of 64 load it twice" in found.why
    assert all(ast.parse(text) for text in found.texts.values())


def test_a_list_of_one_takes_half_of_its_step() -> None:
    """In float32, and with its tuning switched off, a kernel of fused_moe would take 256 KiB of an H100's 227."""
    found = taller_tiles.rewrite(FILES)
    assert found is not None and set(found.texts) == {HOST, KERNELS}
    pinned = '        return [triton.Config({"BLOCK_N": 64, "BLOCK_K": %d}, num_warps=4, num_stages=2)]'
    assert changes(KERNELS_TEXT, found.texts[KERNELS]) == (
        [pinned % 64],
        [f"        # {taller_tiles.HALVED}", pinned % 32],
    )


@pytest.mark.parametrize(("step", "then"), [(32, 16), (16, None), (24, None)])
def test_half_of_a_step_is_one_that_a_product_takes(step: int, then: int | None) -> None:
    text = KERNELS_TEXT.replace('{"BLOCK_N": 64, "BLOCK_K": 64}', f'{{"BLOCK_N": 64, "BLOCK_K": {step}}}')
    found = taller_tiles.rewrite({**FILES, KERNELS: text})
    assert (found is not None and f'"BLOCK_K": {then}}}, num_warps' in found.texts[KERNELS]) is (then is not None)


def test_what_is_tuned_alone_changes_no_other_file() -> None:
    at, end = KERNELS_TEXT.index("    if os.environ"), KERNELS_TEXT.index("    configs = []")
    text = KERNELS_TEXT[:at] + KERNELS_TEXT[end:]
    found = taller_tiles.rewrite({**FILES, KERNELS: text})
    assert found is not None and list(found.texts) == [HOST]


@pytest.mark.parametrize("tunes", [True, False])
def test_it_makes_the_same_products(tunes: bool, tmp_path: Path) -> None:
    found = taller_tiles.rewrite(FILES)
    assert found is not None
    assert played({**FILES, **found.texts}, tmp_path, tunes=tunes) == played(FILES, tmp_path, tunes=tunes)


@pytest.mark.parametrize(("rows", "then"), [(8, None), (16, 32), (32, 64), (48, None), (128, None)])
def test_powers_of_two_up_to_128_rows(rows: int, then: int | None) -> None:
    found = taller_tiles.rewrite({**FILES, HOST: HOST_TEXT.replace("A_TILE = 64", f"A_TILE = {rows}")})
    assert (found is not None and f"A_TILE = {then}\n" in found.texts[HOST]) is (then is not None)


LAUNCH = "BLOCK_M=ROWS_OF_A_TILE)"


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("ROWS_OF_A_TILE = 64", "ROWS_OF_A_TILE = 64\nOTHERS = 2 * ROWS_OF_A_TILE", "something else is made of it"),
        ("ROWS_OF_A_TILE = 64", "ROWS_OF_A_TILE = 64\nROWS_OF_A_TILE = 32", "it is said twice"),
        ("    M, K = x.shape\n    N = w", "    M, K = x.shape\n    assert M > ROWS_OF_A_TILE\n    N = w", "asked"),
        ("    out = torch", "    each += 1\n    out = torch", "the parameter is counted with"),
        ("tiles(x), triton", "tiles(x, 64), triton", "a caller says how many rows"),
        ("tiles(x), triton", "tiles(x, each=64), triton", "a caller says it by name"),
        ("tiles(x), triton", "tiles(*x), triton", "nobody knows what a caller says"),
        (LAUNCH, "BLOCK_N=ROWS_OF_A_TILE)", "it is the width of a tile"),
        (LAUNCH, "BLOCK_K=ROWS_OF_A_TILE)", "it is a step"),
        (LAUNCH, "BLOCK_M=ROWS_OF_A_TILE, BLOCK_K=ROWS_OF_A_TILE)", "it is a step as well"),
        ("EACH=each)", "EACH=64)", "a launch counts tiles by itself"),
        ("def tiles", "TILE = 64\n\n\ndef tiles", "somebody else says so many"),
        (
            "    N = w.shape[0]\n",
            "    N = w.shape[0]\n    run = _product_kernel[(1,)]\n",
            "it is launched in another way",
        ),
        ("_product_kernel\n", "_product_kernel\nfrom lib.ops.experts_kernels import _product_kernel as k\n", "or name"),
        ("x, dy, dw, M, N, K)", "x, dy, dw, M, N, K, BLOCK_K=ROWS_OF_A_TILE)", "the width of another kernel"),
        ("A_TILE = 64", "A_TILE = 64  # 64 rows: one warp group", "the comment would be wrong"),
        ("import torch\n", "import torch\nfrom lib.conf import *\n", "nobody knows what that brings"),
        ("# Rows of a tile.", 'FOUND = globals()["ROWS_OF_A_TILE"]', "it is found by its name"),
        ("def backward", "many = tiles\n\n\ndef backward", "the function has another name"),
        ("def tiles", "@torch.no_grad()\ndef tiles", "nobody looks into a decorator"),
        ("    y = torch.empty", '    pads = PAD["it"](x, to=ROWS_OF_A_TILE)\n    y = torch.empty', "that is no launch"),
    ],
)
def test_left_alone_where_it_is_read_otherwise(before: str, after: str, why: str) -> None:
    assert before in HOST_TEXT
    assert taller_tiles.rewrite({**FILES, HOST: HOST_TEXT.replace(before, after)}) is None, why


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ('@triton.autotune(configs=_rows_configs(), key=["N", "K"])\n', "", "its launch numbers are no list's"),
        ("acc = tl.dot(a, tl.trans(b), acc=acc)", "acc += tl.sum(a) + tl.sum(b)", "it multiplies no tiles"),
        (
            "    acc = tl.zeros((BLOCK_M",
            "    w += tl.load(w + tl.program_id(0))\n    acc = tl.zeros((BLOCK_M",
            "a tile's own",
        ),
        (
            "rows = tl.program_id(0) * BLOCK_M +",
            "rows = tl.program_id(1) * N + tl.program_id(0) * BLOCK_M +",
            "in groups",
        ),
        ("rows = tl.program_id(0) * BLOCK_M", "rows = tl.program_id(axis) * BLOCK_M", "which number?"),
        ("(rows < M)[:, None] & (steps", "(rows < rows + 1)[:, None] & (steps", "no limit"),
        ("(rows < M)[:, None] & (steps", "((rows < M) < 1)[:, None] & (steps", "the other way round"),
        (
            "    acc = tl.zeros((BLOCK_M",
            "    acc_n = tl.sum(rows, 0)\n    acc = tl.zeros((BLOCK_M",
            "rows are added up",
        ),
        ("        acc = tl.dot(a,", "        a = others.load(x, rows)\n        acc = tl.dot(a,", "who?"),
        ("        acc = tl.dot(a,", "        a_mask, _ = b_mask, 0\n        acc = tl.dot(a,", "two masks of a name"),
        (
            '"BLOCK_K": 64}, num_warps=4, num_stages=2)]',
            '"BLOCK_K": 64}, num_warps=4, num_stages=2)][:1]',
            "of how many?",
        ),
        ("tl.zeros((BLOCK_M, BLOCK_N)", "tl.zeros((BLOCK_M, BLOCK_M)", "it is the width as well"),
        ("a_mask = (rows < M)[:, None] & (steps < K)[None, :]", "a_mask = (steps < K)[None, :]", "rows have no mask"),
        ("a_mask = (rows < M)[:, None] &", "a_mask = (rows < M)[:, None] |", "the mask lets others pass"),
        ("mask=(rows < M)[:, None] & (cols < N)[None, :])\n\n", "mask=(cols < N)[None, :])\n\n", "nor a store's"),
        ("x + rows[:, None] * K", "x + rows[:, None] * BLOCK_M", "it is a stride"),
        ("    acc = tl.zeros((BLOCK_M", "    tl.static_assert(BLOCK_M < 65)\n    acc = tl.zeros((BLOCK_M", "a limit"),
        ("        acc = tl.dot(a,", "        a = _helped(a, x + rows)\n        acc = tl.dot(a,", "who?"),
        ('_rows_configs(), key=["N", "K"]', "_rows_configs(), key=[], prune_configs_by={}", "it is pruned"),
        ("(M + EACH - 1) // EACH", "tl.sum(tl.arange(0, EACH))", "who counts tiles does more"),
        ("import triton\n", "import triton\nfrom lib.ops.experts import ROWS_OF_A_TILE\n", "another file reads it"),
        ("import triton\n", "import triton\nfrom lib.ops.experts import *\n", "another file may read it"),
        ("import triton\n", "import triton\nfrom lib.ops.experts import tiles as count\n", "another file counts tiles"),
        ("import triton\n", "import triton\nimport lib.ops.experts as e\nX = e.ROWS_OF_A_TILE\n", "and by another way"),
    ],
)
def test_left_alone_where_the_kernels_are_of_another_kind(before: str, after: str, why: str) -> None:
    assert before in KERNELS_TEXT
    assert taller_tiles.rewrite({**FILES, KERNELS: KERNELS_TEXT.replace(before, after, 1)}) is None, why


def test_a_kernel_of_the_same_name_in_two_files_is_nobodys() -> None:
    assert taller_tiles.rewrite({**FILES, "src/lib/ops/others.py": KERNELS_TEXT}) is None


def test_another_file_that_launches_the_kernel_has_a_height_of_its_own() -> None:
    again = HOST_TEXT.replace("ROWS_OF_A_TILE", "ROWS").replace("= 64", "= 32")
    assert taller_tiles.rewrite({**FILES, "src/lib/ops/again.py": again}) is None


LISTED = {
    HOST: HOST_TEXT.replace("return int(out.item())", "return out")
    .replace("    y = torch.empty", "    begins = tiles(x)\n    y = torch.empty")
    .replace("(tiles(x), triton", "(begins.shape[0], triton")
    .replace("(x, w, y, M, N, K, BLOCK_M", "(x, w, y, begins, M, N, K, BLOCK_M")
    .replace("rows, out, rows.shape[0], EACH", "rows, begins, rows.shape[0], EACH")
    .replace("    out = torch", "    begins = torch")
    .replace("return out", "return begins"),
    KERNELS: KERNELS_TEXT.replace("_product_kernel(x, w, y, M", "_product_kernel(x, w, y, begins, M")
    .replace(
        "    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)\n    cols = tl.program_id(1) * BLOCK_N",
        "    tile = tl.program_id(0)\n    begin = tl.load(begins + tile)\n    M = tl.load(M + begin)\n"
        "    rows = (begin + tl.arange(0, BLOCK_M)).to(tl.int64)\n    cols = tl.program_id(1) * BLOCK_N",
    )
    .replace("M = tl.load(M + begin)", "end = tl.load(M + begin)")
    .replace("(rows < M)", "(rows < end)"),
}
"""The same with a list of where tiles begin, as fused_moe has it."""


def test_nobody_else_has_a_program_for_each_tile() -> None:
    grid = '[lambda meta: (triton.cdiv(N, meta["BLOCK_N"]), triton.cdiv(K, meta["BLOCK_K"]))]'
    host = HOST_TEXT.replace("_weights_kernel[grid]", f"_weights_kernel{grid}")
    assert taller_tiles.rewrite({**FILES, HOST: host}) is not None
    for count in ("tiles(x)", "many"):
        others = host.replace("    N = dy", "    many = tiles(x)\n    N = dy").replace(
            '(N, meta["BLOCK_N"]), t', f"({count}, 1), t"
        )
        assert others != host
        assert taller_tiles.rewrite({**FILES, HOST: others}) is None
    by_name = HOST_TEXT.replace('grid = lambda meta: (triton.cdiv(N, meta["BLOCK_N"])', "grid = lambda meta: (tiles(x)")
    assert by_name != HOST_TEXT and taller_tiles.rewrite({**FILES, HOST: by_name}) is None


def test_a_list_of_tiles_is_made_and_read_by_who_knows_the_height() -> None:
    assert taller_tiles.rewrite(LISTED) is not None
    for before, after in (
        ("rows, begins, rows.shape[0], EACH", "rows, rows, rows.shape[0], EACH"),
        ("(x, dy, dw, M", "(x, begins, dw, M"),
    ):
        assert before in LISTED[HOST]
        assert taller_tiles.rewrite({**LISTED, HOST: LISTED[HOST].replace(before, after)}) is None
    for before, after in (("(rows < end)", "(rows < K)"), ("begins + tile", "begins + tile // 2 * 2")):
        assert before in LISTED[KERNELS]
        found = taller_tiles.rewrite({**LISTED, KERNELS: LISTED[KERNELS].replace(before, after)})
        assert (found is None) is (before == "(rows < end)")


def test_what_somebody_measured_is_not_taken_away() -> None:
    said = "# 64 was best (measured on A100, PR 12).\nROWS_OF_A_TILE = 64"
    found = taller_tiles.rewrite({**FILES, HOST: HOST_TEXT.replace("ROWS_OF_A_TILE = 64", said)})
    assert found is not None and "# 64 was best (measured on A100, PR 12).\n" in found.texts[HOST]


def test_twice_says_it_once() -> None:
    first = taller_tiles.rewrite({**FILES, HOST: HOST_TEXT.replace("A_TILE = 64", "A_TILE = 32")})
    assert first is not None
    second = taller_tiles.rewrite({**FILES, **first.texts})
    assert second is not None and second.texts[HOST].count(taller_tiles.COMMENT) == 1
    assert '"BLOCK_K": 16}, num_warps' in second.texts[KERNELS] and second.texts[KERNELS].count("# Half the step") == 1


def test_the_constant_may_stand_beside_its_kernels() -> None:
    one = KERNELS_TEXT + HOST_TEXT.replace("from lib.ops.experts_kernels import", "# ")
    assert taller_tiles.rewrite({HOST: one}) is not None
    assert taller_tiles.rewrite({HOST: "def broken(:"}) is None
