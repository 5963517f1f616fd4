"""Several sources are recorded by forks of one worker, and each is answered for by itself."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from bot.worker import several
from bot.worker.contract import Call, Exit, Refusal, Subject, parse, render
from bot.worker.contract.gpu import Choice, GpuAnswer, GpuRequest, Recording
from bot.worker.contract.several import RecordRequest, place_of
from bot.worker.several import carry_out, share_of

PIN = Choice("m.k", "key", "among", (("BLOCK", 64),), 4, 2)


@pytest.fixture(autouse=True)
def nothing_to_warm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(several, "warm", lambda: None)


def request(count: int = 3, *, at_once: int = 2, seconds: float = 20.0, within: float = 40.0) -> RecordRequest:
    subjects = tuple(Subject(f"/cell/source/{number}", "pkg.ops.double", "double.py", ()) for number in range(count))
    cases = tuple(Call(name, name, "forward", (), ()) for name in ("small", "large"))
    wanted = tuple(("small",) if number % 2 else ("small", "large") for number in range(count))
    fills = (("x", "normal"),)
    return RecordRequest("record", subjects, cases, wanted, fills, (PIN,), at_once, seconds, within)


def number_of(share: GpuRequest) -> int:
    return int(Path(share.subject.root).name)


def honest(share: GpuRequest, place: Path) -> tuple[GpuAnswer, int]:
    """Says who did it, and in which process."""
    (place / f"tape-{number_of(share)}-{os.getpid()}").mkdir()
    return GpuAnswer(
        (), tuple(Recording(case.case, share.subject.root, "", 0, (), ()) for case in share.cases)
    ), Exit.OK


def test_each_is_asked_about_its_own_source_and_cases_briefly() -> None:
    share = share_of(request(), 1)
    assert (share.subject.root, [case.case for case in share.cases]) == ("/cell/source/1", ["small"])
    assert share.brief and share.recorders == 0 and share.checks == (), "nobody is told what it imported"
    assert (share.pins, share.fills) == ((PIN,), (("x", "normal"),)), "what tunes itself is not tuned anew"


def test_each_has_a_process_and_a_folder_of_its_own(tmp_path: Path) -> None:
    answer = carry_out(request(), honest, tmp_path)
    assert [[told.case for told in one.recordings] for one in answer.answers] == [
        ["small", "large"],
        ["small"],
        ["small", "large"],
    ]
    left = [next((tmp_path / place_of(number)).glob("tape-*")).name for number in range(3)]
    assert [name.split("-")[1] for name in left] == ["0", "1", "2"]
    assert len({name.split("-")[2] for name in left} | {str(os.getpid())}) == 4
    assert parse(type(answer), render(answer).encode()) == answer


def test_no_more_work_side_by_side_than_was_said(tmp_path: Path) -> None:
    def slowly(share: GpuRequest, place: Path) -> tuple[GpuAnswer, int]:
        (tmp_path / f"begun-{number_of(share)}").touch()
        time.sleep(0.1)
        working = len(list(tmp_path.glob("begun-*"))) - len(list(tmp_path.glob("done-*")))
        (tmp_path / f"saw-{number_of(share)}").write_text(str(working))
        (tmp_path / f"done-{number_of(share)}").touch()
        return GpuAnswer((), ()), Exit.OK

    carry_out(request(6, at_once=2), slowly, tmp_path)
    saw = [int(path.read_text()) for path in tmp_path.glob("saw-*")]
    assert len(saw) == 6 and max(saw) == 2


def test_who_crashes_hangs_or_is_refused_is_nobody_elses_news(tmp_path: Path) -> None:
    def each(share: GpuRequest, place: Path) -> tuple[GpuAnswer, int]:
        match number_of(share):
            case 0:
                os.kill(os.getpid(), signal.SIGVTALRM)
            case 1:
                time.sleep(60)
            case 2:
                return GpuAnswer((), (), Refusal("import_failed", "no such name")), Exit.IMPORT_FAILED
            case 3:
                return GpuAnswer((), ()), Exit.NOT_THE_VARIANT
            case 4:
                os._exit(0)
        return honest(share, place)

    answers = carry_out(request(6, at_once=6, seconds=4.0), each, tmp_path).answers
    refused = [(one.refusal.kind, one.refusal.detail) if one.refusal else None for one in answers]
    assert refused == [
        ("crashed", f"ended with {-signal.SIGVTALRM} and said nothing"),
        ("run_timeout", "was not recorded in its time, or took too much memory"),
        ("import_failed", "no such name"),
        ("crashed", f"ended with {int(Exit.NOT_THE_VARIANT)}"),
        ("crashed", "ended with 0 and said nothing"),
        None,
    ]
    assert answers[5].recordings


def test_who_is_late_says_nothing_whatever_it_left(tmp_path: Path) -> None:
    def early(share: GpuRequest, place: Path) -> tuple[GpuAnswer, int]:
        (place / "answer.json").write_text(render(GpuAnswer((), (Recording("small", "", "", 0, (), ()),))))
        time.sleep(60)
        return GpuAnswer((), ()), Exit.OK

    (answer,) = carry_out(request(1, seconds=0.3), early, tmp_path).answers
    assert answer.refusal is not None and answer.refusal.kind == "run_timeout" and not answer.recordings


def test_who_has_not_begun_when_their_time_is_over_is_not_begun(tmp_path: Path) -> None:
    def each(share: GpuRequest, place: Path) -> tuple[GpuAnswer, int]:
        if number_of(share) == 1:
            time.sleep(60)
        return honest(share, place)

    began = time.monotonic()
    first, second, third = carry_out(request(3, at_once=1, within=2.0), each, tmp_path).answers
    assert time.monotonic() - began < 20
    assert first.recordings and not first.refusal
    assert [one.refusal.kind for one in (second, third) if one.refusal] == ["run_timeout"] * 2
    assert not list((tmp_path / place_of(2)).iterdir())


def test_what_a_late_one_started_ends_with_it(tmp_path: Path) -> None:
    """A compiler, say."""

    def busy(share: GpuRequest, place: Path) -> tuple[GpuAnswer, int]:
        compiler = subprocess.Popen(["sleep", "60"])
        (place / "compiler").write_text(str(compiler.pid))
        time.sleep(60)
        return GpuAnswer((), ()), Exit.OK

    carry_out(request(1, seconds=2.0), busy, tmp_path)
    left = Path("/proc") / (tmp_path / place_of(0) / "compiler").read_text()
    until = time.monotonic() + 10
    while left.exists() and "Z" not in (left / "stat").read_text().split()[2] and time.monotonic() < until:
        time.sleep(0.05)
    assert not left.exists() or "Z" in (left / "stat").read_text().split()[2]


def test_one_that_prints_without_end_or_makes_the_folders_of_others_harms_nobody(tmp_path: Path) -> None:
    def loud(share: GpuRequest, place: Path) -> tuple[GpuAnswer, int]:
        if number_of(share) == 0:
            print("x" * 2**21, flush=True)
            os.write(2, b"x" * 2**21)
            for number in range(4):
                (place.parent / place_of(number)).mkdir(exist_ok=True)
        return honest(share, place)

    answers = carry_out(request(4, at_once=1), loud, tmp_path).answers
    assert [one.refusal for one in answers] == [None] * 4


def test_an_answer_with_a_number_that_is_none_is_that_ones_alone(tmp_path: Path) -> None:
    def strange(share: GpuRequest, place: Path) -> tuple[GpuAnswer, int]:
        if number_of(share) == 0:
            told = render(GpuAnswer((), (), marks=(("asked", 1.0),))).replace("1.0", "1" + "0" * 400)
            (place / "answer.json").write_text(told)
            os._exit(0)
        return honest(share, place)

    first, second = carry_out(request(2), strange, tmp_path).answers
    assert first.refusal is not None and first.refusal.kind == "crashed" and second.refusal is None
