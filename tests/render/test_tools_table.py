"""What compute-sanitizer and torch.compile said of the winners that count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.render.scripts import RESULTS, script
from tests.render.test_campaigns_table import facts, journal, told, until

TABLE = script("campaigns")
FOLDER = RESULTS / "campaigns"


def read(*names: str) -> list[Any]:
    return [TABLE.read(FOLDER / name / "journal.jsonl", FOLDER) for name in names]


def rows(found: list[Any], folder: Path = FOLDER) -> list[list[str]]:
    lines = TABLE.tools(found, folder).splitlines()[4:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_a_winner_has_what_each_of_them_said() -> None:
    (row,) = rows(read("attn_res-b"))
    assert row[0] == "[attn_res (attn_res-b)](attn_res-b/journal.jsonl)"
    assert row[1].startswith("clean, memcheck of backward-7x5x17-float32")
    assert row[2] == "right, forward-1x1x1-float32, backward-2x2x2049-float16 as one graph"


def test_who_was_not_asked_is_not_called_clean() -> None:
    assert rows(read("cross_entropy-g"))[0][1:] == ["not asked", "not asked"]


def test_of_a_kernel_the_last_that_came_to_its_end_counts_and_one_without_a_winner_has_no_row(tmp_path: Path) -> None:
    assert [row[0].split("]")[0] for row in rows(read("tvd-d", "tvd-e"))] == ["[tvd (tvd-e)"]
    cut = told(tmp_path, journal(until(facts("tvd-e"), "variant_judged")))
    assert TABLE.tools([cut], tmp_path) == ""
    assert TABLE.tools(read("grpo_loss-b"), FOLDER) == "", "it ended with nothing to do"
