"""Timelines and counters of a bench with a GPU, as far as they can be heard without one."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bot.bench import looking, ncu
from bot.bench.cell import Cells
from bot.bench.checks import Laid
from bot.bench.gpu import Gpu
from bot.bench.interpreter import TargetPython
from bot.bench.kept_kernels import KeptKernels
from bot.bench.launcher import Ended
from bot.bench.looking import Scene, Scenes, largest
from bot.bench.sandbox import Sandbox
from bot.errors import OperatorError
from bot.model.measurement import Fault
from bot.model.profiling import Dispatch
from bot.model.site import KernelSite
from bot.model.variant import SourceFile, sources_digest
from bot.worker.contract import ANSWER, REQUEST, Call, CasePlan, Plan, render
from bot.worker.contract.dispatching import Dispatched
from bot.worker.contract.looking import LookAnswer, Looked, LookRequest, Worked
from tests.bench.test_ncu import DENIED, H200, RAW, TOOL
from tests.bench.test_takes import CHOICE


def case(direction: str, nbytes: int) -> CasePlan:
    return CasePlan(Call(f"{direction}-{nbytes}", f"{direction}-{nbytes}", direction, (), ()), nbytes)


PLAN = Plan((case("forward", 10), case("forward", 30), case("backward", 20), case("full", 99)), (), ())


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    python = TargetPython(executable=Path("/usr/bin/python3"), version="3.12.3", roots=(), libraries=())
    site = KernelSite(
        kernel="k", preset="liger", source_root="src", module="ops.k", files=("src/ops/k.py",), test_file="t.py",
        benchmark_file="b.py", test_command=(), style_command=(),
    )  # fmt: skip
    folder = tmp_path / "v-0"
    folder.mkdir()
    cells = Cells(python, Sandbox("limits only"), tmp_path / "suitcase", tmp_path, H200)
    return Scene(cells, site, (), folder, folder, PLAN, 2**30)


def test_counters_are_read_on_the_largest_case_of_each_direction() -> None:
    assert [call.id for call in largest(PLAN)] == ["forward-30", "backward-20"]
    assert [call.id for call in largest(Plan((case("full", 1),), (), ()))] == ["full-1"]


def test_no_profiler_is_sent_to_a_case_that_has_nothing_to_move_while_there_is_another() -> None:
    idle, busy = case("backward", 0), case("forward", 1)
    assert [call.id for call in largest(Plan((idle, busy), (), ()))] == ["forward-1"]
    assert [call.id for call in largest(Plan((idle,), (), ()))] == ["backward-0"]


def seen(case: str, **fields: Any) -> Looked:
    plain = {"passes": 5, "wall_us": 500.0, "busy_us": 200.0, "gap_us": 50.0, "waits": 5}
    return Looked(case=case, kernels=(Worked("_k", 10, 200.0),), **{**plain, **fields})


def test_a_profiled_worker_is_told_what_v0_chose(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[LookRequest] = []
    monkeypatch.setattr(looking, "run_cell", lambda cells, where, request, *_: asked.append(request) or LookAnswer(()))
    looking.timelines(dataclasses.replace(scene, pins=(CHOICE,)))
    assert [request.pins for request in asked] == [(CHOICE,)]


MINE, OTHER = ((SourceFile(path="src/ops/k.py", text=text),) for text in ("mine = 1\n", "other = 1\n"))


def kept_of(folder: Path, *known: tuple[SourceFile, ...]) -> KeptKernels:
    kernels = KeptKernels(folder / "kernels")
    for files in known:
        (folder / "compiled").mkdir()
        (folder / "compiled" / "_k.cubin").write_text(files[0].text)
        kernels.keep(folder / "compiled", sources_digest(files), untouched=False)
    return kernels


def test_a_request_comes_with_what_was_compiled_of_its_files_and_of_no_others(scene: Scene, tmp_path: Path) -> None:
    mine = dataclasses.replace(scene, files=MINE, kernels=kept_of(tmp_path, OTHER, MINE))
    folder = mine.request_folder("timeline")
    assert folder == scene.folder / "timeline-request"
    assert [(path.name, path.read_text()) for path in folder.rglob("*.cubin")] == [("_k.cubin", MINE[0].text)]
    unknown = dataclasses.replace(mine, files=(MINE[0].model_copy(update={"text": "new = 1\n"}),))
    assert list(unknown.request_folder("ncu").iterdir()) == []
    assert list(dataclasses.replace(mine, kernels=None).request_folder("none").iterdir()) == []


def test_profiled_workers_find_it_beside_their_requests(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    beside: list[list[str]] = []

    def run(cells: Cells, where: Any, *_: Any) -> LookAnswer:
        beside.append([path.name for path in where.request.host.iterdir()])
        return LookAnswer(())

    monkeypatch.setattr(looking, "run_cell", run)
    looking.timelines(dataclasses.replace(scene, files=MINE, kernels=kept_of(scene.cells.scratch, MINE)))
    assert beside == [["kernels"]]


def test_a_scene_knows_what_was_compiled_and_is_taken_away_again(scene: Scene, tmp_path: Path) -> None:
    kernels, laid = kept_of(tmp_path), Laid("v-1", MINE, tmp_path / "v-1", tmp_path / "v-1" / "source")
    laid.source.mkdir(parents=True)
    scenes = Scenes(scene.cells, scene.site, PLAN, 2**30, lambda files: laid, lambda: (CHOICE,), kernels)
    with scenes.of(MINE) as made:
        assert made.kernels is kernels and (made.files, made.pins) == (MINE, (CHOICE,))
    assert not laid.folder.exists()


def test_a_timeline_is_of_one_pass(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = LookAnswer((seen("forward-10"), seen("nobody-asked")))
    monkeypatch.setattr(looking, "run_cell", lambda *_: answer)
    ((found,), _) = looking.timelines(scene)
    assert (found.case, found.wall_us, found.busy_us, found.gap_us, found.waits) == ("forward-10", 100, 40, 10, 1)
    assert [(k.kernel, k.launches, k.us) for k in found.kernels] == [("_k", 2, 40)]


def test_gaps_of_a_pass_that_is_watched_are_no_more_than_the_gpu_idles_unwatched(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A profiler keeps the host busy, and so the GPU idle."""
    answer = LookAnswer((seen("forward-10", busy_us=480.0, gap_us=900.0),))
    monkeypatch.setattr(looking, "run_cell", lambda *_: answer)
    ((found,), _) = looking.timelines(scene)
    assert (found.busy_us, found.gap_us, found.wall_us) == (96, 4, 100)


