"""A knowledge base beside the registry: read by its index, cited by page and line, and never taken at its hedge."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click import Command
from click.testing import CliRunner

from bot.cli import analysing
from bot.cli.judge_suite import sample
from bot.cli.profile import profile
from bot.cli.roofline import roofline
from bot.cli.wiki import informed, learned_of, open_wiki
from bot.hardware import catalog
from bot.hardware.catalog import Datasheet, Device
from bot.hardware.datasheet import completed
from bot.hardware.wiki import Doubt, Fact, NoWiki, Wiki, disagreements, learned
from bot.model.measurement import Evidence, Runner
from bot.model.variant import SourceFile
from tests.fakes.bench import FakeBench
from tests.render.builders import SITE, SUITE

HOPPER = "docs/nvidia/hopper/hardware-specs/hopper.md"
INDEX = "# GPU wiki\n\n| Vendor | Entry |\n|---|---|\n| NVIDIA | [docs](docs/nvidia/README.md) |\n"
BELOW = "# NVIDIA\n\n- Hopper: `hopper/hardware-specs/hopper.md`\n- [the whole guide](https://example.org/guide.md)\n"
PAGE = """# Hopper

**Last updated**: 2026-03-18

## NVIDIA H100 SXM (sm_90, Hopper)

| Parameter | Value |
|---|---|
| Memory Bandwidth | 3.35 TB/s |

## NVIDIA H20 (sm_90, Hopper)

| Precision | Peak TFLOPS | With Sparsity |
|------|-------------|---------|
| **FP16 / BF16 (Tensor Core)** | 148 | 296 |
| **FP8 (Tensor Core)** | ~296 | 592 |

### Memory

| Parameter | Value |
|:--|--:|
| VRAM | 96 GB HBM3 |
| Memory Bandwidth | 4.1 TB/s |
| L2 Cache | 60 MB |
| Peak Clock | fast |

## NVIDIA H800 (sm_90)

| Parameter | Value |
|---|---|
| **Memory Bandwidth** | 3,350 GB/s |
| Streaming Multiprocessors (SMs) | 132 |
| L2 Cache | 50 Mbit |
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for path, text in {"README.md": INDEX, "docs/nvidia/README.md": BELOW, HOPPER: PAGE}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    (tmp_path / "docs/unlisted.md").write_text(PAGE.replace("4.1 TB/s", "9 TB/s"), encoding="utf-8")
    return tmp_path


def opened(folder: Path) -> Wiki:
    found = open_wiki(folder)
    assert isinstance(found, Wiki)
    return found


def facts_of(wiki: Wiki, name: str) -> dict[str, Fact | Doubt]:
    return {fact.name: fact for fact in wiki.find(catalog.for_device(Device(name=name, arch="sm_90")))}


def with_pages(wiki: Wiki, sheet: Datasheet) -> Datasheet:
    return completed(sheet, learned(sheet, wiki.find(sheet), read="2026-11-22"))


def runner_of(name: str) -> Runner:
    return Runner(evidence=Evidence.MEASURED, arch="sm_90", gpu_name=name)


def test_pages_are_those_that_the_indexes_lead_to(folder: Path) -> None:
    assert opened(folder).pages == ("docs/nvidia/README.md", HOPPER)


def test_a_number_is_cited_by_page_and_line(folder: Path) -> None:
    fact = facts_of(opened(folder), "NVIDIA H20")["memory_bandwidth"]
    assert isinstance(fact, Fact) and fact.value == 4100
    path, _, line = fact.citation.says().partition(":L")
    assert path == HOPPER
    assert PAGE.splitlines()[int(line) - 1] == fact.citation.text == "| Memory Bandwidth | 4.1 TB/s |"


def test_only_the_section_of_exactly_this_product_is_read(folder: Path) -> None:
    wiki = opened(folder)
    assert facts_of(wiki, "NVIDIA H100 80GB HBM3").keys() == {"memory_bandwidth"}
    for name in ("NVIDIA H100 PCIe", "NVIDIA H200", "NVIDIA H2", "H800"):
        assert facts_of(wiki, name) == {}, name


