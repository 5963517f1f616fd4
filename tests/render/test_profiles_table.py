"""The tables beside the profiles of an H200: made of what was written down, wrong forecasts included."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bot.model.campaign import Profile
from bot.model.profiling import Counters
from bot.render.profile_text import profile_json
from tests.render.scripts import RESULTS, script
from tests.render.test_profile_page import ALONE, APART, watched

FOLDER = RESULTS / "profiles"


TABLE = script("profiles")


def write(folder: Path, kernel: str, name: str, text: str) -> None:
    (folder / kernel).mkdir(parents=True)
    (folder / kernel / name).write_text(text, encoding="utf-8")


def journal(*facts: dict[str, Any]) -> str:
    return "".join(json.dumps({"seq": n, "fact": fact}) + "\n" for n, fact in enumerate(facts))


def planned(*names: str, at_most: float | None = None) -> dict[str, Any]:
    plan = [{"name": name, "at_most": at_most} for name in names]
    return {"kind": "profiled", "profile": {"diagnosis": {"bottleneck": "memory", "strategies": names, "plan": plan}}}


def variant(number: int, technique: str, parent: int = 0) -> dict[str, Any]:
    return {"kind": "round_opened", "variant": {"number": number, "parent": parent,
                                                "hypothesis": {"technique": technique}}}  # fmt: skip


def judged(number: int, speed: float, decision: str = "accepted", evidence: str = "measured") -> dict[str, Any]:
    return {"kind": "variant_judged", "number": number,
            "verdict": {"decision": decision, "score": {"speed": speed, "evidence": evidence}}}  # fmt: skip


def told(*facts: dict[str, Any]) -> list[list[object]]:
    rows: list[list[object]] = TABLE.of_campaign("rms_norm", list(facts))
    return rows


def test_the_page_of_one_profile_and_two_campaigns(tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    profile: Profile = watched(traffic=(ALONE, APART))
    guessed = profile.diagnosis.model_copy(update={"confidence": "heuristic", "clues": ()})
    silent = watched(counters=Counters(status="failed", version="2025.3", detail="ended"), diagnosis=guessed)
    write(tmp_path / "p", "rms_norm", "profile.json", json.dumps(profile_json(profile)))
    write(tmp_path / "p", "geglu", "profile.json", json.dumps(profile_json(silent)))
    facts = (planned("launch_parameters", "tile_rows", at_most=1.3), variant(1, "launch_parameters"),
             judged(1, 1.2), variant(2, "tile_rows", parent=1), judged(2, 1.8), variant(3, "odd"),
             judged(3, 0.9, "rejected"), variant(4, "tile_rows"))  # fmt: skip
    write(tmp_path / "c", "rms_norm", "journal.jsonl", journal(*facts))
    write(tmp_path / "c", "jsd", "journal.jsonl", journal(planned("tile_rows")))
    golden("records/profiles_table.md", TABLE.page(tmp_path / "p", tmp_path / "c"))


def test_a_gain_is_of_that_change_alone() -> None:
    rows = told(planned("a"), variant(1, "a"), judged(1, 1.2), variant(2, "a", parent=1), judged(2, 1.8))
    assert [row[7] for row in rows] == ["1.200x", "1.500x"]
    assert [row[2] for row in rows] == ["v1", "v2, the winner"]


@pytest.mark.parametrize(
    ("at_most", "gave", "said"),
    [(1.5, 1.5, "holds"), (1.5, 1.501, "**wrong: it gave more**"), (None, 1.5, "says nothing")],
)
def test_a_forecast_is_wrong_beyond_its_limit_and_is_shown(at_most: float | None, gave: float, said: str) -> None:
    (row,) = told(planned("a", at_most=at_most), variant(1, "a"), judged(1, gave))
    assert row[8] == said


def test_what_no_gpu_timed_gave_nothing() -> None:
    (row,) = told(planned("a", at_most=1.1), variant(1, "a"), judged(1, 1.5, evidence="static"))
    assert row[7:9] == ["unknown", "says nothing"]


def test_a_diagnosis_that_came_after_its_variant_is_no_proof() -> None:
    assert told(planned("a"), variant(1, "a"))[0][4] == "0 before 1"
    assert told(variant(1, "a"), planned("a"))[0][4] == "**1 after 0**"


def test_the_readme_says_what_lies_beside_it() -> None:
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    made = TABLE.page(FOLDER, FOLDER.parent / "campaigns")
    assert TABLE.written(readme, made) == readme, "run docs/results/h200/profiles/table.py"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "0.852, with up to 201.3 MB of spilled registers"),
        ({"agrees": False}, "0.852, **more than 10 % apart**, with up to 201.3 MB of spilled registers"),
        ({"ratio": 0.95}, "0.950"),
        ({"level": "dram", "agrees": False}, "0.852, **more than 10 % apart**"),
        ({"ratio": None}, "unknown"),
    ],
)
def test_spilled_registers_stand_beside_what_they_explain(changes: dict[str, Any], said: str) -> None:
    one = {"ratio": 0.852, "level": "l2", "agrees": True, "spilled": 201.3e6, **changes}
    assert TABLE.agreement(one) == said


def test_profiles_from_before_spills_were_counted_are_read_as_they_were() -> None:
    assert TABLE.agreement({"ratio": 0.852, "level": "l2", "agrees": False}) == "0.852, **more than 10 % apart**"


@pytest.mark.parametrize(("again", "said"), [(0.0, "300.0 MB"), (50e6, "350.0 MB"), (None, "unknown")])
def test_what_l2_is_asked_for_stands_beside_what_is_moved_at_least(again: float | None, said: str) -> None:
    one = {"counted_read": 200e6, "counted_written": 100e6, "again": again, "spilled_asked": 0.0}
    assert TABLE.megabytes(TABLE.asked(one)) == said
    assert TABLE.asked({**one, "spilled_asked": None}) is None
    for name in ("again", "spilled_asked"):
        assert TABLE.asked({key: value for key, value in one.items() if key != name}) is None, "an old profile"


def test_spilled_registers_that_are_counted_are_named() -> None:
    one = {"ratio": 0.998, "level": "l2", "agrees": True, "spilled": 201.3e6, "spilled_asked": 100.7e6}
    assert TABLE.agreement(one) == "0.998, 100.7 MB of spilled registers counted"
    assert TABLE.agreement({**one, "level": "dram"}) == "0.998"
    assert TABLE.agreement({**one, "spilled": 0.0, "spilled_asked": 0.0}) == "0.998"
