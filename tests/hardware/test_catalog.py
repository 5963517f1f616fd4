"""A GPU is known by exactly its name, or it is not known: the fragment and the similar product are no name."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.commands.options import _GPUS
from bot.errors import UserError
from bot.hardware import catalog
from bot.hardware.catalog import Device
from bot.hardware.numbers import ARCHITECTURE, PRODUCT
from bot.model.commands import GpuChoice
from bot.model.measurement import Evidence, Runner


@pytest.mark.parametrize(
    ("name", "gpu", "bandwidth"),
    [
        ("NVIDIA A100-SXM4-40GB", "NVIDIA A100 SXM 40GB", 1555),
        ("NVIDIA A100-SXM4-80GB", "NVIDIA A100 SXM 80GB", 2039),
        ("NVIDIA A100-PCIE-40GB", "NVIDIA A100 PCIe 40GB", 1555),
        ("NVIDIA A100 80GB PCIe", "NVIDIA A100 PCIe 80GB", 1935),
        ("NVIDIA A10G", "NVIDIA A10G", 600),
        ("NVIDIA L4", "NVIDIA L4", 300),
        ("NVIDIA L40S", "NVIDIA L40S", 864),
        ("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090", 1008),
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 SXM", 3350),
        ("NVIDIA H100 PCIe", "NVIDIA H100 PCIe", 2039),
        ("NVIDIA H100 NVL", "NVIDIA H100 NVL", 3938),
        ("NVIDIA H200", "NVIDIA H200 SXM", 4800),
        ("NVIDIA H200 NVL", "NVIDIA H200 NVL", 4813),
        ("NVIDIA H20", "NVIDIA H20", 4000),
        ("NVIDIA GH200 480GB", "NVIDIA GH200 96GB", 4000),
        ("NVIDIA GH200 144G HBM3e", "NVIDIA GH200 144GB", 4900),
        ("NVIDIA B200", "NVIDIA B200", 8000),
        ("NVIDIA GB200", "NVIDIA GB200, one of its GPUs", 8000),
        ("NVIDIA GeForce RTX 5090", "NVIDIA GeForce RTX 5090", 1792),
        ("AMD Instinct MI300X", "AMD Instinct MI300X", 5300),
        ("AMD Instinct MI325X", "AMD Instinct MI325X", 6000),
        ("AMD Instinct MI350X", "AMD Instinct MI350X", 8000),
        ("AMD Instinct MI355X", "AMD Instinct MI355X", 8000),
    ],
)
def test_a_gpu_is_known_by_the_name_its_driver_gives(name: str, gpu: str, bandwidth: float) -> None:
    sheet = catalog.for_device(Device(name=name))
    assert (sheet.gpu, sheet.note, sheet.number("memory_bandwidth")) == (gpu, "", bandwidth)
    runner = Runner(evidence=Evidence.MEASURED, arch=sheet.arch, gpu_name=name)
    assert catalog.for_runner(runner) == sheet


def test_no_two_products_share_a_driver_s_name() -> None:
    names = [name for sheet in catalog.sheets() for name in sheet.driver_names]
    assert len(names) == len(set(names)) and len({sheet.gpu for sheet in catalog.sheets()}) == len(catalog.PRODUCTS)


@pytest.mark.parametrize(
    "name",
    [
        "H200", "NVIDIA H200 ", "nvidia h200", "NVIDIA H100", "NVIDIA H100 80GB", "NVIDIA H800", "NVIDIA H20-3e",
        "NVIDIA GeForce RTX 4090 D", "NVIDIA GeForce RTX 4090 Laptop GPU", "NVIDIA L40", "NVIDIA A10", "Tesla T4",
        "NVIDIA B300", "AMD Instinct MI300A", "AMD Instinct MI308X", "", "NVIDIA",
    ],
)  # fmt: skip
def test_a_similar_name_is_no_name(name: str) -> None:
    sheet = catalog.for_device(Device(name=name, arch="sm_90"))
    assert sheet.note == "no datasheet is of a GPU with exactly this name"
    assert sheet.gpu == (name or "unnamed GPU")
    assert not any(sheet.quantity(number) for number in PRODUCT), "no product's numbers"
    assert sheet.number("warps") == 64, "what every sm_90 has was looked up by its compute capability"
    assert sum("UNKNOWN (not in the registry)" in line for line in catalog.cited(sheet)) == len(PRODUCT)


def test_an_architecture_nobody_described_has_no_limits_either() -> None:
    sheet = catalog.for_device(Device(name="Tesla T4", arch="sm_75"))
    assert sheet.family == "unknown"
    assert not any(sheet.quantity(number) for number in PRODUCT | ARCHITECTURE)


@pytest.mark.parametrize(
    ("device", "said"),
    [
        (Device(name="NVIDIA A100 80GB PCIe MIG 1g.10gb", arch="sm_80"), "a MIG slice of an NVIDIA A100 80GB PCIe"),
        (Device(name="NVIDIA H200 MIG", arch="sm_90"), "a MIG slice of an NVIDIA H200"),
        (Device(name="NVIDIA H200", multiprocessors=114), "it shows 114 multiprocessors, and NVIDIA H200 SXM has 132"),
        (Device(name="NVIDIA GeForce RTX 4090", memory_mib=49140), "it shows 48.0 GiB of memory"),
        (Device(name="NVIDIA H200", arch="sm_80"), "compiled for sm_80, and NVIDIA H200 SXM is sm_90"),
    ],
)
def test_a_slice_and_a_namesake_do_not_pass_for_the_product(device: Device, said: str) -> None:
    sheet = catalog.for_device(device)
    assert said in sheet.note
    assert sheet.bytes_per_us is None and sheet.number("multiprocessors") is None


@pytest.mark.parametrize(
    ("name", "arch", "mib", "count"),
    [
        ("NVIDIA H200", "sm_90a", 143771, 132),
        ("NVIDIA H100 NVL", "sm_90", 95830, 132),
        ("NVIDIA L4", "sm_89", 22518, 58),
        ("NVIDIA L4", "sm_89", 23034, 0),
        ("NVIDIA H20", "sm_90", 97285, 78),
        ("NVIDIA B200", "sm_100", 183359, 148),
        ("NVIDIA GH200 480GB", "sm_90", 97871, 0),
        ("NVIDIA GeForce RTX 4090", "sm_89", 24564, 128),
        ("AMD Instinct MI300X", "gfx942:sramecc+:xnack-", 196592, 304),
    ],
)
def test_what_real_machines_show_is_the_product(name: str, arch: str, mib: int, count: int) -> None:
    assert catalog.for_device(Device(name=name, arch=arch, memory_mib=mib, multiprocessors=count)).note == ""


def test_the_memory_of_a_runner_is_looked_at() -> None:
    runner = Runner(evidence=Evidence.MEASURED, arch="sm_90", gpu_name="NVIDIA H200", gpu_memory_mib=143771)
    assert catalog.for_runner(runner).gpu == "NVIDIA H200 SXM"
    assert catalog.for_runner(runner.model_copy(update={"gpu_memory_mib": 98304})).bytes_per_us is None


def test_two_kinds_of_gpu_are_told_and_one_kind_is_not() -> None:
    h100, l4 = Device(name="NVIDIA H100 PCIe"), Device(name="NVIDIA L4")
    assert catalog.mixed([]) == catalog.mixed([l4]) == catalog.mixed([l4, l4]) == ""
    said = catalog.mixed([h100, l4, l4])
    assert said.startswith("there are 2 kinds of GPU here (NVIDIA H100 PCIe, NVIDIA L4): everything is measured on the")


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


@pytest.mark.parametrize("arch", catalog.ARCHITECTURES)
def test_what_was_only_compiled_is_modelled_on_the_product_of_its_architecture(arch: str) -> None:
    runner = Runner(evidence=Evidence.STATIC, arch=arch, gpu_name="NVIDIA H100 80GB HBM3")
    sheet = catalog.for_runner(runner)
    assert sheet.arch == arch and sheet == catalog.for_arch(arch)
    assert catalog.for_arch(f"{arch}a" if arch.startswith("sm_") else f"{arch}:xnack-") == sheet, "a compiler's name"


def test_an_architecture_without_a_sheet_is_refused_with_those_that_have_one() -> None:
    with pytest.raises(UserError, match="sm_75") as caught:
        catalog.for_arch("sm_75")
    assert caught.value.hint.endswith("sm_80, sm_86, sm_89, sm_90, sm_100, sm_120, gfx942, gfx950")


@pytest.mark.parametrize(
    ("word", "gpu"),
    [
        ("H200", "NVIDIA H200 SXM"),
        ("h200-nvl", "NVIDIA H200 NVL"),
        ("a100 sxm 80GB", "NVIDIA A100 SXM 80GB"),
        ("NVIDIA A100 80GB PCIe", "NVIDIA A100 PCIe 80GB"),
        ("RTX_4090", "NVIDIA GeForce RTX 4090"),
        ("AMD Instinct MI300X", "AMD Instinct MI300X"),
        (" b200 ", "NVIDIA B200"),
    ],
)
def test_people_may_say_a_short_name(word: str, gpu: str) -> None:
    assert catalog.for_word(word).gpu == gpu


@pytest.mark.parametrize(
    ("word", "choices"),
    [
        ("a100", "a100 sxm 80gb, a100 sxm 40gb, a100 pcie 80gb, a100 pcie 40gb"),
        ("A100-80GB", "a100 sxm 80gb, a100 pcie 80gb"),
        ("H100", "h100 sxm, h100 pcie, h100 nvl"),
        ("gh200", "gh200 96gb, gh200 144gb"),
    ],
)
def test_a_word_of_several_products_is_asked_back_and_each_choice_is_one_product(word: str, choices: str) -> None:
    with pytest.raises(UserError, match="is the name of") as caught:
        catalog.for_word(word)
    assert caught.value.hint == f"say which one: {choices}"
    assert len({catalog.for_word(choice).gpu for choice in choices.split(", ")}) == len(choices.split(", "))


@pytest.mark.parametrize(
    ("word", "hint"), [("h300", "did you mean h200"), ("gpu", "products with a datasheet"), ("", "")]
)
def test_a_word_of_no_product_is_answered_with_what_there_is(word: str, hint: str) -> None:
    with pytest.raises(UserError, match="no datasheet for") as caught:
        catalog.for_word(word)
    assert hint in caught.value.hint


@pytest.mark.parametrize("sheet", catalog.sheets(), ids=lambda sheet: sheet.gpu)
def test_every_product_can_be_named_by_a_word_that_no_other_has(sheet: catalog.Datasheet) -> None:
    for word in catalog.own_words(sheet):
        assert catalog.for_word(word) == sheet, word


def test_a_command_s_synonym_that_is_a_product_means_that_product_s_family() -> None:
    for word, choice in _GPUS.items():
        products = [sheet for sheet in catalog.sheets() if word in sheet.words]
        assert {catalog.for_arch(sheet.arch).family for sheet in products} <= {choice}, word


def test_one_gigabyte_a_second_is_a_thousand_bytes_a_microsecond() -> None:
    assert catalog.for_arch("sm_90").bytes_per_us == 4_800_000


def row(sheet: catalog.Datasheet) -> str:
    shown = ("memory_bandwidth", "memory", "multiprocessors", "l2", "fp32", "bf16")
    numbers = [sheet.number(name) for name in shown]
    names = ", ".join(f"`{name}`" for name in sheet.driver_names)
    words = ", ".join(word for word in catalog.own_words(sheet) if word in sheet.words)
    cells = [sheet.gpu, names, words, *("UNKNOWN" if one is None else f"{one:.10g}" for one in numbers)]
    return f"| {' | '.join(cells)} |"


def test_the_table_people_read_is_the_registry() -> None:
    page = (Path(__file__).parents[2] / "docs/hardware.md").read_text(encoding="utf-8")
    assert [line for line in page.splitlines() if line.startswith(("| NVIDIA", "| AMD"))] == [
        row(sheet) for sheet in catalog.sheets()
    ]
    for arch, gpu in catalog.STANDS_FOR.items():
        assert f"{gpu} for {arch}" in page


def test_the_list_of_what_is_unknown_is_the_registry() -> None:
    page = (Path(__file__).parents[2] / "docs/hardware.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| `")]
    listed = sorted(
        (name.strip("`"), whose) for names, of, _ in rows for name in names.split(", ") for whose in of.split("; ")
    )
    unknown = {(name, sheet.gpu) for sheet in catalog.sheets() for name in PRODUCT if sheet.number(name) is None}
    unknown |= {(name, arch) for arch in catalog.ARCHITECTURES for name in ARCHITECTURE
                if catalog.for_arch(arch).number(name) is None}  # fmt: skip
    assert listed == sorted(unknown)
