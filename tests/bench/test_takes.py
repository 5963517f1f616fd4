"""A recording is believed where an unrecorded run, seen by the profiler, launches the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.bench.takes import _differs, _refused, _take
from bot.worker.contract import Refusal, render
from bot.worker.contract.gpu import GpuAnswer, Recording, Traced
from bot.worker.contract.tape import TAPE
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


def test_a_take_says_how_often_the_host_waits(tmp_path: Path) -> None:
    told = tape(kernel(), waits=3)
    (tmp_path / "tape-0").mkdir()
    (tmp_path / "tape-0" / TAPE).write_text(render(told))
    taken = _take(Recording(told.case, "tape-0", "", 5, (TWICE,), ()), tmp_path)
    assert (taken.waits, taken.peak_bytes, taken.folder) == (3, 5, tmp_path / "tape-0")


def test_a_recording_that_could_not_be_made_waits_for_nobody(tmp_path: Path) -> None:
    taken = _take(Recording("forward-4x8", "", "it sorts", 5, (), ()), tmp_path)
    assert (taken.waits, taken.why_not, taken.folder) == (0, "it sorts", None)


@pytest.mark.parametrize("kind", ["memory", "crashed"])
def test_a_pass_that_failed_while_it_was_recorded_says_which_and_why(kind: str) -> None:
    failed = Recording("backward-4x8", "", "", 0, (), (), Refusal(kind, "no room"))
    fault = _refused(GpuAnswer((), (Recording("forward-4x8", "tape-0", "", 5, (), ()), failed)))
    assert fault is not None
    assert (fault.kind, fault.detail) == (kind, "backward-4x8: no room")


def test_what_was_recorded_or_cannot_be_was_not_refused() -> None:
    whole = Recording("forward-4x8", "tape-0", "", 5, (), ())
    assert _refused(GpuAnswer((), (whole, Recording("backward-4x8", "", "it sorts", 5, (), ())))) is None
