"""`kernelwright sweep` as a workflow calls it: variables in, one JSON object and step outputs out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from bot.cli.entry import cli
from bot.cli.jobs import read_bundle
from bot.model.reasons import ReasonCode
from bot.settings import VARIABLES
from bot.zones.sweep import SweepReport, write_sweep_outputs
from tests.zones.conversation import KERNEL
from tests.zones.night import Night
from tests.zones.nights import Begin, begin

__all__ = ["begin"]


def call(night: Night, *arguments: str) -> tuple[dict[str, Any], dict[str, str]]:
    """What a step prints, and what it leaves for the jobs after it."""
    settings = night.settings("publish")
    outputs = settings.scratch / "outputs"
    known = settings.model_copy(update={"output_path": outputs})
    environment = {VARIABLES[name]: str(value) for name, value in known if name in VARIABLES and value}
    done = CliRunner().invoke(cli, ("sweep", *arguments), env=environment, standalone_mode=False)
    assert done.exception is None, done.exception
    left = dict(line.split("=", 1) for line in outputs.read_text(encoding="utf-8").splitlines())
    return json.loads(done.stdout), left


def test_a_night_as_the_jobs_of_its_workflow_see_it(begin: Begin) -> None:
    night = begin("allowed")
    report, left = call(night, "plan")
    cells = json.loads(left["matrix"])["include"]
    assert (left["decision"], left["count"]) == ("acted", str(len(cells)))
    assert report["matrix"] == left["matrix"]
    name = next(cell["campaign"] for cell in cells if cell["kernel"] == KERNEL)
    order = night.folder / "order.json"
    report, left = call(night, "start", "--campaign", name, "--order-out", str(order))
    assert (left["campaign"], left["next"], report["order"]["phase"]) == (name, "measure", "profile")
    assert read_bundle(order).order.campaign == name
    report, left = call(night, "dashboard")
    assert left["issue"] == str(report["issue"]) == str(night.issues[0])


def test_outputs_hold_one_line_each(tmp_path: Path) -> None:
    report = SweepReport(
        decision="ignored", reason_code=ReasonCode.DISABLED, detail="two\nlines", lines=("a\nmatrix=forged",)
    )
    write_sweep_outputs(report, tmp_path / "out")
    assert (tmp_path / "out").read_text().splitlines() == [
        "decision=ignored",
        "reason_code=disabled",
        "count=0",
        'matrix={"include":[]}',
        "issue=",
    ]
    write_sweep_outputs(report, None)
