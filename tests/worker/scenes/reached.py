"""Run with TRITON_INTERPRET=1: kernels that count in 32 bits or in 64. Prints as JSON how far each reaches."""

from __future__ import annotations

import json

import torch
import triton
import triton.language as tl

from bot.worker import interpreter

BOOKS = interpreter.install()

from bot.worker import reach  # noqa: E402 - after the interpreter was mended

ROWS, COLS = 8, 16
HOW = ("udiv", "urem", "umulhi", "and", "xor", "ashr", "lshr", "minui", "maxsi", "maxui", "trans", "pointer")
SEEN: dict[str, object] = {}


@triton.jit
def widened(x, stride, B: tl.constexpr):
    tl.store(x + tl.program_id(0).to(tl.int64) * stride + tl.arange(0, B), 1.0)


@triton.jit
def narrow(x, stride, B: tl.constexpr):
    tl.store(x + tl.program_id(0) * stride + tl.arange(0, B), 1.0)


@triton.jit
def too_late(x, stride, B: tl.constexpr):
    tl.store(x + (tl.program_id(0) * stride).to(tl.int64) + tl.arange(0, B), 1.0)


@triton.jit
def cut_off_again(x, stride, B: tl.constexpr):
    tl.store(x + (tl.program_id(0).to(tl.int64) * stride).to(tl.int32) + tl.arange(0, B), 1.0)


@triton.jit
def unsigned(x, stride, B: tl.constexpr):
    tl.store(x + tl.program_id(0).to(tl.uint32) * stride.to(tl.uint32) + tl.arange(0, B), 1.0)


@triton.jit
def shifted(x, B: tl.constexpr):
    tl.store(x + ((tl.program_id(0) << 4) | tl.arange(0, B)), 1.0)


@triton.jit
def backwards(x, last, stride, B: tl.constexpr):
    tl.store(x + last - tl.program_id(0) * stride + tl.arange(0, B), 1.0)


@triton.jit
def flat(x, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + at, 1.0, mask=at < n)


