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


def one_line(text: str) -> str:
    return " ".join(text.split())


def new_lines(before: str, after: str) -> list[str]:
    """Without those that tell architectures apart."""
    told = ["import functools", *(line for arch in ("sm_90", "gfx942") for line in gates.functions(arch).splitlines())]
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
    assert "\n\n\n@functools.cache\ndef _asks_for_sm_90(device" in first
    assert "_asks_for_sm_90(device)\n\n\ndef rms_norm_forward(" in first
    assert "\n\nimport functools\n\nimport torch\n" in first


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("import torch\n", ""), "need `import torch`"),
        (("\n@triton.jit", "\ndef _is_sm_90(device):\n    return True\n\n\n@triton.jit"), "is something else"),
        (("\n@triton.jit", "\nclass _is_sm_90:\n    pass\n\n\n@triton.jit"), "is something else"),
        (("\n@triton.jit", "\n_is_sm_90 = None\n\n\n@triton.jit"), "is something else"),
        (("\n@triton.jit", "\n_asks_for_sm_90 = None\n\n\n@triton.jit"), "is something else"),
        (("\n@triton.jit", "\nfunctools = None\n\n\n@triton.jit"), "functools is something else"),
        (("n_cols = x.shape", "n_cols = settings(x)"), "is surely a tensor"),
        (("(x, y, n_rows, n_cols):", "(y, n_rows, x=None):"), "is surely a tensor"),
        (("n_cols = x.shape", "n_cols = x.shape if x is not None else (1, 1)"), "is surely a tensor"),
    ],
    ids=["no torch", "another", "a class", "a name", "asks", "functools", "no tensor", "none by default", "maybe none"],
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
import functools
import warnings

import torch
from bot.engine import gates
from bot.worker import device
from bot.worker.contract.arches import ARCHES

warnings.simplefilter("error")
names = {"torch": torch, "functools": functools}
for arch in ("sm_90", "gfx942"):
    exec(gates.functions(arch), names)

def doubled(x):
    return x * 2 if names["_is_sm_90"](x.device) else x * 3

whole = torch.compile(doubled, fullgraph=True, backend="eager")
print(whole(torch.ones(2)).tolist())
for arch in ("sm_80", "sm_90", "sm_100", "gfx942", "gfx950"):
    device.install(ARCHES[arch], 1)
    names["_asks_for_sm_90"].cache_clear(), names["_asks_for_gfx942"].cache_clear()
    print(arch, *(name for name in ("_is_sm_90", "_is_gfx942") if names[name](torch.device("cuda", 0))))
torch.cuda.get_device_capability = torch.cuda.get_device_properties = None
print([names[name](torch.device("cuda", 0)) for name in ("_is_sm_90", "_is_gfx942")])
print(names["_is_gfx942"](torch.device("xpu", 0)))
"""


def test_what_the_function_answers_and_that_torch_compile_takes_it_whole() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=100)
    elsewhere, *asked, again, on_an_xpu = done.stdout.splitlines()
    assert asked == ["sm_80", "sm_90 _is_sm_90", "sm_100", "gfx942 _is_gfx942", "gfx950"]
    assert (elsewhere, on_an_xpu) == ("[3.0, 3.0]", "False")
    assert again == "[False, False]", "torch is asked once: it takes longer to answer than many a launch"


# What stands behind `else` is what stood there


def amd(before: str, **numbers: object) -> str:
    return write(before, Numbers("_k", why=WHY.replace("sm_90", "gfx942"), arch="gfx942", **numbers))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("made", "once", "both", "again"),
    [
        (
            "num_warps = 4\n",
            "2 if _is_gfx942(x.device) else 4",
            "8 if _is_sm_90(x.device) else 2 if _is_gfx942(x.device) else 4",
            "1 if _is_gfx942(x.device) else 8 if _is_sm_90(x.device) else 4",
        ),
        (
            "BLOCK_SIZE, num_warps = settings(n_cols)\n",
            "2 if _is_gfx942(x.device) else num_warps",
            "8 if _is_sm_90(x.device) else 2 if _is_gfx942(x.device) else num_warps",
            "1 if _is_gfx942(x.device) else 8 if _is_sm_90(x.device) else num_warps",
        ),
    ],
)
def test_a_rule_for_one_gpu_leaves_that_of_another(made: str, once: str, both: str, again: str) -> None:
    """It was written over it, and the comment too."""
    text = amd(op(MADE + made + LAUNCH), warps="2")
    assert f"num_warps = {once}\n" in text
    text = gated(text, warps="8")
    assert f"num_warps = {both}\n" in text and text.count("(measured on gfx942)") == text.count(MEASURED) - 1 == 1
    text = amd(text, warps="1")
    assert f"num_warps = {again}\n" in text and text.count(MEASURED) == 2


def test_twice_the_warps_here_are_no_others_there() -> None:
    """Of another architecture's rule twice as many were taken, and for that architecture."""
    text = amd(op(SHAPED + "_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=1024, num_warps=4)"), warps="2")
    twice = with_other_warps(text, "_k", more=True, why=WHY, arch="sm_90")
    there = "2 if _is_gfx942(x.device) else 4"
    assert f"num_warps=min(2 * ({there}), 32) if _is_sm_90(x.device) else {there}," in " ".join(twice.split())


