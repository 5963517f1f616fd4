"""Workers that stand ready: quicker, and otherwise as those that start afresh."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from bot.bench import cell, overlay
from bot.bench.cell import Around, Cells, answered, places, run_cell, watched_standby, with_standby
from bot.bench.choosing import open_measured_bench
from bot.bench.compile_pool import request
from bot.bench.gpu import Gpu
from bot.bench.interpreter import look_at
from bot.bench.launcher import Limits, Running
from bot.bench.sandbox import LIMITS_ONLY, Sandbox, find_sandbox
from bot.bench.standby import ALWAYS, FIRST, Room, Standby, _link
from bot.bench.suitcase import pack
from bot.errors import OperatorError
from bot.model.measurement import Fault
from bot.worker import waiting as worker
from bot.worker import warming
from bot.worker.contract import REQUEST, Argument, Call, CompileAnswer, TensorSpec, render
from bot.worker.contract.door import IMPORTED, TO_COMPILE_FOR, TO_IMPORT
from tests.bench import tiny
from tests.bench.test_cell import FOREVER, LEAVES
from tests.bench.test_ncu import H200
from tests.patience import PATIENCE_S, wait_for

LIMITS = Limits(PATIENCE_S)
CALL = Call(
    "forward-4x100-float32",
    "forward-4x100-float32",
    "forward",
    (Argument("x", TensorSpec("x", "float32", (4, 100), grad=True)),),
    (),
)
WAITS = "import os, sys, time\nwhile not os.path.exists('request/request.json'): time.sleep(0.01)\n"
ANSWERS = WAITS + "open('answer/answer.json', 'w').write(open('source/op.py').read() + open('request/blob').read())\n"


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cells]:
    room = tmp_path_factory.mktemp("room")
    pack("worker", room / "suitcase")
    found = with_standby(Cells(look_at(sys.executable), find_sandbox(), room / "suitcase", room), 6 * 2**30)
    yield found
    for standby in found.standby.values():
        standby.close()


def compiled(cells: Cells, folder: Path, code: str = "", seconds: float = PATIENCE_S) -> CompileAnswer | Fault:
    tree, files = tiny.write_tree(folder / "tree"), tiny.hostile(code)
    source = overlay.lay(tree, tiny.SITE, files, folder / "source")
    (folder / "request").mkdir()
    where = places(cells, f"{folder.name}-cell", source, folder / "request")
    asked = request(overlay.subject(tiny.SITE, files, cells.sandbox.path_of(where.source)), "sm_90", (CALL,))
    return run_cell(cells, where, asked, CompileAnswer, Limits(seconds), {})


def learnt(cells: Cells, folder: Path, *names: str) -> Standby:
    standby = cells.standby[False]
    (folder / IMPORTED).write_text("\n".join(names))
    standby.learn(folder)
    return standby


@pytest.mark.long
def test_one_that_stood_ready_answers_as_one_that_starts_afresh(cells: Cells, tmp_path: Path) -> None:
    afresh = compiled(cells, tmp_path / "afresh")
    assert isinstance(afresh, CompileAnswer) and afresh.cases[0].launches, afresh
    learnt(cells, tmp_path, "torch._dynamo", "json", "no.such.module")
    ready = compiled(cells, tmp_path / "ready")
    assert isinstance(ready, CompileAnswer)
    assert dataclasses.replace(ready, slowest_s=afresh.slowest_s) == afresh, "but for the time it took"


@pytest.mark.long
def test_nobody_waits_for_what_a_variant_left_for_the_end(cells: Cells, tmp_path: Path) -> None:
    """Its answer is there, and what an interpreter does at its end says nothing."""
    lingers = "import atexit, time\natexit.register(time.sleep, 600)\n"
    learnt(cells, tmp_path)
    assert isinstance(compiled(cells, tmp_path / "lingers", lingers), CompileAnswer)


@pytest.mark.long
def test_one_stands_ready_inside_a_program_that_watches_it(cells: Cells, tmp_path: Path) -> None:
    """As a profiler does: it is told to import what all others are, and answers as they do."""
    watched = dataclasses.replace(cells, standby={True: cells.standby[False]})
    words = ("/bin/sh", "-c", f'echo "$KEPT" > {tmp_path}/seen; exec "$@"', "sh")
    ready = watched_standby(watched, Room(tmp_path / "room"), 6 * 2**30, Around(words), {"KEPT": "1"})
    assert set(ALWAYS) <= set((ready.room.request / TO_IMPORT).read_text().split())
    tree = tiny.write_tree(tmp_path / "tree")
    source = overlay.lay(tree, tiny.SITE, tiny.files(), tmp_path / "source")
    (tmp_path / "request").mkdir()
    where = places(cells, f"{tmp_path.name}-watched", source, tmp_path / "request")
    asked = request(overlay.subject(tiny.SITE, tiny.files(), cells.sandbox.path_of(where.source)), "sm_90", (CALL,))
    (where.request.host / REQUEST).write_text(render(asked))
    ended = ready.carry_out(where.source.host, where.request.host, where.answer.host, LIMITS)
    found = answered(where, ended, CompileAnswer, LIMITS)
    assert isinstance(found, CompileAnswer) and found.cases[0].launches, found
    assert (tmp_path / "seen").read_text() == "1\n", "it began with what it was to have in its environment"
    ready.dismiss()


@pytest.mark.parametrize(("code", "kind", "seconds"), [(LEAVES, "protocol", PATIENCE_S), (FOREVER, "run_timeout", 3.0)])
def test_a_variant_is_caught_there_as_anywhere(
    cells: Cells, tmp_path: Path, code: str, kind: str, seconds: float
) -> None:
    learnt(cells, tmp_path)
    found = compiled(cells, tmp_path / "bad", code, seconds)
    assert isinstance(found, Fault) and found.kind == kind
    assert isinstance(compiled(cells, tmp_path / "good"), CompileAnswer)


class Waiting:
    """A pool whose workers are a few lines of Python."""

    def __init__(self, scratch: Path, code: str, most: int = 1, arch: str = "") -> None:
        self.started: list[Room] = []
        self._running: list[Running] = []
        self._code = code
        self.standby = Standby(scratch, self._start, most, arch)
        self.scratch = scratch

    def _start(self, room: Room) -> Running:
        self.started.append(room)
        argv = [sys.executable, "-I", "-S", "-c", self._code]
        self._running.append(Running(argv, environment={}, directory=room.folder))
        return self._running[-1]

    def end(self) -> None:
        """Those too that were taken and given nothing to do."""
        self.standby.close()
        for running in self._running:
            running.kill()

    def learn(self, text: str = "json") -> None:
        (self.scratch / IMPORTED).write_text(text)
        self.standby.learn(self.scratch)

    def modules(self) -> list[str]:
        return (self.started[-1].request / TO_IMPORT).read_text().split()


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[Waiting]:
    found = Waiting(tmp_path, ANSWERS)
    yield found
    found.end()


def folders(scratch: Path) -> tuple[Path, Path, Path]:
    made = scratch / "v-1" / "source", scratch / "v-1" / "request", scratch / "v-1" / "answer"
    for folder in made:
        folder.mkdir(parents=True)
    (made[0] / "op.py").write_text("the op")
    (made[1] / "request.json").write_text("{}")
    (made[1] / "blob").write_text(" and its inputs")
    return made


def test_two_begin_before_anything_is_known_and_the_next_wait_for_the_untouched_kernel(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path, ANSWERS, most=3)
    try:
        assert waiting.standby.take() is None
        waiting.standby.begin()
        assert waiting.modules() == list(ALWAYS)
        assert len(waiting.started) == 2, "one to record it, one to check it"
        assert waiting.standby.take() is not None and waiting.standby.take() is not None
        assert waiting.standby.take() is None
        waiting.learn("sympy")
        assert waiting.modules() == [*ALWAYS, "sympy"]
        assert waiting.standby.take() is not None
    finally:
        waiting.end()


def test_no_more_begin_than_may_wait(waiting: Waiting) -> None:
    waiting.standby.begin()
    assert len(waiting.started) == 1


def test_who_takes_one_leaves_the_next_one_starting_and_finds_the_answer_where_it_belongs(waiting: Waiting) -> None:
    waiting.learn()
    source, asked, answer = folders(waiting.scratch)
    (answer / "a-pipe").write_text("")
    ready = waiting.standby.take()
    assert ready is not None and len(waiting.started) == 2
    assert ready.carry_out(source, asked, answer, LIMITS).code == 0
    assert (answer / "answer.json").read_text() == "the op and its inputs"
    assert (answer / "a-pipe").exists()
    assert not waiting.started[0].folder.exists()
    assert (source / "op.py").read_text() == "the op"


def test_bytecode_beside_a_source_is_handed_on_to_nobody(tmp_path: Path) -> None:
    """Somebody who imports the same source may be writing it: a file that was listed is gone a moment later."""
    kept = tmp_path / "source" / "ops" / "__pycache__"
    kept.mkdir(parents=True)
    (kept / "op.cpython-312.pyc.139664565587040").write_text("half of it")
    (kept.parent / "op.py").write_text("the op")
    _link(tmp_path / "source", tmp_path / "room")
    assert [path.name for path in sorted((tmp_path / "room").rglob("*"))] == ["ops", "op.py"]


def test_only_the_first_word_counts_and_only_names_of_modules(waiting: Waiting) -> None:
    waiting.learn("sympy\n../etc/passwd\ntorch._dynamo\n__import__('os')\n1st")
    assert waiting.modules() == [*ALWAYS, "sympy", "torch._dynamo"]
    waiting.learn("antigravity")
    waiting.standby.take()
    assert "antigravity" not in waiting.modules()


def test_a_kernel_that_told_nothing_gets_what_everybody_needs(waiting: Waiting) -> None:
    waiting.standby.learn(waiting.scratch)
    assert waiting.modules() == list(ALWAYS)


def test_where_one_fell_nobody_waits_any_more(tmp_path: Path) -> None:
    fallen = Waiting(tmp_path, "raise SystemExit(1)")
    fallen.learn()
    wait_for(lambda: not fallen.standby._waiting[0].running.is_alive)
    assert fallen.standby.take() is None
    assert fallen.standby.take() is None
    assert len(fallen.started) == 1


# -- what they are told -----------------------------------------------------------------------------------------------


def test_the_first_ones_are_told_what_v0_seems_to_need_until_it_is_known(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path, WAITS, most=3)
    try:
        waiting.standby.begin(("peft", "transformers.models"))
        first = [(room.request / TO_IMPORT).read_text().split() for room in waiting.started]
        assert first == [[*ALWAYS, "peft", "transformers.models"]] * FIRST
        waiting.learn("sympy")
        assert len(waiting.started) == 3 and waiting.modules() == [*ALWAYS, "sympy"]
    finally:
        waiting.end()


def test_a_guess_that_is_no_name_of_a_module_is_not_told(waiting: Waiting) -> None:
    waiting.standby.begin(("../etc/passwd", "peft", "1st", "a b", "c\nd", ".e", "f."))
    assert waiting.modules() == [*ALWAYS, "peft"]


def test_where_one_fell_over_a_guess_others_stand_ready_once_v0_was_heard(tmp_path: Path) -> None:
    """What only seems to be needed may not even be there, or may not be imported so early."""
    fallen = Waiting(tmp_path, "raise SystemExit(1)")
    try:
        fallen.standby.begin(("peft",))
        wait_for(lambda: not fallen.standby._waiting[0].running.is_alive)
        assert fallen.standby.take() is None
        assert not fallen.started[0].folder.exists()
        fallen.learn()
        assert len(fallen.started) == 2
        wait_for(lambda: not fallen.standby._waiting[0].running.is_alive)
        assert fallen.standby.take() is None and len(fallen.started) == 2, "what v0 had imported is no guess"
    finally:
        fallen.end()


def test_and_so_they_do_where_the_second_fell_over_it_later(tmp_path: Path) -> None:
    fallen = Waiting(tmp_path, "raise SystemExit(1)", most=2)
    try:
        fallen.standby.begin(("peft",))
        wait_for(lambda: not any(ready.running.is_alive for ready in fallen.standby._waiting))
        assert fallen.standby.take() is None
        fallen.learn()
        assert fallen.standby.take() is None, "the one that was told a guess"
        assert len(fallen.started) == 4, "and two since, as v0 was heard"
    finally:
        fallen.end()


def test_where_one_fell_that_was_told_no_guess_nobody_waits_any_more(tmp_path: Path) -> None:
    fallen = Waiting(tmp_path, "raise SystemExit(1)")
    try:
        fallen.standby.begin(())
        wait_for(lambda: not fallen.standby._waiting[0].running.is_alive)
        assert fallen.standby.take() is None
        fallen.learn()
        assert len(fallen.started) == 1
    finally:
        fallen.end()


def test_each_is_told_what_to_compile_for(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path, WAITS, most=3, arch="sm_90")
    try:
        waiting.standby.begin()
        waiting.learn()
        assert [(room.request / TO_COMPILE_FOR).read_text() for room in waiting.started] == ["sm_90"] * 3
    finally:
        waiting.end()


def test_a_room_may_be_told_to_import_and_not_to_compile(tmp_path: Path) -> None:
    waiting, (one, other) = Waiting(tmp_path, WAITS, arch="sm_90"), (Room(tmp_path / name) for name in ("one", "other"))
    try:
        waiting.learn("sympy")
        for room, compiles in ((one, True), (other, False)):
            room.make()
            waiting.standby.tell(room, compiles=compiles)
            assert (room.request / TO_IMPORT).read_text().split() == [*ALWAYS, "sympy"]
        assert [(room.request / TO_COMPILE_FOR).read_text() for room in (one, other)] == ["sm_90", ""]
    finally:
        waiting.end()


@pytest.mark.parametrize(("gpu", "told"), [(H200, {True: "sm_90", False: "sm_90"}), (None, {False: ""})])
def test_all_of_a_bench_compile_for_its_gpu(gpu: Gpu | None, told: dict[bool, str], tmp_path: Path) -> None:
    """The one without it too: it compiles what is launched on it."""
    python = look_at(sys.executable)
    cells = with_standby(Cells(python, Sandbox(LIMITS_ONLY), tmp_path / "suitcase", tmp_path, gpu), 2**30)
    for on_gpu, standby in cells.standby.items():
        room = Room(tmp_path / str(on_gpu))
        room.make()
        standby.tell(room)
        assert (room.request / TO_COMPILE_FOR).read_text() == told[on_gpu]
    assert set(cells.standby) == set(told)


def test_one_that_is_watched_compiles_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork of its own would be watched as well, as long as it lives."""
    monkeypatch.setattr(cell, "Running", lambda argv, environment, directory: None)
    python = look_at(sys.executable)
    cells = with_standby(Cells(python, Sandbox(LIMITS_ONLY), tmp_path / "suitcase", tmp_path, H200), 2**30)
    ready = watched_standby(cells, Room(tmp_path / "watched"), 2**30, Around(("env",)))
    assert (ready.room.request / TO_COMPILE_FOR).read_text() == ""
    assert (ready.room.request / TO_IMPORT).read_text().split() == list(ALWAYS)


