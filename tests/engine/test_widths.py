"""Where a grid counts the tiles of a row, it says how wide the row is."""

from __future__ import annotations

import pytest

from bot.engine import source, widths
from bot.engine.launch_numbers import with_other_warps
from tests.engine.library import op
from tests.engine.test_narrower_tiles import TILES

WHY = "Twice."


def width(grid: str) -> str:
    text = op(f"_k[{grid}](x, y, n_cols, BLOCK_SIZE=1024)")
    (site,) = source.sites(source.parse(text), "_k")
    return widths.of_tiles(site)


@pytest.mark.parametrize(
    ("grid", "told"),
    [
        ("(triton.cdiv(n_rows, 4), triton.cdiv(n_cols, block))", "n_cols"),
        ("(n_rows, triton.cdiv(n_cols, BLOCK))", "n_cols"),
        ("(triton.cdiv(n_rows, BLOCK), 2)", "n_rows"),
        ("(triton.cdiv(n_cols - 1, BLOCK),)", ""),
        ("(n_rows,)", ""),
        ("grid", ""),
        ("lambda meta: (triton.cdiv(n_cols, BLOCK),)", ""),
    ],
)
def test_the_last_axis_that_counts_tiles_says_it(grid: str, told: str) -> None:
    assert width(grid) == told


def test_warps_for_whole_rows_leave_odd_ones_what_they_have() -> None:
    """Twice the warps made mhc_post_res 2.4 times as slow where a row is odd."""
    after = with_other_warps(TILES, "_scale", more=True, why=WHY, whole=True)
    assert "num_warps=8 if C % 16 == 0 else 4" in after
    assert "num_warps=8)" in " ".join(with_other_warps(TILES, "_scale", more=True, why=WHY).split())


def test_where_no_tiles_are_counted_nobody_knows_which_rows_are_whole() -> None:
    text = op("_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=1024, num_warps=4)")
    assert "num_warps=8)" in with_other_warps(text, "_k", more=True, why=WHY, whole=True)
