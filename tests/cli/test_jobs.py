"""The four zones as a workflow calls them: variables in, one JSON object out, an order for the job after."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bot.cli.entry import cli
from bot.cli.jobs import BUNDLE, MAX_BUNDLE, Bundle, read_bundle, write_bundle
from bot.errors import CorruptRecord, OperatorError, UserError
from bot.model.campaign import Order, Phase, Stage, Zone
from bot.model.reasons import ReasonCode
from bot.settings import VARIABLES, Settings
from bot.zones.report import ZoneReport, write_outputs
from tests.zones import gpu
from tests.zones.conversation import MIRA, Conversation
from tests.zones.places import At

ORDER = Order(id="c7-1-profile", campaign="c7", phase=Phase.PROFILE)
REPORT = ZoneReport(
    zone=Zone.DECIDE,
    decision="acted",
    reason_code=ReasonCode.ACCEPTED,
    campaign="c7",
    stage=Stage.PROFILING,
    order=ORDER,
    ledger_commit="a" * 40,
    pinned_sha="b" * 40,
    next="measure",
)


# The order that one job hands to the next


def test_an_order_comes_out_as_it_went_in(tmp_path: Path) -> None:
    write_bundle(REPORT, tmp_path / BUNDLE)
    assert read_bundle(tmp_path / BUNDLE) == Bundle(order=ORDER, ledger_commit="a" * 40, pinned_sha="b" * 40)


def test_without_an_order_nothing_is_written(tmp_path: Path) -> None:
    write_bundle(REPORT.model_copy(update={"order": None}), tmp_path / BUNDLE)
    assert not (tmp_path / BUNDLE).exists()
    write_bundle(REPORT, None)


def test_what_is_no_order_is_the_caller_s_to_mend(tmp_path: Path) -> None:
    write_bundle(REPORT, tmp_path / BUNDLE)
    (tmp_path / "link.json").symlink_to(tmp_path / BUNDLE)
    large = tmp_path / "large.json"
    large.touch()
    os.truncate(large, MAX_BUNDLE + 1)
    for path in (tmp_path / "missing.json", tmp_path, tmp_path / "link.json", large):
        with pytest.raises(UserError, match="is not an order"):
            read_bundle(path)


def spoiled(name: str, value: object) -> str:
    found: dict[str, Any] = json.loads(Bundle(order=ORDER, ledger_commit="a" * 40, pinned_sha="").model_dump_json())
    found["order"][name] = value
    return json.dumps(found)


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", '{"order": 1}', spoiled("id", "../../etc"), spoiled("phase", "push"), spoiled("sudo", True)],
)
def test_an_order_that_cannot_be_believed_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / BUNDLE).write_text(text)
    with pytest.raises(CorruptRecord, match=BUNDLE):
        read_bundle(tmp_path / BUNDLE)


# What a workflow reads


def test_outputs_are_one_line_each_whatever_a_report_says(tmp_path: Path) -> None:
    hostile = REPORT.model_copy(update={"detail": "x\nnext=push\r\ncampaign=c8\u2028decision=acted"})
    write_outputs(REPORT, tmp_path / "output")
    write_outputs(hostile, tmp_path / "output")
    lines = (tmp_path / "output").read_bytes().decode().split("\n")
    assert lines[:4] == ["decision=acted", "reason_code=accepted", "campaign=c7", "next=measure"]
    assert [line.partition("=")[0] for line in lines] == [
        *["decision", "reason_code", "campaign", "next", "result"] * 2,
        "",
    ]
    assert json.loads(lines[9].partition("=")[2])["detail"] == hostile.detail
    write_outputs(REPORT, None)


def environment(settings: Settings) -> dict[str, str]:
    """The variables that these settings were read from."""
    found = {VARIABLES[name]: getattr(settings, name) for name in VARIABLES}
    return {name: str(value) for name, value in found.items() if value not in (None, "")}


def run(talk: Conversation, settings: Settings, *words: str) -> dict[str, Any]:
    output = talk.folder / "output"
    output.unlink(missing_ok=True)
    given = environment(settings) | {"GITHUB_OUTPUT": str(output)}
    done = CliRunner().invoke(cli, list(words), env=given, catch_exceptions=False, standalone_mode=False)
    assert done.return_value == 0
    (line,) = done.stdout.splitlines()
    assert f"result={line}" == output.read_text().splitlines()[-1]
    found: dict[str, Any] = json.loads(line)
    return found


def test_from_a_comment_to_a_question_by_the_command_line(at: At) -> None:
    talk = at("opened")
    order = talk.folder / BUNDLE
    talk.says(MIRA, "/optimize rms_norm")
    decided = run(talk, talk.settings("decide", talk.last_event()), "decide", "--order-out", str(order))
    assert (decided["zone"], decided["decision"], decided["next"]) == ("decide", "acted", "measure")
    bundle = read_bundle(order)
    assert bundle.order == talk.campaign.order
    assert bundle.pinned_sha == talk.head
    assert bundle.ledger_commit == talk.branches["kernelwright/ledger"]

    segment = talk.leaves(gpu.profiled(talk.campaign, talk.repo))
    words = ("publish", "--campaign", decided["campaign"], "--segment", str(segment))
    published = run(talk, talk.settings("publish"), *words)
    assert (published["stage"], published["next"], published["order"]) == ("await_profile", "wait", None)


def test_the_winner_is_pushed_by_the_command_line(at: At) -> None:
    talk = at("pushing")
    pushed = run(talk, talk.settings("push"), "push", "--campaign", talk.campaign.id)
    assert (pushed["reason_code"], pushed["next"]) == ("pushed", "none")
    assert talk.campaign.pushed == talk.head


@pytest.mark.parametrize("zone", ["publish", "push"])
def test_a_campaign_that_is_not_there_is_an_operator_s_mistake(at: At, zone: str) -> None:
    talk = at("opened")
    with pytest.raises(OperatorError, match="there is no campaign c404 on the ledger"):
        run(talk, talk.settings(zone), zone, "--campaign", "c404")


@pytest.mark.parametrize("name", ["../c1", "C1", "", "c1/journal.jsonl"])
def test_a_campaign_of_an_impossible_name_is_refused(at: At, name: str) -> None:
    talk = at("opened")
    with pytest.raises(UserError, match="is not a campaign's name"):
        run(talk, talk.settings("publish"), "publish", "--campaign", name)


@pytest.mark.parametrize("zone", ["decide", "publish", "push"])
def test_a_job_that_holds_a_token_does_not_import_the_engine(zone: str) -> None:
    """It did once, for the name of an idea, and every publish job took half a second longer."""
    script = f"import sys, bot.zones.{zone}; print([m for m in ('libcst', 'torch', 'triton') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"


# Most events are nobody's business, and every comment of a repository is an event

HEAVY = (
    *("torch", "triton", "github", "libcst", "matplotlib", "pandas"),
    *("jinja2", "markdown_it", "bot.zones.decide", "bot.git", "bot.ledger.branch", "bot.render"),
)
"""What an event that is ignored has no need of."""


def test_an_event_that_is_ignored_costs_next_to_nothing(tmp_path: Path) -> None:
    event = tmp_path / "event.json"
    event.write_text('{"action": "edited"}')
    script = (
        "import resource, sys; sys.argv = ['kernelwright', 'decide']\n"
        "from bot.__main__ import main\n"
        "try: main()\n"
        "except SystemExit as left: assert left.code == 0\n"
        "used = resource.getrusage(resource.RUSAGE_SELF)\n"
        f"heavy = [m for m in {HEAVY!r} if m in sys.modules]\n"
        "print(used.ru_utime + used.ru_stime, heavy)"
    )
    given = {
        "GITHUB_REPOSITORY": "sample/kernels",
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_EVENT_NAME": "issue_comment",
        "GITHUB_EVENT_PATH": str(event),
        "PATH": os.environ["PATH"],
    }
    seconds = []
    for _ in range(20):
        done = subprocess.run(
            [sys.executable, "-c", script], env=given, capture_output=True, text=True, check=True, timeout=60
        )
        report, used = done.stdout.splitlines()
        assert json.loads(report)["reason_code"] == "edited_comment"
        processor, _, heavy = used.partition(" ")
        assert heavy == "[]"
        seconds.append(float(processor))
        if seconds[-1] < 1.0:
            break
    assert min(seconds) < 1.0


# The kill switch


def untouched(tmp_path: Path) -> dict[str, str]:
    """An environment in which everything else is wrong: whoever read on would complain."""
    return {"GITHUB_OUTPUT": str(tmp_path / "output"), "GITHUB_EVENT_PATH": "/nowhere", "GITHUB_REPOSITORY": "?"}


ZONES: dict[str, tuple[str, ...]] = {
    "decide": ("decide",),
    "measure": ("measure", "--order", "o", "--repository", ".", "--trusted", ".", "--out", "x", "--scratch", "y"),
    "publish": ("publish", "--campaign", "c1"),
    "push": ("push", "--campaign", "c1"),
    "reconcile": ("reconcile",),
}


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("value", ["false", "", "True", "1", "true "])
def test_switched_off_nothing_is_read_and_nothing_is_done(zone: str, value: str, tmp_path: Path) -> None:
    given = untouched(tmp_path) | {"KERNELWRIGHT_ENABLED": value}
    done = CliRunner().invoke(cli, list(ZONES[zone]), env=given, catch_exceptions=False, standalone_mode=False)
    assert done.return_value == 0
    report = json.loads(done.stdout)
    assert (report["decision"], report["reason_code"], report["next"]) == ("refused", "disabled", "none")
    assert "KERNELWRIGHT_ENABLED" in report["detail"]
    assert (tmp_path / "output").read_text().startswith("decision=refused\nreason_code=disabled\n")


@pytest.mark.parametrize("value", ["true", None])
def test_switched_on_or_not_switched_at_all_a_zone_goes_on(value: str | None, tmp_path: Path) -> None:
    given = {**untouched(tmp_path), "KERNELWRIGHT_ENABLED": value}
    with pytest.raises(UserError, match="GITHUB_REPOSITORY"):
        CliRunner().invoke(cli, ["decide"], env=given, catch_exceptions=False, standalone_mode=False)
