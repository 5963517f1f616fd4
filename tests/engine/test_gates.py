"""Numbers that were measured on one architecture are for GPUs of that architecture alone."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from bot.engine import gates
from bot.engine.launch_numbers import Numbers, with_other_warps, write
from bot.engine.source import MEASURED, NotUnderstood
from tests.engine.library import changes, op, sample

WHY = f"16 elements a thread {MEASURED}sm_90)."
PER_THREAD = "min(max({block} // 512, 1), {most})"
SHAPED = "n_rows, n_cols = x.shape\n"
MADE = SHAPED + "BLOCK_SIZE = triton.next_power_of_2(n_cols)\n"
LAUNCH = "_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps)"
OURS = "min(max(BLOCK_SIZE // 512, 1), 32) if _is_sm_90(x.device)"


def gated(before: str, arch: str = "sm_90", **numbers: object) -> str:
    after = write(before, Numbers("_k", why=WHY, arch=arch, **numbers))  # type: ignore[arg-type]
    ast.parse(after)
    return after


def new_lines(before: str, after: str) -> list[str]:
    """Without those of the function that tells architectures apart."""
    told = [line for arch in ("sm_90", "gfx942") for line in gates._function(arch).splitlines()]
    return [line for line in changes(before, after)[1] if line.strip() and line not in told]


@pytest.mark.parametrize(
    ("made", "line"),
    [
        ("num_warps = 4\n", f"    num_warps = {OURS} else 4"),
        ("BLOCK_SIZE, num_warps = settings(n_cols)\n", f"    num_warps = {OURS} else num_warps"),
        ("num_warps = (\n    4\n    if n_cols < 9 else 8)\n", f"    num_warps = {OURS} else num_warps"),
    ],
)
def test_elsewhere_a_launch_has_what_it_had(made: str, line: str) -> None:
    before = op(MADE + made + LAUNCH)
    assert new_lines(before, gated(before, warps=PER_THREAD)) == [f"    # {WHY}", line]


def test_where_nothing_was_said_it_is_what_triton_takes() -> None:
    before = op(MADE + LAUNCH.replace(", num_warps=num_warps", ""))
    assert f"num_warps={OURS} else 4," in gated(before, warps=PER_THREAD)


def test_what_a_caller_asks_for_he_gets_there_too() -> None:
    before = op(MADE + "num_warps = 4 if num_warps is None else num_warps\n" + LAUNCH)
    before = before.replace("n_rows, n_cols):", "n_rows, n_cols, num_warps=None):")
    assert f"num_warps={OURS} and given_num_warps is None else num_warps," in gated(before, warps=PER_THREAD)
    twice = with_other_warps(before, "_k", more=True, why=WHY, arch="sm_90")
    asked = "num_warps=min(2 * num_warps, 32) if _is_sm_90(x.device) and given_num_warps is None else num_warps,"
    assert asked in twice and asked.replace("2 *", "4 *") in with_other_warps(
        twice, "_k", more=True, why=WHY, arch="sm_90"
    )


def test_a_block_is_another_there_alone() -> None:
    before = op(MADE + "num_warps = 4\n" + LAUNCH)
    capped = gated(before, warps=PER_THREAD, block="min({block}, 4096)")
    assert "    BLOCK_SIZE = min(BLOCK_SIZE, 4096) if _is_sm_90(x.device) else BLOCK_SIZE\n" in capped


def test_narrow_rows_there_and_nothing_else() -> None:
    before = op(MADE + "num_warps = 4\n" + LAUNCH)
    assert f"{OURS} and n_cols <= 4096 else num_warps" in gated(before, warps=PER_THREAD, up_to=4096)


def test_a_later_number_takes_the_place_of_an_earlier_one_and_leaves_what_others_have() -> None:
    before = op(MADE + "num_warps = 4\n" + LAUNCH)
    once = gated(before, warps=PER_THREAD)
    assert changes(once, gated(once, warps="8")) == (
        [f"    num_warps = {OURS} else 4"],
        ["    num_warps = 8 if _is_sm_90(x.device) else 4"],
    )


@pytest.mark.parametrize(
    ("more", "first", "second"),
    [
        (True, "min(2 * num_warps, 32)", "min(4 * num_warps, 32)"),
        (False, "max(num_warps // 2, 1)", "max(num_warps // 4, 1)"),
    ],
)
def test_twice_and_half_as_many_are_for_there_and_so_is_the_next_step(more: bool, first: str, second: str) -> None:
    before = op(MADE + "num_warps = 4\n" + LAUNCH)
    once = with_other_warps(before, "_k", more=more, why=WHY, arch="sm_90")
    assert f"num_warps={first} if _is_sm_90(x.device) else num_warps," in once
    twice = with_other_warps(once, "_k", more=more, why=WHY, arch="sm_90")
    assert f"num_warps={second} if _is_sm_90(x.device) else num_warps," in twice
    assert twice.count("def _is_sm_90") == 1


def test_at_the_end_of_the_range_nothing_changes_and_no_function_comes() -> None:
    before = op(SHAPED + "_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=1024, num_warps=1)")
    assert with_other_warps(before, "_k", more=False, why=WHY, arch="sm_90") == before


@pytest.mark.parametrize(("arch", "most"), [("sm_90", 32), ("sm_120", 32), ("gfx942", 16)])
def test_the_most_warps_are_those_of_the_one_architecture(arch: str, most: int) -> None:
    before = op(SHAPED + "_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=1024, num_warps=4)")
    assert f"num_warps={most} if _is_{arch}(x.device) else 4)" in gated(before, arch, warps="{most}")


def test_the_function_stands_once_above_the_first_that_asks() -> None:
    before = sample("rms_norm")
    both = before
    for kernel in ("_rms_norm_backward_kernel", "_rms_norm_forward_kernel"):
        both = write(both, Numbers(kernel, warps=PER_THREAD, why=WHY, arch="sm_90"))
    assert both.count("def _is_sm_90(device):") == 1 and both.count("if _is_sm_90(") == 2
    first = write(before, Numbers("_rms_norm_forward_kernel", warps=PER_THREAD, why=WHY, arch="sm_90"))
    assert "\n\n\ndef _is_sm_90(device):" in first
    assert "== (9, 0)\n\n\ndef rms_norm_forward(" in first


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("import torch\n", ""), "need `import torch`"),
        (("\n@triton.jit", "\ndef _is_sm_90(device):\n    return True\n\n\n@triton.jit"), "is something else"),
        (("\n@triton.jit", "\nclass _is_sm_90:\n    pass\n\n\n@triton.jit"), "is something else"),
        (("\n@triton.jit", "\n_is_sm_90 = None\n\n\n@triton.jit"), "is something else"),
        (("n_cols = x.shape", "n_cols = settings(x)"), "is surely a tensor"),
        (("(x, y, n_rows, n_cols):", "(y, n_rows, x=None):"), "is surely a tensor"),
        (("n_cols = x.shape", "n_cols = x.shape if x is not None else (1, 1)"), "is surely a tensor"),
    ],
    ids=["no torch", "another function", "a class", "a name", "no tensor", "none by default", "maybe none"],
)
def test_where_it_cannot_be_said_it_is_not_written(change: tuple[str, str], why: str) -> None:
    before = op(MADE + "num_warps = 4\n" + LAUNCH)
    assert change[0] in before
    with pytest.raises(NotUnderstood, match=why):
        gated(before.replace(*change, 1), warps=PER_THREAD)


@pytest.mark.parametrize("arch", ["?", "sm_9", "xe2", "sm_90 or True"])
def test_an_architecture_that_nobody_here_can_ask_for_has_no_gate(arch: str) -> None:
    with pytest.raises(NotUnderstood, match="nobody here knows"):
        gated(op(SHAPED + "_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=1024, num_warps=4)"), arch, warps="8")


@pytest.mark.parametrize(
    ("function", "launch", "device"),
    [
        ("def run(x, y, n_rows, n_cols):\n    z = torch.empty(n_rows)", "(z, n_rows)", "z"),
        ("def run(x: torch.Tensor, n_rows):\n    z = torch.empty(n_rows)", "(z, x)", "x"),
        ("def run(dO, n_rows):\n    z = described(dO, dO.shape)", "(z, n_rows)", "dO"),
    ],
    ids=["made by torch", "handed before made", "of the function alone"],
)
def test_whose_device_is_asked(function: str, launch: str, device: str) -> None:
    text = op("").split("def run")[0] + f"{function}\n    _k[(n_rows,)]{launch[:-1]}, num_warps=4)\n"
    assert f"if _is_sm_90({device}.device) else 4" in gated(text, warps="8")


SCRIPT = """
import torch
from bot.engine import gates
from bot.worker import device
from bot.worker.contract.arches import ARCHES

names = {}
for arch in ("sm_90", "gfx942"):
    exec(gates._function(arch), {"torch": torch}, names)

def doubled(x):
    return x * 2 if names["_is_sm_90"](x.device) else x * 3

whole = torch.compile(doubled, fullgraph=True, backend="eager")
print(whole(torch.ones(2)).tolist())
for arch in ("sm_80", "sm_90", "sm_100", "gfx942", "gfx950"):
    device.install(ARCHES[arch], 1)
    print(arch, *(name for name, asked in names.items() if asked(torch.device("cuda", 0))))
print(names["_is_gfx942"](torch.device("xpu", 0)))
"""


def test_what_the_function_answers_and_that_torch_compile_takes_it_whole() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=100)
    elsewhere, *asked, on_an_xpu = done.stdout.splitlines()
    assert asked == ["sm_80", "sm_90 _is_sm_90", "sm_100", "gfx942 _is_gfx942", "gfx950"]
    assert (elsewhere, on_an_xpu) == ("[3.0, 3.0]", "False")
