"""The kernels a clock is calibrated with: many texts, one meaning, and effects of a known size."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from bot.bench.calibrating import _of, amounts
from bot.bench.planted import IDLE, PLANTED, SIZES, source


def test_each_kernel_has_a_name_and_words_of_its_own() -> None:
    text = source(40, seed=3)
    names = re.findall(r"^def (_rows_\w+_kernel)", text, re.MULTILINE)
    bodies = re.split(r"^def _rows_\w+_kernel", text, flags=re.MULTILINE)[1:]
    ast.parse(text)
    assert len(set(names)) == 40
    assert len(set(bodies[:-1])) > 20
    assert f"KERNELS = [{', '.join(names)}]" in text


def test_the_same_seed_writes_the_same_kernels() -> None:
    assert source(5, seed=3) == source(5, seed=3) != source(5, seed=4)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: size.name)
@pytest.mark.parametrize("percent", PLANTED)
def test_a_planted_effect_is_as_many_rows(size, percent: float) -> None:  # type: ignore[no-untyped-def]
    before, after = size.rows * (1 + IDLE), size.rows + size.extra(percent)
    assert 100 * (before / after - 1) == pytest.approx(percent, abs=0.03)
    assert size.extra(0.0) == round(size.rows * IDLE)


def test_three_hundred_trials_are_enough_for_what_is_promised() -> None:
    counts = {percent: sum(_of(size, count) for size in SIZES) for percent, count in amounts(300).trials}
    of_size = {
        percent: sum(_of(s, count) for s in SIZES if s.name != "short") for percent, count in amounts(300).trials
    }
    assert counts[0.0] >= 300
    assert counts[-2.0] >= 300
    assert of_size[2.0] >= 200
    assert set(counts) == {0.0, *PLANTED}


COSTLY = {"FADD", "FMUL", "FFMA", "MUFU", "LDG", "STG", "SHFL", "BAR"}
NVDISASM = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "nvdisasm"


def instructions(kernel: Any, folder: Path) -> tuple[tuple[str, int], ...]:
    """How many of each costly kind it has for an H200, whatever their order."""
    types = {
        "y_ptr": "*bf16",
        "x_ptr": "*bf16",
        "idle_ptr": "*bf16",
        "rows": "i32",
        "turns": "i32",
        "COLS": "constexpr",
    }
    aligned: Any = {(place,): [["tt.divisibility", 16]] for place in range(4)}
    made = ASTSource(kernel, types, constexprs={(5,): 1024}, attrs=aligned)
    cubin = folder / f"{kernel.fn.__name__}.cubin"
    cubin.write_bytes(triton.compile(made, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4}).asm["cubin"])
    seen = subprocess.run([NVDISASM, "-c", cubin], capture_output=True, text=True, check=True).stdout
    words = re.findall(r"^\s+/\*[0-9a-f]{4}\*/\s+(?:@\S+\s+)?([A-Z]\w+)", seen, re.MULTILINE)
    return tuple(sorted(Counter(word for word in words if word in COSTLY).items()))


def test_all_words_cost_the_same(tmp_path: Path) -> None:
    """A pair that is to be equal has the same instructions, in another order: one kind of half was a fifth slower."""
    place = tmp_path / "rows.py"
    place.write_text(source(8, seed=3), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("rows_for_calibration", place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kinds = {instructions(kernel, tmp_path) for kernel in module.KERNELS}
    assert len(kinds) == 1
    assert dict(kinds.pop())["FFMA"] >= 8
