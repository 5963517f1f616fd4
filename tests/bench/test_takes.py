"""A recording is believed where an unrecorded run, seen by the profiler, launches the same; v0's choices are pinned."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bot.bench import compile_pool, takes
from bot.bench.cell import Cells, Places
from bot.bench.checks import Laid
from bot.bench.interpreter import TargetPython
from bot.bench.launcher import Limits
from bot.bench.sandbox import Sandbox
from bot.bench.take import differs, refused, take_of
from bot.bench.takes import AT_LEAST_S, PATIENCE, GpuChecker
from bot.model.measurement import Fault
from bot.model.variant import SourceFile, sources_digest
from bot.worker.contract import Call, CasePlan, ContractError, Plan, Prepared, Refusal, Rows, UnseenCase, parse, render
from bot.worker.contract.gpu import (
    MAX_CHOICES,
    MAX_CONSTANTS,
    MAX_KEY,
    MAX_NAME,
    Choice,
    GpuAnswer,
    GpuRequest,
    Recording,
    Traced,
)
from bot.worker.contract.tape import TAPE
from tests.bench.tiny import OP, SITE
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
    assert differs(told, seen) == ""


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
    assert differs(tape(kernel()), seen) != ""


def test_a_take_says_how_often_the_host_waits(tmp_path: Path) -> None:
    told = tape(kernel(), waits=3)
    (tmp_path / "tape-0").mkdir()
    (tmp_path / "tape-0" / TAPE).write_text(render(told))
    taken = take_of(Recording(told.case, "tape-0", "", 5, (TWICE,), ()), tmp_path)
    assert (taken.waits, taken.peak_bytes, taken.folder) == (3, 5, tmp_path / "tape-0")


def test_a_recording_that_could_not_be_made_waits_for_nobody(tmp_path: Path) -> None:
    taken = take_of(Recording("forward-4x8", "", "it sorts", 5, (), ()), tmp_path)
    assert (taken.waits, taken.why_not, taken.folder) == (0, "it sorts", None)


@pytest.mark.parametrize("kind", ["memory", "crashed"])
def test_a_pass_that_failed_while_it_was_recorded_says_which_and_why(kind: str) -> None:
    failed = Recording("backward-4x8", "", "", 0, (), (), Refusal(kind, "no room"))
    fault = refused(GpuAnswer((), (Recording("forward-4x8", "tape-0", "", 5, (), ()), failed)))
    assert fault is not None
    assert (fault.kind, fault.detail) == (kind, "backward-4x8: no room")


def test_what_was_recorded_or_cannot_be_was_not_refused() -> None:
    whole = Recording("forward-4x8", "tape-0", "", 5, (), ())
    assert refused(GpuAnswer((), (whole, Recording("backward-4x8", "", "it sorts", 5, (), ())))) is None


# -- what v0's autotuned kernels chose ----------------------------------------------------------------------------

LIMITS = Limits(60, 2**30)
CHOICE = Choice("ops.k._k", "(4096, 'torch.float32')", "ab12", (("BLOCK", 128),), 4, 3, 1)
WIDER = dataclasses.replace(CHOICE, key="(8192, 'torch.float32')", constants=(("BLOCK", 256),))


def told(*choices: Choice) -> Recording:
    return Recording("forward-4x8", "", "it sorts", 5, (), (), choices=choices)


def constants(count: int) -> tuple[tuple[str, int], ...]:
    return tuple((f"c{n}", n) for n in range(count))


@pytest.mark.parametrize(
    "choices",
    [
        (CHOICE,) * MAX_CHOICES,
        (dataclasses.replace(CHOICE, kernel="k" * MAX_NAME, key="k" * MAX_KEY, among="k" * MAX_NAME),),
        (dataclasses.replace(CHOICE, constants=constants(MAX_CONSTANTS), num_warps=None, maxnreg=2**63 - 1),),
        (dataclasses.replace(CHOICE, constants=(("A", "s" * MAX_NAME), ("B", 0.5), ("C", None), ("D", True))),),
        (dataclasses.replace(CHOICE, source="s" * MAX_NAME, grid=(1, 2, 2**63 - 1)),),
    ],
)
def test_what_was_chosen_is_kept_up_to_a_bound(choices: tuple[Choice, ...], tmp_path: Path) -> None:
    answer = GpuAnswer((), (told(*choices),))
    (recording,) = parse(GpuAnswer, render(answer)).recordings
    assert take_of(recording, tmp_path).choices == choices


@pytest.mark.parametrize(
    "choices",
    [
        (CHOICE,) * (MAX_CHOICES + 1),
        (dataclasses.replace(CHOICE, kernel="k" * (MAX_NAME + 1)),),
        (dataclasses.replace(CHOICE, key="k" * (MAX_KEY + 1)),),
        (dataclasses.replace(CHOICE, among="k" * (MAX_NAME + 1)),),
        (dataclasses.replace(CHOICE, constants=constants(MAX_CONSTANTS + 1)),),
        (dataclasses.replace(CHOICE, constants=(("n" * (MAX_NAME + 1), 1),)),),
        (dataclasses.replace(CHOICE, constants=(("A", "s" * (MAX_NAME + 1)),)),),
        (dataclasses.replace(CHOICE, constants=(("A", float("nan")),)),),
        (dataclasses.replace(CHOICE, constants=(("A", 2**63),)),),
        (dataclasses.replace(CHOICE, kernel="two\nlines"),),
        (CHOICE, dataclasses.replace(CHOICE, key="\N{SNOWMAN}")),
        (dataclasses.replace(CHOICE, source="s" * (MAX_NAME + 1)),),
        (dataclasses.replace(CHOICE, grid=(1, 1, 1, 1)),),
        (dataclasses.replace(CHOICE, grid=(2**63,)),),
    ],
)
def test_no_kernel_chooses_beyond_it(choices: tuple[Choice, ...], tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="forward-4x8: no autotuned kernel"):
        take_of(told(*choices), tmp_path)


@pytest.mark.parametrize("odd", [{"num_warps": 2**63}, {"num_stages": "3"}, {"constants": (("A", [1]),)}])
def test_an_answer_with_another_type_of_choice_is_none(odd: dict[str, Any]) -> None:
    with pytest.raises(ContractError):
        parse(GpuAnswer, render(GpuAnswer((), (told(dataclasses.replace(CHOICE, **odd)),))))


CHECKS, DRAWS = ("check-1", "check-2"), ("draw-1",)


class Judge:
    """It agrees with everything, once it has heard what it asks for."""

    def __init__(self) -> None:
        self.again: tuple[str, ...] = ()

    def receive(self, kind: type[Prepared]) -> Prepared:
        return Prepared(0)

    def ask(self, request: Any, kind: type[Rows]) -> Rows:
        if request.draws:
            self.again = ()
        return Rows((), self.again)


class Bench:
    """A checker whose workers answer what they are given, and remember what they were asked."""

    def __init__(
        self, scratch: Path, monkeypatch: pytest.MonkeyPatch, *cases: str, unseen: tuple[UnseenCase, ...] = ()
    ) -> None:
        python = TargetPython(executable=Path("/usr/bin/python3"), version="3.12.3", roots=(), libraries=())
        self.gpu = SimpleNamespace(memory_mib=143771)
        cells = Cells(python, Sandbox("limits only"), scratch / "suitcase", scratch, self.gpu)  # type: ignore[arg-type]
        checks, draws = (tuple(Call(n, n, "forward", (), (), f"{n}.in") for n in names) for names in (CHECKS, DRAWS))
        for call in (*checks, *draws):
            (scratch / call.blob).touch()
        scored = tuple(CasePlan(Call(case, case, "forward", (), ()), 8) for case in cases)
        plan = Plan(scored, checks, (), draws, unseen=unseen)
        self.judge = Judge()
        self.checker = GpuChecker(
            cells, SITE, "sm_90", self.judge, plan, scratch, LIMITS, lambda: self.laid("v0 once more")
        )
        self.asked: list[GpuRequest] = []
        self.answers: GpuAnswer | Fault = GpuAnswer((), ())
        self.of_recordings: Fault | Callable[[GpuRequest], GpuAnswer | Fault] | None = None
        self.limits: list[float] = []
        self.tuned = True
        """Whether every text speaks of tuning."""
        self.seconds = 0.0
        """Of everything a worker does."""
        self._now = 1000.0
        self._scratch = scratch
        monkeypatch.setattr(takes, "run_cell", self._run)
        monkeypatch.setattr(takes, "time", SimpleNamespace(monotonic=lambda: self._now))

    def _run(self, cells: Cells, where: Places, request: GpuRequest, _: Any, limits: Limits, *__: Any) -> Any:
        self.asked.append(request)
        self.limits.append(limits.seconds)
        self._now += self.seconds
        if self.of_recordings is None or not request.cases or request.checks:
            return self.answers
        return self.of_recordings(request) if callable(self.of_recordings) else self.of_recordings

    def laid(self, name: str) -> Laid:
        folder = self._scratch / name
        folder.mkdir()
        return Laid(name, (self.file(name),), folder, folder)

    def file(self, name: str) -> SourceFile:
        return SourceFile(path=OP, text=f"{name}\n@triton.autotune" if self.tuned else name)

    def laid_folder(self, name: str) -> Path:
        return self._scratch / name

    def answer(self, *cases: tuple[str, tuple[Choice, ...]]) -> None:
        self.answers = GpuAnswer((), tuple(Recording(c, "", "it sorts", 5, (), (), choices=has) for c, has in cases))


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch, "forward-4x8", "forward-8x8")


@pytest.mark.parametrize(
    ("processors", "memory_mib", "at_once", "v0_took_s", "recorders"),
    [
        (16, 143771, 8, 30.0, 2),
        (16, 143771, 8, 29.9, 1),
        (15, 143771, 8, 30.0, 1),
        (16, 143771, 6, 0.0, 1),
        (16, 143771, 5, 0.0, 2),
        (16, 143771, 5, 30.0, 3),
        (64, 143771, 1, 0.0, 4),
        (16, 81559, 8, 30.0, 1),
        (16, 81559, 5, 0.0, 1),
        (16, 81920, 5, 0.0, 2),
        (16, 24576, 1, 0.0, 3),
        (2, 143771, 5, 30.0, 1),
    ],
)
def test_so_many_record_as_there_are_processors_and_memory_for(
    processors: int,
    memory_mib: int,
    at_once: int,
    v0_took_s: float,
    recorders: int,
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And fewer where contexts would take longer than compiling does."""
    bench.tuned, bench.gpu.memory_mib, bench.checker._took_s = False, memory_mib, v0_took_s
    monkeypatch.setattr(compile_pool, "processors", lambda: processors)
    bench.answer(("forward-4x8", ()))
    bench.checker.brief(bench.laid("v1"), ["forward-4x8"], LIMITS, at_once=at_once)
    assert bench.asked[-1].recorders == recorders