def test_a_block_for_another_gpu_and_one_for_everybody_stay_behind_else() -> None:
    before = op(MADE + "num_warps = 4\n" + LAUNCH)
    text = gated(amd(before, block="min({block}, 4096)", warps="2"), block="min({block}, 2048)", warps="8")
    one, other = "min(BLOCK_SIZE, 2048) if _is_sm_90(x.device)", "min(BLOCK_SIZE, 4096) if _is_gfx942(x.device)"
    assert f"BLOCK_SIZE = ( {one} else {other} else BLOCK_SIZE )" in one_line(text)
    assert text.index("(measured on gfx942)") < text.index("(measured on sm_90)") < text.index("BLOCK_SIZE = (")
    everywhere = write(before, Numbers("_k", why=WHY, warps="2", block="min({block}, 4096)"))
    text = gated(everywhere, block="min({block}, 2048)", warps="8")
    assert f"BLOCK_SIZE = {one} else min(BLOCK_SIZE, 4096)\n" in text
    assert "    num_warps = 8 if _is_sm_90(x.device) else 2\n" in text
    again = gated(text, block="min({block}, 1024)", warps="8")
    assert f"BLOCK_SIZE = {one.replace('2048', '1024')} else min(BLOCK_SIZE, 4096)\n" in again


def test_a_block_asks_nobody_who_comes_later() -> None:
    """vocab_parallel_cross_entropy's forward would have asked a view that is made below its block, and failed."""
    late = "BLOCK_SIZE = triton.next_power_of_2(n_cols)\nz = torch.empty(n_cols)\n"
    launch = "_k[(n_rows,)](z, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=4)"
    with pytest.raises(NotUnderstood, match="is not known where it is made"):
        gated(op(late + launch), warps="8", block="min({block}, 4096)")
    known = gated(op("n_rows, n_cols = x.shape\n" + late + launch), warps="8", block="min({block}, 4096)")
    assert "BLOCK_SIZE = min(BLOCK_SIZE, 4096) if _is_sm_90(x.device) else BLOCK_SIZE\n" in known


@pytest.mark.parametrize(
    "late",
    ["z: object = torch.empty(9)", "if (z := torch.empty(9)) is n_rows:\n    pass", "with made() as z:\n    pass"],
)
def test_a_number_asks_nobody_who_comes_later_in_whatever_way(late: str) -> None:
    launch = "_k[(n_rows,)](z, z.stride(0), BLOCK_SIZE=8, num_warps=num_warps)"
    text = gated(op(f"num_warps = 4\n{late}\n{launch}"), warps="8")
    assert text.index("z.device") > text.index(late.splitlines()[0].strip().split(":")[0] + ":")
    assert "    num_warps = 8 if _is_sm_90(z.device) else num_warps\n    _k[" in text


SPREAD = "_k[(n_rows,)](\n    x,\n    n_cols,\n    BLOCK_SIZE=8,\n    num_warps=4\n    if n_cols < 9\n    else 8,\n)"


def test_a_number_in_several_lines_is_written_in_one() -> None:
    """libcst takes no expression whose lines are held together by brackets around it: the engine crashed."""
    text = gated(op(SHAPED + SPREAD), warps="2")
    assert "        num_warps=2 if _is_sm_90(x.device) else 4 if n_cols < 9 else 8,\n" in text
    twice = with_other_warps(op(SHAPED + SPREAD), "_k", more=True, why=WHY, arch="sm_90")
    told = "num_warps=min(2 * (4 if n_cols < 9 else 8), 32) if _is_sm_90(x.device) else 4 if n_cols < 9 else 8,"
    assert told in " ".join(twice.split())


def test_what_was_said_of_a_part_of_it_stays() -> None:
    text = gated(op(SHAPED + SPREAD.replace("num_warps=4", "num_warps=4  # few")), warps="2")
    assert "num_warps=2 if _is_sm_90(x.device) else (4  # few\n" in text


