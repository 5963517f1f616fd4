"""Nsight Compute: what it exports is read, and whatever goes wrong with it has a plain answer."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from bot.analysis.symptoms import COUNTERS, Reading, classified, dominant, symptoms
from bot.bench import ncu
from bot.bench.gpu import Gpu
from bot.bench.ncu_export import Unreadable, number, parse
from bot.bench.nvidia_tool import Tool
from bot.model.diagnosis import Bottleneck

HERE = Path(__file__).parent / "ncu"
RAW, DETAILS, REAL = ((HERE / f"{name}.csv").read_text(encoding="utf-8") for name in ("raw", "details", "h200"))
TOOL = Tool(Path("/opt/ncu"), (2025, 3))
H200 = Gpu(uuid="GPU-1", name="NVIDIA H200", driver="580", arch="sm_90", memory_mib=143771, nodes=())
DENIED = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters\n"
NOTHING = "==WARNING== No kernels were profiled.\nAvailable Kernels:\n1. elementwise_kernel<4, FillFunctor<float>>\n"


def test_the_wide_shape_is_read_with_its_line_of_units() -> None:
    forward, backward = parse(RAW, ncu.WANTED)
    assert (forward.kernel, forward.grid) == ("_rms_norm_forward_kernel", "(8192, 1, 1)")
    assert forward.get("gpu__time_duration.sum") == 35_840
    assert forward.get("dram__bytes_read.sum") == 67_118_080
    assert backward.get("launch__waves_per_multiprocessor") == 0.12


def test_an_export_of_an_h200_is_read_and_says_what_the_kernels_are_like() -> None:
    """The forward streams 4096 x 4096 elements once; the backward, one program a multiprocessor, waits."""
    forward, backward = parse(REAL, ncu.WANTED)
    assert forward.get("dram__bytes_read.sum") == pytest.approx(4096 * 4096 * 2, rel=0.001)
    assert backward.get("dram__bytes_read.sum") == pytest.approx(2 * 4096 * 4096 * 2, rel=0.001)
    assert {name for name, aliases in COUNTERS.items() if Reading(forward).get(name) is None} == {
        "l2_bytes",
        "l2_sectors",
    }
    assert classified(backward) == (Bottleneck.LATENCY, "medium")
    assert dominant((forward, backward)) == (backward, pytest.approx(0.727, abs=0.001))
    seen = {kernel.kernel: [c.evidence[-2] for c in symptoms(kernel)] for kernel in (forward, backward)}
    assert seen == {"_rms_norm_forward_kernel": ["E", "I", "M"], "_rms_norm_backward_kernel": ["E", "M"]}


def test_a_cell_that_is_no_number_is_left_out_and_so_is_what_nobody_asked_for() -> None:
    _, backward = parse(RAW, ncu.WANTED)
    assert backward.get("dram__bytes_write.sum") is None
    assert backward.get("nobody__asked.sum") is None


def test_the_long_shape_is_read_in_base_units_and_its_rules_are_not_counters() -> None:
    (found,) = parse(DETAILS, ncu.WANTED)
    assert found.kernel == "_k"
    assert {(c.name, round(c.value), c.unit) for c in found.counters} == {
        ("gpu__time_duration.sum", 117_344, "ns"),
        ("dram__bytes_read.sum", 27_500_000, "byte"),
    }


@pytest.mark.parametrize(
    ("cell", "value"),
    [("1,234.5", 1234.5), ("65,77", 65.77), ("27.595.520", 27_595_520), ("4096", 4096), ("1,024", 1024),
     ("1.234,5", 1234.5), ("4.0e-05", 4e-05), ("n/a", None), ("", None), ("nan", None), ("inf", None)],
)  # fmt: skip
def test_numbers_are_read_as_machines_write_them(cell: str, value: float | None) -> None:
    assert number(cell) == value


@pytest.mark.parametrize("text", ["", DENIED, NOTHING, '"ID","Kernel Name"\n"0","k"\n', "\x00\xff"])
def test_what_is_no_table_is_refused(text: str) -> None:
    with pytest.raises(Unreadable):
        parse(text, ncu.WANTED)


def test_a_hostile_table_is_capped() -> None:
    head, units, row, *_ = [line for line in RAW.splitlines() if not line.startswith("==")]
    assert len(parse("\n".join([head, units, *[row] * 1000]), ncu.WANTED)) == 256
    with pytest.raises(Unreadable, match="MiB"):
        parse(RAW + "x" * 2**24, ncu.WANTED)


@pytest.mark.parametrize(
    ("tool", "gpu", "sliced", "status"),
    [
        (None, H200, False, "absent"),
        (Tool(Path("/ncu"), (2022, 2)), H200, False, "too_old"),
        (Tool(Path("/ncu"), (2022, 3)), H200, False, None),
        (Tool(Path("/ncu"), (2024, 3)), H200.model_copy(update={"arch": "sm_100"}), False, "too_old"),
        (TOOL, H200, True, "mig"),
        (TOOL, H200, False, None),
    ],
)
def test_what_cannot_be_asked_is_said_before_anything_runs(
    tool: Tool | None, gpu: Gpu, sliced: bool, status: str | None
) -> None:
    found = ncu.unfit(tool, gpu, sliced)
    assert (found.status if found else None) == status
    assert found is None or len(found.detail) > 20


@pytest.mark.parametrize(
    ("told", "status"),
    [
        (DENIED, "no_permission"),
        (DENIED + NOTHING, "no_permission"),
        (NOTHING, "nothing_launched"),
        ("==ERROR== Profiling is not supported on device 0 as MIG is enabled\n", "mig"),
        ("==ERROR== Failed to prepare kernel for profiling\n", "failed"),
        ("", "failed"),
    ],
)
def test_however_it_ends_there_is_an_answer(told: str, status: str, tmp_path: Path) -> None:
    found = ncu.read(tmp_path / "none.csv", told, TOOL)
    assert (found.status, found.version, found.kernels) == (status, "2025.3", ())


def test_what_it_says_may_stand_in_the_file_as_well(tmp_path: Path) -> None:
    (tmp_path / "ncu.csv").write_text(DENIED)
    assert ncu.read(tmp_path / "ncu.csv", "", TOOL).status == "no_permission"


def test_a_table_is_read_whatever_the_program_said(tmp_path: Path) -> None:
    (tmp_path / "ncu.csv").write_text(RAW)
    found = ncu.read(tmp_path / "ncu.csv", "==WARNING== something", TOOL)
    assert (found.status, len(found.kernels)) == ("read", 2)


def test_clocks_stay_and_only_these_kernels_are_profiled() -> None:
    words = ncu.arguments(TOOL, "/cell/answer/ncu.csv", ["_fwd", "_bwd", "x' -o /etc/passwd", "a|b"], by_name=True)
    line = " ".join(words)
    assert "--clock-control none" in line and "--cache-control all" in line and "--profile-from-start off" in line
    assert "--kernel-name regex:^(_bwd|_fwd)$" in line
    (asked,) = (words[i + 1] for i, word in enumerate(words) if word == "--metrics")
    wanted = {"dram__bytes_read.sum", "dram__bytes_write.sum", "lts__t_sectors_srcunit_tex.sum"}
    assert wanted <= set(asked.split(",")) and set(asked.split(",")) <= ncu.WANTED
    assert "passwd" not in line
    assert "--set" not in words, "a full set has what nobody reads, and takes twice as long"
    plain = ncu.arguments(TOOL, "log", ["_k"], by_name=False)
    assert "--metrics" not in plain and "--set full" in " ".join(plain)


def installed(folder: Path, version: str = "2025.3.1.0") -> Path:
    folder.mkdir(parents=True)
    tool = folder / "ncu"
    said = f"NVIDIA (R) Nsight Compute Command Line Profiler\nVersion {version} (build 1)"
    tool.write_text(f"#!/bin/sh\necho '{said}'\n", encoding="utf-8")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    return tool


def test_the_one_on_the_path_is_found_with_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = installed(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    monkeypatch.setattr(ncu, "PLACES", ())
    found = ncu.find_tool()
    assert found is not None and (found.path, found.shown) == (tool, "2025.3")


def test_a_script_that_looks_for_the_program_elsewhere_is_the_last_resort(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CUDA's own `ncu` does, and in a sandbox that shows the script's folder it finds nothing."""
    script, program = installed(tmp_path / "cuda" / "bin", "2024.1.0"), installed(tmp_path / "nsight" / "2025.3.1")
    monkeypatch.setenv("PATH", f"{script.parent}:/usr/bin:/bin")
    monkeypatch.setattr(ncu, "PLACES", (str(tmp_path / "nsight" / "*" / "ncu"),))
    found = ncu.find_tool()
    assert found is not None and (found.path, found.home) == (program, program.parent)
    (script.parent / "target").mkdir()
    found = ncu.find_tool()
    assert found is not None and found.path == script


def test_without_one_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(ncu, "PLACES", (str(tmp_path / "*" / "ncu"),))
    assert ncu.find_tool() is None


@pytest.mark.parametrize(
    ("name", "sliced"), [("NVIDIA H200", False), ("NVIDIA H200 MIG", True), ("NVIDIA MIGHTY", False)]
)
def test_a_sliced_gpu_is_known_by_its_name(name: str, sliced: bool) -> None:
    assert ncu.is_sliced(H200.model_copy(update={"name": name})) is sliced
