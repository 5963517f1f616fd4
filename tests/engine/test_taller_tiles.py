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
    assert list(found.texts) == [HOST] and found.kernels == ("_product_kernel",)
    assert "a tile of 128 rows loads its weights once where two of 64 load them twice" in found.why
    ast.parse(found.texts[HOST])


def test_it_makes_the_same_products(tmp_path: Path) -> None:
    found = taller_tiles.rewrite(FILES)
    assert found is not None
    assert played({**FILES, **found.texts}, tmp_path) == played(FILES, tmp_path)


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
        ("import triton\n", "import triton\nfrom lib.ops.experts import ROWS_OF_A_TILE\n", "another file reads it"),
        ("import triton\n", "import triton\nimport lib.ops.experts as e\nX = e.ROWS_OF_A_TILE\n", "and by another way"),
    ],
)
def test_left_alone_where_the_kernels_are_of_another_kind(before: str, after: str, why: str) -> None:
    assert before in KERNELS_TEXT
    assert taller_tiles.rewrite({**FILES, KERNELS: KERNELS_TEXT.replace(before, after, 1)}) is None, why


def test_a_kernel_of_the_same_name_in_two_files_is_nobodys() -> None:
    assert taller_tiles.rewrite({**FILES, "src/lib/ops/others.py": KERNELS_TEXT}) is None


def test_the_constant_may_stand_beside_its_kernels() -> None:
    one = KERNELS_TEXT + HOST_TEXT.replace("from lib.ops.experts_kernels import", "# ")
    assert taller_tiles.rewrite({HOST: one}) is not None
    assert taller_tiles.rewrite({HOST: "def broken(:"}) is None
