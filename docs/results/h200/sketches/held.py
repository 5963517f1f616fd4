"""More sketches, each timed alone: a row of which a part stays in registers between its walks, what is multiplied into
each element gathered into one factor, tiles numbered row by row or tile by tile, and a walk that keeps its largest
element and its sum lane by lane. See README.md.

    python docs/results/h200/sketches/held.py > held.txt
    TRITON_INTERPRET=1 python docs/results/h200/sketches/held.py      # small ones, for right or wrong alone
"""

import torch
import triton
import triton.language as tl
from playing import CPU, play
from triton.language.extra.libdevice import tanh

DEV = "cpu" if CPU else "cuda"
HALF = torch.float32 if CPU else torch.bfloat16
PRETENDED = tl.constexpr(CPU)
L2E = tl.constexpr(1.4426950408889634)


# ---------------------------------------------------------------- softmax, its first columns held
@triton.jit
def sm(Y, X, n_cols, HELD: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    m = -3.4e38
    d = 0.0
    if HELD:
        first = tl.arange(0, HELD)
        kept = tl.load(X + row * n_cols + first, mask=first < n_cols, other=-float("inf"))
        m = tl.maximum(m, tl.max(kept, axis=0))
        d = tl.sum(tl.exp2((kept - m) * L2E), axis=0)
    for start in range(HELD, n_cols, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        x = tl.load(X + row * n_cols + offs, mask=offs < n_cols, other=-float("inf"), eviction_policy="evict_last")
        seen = tl.maximum(m, tl.max(x, axis=0))
        d = d * tl.exp2((m - seen) * L2E) + tl.sum(tl.exp2((x - seen) * L2E), axis=0)
        m = seen
    if HELD:
        h = tl.exp2((kept - m) * L2E) * (1.0 / d)
        tl.store(Y + row * n_cols + first, h, mask=first < n_cols, cache_modifier=".cs")
    for start in range(HELD, n_cols, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        x = tl.load(X + row * n_cols + offs, mask=offs < n_cols, other=-float("inf"), eviction_policy="evict_first")
        y = tl.exp2((x - m) * L2E) * (1.0 / d)
        tl.store(Y + row * n_cols + offs, y, mask=offs < n_cols, cache_modifier=".cs")


def softmax(rows, cols, held, block, warps):
    x = torch.randn(rows, cols, device=DEV).to(HALF)
    y = torch.empty_like(x)

    def f():
        sm[(rows,)](y, x, cols, HELD=held, BLOCK=block, num_warps=warps)

    return f, lambda: (y.float() - torch.softmax(x.float(), 1)).abs().max().item() * cols


@triton.jit
def sm_whole(Y, X, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offs = tl.arange(0, BLOCK)
    v = tl.load(X + row * n_cols + offs, mask=offs < n_cols, other=-float("inf"))
    m = tl.max(v, axis=0).to(tl.float32)
    d = tl.sum(tl.exp2((v.to(tl.float32) - m) * L2E), axis=0)
    y = tl.exp2((v.to(tl.float32) - m) * L2E) * (1.0 / d)
    tl.store(Y + row * n_cols + offs, y, mask=offs < n_cols, cache_modifier=".cs")


@triton.jit
def sm_packed(Y, X, n_cols, BLOCK: tl.constexpr):
    """Two elements a register, unpacked anew in each walk: what is added to them in between nobody can foresee."""
    row = tl.program_id(0).to(tl.int64)
    half = n_cols // 2
    P = (X + row * n_cols).to(tl.pointer_type(tl.int32))
    Q = (Y + row * n_cols).to(tl.pointer_type(tl.int32))
    offs = tl.arange(0, BLOCK // 2)
    v = tl.load(P + offs, mask=offs < half, other=-8323200)
    low = (v << 16).to(tl.float32, bitcast=True)
    high = (v & -65536).to(tl.float32, bitcast=True)
    m = tl.max(tl.maximum(low, high), axis=0)
    v = v ^ (m == 1e38).to(tl.int32)
    low = (v << 16).to(tl.float32, bitcast=True)
    high = (v & -65536).to(tl.float32, bitcast=True)
    d = tl.sum(tl.exp2((low - m) * L2E) + tl.exp2((high - m) * L2E), axis=0)
    v = v ^ (d == -1.0).to(tl.int32)
    low = (v << 16).to(tl.float32, bitcast=True)
    high = (v & -65536).to(tl.float32, bitcast=True)
    a = (tl.exp2((low - m) * L2E) * (1.0 / d)).to(tl.bfloat16).to(tl.uint16, bitcast=True).to(tl.int32)
    b = (tl.exp2((high - m) * L2E) * (1.0 / d)).to(tl.bfloat16).to(tl.uint16, bitcast=True).to(tl.int32)
    tl.store(Q + offs, a | (b << 16), mask=offs < half, cache_modifier=".cs")


def whole(rows, cols, packed, warps):
    x = torch.randn(rows, cols, device=DEV).to(torch.bfloat16 if packed else HALF)
    y = torch.empty_like(x)
    kernel = sm_packed if packed else sm_whole

    def f():
        kernel[(rows,)](y, x, cols, BLOCK=triton.next_power_of_2(cols), num_warps=warps)

    return f, lambda: (y.float() - torch.softmax(x.float(), 1)).abs().max().item() * cols


# ---------------------------------------------------------------- cross entropy with gradient, as Liger adds it up
@triton.jit
def slope(x, m, d, eps, lse, n_non, GATHERED: tl.constexpr):
    g = tl.exp2((x - m) * L2E)
    if GATHERED:
        g = g * ((1.0 / d) * (1 + 2 * 0.0 * lse) * (1.0 / n_non)) + (-eps) * (1.0 / n_non)
    else:
        g = g * (1.0 / d)
        g += 2 * 0.0 * lse * g
        g += -eps
        g = g * (1.0 / n_non)
    return g


@triton.jit
def ce(X, Y, L, n_cols, n_non, HELD: tl.constexpr, BLOCK: tl.constexpr, GATHERED: tl.constexpr, HINTS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    X += row * n_cols
    KEEP: tl.constexpr = "evict_last" if HINTS else ""
    LEAVE: tl.constexpr = "evict_first" if HINTS else ""
    y = tl.load(Y + row)
    eps = 0.0 / n_cols
    at_y = tl.load(X + y).to(tl.float32)
    m = -float("inf")
    d = 0.0
    if HELD:
        first = tl.arange(0, HELD)
        kept = tl.load(X + first, mask=first < n_cols, other=-float("inf"))
        m = tl.max(kept.to(tl.float32))
        d = tl.sum(tl.exp2((kept.to(tl.float32) - m) * L2E))
    for i in range(HELD, n_cols, BLOCK):
        offs = i + tl.arange(0, BLOCK)
        x = tl.load(X + offs, mask=offs < n_cols, other=-float("inf"), eviction_policy=KEEP).to(tl.float32)
        seen = tl.maximum(m, tl.max(x))
        d = d * tl.exp2((m - seen) * L2E) + tl.sum(tl.exp2((x - seen) * L2E))
        m = seen
    lse = m + tl.log(d)
    if HELD:
        h = slope(kept.to(tl.float32), m, d, eps, lse, n_non, GATHERED)
        tl.store(X + first, h, mask=first < n_cols, cache_modifier=".cs" if HINTS else "")
    for i in range(HELD, n_cols, BLOCK):
        offs = i + tl.arange(0, BLOCK)
        x = tl.load(X + offs, mask=offs < n_cols, other=-float("inf"), eviction_policy=LEAVE).to(tl.float32)
        g = slope(x, m, d, eps, lse, n_non, GATHERED)
        tl.store(X + offs, g, mask=offs < n_cols, cache_modifier=".cs" if HINTS else "")
    tl.debug_barrier()
    own = slope(at_y, m, d, eps, lse, n_non, GATHERED) - 1.0 / n_non
    tl.store(X + y, own)
    tl.store(L + row, (lse - at_y) / n_non)


def cross(rows, cols, held, block, warps, gathered, hints):
    start = torch.randn(rows, cols, device=DEV).to(HALF)
    x, y = start.clone(), torch.randint(0, cols, (rows,), device=DEV)
    loss = torch.empty(rows, device=DEV)

    def f():
        ce[(rows,)](
            x, y, loss, cols, float(rows), HELD=held, BLOCK=block, GATHERED=gathered, HINTS=hints, num_warps=warps
        )

    def err():
        x.copy_(start)
        f()
        right = torch.softmax(start.float(), 1)
        right[torch.arange(rows, device=DEV), y] -= 1
        return (x.float() * rows - right).abs().max().item()

    return f, err


# ---------------------------------------------------------------- geglu backward, in place as Liger's
@triton.jit
def geglu(DC, A, B, stride, n_cols: tl.constexpr, ORDER: tl.constexpr, BLOCK: tl.constexpr):
    if ORDER:
        number = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
        row = (number // tl.num_programs(1)).to(tl.int64)
        tile = number % tl.num_programs(1)
    else:
        row = tl.program_id(0).to(tl.int64)
        tile = tl.program_id(1)
    cols = tile * BLOCK + tl.arange(0, BLOCK)
    mask = cols < n_cols
    dc = tl.load(DC + row * stride + cols, mask=mask, other=0)
    a = tl.load(A + row * stride + cols, mask=mask, other=0).to(tl.float32)
    b = tl.load(B + row * stride + cols, mask=mask, other=0)
    z = 0.7978845608028654 * (a + 0.044715 * a * a * a)
    if PRETENDED:
        t = 2 * tl.sigmoid(2 * z) - 1
    else:
        t = tanh(z)
    db = dc.to(tl.float32) * (0.5 * a * (1 + t))
    da = 0.5 * (1 + t) + 0.5 * a * (1 - t * t) * (0.7978845608028654 * (1 + 3 * 0.044715 * a * a))
    tl.store(A + row * stride + cols, dc * b * da, mask=mask)
    tl.store(B + row * stride + cols, db, mask=mask)


def tiles(rows, cols, order, block, warps):
    dc, one, two = (torch.randn(rows, cols, device=DEV).to(HALF) for _ in range(3))
    a, b = one.clone(), two.clone()

    def f():
        geglu[(rows, triton.cdiv(cols, block))](dc, a, b, cols, cols, ORDER=order, BLOCK=block, num_warps=warps)

    def err():
        a.copy_(one), b.copy_(two)
        f()
        x = one.float().requires_grad_()
        torch.nn.functional.gelu(x, approximate="tanh").backward(dc.float() * two.float())
        return (a.float() - x.grad).abs().max().item()

    return f, err


# ---------------------------------------------------------------- the logarithm of a row's sum, for a loss alone
@triton.jit
def lse(Y, X, n_cols, BLOCK: tl.constexpr, LANES: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    if LANES:
        m = tl.full((BLOCK,), -3.4e38, tl.float32)
        d = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, n_cols, BLOCK):
            offs = start + tl.arange(0, BLOCK)
            x = tl.load(X + row * n_cols + offs, mask=offs < n_cols, other=-float("inf")).to(tl.float32)
            seen = tl.maximum(m, x)
            d = d * tl.exp2((m - seen) * L2E) + tl.exp2((x - seen) * L2E)
            m = seen
        top = tl.max(m, axis=0)
        total = tl.sum(d * tl.exp2((m - top) * L2E), axis=0)
    else:
        top = -3.4e38
        total = 0.0
        for start in range(0, n_cols, BLOCK):
            offs = start + tl.arange(0, BLOCK)
            x = tl.load(X + row * n_cols + offs, mask=offs < n_cols, other=-float("inf")).to(tl.float32)
            seen = tl.maximum(top, tl.max(x, axis=0))
            total = total * tl.exp2((top - seen) * L2E) + tl.sum(tl.exp2((x - seen) * L2E), axis=0)
            top = seen
    tl.store(Y + row, top + tl.log(total))


def row_sums(rows, cols, block, warps, lanes):
    x = torch.randn(rows, cols, device=DEV).to(HALF)
    y = torch.empty(rows, device=DEV)

    def f():
        lse[(rows,)](y, x, cols, BLOCK=block, LANES=lanes, num_warps=warps)

    return f, lambda: (y - torch.logsumexp(x.float(), 1)).abs().max().item()


def cases():
    for packed in (0, 1):
        for warps in (16, 32):
            yield "whole", (1024, 65536, packed, warps)
    for rows, cols in ((1024, 65536), (4096, 32000)):
        for held in (0, 16384, 32768 if cols > 40000 else 8192):
            for block, warps in ((8192, 16), (16384, 16), (8192, 32), (16384, 32)):
                yield "softmax", (rows, cols, held, block, warps)
    for rows, cols in ((2048, 128256), (512, 128256), (4096, 32000)):
        for hints in (0, 1):
            for gathered in (0, 1):
                yield "cross", (rows, cols, 0, 32768, 32, gathered, hints)
            for held in (16384, 32768, 65536) if cols > 40000 else (16384,):
                for block, warps in ((8192, 16), (16384, 16), (8192, 32), (16384, 32), (32768, 32)):
                    if held // warps <= 2048:
                        yield "cross", (rows, cols, held, block, warps, 1, hints)
    for rows, cols in ((4096, 14336), (2048, 14336), (4096, 4096)):
        for order in (0, 1):
            for block, warps in ((512, 4), (1024, 4), (1024, 8), (2048, 8)):
                yield "tiles", (rows, cols, order, block, warps)
    for rows, cols in ((2048, 32000), (8192, 32000), (1024, 151936)):
        for lanes in (0, 1):
            for block, warps in ((2048, 4), (4096, 4), (4096, 8), (8192, 8), (8192, 16)):
                yield "row_sums", (rows, cols, block, warps, lanes)


MAKE = {"softmax": softmax, "whole": whole, "cross": cross, "tiles": tiles, "row_sums": row_sums}
SMALL = (
    *(("softmax", (3, 100, held, 32, 4)) for held in (0, 32, 64, 128)),
    ("whole", (3, 100, 0, 4)),
    *(("cross", (4, 100, held, 32, 4, gathered, 1)) for held in (0, 32, 128) for gathered in (0, 1)),
    *(("tiles", (5, 40, order, 16, 4)) for order in (0, 1)),
    *(("row_sums", (3, 100, 32, 4, lanes)) for lanes in (0, 1)),
)
CASES = SMALL if CPU else (*cases(),)


if __name__ == "__main__":
    play(MAKE, CASES)
