"""Shares seen on a small case, sizes known of the scored one."""

from __future__ import annotations

import dataclasses

import pytest

from bot.bench.traffic import moved_bytes, moved_of, shares_of, traffic_factor
from bot.worker.contract import (
    Argument,
    Call,
    CallAnswer,
    Caught,
    CaughtCase,
    CheckAnswer,
    Footprint,
    Refusal,
    RunAnswer,
    TensorSpec,
    Touched,
)


def call(name: str, cols: int) -> Call:
    return Call(name, name, "forward", (Argument("x", tensor=TensorSpec("x", "float32", (4, cols))),), ())


def answer(name: str, *footprints: Footprint) -> CallAnswer:
    return CallAnswer(name, (RunAnswer("b", (), footprints, ()),))


def footprint(kernel: str, **shares: tuple[float, float]) -> Footprint:
    return Footprint(kernel, tuple(Touched(name, *pair) for name, pair in shares.items()))


def launch(kernel: str, *constants: tuple[str, str], **regions: int) -> Caught:
    return Caught(kernel, "f.py", "", (1, 1, 1), 4, 3, constants, tuple(regions.items()))


def case(*launches: Caught, library: int = 0) -> CaughtCase:
    return CaughtCase("c", launches, 0, library)


def test_reading_and_writing_a_region_once_each_counts_twice() -> None:
    seen = CheckAnswer((answer("a", footprint("k", x=(1.0, 1.0), y=(0.0, 1.0))),))
    shares = shares_of((call("a", 10),), seen)
    assert moved_bytes(case(launch("k", x=100, y=50)), shares) == 250


def test_the_largest_small_case_speaks() -> None:
    seen = CheckAnswer((answer("one", footprint("k", x=(0.1, 0.0))), answer("big", footprint("k", x=(1.0, 0.0)))))
    shares = shares_of((call("one", 1), call("big", 99)), seen)
    assert moved_bytes(case(launch("k", x=100)), shares) == 100


def test_rows_that_are_ignored_say_nothing_of_a_case_that_has_none() -> None:
    """tvd's largest small case ignored every second label, and came out at two thirds of the least it can move."""
    seen = CheckAnswer(
        (
            answer("ignoring", footprint("k", p=(0.5, 0.0), dp=(0.0, 1.0))),
            answer("all", footprint("k", p=(1.0, 0.0), dp=(0.0, 1.0))),
            answer("small", footprint("k", p=(0.7, 0.0), dp=(0.0, 1.0))),
        )
    )
    shares = shares_of((call("ignoring", 99), call("all", 50), call("small", 9)), seen)
    assert moved_bytes(case(launch("k", p=100, dp=100)), shares) == 200


def test_a_small_case_shows_more_of_a_triangle_than_there_is() -> None:
    seen = CheckAnswer((answer("big", footprint("k", x=(0.5, 0.0))), answer("one", footprint("k", x=(1.0, 0.0)))))
    shares = shares_of((call("big", 99), call("one", 1)), seen)
    assert moved_bytes(case(launch("k", x=100)), shares) == 50


@pytest.mark.parametrize(("switch", "moved"), [("True", 200), ("False", 100)])
def test_the_case_with_the_switches_of_the_scored_launch_speaks(switch: str, moved: int) -> None:
    """A kernel that can leave its gradient out writes nothing then; its block is of another size in any case."""
    seen = CheckAnswer(
        tuple(
            answer(name, dataclasses.replace(footprint("k", x=(1.0, write)), flags=(("HAS_GRADIENT", flag),)))
            for name, flag, write in (("with", "True", 1.0), ("without", "False", 0.0), ("small", "True", 1.0))
        )
    )
    shares = shares_of((call("with", 99), call("without", 50), call("small", 9)), seen)
    launched = launch("k", ("HAS_GRADIENT", switch), ("BLOCK", "4096"), x=100)
    assert moved_bytes(case(launched), shares) == moved


def test_no_pass_moves_less_than_it_has_to() -> None:
    """One of two rows in the small case, 511 of 512 in the scored one."""
    shares = shares_of((call("a", 10),), CheckAnswer((answer("a", footprint("k", x=(0.5, 0.0))),)))
    assert traffic_factor(case(launch("k", x=100)), 100, shares) == 1


def test_a_case_with_the_same_regions_speaks_before_a_larger_one() -> None:
    """In place, what is read and what is written is one region; apart, they are two."""
    seen = CheckAnswer(
        (
            answer("big", footprint("k", dy=(1.0, 0.0), dx=(0.0, 1.0))),
            answer("small", footprint("k", dy=(1.0, 1.0))),
        )
    )
    shares = shares_of((call("big", 99), call("small", 9)), seen)
    assert moved_bytes(case(launch("k", dy=100)), shares) == 200
    assert moved_bytes(case(launch("k", dy=100, dx=100)), shares) == 200


def test_a_kernel_no_small_case_launched_is_taken_to_touch_all_once() -> None:
    shares = shares_of((call("a", 10),), CheckAnswer((CallAnswer("a", (), Refusal("crashed", "")),)))
    assert moved_bytes(case(launch("other", x=100, y=50)), shares) == 150


def test_what_torch_moves_is_added() -> None:
    assert moved_bytes(case(library=77), shares_of((), CheckAnswer(()))) == 77


@pytest.mark.parametrize(("minimum", "factor"), [(100, 1.5), (150, 1.0), (0, 1.0)])
def test_the_factor_is_over_the_minimum(minimum: int, factor: float) -> None:
    shares = shares_of((), CheckAnswer(()))
    assert traffic_factor(case(launch("k", x=150)), minimum, shares) == factor


def test_each_launch_is_counted_apart_reads_and_writes_each() -> None:
    """In place, what is read is written again; what torch moves is no launch of ours."""
    seen = CheckAnswer((answer("a", footprint("k", x=(1.0, 1.0), w=(0.5, 0.0), y=(0.0, 1.0))),))
    launches = (launch("k", x=100, w=10, y=50), launch("k", x=200, w=10, y=100))
    found = moved_of(case(*launches, library=77), shares_of((call("a", 10),), seen))
    assert [(one.case, one.kernel, one.read_bytes, one.written_bytes) for one in found] == [
        ("c", "k", 105, 150),
        ("c", "k", 205, 300),
    ]


def test_what_is_read_again_stands_beside_and_changes_no_count() -> None:
    """Four programs, each with a quarter of x three times, once of them written: 0.4 of 3 x 25 bytes in between."""
    twice = Footprint("k", (Touched("x", 1.0, 1.0, again=1.0, between=0.4), Touched("w", 1.0, 0.0)))
    shares = shares_of((call("a", 10),), CheckAnswer((answer("a", twice),)))
    launched = Caught("k", "f.py", "", (2, 2, 1), 4, 3, (), (("x", 100), ("w", 0)))
    (found,) = moved_of(case(launched), shares)
    assert (found.read_bytes, found.written_bytes) == (100, 100)
    assert [(one.nbytes, one.between) for one in found.again] == [(100, pytest.approx(30))]
    assert moved_bytes(case(launched), shares) == 200, "the roofline knows what has to be moved"


@pytest.mark.parametrize("seen", [(), (footprint("k"),), (footprint("other", x=(1.0, 0.0)),)])
def test_where_nobody_watched_the_addresses_of_a_kernel_nothing_is_counted(seen: tuple[Footprint, ...]) -> None:
    """A GPU says which kernels were launched and no more: a size is not taken for a count."""
    shares = shares_of((call("a", 10),), CheckAnswer((answer("a", *seen),)))
    assert moved_of(case(launch("k", x=100)), shares) == ()
