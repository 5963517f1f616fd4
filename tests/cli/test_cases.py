"""`kernelwright cases`: what is scored beside what the library measures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bot.bench.harvest import Harvest, Origin, Point
from bot.cli import cases as module
from bot.cli.cases import cases
from bot.cli.judge_suite import sample
from bot.errors import UserError

GPU = "NVIDIA H100 80GB HBM3"


def point(
    rows: int, cols: int, *differs: str, x: str = "1024", provider: str = "ours", dtype: str = "bfloat16"
) -> Point:
    return Point((("rows", rows), ("cols", cols)), dtype, differs, (Origin("T", "tokens", x, provider, "{}"),))


def asked(*words: str) -> Result:
    return CliRunner().invoke(cases, [*words, "--repo", str(sample())], standalone_mode=False)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Says what the harvest is to be."""

    def be(harvested: Harvest) -> None:
        monkeypatch.setattr(module, "harvest", lambda *_, **__: harvested)

    return be


def test_both_sides_stand_in_one_table(found: Any) -> None:
    found(Harvest(GPU, (point(4096, 4096, "W in float32", x="4096"), point(1024, 4096), point(1024, 4096, "eps 1"))))

    done = asked("rms_norm")

    assert done.return_value == 0
    assert done.output.splitlines() == [
        "rows x cols  type      scored and reported  in the benchmark  handed over otherwise",
        "4096 x 4096  bfloat16  yes                  T 4096 (ours)     W in float32",
        "8192 x 1024  bfloat16  yes                  -",
        "2048 x 8192  bfloat16  yes                  -",
        "8192 x 4096  bfloat16  yes                  -",
        "1024 x 4096  bfloat16  no                   T 1024 (ours)     or eps 1",
        "",
        "benchmark/scripts/benchmark_rms_norm.py would measure 2 of these; 1 of them is scored.",
        f"It ran without a GPU and was told of an {GPU}, as everywhere: memory bounds some of its sizes.",
        "In the benchmark: a value on the script's own axis, and in brackets the script's name for what it times.",
        "Handed over otherwise: what the scored cases do not give the op; after an `or`, what only some calls do.",
        "A report shows what is scored; `kernelwright harvested JOURNAL` times a winner on the others.",
    ]


def test_another_type_is_another_case(found: Any) -> None:
    found(Harvest(GPU, (point(4096, 4096, dtype="float32"),)))

    done = asked("rms_norm")

    assert "4096 x 4096  float32   no" in done.output
    assert "would measure 1 of these; 0 of them are scored." in done.output
    assert "In the benchmark: " in done.output and "Handed over otherwise: " not in done.output


def test_what_bounds_a_sweep_and_what_was_not_read_is_said(found: Any) -> None:
    found(Harvest(GPU, (point(8, 64),), unread=("ours at T 7: no",), unbounded="its memory probe ended with X: y"))

    lines = asked("rms_norm").output.splitlines()

    assert lines[-2:] == [
        "Its sizes go as far as the script allows, whatever the memory: its memory probe ended with X: y.",
        "Not read: ours at T 7: no.",
    ]


def test_an_empty_harvest_says_why_and_leaves_the_scored_sizes(found: Any) -> None:
    found(Harvest(GPU, why_not="it ran, and never called the op", what_next="measure the op"))

    done = asked("rms_norm")

    assert done.return_value == 1
    assert "4096 x 4096  bfloat16  yes" in done.output
    assert done.output.splitlines()[-2:] == [
        "Nothing was harvested of benchmark/scripts/benchmark_rms_norm.py: it ran, and never called the op.",
        "What next: measure the op.",
    ]


def test_a_kernel_that_is_not_here_is_told_its_neighbours() -> None:
    done = asked("rms_nrm")

    assert isinstance(done.exception, UserError)
    assert "rms_norm" in done.exception.hint


def test_the_sample_library_says_what_it_measures() -> None:
    """The script is really run: its sizes are those of its own text, and all of them come to the op."""
    done = asked("cross_entropy", "--json")

    told = json.loads(done.output)
    script = Path(sample(), told["benchmark"]).read_text(encoding="utf-8")
    assert "x_values=[4096, 32000, 128256]" in script
    assert done.return_value == 0
    measured = {case["sizes"]["cols"]: case for case in told["cases"] if case["benchmark"]}
    assert sorted(measured) == [4096, 32000, 128256]
    assert {case["sizes"]["rows"] for case in measured.values()} == {2048}
    assert all(case["scored"] and case["reported"] and case["differs"] == [] for case in measured.values())
    assert measured[4096]["benchmark"] == [
        {
            "x_name": "V",
            "x_label": "vocabulary size",
            "x": "4096",
            "provider": "sample",
            "config": '{"rows": 2048, "dtype": "bfloat16"}',
        }
    ]
    assert (told["why_not"], told["unbounded"], told["unread"]) == ("", "", [])
