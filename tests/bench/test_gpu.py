"""What the driver says of a GPU, and which bench follows from it."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from bot.bench import gpu as gpus
from bot.bench.choosing import EvidenceChoice, gpu_of, open_measured_bench, opener_for
from bot.bench.gpu import Gpu, parse, reserved, visible
from bot.bench.measure import open_static_bench
from bot.bench.measured import MeasuredBench
from bot.errors import OperatorError
from bot.model.measurement import CaseResult, Suite
from bot.model.site import KernelSite
from bot.worker.contract.timing import Roof, RoofRequest

LINE = "GPU-d79bbc67-896f-d1ed-e803-7c2167239199, NVIDIA H200, 580.159.04, 9.0, 143771"
H200 = parse(LINE)


def test_a_line_of_nvidia_smi_names_the_gpu() -> None:
    assert (H200.name, H200.arch, H200.driver, H200.memory_mib) == ("NVIDIA H200", "sm_90", "580.159.04", 143771)
    assert parse(LINE.replace("9.0", "10.0")).arch == "sm_100"


def test_a_gpu_in_slices_does_not_pass_for_the_whole_card() -> None:
    assert parse(f"{LINE}, Enabled").name == "NVIDIA H200 MIG"
    assert {parse(f"{LINE}, {mode}").name for mode in ("Disabled", "[N/A]")} == {"NVIDIA H200"}


OTHER = parse(LINE.replace("d79b", "aaaa"))


@pytest.mark.parametrize(
    ("chosen", "left"),
    [
        (None, (H200, OTHER)),
        ("0", (H200,)),
        ("1", (OTHER,)),
        (" 1, 0", (OTHER, H200)),
        (OTHER.uuid, (OTHER,)),
        ("GPU-aaaa", (OTHER,)),
        ("GPU-", ()),
        ("", ()),
        ("2", ()),
        ("-1", ()),
        ("1,9,0", (OTHER,)),
        ("none", ()),
        ("MIG-0b5c", ()),
    ],
)
def test_the_one_that_was_chosen_is_used_and_never_another(chosen: str | None, left: tuple[Gpu, ...]) -> None:
    assert visible((H200, OTHER), chosen) == left


def test_a_slice_names_the_gpu_that_is_cut() -> None:
    sliced = parse(f"{LINE}, Enabled")
    assert visible((OTHER, sliced), "MIG-0b5c") == (sliced,)


def test_a_choice_that_names_none_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text(f"#!/bin/sh\necho '{LINE}'\n", encoding="utf-8")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert gpus.the_gpu() == H200
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    with pytest.raises(OperatorError, match="CUDA_VISIBLE_DEVICES=7"):
        gpus.the_gpu()


def test_a_worker_sees_this_gpu_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    assert H200.environment == {"CUDA_VISIBLE_DEVICES": H200.uuid}
    monkeypatch.setenv("LD_LIBRARY_PATH", "/usr/local/nvidia/lib64")
    assert H200.environment["LD_LIBRARY_PATH"] == "/usr/local/nvidia/lib64"


def test_without_a_driver_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpus.find_gpus() == ()
    with pytest.raises(OperatorError) as found:
        gpus.the_gpu()
    assert "kernelwright doctor" in found.value.hint


@pytest.mark.parametrize(("said", "free"), [("echo 81000", 81000), ("echo '[N/A]'", 0), ("exit 9", 0)])
def test_free_memory_is_what_the_driver_says_or_none(
    said: str, free: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text(f'#!/bin/sh\n[ "$1 $2" = "-i {H200.uuid}" ] || exit 3\n{said}\n', encoding="utf-8")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert gpus.free_mib(H200) == free


@pytest.mark.parametrize("here", [(), (H200,)])
def test_static_is_static_whatever_is_there(here: tuple[Gpu, ...]) -> None:
    assert gpu_of(EvidenceChoice.STATIC, lambda: here) is None


def test_auto_measures_where_it_can() -> None:
    assert gpu_of(EvidenceChoice.AUTO, lambda: (H200,)) == H200
    assert gpu_of(EvidenceChoice.AUTO, lambda: ()) is None
    assert opener_for(None) is open_static_bench


def test_who_asks_for_measurements_is_told_where_there_are_none() -> None:
    assert gpu_of(EvidenceChoice.MEASURED, lambda: (H200,)) == H200
    with pytest.raises(OperatorError, match="nothing can be measured"):
        gpu_of(EvidenceChoice.MEASURED, lambda: ())


def test_another_gpu_than_the_one_asked_for_measures_nothing(tmp_path: Path) -> None:
    site = KernelSite(
        kernel="rms_norm",
        preset="liger",
        source_root="src",
        module="m",
        files=("src/m.py",),
        test_file="t",
        benchmark_file="b",
        test_command=(),
        style_command=(),
    )
    with pytest.raises(OperatorError, match="sm_100 was asked for, and the GPU here is NVIDIA H200"):
        open_measured_bench(tmp_path, site, Suite(name="quick", cases=(), checks=()), "sm_100", "p", tmp_path, gpu=H200)


def _try(found: Gpu, said: multiprocessing.Queue[str]) -> None:
    try:
        with reserved(found):
            said.put("mine")
    except OperatorError as error:
        said.put(str(error))


def test_two_campaigns_never_share_a_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(gpus.tempfile, "gettempdir", lambda: str(tmp_path))
    said: multiprocessing.Queue[str] = multiprocessing.get_context("fork").Queue()
    with reserved(H200):
        other = multiprocessing.get_context("fork").Process(target=_try, args=(H200, said))
        other.start()
        other.join()
        assert "another campaign is using NVIDIA H200" in said.get()
    _try(H200, said)
    assert said.get() == "mine"


class Copying:
    """A judge that moves as many bytes as it is asked to."""

    def __init__(self, copy_us: float = 2.00049, scale_us: float = 2.5, triad_us: float = 3.0) -> None:
        self.asked: list[tuple[int, int]] = []
        self._took = Roof(copy_us, scale_us, triad_us)

    def ask(self, request: RoofRequest, kind: type[Roof]) -> Roof:
        self.asked.append((request.nbytes, request.lanes))
        assert kind is Roof
        return self._took


@pytest.mark.parametrize(("nbytes", "roof_us", "asked"), [(1, 2.0, [(1, 4)]), (0, None, [])])
def test_a_case_is_held_against_a_copy_of_its_bytes_where_it_has_any(
    nbytes: int, roof_us: float | None, asked: list[tuple[int, int]]
) -> None:
    """A copy of nothing takes two microseconds: no roof for a pass that launches nothing."""
    judge, bench = Copying(), object.__new__(MeasuredBench)
    bench._judge, bench._lanes = judge, {"one": 4}
    assert bench._roof(CaseResult(case="one", minimum_bytes=nbytes)) == roof_us
    assert judge.asked == asked


@pytest.mark.parametrize("took", [(127.0, 140.0, 141.0), (140.0, 127.0, 141.0), (140.0, 141.0, 127.0)])
def test_the_roof_is_the_fastest_of_what_was_moved(took: tuple[float, float, float]) -> None:
    """Two buffers whose rows of memory collide make a copy slower than a kernel that works in place."""
    bench = object.__new__(MeasuredBench)
    bench._judge, bench._lanes = Copying(*took), {"one": 1}
    assert bench._roof(CaseResult(case="one", minimum_bytes=524_288_000)) == 127.0
