"""Who records a race, and how many at once: several by one worker where to import takes longer than to record."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bot.bench import measured
from bot.bench.checks import Laid
from bot.bench.measured import MeasuredBench
from bot.bench.race import RECORDERS, WORKERS, Course, Entry, Result
from bot.model.variant import SourceFile
from tests.bench import tiny

STOCK: dict[str, Any] = {"forward-10": "as it was recorded"}


def bench(monkeypatch: pytest.MonkeyPatch, *, most: int = RECORDERS, long: bool = False) -> Any:
    """A bench whose recordings say how many are made at once."""
    made: Any = object.__new__(MeasuredBench)
    made.courses = []
    made._takes = SimpleNamespace(
        most_at_once=lambda: most,
        compiles_long=long,
        tunes=False,
        brief=lambda laid, cases, limits, at_once, alone: {"alone": at_once},
        several=lambda laid, cases, limits, at_once: [{"together": at_once}] * len(laid),
    )
    made._base, made._turn, made._deadlines = (
        tiny.files(),
        contextlib.nullcontext(),
        SimpleNamespace(gpu_memory_bytes=1),
    )
    made._stock, made._judge = lambda: STOCK, SimpleNamespace(ask=lambda *_: None)
    made._rivals_ahead = SimpleNamespace(held=contextlib.nullcontext)
    made._lay = lambda files: Laid("alone", files, Path("a"), Path("a/source"))
    made._lay_together = lambda some: [Laid("together", files, Path("t"), Path("t/source")) for files in some]

    def ran(course: Course, entries: Any) -> Result:
        made.courses.append(course)
        return Result()

    monkeypatch.setattr(measured.race, "run", ran)
    return made


def entries(count: int) -> tuple[Entry, ...]:
    return tuple(Entry((SourceFile(path="k.py", text=str(number)),), ("forward-10",)) for number in range(count))


def course_of(made: Any, count: int) -> Course:
    made.race(entries(count))
    found: Course = made.courses[-1]
    return found


def recorded(course: Course, *texts: str) -> list[Any]:
    laid = course.lay([(SourceFile(path="k.py", text=text),) for text in texts])
    return list(course.record(laid, [("forward-10",)] * len(texts)))


def test_v0_is_not_recorded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    course = course_of(bench(monkeypatch), 3)
    laid = course.lay([tiny.files()])
    assert list(course.record(laid, [("forward-10",)])) == [STOCK]


@pytest.mark.parametrize(
    ("most", "workers", "each"), [(35, 8, 2), (16, 8, 2), (15, 7, 2), (12, 6, 2), (9, 4, 2), (3, 1, 3), (1, 1, 1)]
)
def test_as_many_record_at_once_as_there_is_room_for(
    most: int, workers: int, each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    course = course_of(bench(monkeypatch, most=most), 40)
    assert course.workers == workers <= WORKERS and not course.alone
    assert recorded(course, "a", "b") == [{"together": each}] * 2
    assert workers * each <= min(most, RECORDERS)


def test_one_by_itself_has_a_worker_that_may_share_it_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert recorded(course_of(bench(monkeypatch), 6), "a") == [{"alone": 6}]
    assert recorded(course_of(bench(monkeypatch), 40), "a") == [{"alone": RECORDERS}]


def test_whose_kernels_compile_for_long_has_a_worker_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    course = course_of(bench(monkeypatch, long=True), 40)
    assert course.alone and course.workers == RECORDERS


def test_several_are_laid_in_one_folder_and_one_in_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    course = course_of(bench(monkeypatch), 20)
    assert [laid.name for laid in course.lay([tiny.files()])] == ["alone"]
    assert [laid.name for laid in course.lay([tiny.files(), tiny.files("# two\n")])] == ["together"] * 2


def test_what_is_laid_together_has_roots_of_its_own_below_one_folder(tmp_path: Path) -> None:
    made: Any = object.__new__(MeasuredBench)
    made._cells, made._numbers = SimpleNamespace(scratch=tmp_path / "scratch"), iter(range(7, 9))
    made._tree, made._site = tiny.write_tree(tmp_path / "tree"), tiny.SITE
    first, second = made._lay_together([tiny.files("# one\n"), tiny.files("# two\n")])
    assert first.folder == second.folder == tmp_path / "scratch" / "together-7"
    assert [laid.source.relative_to(laid.folder).as_posix() for laid in (first, second)] == ["source/0", "source/1"]
    assert [(laid.source / "tiny/ops/softmax.py").read_text() for laid in (first, second)] == ["# one\n", "# two\n"]
