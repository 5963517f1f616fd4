"""Sizes that nobody named are recorded beside what is scored; those that v0 does not take are held against nobody."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bot.bench.takes import tunes_itself
from bot.model.measurement import Fault
from bot.worker.contract import Call, Refusal, Shape, UnseenCase
from bot.worker.contract.gpu import GpuAnswer, GpuRequest, Recording
from tests.bench.test_takes import LIMITS, Bench

SCORED, TAKEN, TOO_LONG = "forward-4x8", "unseen-1-forward-float32", "unseen-2-forward-float32"
ENDED = Fault(kind="crashed", detail="ended by SIGSEGV")


def unseen(case: str) -> UnseenCase:
    return UnseenCase(Shape(case, "forward", (), "float32"), Call(case, case, "forward", (), ()))


def recorded(*cases: str, refused: str = "") -> GpuAnswer:
    why = Refusal("crashed", "RuntimeError: rows longer than 65536")
    return GpuAnswer(
        (),
        tuple(
            Recording(c, "", "" if c == refused else "it sorts", 5, (), (), why if c == refused else None)
            for c in cases
        ),
    )


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    found = Bench(tmp_path, monkeypatch, SCORED, unseen=(unseen(TAKEN), unseen(TOO_LONG)))
    found.tuned = False
    found.answers = recorded(SCORED, TAKEN, TOO_LONG, refused=TOO_LONG)
    return found


def recordings(bench: Bench) -> list[list[str]]:
    return [[call.case for call in request.cases] for request in bench.asked if request.cases]


def test_a_size_that_v0_does_not_take_is_asked_of_nobody(bench: Bench) -> None:
    assert bench.checker.check_baseline(bench.laid("v0")).fault is None
    bench.answers = recorded(SCORED, TAKEN)
    assert bench.checker.check(bench.laid("v1")).fault is None
    assert recordings(bench) == [[SCORED, TAKEN, TOO_LONG], [SCORED, TAKEN]]


def test_a_size_that_v0_takes_has_to_be_taken(bench: Bench) -> None:
    bench.checker.check_baseline(bench.laid("v0"))
    bench.answers = recorded(SCORED, TAKEN, refused=TAKEN)
    fault = bench.checker.check(bench.laid("v1")).fault
    assert fault is not None and fault.detail == f"{TAKEN}: RuntimeError: rows longer than 65536"


def test_a_scored_case_that_v0_does_not_take_is_still_its_fault(bench: Bench) -> None:
    bench.answers = recorded(SCORED, TAKEN, TOO_LONG, refused=SCORED)
    fault = bench.checker.check_baseline(bench.laid("v0")).fault
    assert fault is not None and SCORED in fault.detail


def test_where_such_a_size_ends_the_worker_v0_is_recorded_without_any(bench: Bench) -> None:
    whole = recorded(SCORED)

    def run(request: object) -> GpuAnswer | Fault:
        return ENDED if TAKEN in recordings(bench)[-1] else whole

    bench.of_recordings = run
    assert bench.checker.check_baseline(bench.laid("v0")).fault is None
    bench.answers = whole
    assert bench.checker.check(bench.laid("v1")).fault is None
    assert recordings(bench) == [[SCORED, TAKEN, TOO_LONG], [SCORED], [SCORED]]


def test_no_race_is_run_over_them(bench: Bench) -> None:
    bench.checker.check_baseline(bench.laid("v0"))
    bench.answers = recorded(SCORED)
    assert not isinstance(bench.checker.brief(bench.laid("v1"), [SCORED, TAKEN], LIMITS, at_once=1), Fault)
    assert recordings(bench)[-1] == [SCORED]


def test_what_fails_only_beside_such_sizes_is_recorded_without_any(bench: Bench) -> None:
    """Several record at once, and one more large one may be too much for the GPU's memory."""

    def run(request: GpuRequest) -> GpuAnswer | Fault:
        cases = [call.case for call in request.cases]
        return recorded(*cases, refused=SCORED if TAKEN in cases else "")

    bench.of_recordings = run
    assert bench.checker.check_baseline(bench.laid("v0")).fault is None
    assert recordings(bench) == [[SCORED, TAKEN, TOO_LONG], [SCORED]]


