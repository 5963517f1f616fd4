"""A logarithm of each element of a row becomes the GPU's own: where it applies, what it leaves, what it compiles to."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bot.engine.transforms import TRANSFORMS, base_two, quick_log
from tests.engine.library import HEAD, changes

HOST = """

def settings(n):
    return n
"""
KERNEL = '''"""An op."""

import torch
import triton
import triton.language as tl


@triton.jit
def _k(x, y, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    v = tl.load(x + row * n_cols + cols, mask=mask, other=1.0)
    tl.store(y + row * n_cols + cols, tl.log(v), mask=mask)


def run(x, y, n_rows, n_cols):
    """One row a program."""
    BLOCK_SIZE, num_warps = settings(n_cols)
    _k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps)
    return y
'''
NEW = quick_log.TEXT.strip("\n")
FIRST = "\n\n\n@triton.jit\ndef _k("


def quick(text: str) -> str | None:
    found = quick_log.rewrite(text)
    return found.text if found is not None else None


def test_the_calls_change_and_what_they_call_comes_before_the_first_kernel() -> None:
    """Below an import one empty line, as who sorts imports wants it."""
    after = quick(KERNEL)
    assert after is not None
    ast.parse(after)
    helped = KERNEL.replace(FIRST, f"\n\n{NEW}{FIRST}", 1)
    assert after == helped.replace("tl.log(v), mask", "_quick_log(v), mask")


def test_below_a_function_there_are_two() -> None:
    text = KERNEL.replace(FIRST, f"\n{HOST}{FIRST}", 1)
    after = quick(text)
    assert after is not None and f"    return n\n\n\n{NEW}{FIRST}" in after


def test_another_kernel_may_be_the_first() -> None:
    other = "@triton.jit\ndef _other(x):\n    tl.store(x, 1.0)\n\n\n@triton.jit\ndef _k("
    after = quick(KERNEL.replace("@triton.jit\ndef _k(", other))
    assert after is not None and f"{NEW}\n\n\n@triton.jit\ndef _other(" in after
    assert "_quick_log(v), mask" in after


def test_a_logarithm_of_one_number_beside_it_stays() -> None:
    rest = KERNEL.replace("tl.log(v)", "tl.log(v) - tl.math.log(tl.sum(v, axis=0))")
    gone, new = changes(rest, quick(rest) or "")
    assert len(gone) == 1 and "_quick_log(v) - tl.math.log(tl.sum(v, axis=0))" in "".join(new)


def test_a_logarithm_of_one_number_of_each_row_of_a_tile_stays() -> None:
    """As attention's, of the sums that it divides its rows by."""
    tile = KERNEL.replace("tl.log(v), mask", "tl.log(v) + v[None, :], mask")
    assert quick(tile) is not None and quick(tile.replace("v[None, :]", "v[:, None]")) is None


def test_a_longer_name_is_the_same() -> None:
    after = quick(KERNEL.replace("tl.log(v)", "tl.math.log(v)"))
    assert after is not None and "_quick_log(v), mask" in after


def test_behind_a_condition_it_is_taken_too() -> None:
    """jsd's: which of three ways it goes is a constant of the launch."""
    text = KERNEL.replace("    tl.store(y", "    if BLOCK_SIZE > 1:\n        v = tl.log(v)\n    tl.store(y")
    after = quick(text)
    assert after is not None and "        v = _quick_log(v)\n" in after


def test_rewriting_twice_changes_nothing_more() -> None:
    assert quick(quick(KERNEL) or "") is None


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("it is of one number", "tl.log(v)", "tl.log(tl.sum(v, axis=0))"),
        ("it is to the base of two", "tl.log(v)", "tl.log2(v)"),
        ("it is another's", "tl.log(v)", "torch.log(v)"),
        ("its root is taken", "tl.log(v)", "tl.sqrt(tl.log(1.0 + tl.exp(v)))"),
        ("the root of its name is taken", "    tl.store(y", "    v = tl.log(v)\n    v = tl.sqrt(v)\n    tl.store(y"),
        ("its logarithm is taken", "tl.log(v)", "tl.log(-tl.log(v))"),
        ("it divides", "tl.log(v)", "(v - 1.0) / tl.log(v)"),
        ("it divides by another name", "    tl.store(y", "    v = tl.log(v)\n    n_cols /= v\n    tl.store(y"),
        ("two arguments", "tl.log(v)", "tl.log(v, v)"),
        ("a name of its argument", "tl.log(v)", "tl.log(x=v)"),
        ("several that nobody counts", "tl.log(v)", "tl.log(*v)"),
        ("the function's name is taken", "    return y\n", "    return _quick_log\n"),
        ("the module's name is taken", "    return y\n", "    return _libdevice\n"),
        ("tl has no name", "import triton.language as tl\n", "import triton.language as tl  # all of it\n"),
    ],
)
def test_a_logarithm_stays_when_it_is_not_sure(why: str, before: str, after: str) -> None:
    assert before in KERNEL
    assert quick(KERNEL.replace(before, after)) is None, why