def test_a_gpu_that_the_registry_lacks_gets_its_numbers_from_the_pages(folder: Path) -> None:
    sheet = catalog.for_device(Device(name="NVIDIA H800", arch="sm_90"))
    assert sheet.bytes_per_us is None
    after = with_pages(opened(folder), sheet)
    assert (after.number("memory_bandwidth"), after.number("multiprocessors")) == (3350, 132)
    assert after.number("l2") is None, "50 Mbit is no size of a cache that we can read"
    (line,) = (line for line in catalog.cited(after) if "memory bandwidth" in line)
    at = 1 + PAGE.splitlines().index("| **Memory Bandwidth** | 3,350 GB/s |")
    assert line == f"NVIDIA H800 memory bandwidth: 3350 GB/s <- <gpu-wiki>/{HOPPER}:L{at} (read 2026-11-22)"


def test_what_the_registry_knows_stands_and_the_difference_is_told(folder: Path) -> None:
    sheet = catalog.for_word("h20")
    facts = opened(folder).find(sheet)
    after = with_pages(opened(folder), sheet)
    assert after.memory_bandwidth == sheet.memory_bandwidth
    assert (sheet.number("bf16"), after.number("bf16")) == (None, 148)
    told = disagreements(sheet, facts)
    assert [line for line in told if "gives 4100 GB/s as memory bandwidth; 4000 stands: bot/hardware/" in line]


def test_a_hedge_is_no_number_and_sparsity_no_column(folder: Path) -> None:
    facts = facts_of(opened(folder), "NVIDIA H20")
    assert isinstance(facts["fp8"], Doubt) and "'~296' is hedged" in facts["fp8"].why
    assert isinstance(facts["clock"], Doubt) and "'fast' is not a number in MHz" in facts["clock"].why
    assert {facts[name].value for name in ("fp16", "bf16")} == {148.0}  # type: ignore[union-attr]
    told = disagreements(catalog.for_word("h20"), tuple(facts.values()))
    assert sum("hedged" in line or "not a number" in line for line in told) == 2


@pytest.mark.parametrize("word", ["~", "about ", "approx. ", "usually ", "similar to H100: ", "roughly "])
def test_every_word_that_hedges_is_heard(folder: Path, word: str) -> None:
    (folder / HOPPER).write_text(PAGE.replace("4.1 TB/s", f"{word}4.1 TB/s"), encoding="utf-8")
    assert isinstance(facts_of(opened(folder), "NVIDIA H20")["memory_bandwidth"], Doubt)


def test_a_table_with_sparsity_alone_gives_nothing(folder: Path) -> None:
    (folder / HOPPER).write_text(PAGE.replace("| Peak TFLOPS | With", "| FP16 with sparsity | With"), encoding="utf-8")
    doubt = facts_of(opened(folder), "NVIDIA H20")["fp16"]
    assert isinstance(doubt, Doubt) and "no column" in doubt.why


def test_a_citation_holds_until_its_line_says_something_else(folder: Path) -> None:
    wiki = opened(folder)
    citation = facts_of(wiki, "NVIDIA H20")["memory_bandwidth"].citation
    assert wiki.check(citation) == ""
    (folder / HOPPER).write_text(PAGE.replace("4.1 TB/s", "4.0 TB/s"), encoding="utf-8")
    now, then = "'| Memory Bandwidth | 4.0 TB/s |'", "'| Memory Bandwidth | 4.1 TB/s |'"
    assert wiki.check(citation) == f"{citation.says()} says {now}, and {then} was read there"
    (folder / HOPPER).write_text("# Hopper\n", encoding="utf-8")
    assert wiki.check(citation) == f"{citation.says()}: the page has 1 lines"
    assert "not in the index" in wiki.check(citation.model_copy(update={"path": "docs/unlisted.md"}))
    for line in (0, -1):
        assert wiki.check(citation.model_copy(update={"line": line}))


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda folder: folder / "nowhere", "no_folder"),
        (lambda folder: folder / HOPPER, "no_folder"),
        (lambda folder: folder / "docs", "no_index"),
        (lambda folder: (folder / "docs/nvidia/README.md").unlink() or folder, "empty_index"),
    ],
)
def test_where_nothing_can_be_looked_up_it_is_said_what_to_do(folder: Path, spoil: object, reason: str) -> None:
    found = open_wiki(spoil(folder))  # type: ignore[operator]
    assert isinstance(found, NoWiki)
    assert found.reason == reason and found.detail and found.hint


