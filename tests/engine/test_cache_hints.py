"""What is read again stays in the cache; what is read for the last time, or once, leaves it first."""

from __future__ import annotations

import ast

import pytest

from bot.engine import source
from bot.engine.row_reads import row_reads
from bot.engine.source import NotUnderstood
from bot.engine.transforms import cache_hints, pipeline_steps
from bot.engine.transforms.rewrite import Rewrite
from tests.engine.library import changes, op, sample

ROW_OP = op("_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=256)")
LOSS = '''"""An op in the shape that a loss of Liger has."""

import triton
import triton.language as tl


@triton.jit
def _loss(x_ptr, x_stride, y_ptr, w_ptr, n_cols, ignored, BLOCK: tl.constexpr, WITH_GRADIENT: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    y = tl.load(y_ptr + row)
    x_ptr += row * x_stride
    if y == ignored:
        for i in range(0, n_cols, BLOCK):
            cols = i + tl.arange(0, BLOCK)
            tl.store(x_ptr + cols, 0.0, mask=cols < n_cols)
        return
    picked = tl.load(x_ptr + y)
    total = 0.0
    for i in range(0, n_cols, BLOCK):
        cols = i + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0)
        w = tl.load(w_ptr + cols, mask=cols < n_cols, other=0.0)
        total += tl.sum(x * w)
    if WITH_GRADIENT:
        for i in range(0, n_cols, BLOCK):
            cols = i + tl.arange(0, BLOCK)
            again = tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0)  # once more
            tl.store(x_ptr + cols, again * total - picked, mask=cols < n_cols)
'''
FIRST_READ = "        x = tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0)"
SECOND_READ = "            again = tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0)  # once more"
WEIGHT = "        w = tl.load(w_ptr + cols, mask=cols < n_cols, other=0.0)"
SECOND_STORE = "            tl.store(x_ptr + cols, again * total - picked, mask=cols < n_cols)"
BETWEEN = "    if WITH_GRADIENT:"

ONCE = '''"""A row of its own beside a weight."""

import triton
import triton.language as tl


@triton.jit
def _scale(x_ptr, x_stride, w_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    w = tl.load(w_ptr + cols, mask=mask)
    x = tl.load(x_ptr + row * x_stride + cols, mask=mask)
    tl.store(out_ptr + row * x_stride + cols, x * w, mask=mask)
'''
ROW = "    x = tl.load(x_ptr + row * x_stride + cols, mask=mask)"
LAST_LINE = "    tl.store(out_ptr + row * x_stride + cols, x * w, mask=mask)"


def hinted(text: str) -> Rewrite:
    ast.parse(text)
    found = cache_hints.rewrite(text)
    assert found is not None
    ast.parse(found.text)
    return found


def hints(text: str) -> list[str]:
    """The new lines, each a word for its access and its hint."""
    _, new = changes(text, hinted(text).text)
    told = [line.strip().split("  #")[0].removesuffix(")").removesuffix('"') for line in new]
    return [f"{line.split('(')[0]}: {line.rpartition('=')[2].strip(chr(34))}" for line in told]


def refusal(text: str, kernel: str = "_loss") -> str:
    """Why a kernel's reads are not understood."""
    ast.parse(text)
    assert cache_hints.rewrite(text) is None
    definition = source.kernel_named(source.parse(text), kernel)
    assert definition is not None
    with pytest.raises(NotUnderstood) as refused:
        row_reads(definition)
    return str(refused.value)


def put(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)


def test_rows_leave_first_where_something_else_should_stay() -> None:
    found = hinted(sample("rms_norm"))
    gone, new = changes(sample("rms_norm"), found.text)
    assert len(gone) == len(new) == 3
    assert all('eviction_policy="evict_first"' in line and "W_ptr" not in line for line in new)
    assert found.title == "Rows leave the cache first" and found.why.startswith("A row is read once;")


def test_a_kernel_that_only_streams_gets_no_hints() -> None:
    assert cache_hints.rewrite(ROW_OP) is None