@pytest.mark.parametrize("kept", ["tl.log(tl.sqrt(v))", "tl.log(v) / v", "tl.sqrt(tl.sum(tl.log(v), axis=0)) * v"])
def test_a_logarithm_of_a_root_and_a_share_of_one_are_the_instruction(kept: str) -> None:
    assert "_quick_log(" in (quick(KERNEL.replace("tl.log(v)", kept)) or "").rpartition("def _k(")[2]


def test_a_kernel_without_one_is_left_alone() -> None:
    assert quick(HEAD) is None


@pytest.mark.parametrize(("more", "fits"), [(0, True), (1, False)])
def test_a_line_may_become_as_long_as_a_line_may_be(more: int, fits: bool) -> None:
    line = "    tl.store(y + row * n_cols + cols, tl.log(v + ), mask=mask)"
    room = 120 - len(line.replace("tl.log", "_quick_log"))
    text = KERNEL.replace("tl.log(v)", f"tl.log(v + {'1' * (room + more)})")
    assert (quick(text) is not None) == fits


def test_other_rewrites_go_on_from_it() -> None:
    found = TRANSFORMS["tile_rows"].rewrite(quick(KERNEL) or "")
    assert found is not None and found.kernels == ("_k",)


def test_it_is_a_logarithm_to_who_keeps_away_from_those() -> None:
    """An exponential to the base of two may be zero where the other is very small: no logarithm is taken of one."""
    plain = KERNEL.replace("tl.log(v)", "tl.exp(v) + v")
    taken = KERNEL.replace("tl.log(v)", "tl.log(tl.exp(v))")
    assert base_two.rewrite(plain) is not None
    assert base_two.rewrite(taken) is None and base_two.rewrite(quick(taken) or "") is None


COMPILED = """
import importlib.util, sys
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile

spec = importlib.util.spec_from_file_location("op", sys.argv[1])
op = importlib.util.module_from_spec(spec)
spec.loader.exec_module(op)
for target in (GPUTarget("cuda", 80, 32), GPUTarget("cuda", 90, 32), GPUTarget("hip", "gfx942", 64)):
    for kind in ("fp32", "fp64"):
        signature = {"x": f"*{kind}", "y": f"*{kind}", "n_cols": "i32", "BLOCK_SIZE": "constexpr"}
        made = compile(ASTSource(op._k, signature, {(3,): 256}), target=target)
        assembly = made.asm.get("ptx") or made.asm["amdgcn"]
        print(target.arch, kind, assembly.count("lg2.approx"), assembly.count("v_log_f32") > 0)
"""


def compiled(path: Path) -> list[str]:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-c", COMPILED, str(path)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()


def test_it_is_one_instruction_of_the_gpu_that_has_it_and_as_it_was_elsewhere(tmp_path: Path) -> None:
    """256 elements and four warps: two a thread. AMD's own is short already, and no GPU has one for float64."""
    for name, text in (("before.py", KERNEL), ("after.py", quick(KERNEL) or "")):
        (tmp_path / name).write_text(text)
    amd = ["gfx942 fp32 0 True", "gfx942 fp64 0 False"]
    untouched = ["80 fp32 0 False", "80 fp64 0 False", "90 fp32 0 False", "90 fp64 0 False", *amd]
    assert compiled(tmp_path / "before.py") == untouched
    quicker = ["80 fp32 2 False", "80 fp64 0 False", "90 fp32 2 False", "90 fp64 0 False", *amd]
    assert compiled(tmp_path / "after.py") == quicker
