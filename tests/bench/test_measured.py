"""The bench with a GPU, with a judge that plays nothing: who is put on a process when, and what finalists are asked."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bot.bench import compile_pool, measured
from bot.bench.bailiff import Objection
from bot.bench.checks import Checked
from bot.bench.clocked import ClockedBench
from bot.bench.effort import Effort
from bot.bench.measure import Deadlines
from bot.bench.measured import MeasuredBench
from bot.bench.readings import Clocked, Wrong, timing_of, with_clock
from bot.bench.rivals import BLOCKS
from bot.bench.take import Take
from bot.errors import OperatorError
from bot.model.measurement import CaseResult, CheckResult, Fault, Measurement, Sanitized, UnderCompile
from bot.model.variant import sources_digest
from bot.worker.contract.timing import (
    Blocks,
    BlocksRequest,
    Burst,
    BurstRequest,
    Closed,
    Opened,
    OpenRequest,
    Started,
    StartRequest,
)
from tests.bench import tiny
from tests.render.builders import GPU_RUNNER

SLOW_US, QUICK_US = 500.0, 3.0
WRONG = Fault(kind="compile_failed", detail="no such name")


class Judge:
    """Answers at once and writes down who was opened: (case, rivals or "v0", lanes, whether in a fresh process)."""

    def __init__(self, refuses: str = "", cannot: str = "") -> None:
        self.opened: list[tuple[str, str, int, bool]] = []
        self.last, self._refuses, self.started, self.slot_us = "", refuses, 0, 0.0
        self._cannot = cannot
        self.read: list[tuple[str, int, int]] = []
        """(case, blocks, blocks of the control)"""
        self.asked: list[str] = []
        self.starts: list[StartRequest] = []
        self.still: list[int] = []

    def ask(self, request: Any, kind: Any) -> Any:
        self.last = request.do
        self.asked.append(request.do)
        if isinstance(request, BurstRequest):
            return Burst(1.0, 1.0, 1.0)
        if isinstance(request, StartRequest):
            self.started += request.count
            self.starts.append(request)
            return Started(request.count)
        if isinstance(request, OpenRequest):
            who = "".join(request.rivals) or "v0"
            self.opened.append((request.case, who, request.lanes, request.fresh))
            self.still.append(request.still)
            if request.case == self._cannot:
                raise Objection("Unplayable: v0: y is wrong by 3")
            if self._refuses in request.rivals:
                raise Objection("torch could not compile it")
            return Opened(request.lanes, SLOW_US if request.case == "slow" else QUICK_US, self.slot_us)
        if isinstance(request, BlocksRequest):
            self.read.append((self.opened[-1][0], request.blocks, request.control))
        return Closed() if kind is Closed else Blocks(((2.0, 2.0, 1.0, 1.0),) * BLOCKS, (), 0, "", 1.0)


class Idle:
    """Compilers of rivals with nothing to do. Whether they were held is written down where a judge writes, if told."""

    def __init__(self, happened: list[str] | None = None) -> None:
        self._happened = happened if happened is not None else []

    standing_still = 3

    def begin(self, jobs: Any) -> None:
        pass

    def finish(self, names: Any, seconds: float) -> frozenset[Any]:
        return frozenset()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        self._happened.append("held")
        yield
        self._happened.append("free")


def bench(judge: Judge, ahead: Any = None, **lanes: int) -> MeasuredBench:
    made: Any = object.__new__(MeasuredBench)
    made._judge, made._lanes, made._turn, made.gpu_ms = judge, lanes, threading.Lock(), 0.0
    made._effort, made._plan = Effort(), SimpleNamespace(cases=[], unseen=())
    made._calls = {case: SimpleNamespace(case=case, nbytes=n) for case, n in (("slow", 2**20), ("quick", 2**10))}
    made._base, made._rivals_ahead, made._watcher = tiny.files(), ahead or Idle(), None
    made._drawn, made._unread = None, ""
    takes = {case: Take(case, Path("takes") / case, "", 0, kernels=1) for case in ("slow", "quick")}
    takes["lost"] = Take("lost", None, "it asks the host", 0)
    made._checker = SimpleNamespace(baseline=Checked())
    made._takes = SimpleNamespace(takes=lambda digest: takes, tunes=False)
    assert isinstance(made, MeasuredBench)
    return made


def test_the_rival_of_a_winner_has_one_process_for_all_its_cases_and_leaves_none_behind() -> None:
    judge = Judge()
    found = bench(judge, slow=1, quick=64).rivals_of_winner(("slow", "quick"))
    assert judge.opened == [("slow", "max-autotune", 1, True), ("quick", "max-autotune", 64, False)]
    assert judge.last == "close", "no variant meets what a rival left"
    assert judge.still == [3, 3], "who stands still on the GPU is no stranger"
    assert judge.started == 1, "it comes up while torch compiles"
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


def test_who_stands_behind_a_long_pass_has_few_lanes() -> None:
    judge = Judge()
    judge.slot_us = 2000.0
    bench(judge).rivals_of_winner(("quick",))
    assert [lanes for _, _, lanes, _ in judge.opened] == [1, 5]


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
    text: str | None, v0_was_checked: bool, count: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One for the search, and six if it goes on. Until v0 was checked the judge owes an answer, and hears nobody."""
    judge, called = Judge(), []
    made: Any = bench(judge)
    made._effort, made._compiled = Effort(), {}
    made._checker.baseline = Checked() if v0_was_checked else None
    first, *rest = tiny.files()
    files = (first if text is None else first.model_copy(update={"text": text}), *rest)

    def checks(laid: Any) -> Any:
        called.append(judge.started)
        raise KeyboardInterrupt

    monkeypatch.setattr(made, "_lay", lambda files: SimpleNamespace(folder=tmp_path / "laid"))
    monkeypatch.setattr(made, "_compile", lambda laid, **_: WRONG)
    monkeypatch.setattr(made, "_checks", checks)
    with pytest.raises(KeyboardInterrupt):
        made.measure(files, passports=False)
    assert called == [count]