def test_a_number_of_each_row_is_nothing_that_other_programs_read() -> None:
    """A program takes several rows, and divides each by a number of its own: the next program has others."""
    rows = put(ONCE, "    row = tl.program_id(0)", "    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)")
    rows = put(rows, ROW, ROW.replace("row * x_stride + cols", "rows[:, None] * x_stride + cols[None, :]"))
    rows = put(rows, LAST_LINE, LAST_LINE.replace("row * x_stride + cols", "rows[:, None] * x_stride + cols[None, :]"))
    own = put(rows, "tl.load(w_ptr + cols, mask=mask)", "tl.load(w_ptr + rows)")
    assert cache_hints.rewrite(own) is None


def test_hints_that_are_there_are_respected() -> None:
    for text in (sample("rms_norm"), LOSS):
        assert cache_hints.rewrite(hinted(text).text) is None


@pytest.mark.parametrize("said", [', cache_modifier=".ca")', ', cache_modifier=".cg")', ", **{})"])
def test_a_cache_modifier_cannot_stand_beside_a_hint(said: str) -> None:
    assert cache_hints.rewrite(put(LOSS, FIRST_READ, FIRST_READ.removesuffix(")") + said)) is None
    assert cache_hints.rewrite(put(ONCE, ROW, ROW.removesuffix(")") + said)) is None


def test_a_row_that_is_read_again_stays_until_its_last_read() -> None:
    found = hinted(LOSS)
    gone, new = changes(LOSS, found.text)
    assert gone == [
        "            tl.store(x_ptr + cols, 0.0, mask=cols < n_cols)",
        FIRST_READ,
        SECOND_READ,
        SECOND_STORE,
    ]
    assert new == [
        '            tl.store(x_ptr + cols, 0.0, mask=cols < n_cols, eviction_policy="evict_first")',
        '        x = tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0, eviction_policy="evict_last")',
        "            again = tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0, "
        'eviction_policy="evict_first")  # once more',
        '            tl.store(x_ptr + cols, again * total - picked, mask=cols < n_cols, eviction_policy="evict_first")',
    ]
    assert found.title == "Rows leave the cache after their last read"
    assert found.why.startswith("A row is read again:") and found.kernels == ("_loss",)


def test_rows_alone_are_enough_where_they_are_read_again() -> None:
    text = put(put(LOSS, WEIGHT + "\n", ""), "tl.sum(x * w)", "tl.sum(x)")
    assert hints(text) == ["tl.store: evict_first", "x = tl.load: evict_last", *hints(LOSS)[2:]]


def test_read_once_and_read_twice_are_told_apart() -> None:
    once, twice = hinted(ONCE), hinted(put(ONCE, LAST_LINE, f"{ROW}\n{LAST_LINE}"))
    assert once.text.count("evict_first") == 1 and "evict_last" not in once.text
    assert twice.text.count("evict_first") == 2 and twice.text.count("evict_last") == 1
    assert (once.why, twice.why) == (cache_hints.WHY_ONCE, cache_hints.WHY_AGAIN)


def test_of_three_reads_two_keep_the_row() -> None:
    text = put(ONCE, LAST_LINE, f"{ROW}\n{ROW}\n{LAST_LINE}")
    assert hints(text) == ["x = tl.load: evict_last"] * 2 + ["x = tl.load: evict_first", "tl.store: evict_first"]


def test_a_file_with_both_kinds_says_which_is_which() -> None:
    twice = put(ONCE, LAST_LINE, f"{ROW}\n{LAST_LINE}").partition("@triton.jit")[2].replace("_scale", "_twice")
    found = hinted(f"{ONCE}\n\n@triton.jit{twice}")
    assert found.kernels == ("_scale", "_twice")
    assert found.why == f"_scale: {cache_hints.WHY_ONCE} _twice: {cache_hints.WHY_AGAIN}"


def test_a_second_row_that_is_read_once_leaves_first() -> None:
    with_two = put(ONCE, "w_ptr, ", "w_ptr, z_ptr, ").replace(
        LAST_LINE, f"    z = tl.load(z_ptr + row * x_stride + cols, mask=mask)\n{ROW}\n{LAST_LINE}"
    )
    assert hints(with_two)[1:] == ["z = tl.load: evict_first", "x = tl.load: evict_first", "tl.store: evict_first"]