def test_no_index_leads_out_of_the_folder(tmp_path: Path, folder: Path) -> None:
    inside = tmp_path / "wiki"
    inside.mkdir()
    (tmp_path / "secret.md").write_text(PAGE, encoding="utf-8")
    (inside / "linked.md").symlink_to(tmp_path / "secret.md")
    (inside / "README.md").write_text(
        "[up](../secret.md) [abs](/etc/x.md) [link](linked.md) [me](README.md)\n", "utf-8"
    )
    found = open_wiki(inside)
    assert isinstance(found, NoWiki) and found.reason == "empty_index"


def test_what_pages_know_of_the_gpu_is_told_and_learned(folder: Path) -> None:
    heard: list[str] = []
    h20 = runner_of("NVIDIA H20")
    (bf16,) = (one for one in learned_of(h20, folder, heard.append, "2026-11-22") if one.name == "bf16")
    assert (bf16.value, bf16.read) == (148, "2026-11-22")
    assert sum("4000 stands" in line for line in heard) == 1 and sum("hedged" in line for line in heard) == 1
    heard.clear()
    assert learned_of(runner_of("NVIDIA H200"), folder, heard.append, "2026-11-22") == ()
    assert heard == [f"--wiki {folder}: no page has a section of exactly the NVIDIA H200 SXM"]


def test_a_folder_that_is_no_knowledge_base_stops_nothing(folder: Path) -> None:
    heard: list[str] = []
    h20 = runner_of("NVIDIA H20")
    assert learned_of(h20, None, heard.append, "2026-11-22") == () and heard == []
    assert learned_of(h20, folder / "docs", heard.append, "2026-11-22") == ()
    assert len(heard) == 1 and "has no README.md" in heard[0] and "no index leads to" in heard[0]


def test_a_runner_that_learned_has_the_roof_that_its_pages_give(folder: Path) -> None:
    h800 = runner_of("NVIDIA H800")
    assert catalog.for_runner(h800).bytes_per_us is None
    after = h800.model_copy(update={"learned": learned_of(h800, folder, print, "2026-11-22")})
    assert catalog.for_runner(after).bytes_per_us == 3_350_000
    h200 = runner_of("NVIDIA H200").model_copy(update={"learned": after.learned})
    assert catalog.for_runner(h200).number("memory_bandwidth") == 4800, "what the registry knows stands"


def test_each_bench_of_a_command_learns_and_nothing_is_told_twice(folder: Path) -> None:
    page = PAGE.replace("NVIDIA H20 ", "NVIDIA H200 SXM ").replace(
        "FP8 (Tensor Core)** | ~296", "TF32 (Matrix)** | 495"
    )
    (folder / HOPPER).write_text(page, encoding="utf-8")
    heard: list[str] = []
    opener = informed(FakeBench, folder, heard.append)
    first, second = (opener(folder, SITE, SUITE) for _ in range(2))
    assert first.runner.learned == second.runner.learned != ()
    assert heard and len(set(heard)) == len(heard)
    text = SourceFile(path=SITE.files[0], text="def _kernel(): ...\n")
    assert first.measure((text,), passports=False).runner.learned == first.runner.learned
    assert informed(FakeBench, None, heard.append)(folder, SITE, SUITE).runner.learned == ()


@pytest.mark.parametrize("command", [profile, roofline])
def test_the_verbs_that_analyse_read_it(folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    page = PAGE.replace("NVIDIA H20 ", "NVIDIA H200 SXM ").replace(
        "FP8 (Tensor Core)** | ~296", "TF32 (Matrix)** | 495"
    )
    (folder / HOPPER).write_text(page, encoding="utf-8")
    monkeypatch.setattr(analysing, "opener_for", lambda gpu: FakeBench)
    words = ["rms_norm", "--repo", str(sample()), "--evidence", "static", "--json", "--wiki", str(folder)]
    done = CliRunner().invoke(command, words, standalone_mode=False)
    assert (done.exception, done.return_value) == (None, 0)
    assert f"--wiki {folder}: {HOPPER}:L" in done.stderr and "4800 stands" in done.stderr
    if command is profile:
        told = json.loads(done.stdout)["hardware"]
        assert [line for line in told if f"TF32 matrix rate, dense: 495 TFLOPS <- <gpu-wiki>/{HOPPER}:L" in line]