@pytest.mark.parametrize(
    ("room", "order"),
    [
        (True, ["held", "clock", "compiled", "host", "free"]),
        (False, ["compiled", "held", "clock", "host", "free"]),
    ],
)
def test_a_clock_runs_beside_a_compiler_that_has_processors_of_its_own(
    room: bool, order: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The host's time is read when nothing compiles any more. Compilers of rivals stand still all the while."""
    happened: list[str] = []
    clocked = threading.Event()
    made: Any = bench(Judge(), Idle(happened))
    made._effort, made._compiled = Effort(), {}
    made._plan = SimpleNamespace(cases=[SimpleNamespace(call=SimpleNamespace(case="slow"), minimum_bytes=8)])

    def compiled(laid: Any, **_: Any) -> Any:
        if room:
            clocked.wait(20)
        happened.append("compiled")
        return WRONG

    def timed(files: Any, cases: Any, rows: Any, quiet: Any) -> Any:
        happened.append("clock")
        clocked.set()
        quiet()
        happened.append("host")
        return Clocked(cases, rows)

    monkeypatch.setattr(compile_pool, "leaves_room", lambda: room)
    monkeypatch.setattr(MeasuredBench, "runner", GPU_RUNNER)
    for name, does in {
        "_lay": lambda files: SimpleNamespace(folder=tmp_path / "laid"),
        "_checks": lambda laid: Checked(),
        "_compile": compiled,
        "_timed": timed,
        "_fit": lambda checked: True,
        "_call_replayers": lambda files: None,
        "_books": lambda files: None,
    }.items():
        monkeypatch.setattr(made, name, does)
    found = made.measure(tiny.files(), passports=False)
    assert happened == order
    assert (found.fault, found.cases) == (WRONG, ())


def test_who_tunes_itself_is_checked_before_replayers_come_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its configurations are timed while it is checked: nobody else is on the GPU then."""
    judge, happened = Judge(), []
    made: Any = bench(judge)
    made._compiled, made._takes.tunes = {}, True
    monkeypatch.setattr(MeasuredBench, "runner", GPU_RUNNER)
    for name, does in {
        "_lay": lambda files: SimpleNamespace(folder=tmp_path / "laid"),
        "_checks": lambda laid: happened.append(judge.started) or Checked(),
        "_compile": lambda laid, **_: WRONG,
        "_timed": lambda files, cases, rows, quiet: happened.append(judge.started) or Clocked(cases, rows),
        "_fit": lambda checked: True,
        "_books": lambda files: None,
    }.items():
        monkeypatch.setattr(made, name, does)
    first, *rest = tiny.files()
    made.measure((first.model_copy(update={"text": "another = 1\n"}), *rest), passports=False)
    assert happened == [0, 1 + Effort().processes]


def test_before_the_judge_reads_its_own_clock_all_is_quiet() -> None:
    judge = Judge()
    made: Any = bench(judge, slow=1, quick=64)
    made._roofs = {"slow": 1.0, "quick": 1.0}
    made._effort, made._may_win = Effort(processes=3, losers=True), lambda cases: False
    takes, quiet = made._takes.takes("v1"), list[int]()
    cases = tuple(CaseResult(case=case) for case in ("slow", "quick"))
    made._of_variant(cases, takes, takes, lambda: quiet.append(judge.asked.count("open")))
    assert quiet == [2 + 2 * 2], "once, after the search and all processes but the last"
    assert judge.asked.index("burst") > 6 and judge.asked.count("burst") == 2
    assert judge.last == "close"


@pytest.mark.parametrize(("may_win", "fresh"), [(True, 1 + 2), (False, 1)])
def test_fresh_processes_are_asked_where_what_one_read_may_win(may_win: bool, fresh: int) -> None:
    judge, told = Judge(), list[Any]()
    made: Any = bench(judge, slow=1, quick=64)
    made._roofs, made._effort = {"slow": 1.0, "quick": 2.0}, Effort(processes=2)
    made.weigh(lambda cases: told.append(cases) or may_win)
    takes = made._takes.takes("v1")
    found = made._of_variant(tuple(CaseResult(case=case) for case in ("slow", "quick")), takes, takes, lambda: None)
    assert [fresh for _, _, _, fresh in judge.opened].count(True) == fresh
    ((slow, quick),) = told
    assert (slow.paired.confirm, quick.roof_us, slow.timing.median_us) == ((), 2.0, 1.0), "as one process read it"
    assert [len(case.paired.confirm) for case in found[0]] == [2 * may_win] * 2
    assert found[1] == () and judge.last == "close"


def test_who_was_wrong_in_a_timed_slot_leaves_nobody_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = Judge()
    made: Any = bench(judge)
    made._takes.forget = lambda digest: None

    def wrong(*_: Any) -> Any:
        raise Wrong("slow", "y is off")

    monkeypatch.setattr(made, "_clock_v0", lambda cases, stock: None)
    monkeypatch.setattr(made, "_of_variant", wrong)
    first, *rest = tiny.files()
    other = (first.model_copy(update={"text": "another = 1\n"}), *rest)
    found = made._timed(other, (CaseResult(case="slow"),), (), lambda: None)
    (row,) = found.rows
    assert (row.case, row.passed, found.fault, judge.last) == ("slow", False, None, "close")


def test_what_was_made_ready_is_neither_checked_nor_compiled_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made: Any = bench(Judge())
    made._effort, made._compiled = Effort(), {}
    ready = Checked(rows=(CheckResult(case="quick", passed=False, detail="off"),))
    made._ahead = SimpleNamespace(take=lambda files: (ready, WRONG))
    made._checker.excused = frozenset()
    monkeypatch.setattr(MeasuredBench, "runner", GPU_RUNNER)
    monkeypatch.setattr(made, "_lay", lambda files: SimpleNamespace(folder=tmp_path / "laid"))
    monkeypatch.setattr(made, "_books", lambda files: None)
    found = made.measure(tiny.files(), passports=True)
    assert (found.checks, found.fault) == (ready.rows, WRONG)


def test_a_case_keeps_what_compiling_shows_and_gets_what_the_clock_told() -> None:
    shown = (CaseResult(case="slow", minimum_bytes=8, traffic_factor=2.0, memory_bytes=1), CaseResult(case="quick"))
    timing = timing_of([3.0, 1.0, 2.0])
    read = CaseResult(case="slow", minimum_bytes=8, timing=timing, memory_bytes=5, host_waits=2, roof_us=1.5)
    slow, quick = with_clock(shown, [read])
    assert slow == read.model_copy(update={"traffic_factor": 2.0})
    assert quick == shown[1]


@pytest.mark.parametrize(("processors", "room"), [(1, False), (11, False), (12, True), (64, True)])
def test_four_processors_stay_free_beside_eight_compilers(
    processors: int, room: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compile_pool.os, "sched_getaffinity", lambda _: set(range(processors)))
    monkeypatch.setattr(compile_pool, "CPU_MAX", Path("/nowhere"))
    assert compile_pool.leaves_room() is room


@pytest.mark.parametrize(
    ("limit", "room"), [("1200000 100000", True), ("1190000 100000", False), ("max 100000", True), ("nonsense", True)]
)
def test_a_container_has_as_many_as_it_may_keep_busy(
    limit: str, room: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(compile_pool.os, "sched_getaffinity", lambda _: set(range(64)))
    monkeypatch.setattr(compile_pool, "CPU_MAX", tmp_path / "cpu.max")
    (tmp_path / "cpu.max").write_text(limit + "\n")
    assert compile_pool.leaves_room() is room


# -- finalists --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("room", [True, False])
def test_both_questions_are_asked_side_by_side(room: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither ends before the other has begun; and what would come next is made ready, if there are processors."""
    together = threading.Barrier(2, timeout=20)

    def answer(said: Any) -> Any:
        return lambda files: (together.wait(), said)[1]

    judge = Judge()
    made: Any = bench(judge)
    looked, went = Sanitized(status="clean"), UnderCompile(status="right", detail="a as one graph")
    monkeypatch.setattr(MeasuredBench, "sanitized", staticmethod(answer(looked)))
    monkeypatch.setattr(MeasuredBench, "under_compile", staticmethod(answer(went)))
    before = Measurement(runner=GPU_RUNNER, source=sources_digest(tiny.files()), seconds=30.0)
    made._ahead, readied = SimpleNamespace(make=lambda files: readied.append(files)), []
    monkeypatch.setattr(compile_pool, "leaves_room", lambda: room)
    found: Measurement = made.asked_last(tiny.files(), before, tiny.files)
    assert readied == ([tiny.files()] if room else [])
    assert judge.started == 7, "they come up now, and not beside the compilers of the next round"
    made._takes.tunes = True
    made.asked_last(tiny.files(), before, tiny.files)
    assert readied == ([tiny.files()] if room else []), "who tunes itself is recorded alone"
    assert (found.sanitized, found.under_compile) == (looked, went)
    assert found.seconds >= before.seconds
    assert found.model_copy(update={"sanitized": None, "under_compile": None, "seconds": 30.0}) == before


def test_what_a_winner_is_held_against_is_compiled_from_the_moment_that_it_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compile_pool, "leaves_room", lambda: True)
    ahead = Ahead()
    made: Any = bench(Judge(), ahead, slow=1, quick=64)
    made._took_us = {"quick": 3.0, "slow": 500.0}
    made._plan = SimpleNamespace(cases=[SimpleNamespace(call=call, minimum_bytes=8) for call in made._calls.values()])
    made.rivals()
    assert [what for what, _ in ahead.told] == ["begin", "finish", "held", "free", "begin"]
    assert ahead.told[-1] == ("begin", [("max-autotune", "slow"), ("max-autotune", "quick")])


