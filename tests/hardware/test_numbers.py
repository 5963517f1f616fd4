"""A number without its labels is not loaded: a file that lacks one, lies about one or hides one is refused in words."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

from bot.errors import CorruptRecord
from bot.hardware import catalog
from bot.hardware.datasheet import Datasheet, cited, read_architecture, read_sheet, registered
from bot.hardware.numbers import ARCHITECTURE, FOLDER, METRICS, PRODUCT, read_documents
from bot.model.hardware import HardwareNumber

FILES = resources.files("bot.hardware") / "datasheets"
WHAT = "products/h200-sxm.toml"
H200 = (FILES / WHAT).read_text(encoding="utf-8")


def line_of(name: str) -> str:
    return next(line for line in H200.splitlines() if line.startswith(f"{name} = "))


def read(text: str) -> Datasheet:
    return read_sheet(text, catalog.architectures(), catalog.documents(), what=WHAT)


def test_the_tables_are_the_files() -> None:
    for folder, names in (("products", catalog.PRODUCTS), ("architectures", catalog.ARCHITECTURES)):
        assert {entry.name.removesuffix(".toml") for entry in (FILES / folder).iterdir()} == set(names)
        assert len(names) == len(set(names))


def test_no_shipped_number_lacks_its_source() -> None:
    assert catalog.faults() == ()


def test_a_doctor_hears_of_every_fault_and_not_of_the_first_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = catalog._text
    broken = H200.replace('source = "nvidia-h200-datasheet", ', "").replace(line_of("l2"), "")
    monkeypatch.setattr(catalog, "_text", lambda path: broken if path == WHAT else shipped(path))
    said = catalog.faults()
    assert [fault for fault in said if "source: Field required" in fault]
    assert f"{WHAT}: l2 is missing: write UNKNOWN where nobody published it" in said
    monkeypatch.setattr(catalog, "_text", lambda path: "x = " if path.startswith("products") else shipped(path))
    assert len(catalog.faults()) == len(catalog.PRODUCTS)


@pytest.mark.parametrize("sheet", catalog.sheets(), ids=lambda sheet: sheet.gpu)
def test_each_known_number_names_a_line_a_document_and_a_day(sheet: Datasheet) -> None:
    for name in METRICS:
        quantity = sheet.quantity(name)
        if quantity is None:
            continue
        where, document, *section = quantity.source.split(", ")
        path, _, number = where.partition(":L")
        line = Path(path).read_text(encoding="utf-8").splitlines()[int(number) - 1]
        assert line.startswith(f"{name} = {{ value = {quantity.value:.10g},"), f"{quantity.source} holds another number"
        assert document and section, f"{sheet.gpu} {name}: name the document and where in it"
        assert "2026-11-19" < quantity.read < "2027"


def test_every_document_is_cited_and_says_who_speaks() -> None:
    files = "".join((FILES / folder / file.name).read_text() for folder in ("products", "architectures")
                    for file in (FILES / folder).iterdir())  # fmt: skip
    for name, document in catalog.documents().items():
        assert f'source = "{name}"' in files, f"nothing cites {name}"
        assert document.url.startswith("https://") or (document.by == "own" and Path(document.url).is_file())


def test_a_bandwidth_is_its_maker_s_word() -> None:
    by = {document.title: document.by for document in catalog.documents().values()}
    for sheet in catalog.sheets():
        for name in ("memory_bandwidth", *(name for name in PRODUCT if PRODUCT[name].unit == "TFLOPS")):
            quantity = sheet.quantity(name)
            titles = [title for title in by if quantity is not None and f", {title}, " in quantity.source]
            assert quantity is None or {by[title] for title in titles} == {"vendor"}, f"{sheet.gpu} {name}"


def test_what_every_product_of_an_architecture_shares_stands_once() -> None:
    for name in catalog.PRODUCTS:
        assert not any(f"\n{metric} = " in (FILES / f"products/{name}.toml").read_text() for metric in ARCHITECTURE)
    hopper = [sheet for sheet in catalog.sheets() if sheet.arch == "sm_90"]
    assert len({sheet.registers for sheet in hopper}) == 1 and len(hopper) > 4


@pytest.mark.parametrize("field", ["source", "section", "unit", "kind", "read"])
def test_a_number_without_any_of_its_labels_is_refused(field: str) -> None:
    line = line_of("memory_bandwidth")
    start = line.index(f"{field} = ")
    end = line.find('", ', start)
    shorter = line[:start] + line[end + 3 :] if end >= 0 else line[: start - 2] + " }"
    with pytest.raises(CorruptRecord, match=f"memory_bandwidth.{field}"):
        read(H200.replace(line, shorter))


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ('section = "Technical Specifications, H200 SXM, GPU Memory Bandwidth"', 'section = " "', "section"),
        ('source = "nvidia-h200-datasheet"', 'source = "a-forum"', "no document 'a-forum'"),
        ("value = 4800", "value = 0", "memory_bandwidth.value"),
        ("value = 4800", "value = nan", "memory_bandwidth.value"),
        ('unit = "GB/s"', 'unit = "MHz"', "expected GB/s"),
        ('unit = "GB/s"', 'unit = "furlongs"', "memory_bandwidth.unit"),
        ('read = "2026-11-20"', 'read = "lately"', "read"),
        ("gpu =", "gpus =", "gpu"),
        ("value = 4800", "value = ", WHAT),
        ('arch = "sm_90"', 'arch = "sm_75"', "no architectures/sm_75.toml"),
        ("driver_names =", "names =", "driver_names"),
        ("memory_bandwidth = {", "memory_bandwidth= {", "no line of its own"),
    ],
)
def test_a_sheet_that_says_something_else_is_refused(before: str, after: str, complaint: str) -> None:
    assert before in H200
    with pytest.raises(CorruptRecord, match=complaint):
        read(H200.replace(before, after, 1))


@pytest.mark.parametrize("name", ["tf32", "fp16", "bf16", "fp8"])
def test_a_rate_with_sparsity_never_stands_where_a_dense_one_is_promised(name: str) -> None:
    sparse = line_of("bf16_sparse").replace("bf16_sparse", name, 1)
    with pytest.raises(CorruptRecord, match=f"{name} is called sparse, and only dense may stand here"):
        read("\n".join(sparse if line.startswith(f"{name} = ") else line for line in H200.splitlines()))
    assert all(METRICS[one].kinds == ("dense",) for one in (name,))


def test_no_dense_rate_is_as_high_as_the_sparse_one() -> None:
    for sheet in catalog.sheets():
        dense, sparse = sheet.number("bf16"), sheet.number("bf16_sparse")
        assert dense is None or sparse is None or sparse / dense == pytest.approx(2, rel=0.02), sheet.gpu


def test_a_number_nobody_published_is_unknown_and_said_to_be() -> None:
    sheet = read(H200.replace(line_of("clock"), 'clock = "UNKNOWN"'))
    assert sheet.number("clock") is None
    assert "NVIDIA H200 SXM clock: UNKNOWN (not in the registry)" in cited(sheet)


def test_a_missing_line_is_not_a_way_to_say_unknown() -> None:
    with pytest.raises(CorruptRecord, match="clock is missing: write UNKNOWN"):
        read(H200.replace(line_of("clock"), ""))


def test_an_architecture_is_held_to_the_same() -> None:
    text = (FILES / "architectures/sm_90.toml").read_text()
    for before, after, complaint in (("family =", "kin =", "family"), ('source = "', 'source = "x', "no document")):
        with pytest.raises(CorruptRecord, match=complaint):
            read_architecture(text.replace(before, after, 1), catalog.documents(), what="architectures/sm_90.toml")
    with pytest.raises(CorruptRecord, match="cuda: by"):
        read_documents('[cuda]\ntitle = "t"\nurl = "u"\nby = "hearsay"\n', what="documents.toml")


def test_a_record_can_cite_every_number_in_the_form_it_is_looked_up_by() -> None:
    sheet = catalog.for_arch("sm_90")
    assert len(cited(sheet)) == len(registered(sheet)) == len(METRICS)
    at = 1 + H200.splitlines().index(line_of("memory_bandwidth"))
    assert cited(sheet)[0].startswith(
        f"NVIDIA H200 SXM memory bandwidth: 4800 GB/s <- {FOLDER}/products/h200-sxm.toml:L{at}, NVIDIA H200 Tensor Core"
    )
    assert cited(sheet)[0].endswith("GPU Memory Bandwidth (read 2026-11-20)")
    assert "NVIDIA H200 SXM multiprocessors: 132 <- " in cited(sheet)[2]
    assert HardwareNumber(metric="m", value=131072, unit="per SM", source="s").says() == "m: 131072 per SM <- s"