def test_the_only_number_of_a_tuple_stays_one() -> None:
    launch = SPREAD.replace("num_warps=4\n    if n_cols < 9\n    else 8", "num_warps=counted((\n        4,\n    ))")
    text = gated(op(SHAPED + launch), warps="2")
    (kept,) = [
        node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Tuple) and ast.unparse(node) == "(4,)"
    ]
    assert kept


def test_a_name_that_a_number_gives_a_value_has_it_on_every_gpu() -> None:
    launch = "_k[(n_rows,)](x, n_cols, BLOCK_SIZE=8, num_warps=(warps := 4))\nreturn warps"
    with pytest.raises(NotUnderstood, match="gives a name a value"):
        gated(op(SHAPED + launch), warps="8")
    with pytest.raises(NotUnderstood, match="gives a name a value"):
        with_other_warps(op(SHAPED + launch), "_k", more=True, why=WHY, arch="sm_90")


@pytest.mark.parametrize(("placed", "reads", "fits"), [("16", True, False), ("4", True, True), ("16", False, True)])
def test_a_constant_that_the_kernel_reads_is_no_other_elsewhere(placed: str, reads: bool, fits: bool) -> None:
    """By its place the kernel gets 16 and the launch has 4 warps: by name both are one number."""
    text = op(SHAPED + f"_k[(n_rows,)](x, y, n_cols, 8, {placed})")
    text = text.replace("BLOCK_SIZE: tl.constexpr)", "BLOCK_SIZE: tl.constexpr, num_warps: tl.constexpr)")
    text = text.replace("v * 2", "v * num_warps") if reads else text
    for written in (
        lambda: gated(text, warps="8"),
        lambda: with_other_warps(text, "_k", more=True, why=WHY, arch="sm_90"),
    ):
        if fits:
            assert "8, num_warps=8 if _is_sm_90(x.device) else 4)" in written()
        else:
            with pytest.raises(NotUnderstood, match="is given by its place"):
                written()


def test_a_later_rule_takes_the_place_of_one_that_keeps_its_variable_elsewhere() -> None:
    """Both stood there: the later one at the launch, above it the other with its comment."""
    once = gated(op(MADE + "BLOCK_SIZE, num_warps = settings(n_cols)\n" + LAUNCH), warps=PER_THREAD)
    assert changes(once, gated(once, warps="8")) == (
        [f"    num_warps = {OURS} else num_warps"],
        ["    num_warps = 8 if _is_sm_90(x.device) else num_warps"],
    )


def test_narrow_rows_after_all_leave_wide_ones_what_all_had() -> None:
    before = op(MADE + "num_warps = 4\nprint(n_cols)\n" + LAUNCH)
    first = gated(before, warps="8", up_to=8192)
    then = gated(first, warps="2", up_to=1024)
    gate = "if _is_sm_90(x.device) and n_cols <="
    assert f"num_warps = ( 2 {gate} 1024 else 8 {gate} 8192 else num_warps )" in one_line(then)


def test_a_rule_for_everybody_that_stands_above_the_launch_stays_for_the_others() -> None:
    before = op(MADE + "if n_rows:\n    num_warps = 4\nelse:\n    num_warps = 2\n" + LAUNCH)
    everywhere = write(before, Numbers("_k", why=WHY, warps="8"))
    assert "    num_warps = 16 if _is_sm_90(x.device) else 8\n    _k[" in gated(everywhere, warps="16")


# A choice in front of another


TILED = "_k[(n_rows, triton.cdiv(n_cols, BLOCK_SIZE))](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=%s)"


def test_the_most_warps_for_whole_rows_are_for_whole_rows_on_amd_too() -> None:
    """Without brackets it was 16 on AMD, whatever the row: of `a if b else c if d else e` the second is no condition
    of the first."""
    before = op(MADE + TILED % 16)
    told = "num_warps=(16 if torch.version.hip else 32) if n_cols % 16 == 0 else 16,"
    once = with_other_warps(before, "_k", more=True, why=WHY, whole=True)
    assert told in one_line(once)


def test_a_choice_that_callers_have_a_say_in_is_gated_as_a_whole() -> None:
    """Twice the warps came along with a rewrite, for whoever asks for none. Twice as many again are for one GPU."""
    asked = op(MADE + "num_warps = 8 if num_warps is None else num_warps\n" + LAUNCH)
    asked = asked.replace("n_rows, n_cols):", "n_rows, n_cols, num_warps=None):")
    along = with_other_warps(asked, "_k", more=True, why="Twice.")
    mine = "min(2 * num_warps, 16 if torch.version.hip else 32) if given_num_warps is None else num_warps"
    assert f"num_warps={mine}," in one_line(along)
    twice = one_line(with_other_warps(along, "_k", more=False, why=WHY, arch="sm_90"))
    assert "if given_num_warps is None else num_warps) if _is_sm_90(x.device) else min(2 * num_warps, 16 if" in twice


