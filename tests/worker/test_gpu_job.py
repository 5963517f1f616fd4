"""What a recording hears of pins and tells of choices, without a GPU: the passes are played by a stand-in."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bot.worker import gpu_job
from bot.worker.contract import Call, Subject, clip
from bot.worker.contract.gpu import Choice, GpuRequest, Recording
from bot.worker.taping import CannotReplay
from tests.worker.tapes import tape
from tests.worker.test_tuning import BLOCKS, Worker, launch

CASES = tuple(Call(name, name, "forward", (), ()) for name in ("forward-4x8", "backward-4x8"))


def request(*pins: Choice, brief: bool = False) -> GpuRequest:
    return GpuRequest("gpu", Subject("/cell/source", "pkg.ops.k", "k.py", ()), (), CASES, (), brief=brief, pins=pins)


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pass launches the autotuned kernel that stands for the op."""

    def run(op: Worker, *_: Any) -> int:
        launch(op.kernel)
        return 5

    def three_times(op: Worker, call: Call, *_: Any) -> tuple[Any, Any]:
        launch(op.kernel)
        return tape(case=call.case), SimpleNamespace(kernels=[])

    monkeypatch.setattr(gpu_job, "_peak", run)
    monkeypatch.setattr(gpu_job, "_traced", lambda *_: ())
    monkeypatch.setattr(gpu_job, "_three_times", three_times)
    monkeypatch.setattr(gpu_job, "run_pass", run)
    monkeypatch.setattr(gpu_job, "gpu_inputs", SimpleNamespace(laid=lambda *_: None, drawn=lambda *_: None))


def recorded(op: Worker, asked: GpuRequest, outputs: Path) -> tuple[Recording, ...]:
    outputs.mkdir()
    answer = gpu_job.gpu_job(op, asked, outputs, outputs, {}, [("asked", 1.0)])
    assert answer.refusal is None
    return answer.recordings


@pytest.mark.parametrize("brief", [False, True])
def test_a_worker_tunes_once_for_all_that_it_records_and_every_case_tells(
    passes: None, brief: bool, tmp_path: Path
) -> None:
    op = Worker(fastest=128)
    first, second = recorded(op, request(brief=brief), tmp_path / "out")
    assert first.choices == second.choices
    assert [choice.constants for choice in first.choices] == [(("BLOCK", 128),)]
    assert op.clock.timed == list(BLOCKS)


def test_a_worker_tells_when_it_did_what(passes: None, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    answer = gpu_job.gpu_job(Worker(), request(), tmp_path, tmp_path / "out", {}, [("asked", 1.0)])
    names, times = zip(*answer.marks, strict=True)
    assert names == ("asked", "0 checks", *("compiled and run", "recorded") * 2)
    assert list(times) == sorted(times)


@pytest.mark.parametrize("brief", [False, True])
def test_what_is_allocated_is_counted_also_where_nothing_of_it_is_published(
    passes: None, brief: bool, tmp_path: Path
) -> None:
    told = recorded(Worker(), request(brief=brief), tmp_path / "out")
    assert {recording.peak_bytes for recording in told} == {5}


@pytest.mark.parametrize("brief", [False, True])
def test_what_is_pinned_is_recorded_with_v0_s_choice(passes: None, brief: bool, tmp_path: Path) -> None:
    stock, *_ = recorded(Worker(fastest=128), request(), tmp_path / "v0")
    op = Worker(fastest=256)
    mine, *_ = recorded(op, request(*stock.choices, brief=brief), tmp_path / "v1")
    assert mine.choices == stock.choices
    assert (op.clock.timed, set(op.launcher.blocks)) == ([], {128})


def test_what_cannot_be_replayed_chose_for_nobody(
    passes: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(*_: Any) -> None:
        raise CannotReplay("it sorts")

    monkeypatch.setattr(gpu_job, "_three_times", cannot)
    told, *_ = recorded(Worker(), request(), tmp_path / "out")
    assert (told.why_not, told.choices, told.peak_bytes) == (clip("it sorts"), (), 5)


class Lent:
    """What torch has lent, read again and again: the last figure stays."""

    def __init__(self, *figures: int) -> None:
        self.figures = list(figures)

    def __call__(self, when: str) -> int:
        assert when == "current"
        return self.figures.pop(0) if len(self.figures) > 1 else self.figures[0]


class Passes:
    """What is lent at rest before and after each pass, and the peak that torch reads in it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, lent: tuple[int, ...], peaks: tuple[int, ...]) -> None:
        self.lent, self.peaks = list(lent), list(peaks)
        monkeypatch.setattr(gpu_job, "_at_rest", lambda: self.lent.pop(0))
        monkeypatch.setattr(gpu_job, "_one_peak", lambda *_: self.peaks.pop(0))
        monkeypatch.setattr(gpu_job.gpu_inputs, "drawn", lambda *_: {})


@pytest.mark.parametrize(
    ("lent", "peaks", "found"),
    [
        ((100, 100), (300, 288), 188),
        ((162, 100, 100), (300, 288, 288), 188),
        ((100, 131, 131), (300, 288, 319), 188),
        ((0, 10, 20, 30, 40), (50, 50, 60, 70, 80), 50),
        ((500, 500), (300, 288), 0),
    ],
    ids=["nothing else", "memory of before went", "something stayed", "the op keeps ten a pass", "never below nothing"],
)
def test_a_peak_counts_when_as_much_is_lent_after_it_as_before(
    lent: tuple[int, ...], peaks: tuple[int, ...], found: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """jsd's v0 on an H200 was a tensor of 62 MiB short of every variant, which all were refused for it."""
    passes = Passes(monkeypatch, lent, peaks)
    assert gpu_job._peak(None, CASES[0], {}) == found
    assert not passes.lent and not passes.peaks


@pytest.mark.parametrize("figures", [(100,), (162, 162, 162, 100), (*[162] * gpu_job.STILL, 100)])
def test_nothing_is_at_rest_while_something_is_given_back(
    figures: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_job, "SETTLE_S", 20.0)
    monkeypatch.setattr(gpu_job, "_asked_for", Lent(*figures))
    assert gpu_job._at_rest() == 100


def test_a_recording_says_what_each_kernel_keeps_in_memory_where_it_keeps_most() -> None:
    """In bytes: the driver tells Triton words. Whoever says nothing, or nonsense, keeps nothing."""

    def launched(name: str, **facts: Any) -> Any:
        return SimpleNamespace(src=SimpleNamespace(fn=SimpleNamespace(fn=SimpleNamespace(__name__=name))), **facts)

    some = [launched("_a", n_spills=0), launched("_b", n_spills=6), launched("_b", n_spills=2), launched("_c")]
    taper: Any = SimpleNamespace(kernels=[*some, launched("_d", n_spills="many")])
    assert dict(gpu_job._local_bytes(taper)) == {"_a": 0, "_b": 24, "_c": 0, "_d": 0}