@pytest.mark.parametrize(
    "answer",
    [
        Fault(kind="crashed", detail="CUPTI is in use"),
        LookAnswer((seen("forward-10", wall_us=float("nan")),)),
        LookAnswer((seen("forward-10", busy_us=-1.0),)),
    ],
)
def test_a_worker_that_cannot_tell_leaves_no_timeline_and_ends_nothing(
    answer: Any, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "run_cell", lambda *_: answer)
    assert looking.timelines(scene) == ((), ())


class Profiler:
    """Stands for ncu around the worker: leaves these texts, one a run, and lets the worker answer."""

    def __init__(self, *runs: tuple[str, str], stopped: str = "", answers: bool = True) -> None:
        self.runs, self.stopped, self.answers = list(runs), stopped, answers
        self.asked: list[tuple[str, ...]] = []
        self.cases: list[list[str]] = []

    def __call__(self, cells: Cells, where: Any, limits: Any, extra: Any, gpu: Gpu, around: Any) -> Ended:
        self.asked.append(around.argv)
        self.cases.append([call["case"] for call in json.loads((where.request.host / REQUEST).read_text())["cases"]])
        table, told = self.runs.pop(0)
        if table:
            (where.answer.host / ncu.LOG).write_text(table)
        if self.answers:
            (where.answer.host / ANSWER).write_text(render(LookAnswer(())))
        return Ended(0, self.stopped, 1.0, told)


def told(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, *runs: tuple[str, str], stopped: str = "", answers: bool = True
) -> tuple[Any, Profiler]:
    profiler = Profiler(*runs, stopped=stopped, answers=answers)
    monkeypatch.setattr(looking, "start_afresh", profiler)
    monkeypatch.setattr(ncu, "find_tool", lambda: TOOL)
    monkeypatch.setattr(looking.overlay, "subject", lambda *_: looking_subject())
    return looking.counters(scene, ["_rms_norm_forward_kernel"]), profiler


