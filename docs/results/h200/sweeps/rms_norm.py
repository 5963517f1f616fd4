"""Times the backward pass of rms_norm in many forms, to see how much of what its memory gives it could have.

    python docs/results/h200/sweeps/rms_norm.py > docs/results/h200/sweeps/rms_norm.txt

The mathematics is liger-kernel's (llama's casting, gradients written over dY, one share of dW a program and a sum over
them), the kernels are written anew. Events around single launches, the L2 flushed before each: good for an overview,
not for a verdict.
"""

from __future__ import annotations

import itertools
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
import triton
import triton.language as tl
from triton.runtime.errors import OutOfResources

SHAPES = ((8192, 4096), (8192, 1024), (2048, 8192))
WARM, TIMED = 3, 9
L2_TIMES_FOUR = 2**28


@dataclass(frozen=True)
class Form:
    """One way to write and launch it."""

    rows: int
    """Taken in one turn."""
    programs: int
    """On each multiprocessor."""
    stages: int
    warps: int
    strided: bool
    """Programs take rows in turns, and not each a piece of its own."""
    hint: bool = False
    """What is read once leaves the cache first."""

    def fits(self, columns: int) -> bool:
        """What a thread holds of its rows is neither next to nothing nor more than it has registers for."""
        return 4 <= self.rows * triton.next_power_of_2(columns) // (32 * self.warps) <= 128

    def __str__(self) -> str:
        how = f"{'strided' if self.strided else 'pieces':7} {'hint' if self.hint else '-':4}"
        return f"{self.rows:4} {self.programs:4} {self.stages:6} {self.warps:5} {how}"


FORMS = (
    *(
        Form(*numbers, strided=strided)
        for numbers in itertools.product((1, 2, 4), (1, 2, 3), (1, 3, 4), (4, 8, 16))
        for strided in (False, True)
        if numbers[0] * numbers[1] <= 6
    ),
    *(Form(rows, programs, 3, 8, True, hint=True) for rows in (1, 2) for programs in (1, 2)),
)


@triton.jit
def backward_kernel(
    dY,
    X,
    W,
    RSTD,
    shares,
    n_rows,
    n_cols,
    piece,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    STAGES: tl.constexpr,
    STRIDED: tl.constexpr,
    HINT: tl.constexpr,
):
    program = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    w = tl.load(W + cols, mask=mask, other=0.0)
    share = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    if STRIDED:
        first = program * ROWS
        last = n_rows.to(tl.int64)
        step = tl.num_programs(0).to(tl.int64) * ROWS
    else:
        first = program * piece
        last = min(first + piece, n_rows)
        step = (first * 0) + ROWS
    for start in tl.range(first, last, step, num_stages=STAGES):
        row = start + tl.arange(0, ROWS)[:, None]
        here = (row < last) & mask
        dy = tl.load(dY + row * n_cols + cols, mask=here, other=0.0)
        x = tl.load(X + row * n_cols + cols, mask=here, other=0.0, eviction_policy=HINT).to(tl.float32)
        rstd = tl.load(RSTD + row, mask=row < last, other=0.0)
        m = (dy * w).to(tl.float32)
        dx = rstd * m + rstd * (-(1 / n_cols) * rstd * rstd * tl.sum(m * x, axis=1)[:, None] * x)
        share += dy * (x * rstd).to(tl.bfloat16)
        tl.store(dY + row * n_cols + cols, dx.to(tl.bfloat16), mask=here)
    tl.store(shares + program * n_cols + cols, tl.sum(share, axis=0), mask=mask)


@triton.jit
def sum_kernel(shares, total, n_shares, n_cols, SHARES: tl.constexpr, COLUMNS: tl.constexpr):
    cols = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    found = tl.zeros((SHARES, COLUMNS), dtype=tl.float32)
    for start in range(0, n_shares, SHARES):
        here = start + tl.arange(0, SHARES)[:, None]
        found += tl.load(shares + here * n_cols + cols, mask=(here < n_shares) & (cols < n_cols), other=0.0)
    tl.store(total + cols, tl.sum(found, axis=0), mask=cols < n_cols)


