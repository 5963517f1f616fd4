"""Rows that are too wide to hold are walked in blocks; what that must not change stays as it was."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from bot.engine import rows, source
from bot.engine.source import NotUnderstood
from bot.engine.transforms import base_two, walk_rows
from tests.engine.library import changes, op, sample

LAUNCH = op(
    """
BLOCK_SIZE, num_warps = settings(n_cols)
# one program a row
_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps)
"""
)
SUM = LAUNCH.replace("v * 2, mask", "v / tl.sum(v, axis=0), mask")


def walking(text: str) -> str | None:
    found = walk_rows.rewrite(text)
    return found.text if found is not None else None


def body_of(text: str, name: str = "_k_walking_kernel") -> str:
    (function,) = [n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef) and n.name == name]
    return ast.get_source_segment(text, function) or ""


def test_the_kernel_stays_and_gets_a_twin_for_wide_rows() -> None:
    after = walking(SUM)
    assert after is not None
    gone, new = changes(SUM, after)
    assert gone == ["    _k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps)"]
    said = "A row of more than 16384 columns is too wide for the registers of a program: it is walked in blocks."
    assert f"    # {said}" in new and "    wide = BLOCK_SIZE > 16384" in new
    assert "    kernel = _k_walking_kernel if wide else _k" in new
    assert any("BLOCK_SIZE=min(BLOCK_SIZE // 4, 16384) if wide else BLOCK_SIZE," in line for line in new)
    assert after.index("# one program a row") < after.index("kernel[(n_rows,)]")


def test_the_twin_reads_the_row_once_for_the_sum_and_once_for_the_result() -> None:
    after = walking(SUM)
    assert after is not None
    assert (
        body_of(after)
        == '''def _k_walking_kernel(x, y, n_cols, BLOCK_SIZE: tl.constexpr):
    """As `_k`, for a row too wide to hold: walked in blocks."""
    row = tl.program_id(0)

    row_sum_lanes = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)  # the whole row
        mask = cols < n_cols
        v = tl.load(x + row * n_cols + cols, mask=mask, eviction_policy="evict_last")
        row_sum_lanes += v
    row_sum = tl.sum(row_sum_lanes, axis=0)

    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        mask = cols < n_cols
        v = tl.load(x + row * n_cols + cols, mask=mask, eviction_policy="evict_first")
        tl.store(y + row * n_cols + cols, v / row_sum, mask=mask)'''
    )


def test_a_modifier_that_says_the_usual_gives_way_to_the_hint_and_another_does_not() -> None:
    for said, hints in ((', cache_modifier=".ca"', 1), (', cache_modifier=".cg"', 0), (', eviction_policy=""', 0)):
        after = walking(SUM.replace("mask=mask)\n    tl.store", f"mask=mask{said})\n    tl.store"))
        assert after is not None
        twin = body_of(after)
        assert (twin.count('"evict_last"'), twin.count('"evict_first"')) == (hints, hints), said
        assert twin.count(said) == 2 - 2 * hints
        assert said in body_of(after, "_k")


@pytest.mark.parametrize("more", [0, 2, 4, 5])
def test_a_hint_makes_no_line_too_long(more: int) -> None:
    """As formatters break a line: the arguments in one of their own, or each in one."""
    after = walking(SUM.replace("n_cols + cols, mask=mask)", f"n_cols + cols{' + 0 * n_cols' * more}, mask=mask)"))
    assert after is not None and max(map(len, after.splitlines())) <= 120
    assert after.count('"evict_last"') == 1
    command = [sys.executable, "-m", "ruff", "format", "--line-length=120", "-"]
    twin = body_of(after) + "\n"
    assert subprocess.run(command, input=twin, capture_output=True, text=True, check=True).stdout == twin


def test_a_row_that_is_written_over_behind_its_last_read_is_kept_until_then() -> None:
    after = walking(SUM.replace("y + row * n_cols + cols, v", "x + row * n_cols + cols, v"))
    assert after is not None
    assert (after.count('"evict_last"'), after.count('"evict_first"')) == (1, 1)


def test_a_maximum_and_the_sum_of_exponentials_below_it_take_one_pass() -> None:
    after = walking(sample("softmax"))
    assert after is not None
    forward = body_of(after, "_softmax_forward_walking_kernel")
    assert forward.count("for start in range") == 2
    assert "row_sum = row_sum * tl.exp(row_max - seen) + tl.sum(tl.exp(X_row - seen), axis=0)" in forward


def test_and_so_do_powers_of_two_of_the_same_difference() -> None:
    """The exponentials of the incumbent may have been rewritten before."""
    two = base_two.rewrite(sample("softmax"))
    after = walking(two.text) if two is not None else None
    assert after is not None
    forward = body_of(after, "_softmax_forward_walking_kernel")
    assert forward.count("for start in range") == 2
    said = "tl.math.exp2(({} - seen) * 1.4426950408889634)"
    assert f"row_sum = row_sum * {said.format('row_max')}\n" in forward
    assert f"row_sum += tl.sum({said.format('X_row')}, axis=0)\n" in forward
    assert max(map(len, after.splitlines())) <= 120


def test_and_two_where_the_power_is_of_something_else() -> None:
    head = "    m = tl.max(v, axis=0)\n    d = tl.sum(tl.math.exp2({}), axis=0)\n    tl.store("
    for power, passes in (("(v - m) * 1.5", 2), ("(v - 2 * m) * 1.5", 3), ("(v - m) + 1.5", 3), ("v - m", 3)):
        text = LAUNCH.replace("    tl.store(", head.format(power)).replace("v * 2, mask", "v / d, mask")
        after = walking(text)
        assert after is not None and body_of(after).count("for start in range") == passes, power


@pytest.mark.parametrize(
    "rule", ["min(max(BLOCK_SIZE // 512, 1), 16 if torch.version.hip else 32)", "32 if not is_hip() else 16"]
)
def test_warps_that_follow_the_block_are_those_of_a_row_that_is_held(rule: str) -> None:
    """As launch numbers that won a race are written, and as a library says the most of them."""
    after = walking(SUM.replace("num_warps=num_warps", f"num_warps={rule}"))
    assert after is not None and f"        num_warps=16 if wide else {rule},\n" in after


def test_and_two_where_the_sum_is_of_something_else() -> None:
    text = LAUNCH.replace(
        "    tl.store(", "    m = tl.max(v, axis=0)\n    d = tl.sum(tl.exp(v - 2 * m), axis=0)\n    tl.store("
    )
    after = walking(text.replace("v * 2, mask", "v / d, mask"))
    assert after is not None and body_of(after).count("for start in range") == 3
    assert "m_lanes = tl.maximum(m_lanes, v)" in after


def test_each_comment_of_the_kernel_is_told_in_the_twin_as_well() -> None:
    text = sample("cross_entropy")
    after = walking(text)
    assert after is not None
    start = text.index("def _cross_entropy_forward_kernel")
    kernel = text[start : text.index("@triton.jit", start)]
    said = [line.strip() for line in kernel.splitlines() if line.strip().startswith("#")]
    twin = body_of(after, "_cross_entropy_forward_walking_kernel")
    assert said and all(line in twin for line in said)


def test_a_twin_is_not_made_twice() -> None:
    after = walking(SUM)
    assert after is not None and walking(after) is None


def test_a_launch_in_a_branch_chooses_there() -> None:
    text = SUM.replace("    # one program a row\n    _k[", "    if n_cols > 0:\n        _k[")
    after = walking(text)
    assert after is not None
    ast.parse(after)
    assert "        wide = BLOCK_SIZE > 16384\n        kernel = _k_walking_kernel if wide else _k\n" in after


@pytest.mark.parametrize(
    ("why", "before", "after"),
    [
        ("nothing waits for the whole row", "v / tl.sum(v, axis=0), mask", "v * 2, mask"),
        ("a scan", "tl.sum(v, axis=0)", "tl.sum(v, axis=0) + tl.cumsum(v, 0)"),
        ("another axis", "axis=0)", "axis=1)"),
        ("a loop", "    v = tl.load(", "    for _ in range(2):\n        pass\n    v = tl.load("),
        ("an early return", "    v = tl.load(", "    if row > 3:\n        return\n    v = tl.load("),
        ("a branch about a number", "    tl.store(", "    if row > 3:\n        v = v * 2\n    tl.store("),
        ("an atomic", "tl.store(", "tl.atomic_add("),
        ("a barrier", "    tl.store(", "    tl.debug_barrier()\n    tl.store("),
        ("the block as a number", "v / tl", "BLOCK_SIZE * v / tl"),
        ("two masks", "    v = tl.load(", "    mask = cols < 7\n    v = tl.load("),
        ("another mask", "cols < n_cols", "cols <= n_cols"),
        ("rows of a second axis", "tl.program_id(0)", "tl.program_id(0) + tl.program_id(1)"),
        ("a number that becomes a row", "    v = tl.load(", "    v = 1.0\n    v = tl.load("),
        ("something loaded late", "mask=mask)\n\n\ndef", "mask=mask)\n    z = tl.load(y)\n    tl.store(y, z)\n\n\ndef"),
        ("a name that the loop needs", "    v = tl.load(", "    seen = 1\n    v = tl.load("),
        ("a name that the launch needs", "    # one program", "    kernel = 1\n    # one program"),
        ("a block that has no name", "BLOCK_SIZE=BLOCK_SIZE", "BLOCK_SIZE=1024"),
        ("two launches", "num_warps=num_warps)\n", "num_warps=num_warps)\n    _k[(1,)](x, y, 1, BLOCK_SIZE=8)\n"),
    ],
)  # fmt: skip
def test_a_row_is_held_when_it_is_not_sure(why: str, before: str, after: str) -> None:
    assert before in SUM
    text = SUM.replace(before, after)
    assert walking(text) is None, why


def steps(text: str) -> list[tuple[str, bool, int]]:
    kernel = source.kernel_named(source.parse(text), "_k")
    assert kernel is not None
    return [(step.binds, step.is_row, step.depth) for step in rows.row_of(kernel).steps]


def test_a_step_waits_for_as_many_passes_as_its_deepest_number() -> None:
    text = LAUNCH.replace(
        "    tl.store(",
        "    a = tl.sum(v, axis=0)\n    b = v - a\n    c = tl.sum(b * b, axis=0)\n    d = a + c\n    tl.store(",
    ).replace("v * 2, mask", "b * d, mask")
    assert steps(text) == [
        ("row", False, 0),
        ("cols", True, 0),
        ("mask", True, 0),
        ("v", True, 0),
        ("a", False, 1),
        ("b", True, 1),
        ("c", False, 2),
        ("d", False, 2),
        ("", True, 2),
    ]


def test_a_number_that_is_made_anew_after_a_row_used_it_is_not_understood() -> None:
    text = LAUNCH.replace("    v = tl.load(", "    a = 2.0\n    v = a * tl.load(").replace(
        "    tl.store(", "    a = 3.0\n    tl.store("
    )
    with pytest.raises(NotUnderstood, match="a is made anew"):
        steps(text)


SPREAD = SUM.replace(
    "mask=mask)\n    tl.store", "mask=mask, other=0.0)\n    c = v - tl.sum(v, axis=0) / n_cols\n    tl.store"
)
SPREAD = SPREAD.replace("v / tl.sum(v, axis=0)", "c / tl.sum(c * c, axis=0)")
MASKED = SPREAD.replace("    tl.store", "    c = tl.where(mask, c, 0.0)\n    tl.store")
LOW = SUM.replace("mask=mask)\n    tl.store", 'mask=mask, other=-float("inf"))\n    tl.store')


def test_columns_that_are_not_there_may_not_count_as_in_other_blocks_there_are_other_many() -> None:
    """Less the mean, the zeros behind a row of 20,000 columns count 12,768 times at once, and 4576 times in blocks."""
    assert "c * c" in SPREAD and walking(SPREAD) is None
    made = walking(MASKED.replace("c = v - tl", "d = v - tl").replace("(mask, c,", "(mask, d,"))
    assert made is not None and "_lanes += c * c" in made


@pytest.mark.parametrize(
    ("reduced", "is_sure"),
    [
        ("tl.max(v, axis=0)", True),
        ("tl.sum(tl.exp(v - 2), axis=0)", True),
        ("tl.sum(v, axis=0)", False),
        ("tl.min(v, axis=0)", False),
        ("tl.sum(tl.exp(2 - v), axis=0)", False),
    ],
)
def test_of_rows_that_end_in_minus_infinity_a_maximum_is_sure_and_a_sum_is_not(reduced: str, is_sure: bool) -> None:
    assert (walking(LOW.replace("tl.sum(v, axis=0)", reduced)) is not None) == is_sure


@pytest.mark.parametrize(("of", "is_sure"), [("v", False), ("tl.abs(v)", True), ("v * v", False), ("tl.exp(v)", False)])
def test_zeros_are_no_less_than_sizes_alone(of: str, is_sure: bool) -> None:
    zeros = LOW.replace('-float("inf")', "0.0")
    assert (walking(zeros.replace("tl.sum(v, axis=0)", f"tl.max({of}, axis=0)")) is not None) == is_sure
