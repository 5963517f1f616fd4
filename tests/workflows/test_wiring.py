"""How jobs follow one another. Every file is played, and no zone runs: each says what it was told to say."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.workflows.stage import KERNEL, MIRA, Stage, told

SPEAKER = """#!{python} -ISs
import json, os, pathlib, sys
here = pathlib.Path({folder!r})
zone, campaign = os.environ["KERNELWRIGHT_ZONE"], os.environ["KERNELWRIGHT_CAMPAIGN"]
with (here / "calls.jsonl").open("a") as calls:
    calls.write(json.dumps([zone, campaign, os.environ["KERNELWRIGHT_ENABLED"], dict(os.environ)]) + "\\n")
lines = json.loads((here / "lines.json").read_text())
line = lines[zone]
if line.get("leaves"):
    segment = pathlib.Path(os.environ["KERNELWRIGHT_SEGMENT"])
    segment.mkdir()
    (segment / "segment.jsonl").write_text(line["leaves"])
with open(os.environ["GITHUB_OUTPUT"], "a") as output:
    for name, value in line.get("outputs", {{}}).items():
        output.write(name + "=" + (value if isinstance(value, str) else json.dumps(value)) + "\\n")
sys.exit(line.get("code", 0))
"""
Lines = dict[str, dict[str, Any]]
Says = Callable[[Lines], None]


def says(next_: str, campaign: str = "c1", **more: Any) -> dict[str, Any]:
    result = {"pinned_sha": "PINNED", "order": {"id": f"{campaign}-1-profile"}, "next": next_}
    return {"outputs": {"campaign": campaign, "next": next_, "reason_code": "accepted", "result": result, **more}}


@pytest.fixture(scope="module")
def wired(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("wired")
    python = folder / "python"
    python.write_text(SPEAKER.format(python=sys.executable, folder=str(folder)), encoding="utf-8")
    python.chmod(0o755)
    stage = Stage(folder, python)
    yield stage
    stage.close()


@pytest.fixture
def told_to_say(wired: Stage) -> Says:
    def say(lines: Lines) -> None:
        text = json.dumps(lines).replace("PINNED", wired.head)
        (wired.folder / "lines.json").write_text(text, encoding="utf-8")
        (wired.folder / "calls.jsonl").write_text("", encoding="utf-8")

    return say


def calls(stage: Stage) -> list[tuple[str, str]]:
    lines = (stage.folder / "calls.jsonl").read_text(encoding="utf-8").splitlines()
    return [(zone, campaign) for zone, campaign, _, _ in map(json.loads, lines)]


TAKEN = says("measure", runner='["self-hosted", "gpu"]')
MEASURED = {"leaves": "{}\n"}


def test_an_order_that_is_taken_or_closed_starts_no_gpu_job(wired: Stage, told_to_say: Says) -> None:
    told_to_say({"decide": says("measure"), "take": says("wait", runner='["gpu"]')})
    jobs = wired.says(MIRA, f"/optimize {KERNEL}")
    assert told(jobs) == [("decide", "success"), ("start", "success"), ("take", "success")]


def test_a_gpu_job_that_failed_is_told_by_publish(wired: Stage, told_to_say: Says) -> None:
    """It left nothing, so publish gets a folder that is not there and says so to people."""
    told_to_say({"decide": says("measure"), "take": TAKEN, "measure": {"code": 3}, "publish": says("none")})
    jobs = wired.says(MIRA, f"/optimize {KERNEL}")
    assert told(jobs)[2:] == [("take", "success"), ("measure", "failure"), ("publish", "success")]
    segment = json.loads((wired.folder / "calls.jsonl").read_text().splitlines()[-1])[3]["KERNELWRIGHT_SEGMENT"]
    assert not Path(segment).exists()


def test_a_hosted_job_that_failed_starts_nothing(wired: Stage, told_to_say: Says) -> None:
    told_to_say({"decide": says("measure") | {"code": 5}})
    assert told(wired.says(MIRA, f"/optimize {KERNEL}")) == [("decide", "failure")]
    told_to_say({"decide": says("measure"), "take": TAKEN | {"code": 70}})
    assert told(wired.says(MIRA, f"/optimize {KERNEL}"))[2:] == [("take", "failure")]


def test_a_fourth_order_waits_for_reconcile(wired: Stage, told_to_say: Says) -> None:
    told_to_say({"decide": says("measure"), "take": TAKEN, "measure": MEASURED, "publish": says("measure")})
    jobs = wired.says(MIRA, f"/optimize {KERNEL}")
    assert [ran.job for ran in jobs].count("measure") == 3
    assert jobs[-1].job == "publish"


def test_what_was_approved_is_pushed_without_a_gpu(wired: Stage, told_to_say: Says) -> None:
    told_to_say({"decide": says("push"), "take": says("push", runner='["gpu"]'), "push": says("none")})
    assert calls(wired) == []
    wired.says(MIRA, f"/optimize {KERNEL}")
    assert calls(wired) == [("decide", ""), ("take", "c1"), ("push", "c1")]


def test_a_night_sweeps_cell_after_cell_and_writes_its_dashboard(wired: Stage, told_to_say: Says) -> None:
    cells = [{"campaign": f"sweep-20261122-hopper-{name}", "kernel": name, "pool": "hopper"} for name in ("a", "b")]
    plan = {"outputs": {"count": "2", "matrix": {"include": cells}}}
    told_to_say(
        {
            "sweep-plan": plan,
            "sweep-dashboard": {},
            "take": TAKEN,
            "measure": MEASURED,
            "publish": says("push"),
            "push": says("none"),
        }
    )
    jobs = wired.wakes("17 2 * * *")
    cell = [("take", "success"), ("measure", "success"), ("publish", "success"), ("push", "success")]
    assert told(jobs) == [("plan", "success"), *cell, *cell, ("dashboard", "success")]
    assert [campaign for zone, campaign in calls(wired) if zone == "take"] == [cell["campaign"] for cell in cells]


def test_a_night_with_nothing_to_do_is_short(wired: Stage, told_to_say: Says) -> None:
    plan = {"outputs": {"count": "0", "matrix": {"include": []}}}
    told_to_say({"sweep-plan": plan, "sweep-dashboard": {}})
    assert told(wired.wakes("17 2 * * *")) == [("plan", "success"), ("dashboard", "success")]


def test_reconcile_resumes_each_campaign_that_a_dead_job_left(wired: Stage, told_to_say: Says) -> None:
    found = {"outputs": {"count": "2", "matrix": {"include": [{"campaign": "c1"}, {"campaign": "c9"}]}}}
    told_to_say({"reconcile": found, "take": says("wait", runner='["gpu"]')})
    jobs = wired.wakes("3-59/10 * * * *")
    assert told(jobs) == [("reconcile", "success"), ("take", "success"), ("take", "success")]
    assert calls(wired) == [("reconcile", ""), ("take", "c1"), ("take", "c9")]


def test_a_clock_that_nobody_set_wakes_nobody(wired: Stage, told_to_say: Says) -> None:
    told_to_say({})
    assert wired.wakes("0 0 * * *") == []


def test_every_zone_is_told_whether_it_is_switched_on(wired: Stage, told_to_say: Says) -> None:
    told_to_say({"decide": says("none")})
    wired.says(MIRA, f"/optimize {KERNEL}")
    lines = (wired.folder / "calls.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)[2] for line in lines] == ["true"]


def test_an_environment_is_built_from_nothing(wired: Stage, told_to_say: Says, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOMEBODY_S_SECRET", "x")
    told_to_say({"decide": says("none")})
    wired.says(MIRA, f"/optimize {KERNEL}")
    held = json.loads((wired.folder / "calls.jsonl").read_text().splitlines()[0])[3]
    assert "SOMEBODY_S_SECRET" not in held
    assert [name for name, value in held.items() if KERNEL in value] == [], "no word of the comment is in it"