def test_an_answer_that_cannot_be_believed_for_such_a_size_is_no_fault_of_v0(bench: Bench) -> None:
    def run(request: GpuRequest) -> GpuAnswer | Fault:
        answer = recorded(*(call.case for call in request.cases))
        odd = [replace(one, kernels=(("_k", "", ""),)) if one.case == TAKEN else one for one in answer.recordings]
        return replace(answer, recordings=tuple(odd))

    bench.of_recordings = run
    assert bench.checker.check_baseline(bench.laid("v0")).fault is None
    assert recordings(bench) == [[SCORED, TAKEN, TOO_LONG], [SCORED]]


@pytest.mark.parametrize(
    ("text", "does"),
    [
        ("@triton.autotune(configs=[])\ndef k(): pass\n", True),
        ("from triton import autotune\nk = autotune(configs=[])(f)\n", True),
        ("k = triton.runtime.Autotuner(f)\n", True),
        ("# no autotune: one configuration is best\nx = 1\n", False),
        ("x = 'autotune'\n", False),
        ("def broken(:  # autotune\n", True),
        ("def broken(:\n", False),
    ],
)
def test_code_tunes_itself_and_comments_do_not(text: str, does: bool) -> None:
    assert tunes_itself(text) is does


# -- scored cases in which v0 finds no memory ------------------------------------------------------------------------

OTHER = "backward-4x8"


def short(*cases: str, of: str = "", kind: str = "memory") -> GpuAnswer:
    why = Refusal(kind, "OutOfMemoryError: CUDA out of memory")
    rows = (Recording(c, "", "" if c in of else "it sorts", 5, (), (), why if c in of else None) for c in cases)
    return GpuAnswer((), tuple(rows))


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    found = Bench(tmp_path, monkeypatch, SCORED, OTHER)
    found.tuned = False
    return found


def test_v0_that_found_no_memory_beside_others_is_recorded_once_more_alone(two: Bench) -> None:
    two.of_recordings = lambda request: short(SCORED, OTHER, of="" if len(recordings(two)) > 1 else OTHER)
    assert two.checker.check_baseline(two.laid("v0")).fault is None
    assert recordings(two) == [[SCORED, OTHER]] * 2
    assert [request.recorders for request in two.asked if request.cases][-1] == 1


def test_what_does_not_fit_alone_either_is_named(two: Bench) -> None:
    two.of_recordings = lambda request: short(SCORED, OTHER, of=OTHER)
    fault = two.checker.check_baseline(two.laid("v0")).fault
    assert fault is not None
    assert (fault.kind, fault.unfit) == ("memory", (OTHER,))


def test_a_pass_that_crashes_is_no_case_that_does_not_fit(two: Bench) -> None:
    two.of_recordings = lambda request: short(SCORED, OTHER, of=OTHER, kind="crashed")
    fault = two.checker.check_baseline(two.laid("v0")).fault
    assert fault is not None and (fault.kind, fault.unfit) == ("crashed", ())
    assert recordings(two) == [[SCORED, OTHER]], "and nobody asks again"


def test_a_variant_that_finds_no_memory_where_v0_does_is_refused(two: Bench) -> None:
    two.answers = short(SCORED, OTHER)
    assert two.checker.check_baseline(two.laid("v0")).fault is None
    two.answers = short(SCORED, OTHER, of=OTHER)
    fault = two.checker.check(two.laid("v1")).fault
    assert fault is not None and (fault.kind, fault.unfit) == ("memory", ())
    assert fault.detail == f"{OTHER}: OutOfMemoryError: CUDA out of memory"
