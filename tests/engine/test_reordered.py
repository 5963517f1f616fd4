"""Which kernels add up in another order after a change, and that those and no others add up in float32 then."""

from __future__ import annotations

import pytest

from bot.engine import rewriting
from bot.engine.launch_numbers import Numbers, write
from bot.engine.reordered import reordered
from bot.engine.source import NotUnderstood
from bot.engine.transforms import sum_in_float32, walk_rows
from bot.model.variant import SourceFile
from tests.engine.library import op
from tests.engine.test_sum_in_float32 import HALF, HELD

PATH, OTHER = "src/k.py", "src/host.py"


def files(text: str, host: str = "") -> tuple[SourceFile, ...]:
    one = SourceFile(path=PATH, text=text)
    return (one, SourceFile(path=OTHER, text=host)) if host else (one,)


def told(before: str, after: str) -> list[str]:
    return [kernel for _, kernel in reordered(files(before), files(after))]


def edited(before: str, after: str, text: str = HALF) -> str:
    assert before in text
    return text.replace(before, after)


def test_nothing_is_reordered_by_nothing() -> None:
    assert told(HALF, HALF) == []


@pytest.mark.parametrize(
    ("what", "numbers"),
    [
        ("warps", Numbers("_forward", warps="8")),
        ("warps that follow the block", Numbers("_forward", warps="min(max({block} // 512, 1), 32)")),
        ("stages", Numbers("_forward", stages="2")),
        ("a smaller block", Numbers("_forward", block="min({block}, 1024)")),
    ],
)
def test_other_numbers_are_another_order_for_the_kernel_that_gets_them(what: str, numbers: Numbers) -> None:
    assert told(HALF, write(HALF, numbers)) == ["_forward"], what


@pytest.mark.parametrize(
    ("what", "before", "after"),
    [
        ("another grid", "_forward[(n_rows,)]", "_forward[(2 * n_rows,)]"),
        ("a number of warps that is made elsewhere", "num_warps=4)\n    return y", "num_warps=n_rows)\n    return y"),
        ("a constant by its place", "w, n_cols, 1, BLOCK_SIZE=BLOCK_SIZE, num", "w, n_cols, 1, n_rows, num"),
        ("a dictionary", "num_warps=4)\n    return y", "**settings)\n    return y"),
        ("other lines of its own", "total += tl.sum(x)", "total = total + tl.sum(x)"),
        ("a block that a branch changes", "    y = torch", "    if n_cols:\n        BLOCK_SIZE //= 2\n    y = torch"),
    ],
)  # fmt: skip
def test_what_else_is_another_order(what: str, before: str, after: str) -> None:
    assert told(HALF, edited(before, after)) == ["_forward"], what


@pytest.mark.parametrize(
    ("what", "before", "after"),
    [
        ("other tensors", "torch.zeros_like(x)", "torch.empty_like(x)"),
        ("another number that is no constant", "w, n_cols, 1,", "w, n_cols, 2,"),
        ("a line of the host", "    return dx", "    print(dx)\n    return dx"),
        ("a comment", "    y = torch", "    # on the device of x\n    y = torch"),
    ],
)
def test_what_is_none(what: str, before: str, after: str) -> None:
    assert told(HALF, edited(before, after)) == [], what


@pytest.mark.parametrize(
    ("lines", "counts"),
    [
        ("second = NUMBER\n    first = 2 * second\n    BLOCK_SIZE = wide(first)", True),
        ("second = NUMBER\n    first = 2 * second", False),
        ("BLOCK_SIZE = 64\n    BLOCK_SIZE += NUMBER", True),
    ],
)
def test_a_number_counts_that_a_launch_is_made_of(lines: str, counts: bool) -> None:
    known = edited("    y = torch", f"    {lines}\n    y = torch")
    assert told(known.replace("NUMBER", "4"), known.replace("NUMBER", "8")) == (["_forward"] if counts else [])


def test_a_number_in_a_dictionary_counts() -> None:
    held = edited("num_warps=4)\n    return dx", "**settings)\n    return dx")
    known = edited("    dx = torch", "    settings = {'num_warps': NUMBER}\n    dx = torch", held)
    assert told(known.replace("NUMBER", "4"), known.replace("NUMBER", "8")) == ["_backward"]


def test_a_constant_by_its_place_counts_and_what_stands_beside_it_does_not() -> None:
    known = edited("w, n_cols, 1, BLOCK_SIZE=BLOCK_SIZE, num", "w, n_cols, 1, 64, num")
    assert told(known, edited("1, 64, num", "1, 128, num", known)) == ["_forward"]
    assert told(known, edited("1, 64, num", "2, 64, num", known)) == []


