"""Runs a table of sketches: each compiled and held against torch once, many side by side, then timed alone."""

import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor

import torch
import triton

CPU = os.environ.get("TRITON_INTERPRET") == "1"


def one(make, args):
    """How far off it is, or why nobody knows."""
    try:
        f, err = make(*args)
        f()
        return round(err(), 5)
    except Exception as error:
        return f"{type(error).__name__} {str(error)[:60]}"


def play(makers, cases):
    """Prints a line a case, (name, arguments) of one of the makers; on a machine without a GPU nothing is timed."""
    torch.manual_seed(0)
    if CPU:
        for name, args in cases:
            print(name, args, "err", one(makers[name], args))
        sys.exit()
    began = time.time()
    with ProcessPoolExecutor(12, mp_context=multiprocessing.get_context("spawn")) as pool:
        errs = list(pool.map(one, [makers[name] for name, _ in cases], [args for _, args in cases], chunksize=4))
    print(f"compiled {len(cases)} in {time.time() - began:.0f} s", flush=True)
    for (name, args), said in zip(cases, errs, strict=True):
        if isinstance(said, str):
            print(f"{name:8s} {args!s:44s} {said}")
            continue
        q = triton.testing.do_bench(makers[name](*args)[0], warmup=5, rep=20, quantiles=[0.5, 0.2, 0.8])
        low, high = f"{q[1] * 1e3:.1f}", f"{q[2] * 1e3:.1f}"
        print(f"{name:8s} {args!s:44s} {q[0] * 1e3:8.1f} us ({low} to {high}) err {said}", flush=True)
    print(f"took {time.time() - began:.0f} s")
