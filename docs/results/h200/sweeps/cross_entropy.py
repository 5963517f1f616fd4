"""Times liger_cross_entropy_kernel of liger-kernel 0.8.5 in many forms, to see what its wide rows could gain.

    python docs/results/h200/sweeps/cross_entropy.py LIGER FOLDER > docs/results/h200/sweeps/cross_entropy.txt

LIGER is the unpacked source distribution, FOLDER an empty one for the rewritten files. Events around single launches,
the L2 flushed before each: good for an overview, not for a verdict.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

import torch
import triton

SHAPES = ((4096, 32000), (2048, 128256), (512, 128256))
WARM, TIMED = 4, 10
LOOP = "in range(0, n_cols, BLOCK_SIZE)"
OTHER = 'other=float("-inf")'
STORE = "tl.store(X_ptr + X_offsets, X_block, mask=X_offsets < n_cols)"
READ = re.compile(r"( +)X_block = tl\.load\(.*?\)\.cast\(tl\.float32\)\n", re.DOTALL)


@dataclass(frozen=True)
class Form:
    """One way to write and launch the kernel."""

    block: int
    warps: int
    loop: str = ""
    """s3: three stages; u2: unrolled twice; p: the next block is loaded before this one is worked on, in the first
    loop; pp: in both."""
    hints: bool = False
    """The first reading of a row stays in the cache, the second and the store leave it first."""

    def __str__(self) -> str:
        return f"{self.block:6} {self.warps:3} {self.loop or '-':3} {'hints' if self.hints else '-':5}"


WIDE, MIDDLE, NARROW = (32768, 32), (16384, 16), (8192, 8)
PLAIN = (WIDE, (16384, 32), MIDDLE, (16384, 8), (8192, 16), NARROW, (4096, 8), (4096, 4))
AHEAD = (WIDE, MIDDLE, (8192, 16), NARROW)
FORMS = (
    *(Form(*one) for one in PLAIN),
    *(Form(*one, hints=True) for one in PLAIN),
    *(Form(*one, loop) for one in AHEAD for loop in ("s2", "s3", "p", "pp")),
    *(Form(*one, loop, hints=True) for one in AHEAD[1:] for loop in ("u2", "p", "pp")),
)
"""The first is stock's."""


def _hinted(text: str, policy: str) -> str:
    return text.replace(OTHER, f'{OTHER}, eviction_policy="{policy}"') if policy else text


def _ahead(loop: str) -> str:
    """The loop with its reading moved ahead by one block."""
    read = READ.search(loop)
    assert read is not None
    indent, load = read[1], read[0].replace("X_block = ", "X_next = ").replace(".cast(tl.float32)", "")
    later = load.replace("X_ptr + X_offsets", "X_ptr + X_offsets + BLOCK_SIZE")
    later = later.replace("mask=X_offsets", "mask=X_offsets + BLOCK_SIZE")
    inside = f"{indent}X_block = X_next.cast(tl.float32)\n{later}"
    line = f"{indent[4:]}for i {LOOP}:\n"
    before = load.replace("X_offsets", "tl.arange(0, BLOCK_SIZE)").replace(f"\n{indent}", f"\n{indent[4:]}")
    return loop.replace(read[0], inside, 1).replace(line, f"{before[4:]}{line}", 1)


def rewritten(text: str, form: Form) -> str:
    text = text.replace(
        "min(MAX_FUSED_SIZE, triton.next_power_of_2(V))", f"min({form.block}, triton.next_power_of_2(V))"
    )
    text = text.replace("num_warps=ce_num_warps", f"num_warps={form.warps}")
    head, rest = text.split("    scaled_x_sum = 0.0\n", 1)
    first, second = rest.split("    if HAS_GRADIENTS:\n", 1)
    second, tail = second.split(STORE, 1)
    if form.hints:
        first, second = _hinted(first, "evict_last"), _hinted(second, "evict_first")
    if form.loop[:1] in ("s", "u") and form.loop:
        option = f"{'num_stages' if form.loop[0] == 's' else 'loop_unroll_factor'}={form.loop[1:]}"
        first, second = (
            part.replace(LOOP, f"in tl.range(0, n_cols, BLOCK_SIZE, {option})") for part in (first, second)
        )
    if form.loop.startswith("p"):
        first = _ahead(first)
    if form.loop == "pp":
        second = _ahead(second)
    store = f'{STORE[:-1]}, eviction_policy="evict_first")' if form.hints else STORE
    return f"{head}    scaled_x_sum = 0.0\n{first}    if HAS_GRADIENTS:\n{second}{store}{tail}"


def module_of(number: int) -> ModuleType:
    liger, folder = Path(sys.argv[1]), Path(sys.argv[2])
    sys.path.insert(0, str(liger / "src"))
    path = folder / f"form_{number}.py"
    stock = (liger / "src/liger_kernel/ops/cross_entropy.py").read_text(encoding="utf-8")
    path.write_text(rewritten(stock, FORMS[number]), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


class Watched:
    """The kernel, with an event on either side of each launch."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self.launches: list[tuple[Any, Any]] = []

    def __getitem__(self, grid: Any) -> Any:
        def launch(*arguments: Any, **named: Any) -> None:
            begun, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begun.record()
            self._kernel[grid](*arguments, **named)
            ended.record()
            self.launches.append((begun, ended))

        return launch


def forward(made: ModuleType, rows: torch.Tensor, labels: torch.Tensor) -> None:
    made.cross_entropy_forward(rows, labels, None, -100, 0.0, 0.0, "mean", None, False)


def drawn(rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(rows + columns)
    values = torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16).requires_grad_()
    return values, torch.randint(0, columns, (rows,), device="cuda")


def compiled(number: int) -> None:
    made = module_of(number)
    for _, columns in SHAPES:
        forward(made, *drawn(8, columns))
    torch.cuda.synchronize()


def microseconds(number: int, values: torch.Tensor, labels: torch.Tensor) -> float:
    made, flush = module_of(number), torch.empty(2**28, dtype=torch.int8, device="cuda")
    watched = Watched(made.liger_cross_entropy_kernel)
    made.liger_cross_entropy_kernel = watched  # type: ignore[attr-defined]
    for _ in range(WARM + TIMED):
        flush.zero_()
        forward(made, values.detach().clone().requires_grad_(), labels)
    torch.cuda.synchronize()
    return median(1000 * begun.elapsed_time(ended) for begun, ended in watched.launches[WARM:])


def main() -> None:
    with ProcessPoolExecutor(8, mp_context=multiprocessing.get_context("spawn")) as pool:
        list(pool.map(compiled, range(len(FORMS))))
    table = []
    for shape in SHAPES:
        inputs = drawn(*shape)
        table.append([microseconds(number, *inputs) for number in range(len(FORMS))])
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__}")
    print("forward with gradient, bfloat16: us, and how many times as fast as stock's")
    print(f"{'block':>6} {'w':>3} {'':3} {'':5}", *(f"{f'{rows}x{columns}':>16}" for rows, columns in SHAPES))
    for number, form in enumerate(FORMS):
        print(form, *(f"{times[number]:8.1f} {times[0] / times[number]:6.2f}x" for times in table))


if __name__ == "__main__":
    main()