def test_compilers_of_rivals_stand_still_while_profilers_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they read of the GPU's memory would be counted."""
    happened: list[str] = []
    made: Any = bench(Judge(), Idle(happened))

    def look(scene: Any, kernels: Any, clocked: Any, ready: Any) -> str:
        happened.append("timelines")
        clocked()
        happened.append("counters")
        return "found"

    monkeypatch.setattr(measured, "look", look)
    made._scenes, made._profiler = SimpleNamespace(of=lambda files: contextlib.nullcontext()), None
    assert made.look(tiny.files(), (), lambda: happened.append("clocked")) == "found"
    assert happened == ["held", "timelines", "clocked", "counters", "free"]


def test_workers_that_stand_ready_are_told_what_v0_seems_to_import(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told: list[tuple[str, ...]] = []

    def opened(made: Any, *_: Any) -> None:
        assert len(told) == 2, "they import while the judge does"
        made._judge, made._plan, made._takes = Judge(), SimpleNamespace(), SimpleNamespace()
        made._takes.kernels, made._takes.forget, made._takes.all_pins = None, None, None

    monkeypatch.setattr(ClockedBench, "__init__", opened)
    standby = {place: SimpleNamespace(begin=told.append) for place in (True, False)}
    cells: Any = SimpleNamespace(gpu=object(), standby=standby)
    MeasuredBench(tiny.write_tree(tmp_path), tiny.SITE, tiny.SUITE, cells, Deadlines(), 7, Effort())
    assert told == [("torch", "triton", "triton.language")] * 2


def test_nobody_stands_ready_for_a_bench_that_could_not_be_opened(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def opened(made: Any, *_: Any) -> None:
        raise OperatorError("the judge did not start", hint="")

    went: list[bool] = []
    monkeypatch.setattr(ClockedBench, "__init__", opened)
    standby = {
        place: SimpleNamespace(begin=lambda names: None, close=lambda place=place: went.append(place))
        for place in (True, False)
    }
    cells: Any = SimpleNamespace(gpu=object(), standby=standby)
    with pytest.raises(OperatorError):
        MeasuredBench(tiny.write_tree(tmp_path), tiny.SITE, tiny.SUITE, cells, Deadlines(), 7, Effort())
    assert went == [True, False]


class Ahead:
    standing_still = 0

    def __init__(self) -> None:
        self.told: list[tuple[str, object]] = []

    def begin(self, jobs: list[Any]) -> None:
        self.told.append(("begin", [(job.name, job.call.case) for job in jobs]))

    def finish(self, names: Any, seconds: float) -> frozenset[tuple[str, str]]:
        self.told.append(("finish", (*names, seconds)))
        return frozenset({("max-autotune", "quick")})

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        self.told.append(("held", ""))
        yield
        self.told.append(("free", ""))


def test_rivals_are_not_compiled_before_the_judge_has_made_its_inputs() -> None:
    """It needs every processor for them, and v0 is waiting."""
    ahead, waiting = Ahead(), list[Any]()
    made: Any = bench(Judge(), ahead)
    made._checker.when_inputs_lie_there = waiting.append
    made.expect_rivals()
    assert ahead.told == []
    (begin,) = waiting
    begin()
    assert [what for what, _ in ahead.told] == ["begin"]


def test_rivals_that_nobody_compiled_ahead_are_compiled_side_by_side_before_they_are_played() -> None:
    ahead = Ahead()
    found = bench(Judge(), ahead, slow=1, quick=64).rivals_of_winner(("slow", "lost", "quick"))
    both = [("max-autotune", "slow"), ("max-autotune", "quick")]
    assert ahead.told[:2] == [("begin", both), ("finish", ("max-autotune", 60.0))], "what cannot be replayed is not"
    assert ahead.told[2:] == [("held", ""), ("free", "")], "nobody compiles beside those that are played"
    assert [(one.case, "still compiling" in one.why_not) for one in found] == [("slow", False), ("quick", True)]


@pytest.mark.parametrize(("room", "passports", "started"), [(True, True, 1), (False, True, 0), (True, False, 0)])
def test_what_a_finalist_is_asked_comes_up_while_the_first_is_checked(
    room: bool, passports: bool, started: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Once, where processors are free for it, and not for whoever is only timed."""
    made, begun = bench(Judge()), list[int]()
    first, *rest = tiny.files()
    other = (first.model_copy(update={"text": "another = 1\n"}), *rest)

    def begin(cells: Any, memory: int) -> Any:
        begun.append(memory)
        return SimpleNamespace()

    monkeypatch.setattr(measured.sanitizer, "ahead", begin)
    monkeypatch.setattr(compile_pool, "leaves_room", lambda: room)
    monkeypatch.setattr(MeasuredBench, "runner", GPU_RUNNER)
    for name, does in {
        "_cells": None,
        "_deadlines": Deadlines(),
        "_compiled": {},
        "_ahead": SimpleNamespace(take=lambda files: None),
        "_lay": lambda files: SimpleNamespace(folder=tmp_path / "laid"),
        "_checks": lambda laid: Checked(),
        "_compile": lambda laid, **_: WRONG,
        "_timed": lambda files, cases, rows, quiet: Clocked(cases, rows),
        "_fit": lambda checked: True,
        "_books": lambda files: None,
    }.items():
        monkeypatch.setattr(made, name, does, raising=False)
    for files in (tiny.files(), other, other):
        made.measure(files, passports=passports)
    assert len(begun) == started


def test_who_is_asked_of_a_finalist_leaves_the_next_one_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    made: Any = bench(Judge())
    first, *rest = tiny.files()
    stood, asked = SimpleNamespace(), list[Any]()
    made._watcher, made._cells, made._deadlines = stood, None, Deadlines()
    made._scenes = SimpleNamespace(of=lambda files: contextlib.nullcontext("scene"))
    monkeypatch.setattr(compile_pool, "leaves_room", lambda: True)
    monkeypatch.setattr(measured.sanitizer, "ahead", lambda cells, memory: "the next")
    monkeypatch.setattr(measured.sanitizer, "sanitized", lambda mine, stock, ready: asked.append(ready))
    made.sanitized((first.model_copy(update={"text": "another = 1\n"}), *rest))
    assert asked == [stood] and made._watcher == "the next"


def test_nobody_who_stands_ready_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    made: Any = bench(Judge())
    gone: list[str] = []
    made._profiler = SimpleNamespace(dismiss=lambda: gone.append("profiler"))
    made._watcher = SimpleNamespace(dismiss=lambda: gone.append("sanitizer"))
    made._rivals_ahead = SimpleNamespace(end=lambda seconds: None)
    monkeypatch.setattr(ClockedBench, "close", lambda self: gone.append("bench"))
    made.close()
    assert gone == ["profiler", "sanitizer", "bench"]


def test_those_for_rivals_come_up_with_the_one_for_v0() -> None:
    """It has to be waited for anyway."""
    judge = Judge()
    made: Any = bench(judge)
    made._of_v0 = lambda case, take: case
    found = made._timed(tiny.files(), (CaseResult(case="slow"),), (), lambda: None)
    assert found.cases[0].case == "slow"
    assert judge.starts == [StartRequest("start", 1 + 2, alone=True, still=3)], "who stands still is no stranger"
