"""More sketches, each timed alone: cross entropy with gradient whose two walks are one: the gradient of a row is
written while the next row is read. See README.md.

    python docs/results/h200/sketches/woven.py > woven.txt
    TRITON_INTERPRET=1 python docs/results/h200/sketches/woven.py      # small ones, for right or wrong alone
"""

import torch
import triton
import triton.language as tl
from held import DEV, HALF, L2E, cross
from playing import CPU, play


@triton.jit
def ce_woven(X, Y, L, rows, n_cols, n_non, BLOCK: tl.constexpr, AHEAD: tl.constexpr, HINTS: tl.constexpr):
    KEEP: tl.constexpr = "evict_last" if HINTS else ""
    LEAVE: tl.constexpr = "evict_first" if HINTS else ""
    step = tl.num_programs(0)
    last_m = 0.0
    last_r = 0.0
    last_y = tl.load(Y) * 0
    for row in range(tl.program_id(0), rows + step, step):
        here = row < rows
        before = row >= step
        cur = X + row * n_cols.to(tl.int64)
        old = X + (row - step) * n_cols.to(tl.int64)
        y = tl.load(Y + row, mask=here, other=0)
        at_y = tl.load(cur + y, mask=here, other=0.0).to(tl.float32)
        m = -3.4e38
        d = 0.0
        if AHEAD:
            offs = tl.arange(0, BLOCK)
            coming = tl.load(cur + offs, mask=here & (offs < n_cols), other=-float("inf"), eviction_policy=KEEP)
        for i in range(0, n_cols, BLOCK):
            offs = i + tl.arange(0, BLOCK)
            mine = before & (offs < n_cols)
            v = tl.load(old + offs, mask=mine, other=0.0, eviction_policy=LEAVE).to(tl.float32)
            if AHEAD:
                x = coming.to(tl.float32)
                after = offs + BLOCK
                coming = tl.load(cur + after, mask=here & (after < n_cols), other=-float("inf"), eviction_policy=KEEP)
            else:
                x = tl.load(cur + offs, mask=here & (offs < n_cols), other=-float("inf"), eviction_policy=KEEP).to(
                    tl.float32
                )
            g = tl.exp2((v - last_m) * L2E) * last_r
            g = tl.where(offs == last_y, g - 1.0 / n_non, g)
            tl.store(old + offs, g, mask=mine, cache_modifier=".cs" if HINTS else "")
            seen = tl.maximum(m, tl.max(x))
            d = d * tl.exp2((m - seen) * L2E) + tl.sum(tl.exp2((x - seen) * L2E))
            m = seen
        tl.store(L + row, (m + tl.log(d) - at_y) / n_non, mask=here)
        last_m = m
        last_r = 1.0 / (d * n_non)
        last_y = y


def woven(rows, cols, block, warps, per, ahead, hints):
    start = torch.randn(rows, cols, device=DEV).to(HALF)
    x, y = start.clone(), torch.randint(0, cols, (rows,), device=DEV)
    loss = torch.empty(rows, device=DEV)
    processors = 2 if CPU else torch.cuda.get_device_properties(0).multi_processor_count

    def f():
        ce_woven[(min(rows, processors * per),)](
            x, y, loss, rows, cols, float(rows), BLOCK=block, AHEAD=ahead, HINTS=hints, num_warps=warps
        )

    def err():
        x.copy_(start)
        f()
        right = torch.softmax(start.float(), 1)
        right[torch.arange(rows, device=DEV), y] -= 1
        off = torch.nn.functional.cross_entropy(start.float(), y) - loss.sum()
        return max((x.float() * rows - right).abs().max().item(), off.abs().item())

    return f, err


def cases():
    for rows, cols in ((2048, 128256), (4096, 32000), (512, 128256)):
        for gathered, hints in ((0, 0), (0, 1), (1, 1)):
            yield "cross", (rows, cols, 0, 32768, 32, gathered, hints)
            yield "cross", (rows, cols, 0, 16384, 16, gathered, hints)
        for block, warps in ((4096, 8), (8192, 8), (8192, 16), (16384, 16), (16384, 32), (32768, 32)):
            for ahead in (0, 1):
                for hints in (0, 1):
                    for per in (1, 2) if warps < 32 else (1,):
                        yield "woven", (rows, cols, block, warps, per, ahead, hints)


MAKE = {"cross": cross, "woven": woven}
SMALL = tuple(("woven", (rows, 100, 32, 4, 1, ahead, 1)) for rows in (1, 2, 5) for ahead in (0, 1))
CASES = SMALL if CPU else (*cases(),)


if __name__ == "__main__":
    play(MAKE, CASES)
