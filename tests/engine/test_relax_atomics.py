"""Atomic additions that nobody waits for say so, and those that somebody waits for are left alone."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bot.engine.transforms import add_in_float32, relax_atomics
from tests.engine.library import changes, sample
from tests.engine.test_partial_sums import GROUPS

ADDED = "    tl.atomic_add(y + cols, v, mask=mask)"
KERNEL = f"""import triton
import triton.language as tl


@triton.jit
def _k(x, y, z, n_cols, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    v = tl.load(x + row * n_cols + cols, mask=mask)
{ADDED}
    tl.atomic_add(
        z + row * n_cols + cols,
        v,
        mask=mask,
    )  # of each row
"""


def relaxed(text: str) -> str | None:
    found = relax_atomics.rewrite(text)
    return found.text if found is not None else None


def test_each_addition_says_it_and_a_line_says_why() -> None:
    after = relaxed(KERNEL)
    assert after is not None
    ast.parse(after)
    assert changes(KERNEL, after) == (
        [ADDED],
        [
            f"    # {relax_atomics.COMMENT}",
            '    tl.atomic_add(y + cols, v, mask=mask, sem="relaxed")',
            '        sem="relaxed",',
        ],
    )


def test_it_is_said_once() -> None:
    after = relaxed(KERNEL)
    assert after is not None and relaxed(after) is None


def test_in_half_precision_too_and_not_where_the_last_program_is_counted() -> None:
    assert relaxed(GROUPS) is not None
    counted = add_in_float32.rewrite(GROUPS)
    assert counted is not None and relaxed(counted.text) is None


def test_a_kernel_that_tunes_itself_says_it_too() -> None:
    tuned = KERNEL.replace("@triton.jit", "@triton.autotune(configs=[], key=[])\n@triton.jit")
    assert relaxed(tuned) is not None


def test_one_kernel_alone() -> None:
    two = KERNEL + KERNEL.partition("@triton.jit")[1] + KERNEL.partition("@triton.jit")[2].replace("_k(", "_l(")
    for name, kernels in (("", ("_k", "_l")), ("_l", ("_l",))):
        found = relax_atomics.rewrite(two, only=name)
        assert found is not None and found.kernels == kernels
    both, one = relax_atomics.of_kernels(two, {"_k", "_l", "_m"}), relax_atomics.of_kernels(two, {"_l"})
    assert both is not None and one is not None
    assert (both.text, both.kernels) == (relaxed(two), ("_k", "_l"))
    assert one.text == found.text and one.kernels == ("_l",)
    assert relax_atomics.of_kernels(two, {"_m"}) is None


@pytest.mark.parametrize("kernel", ["rms_norm", "cross_entropy"])
def test_a_kernel_without_atomics_is_left_alone(kernel: str) -> None:
    assert relaxed(sample(kernel)) is None


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("somebody looks at what one returns", ADDED, f"    old =  {ADDED.strip()}"),
        ("another atomic", ADDED, f"    tl.atomic_max(y + cols, v)\n{ADDED}"),
        ("an order is said", "v, mask=mask)", 'v, mask=mask, sem="release")'),
        ("it may be said elsewhere", "v, mask=mask)", "v, **HOW)"),
        ("it is read in the kernel", ADDED, f"    w = tl.load(y)\n{ADDED}"),
        ("it is read under another name", ADDED, f"    other = y + 1\n{ADDED}"),
        ("a helper is handed it", ADDED, f"    wait_for(y)\n{ADDED}"),
        ("it is no parameter", "(y + cols, v, mask", "(mine + cols, v, mask"),
        ("it moves", ADDED, f"    y += row\n{ADDED}"),
        ("it does not begin with a pointer", "(y + cols, v, mask", "(tl.where(mask, y, y) + cols, v, mask"),
    ],
)
def test_where_it_is_not_sure_nothing_changes(why: str, before: str, after: str) -> None:
    assert KERNEL.count(before) == 1, why
    assert relaxed(KERNEL.replace(before, after)) is None, why


HELPERS = """@triton.jit
def meet(z):
    {}


@triton.jit
def helped(z):
    return meet(z) + 1


@triton.jit
def _k("""


@pytest.mark.parametrize(
    ("does", "relaxes"),
    [
        ("return z * 2", True),
        ("return tl.atomic_add(z, 1)", False),
        ("while tl.load(z, volatile=True) < 8:\n        pass", False),
    ],
)
def test_a_helper_may_reckon_and_not_meet_other_programs(does: str, relaxes: bool) -> None:
    """What was added before has to be there for those who wait."""
    text = KERNEL.replace("@triton.jit\ndef _k(", HELPERS.format(does)).replace(ADDED, f"{ADDED}\n    helped(x)")
    assert (relaxed(text) is not None) is relaxes
    imported = text.replace("import triton\n", "import triton\nfrom elsewhere import arrive\n")
    assert (relaxed(imported) is not None) is relaxes
    assert relaxed(imported.replace("    helped(x)", "    arrive(x)")) is None


COMPILED = """
import importlib.util, sys
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile

signature = {"x": "*fp32", "y": "*fp32", "z": "*fp32", "n_cols": "i32", "BLOCK_SIZE": "constexpr"}
for path in sys.argv[1:]:
    spec = importlib.util.spec_from_file_location("op", path)
    op = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(op)
    made = compile(ASTSource(op._k, signature, {(4,): 256}), target=GPUTarget("cuda", 90, 32))
    print(made.asm["ptx"].count(".acq_rel."), made.asm["ptx"].count(".relaxed."))
"""


def test_compiled_for_a_gpu_no_addition_is_ordered_any_more(tmp_path: Path) -> None:
    after = relaxed(KERNEL)
    assert after is not None
    for name, text in (("before.py", KERNEL), ("after.py", after)):
        (tmp_path / name).write_text(text)
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-c", COMPILED, str(tmp_path / "before.py"), str(tmp_path / "after.py")]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    (ordered, none), (left, free) = (map(int, line.split()) for line in ran.stdout.splitlines())
    assert (none, left) == (0, 0) and ordered == free > 0
