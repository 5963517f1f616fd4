"""Sketches of kernels in many forms, each timed alone: which structure is worth a transform. See README.md."""

import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import torch
import triton
import triton.language as tl
from triton.language.extra.libdevice import tanh

CPU = os.environ.get("TRITON_INTERPRET") == "1"
DEV = "cpu" if CPU else "cuda"
L2E = tl.constexpr(1.4426950408889634)


# ---------------------------------------------------------------- softmax
@triton.jit
def sm_hold(Y, X, n_cols, n_rows, BLOCK: tl.constexpr, HOW: tl.constexpr, STAGES: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offs = tl.arange(0, BLOCK)
    mask = offs < n_cols
    x = tl.load(X + row * n_cols + offs, mask=mask, other=-float("inf"), cache_modifier=".ca")
    m = tl.max(x, axis=0)
    if HOW == 0:
        e = tl.exp(x - m)
        d = tl.sum(e, axis=0)
        y = e / d
    elif HOW == 1:
        e = tl.exp(x - m)
        d = tl.sum(e, axis=0)
        y = e * (1.0 / d)
    elif HOW == 2:
        e = tl.exp2((x - m) * L2E)
        d = tl.sum(e, axis=0)
        y = e * (1.0 / d)
    elif HOW == 3:
        d = tl.sum(tl.exp2((x - m) * L2E), axis=0)
        y = tl.exp2((x - m) * L2E - tl.log2(d))
    tl.store(Y + row * n_cols + offs, y, mask=mask, cache_modifier=".cs")


@triton.jit
def sm_rows(Y, X, n_cols, n_rows, BLOCK: tl.constexpr, HOW: tl.constexpr, STAGES: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    mask = offs < n_cols
    for row in tl.range(tl.program_id(0).to(tl.int64), n_rows, tl.num_programs(0), num_stages=STAGES):
        x = tl.load(X + row * n_cols + offs, mask=mask, other=-float("inf"))
        m = tl.max(x, axis=0)
        if HOW == 3:
            d = tl.sum(tl.exp2((x - m) * L2E), axis=0)
            y = tl.exp2((x - m) * L2E - tl.log2(d))
        else:
            e = tl.exp2((x - m) * L2E)
            d = tl.sum(e, axis=0)
            y = e * (1.0 / d)
        tl.store(Y + row * n_cols + offs, y, mask=mask, cache_modifier=".cs")


@triton.jit
def sm_walk2(Y, X, n_cols, n_rows, BLOCK: tl.constexpr, HOW: tl.constexpr, STAGES: tl.constexpr):
    # HOW bits: 1 reciprocal, 2 exp2, 4 hints, 8 back to front, 16 .cs stores
    row = tl.program_id(0).to(tl.int64)
    X += row * n_cols
    Y += row * n_cols
    m = -3.4e38
    d = 0.0
    for s in range(0, n_cols, BLOCK):
        offs = s + tl.arange(0, BLOCK)
        x = tl.load(
            X + offs, mask=offs < n_cols, other=-float("inf"), eviction_policy="evict_last" if HOW & 4 else ""
        ).to(tl.float32)
        new = tl.maximum(m, tl.max(x, axis=0))
        if HOW & 2:
            d = d * tl.exp2((m - new) * L2E) + tl.sum(tl.exp2((x - new) * L2E), axis=0)
        else:
            d = d * tl.exp(m - new) + tl.sum(tl.exp(x - new), axis=0)
        m = new
    r = 1.0 / d
    last = (n_cols - 1) // BLOCK * BLOCK
    for s_ in range(0, n_cols, BLOCK):
        if HOW & 8:
            s = last - s_
        else:
            s = s_
        offs = s + tl.arange(0, BLOCK)
        x = tl.load(
            X + offs, mask=offs < n_cols, other=-float("inf"), eviction_policy="evict_first" if HOW & 4 else ""
        ).to(tl.float32)
        if HOW & 2:
            e = tl.exp2((x - m) * L2E)
        else:
            e = tl.exp(x - m)
        if HOW & 1:
            y = e * r
        else:
            y = e / d
        tl.store(Y + offs, y, mask=offs < n_cols, cache_modifier=".cs" if HOW & 16 else "")


@triton.jit
def sm_walk(Y, X, n_cols, n_rows, BLOCK: tl.constexpr, HOW: tl.constexpr, STAGES: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    X += row * n_cols
    Y += row * n_cols
    if HOW == 0:  # scalars online
        m = -3.4e38
        d = 0.0
        for s in tl.range(0, n_cols, BLOCK, num_stages=STAGES):
            offs = s + tl.arange(0, BLOCK)
            x = tl.load(X + offs, mask=offs < n_cols, other=-float("inf"), eviction_policy="evict_last").to(tl.float32)
            new = tl.maximum(m, tl.max(x, axis=0))
            d = d * tl.exp2((m - new) * L2E) + tl.sum(tl.exp2((x - new) * L2E), axis=0)
            m = new
    else:  # lanes online
        ml = tl.full((BLOCK,), -3.4e38, tl.float32)
        dl = tl.zeros((BLOCK,), tl.float32)
        for s in tl.range(0, n_cols, BLOCK, num_stages=STAGES):
            offs = s + tl.arange(0, BLOCK)
            x = tl.load(X + offs, mask=offs < n_cols, other=-float("inf"), eviction_policy="evict_last").to(tl.float32)
            new = tl.maximum(ml, x)
            dl = dl * tl.exp2((ml - new) * L2E) + tl.exp2((x - new) * L2E)
            ml = new
        m = tl.max(ml, axis=0)
        d = tl.sum(dl * tl.exp2((ml - m) * L2E), axis=0)
    r = 1.0 / d
    for s in tl.range(0, n_cols, BLOCK, num_stages=STAGES):
        offs = s + tl.arange(0, BLOCK)
        x = tl.load(X + offs, mask=offs < n_cols, other=-float("inf"), eviction_policy="evict_first").to(tl.float32)
        tl.store(Y + offs, tl.exp2((x - m) * L2E) * r, mask=offs < n_cols, cache_modifier=".cs")


def softmax(kind, rows, cols, block, warps, how, stages, per_sm):
    x = torch.randn(rows, cols, device=DEV, dtype=torch.float32 if CPU else torch.bfloat16)
    y = torch.empty_like(x)
    k = {"hold": sm_hold, "rows": sm_rows, "walk": sm_walk, "walk2": sm_walk2}[kind]
    grid = (132 * per_sm,) if kind == "rows" else (rows,)

    def f():
        k[grid](y, x, cols, rows, BLOCK=block, HOW=how, STAGES=stages, num_warps=warps)

    return f, lambda: (y.float() - torch.softmax(x.float(), 1)).abs().max().item() / (1 / cols)


# ---------------------------------------------------------------- cross entropy with gradient, no options
@triton.jit
def ce(Xp, Yp, Lp, n_cols, n_non, BLOCK: tl.constexpr, HOW: tl.constexpr, LANES: tl.constexpr, HINTS: tl.constexpr):
    pid = tl.program_id(0).to(tl.int64)
    y = tl.load(Yp + pid)
    Xp += pid * n_cols
    ori = tl.load(Xp + y).cast(tl.float32)
    m = float("-inf")
    d = 0.0
    if LANES:
        ml = tl.full((BLOCK,), -3.4e38, tl.float32)
        dl = tl.zeros((BLOCK,), tl.float32)
        for i in range(0, n_cols, BLOCK):
            offs = i + tl.arange(0, BLOCK)
            x = tl.load(
                Xp + offs, mask=offs < n_cols, other=float("-inf"), eviction_policy="evict_last" if HINTS else ""
            ).cast(tl.float32)
            new = tl.maximum(ml, x)
            dl = dl * tl.exp2((ml - new) * L2E) + tl.exp2((x - new) * L2E)
            ml = new
        m = tl.max(ml)
        d = tl.sum(dl * tl.exp2((ml - m) * L2E))
    else:
        for i in range(0, n_cols, BLOCK):
            offs = i + tl.arange(0, BLOCK)
            x = tl.load(
                Xp + offs, mask=offs < n_cols, other=float("-inf"), eviction_policy="evict_last" if HINTS else ""
            ).cast(tl.float32)
            new = tl.maximum(m, tl.max(x))
            d = d * tl.exp2((m - new) * L2E) + tl.sum(tl.exp2((x - new) * L2E))
            m = new
    lse = m + tl.log(d)
    r = 1.0 / (d * n_non)
    last = (n_cols - 1) // BLOCK * BLOCK
    for i_ in range(0, n_cols, BLOCK):
        if HOW >= 4:
            i = last - i_
        else:
            i = i_
        offs = i + tl.arange(0, BLOCK)
        x = tl.load(
            Xp + offs, mask=offs < n_cols, other=float("-inf"), eviction_policy="evict_first" if HINTS else ""
        ).cast(tl.float32)
        if HOW == 0 or HOW == 4:
            x = tl.exp2((x - m) * L2E) / d
            x = x / n_non
        elif HOW == 1:
            x = tl.exp2((x - m) * L2E) * (1.0 / d)
            x = x * (1.0 / n_non)
        else:
            x = tl.exp2((x - m) * L2E) * r
        tl.store(Xp + offs, x, mask=offs < n_cols)
    tl.debug_barrier()
    tl.store(Xp + y, (tl.exp2((ori - m) * L2E) / d - 1) / n_non)
    tl.store(Lp + pid, (lse - ori) / n_non)


def cross(rows, cols, block, warps, how, lanes, hints):
    x0 = torch.randn(rows, cols, device=DEV, dtype=torch.float32 if CPU else torch.bfloat16)
    x = x0.clone()
    y = torch.randint(0, cols, (rows,), device=DEV)
    loss = torch.empty(rows, device=DEV)
    n = float(rows)

    def f():
        ce[(rows,)](x, y, loss, cols, n, BLOCK=block, HOW=how, LANES=lanes, HINTS=hints, num_warps=warps)

    def err():
        x.copy_(x0)
        f()
        t = torch.softmax(x0.float(), 1)
        t[torch.arange(rows, device=DEV), y] -= 1
        t /= n
        return (x.float() - t).abs().max().item() * n

    return f, err


# ---------------------------------------------------------------- dyt backward, fixed numbers
@triton.jit
def fast_tanh(x):
    e = tl.exp2(tl.abs(x) * (-2 * L2E))
    t = (1.0 - e) / (1.0 + e)
    return tl.where(x < 0, -t, t)


@triton.jit
def dyt(
    DY,
    DX,
    DA,
    DG,
    DB,
    X,
    Alpha,
    Gamma,
    M,
    N: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
    LANES: tl.constexpr,
    FAST: tl.constexpr,
):
    col = tl.cast(tl.program_id(0), tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = col < N
    start = tl.cast(tl.program_id(1), tl.int64)
    alpha = tl.load(Alpha).to(tl.float32)
    gamma = tl.load(Gamma + col, mask=mask, other=0.0).to(tl.float32)
    dg = tl.zeros((BLOCK,), tl.float32)
    db = tl.zeros((BLOCK,), tl.float32)
    da = 0.0
    dal = tl.zeros((BLOCK,), tl.float32)
    for row in tl.range(start, M, tl.num_programs(1), num_stages=STAGES):
        x = tl.load(X + row * N + col, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(DY + row * N + col, mask=mask, other=0.0).to(tl.float32)
        if FAST == 1:
            t = fast_tanh(alpha * x)
        elif FAST == 2:
            t = tl.inline_asm_elementwise(
                "tanh.approx.f32 $0, $1;", "=f,f", [alpha * x], dtype=tl.float32, is_pure=True, pack=1
            )
        else:
            t = tanh(alpha * x)
        db += dy
        dg += dy * t
        tmp = (1 - t * t) * dy * gamma
        if LANES:
            dal += x * tmp
        else:
            da += tl.sum(x * tmp, 0)
        tl.store(DX + row * N + col, alpha * tmp, mask=mask)
    if LANES:
        da = tl.sum(dal, 0)
    tl.store(DG + start * N + col, dg, mask=mask)
    tl.store(DB + start * N + col, db, mask=mask)
    tl.store(DA + start * tl.cdiv(N, BLOCK) + tl.program_id(0), da)


def dytb(rows, cols, block, warps, stages, lanes, fast, per_sm):
    g = torch.randn(rows, cols, device=DEV, dtype=torch.bfloat16)
    x = torch.randn_like(g)
    dx = torch.empty_like(g)
    a = torch.full((1,), 0.5, device=DEV, dtype=torch.bfloat16)
    w = torch.randn(cols, device=DEV, dtype=torch.bfloat16)
    n = 132 * per_sm
    DA = torch.empty(n, triton.cdiv(cols, block), device=DEV)
    DG = torch.empty(n, cols, device=DEV)
    DB = torch.empty(n, cols, device=DEV)

    def f():
        dyt[(triton.cdiv(cols, block), n)](
            g,
            dx,
            DA,
            DG,
            DB,
            x,
            a,
            w,
            rows,
            N=cols,
            BLOCK=block,
            STAGES=stages,
            LANES=lanes,
            FAST=fast,
            num_warps=warps,
        )

    def err():
        t = torch.tanh(0.5 * x.float())
        return (dx.float() - 0.5 * (1 - t * t) * g.float() * w.float()).abs().max().item()

    return f, err


def first() -> Iterator[tuple]:
    for rows, cols in ((4096, 32000), (1024, 65536), (8192, 4096)):
        B = triton.next_power_of_2(cols)
        W = 32 if B >= 32768 else 8
        for how in (0, 1, 2, 3):
            yield (("softmax", ("hold", rows, cols, B, W, how, 1, 1)))
        if B == 32768:
            yield (("softmax", ("hold", rows, cols, B, 16, 3, 1, 1)))
        if B <= 32768:
            for how in (2, 3):
                for stages in (2, 3):
                    for per in (1,) if B == 32768 else (2, 4):
                        yield (("softmax", ("rows", rows, cols, B, W, how, stages, per)))
            if B == 32768:
                yield from [
                    ("softmax", ("rows", rows, cols, B, 16, 3, 2, 1)),
                    ("softmax", ("rows", rows, cols, B, 32, 3, 1, 2)),
                    ("softmax", ("rows", rows, cols, B, 32, 2, 1, 2)),
                ]
        if B >= 32768:
            for how in (0, 1):
                for b, w in ((2048, 4), (4096, 8), (8192, 16), (4096, 16), (16384, 32)):
                    for st in (1, 3):
                        yield (("softmax", ("walk", rows, cols, b, w, how, st, 1)))
    for rows, cols in ((4096, 32000), (2048, 128256)):
        yield from [("cross", (rows, cols, 32768, 32, how, 0, 0)) for how in (0, 1, 2)]
        for b, w in ((2048, 4), (4096, 8), (8192, 8), (8192, 16), (16384, 16), (16384, 32), (32768, 32)):
            for lanes in (0, 1):
                for hints in (0, 1):
                    yield (("cross", (rows, cols, b, w, 2, lanes, hints)))
        yield from [("cross", (rows, cols, b, w, 0, 0, 0)) for b, w in ((4096, 8), (8192, 16), (16384, 32))]
    for cols in (4096, 1024):
        bs = (1024, 2048, 4096) if cols == 4096 else (512, 1024)
        for b in bs:
            w = max(4, b // 512)
            for stages in (1, 3):
                for lanes in (0, 1):
                    for fast in (0, 1, 2):
                        for per in (1, 2):
                            if stages == 1 and (per == 2) and fast == 1:
                                continue
                            yield (("dytb", (8192, cols, b, w, stages, lanes, fast, per)))


def second() -> Iterator[tuple]:
    for rows, cols in ((4096, 32000), (1024, 65536), (1024, 32000)):
        for b, w in ((8192, 16), (16384, 32), (16384, 16), (8192, 8)) + (((32768, 32),) if cols > 40000 else ()):
            for how in (0, 1, 2, 3, 7, 11, 15, 19, 23, 31):
                yield (("softmax", ("walk2", rows, cols, b, w, how, 1, 1)))
    yield from [("softmax", ("rows", 1024, 32000, 32768, 32, 2, 3, 1))]
    for rows, cols in ((4096, 32000), (2048, 128256), (512, 128256)):
        for b, w in ((8192, 16), (16384, 16), (16384, 32), (32768, 32)):
            for how in (0, 2, 4, 6):
                for hints in (0, 1):
                    yield (("cross", (rows, cols, b, w, how, 0, hints)))
    for b in (1024, 2048, 4096):
        for w in (4, 8, 16):
            for stages, lanes, fast, per in (
                (1, 0, 0, 1),
                (1, 0, 0, 2),
                (1, 1, 0, 2),
                (3, 1, 0, 2),
                (3, 1, 0, 1),
                (1, 1, 1, 2),
                (3, 1, 1, 2),
                (1, 0, 0, 4),
                (1, 1, 0, 4),
                (3, 1, 1, 4),
            ):
                yield (("dytb", (8192, 4096, b, w, stages, lanes, fast, per)))


CASES = (
    [*first(), *second()]
    if os.environ.get("ONLY") is None
    else [*{"first": first, "second": second}[os.environ["ONLY"]]()]
)
MAKE = {"softmax": softmax, "cross": cross, "dytb": dytb}


def compile_share(share):
    out = []
    for i in share:
        name, args = CASES[i]
        try:
            f, err = MAKE[name](*args)
            f()
            torch.cuda.synchronize()
            out.append((i, round(err(), 5)))
            del f, err
            torch.cuda.empty_cache()
        except Exception as e:
            out.append((i, f"{type(e).__name__} {str(e)[:60]}"))
    return out


if __name__ == "__main__":
    if CPU:
        torch.manual_seed(0)
        for args in (
            ("walk2", 3, 100, 32, 4, 31, 1, 1),
            ("walk2", 3, 100, 32, 4, 0, 1, 1),
            ("hold", 3, 100, 128, 4, 1, 1, 1),
            ("hold", 3, 100, 128, 4, 3, 1, 1),
            ("rows", 200, 100, 128, 4, 3, 2, 1),
            ("walk", 3, 100, 32, 4, 0, 1, 1),
            ("walk", 3, 100, 32, 4, 1, 1, 1),
        ):
            f, e = softmax(*args)
            f()
            print(args, e())
        for args in (
            (4, 100, 32, 4, 0, 0, 0),
            (4, 100, 32, 4, 1, 1, 0),
            (4, 100, 32, 4, 2, 1, 1),
            (4, 100, 32, 4, 4, 0, 1),
            (4, 100, 32, 4, 6, 0, 1),
        ):
            f, e = cross(*args)
            print(args, e())
        sys.exit()
    import multiprocessing as mp

    t0 = time.time()
    n = len(CASES)
    errs = {}
    with ProcessPoolExecutor(14, mp_context=mp.get_context("spawn")) as pool:
        for got in pool.map(compile_share, [list(range(i, n, 42)) for i in range(42)]):
            errs.update(dict(got))
    print(f"compiled {n} in {time.time() - t0:.0f} s", flush=True)
    for i, (name, args) in enumerate(CASES):
        if isinstance(errs.get(i), str):
            print(name, args, errs[i])
            continue
        f, err = MAKE[name](*args)
        q = triton.testing.do_bench(f, warmup=5, rep=20, quantiles=[0.5, 0.2, 0.8])
        print(
            f"{name:8s} {args!s:48s} {q[0] * 1e3:8.1f} us ({q[1] * 1e3:.1f} to {q[2] * 1e3:.1f}) err {errs[i]}",
            flush=True,
        )
        del f, err

    def cold(work, flush):
        import statistics

        graph = torch.cuda.CUDAGraph()
        work[0]()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            for p in work:
                p()
        got = []
        for t in range(15):
            a, e = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            flush.fill_(t)
            a.record()
            graph.replay()
            e.record()
            torch.cuda.synchronize()
            got.append(a.elapsed_time(e) * 1e3 / len(work))
        return statistics.median(got)

    flush = torch.empty(3 * 50 * 2**20, dtype=torch.uint8, device=DEV)
    for rows, cols in ((4096, 32000), (1024, 65536), (8192, 4096), (1024, 32000), (4096, 14336)):
        n = rows * cols // 2  # floats of one bf16 tensor
        for lanes in (1, 2, 3):
            out = []
            for pad in (0, 2**10, 2**14, 2**18 + 2**10, 2**19, 3 * 2**18):
                flat = torch.empty(lanes, 2 * (n + pad), device=DEV).normal_()
                out.append(cold([lambda x=x, n=n, pad=pad: x[:n].copy_(x[n + pad : 2 * n + pad]) for x in flat], flush))
            del flat
            own = [(torch.empty(n, device=DEV).normal_(), torch.empty(n, device=DEV).normal_()) for _ in range(lanes)]
            out.append(cold([lambda x=x, y=y: y.copy_(x) for x, y in own], flush))
            out.append(cold([lambda x=x: x.mul_(1.0001) for x, y in own], flush))
            bf = [(x.view(torch.bfloat16), y.view(torch.bfloat16)) for x, y in own]
            out.append(cold([lambda x=x, y=y: y.copy_(x) for x, y in bf], flush))
            out.append(cold([lambda x=x: x.mul_(1.0) for x, y in bf], flush))
            print(
                f"roof {rows}x{cols} lanes {lanes}: pads",
                " ".join(f"{v:.1f}" for v in out[:6]),
                f"own {out[6]:.1f} in place {out[7]:.1f} bf16 own {out[8]:.1f} in place {out[9]:.1f}",
                flush=True,
            )
            del own, bf
    print(f"took {time.time() - t0:.0f} s")
