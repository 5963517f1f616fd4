"""The bench with a GPU, with a judge that plays nothing: who is put on a process when, and what finalists are asked."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bot.bench.bailiff import Objection
from bot.bench.checks import Checked
from bot.bench.measured import Effort, MeasuredBench
from bot.bench.rivals import BLOCKS
from bot.bench.takes import Take
from bot.model.measurement import Measurement, Sanitized, UnderCompile
from bot.model.variant import sources_digest
from bot.worker.contract.timing import Blocks, Closed, Opened, OpenRequest, Started, StartRequest
from tests.bench import tiny
from tests.render.builders import GPU_RUNNER

SLOW_US, QUICK_US = 500.0, 3.0


class Judge:
    """Answers at once and writes down who was opened: (case, rivals or "v0", lanes, whether in a fresh process)."""

    def __init__(self, refuses: str = "") -> None:
        self.opened: list[tuple[str, str, int, bool]] = []
        self.last, self._refuses, self.started = "", refuses, 0

    def ask(self, request: Any, kind: Any) -> Any:
        self.last = request.do
        if isinstance(request, StartRequest):
            self.started += request.count
            return Started(request.count)
        if isinstance(request, OpenRequest):
            who = "".join(request.rivals) or "v0"
            self.opened.append((request.case, who, request.lanes, request.fresh))
            if self._refuses in request.rivals:
                raise Objection("torch could not compile it")
            return Opened(request.lanes, SLOW_US if request.case == "slow" else QUICK_US)
        return Closed() if kind is Closed else Blocks(((2.0, 2.0, 1.0, 1.0),) * BLOCKS, (), 0, "", 1.0)


def bench(judge: Judge, **lanes: int) -> MeasuredBench:
    made: Any = object.__new__(MeasuredBench)
    made._judge, made._lanes, made._turn, made.gpu_ms = judge, lanes, threading.Lock(), 0.0
    made._bytes, made._base = {"slow": 2**20, "quick": 2**10}, tiny.files()
    takes = {case: Take(case, Path("takes") / case, "", 0, kernels=1) for case in ("slow", "quick")}
    takes["lost"] = Take("lost", None, "it asks the host", 0)
    made._checker = SimpleNamespace(baseline=Checked())
    made._takes = SimpleNamespace(takes=lambda digest: takes)
    assert isinstance(made, MeasuredBench)
    return made


def test_the_rival_of_a_winner_has_one_process_for_all_its_cases_and_leaves_none_behind() -> None:
    judge = Judge()
    found = bench(judge, slow=1, quick=64).rivals_of_winner(("slow", "quick"))
    assert judge.opened == [("slow", "max-autotune", 1, True), ("quick", "max-autotune", 64, False)]
    assert judge.last == "close", "no variant meets what a rival left"
    assert [(one.case, one.reading is not None) for one in found] == [("slow", True), ("quick", True)]


def test_a_job_that_goes_on_elsewhere_learns_from_v0_how_many_passes_go_into_a_graph() -> None:
    judge = Judge()
    bench(judge).rivals_of_winner(("slow", "quick"))
    assert [(case, who, fresh) for case, who, _, fresh in judge.opened] == [
        ("slow", "v0", True),
        ("slow", "max-autotune", True),
        ("quick", "v0", True),
        ("quick", "max-autotune", True),
    ]
    assert judge.opened[1][2] == 1 < judge.opened[3][2]


def test_a_rival_that_falls_is_told_and_a_case_that_cannot_be_replayed_is_left_out() -> None:
    judge = Judge(refuses="max-autotune")
    found = bench(judge, slow=1, quick=64).rivals_of_winner(("slow", "lost", "quick"))
    assert [(one.case, one.why_not) for one in found] == [
        ("slow", "torch could not compile it"),
        ("quick", "torch could not compile it"),
    ]


# -- one variant ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "v0_was_checked", "count"), [("another = 1\n", True, 7), (None, True, 0), ("another = 1\n", False, 0)]
)
def test_replayers_come_up_while_a_variant_is_checked(
    text: str | None, v0_was_checked: bool, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One for the search, and six if it goes on. Until v0 was checked the judge owes an answer, and hears nobody."""
    judge, called = Judge(), []
    made: Any = bench(judge)
    made._effort, made._compiled = Effort(), {}
    made._checker.baseline = Checked() if v0_was_checked else None
    first, *rest = tiny.files()
    files = (first if text is None else first.model_copy(update={"text": text}), *rest)

    def checks(files: Any, checked: Any, **_: Any) -> Any:
        called.append(judge.started)
        raise KeyboardInterrupt

    monkeypatch.setattr(made, "_run", checks)
    with pytest.raises(KeyboardInterrupt):
        made.measure(files, passports=False)
    assert called == [count]


# -- finalists --------------------------------------------------------------------------------------------------------


def test_both_questions_are_asked_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither ends before the other has begun."""
    together = threading.Barrier(2, timeout=20)

    def answer(said: Any) -> Any:
        return lambda files: (together.wait(), said)[1]

    made: Any = bench(Judge())
    looked, went = Sanitized(status="clean"), UnderCompile(status="right", detail="a as one graph")
    monkeypatch.setattr(MeasuredBench, "sanitized", staticmethod(answer(looked)))
    monkeypatch.setattr(MeasuredBench, "under_compile", staticmethod(answer(went)))
    before = Measurement(runner=GPU_RUNNER, source=sources_digest(tiny.files()), seconds=30.0)
    found: Measurement = made.asked_last(tiny.files(), before)
    assert (found.sanitized, found.under_compile) == (looked, went)
    assert found.seconds >= before.seconds
    assert found.model_copy(update={"sanitized": None, "under_compile": None, "seconds": 30.0}) == before
