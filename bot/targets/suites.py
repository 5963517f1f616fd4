"""The table of suites: what is scored, and the small cases on which correctness is decided.

Sizes of a case are called as the recipe of its kernel calls them, rows and cols where nothing else is said.
"""

from __future__ import annotations

from typing import Literal

from bot.model.measurement import Case, Suite
from bot.targets.sizes import PASSES, SIZES, Pass, Size, Sizes

Dtype = Literal["float32", "float16", "bfloat16"]


def _case(
    direction: Pass,
    size: Size,
    dtype: Dtype,
    of: Sizes,
    *,
    hidden: bool = False,
    grad: Literal["drawn", "one"] = "drawn",
) -> Case:
    told = "x".join(map(str, size))
    return Case(
        id=f"{direction}-{told}-{dtype}" + ("-one" if grad == "one" else ""),
        direction=direction,
        shape=tuple(zip(of.names, size, strict=True)),
        dtype=dtype,
        in_place=of.in_place if direction == "backward" else of.in_place_forward,
        hidden=hidden,
        grad=grad,
    )


def _scored(of: Sizes, size: Size, dtype: Dtype = "bfloat16") -> tuple[Case, ...]:
    cases = tuple(_case(direction, size, dtype, of) for direction in PASSES)
    return (*cases, _case("backward", size, dtype, of, grad="one")) if of.loss else cases


def cases_of(kernel: str, size: Size, dtype: Dtype) -> tuple[Case, ...]:
    """The passes of one more size, as those of the table have them."""
    return _scored(SIZES[kernel], size, dtype)


def _full(of: Sizes, more: tuple[Size, ...]) -> Suite:
    cases = tuple(case for size in (*of.scored, *more) for case in _scored(of, size))
    checks = [_case(direction, size, "float32", of) for size in (*of.shown, of.wide) for direction in PASSES]
    checks += [_case(direction, size, "float32", of, hidden=True) for size in of.hidden for direction in PASSES]
    halves = (size for size in (of.half, of.wide_half) if size is not None)
    checks += [_case(direction, size, "float16", of) for size in halves for direction in PASSES]
    checks += [_case(*of.tall, "float32", of)] if of.tall else []
    return Suite(name="full", cases=cases, checks=tuple(checks))


def _quick(of: Sizes) -> Suite:
    cases = tuple(_case(direction, of.scored[0], "bfloat16", of) for direction in PASSES)
    checks = tuple(_case(direction, size, "float32", of) for size in of.quick for direction in PASSES)
    return Suite(name="quick", cases=cases, checks=checks)


def suite_of(kernel: str, name: Literal["quick", "full"] = "full", *, in_liger: bool = False) -> Suite:
    of = SIZES[kernel]
    return _full(of, of.in_liger if in_liger else ()) if name == "full" else _quick(of)
