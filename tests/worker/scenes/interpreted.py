"""Run with TRITON_INTERPRET=1: small kernels under the mended interpreter. Prints what was seen as JSON."""

from __future__ import annotations

import json

import torch
import triton
import triton.language as tl

from bot.worker import interpreter

BOOKS = interpreter.install()

from triton.language.extra import libdevice  # noqa: E402 - bound after the stubs were replaced

SEEN: dict[str, object] = {}


@triton.jit
def scalars_kernel(out, eps, flag, n):
    value = eps.to(tl.float32) * 2
    if flag:
        value += n.to(tl.float32)
    tl.store(out, value)


@triton.jit
def library_kernel(out, x, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(out + i, libdevice.rsqrt(v) + libdevice.tanh(v))


@triton.jit
def unknown_kernel(out, x):
    tl.store(out, libdevice.cyl_bessel_i0(tl.load(x)))


@triton.jit
def loop_kernel(out, x, n, B: tl.constexpr):
    total = 0.0
    begin = tl.program_id(0) * 0
    for start in range(begin, n):
        total += tl.load(x + start)
    tl.store(out, total)


@triton.jit
def copy_kernel(y, x, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def twice_kernel(y, x, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    total = tl.sum(tl.load(x + i))
    tl.store(y + i, tl.load(x + i) / total)


@triton.jit
def beyond_kernel(y, x, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y + i, tl.load(x + i), mask=i < n)


@triton.jit
def before_kernel(y):
    tl.store(y - 1, 1.0)


@triton.jit
def helper(x, i):
    return tl.load(x + i + 1000)


@triton.jit
def nested_kernel(y, x):
    tl.store(y, helper(x, 0))


@triton.jit
def race_kernel(y):
    tl.store(y, tl.program_id(0).to(tl.float32))


@triton.jit
def agree_kernel(y):
    tl.store(y, 1.0)


@triton.jit
def chain_kernel(y):
    pid = tl.program_id(0)
    before = tl.load(y + pid - 1, mask=pid > 0, other=0.0)
    tl.store(y + pid, before + 1)


@triton.jit
def atomic_kernel(y):
    tl.atomic_add(y, 1.0)


@triton.autotune(configs=[triton.Config({"B": 4}), triton.Config({"B": 8})], key=["n"])
@triton.jit
def tuned_kernel(y, n, B: tl.constexpr):
    tl.store(y, B + 0.0)


def attempt(name, run):
    BOOKS.clear()
    try:
        run()
        error = ""
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
    SEEN[name] = {
        "error": error,
        "stray": BOOKS.out_of_bounds,
        "races": [race for launch in BOOKS.launches for race in launch.races],
        "shares": {
            region.name: [region.share(region.read_by), region.share(region.written_by)]
            for launch in BOOKS.launches
            for region in launch.regions
        },
        "again": {
            region.name: [region.again / region.used_bytes, launch.between(region)]
            for launch in BOOKS.launches
            for region in launch.regions
            if region.again
        },
    }


def main() -> None:
    from bot.worker.contract import ARCHES
    from bot.worker.device import install

    install(ARCHES["sm_90"], 5)
    one, x, y = torch.zeros(1), torch.arange(1.0, 17.0), torch.zeros(16)
    scalars_kernel[(1,)](one, 0.25, True, 3)
    SEEN["scalars"] = one.item()
    library_kernel[(1,)](y, x, N=16)
    SEEN["library"] = float((y - (x.rsqrt() + x.tanh())).abs().max())
    loop_kernel[(1,)](one, x, 16, B=4)
    SEEN["loop"] = one.item()
    attempt("unknown", lambda: unknown_kernel[(1,)](one, x))
    attempt("copy", lambda: copy_kernel[(3,)](torch.zeros(20), torch.zeros(40), 20, B=8))
    attempt("twice", lambda: twice_kernel[(2,)](torch.zeros(16), torch.ones(16), N=8))
    attempt("beyond", lambda: beyond_kernel[(1,)](torch.zeros(5), torch.zeros(5), 5, B=8))
    attempt("before", lambda: before_kernel[(1,)](torch.zeros(5)))
    attempt("nested", lambda: nested_kernel[(1,)](torch.zeros(1), torch.zeros(4)))
    attempt("race", lambda: race_kernel[(3,)](torch.zeros(1)))
    attempt("agree", lambda: agree_kernel[(3,)](torch.zeros(1)))
    attempt("chain", lambda: chain_kernel[(4,)](torch.zeros(4)))
    attempt("atomic", lambda: atomic_kernel[(3,)](one.zero_()))
    SEEN["atomic value"] = one.item()
    forward, backward = torch.zeros(4), torch.zeros(4)
    chain_kernel[(4,)](forward)
    BOOKS.backwards = True
    chain_kernel[(4,)](backward)
    SEEN["orders"] = [forward.tolist(), backward.tolist()]
    tuned_kernel[(1,)](one, 3)
    SEEN["tuned"] = one.item()
    print(json.dumps(SEEN))


if __name__ == "__main__":
    main()