def test_two_pointers_are_two_rows() -> None:
    """x and z are each read once, and the weight is what stays: nothing asks for evict_last."""
    other = ROW.replace("x = ", "z = ").replace("x_ptr", "z_ptr")
    text = put(put(ONCE, "w_ptr, ", "w_ptr, z_ptr, "), LAST_LINE, f"{other}\n{LAST_LINE}")
    assert hints(text) == ["x = tl.load: evict_first", "z = tl.load: evict_first"]


def test_one_of_two_branches_reads_the_row_once() -> None:
    text = put(ONCE, ROW, f"    if n_cols > 8:\n    {ROW}\n    else:\n    {ROW}")
    assert hints(text) == ["x = tl.load: evict_first"] * 2
    elif_too = put(ONCE, ROW, f"    if n_cols > 8:\n    {ROW}\n    elif row > 3:\n    {ROW}\n    else:\n    {ROW}")
    assert hints(elif_too) == ["x = tl.load: evict_first"] * 3


def test_a_branch_that_returns_does_not_read_again_what_stands_behind_it() -> None:
    early = f"    if n_cols > 8:\n    {ROW}\n    {LAST_LINE}\n        return\n"
    assert hints(put(ONCE, ROW, early + ROW)) == ["x = tl.load: evict_first"] * 2
    staying = put(ONCE, ROW, early.replace("        return\n", "") + ROW)
    assert [line for line in hints(staying) if "load" in line] == [
        "x = tl.load: evict_last",
        "x = tl.load: evict_first",
    ]


def test_branches_that_ask_the_same_are_taken_together() -> None:
    """As attn_res goes through its blocks twice."""
    read = "            x = tl.load(x_ptr + i * x_stride + row * n_cols + cols)"
    loop = f"    for i in tl.static_range(0, 4):\n        if i < n_cols:\n{read}"
    assert hints(put(ONCE, ROW, f"{loop}\n{loop}"))[:2] == ["x = tl.load: evict_last", "x = tl.load: evict_first"]


def test_a_pointer_that_has_a_name_for_its_row_is_the_same_pointer() -> None:
    named = put(ONCE, ROW, f"    x_row = x_ptr + row * x_stride\n    x = tl.load(x_row + cols, mask=mask)\n{ROW}")
    assert hints(named)[:2] == ["x = tl.load: evict_last", "x = tl.load: evict_first"]


def test_loops_around_are_part_of_what_is_read() -> None:
    """A run of rows, each walked twice, as group_norm's backward goes through its channels."""
    lines = LOSS.splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if "total = 0.0" in line)
    body = "".join(f"    {line}" for line in lines[at:])
    moved = body.replace("x_ptr + cols", "x_ptr + k * n_cols + cols")
    text = "".join(lines[:at]) + "    for k in range(row, row + 4):\n" + moved
    assert [line for line in hints(text) if "load" in line] == [
        "x = tl.load: evict_last",
        "again = tl.load: evict_first",
    ]
    fixed = "".join(lines[:at]) + "    for k in range(row, row + 4):\n" + body
    assert refusal(fixed) == "every turn of a loop reads the same row"


LOAD = 'tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0, eviction_policy="evict_last")'


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("as_before", ["as_before = " + LOAD + ".to(tl.float32)"]),
        ("as_it_stood_just_now", [f"as_it_stood_just_now = {LOAD}.to(", "    tl.float32", ")"]),
        (
            "as_it_stood_before_the_step",
            ["as_it_stood_before_the_step = tl.load(", f"    {LOAD[8:-1]}", ").to(tl.float32)"],
        ),
    ],
)
def test_a_long_line_is_broken_where_formatters_break_it(name: str, lines: list[str]) -> None:
    cast = put(LOSS, FIRST_READ, FIRST_READ.replace("x = ", f"{name} = ") + ".to(tl.float32)")
    _, new = changes(text := put(cast, "tl.sum(x *", f"tl.sum({name} *"), hinted(text).text)
    assert [line[8:] for line in new[1 : 1 + len(lines)]] == lines
    assert all(len(line) <= source.LONGEST for line in new)


