"""Hidden shapes: others each time, of the same names, and none for kernels that are not rows and columns."""

from __future__ import annotations

from bot.judge.hidden import KINDS, hidden
from bot.worker.contract import Shape

CHECKS = tuple(
    Shape(f"{direction}-4x256-float32", direction, (("rows", 4), ("cols", 256)), "float32")
    for direction in ("forward", "backward")
)


def test_each_pass_meets_every_kind_and_every_type() -> None:
    found = hidden(CHECKS, 1)
    assert len(found) == 2 * len(KINDS)
    for direction in ("forward", "backward"):
        mine = [shape for shape in found if shape.direction == direction]
        assert {shape.dtype for shape in mine} == {"float16", "bfloat16", "float32"}
        assert max(dict(shape.sizes)["rows"] for shape in mine) > 64 * 132
        assert max(dict(shape.sizes)["cols"] for shape in mine) > 65536


def test_names_stay_and_sizes_do_not() -> None:
    one, other = hidden(CHECKS, 1), hidden(CHECKS, 2)
    assert [shape.id for shape in one] == [shape.id for shape in other]
    assert [shape.sizes for shape in one] != [shape.sizes for shape in other]
    assert one == hidden(CHECKS, 1)


def test_a_kernel_of_other_sizes_has_none() -> None:
    odd = Shape("forward-2x8x64", "forward", (("batch", 2), ("heads", 8), ("dim", 64)), "float32")
    assert hidden((*CHECKS, odd), 1) == ()
