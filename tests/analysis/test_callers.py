"""Who calls a function as it is today can still call it, or is told."""

from __future__ import annotations

import ast

import pytest

from bot.analysis.callers import left_behind

BEFORE = "@jit\ndef _kernel(x, y, *, size, warps=4):\n    return x\n"


def lost(after: str, before: str = BEFORE) -> tuple[str, ...]:
    return left_behind(ast.parse(before), ast.parse(after), ["_kernel", "_nobody_has_it"])


@pytest.mark.parametrize(
    "after",
    [
        BEFORE,
        BEFORE.replace("return x", "return y"),
        BEFORE.replace("y, *", "y, z=None, *"),
        BEFORE.replace("warps=4", "warps=8, stages=3"),
        BEFORE.replace("size, warps", "warps").replace("y, *", "y, size, *").replace("size, *", "size=0, *"),
        BEFORE.replace("x, y", "x: constexpr, y"),
        BEFORE.replace("y, *", "y, *more, ").replace(", , ", ", "),
        BEFORE.replace("warps=4", "warps=4, **more"),
        f"import other\n\n\n{BEFORE}\n\ndef _new(x):\n    return x\n",
    ],
)
def test_what_it_does_is_its_own_business(after: str) -> None:
    assert lost(after) == ()


@pytest.mark.parametrize(
    "after",
    [
        "",
        BEFORE.replace("_kernel", "_other"),
        BEFORE.replace("x, y", "x"),
        BEFORE.replace("x, y", "y, x"),
        BEFORE.replace("x, y", "x, sums"),
        BEFORE.replace("x, y", "x, y, z"),
        BEFORE.replace("size, ", ""),
        BEFORE.replace("size", "block"),
        BEFORE.replace("warps=4", "warps"),
        BEFORE.replace("@jit\n", ""),
        BEFORE.replace("@jit", "@tuned()\n@jit"),
        BEFORE.replace("@jit\ndef _kernel", "_kernel = 1\n\n\ndef _new"),
    ],
)
def test_a_call_that_would_fail_is_told(after: str) -> None:
    assert lost(after) == ("_kernel",)


def test_an_argument_may_not_become_needed_that_could_be_left_out() -> None:
    before = "def _kernel(x, y=1):\n    pass\n"
    assert lost("def _kernel(x, y):\n    pass\n", before) == ("_kernel",)
    assert lost("def _kernel(x=0, y=1):\n    pass\n", before) == ()


@pytest.mark.parametrize("star", ["*more", "**more"])
def test_whoever_takes_any_number_goes_on_taking_it(star: str) -> None:
    before = f"def _kernel(x, {star}):\n    pass\n"
    assert lost(before, before) == ()
    assert lost("def _kernel(x):\n    pass\n", before) == ("_kernel",)


def test_nothing_is_put_before_what_takes_any_number() -> None:
    before = "def _kernel(x, *more):\n    pass\n"
    assert lost("def _kernel(x, y=1, *more):\n    pass\n", before) == ("_kernel",)
    assert lost("def _kernel(x, *more, y=1):\n    pass\n", before) == ()