@pytest.mark.parametrize(
    ("processors", "memory_mib", "most"),
    [(32, 143771, 32), (64, 143771, 35), (16, 81559, 16), (16, 24576, 6), (2, 1, 1)],
)
def test_no_more_race_at_once_than_there_are_processors_and_memory_for(
    processors: int, memory_mib: int, most: int, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.gpu.memory_mib = memory_mib
    monkeypatch.setattr(compile_pool, "processors", lambda: processors)
    assert bench.checker.most_at_once() == most


def test_one_records_all_of_who_may_tune_itself(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It chooses once, for every case."""
    monkeypatch.setattr(compile_pool, "processors", lambda: 64)
    bench.answer(("forward-4x8", ()))
    bench.checker.brief(bench.laid("v1"), ["forward-4x8"], LIMITS, at_once=1)
    bench.tuned = False
    bench.checker.brief(bench.laid("v2"), ["forward-4x8"], LIMITS, at_once=1)
    assert [request.recorders for request in bench.asked] == [1, 4]


def test_what_v0_chose_is_handed_on_to_all_that_is_held_against_it(bench: Bench) -> None:
    bench.answer(("forward-4x8", (CHOICE,)), ("forward-8x8", (CHOICE, WIDER)))
    assert bench.checker.check_baseline(bench.laid("v0")).fault is None
    assert bench.checker.check(bench.laid("v1")).fault is None
    bench.answer(("forward-4x8", (CHOICE,)))
    assert not isinstance(bench.checker.brief(bench.laid("v2"), ["forward-4x8"], LIMITS, at_once=1), Fault)
    assert [request.pins for request in bench.asked] == [(), (), (CHOICE, WIDER), (CHOICE, WIDER), (CHOICE,)]


@pytest.mark.parametrize("tunes", [True, False])
def test_what_begins_beside_the_checks_waits_for_who_tunes_itself(tunes: bool, bench: Bench) -> None:
    """torch compiles rivals then, and would be on the GPU while a configuration is timed."""
    order: list[str] = []
    bench.answer(("forward-4x8", ()), ("forward-8x8", ()))
    whole, bench.tuned = bench.answers, tunes

    def recorded(request: GpuRequest) -> GpuAnswer | Fault:
        if not tunes:
            begun.wait(20)
        order.append("recorded")
        return whole

    begun = threading.Event()
    bench.of_recordings = recorded
    bench.checker.when_inputs_lie_there(lambda: (order.append("rivals"), begun.set()))
    assert bench.checker.check_baseline(bench.laid("v0")).fault is None
    assert order == (["recorded", "rivals"] if tunes else ["rivals", "recorded"])


def test_a_take_says_what_its_kernels_spill(bench: Bench) -> None:
    one = Recording("forward-4x8", "", "it sorts", 5, (), (), local_bytes=(("_k", 24),))
    bench.answers = GpuAnswer((), (one,))
    found = bench.checker.brief(bench.laid("v1"), ["forward-4x8"], LIMITS, at_once=1)
    assert not isinstance(found, Fault)
    assert found["forward-4x8"].local_bytes == (("_k", 24),)


@pytest.mark.parametrize(("took", "allowed"), [(2.0, AT_LEAST_S + 2.0 * PATIENCE), (7.4, 59.6), (7.6, 60.0)])
def test_a_variant_has_several_times_what_v0_took_and_never_more_than_anybody(
    took: float, allowed: float, bench: Bench
) -> None:
    """Ten that hung on an H200 at once were waited for as long as a runner allows, four minutes by default."""
    bench.answer(("forward-4x8", ()), ("forward-8x8", ()))
    bench.seconds = took
    bench.checker.check_baseline(bench.laid("v0"))
    bench.seconds = took * 5
    bench.checker.check(bench.laid("v1"))
    bench.checker.check(bench.laid("v2"))
    assert bench.limits == [2 * LIMITS.seconds] * 2 + [pytest.approx(allowed), pytest.approx(allowed)]


def test_v0_has_longer_where_it_may_tune_itself_and_only_there(bench: Bench) -> None:
    """fused_moe was not through its configurations when the worker of any other kernel would be ended."""
    bench.answer(("forward-4x8", ()), ("forward-8x8", ()))
    bench.tuned = False
    bench.checker.check_baseline(bench.laid("v0"))
    bench.tuned = True
    bench.checker.check(bench.laid("v1"))
    assert bench.limits == [LIMITS.seconds, LIMITS.seconds, AT_LEAST_S]


def test_the_further_draws_are_asked_of_v0_alone_and_nothing_is_recorded_for_them(bench: Bench) -> None:
    bench.answer(("forward-4x8", (CHOICE,)), ("forward-8x8", ()))
    bench.checker.check_baseline(bench.laid("v0"))
    bench.judge.again = DRAWS
    assert bench.checker.check(bench.laid("v1")).fault is None
    asked = [tuple(tuple(call.id for call in some) for some in (one.checks, one.cases)) for one in bench.asked]
    recorded, checked, drawn = ((), ("forward-4x8", "forward-8x8")), (CHECKS, ()), (DRAWS, ())
    assert asked == [recorded, checked, recorded, checked, drawn]
    assert [request.pins for request in bench.asked[2:]] == [(CHOICE,)] * 3
    for name in ("v0", "v1"):
        there = {path.name for path in (bench.laid_folder(name) / "check-request").iterdir()}
        assert there == {f"{one}.in" for one in CHECKS}
    assert not bench.laid_folder("v0 once more").exists()
    for name in ("v0", "v1"):
        taken = bench.checker.takes(sources_digest((bench.file(name),)))
        assert list(taken) == ["forward-4x8", "forward-8x8"]


def test_what_a_variant_chose_for_a_kernel_of_its_own_is_for_all_that_launch_it(bench: Bench) -> None:
    """Another text, or another grid, is another kernel. Of v0's own kernels v0 has the word."""
    own = dataclasses.replace(CHOICE, source="cd34", constants=(("BLOCK", 256),))
    on_more = dataclasses.replace(own, grid=(264,))
    unlike_v0 = dataclasses.replace(CHOICE, constants=(("BLOCK", 64),))
    bench.answer(("forward-4x8", (CHOICE,)), ("forward-8x8", ()))
    bench.checker.check_baseline(bench.laid("v0"))
    bench.answer(("forward-4x8", (unlike_v0, own)), ("forward-8x8", (on_more,)))
    bench.checker.check(bench.laid("v1"))
    bench.answer(("forward-4x8", (dataclasses.replace(own, num_warps=8),)), ("forward-8x8", ()))
    bench.checker.check(bench.laid("v2"))
    first, *_, last = (request.pins for request in bench.asked[2:])
    assert (first, last) == ((CHOICE,), (CHOICE, own, on_more))
    assert bench.checker.pins(["forward-4x8"]) == (CHOICE, own)
    assert bench.checker.pins(["forward-8x8", "nobody's"]) == (on_more,)


def test_what_was_wrong_teaches_nobody(bench: Bench) -> None:
    own = dataclasses.replace(CHOICE, source="cd34")
    bench.answer(("forward-4x8", (CHOICE,)), ("forward-8x8", ()))
    bench.checker.check_baseline(bench.laid("v0"))
    bench.answer(("forward-4x8", (own,)))  # a case is missing
    fault = bench.checker.check(bench.laid("v1")).fault
    assert fault is not None and bench.checker.pins(["forward-4x8"]) == (CHOICE,)


@pytest.mark.parametrize("alone", [True, False])
def test_of_a_race_only_who_was_recorded_alone_is_believed(alone: bool, bench: Bench) -> None:
    """Several that are tuned at once slow each other down."""
    own = dataclasses.replace(CHOICE, source="cd34")
    bench.answer(("forward-4x8", (CHOICE,)), ("forward-8x8", ()))
    bench.checker.check_baseline(bench.laid("v0"))
    bench.answer(("forward-4x8", (own,)))
    assert not isinstance(bench.checker.brief(bench.laid("v1"), ["forward-4x8"], LIMITS, at_once=1, alone=alone), Fault)
    assert bench.checker.pins(["forward-4x8"]) == ((CHOICE, own) if alone else (CHOICE,))


def test_who_tunes_nothing_is_checked_and_recorded_by_one_worker(bench: Bench) -> None:
    """It deals both out to shares of its own. v0 is recorded apart, while the judge makes its inputs."""
    bench.tuned = False
    bench.answer(("forward-4x8", ()), ("forward-8x8", ()))
    bench.checker.check_baseline(bench.laid("v0"))
    assert bench.checker.check(bench.laid("v1")).fault is None
    asked = [(bool(one.checks), bool(one.cases)) for one in bench.asked]
    assert sorted(asked[:2]) == [(False, True), (True, False)] and asked[2] == (True, True)
    taken = bench.checker.takes(sources_digest((bench.file("v1"),)))
    assert list(taken) == ["forward-4x8", "forward-8x8"]


@pytest.mark.parametrize("tuned", [True, False])
def test_v0_is_checked_beside_its_recordings_unless_its_text_speaks_of_tuning(
    tuned: bool, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever tunes itself is on a clock meanwhile."""
    bench.tuned, both = tuned, threading.Barrier(2)
    bench.answer(("forward-4x8", ()), ("forward-8x8", ()))
    met: list[bool] = []

    def run(*asked: Any) -> Any:
        try:
            both.wait(0.2 if tuned else 20)
            met.append(True)
        except threading.BrokenBarrierError:
            met.append(False)
        return bench._run(*asked)

    monkeypatch.setattr(takes, "run_cell", run)
    bench.checker.check_baseline(bench.laid("v0"))
    assert met == [not tuned] * 2


def test_what_was_compiled_for_good_recordings_is_kept_and_lies_no_longer_among_them(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of v0 and of a variant, by what they are; what a race compiles is nobody's."""

    def run(cells: Cells, where: Places, request: GpuRequest, *rest: Any) -> Any:
        if request.cases:
            (where.answer.host / "kernels").mkdir()
            (where.answer.host / "kernels" / "_k.cubin").write_text(where.source.host.name)
        return bench._run(cells, where, request, *rest)

    monkeypatch.setattr(takes, "run_cell", run)
    bench.answer(("forward-4x8", ()), ("forward-8x8", ()))
    bench.tuned = False
    bench.checker.check_baseline(bench.laid("v0"))
    assert bench.checker.check(bench.laid("v1")).fault is None
    bench.answer(("forward-4x8", ()))
    assert not isinstance(bench.checker.brief(bench.laid("v2"), ["forward-4x8"], LIMITS, at_once=1), Fault)
    for name in ("v0", "v1", "v2"):
        digest = sources_digest((bench.file(name),))
        bench.checker.kernels.lay(digest, tmp_path / f"laid-{name}")
        assert not (tmp_path / "takes" / digest / "kernels").exists()
    assert [path.read_text() for path in sorted(tmp_path.glob("laid-*/_k.cubin"))] == ["v0", "v1"]


def test_what_cannot_be_recorded_is_told_with_what_the_checks_said(bench: Bench) -> None:
    bench.answer(("forward-4x8", (CHOICE,)), ("forward-8x8", ()))
    bench.checker.check_baseline(bench.laid("v0"))
    bench.of_recordings = Fault(kind="run_timeout", detail="it loops")
    assert bench.checker.check(bench.laid("v1")).fault == bench.of_recordings
    assert bench.checker.takes(sources_digest((bench.file("v1"),))) == {}


def test_what_v0_chose_beyond_the_bound_ends_its_campaign(bench: Bench) -> None:
    bench.answer(("forward-4x8", (CHOICE,) * (MAX_CHOICES + 1)), ("forward-8x8", ()))
    fault = bench.checker.check_baseline(bench.laid("v0")).fault
    assert fault is not None
    assert fault.kind == "protocol"
    assert bench.checker.pins(["forward-4x8"]) == ()