@triton.jit
def row_and_column_of_a_flat_one(x, stride, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + (at // stride).to(tl.int64) * stride + at % stride, 1.0, mask=at < n)


@triton.jit
def chosen(x, stride, n, B: tl.constexpr):
    at = tl.program_id(0) * stride + tl.arange(0, B)
    tl.store(x + tl.where(at < n, at, 0).to(tl.int64), 1.0)


@triton.jit
def bounded(x, stride, n, B: tl.constexpr):
    at = tl.minimum(tl.program_id(0) * stride + tl.arange(0, B), n - 1)
    tl.store(x + tl.reshape(at[:, None].to(tl.int64), (B,)), 1.0)


@triton.jit
def hidden(x, stride, HOW: tl.constexpr, B: tl.constexpr):
    at = tl.program_id(0) * stride + tl.arange(0, B)
    bare = at.to(tl.uint32, bitcast=True)
    if HOW == "udiv":
        at = bare // 1
    elif HOW == "urem":
        at = bare % 1024
    elif HOW == "umulhi":
        at = tl.umulhi(bare * 2, bare * 0 + 2147483648)
    elif HOW == "and":
        at = at & 1023
    elif HOW == "xor":
        at = at ^ 0
    elif HOW == "ashr":
        at = at >> 0
    elif HOW == "lshr":
        at = bare >> 0
    elif HOW == "minui":
        at = tl.minimum(bare, 1024)
    elif HOW == "maxsi":
        at = tl.maximum(at, 0)
    elif HOW == "maxui":
        at = tl.maximum(bare, 0)
    elif HOW == "trans":
        at = tl.reshape(tl.trans(at.to(tl.int64)[:, None] + tl.zeros((1, 1), tl.int64)), (B,))
    elif HOW == "pointer":
        at = (x + at).to(tl.int64) - x.to(tl.int64)
        at = at // 4
    tl.store(x + at.to(tl.int64), 1.0)


@triton.jit
def rows_widened_one_by_one(x, stride, R: tl.constexpr, B: tl.constexpr):
    row = tl.program_id(0) * R + tl.arange(0, R)
    tl.store(x + row.to(tl.int64)[:, None] * stride + tl.arange(0, B)[None, :], 1.0)


@triton.jit
def rows_of_a_block(x, stride, R: tl.constexpr, B: tl.constexpr):
    first = x + tl.program_id(0).to(tl.int64) * R * stride
    tl.store(first + tl.arange(0, R)[:, None] * stride + tl.arange(0, B)[None, :], 1.0)


@triton.jit
def rows_of_a_narrow_block(x, stride, R: tl.constexpr, B: tl.constexpr):
    row = tl.program_id(0) * R + tl.arange(0, R)
    tl.store(x + row[:, None] * stride + tl.arange(0, B)[None, :], 1.0)


@triton.jit
def walked(x, stride, n_rows, B: tl.constexpr):
    at = x + tl.arange(0, B)
    for _ in range(tl.program_id(0), n_rows):
        tl.store(at, 1.0)
        at += stride


@triton.jit
def tiles_of_a_row(x, stride, B: tl.constexpr):
    row = x + tl.program_id(0).to(tl.int64) * stride
    tl.store(row + tl.program_id(1) * B + tl.arange(0, B), 1.0)


@triton.jit
def looped(x, stride, n_rows, B: tl.constexpr):
    for row in range(tl.program_id(0).to(tl.int64), n_rows, tl.num_programs(0)):
        tl.store(x + row * stride + tl.arange(0, B), 1.0)


@triton.jit
def looped_narrow(x, stride, n_rows, B: tl.constexpr):
    for row in tl.range(tl.program_id(0), n_rows, tl.num_programs(0), num_stages=2):
        tl.store(x + row * stride + tl.arange(0, B), 1.0)


@triton.jit
def looped_and_widened(x, stride, n_rows, B: tl.constexpr):
    for row in tl.range(tl.program_id(0), n_rows, step=tl.num_programs(0)):
        tl.store(x + row.to(tl.int64) * stride + tl.arange(0, B), 1.0)


@triton.jit
def looped_over_all(x, n, B: tl.constexpr):
    for start in range(tl.program_id(0) * B, n, tl.num_programs(0) * B):
        at = start + tl.arange(0, B)
        tl.store(x + at, 1.0, mask=at < n)


@triton.jit
def looped_to_a_constant(x, N: tl.constexpr, B: tl.constexpr):
    for start in range(tl.program_id(0) * B, N, tl.num_programs(0) * B):
        at = start + tl.arange(0, B)
        tl.store(x + at, 1.0, mask=at < N)


@triton.jit
def masked(x, far, B: tl.constexpr):
    at = tl.program_id(0) * 0 + tl.arange(0, B) * far
    tl.store(x + at, 1.0, mask=tl.arange(0, B) < 1)


@triton.jit
def told_by_memory(x, rows, stride, B: tl.constexpr):
    row = tl.load(rows + tl.program_id(0))
    tl.atomic_add(x + row * stride + tl.arange(0, B), 1.0)


@triton.jit
def told_by_memory_and_widened(x, rows, stride, B: tl.constexpr):
    row = tl.load(rows + tl.program_id(0)).to(tl.int64)
    tl.atomic_add(x + row * stride + tl.arange(0, B), 1.0)


@triton.jit
def ticket(x, count, stride, B: tl.constexpr):
    row = tl.atomic_add(count, 1)
    tl.store(x + row * stride + tl.arange(0, B), 1.0)


@triton.jit
def block_of_rows(x, n_rows, stride, B: tl.constexpr):
    block = tl.make_block_ptr(x, (n_rows, B), (stride, 1), (tl.program_id(0) * 1, 0), (1, B), (1, 0))
    tl.store(block, tl.full((1, B), 1.0, tl.float32), boundary_check=(0, 1))


@triton.jit
def block_of_elements(x, n, B: tl.constexpr):
    block = tl.make_block_ptr(x, (n,), (1,), (tl.program_id(0) * B,), (B,), (0,))
    tl.store(block, tl.full((B,), 1.0, tl.float32), boundary_check=(0,))


@triton.jit
def block_that_walks(x, n, B: tl.constexpr):
    block = tl.make_block_ptr(x, (n,), (1,), (0,), (B,), (0,))
    for _ in range(tl.program_id(0)):
        block = tl.advance(block, (B,))
    tl.store(block, tl.full((B,), 1.0, tl.float32), boundary_check=(0,))


@triton.jit
def block_that_jumps(x, n, B: tl.constexpr):
    block = tl.make_block_ptr(x, (n,), (1,), (0,), (B,), (0,))
    block = tl.advance(block, (tl.program_id(0) * B,))
    tl.store(block, tl.full((B,), 1.0, tl.float32), boundary_check=(0,))


@triton.jit
def types_of_loops(out, small, large, N: tl.constexpr):
    for i in range(small):
        tl.store(out, i.dtype.primitive_bitwidth)
    for i in range(small - 1, large):
        tl.store(out + 1, i.dtype.primitive_bitwidth)
    for i in range(small.to(tl.uint32)):
        tl.store(out + 2, i.dtype.primitive_bitwidth + i.dtype.is_int_unsigned())
    for i in range(N):
        tl.store(out + 3, i)


def far(name, kernel, grid, *arguments, rows=ROWS, **named):
    """How many elements into x a number of 32 bits reached, and what is said of it; that all was written shows that
    the kernel did what it should."""
    x = torch.zeros(rows, COLS)
    BOOKS.clear()
    kernel[grid](x, *arguments, **named)
    reached = max(region.far for launch in BOOKS.launches for region in launch.regions) // x.element_size()
    SEEN[name] = [reached, reach.wrapping(BOOKS.launches, [("x", x)]), int((x > 0).sum())]


def main() -> None:
    n, rows = ROWS * COLS, torch.arange(ROWS, dtype=torch.int32)
    one_a_row, few = (ROWS,), (3,)
    for kernel in (widened, narrow, too_late, cut_off_again, unsigned):
        far(kernel.__name__, kernel, one_a_row, COLS, B=COLS)
    far("shifted", shifted, one_a_row, B=COLS)
    far("backwards", backwards, one_a_row, n - COLS, COLS, B=COLS)
    far("flat", flat, (5,), n, B=32)
    far("row_and_column_of_a_flat_one", row_and_column_of_a_flat_one, (5,), COLS, n, B=32)
    far("chosen", chosen, one_a_row, COLS, n, B=COLS)
    far("bounded", bounded, one_a_row, COLS, n, B=COLS)
    for how in HOW:
        far(how, hidden, one_a_row, COLS, HOW=how, B=COLS)
    for kernel in (rows_widened_one_by_one, rows_of_a_block, rows_of_a_narrow_block):
        far(kernel.__name__, kernel, (2,), COLS, R=4, B=COLS)
    far("one block for all rows", rows_of_a_block, (1,), COLS, R=8, B=COLS)
    far("walked", walked, (1,), COLS, ROWS, B=COLS)
    far("tiles_of_a_row", tiles_of_a_row, (ROWS, 2), COLS, B=8)
    for kernel in (looped, looped_narrow, looped_and_widened):
        far(kernel.__name__, kernel, few, COLS, ROWS, B=COLS)
    far("looped_over_all", looped_over_all, few, n, B=8)
    far("looped over nearly all", looped_over_all, few, n - 1, B=8)
    far("looped_to_a_constant", looped_to_a_constant, few, N=n, B=8)
    far("masked", masked, (1,), COLS, B=64)
    far("told_by_memory", told_by_memory, one_a_row, rows, COLS, B=COLS)
    far("told_by_memory_and_widened", told_by_memory_and_widened, one_a_row, rows, COLS, B=COLS)
    far("ticket", ticket, one_a_row, torch.zeros(1, dtype=torch.int32), COLS, B=COLS)
    far("block_of_rows", block_of_rows, one_a_row, ROWS, COLS, B=COLS)
    for kernel in (block_of_elements, block_that_walks, block_that_jumps):
        far(kernel.__name__, kernel, one_a_row, n, B=COLS)
    out = torch.zeros(4, dtype=torch.int32)
    types_of_loops[(1,)](out, 3, 4, N=3)  # 4: as many as there are elements
    SEEN["types"] = out.tolist()
    print(json.dumps(SEEN))


if __name__ == "__main__":
    main()
