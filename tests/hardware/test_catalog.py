"""Every number of every datasheet has a unit, a kind and a source; what is missing is said to be missing."""

from __future__ import annotations

from importlib import resources

import pytest

from bot.errors import CorruptRecord, UserError
from bot.hardware import catalog
from bot.model.commands import GpuChoice
from bot.model.measurement import Evidence, Runner

H200 = (resources.files("bot.hardware") / "datasheets" / "h200.toml").read_text(encoding="utf-8")


def line_of(name: str) -> str:
    return next(line for line in H200.splitlines() if line.startswith(f"{name} ="))


def test_every_sheet_in_the_folder_is_in_the_table_and_reads() -> None:
    folder = {entry.name.removesuffix(".toml") for entry in (resources.files("bot.hardware") / "datasheets").iterdir()}
    assert folder == set(catalog.SHEETS)
    assert {sheet.arch for sheet in catalog.sheets()} == {"sm_80", "sm_90", "sm_100", "gfx942"}


@pytest.mark.parametrize("sheet", catalog.sheets(), ids=lambda sheet: sheet.gpu)
def test_each_known_number_names_a_document_and_a_day(sheet: catalog.Datasheet) -> None:
    for name in catalog.UNITS:
        quantity = getattr(sheet, name)
        if quantity is not None:
            assert len(quantity.source) > 20, f"{sheet.gpu} {name}: name the document and where in it"
            assert "2026-11-19" < quantity.read < "2027"
    assert sheet.memory_bandwidth is not None and sheet.multiprocessors is not None


@pytest.mark.parametrize("field", ["source", "unit", "kind", "read"])
def test_a_number_without_any_of_its_labels_is_refused(field: str) -> None:
    line = line_of("memory_bandwidth")
    start = line.index(f"{field} = ")
    end = line.find('", ', start)
    shorter = line[:start] + line[end + 3 :] if end >= 0 else line[: start - 2] + " }"
    with pytest.raises(CorruptRecord, match=f"memory_bandwidth.{field}"):
        catalog.read_sheet(H200.replace(line, shorter), what="a sheet")


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ("NVIDIA H200 Tensor Core GPU datasheet, Technical Specifications, GPU Memory Bandwidth", " ", "source"),
        ("value = 4800", "value = 0", "memory_bandwidth.value"),
        ("value = 4800", "value = nan", "memory_bandwidth.value"),
        ('unit = "GB/s"', 'unit = "MHz"', "expected GB/s"),
        ('unit = "GB/s"', 'unit = "furlongs"', "memory_bandwidth.unit"),
        ('read = "2026-11-20"', 'read = "lately"', "read"),
        ("gpu =", "gpus =", "gpu"),
        ("value = 4800", "value = ", "a sheet"),
    ],
)
def test_a_sheet_that_says_something_else_is_refused(before: str, after: str, complaint: str) -> None:
    assert before in H200
    with pytest.raises(CorruptRecord, match=complaint):
        catalog.read_sheet(H200.replace(before, after, 1), what="a sheet")


def test_a_number_nobody_published_is_unknown_and_said_to_be() -> None:
    sheet = catalog.read_sheet(H200.replace(line_of("clock"), 'clock = "UNKNOWN"'), what="a sheet")
    assert sheet.number("clock") is None
    assert "NVIDIA H200 SXM clock: UNKNOWN" in catalog.cited(sheet)


def test_a_missing_line_is_not_a_way_to_say_unknown() -> None:
    with pytest.raises(CorruptRecord, match="clock"):
        catalog.read_sheet(H200.replace(line_of("clock"), ""), what="a sheet")


def test_a_record_can_cite_every_number() -> None:
    cited = catalog.cited(catalog.for_arch("sm_90"))
    assert len(cited) == len(catalog.UNITS)
    assert cited[0].startswith("NVIDIA H200 SXM memory bandwidth: 4800 GB/s <- NVIDIA H200 Tensor Core GPU datasheet")


@pytest.mark.parametrize(
    ("choice", "gpu"),
    [
        (GpuChoice.AUTO, "NVIDIA H200 SXM"),
        (GpuChoice.HOPPER, "NVIDIA H200 SXM"),
        (GpuChoice.AMPERE, "NVIDIA A100 SXM 80GB"),
        (GpuChoice.BLACKWELL, "NVIDIA B200"),
        (GpuChoice.CDNA3, "AMD Instinct MI300X"),
    ],
)
def test_each_choice_has_a_gpu_and_its_architecture_leads_back_to_it(choice: GpuChoice, gpu: str) -> None:
    sheet = catalog.for_choice(choice)
    assert sheet.gpu == gpu
    assert catalog.for_arch(sheet.arch) == sheet


def test_a_compiler_s_name_of_an_architecture_is_understood() -> None:
    assert catalog.for_arch("sm_90a") == catalog.for_arch("sm_90")


def test_an_architecture_without_a_sheet_is_refused_with_those_that_have_one() -> None:
    with pytest.raises(UserError, match="sm_75") as caught:
        catalog.for_arch("sm_75")
    assert "sm_80, sm_90, sm_100, gfx942" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "gpu"),
    [
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 SXM"),
        ("NVIDIA H200", "NVIDIA H200 SXM"),
        ("NVIDIA A100-SXM4-80GB", "NVIDIA A100 SXM 80GB"),
        ("AMD Instinct MI300X", "AMD Instinct MI300X"),
    ],
)
def test_a_gpu_that_was_timed_is_known_by_its_name(name: str, gpu: str) -> None:
    arch = next(sheet.arch for sheet in catalog.sheets() if sheet.gpu == gpu)
    assert catalog.for_runner(Runner(evidence=Evidence.MEASURED, arch=arch, gpu_name=name)).gpu == gpu


def test_a_gpu_without_a_sheet_has_no_roof_rather_than_a_similar_one() -> None:
    sheet = catalog.for_runner(Runner(evidence=Evidence.MEASURED, arch="sm_90", gpu_name="NVIDIA H20"))
    assert sheet.gpu == "NVIDIA H20"
    assert sheet.bytes_per_us is None
    assert all(line.endswith("UNKNOWN") for line in catalog.cited(sheet))


def test_what_was_only_compiled_is_modelled_as_the_default_of_its_architecture() -> None:
    runner = Runner(evidence=Evidence.STATIC, arch="sm_90", gpu_name="NVIDIA H100 80GB HBM3")
    assert catalog.for_runner(runner).gpu == "NVIDIA H200 SXM"


def test_one_gigabyte_a_second_is_a_thousand_bytes_a_microsecond() -> None:
    assert catalog.for_arch("sm_90").bytes_per_us == 4_800_000