def test_the_most_is_said_in_brackets_once_and_goes_no_further() -> None:
    asked = op(MADE + "num_warps = 16 if num_warps is None else num_warps\n" + LAUNCH)
    asked = asked.replace("n_rows, n_cols):", "n_rows, n_cols, num_warps=None):")
    told = "num_warps=(16 if torch.version.hip else 32) if given_num_warps is None else num_warps"
    most = write(asked, Numbers("_k", why="Most.", warps="{most}"))
    assert told in one_line(most)
    half = asked.replace("num_warps=num_warps)", "num_warps=16 if given_num_warps is None else num_warps)")
    half = half.replace("    num_warps = 16", "    given_num_warps = num_warps\n    num_warps = 16")
    once = with_other_warps(half, "_k", more=True, why="Twice.")
    assert told in one_line(once) and with_other_warps(once, "_k", more=True, why="Twice.") == once


def test_a_rule_in_several_lines_is_replaced_as_one_in_one() -> None:
    before = op(MADE + "num_warps = of_rows_that_are_as_wide_as_this_one_is(n_cols, n_rows)\n" + LAUNCH)
    once = gated(before, warps=PER_THREAD)
    assert "    num_warps = (\n        min(max(BLOCK_SIZE // 512, 1), 32)" in once
    kept = "of_rows_that_are_as_wide_as_this_one_is(n_cols, n_rows)\n"
    again = gated(once, warps="8")
    assert f"    num_warps = 8 if _is_sm_90(x.device) else {kept}" in again and again.count(MEASURED) == 1


def test_what_races_says_nothing_of_the_rule_it_took_the_place_of() -> None:
    once = gated(op(MADE + "num_warps = 4\n" + LAUNCH), warps=PER_THREAD)
    raced = write(once, Numbers("_k", warps="8"))
    assert MEASURED not in raced and "    num_warps = 8\n" in raced


def test_what_comes_with_a_block_or_from_each_branch_is_known_behind_it() -> None:
    launch = "_k[(n_rows,)](z, z.stride(0), BLOCK_SIZE=block, num_warps=4)"
    text = gated(op(f"block, z = made(n_cols)\n{launch}"), block="min({block}, 4096)", warps="8")
    assert "    block = min(block, 4096) if _is_sm_90(z.device) else block\n" in text
    branches = "if n_cols:\n    x = one(n_rows)\nelse:\n    x = two(n_rows)\n"
    text = gated(op(branches + MADE + "num_warps = 4\n" + LAUNCH), warps="8")
    assert "    num_warps = 8 if _is_sm_90(x.device) else 4\n" in text


def test_whole_rows_alone_have_twice_what_one_gpu_has() -> None:
    """The condition was lost where there was a gate: odd rows had twice the warps again."""
    before = op(MADE + TILED % 4)
    once = gated(before, warps="8")
    along = one_line(with_other_warps(once, "_k", more=True, why="Twice.", whole=True))
    choice = "8 if _is_sm_90(x.device) else 4"
    assert f"num_warps=min(2 * ({choice}), 16 if torch.version.hip else 32) if n_cols % 16 == 0 else {choice}," in along
    both = one_line(with_other_warps(once, "_k", more=True, why=WHY, arch="sm_90", whole=True))
    gate = "_is_sm_90(x.device)"
    assert f"num_warps=16 if {gate} and n_cols % 16 == 0 else {choice}" in both


@pytest.mark.parametrize(
    ("torch", "fits"),
    [
        ("import torch", True),
        ("import torch  # for its tensors", True),
        ("import os, torch", True),
        ("import torch as t", False),
        ("import torch.nn", False),
        ("if True:\n    import torch", False),
        ('"""\nimport torch\n"""', False),
    ],
)
def test_torch_is_there_where_the_module_itself_imports_it(torch: str, fits: bool) -> None:
    """A line of a docstring was taken for an import."""
    before = op(MADE + "num_warps = 4\n" + LAUNCH).replace("import torch\n", f"{torch}\n", 1)
    if fits:
        assert "_is_sm_90(x.device)" in gated(before, warps="8")
    else:
        with pytest.raises(NotUnderstood, match="need `import torch`"):
            gated(before, warps="8")