class Pass:
    """One form on one shape, with tensors of its own."""

    def __init__(self, form: Form, shape: tuple[int, int]) -> None:
        self.form, (self.n_rows, self.n_cols) = form, shape
        self.programs = form.programs * torch.cuda.get_device_properties(0).multi_processor_count
        torch.manual_seed(0)
        self.dy = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
        self.x, self.w = torch.randn_like(self.dy), torch.randn(self.n_cols, device="cuda", dtype=torch.bfloat16)
        self.rstd = torch.rsqrt(self.x.float().square().mean(dim=1))
        self.shares = torch.empty(self.programs, self.n_cols, device="cuda", dtype=torch.float32)
        self.total = torch.empty_like(self.w)

    def backward(self) -> None:
        form = self.form
        backward_kernel[(self.programs,)](
            *(self.dy, self.x, self.w, self.rstd, self.shares, self.n_rows, self.n_cols),
            triton.cdiv(self.n_rows, self.programs),
            BLOCK=triton.next_power_of_2(self.n_cols),
            ROWS=form.rows,
            STAGES=form.stages,
            STRIDED=form.strided,
            HINT="evict_first" if form.hint else "",
            num_warps=form.warps,
        )

    def sum(self) -> None:
        most = min(triton.next_power_of_2(self.programs), 256)
        grid = (triton.cdiv(self.n_cols, 32),)
        sum_kernel[grid](self.shares, self.total, self.programs, self.n_cols, SHARES=most, COLUMNS=32, num_warps=8)

    def is_right(self) -> bool:
        """Against torch in float32, to the last places of bfloat16: a form that is wrong has no time."""
        dy, x, rstd = self.dy.float(), self.x.float(), self.rstd[:, None]
        m = (self.dy * self.w).float()
        dx = rstd * (m - x * rstd * rstd * (m * x).mean(dim=1, keepdim=True))
        dw = (dy * (x * rstd).bfloat16().float()).sum(dim=0)
        self.backward()
        self.sum()
        near = torch.allclose(self.dy.float(), dx, rtol=2e-2, atol=2e-2)
        return near and torch.allclose(self.total.float(), dw, rtol=2e-2, atol=0.5)


def compiled(form: Form) -> None:
    for columns in (columns for _, columns in SHAPES if form.fits(columns)):
        one = Pass(form, (64, columns))
        with suppress(OutOfResources):
            one.backward()
            one.sum()
    torch.cuda.synchronize()


def microseconds(work: Callable[[], object], flush: torch.Tensor) -> float:
    seen = []
    for _ in range(WARM + TIMED):
        begun, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        flush.sum()
        begun.record()
        work()
        ended.record()
        torch.cuda.synchronize()
        seen.append(1000 * begun.elapsed_time(ended))
    return median(seen[WARM:])


def in_a_graph(*work: Callable[[], object]) -> Callable[[], object]:
    """Without the host between two launches."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for one in work:
            one()
    return graph.replay


def row(form: Form, shape: tuple[int, int], flush: torch.Tensor) -> tuple[float, float]:
    """us of the one launch, and of both."""
    one = Pass(form, shape)
    if not one.is_right():
        return float("nan"), float("nan")
    return microseconds(in_a_graph(one.backward), flush), microseconds(in_a_graph(one.backward, one.sum), flush)


def copied(shape: tuple[int, int], flush: torch.Tensor) -> float:
    """us of a triad of as many bytes: two thirds read, as here."""
    x, y = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return microseconds(in_a_graph(lambda: torch.add(x, y, out=y)), flush)


def main() -> None:
    with ProcessPoolExecutor(12, mp_context=multiprocessing.get_context("spawn")) as pool:
        list(pool.map(compiled, FORMS))
    flush = torch.ones(L2_TIMES_FOUR, dtype=torch.int8, device="cuda")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__}")
    for shape in SHAPES:
        floor = copied(shape, flush)
        found: list[tuple[float, float, Any]] = []
        for form in (form for form in FORMS if form.fits(shape[1])):
            try:
                alone, both = row(form, shape, flush)
            except OutOfResources:
                continue
            found.append((both, alone, form))
        print(f"\n{shape[0]} x {shape[1]}: a triad of as many bytes takes {floor:.1f} us")
        print("us of both launches, us of the first alone; rows a turn, programs, stages, warps, rows as, hint")
        for both, alone, form in sorted(found, key=lambda line: line[0]):
            print(f"{both:8.1f} {alone:8.1f} {form}")


if __name__ == "__main__":
    main()