def test_a_long_store_gets_a_line_for_its_arguments() -> None:
    text = put(LOSS, "again * total - picked", "again * total - picked * total * 2")
    _, new = changes(text, hinted(text).text)
    assert [line[12:] for line in new[-3:]] == [
        "tl.store(",
        '    x_ptr + cols, again * total - picked * total * 2, mask=cols < n_cols, eviction_policy="evict_first"',
        ")",
    ]


SAME_OR_NOT = "two loads through a pointer may be of one row, or share what the cache holds of it"
WRITTEN = "a row is written and then read"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (BETWEEN, f"    tl.store(x_ptr + y, 0.0)\n{BETWEEN}", WRITTEN),
        (BETWEEN, f"    tl.atomic_add(x_ptr + y, 1.0)\n{BETWEEN}", WRITTEN),
        (WEIGHT, f"{WEIGHT}\n        tl.store(x_ptr + cols, x, mask=cols < n_cols)", WRITTEN),
        (SECOND_STORE, SECOND_STORE.replace("x_ptr + cols,", "x_ptr + cols + 1,"), WRITTEN),
        ("again = tl.load(x_ptr + cols,", "again = tl.load(x_ptr + cols + 1,", SAME_OR_NOT),
        (
            "again = tl.load(x_ptr + cols, mask=cols < n_cols,",
            "again = tl.load(x_ptr + cols, mask=cols < 9,",
            SAME_OR_NOT,
        ),
        (BETWEEN, f"    n_cols = n_cols // 2\n{BETWEEN}", SAME_OR_NOT),
        (BETWEEN, f"    x_ptr += x_stride\n{BETWEEN}", SAME_OR_NOT),
        (BETWEEN, f"    if y > 3:\n        x_ptr += x_stride\n{BETWEEN}", SAME_OR_NOT),
        (BETWEEN, f"    helped(x_ptr, n_cols)\n{BETWEEN}", "a pointer is handed on to a function"),
        (BETWEEN, f"    while total > 3:\n        total = total / 2\n{BETWEEN}", "the kernel holds more"),
        (BETWEEN, f"    x_ptr = tl.multiple_of(x_ptr, 16)\n{BETWEEN}", "an address does not begin with a pointer"),
        ("x = tl.load(x_ptr + cols,", "x = tl.load(pointer=x_ptr + cols,", "an access without an address"),
        ("    total = 0.0\n", "    total = tl.load(x_ptr + y) if y > 3 else 0.0\n", "a choice within a line"),
        (
            "    for i in range(0, n_cols, BLOCK):\n        cols = i + tl.arange(0, BLOCK)\n        x =",
            "    for i in range(0, n_cols, step=BLOCK):\n        cols = i + tl.arange(0, BLOCK)\n        x =",
            "a loop is not over a plain range",
        ),
    ],
)
def test_what_is_not_understood_is_refused(old: str, new: str, why: str) -> None:
    assert refusal(put(LOSS, old, new)).startswith(why)


def test_branches_that_may_exclude_each_other_are_refused() -> None:
    text = put(ONCE, ROW, f"    if n_cols > 8:\n    {ROW}\n    if n_cols <= 8:\n    {ROW}")
    assert refusal(text, "_scale") == "two loads of a row are in branches of which a program may take one or both"


def test_two_halves_of_a_row_are_not_two_rows() -> None:
    """mhc reads four numbers and the next four: the second load finds its own in the line of the first."""
    half = ROW.replace("x = ", "z = ").replace("+ cols", "+ n_cols + cols")
    assert refusal(put(ONCE, LAST_LINE, f"{half}\n{LAST_LINE}"), "_scale") == SAME_OR_NOT


def test_what_only_some_axes_choose_is_read_by_others_too() -> None:
    """A weight of the program's columns: every row of them reads it. Twice or not, it is no row."""
    text = ONCE.replace("cols = tl.arange(0, BLOCK)", "cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)")
    twice = put(text, LAST_LINE, f"    w = tl.load(w_ptr + cols, mask=mask)\n{LAST_LINE}")
    assert hints(twice) == ["x = tl.load: evict_first"]