@pytest.mark.parametrize(
    ("told", "compiled_for"),
    [("sm_90", [90]), ("sm_100", [100]), ("gfx942", []), ("sm_1", []), ("", []), (None, [])],
)
def test_who_waits_compiles_for_what_it_knows(
    told: str | None, compiled_for: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(warming, "warm_up_for", asked.append)
    if told is not None:
        (tmp_path / TO_COMPILE_FOR).write_text(told)
    worker._warm_up(tmp_path / TO_COMPILE_FOR)
    assert asked == compiled_for


def test_a_kernel_that_does_not_compile_is_no_reason_not_to_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is compiled before the request is waited for, and torch asks for no GPU with the driver meanwhile."""
    happened: list[Any] = []

    def warm_up_for(number: int) -> None:
        happened.append((number, os.environ.get(worker.ASKS_NVML)))
        (tmp_path / REQUEST).write_text("{}")
        raise RuntimeError("no ptxas here")

    monkeypatch.setattr(warming, "warm_up_for", warm_up_for)
    monkeypatch.setattr(worker, "_touched", lambda: happened.append("looked") or False)
    (tmp_path / TO_IMPORT).write_text("json")
    (tmp_path / TO_COMPILE_FOR).write_text("sm_90")
    worker.wait(tmp_path)
    assert happened == [(90, "1"), "looked"]
    assert worker.ASKS_NVML not in os.environ


# -- how they end -----------------------------------------------------------------------------------------------------


def test_one_outlives_the_thread_in_which_it_was_asked_for(tmp_path: Path) -> None:
    """bubblewrap has the kernel end it with the thread that started it."""
    tied = "import ctypes\nctypes.CDLL(None).prctl(1, 9)\nopen('tied', 'w').close()\n" + ANSWERS
    waiting = Waiting(tmp_path, tied)
    asking = Thread(target=waiting.learn)
    asking.start()
    asking.join()
    wait_for(lambda: (waiting.started[0].folder / "tied").exists())
    ready = waiting.standby.take()
    assert ready is not None
    assert ready.carry_out(*folders(tmp_path), LIMITS).code == 0
    waiting.standby.close()


def test_nothing_is_left_of_those_that_were_never_needed(tmp_path: Path) -> None:
    unneeded = Waiting(tmp_path, WAITS, most=2)
    unneeded.learn()
    waited = [ready.running for ready in unneeded.standby._waiting]
    assert len(waited) == 2
    unneeded.standby.close()
    assert not any(running.is_alive for running in waited)
    assert not any(room.folder.exists() for room in unneeded.started)
    assert unneeded.standby.take() is None


def test_one_whose_bench_is_gone_leaves(tmp_path: Path) -> None:
    """It asks who its parent is: one that was killed says no goodbye."""
    room = Room(tmp_path / "room")
    room.make()
    (room.request / TO_IMPORT).write_text("json")
    code = f"""
import os, sys, time
sys.path.insert(0, {str(Path(overlay.__file__).parents[2])!r})
if os.fork() == 0:
    from bot.worker import waiting
    from pathlib import Path
    waiting._touched = lambda: open("waits", "w").close()  # asked last, when it knows its parent
    try:
        waiting.wait(Path("request"))
    except waiting.HasNothingToDo:
        open("left", "w").close()
    os._exit(0)
while not os.path.exists("waits"):
    time.sleep(0.01)
"""
    bench = Running([sys.executable, "-c", code], environment=dict(os.environ), directory=room.folder)
    try:
        wait_for(lambda: (room.folder / "left").exists())
    finally:
        bench.kill()


def test_a_bench_that_cannot_be_opened_leaves_nobody_waiting(tmp_path: Path) -> None:
    tree, site = tiny.write_tree(tmp_path / "tree"), tiny.SITE.model_copy(update={"kernel": "nobody"})
    gpu = Gpu(uuid="GPU-1", name="NVIDIA H200", driver="580", arch="sm_90", memory_mib=143771, nodes=())
    with pytest.raises(OperatorError, match="no recipe for nobody"):
        open_measured_bench(tree, site, tiny.SUITE, "sm_90", sys.executable, tmp_path / "bench", gpu=gpu)
    assert list((tmp_path / "bench").glob("*/*/standby/*")) == []
