"""A kernel says how many elements a program holds: its largest tile, not the largest constant called a block."""

from __future__ import annotations

import pytest

from bot.engine.race_field import numbers_of
from bot.engine.space import Followed, elements, followed, plain_counts, settings
from bot.engine.tiles import elements as held
from bot.engine.tiles import reads
from bot.model.measurement import Launch
from tests.analysis import made

HEAD = "import triton\nimport triton.language as tl\n\n\n"
SQUARE = """@triton.jit
def _k(x, n, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    col = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (row[:, None] < n) & (col[None, :] < n)
    v = tl.load(x + row[:, None] * n + col[None, :], mask=inside)
    zero = tl.zeros(v.shape, dtype=v.dtype)
    tl.store(x + row[:, None] * n + col[None, :], tl.where(inside, v, zero), mask=inside)
"""
"""As liger's masks of multi_token_attention."""
STREAMS = """@triton.jit
def _k(x, w, n, HC: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_C: tl.constexpr):
    rows = tl.arange(0, BLOCK_N)
    cols = tl.arange(0, BLOCK_C)
    f = tl.load(x + rows[:, None] * n + cols[None, :]).to(tl.float32)
    h = tl.load(w + rows[None, :] + tl.arange(0, HC)[:, None])
    acc = f[None, :, :] * h[:, :, None]
    for i in tl.static_range(0, HC):
        acc += f[None, :, :] * i
    tl.store(x + rows, tl.sum(tl.sum(acc, axis=0), axis=1))
"""
"""As its mhc."""
HEADS = """@triton.jit
def _k(q, hd: tl.constexpr, pad_heads: tl.constexpr, pad_hd: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    at = tl.arange(0, pad_heads)[:, None] * hd + tl.arange(0, pad_hd // 2)[None, :]
    tl.store(q + at, tl.load(q + at) * 2)
"""
"""As its qwen2vl_mrope, which never reads its block."""
WALK = """@triton.jit
def _k(x, n, BLOCK_ROW: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    cols = tl.arange(0, BLOCK_SIZE)
    for row in tl.range(0, BLOCK_ROW, num_stages=3):
        tl.store(x + row * n + cols, tl.load(x + row * n + cols))
"""
PRODUCT = """@triton.jit
def _k(a, b, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    m, n, k = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    left = tl.load(a + m[:, None] * 8 + k[None, :])
    acc = tl.dot(left, tl.trans(tl.load(b + n[:, None] * 8 + k[None, :])), acc)
"""
HELPER = """@triton.jit
def _row(x, start, SIZE: tl.constexpr):
    return tl.load(x + start + tl.arange(0, SIZE))


@triton.jit
def _k(x, BLOCK_SIZE: tl.constexpr):
    v = _row(x, 0, BLOCK_SIZE * 2)
    tl.store(x + tl.arange(0, BLOCK_SIZE), tl.sum(v))
"""


def launch(warps: int = 4, **constants: int) -> Launch:
    return made.launch(warps=warps, constants=tuple((name, str(value)) for name, value in constants.items()))


@pytest.mark.parametrize(
    ("text", "constants", "found"),
    [
        (SQUARE, {"BLOCK": 64}, 64 * 64),
        (STREAMS, {"HC": 4, "BLOCK_N": 32, "BLOCK_C": 128}, 4 * 32 * 128),
        (HEADS, {"hd": 128, "pad_heads": 32, "pad_hd": 128, "BLOCK_SIZE": 32}, 32 * 64),
        (WALK, {"BLOCK_ROW": 4, "BLOCK_SIZE": 1024}, 1024),
        (PRODUCT, {"BLOCK_M": 64, "BLOCK_N": 32, "BLOCK_K": 16}, 64 * 32),
        (HELPER, {"BLOCK_SIZE": 256}, 512),
    ],
    ids=["a square of one block", "a product with heads", "no block at all", "rows one by one", "dot", "a helper's"],
)
def test_the_largest_tile_is_what_a_program_holds(text: str, constants: dict[str, int], found: int) -> None:
    assert elements(launch(**constants), HEAD + text) == found


def test_where_the_kernel_does_not_say_its_blocks_are_multiplied() -> None:
    of = launch(BLOCK_N=16, BLOCK_C=64)
    assert held("x = 1\n", "_k", of.constants) is None and elements(of, "x = 1\n") == 16 * 64
    unknown = HEAD + SQUARE.replace("tl.arange(0, BLOCK)", "tl.arange(0, SIZE)")
    assert held(unknown, "_k", launch(BLOCK=64).constants) is None


def test_a_block_is_followed_where_it_says_how_much_is_held() -> None:
    streams = [launch(HC=4, BLOCK_N=32, BLOCK_C=size) for size in (64, 128)]
    assert followed(streams, HEAD + STREAMS) == Followed("BLOCK_C", held=128)
    walking = [launch(BLOCK_ROW=4, BLOCK_SIZE=size) for size in (1024, 4096)]
    assert followed(walking, HEAD + WALK) == Followed("BLOCK_SIZE")


@pytest.mark.parametrize(
    ("text", "constants"),
    [
        (SQUARE, [{"BLOCK": 64}, {"BLOCK": 128}]),
        (HEADS, [{"hd": 128, "pad_heads": size, "pad_hd": 128, "BLOCK_SIZE": size} for size in (16, 32)]),
        (STREAMS, [{"HC": 4, "BLOCK_N": 32, "BLOCK_C": 128}]),
    ],
    ids=["a square", "never read", "the same everywhere"],
)
def test_any_other_kernel_has_counts_that_suit_what_it_holds(text: str, constants: list[dict[str, int]]) -> None:
    launches = [launch(**one) for one in constants]
    assert followed(launches, HEAD + text) is None
    raced = numbers_of("_k", [(f"case-{at}", one) for at, one in enumerate(launches)], HEAD + text)
    assert {one.block_name for one in raced} == {""}
    assert tuple(one.warps for one in raced) == plain_counts(launches, HEAD + text)
    assert [one.num_warps for one in settings(launches, HEAD + text)] == [one.warps for one in raced]


def test_no_thread_gets_too_much_and_none_gets_nothing() -> None:
    assert plain_counts([launch(BLOCK=64)], HEAD + SQUARE) == (2, 8, 16, 32)
    assert plain_counts([launch(BLOCK=16)], HEAD + SQUARE) == (1, 2, 8), "32 warps would have work for a quarter"
    assert plain_counts([launch(BLOCK=512)], HEAD + SQUARE) == (8, 16, 32), "more than today is better than today"


def test_a_parameter_that_is_only_handed_in_is_not_read() -> None:
    assert not reads(HEAD + HEADS, "_k", "BLOCK_SIZE")
    assert reads(HEAD + HEADS, "_k", "pad_hd") and reads("x = 1\n", "_k", "BLOCK_SIZE")