def test_a_kernel_that_is_new_adds_up_in_a_new_order() -> None:
    new = HALF[HALF.index("@triton.jit\ndef _backward") : HALF.index("def forward")]
    assert told(HALF, HALF + "\n\n" + new.replace("_backward", "_walked")) == ["_walked"]


def test_a_launch_may_stand_in_another_file() -> None:
    at = HALF.index("def forward")
    kernels, host = HALF[:at], HALF[at:]
    slower = edited("num_warps=4)\n    return y", "num_warps=8)\n    return y", host)
    assert reordered(files(kernels, host), files(kernels, slower)) == ((PATH, "_forward"),)
    found = rewriting.in_float32(files(kernels, host), files(kernels, slower))
    assert found.files[1].text == slower and sum_in_float32.WHY in found.files[0].text


def test_a_launch_that_is_not_looked_into_may_have_any_numbers() -> None:
    call = "    _forward[(n_rows,)]("
    hidden = edited(call, f"    for _ in range(2):\n    {call}")
    assert told(hidden, hidden.replace("torch.zeros_like(x)", "torch.empty_like(x)")) == ["_forward"]


def test_the_kernel_that_still_gets_the_narrow_rows_adds_them_up_as_before() -> None:
    found = walk_rows.rewrite(HELD, "_backward")
    assert found is not None and "    kernel[(n_rows,)](" in found.text
    (walked,) = told(HELD, found.text)
    assert walked.startswith("_backward_walk")


# What is brought along


def test_where_one_kernel_is_touched_all_of_its_file_add_up_in_float32() -> None:
    """What one makes the other may add up: on an H200 a forward in float32 alone gave group_norm's backward, left as it
    was, an infinity that v0 has not."""
    new = write(HALF, Numbers("_backward", warps="8"))
    found = rewriting.in_float32(files(HALF), files(new))
    assert found.kernels == ("_forward", "_backward")
    assert found.files[0].text == getattr(sum_in_float32.rewrite(new), "text", "")
    assert found.files[0].text.count(sum_in_float32.WHY) == 2


def test_a_kernel_whose_results_nobody_reads_changes_alone() -> None:
    """A forward in float32 was 2.8 % slower on an H200, and came along with partial sums of the backward."""
    backward_only = frozenset({"_backward", "_elsewhere"})
    backward, forward = (files(write(HALF, Numbers(name, warps="8"))) for name in ("_backward", "_forward"))
    assert rewriting.in_float32(files(HALF), backward, backward_only).kernels == ("_backward",)
    assert rewriting.in_float32(files(HALF), forward, backward_only).kernels == ("_forward", "_backward")
    both = files(edited("tl.program_id(0)", "tl.program_id(axis=0)"))
    assert rewriting.in_float32(files(HALF), both, backward_only).kernels == ("_forward", "_backward")


def test_a_touched_kernel_that_adds_up_in_float32_already_brings_nothing_to_the_others() -> None:
    once = getattr(sum_in_float32.rewrite(HALF, "_forward"), "text", "")
    new = files(write(once, Numbers("_forward", warps="8")))
    assert rewriting.in_float32(files(once), new) == rewriting.Along(new)


def test_it_is_brought_along_once() -> None:
    first = rewriting.in_float32(files(HALF), files(write(HALF, Numbers("_backward", warps="8"))))
    second = write(first.files[0].text, Numbers("_backward", warps="16"))
    assert rewriting.in_float32(first.files, files(second)) == rewriting.Along(files(second))


def test_a_rewrite_of_both_kernels_brings_it_to_both_and_one_of_the_host_to_none() -> None:
    both = files(edited("tl.program_id(0)", "tl.program_id(axis=0)"))
    assert rewriting.in_float32(files(HALF), both).kernels == ("_forward", "_backward")
    host = files(edited("torch.zeros_like", "torch.empty_like"))
    assert rewriting.in_float32(files(HALF), host) == rewriting.Along(host)


def test_nothing_comes_along_where_it_does_not_apply() -> None:
    plain = op("_k[(n_rows,)](x, y, n_cols, BLOCK_SIZE=64, num_warps=2)")
    after = files(write(plain, Numbers("_k", warps="8")))
    assert told(plain, after[0].text) == ["_k"]
    assert rewriting.in_float32(files(plain), after) == rewriting.Along(after)


def test_a_file_that_does_not_parse_is_left_to_others() -> None:
    broken = files("def f(:\n")
    with pytest.raises(NotUnderstood):
        reordered(files(HALF), broken)
    assert rewriting.in_float32(files(HALF), broken) == rewriting.Along(broken)
