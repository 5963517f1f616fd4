"""A recording is believed where an unrecorded run, seen by the profiler, launches the same."""

from __future__ import annotations

import pytest

from bot.bench.takes import _differs
from bot.worker.contract.gpu import Traced
from tests.worker.tapes import kernel, operation, tape

TWICE = Traced("_twice_kernel", (4, 1, 1))
LIBRARY = Traced("void at::native::reduce_kernel<512, 1>", (8, 1, 1))


@pytest.mark.parametrize(
    ("told", "seen"),
    [
        (tape(kernel()), (TWICE,)),
        (tape(kernel(), kernel()), (TWICE, TWICE)),
        (tape(kernel(), operation()), (TWICE, LIBRARY)),
        (tape(kernel(), before=(kernel(),)), (TWICE, TWICE)),
    ],
)
def test_the_same_kernels_are_the_same_program(told, seen) -> None:  # type: ignore[no-untyped-def]
    assert _differs(told, seen) == ""


@pytest.mark.parametrize(
    "seen",
    [
        (),
        (TWICE, TWICE),
        (Traced("_twice_kernel", (5, 1, 1)),),
        (TWICE, LIBRARY),
        (TWICE, Traced("_another_kernel", (4, 1, 1))),
    ],
)
def test_more_fewer_or_other_kernels_are_not(seen: tuple[Traced, ...]) -> None:
    assert _differs(tape(kernel()), seen) != ""