def test_loads_that_a_loop_makes_ahead_lose_the_hint() -> None:
    ahead = pipeline_steps.rewrite(f"{LOSS}\n\ndef run(n_cols):\n    BLOCK = 8192\n")
    assert ahead is not None and "num_stages=" in ahead.text
    assert cache_hints.rewrite(ahead.text) is None
    unrolled = LOSS.replace("range(0, n_cols, BLOCK)", "tl.range(0, n_cols, BLOCK, loop_unroll_factor=2)")
    assert hints(unrolled) == hints(LOSS)


def test_what_is_stored_beside_the_walk_is_left_alone() -> None:
    """A program's share of a sum is read by the next kernel at once."""
    text = f"{LOSS}    lanes = tl.arange(0, BLOCK)\n    tl.store(w_ptr + row * BLOCK + lanes, total)\n"
    assert hints(text) == hints(LOSS)


def test_columns_that_share_a_place_are_no_row() -> None:
    """As the channels of group_norm: many columns have one weight, and so have other programs."""
    shared = put(LOSS, "w_ptr + cols,", "w_ptr + row * 8 + cols // 8,")
    assert hints(shared) == hints(LOSS)
    stored = put(LOSS, WEIGHT, f"{WEIGHT}\n        tl.store(w_ptr + row * 8 + cols // 8, w)")
    assert hints(stored) == hints(LOSS)


def test_a_block_of_rows_is_read_as_a_row_is() -> None:
    block = put(ONCE, "    row = tl.program_id(0)", "    rows = tl.program_id(0) * 4 + tl.arange(0, 4)").replace(
        "row * x_stride + cols", "rows[:, None] * x_stride + cols[None, :]"
    )
    block = put(block, "    cols = tl.arange(0, BLOCK)\n", "").replace(
        "    rows =", "    cols = tl.arange(0, BLOCK)\n    rows ="
    )
    assert hints(block) == ["x = tl.load: evict_first"]


def test_a_row_in_strides_is_not_surely_read_once() -> None:
    """Its columns lie in lines of the cache with those of others."""
    assert cache_hints.rewrite(put(ONCE, ROW, ROW.replace("+ cols", "+ cols * n_cols"))) is None


CHOSEN = "    k = row\n    if y > {}:\n        k = row + 1\n"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (CHOSEN.format(3), CHOSEN.format(9)),
        ("    k = tl.load(y_ptr + row)\n", "    k = tl.load(y_ptr + row)\n"),
        ("    for k in range(0, 4):\n        x_ptr += BLOCK\n    k = 0\n", "    k = 0\n    x_ptr += BLOCK\n"),
        ("    k, j = halves(row)\n", "    k, j = halves(row)\n"),
    ],
)
def test_of_a_name_made_in_two_ways_nothing_is_known(first: str, second: str) -> None:
    """The same words twice, that may stand for two places."""
    read = "    x = tl.load(x_ptr + row * x_stride + k * n_cols + cols, mask=mask)\n"
    text = put(ONCE, "x_ptr, ", "x_ptr, y, y_ptr, ").replace(f"{ROW}\n", first + read + second + read)
    assert refusal(text, "_scale") == SAME_OR_NOT


def test_a_pointer_that_goes_on_turn_by_turn_is_not_known_behind_its_loop() -> None:
    lines = "        x = tl.load(x_ptr + row * x_stride + cols, mask=mask)\n        x_ptr += BLOCK\n"
    loop = f"    for i in range(0, n_cols, BLOCK):\n{lines}"
    assert refusal(put(ONCE, f"{ROW}\n", loop + loop), "_scale") == SAME_OR_NOT
    assert hints(put(ONCE, f"{ROW}\n", loop)) == ["x = tl.load: evict_first"]


def test_a_row_that_is_added_to_at_the_end_is_not_let_go() -> None:
    assert refusal(f"{LOSS}    tl.atomic_add(x_ptr + y, 1.0)\n") == WRITTEN