class Ready:
    """Stands for ncu with a worker in it that stands ready; what it leaves is the profiler's."""

    def __init__(self, profiler: Profiler, alive: bool = True) -> None:
        self.running, self._profiler = SimpleNamespace(is_alive=alive), profiler
        self.used = 0

    def carry_out(self, source: Path, request: Path, answer: Path, limits: Any) -> Ended:
        self.used += 1
        where = SimpleNamespace(request=SimpleNamespace(host=request), answer=SimpleNamespace(host=answer))
        return self._profiler(None, where, limits, {}, H200, SimpleNamespace(argv=("--metrics",)))  # type: ignore[arg-type]


@pytest.mark.parametrize("alive", [True, False])
def test_a_profiler_that_stands_ready_is_asked_and_one_that_fell_is_started_afresh(
    alive: bool, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    afresh, standing = Profiler((RAW, "")), Profiler((RAW, ""))
    monkeypatch.setattr(looking, "start_afresh", afresh)
    monkeypatch.setattr(ncu, "find_tool", lambda: TOOL)
    monkeypatch.setattr(looking.overlay, "subject", lambda *_: looking_subject())
    ready: Any = Ready(standing, alive)
    found = looking.counters(scene, ["_rms_norm_forward_kernel"], ready)
    assert (found.status, len(found.kernels)) == ("read", 2)
    assert (ready.used, len(afresh.asked)) == ((1, 0) if alive else (0, 1))


def test_one_that_lacks_a_counter_is_not_asked_twice(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    afresh = Profiler((RAW, ""))
    monkeypatch.setattr(looking, "start_afresh", afresh)
    monkeypatch.setattr(ncu, "find_tool", lambda: TOOL)
    monkeypatch.setattr(looking.overlay, "subject", lambda *_: looking_subject())
    ready: Any = Ready(Profiler(("", "==ERROR== Failed to find metric lts__t_bytes.sum\n")))
    assert looking.counters(scene, ["_k"], ready).status == "read"
    assert (ready.used, ["--metrics" in argv for argv in afresh.asked]) == (1, [False])


@pytest.mark.parametrize(
    ("tool", "gpu", "standby", "kernels", "begins"),
    [
        (TOOL, H200, True, ["_k"], True),
        (None, H200, True, ["_k"], False),
        (TOOL, None, True, ["_k"], False),
        (TOOL, H200, False, ["_k"], False),
        (TOOL, H200, True, [], False),
        (TOOL, H200.model_copy(update={"name": "NVIDIA H200 MIG"}), True, ["_k"], False),
    ],
)
def test_a_profiler_comes_up_where_it_will_be_asked(
    tool: Any, gpu: Any, standby: bool, kernels: list[str], begins: bool, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[Path, tuple[str, ...]]] = []
    monkeypatch.setattr(ncu, "find_tool", lambda: tool)
    monkeypatch.setattr(
        looking, "watched_standby", lambda cells, room, memory, around: started.append((room.folder, around.argv))
    )
    cells: Any = dataclasses.replace(scene.cells, gpu=gpu, standby={True: SimpleNamespace()} if standby else {})
    looking.profiler_ahead(cells, kernels, 2**30)
    assert bool(started) is begins
    if begins:
        ((folder, argv),) = started
        assert argv[argv.index("--log-file") + 1] == str(folder / "answer" / ncu.LOG)


def test_one_that_cannot_be_started_is_no_news(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(ncu, "find_tool", lambda: TOOL)
    monkeypatch.setattr(looking, "watched_standby", full)
    cells: Any = dataclasses.replace(scene.cells, standby={True: SimpleNamespace()})
    assert looking.profiler_ahead(cells, ["_k"], 2**30) is None


def looking_subject() -> Any:
    from bot.worker.contract import Subject

    return Subject("/source", "ops.k", "ops/k.py", ())


SAID = Dispatched("k_loss", "nvidia-cutedsl", "nvidia-triton")


def dispatching(scene: Scene, *ops: str) -> Scene:
    return dataclasses.replace(scene, site=scene.site.model_copy(update={"dispatches": ops}))


def test_the_library_is_asked_once_what_it_would_run_by_itself(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[LookRequest] = []
    answer = LookAnswer((seen("forward-10"),), dispatched=(SAID,))
    monkeypatch.setattr(looking, "run_cell", lambda cells, where, request, *_: asked.append(request) or answer)
    found = looking.look(dispatching(scene, "k_loss"), [])
    assert found.dispatch == (Dispatch(op="k_loss", by_itself="nvidia-cutedsl", judged="nvidia-triton"),)
    assert [request.dispatches for request in asked] == [("k_loss",)]
    where = looking._places(scene, "counters")
    assert looking._request(dispatching(scene, "k_loss"), where, (), "counters").dispatches == ()


def test_what_it_says_is_heard_though_its_timelines_cannot_be(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = LookAnswer((seen("forward-10", wall_us=float("nan")),), dispatched=(SAID,))
    monkeypatch.setattr(looking, "run_cell", lambda *_: answer)
    timelines, dispatch = looking.timelines(dispatching(scene, "k_loss"))
    assert timelines == () and [one.by_itself for one in dispatch] == ["nvidia-cutedsl"]


@pytest.mark.parametrize("words", ["@everyone", "61" * 31, "", "a b"])
def test_a_worker_that_says_anything_but_names_is_not_heard(
    words: str, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ran the library's code, and may answer what it likes."""
    lie = dataclasses.replace(SAID, by_itself=words)
    monkeypatch.setattr(looking, "run_cell", lambda *_: LookAnswer((), dispatched=(lie,)))
    assert looking.timelines(dispatching(scene, "k_loss")) == ((), ())


def test_nor_is_what_it_says_of_an_op_that_nobody_asked_of(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    many = (dataclasses.replace(SAID, op="another"), *((SAID,) * 100))
    monkeypatch.setattr(looking, "run_cell", lambda *_: LookAnswer((), dispatched=many))
    _, dispatch = looking.timelines(dispatching(scene, "k_loss", "k_loss"))
    assert [one.op for one in dispatch] == ["k_loss"]


def test_both_directions_are_profiled_in_one_process_and_named(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    found, profiler = told(scene, monkeypatch, (RAW, ""))
    assert (found.status, len(found.kernels), found.detail) == ("read", 2, "2 launches, clocks as they were")
    assert profiler.cases == [["forward-30", "backward-20"]]
    monkeypatch.setattr(looking, "timelines", lambda scene: ((), ()))
    monkeypatch.setattr(looking, "counters", lambda scene, kernels, ready: found)
    assert looking.look(scene, ["_k"]).asked == ("forward-30", "backward-20")


def test_a_profiler_without_some_counter_is_asked_once_more_without_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacks = ("", "==ERROR== Failed to find metric lts__t_bytes.sum\n")
    found, profiler = told(scene, monkeypatch, lacks, (RAW, ""))
    assert found.status == "read"
    assert ["--metrics" in argv for argv in profiler.asked] == [True, False]


def test_without_the_right_to_counters_nothing_more_is_tried(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    found, profiler = told(scene, monkeypatch, ("", DENIED))
    assert (found.status, len(profiler.asked)) == ("no_permission", 1)


def test_what_was_read_before_it_went_wrong_is_kept(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = told(scene, monkeypatch, (RAW, ""), answers=False)
    assert (found.status, len(found.kernels)) == ("read", 2)
    assert "protocol: ended without an answer" in found.detail


def test_a_profiler_that_does_not_end_is_ended_and_not_asked_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, profiler = told(scene, monkeypatch, ("", ""), stopped="it took too long", answers=False)
    assert (found.status, len(profiler.asked)) == ("failed", 1)
    assert found.detail == "Nsight Compute was ended: it took too long, after 1 s"


def test_a_kernel_that_launches_nothing_has_a_plain_answer(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ncu, "find_tool", lambda: TOOL)
    assert looking.counters(scene, []).status == "nothing_launched"


@pytest.mark.parametrize("error", [OSError("disk full"), ValueError("odd"), OperatorError("no cell")])
def test_whatever_breaks_on_the_way_is_told_and_ends_nothing(
    error: Exception, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise error

    monkeypatch.setattr(looking, "timelines", broken)
    found = looking.look(scene, ["_k"])
    assert (found.counters.status, found.timelines) == ("failed", ())
    assert str(error) in found.counters.detail


def test_an_interval_that_two_kernels_share_is_counted_once() -> None:
    from bot.worker.looking import _busy

    assert _busy((("a", 0, 10), ("b", 5, 20), ("c", 30, 40))) == (30, 10)
    assert _busy((("a", 0, 10), ("b", 2, 4))) == (10, 0)
    assert _busy(()) == (0, 0)
