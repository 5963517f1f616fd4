"""A choice that is too long for its line stands as ruff writes it, so that a target's style check finds nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bot.engine import long_lines, source
from tests.engine.library import op

A_LONG = "_is_sm_90(a_tensor_with_a_long_name.device)"


def written(body: str, before: str = "") -> str:
    text = op(body)
    return source.written(long_lines.in_lines(source.parse(text), before)).split("n_rows, n_cols):\n")[1]


def formatted(text: str) -> bool:
    command = [sys.executable, "-m", "ruff", "format", "--isolated", "--line-length=120", "--check", "-"]
    return subprocess.run(command, input=text, text=True, capture_output=True, check=False).returncode == 0


def spread(count: str) -> str:
    """A launch in lines of its own."""
    return f"_k[(n_rows,)](\n    x,\n    n_cols,\n    BLOCK_SIZE=8,\n    num_warps={count},\n)"


MIN = "min(max(BLOCK_SIZE // 512, 1), 32)"
NARROW = f"{MIN} if {A_LONG} and n_cols <= 4096 and n_cols % 16 == 0 else num_warps"
TWO = f"{MIN} if {A_LONG} else 2 if _is_gfx942(a_tensor_with_a_long_name.device) else num_warps"


@pytest.mark.parametrize(
    "body",
    [
        f"num_warps = {MIN} if {A_LONG} else of_this_many_columns(n_cols)",
        f"num_warps = {NARROW}",
        f"num_warps = {TWO}",
        f"if n_cols:\n    num_warps = {NARROW}",
        spread(NARROW),
        spread(TWO),
        f"_k[(n_rows,)](x, n_cols, BLOCK_SIZE=8, num_warps={NARROW})",
        f"_k[(n_rows,)](x, n_cols, BLOCK_SIZE=8, num_warps={MIN} if _is_sm_90(x.device) else num_warps_of_these_rows)\n"
        * 2,
        f"other = 2 if {A_LONG} else num_warps\nnum_warps = {MIN} if n_cols <= 4096 else 2 if {A_LONG} else num_warps",
    ],
)
def test_it_is_what_a_formatter_would_make_of_it(body: str) -> None:
    made = written(body)
    assert max(map(len, made.splitlines())) <= 120 and made != written(body, op(body))
    assert formatted(f"def run(x, y, n_rows, n_cols):\n{made}")


@pytest.mark.parametrize("more", [0, 1])
def test_one_line_in_brackets_is_enough_where_it_fits(more: int) -> None:
    """Of 120 characters as it is, and of 120 in brackets, where `num_warps = ` does not stand before it."""
    whole = f"{MIN} if {A_LONG} else "
    first = whole + "x" * (120 - len(f"    num_warps = {whole}") + more)
    told = f"    num_warps = (\n        {first}\n    )\n" if more else f"    num_warps = {first}\n"
    assert written(f"num_warps = {first}") == told
    last = whole + "x" * (120 - len(f"        {whole}") + more)
    told = last.replace(" if ", "\n        if ").replace(" else ", "\n        else ") if more else last
    assert written(f"num_warps = {last}") == f"    num_warps = (\n        {told}\n    )\n"


def test_what_stood_in_a_long_line_before_stays_there() -> None:
    body = f"num_warps = {NARROW}"
    assert written(body, op(body)) == f"    {body}\n"


def test_a_launch_that_fits_is_left_alone_where_another_of_the_same_number_does_not() -> None:
    """The number of the first was broken into lines for the second."""
    short = f"_k[(n_rows,)](x, n_cols, BLOCK_SIZE=8, num_warps={MIN} if g else 4)"
    long = short.replace("x, n_cols", "a_tensor_with_a_very_long_name, another_one, n_cols")
    assert written(f"{short}\n{long}").startswith(f"    {short}\n    _k[(n_rows,)](\n        a_tensor")


def test_a_function_that_is_called_as_a_long_line_begins_keeps_its_line() -> None:
    long = f"_k[(n_rows,)](x, {', '.join(f'argument_{at}={at}' for at in range(12))})"
    text = f"{op(long)}\n\ndef key(x):\n    return x\n"
    assert "\ndef key(x):\n" in source.written(long_lines.in_lines(source.parse(text), ""))
