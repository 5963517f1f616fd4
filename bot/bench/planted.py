"""The source that a clock is calibrated with: one kernel in many words, and arguments that make it slower or faster.

v0 does a tenth more rows than it has to; a variant that is planted faster does fewer of them, a slower one more.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from bot.model.measurement import Case, Suite
from bot.model.site import KernelSite

IDLE = 0.10
"""Share of rows that v0 computes for nothing."""
PLANTED = (-5.0, -2.0, -1.0, 1.0, 2.0, 5.0)
OP_FILE = "src/calibration/rows.py"


@dataclass(frozen=True)
class Size:
    """A kernel of one size class. `turns` of a loop over registers make it longer without more memory."""

    name: str
    rows: int
    cols: int
    turns: int
    share: float
    """Of all pairs. What takes long is measured less often."""
    blocks: int

    @property
    def case(self) -> Case:
        shape = (("rows", self.rows), ("cols", self.cols))
        return Case(id=self.name, direction="forward", shape=shape, dtype="bfloat16")

    def extra(self, planted: float) -> int:
        """Idle rows of an arm that is to be so many percent faster than v0."""
        return max(0, round(self.rows * (1 + IDLE) / (1 + planted / 100)) - self.rows)


SIZES = (
    Size("short", 4096, 1024, 0, 0.4, 24),
    Size("middle", 16384, 1024, 150, 0.4, 24),
    Size("long", 65536, 1024, 500, 0.2, 16),
)


def _lines(rng: random.Random) -> list[str]:
    """One kernel's body. What may come in any order does, and what may be said in two ways is."""
    begin = ["row = tl.program_id(0)", "columns = tl.arange(0, COLS)"]
    rng.shuffle(begin)
    # Not 0.5 * (x + v): its two steps wait for one another, and it is a fifth slower.
    half = rng.choice(("v = v * 0.5 + x * 0.5", "v = x * 0.5 + v * 0.5", "v = 0.5 * v + 0.5 * x"))
    where = rng.choice(
        ("y_ptr + row * COLS + columns", "y_ptr + columns + row * COLS", "columns + (y_ptr + row * COLS)")
    )
    total = rng.choice(("tl.sum(v * v, axis=0) / COLS", "tl.sum(v * v, axis=0) * (1.0 / COLS)"))
    load = rng.choice(("(row % rows) * COLS + columns", "columns + (row % rows) * COLS"))
    return [
        *begin,
        f"x = tl.load(x_ptr + {load}).to(tl.float32)",
        "v = x",
        "for _ in range(turns):",
        f"    {half}",
        f"r = tl.rsqrt({total} + 1e-6)",
        "if row < rows:",
        f"    tl.store({where}, v * r)",
        "else:",
        "    tl.store(idle_ptr + (row - rows) * COLS + columns, v * r)",
    ]


_HEAD = '''"""Written for a calibration: kernels that compute the same, each in its own words."""

import torch
import triton
import triton.language as tl
'''
_OP = """

class Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, turns, extra, which):
        rows, cols = x.shape
        y = torch.empty_like(x)
        # The rows beyond the last read the first ones again and write where nobody looks.
        idle = torch.empty(max(extra, 1), cols, dtype=x.dtype, device=x.device)
        KERNELS[which][(rows + extra,)](y, x, idle, rows, turns, COLS=cols, num_warps=4)
        return y

    @staticmethod
    def backward(ctx, dy):
        raise NotImplementedError
"""


def _kernel(name: str, rng: random.Random) -> str:
    head = f"@triton.jit\ndef {name}(y_ptr, x_ptr, idle_ptr, rows, turns, COLS: tl.constexpr):\n"
    return head + "".join(f"    {line}\n" for line in _lines(rng))


def source(count: int, seed: int) -> str:
    """`count` kernels; the first is v0."""
    rng = random.Random(seed)
    names = [f"_rows_{rng.getrandbits(32):08x}_kernel" for _ in range(count)]
    kernels = [_kernel(name, rng) for name in names]
    return "\n\n".join([_HEAD, *kernels, f"KERNELS = [{', '.join(names)}]\n"]) + _OP


def write(folder: Path, count: int, seed: int) -> tuple[KernelSite, Suite]:
    """A tree with the source in it, described as any target is."""
    place = folder / OP_FILE
    place.parent.mkdir(parents=True)
    (place.parent / "__init__.py").write_text("", encoding="utf-8")
    place.write_text(source(count, seed), encoding="utf-8")
    site = KernelSite(
        kernel="calibration",
        preset="toml",
        source_root="src",
        module="calibration.rows",
        files=(OP_FILE,),
        test_file="none",
        benchmark_file="none",
        test_command=(),
        style_command=(),
    )
    return site, Suite(name="full", cases=tuple(size.case for size in SIZES), checks=())
