"""The table of winners on the sizes of the library's own benchmark is what the files beside it say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bot.cli.harvested import suite_for, swept
from bot.model.harvested import HarvestedRun
from bot.model.measurement import Paired
from tests.analysis.blocks import reading
from tests.cli.test_cases import GPU, point
from tests.render import builders as a
from tests.render.scripts import RESULTS, script

FOLDER = RESULTS / "harvested"
TABLE = script("harvested")


def run(*, wrong: bool = False) -> HarvestedRun:
    sweep = swept((point(512, 4096), point(4096, 1 << 20, dtype="float32", x="9")), a.SUITE)
    suite = suite_for("rms_norm", sweep)
    found = a.measurement(a.sources(), runner=a.GPU_RUNNER)
    paired = Paired(tier="replay", search=reading(25.0), confirm=(reading(25.0),) * 3)
    first = found.cases[0]
    cases = tuple(first.model_copy(update={"case": case.id, "paired": paired}) for case in suite.cases)
    checks = tuple(row.model_copy(update={"passed": not wrong, "detail": "off"}) for row in found.checks)
    told = found.model_copy(update={"cases": cases, "checks": checks})
    return HarvestedRun(
        campaign="local-rms", kernel="rms_norm", variant=3, source="0" * 64, benchmark="b.py", gpu=GPU,
        sweep=sweep, suite=suite, baseline=found, measurement=told,
    )  # fmt: skip


def test_the_readme_says_what_lies_beside_it() -> None:
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert TABLE.written(readme, TABLE.page(FOLDER)) == readme, "run docs/results/h200/harvested/table.py"


def test_a_line_a_case_and_what_was_left_out(tmp_path: Path) -> None:
    (tmp_path / "rms_norm.json").write_text(run().model_dump_json(), encoding="utf-8")
    lines = TABLE.page(tmp_path).splitlines()
    where = "| rms_norm | local-rms | v3 | fwd 512x4096 bf16 | T 1024 (ours) |"
    assert lines[2] == f"{where} 100.000 | 80.000 | 1.25x | 1.25x to 1.25x |"
    assert lines[-1] == "- rms_norm: T 9 (ours), 4096 x 1048576 float32: its sizes multiply to 16 GiB, more than 1"


def test_what_was_wrong_there_has_no_time(tmp_path: Path) -> None:
    (tmp_path / "rms_norm.json").write_text(run(wrong=True).model_dump_json(), encoding="utf-8")
    assert "| rms_norm | local-rms | v3 | not timed, as a check failed: " in TABLE.page(tmp_path)


def test_a_winner_is_named_by_the_folder_of_its_journal(tmp_path: Path) -> None:
    first = json.loads((RESULTS / "campaigns/cross_entropy-g/journal.jsonl").read_text("utf-8").split("\n")[0])
    campaign = first["fact"]["campaign"]
    went_on = json.loads((RESULTS / "campaigns/cross_entropy-h/journal.jsonl").read_text("utf-8").split("\n")[0])
    assert went_on["fact"]["campaign"] == campaign, "it went on, and the first is where it was"
    (tmp_path / "a.json").write_text(run().model_copy(update={"campaign": campaign}).model_dump_json(), "utf-8")
    link = "[cross_entropy-g](../campaigns/cross_entropy-g/journal.jsonl)"
    assert TABLE.page(tmp_path).splitlines()[2].startswith(f"| rms_norm | {link} | v3 |")


def test_nothing_is_read_of_an_empty_folder(tmp_path: Path) -> None:
    assert TABLE.page(tmp_path) == "Nothing was read yet.\n"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_every_file_is_of_a_journal_that_is_published(path: Path) -> None:
    told = json.loads(path.read_text(encoding="utf-8"))
    journals = [one.read_text(encoding="ascii") for one in (RESULTS / "campaigns").rglob("journal.jsonl")]
    assert any(told["campaign"] in text for text in journals)
