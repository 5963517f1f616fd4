"""What action.yml runs: inputs in, the command line of one zone out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from bot.cli import action as door
from bot.cli.action import runner_of, words, write_order
from bot.cli.entry import VERBS, cli
from bot.cli.jobs import read_bundle
from bot.errors import UserError
from bot.model.campaign import Order, Phase
from bot.settings import Inputs, read_inputs
from tests.cli.test_jobs import REPORT

TAKEN = REPORT.model_dump_json()


def inputs(zone: str, scratch: Path, **given: str) -> Inputs:
    told = {f"KERNELWRIGHT_{name.upper()}": value for name, value in given.items()}
    return read_inputs({"KERNELWRIGHT_ZONE": zone, "RUNNER_TEMP": str(scratch), **told})


LINES = [
    ("decide", {}, ("decide",)),
    ("take", {"campaign": "c7"}, ("publish", "--campaign", "c7")),
    (
        "take",
        {"campaign": "sweep-20261122-hopper-rms_norm"},
        ("sweep", "start", "--campaign", "sweep-20261122-hopper-rms_norm"),
    ),
    ("publish", {"campaign": "c7"}, ("publish", "--campaign", "c7")),
    ("publish", {"campaign": "c7", "segment": "/s"}, ("publish", "--campaign", "c7", "--segment", "/s")),
    ("push", {"campaign": "c7", "segment": "/s"}, ("push", "--campaign", "c7")),
    ("reconcile", {}, ("reconcile",)),
    ("sweep-plan", {}, ("sweep", "plan")),
    ("sweep-dashboard", {}, ("sweep", "dashboard")),
]


@pytest.mark.parametrize(("zone", "given", "line"), LINES)
def test_each_zone_is_one_command_line(zone: str, given: dict[str, str], line: tuple[str, ...], tmp_path: Path) -> None:
    assert words(inputs(zone, tmp_path, **given)) == line


@pytest.mark.parametrize("line", sorted({line for _, _, line in LINES} | {("measure",)}))
def test_every_command_line_is_one_that_is_there(line: tuple[str, ...]) -> None:
    assert line[0] in VERBS
    path = line[: 2 if line[0] == "sweep" else 1]
    done = CliRunner().invoke(cli, [*path, "--help"], prog_name="kernelwright")
    assert done.exit_code == 0
    for option in line[len(path) :: 2]:
        assert option in done.output


def test_the_measuring_job_gets_its_order_as_a_file(tmp_path: Path) -> None:
    given = {"order": TAKEN, "repository": "/pinned", "segment": "/s", "evidence": "static"}
    line = words(inputs("measure", tmp_path, **given).model_copy(update={"workspace": Path("/default")}))
    order = tmp_path / "order.json"
    assert line == (
        *("measure", "--order", str(order), "--repository", "/pinned", "--trusted", "/default"),
        *("--out", "/s"),
        *("--scratch", str(tmp_path / "kernelwright-scratch"), "--evidence", "static"),
    )
    bundle = read_bundle(order)
    assert bundle.order == Order(id="c7-1-profile", campaign="c7", phase=Phase.PROFILE)
    assert (bundle.ledger_commit, bundle.pinned_sha) == (REPORT.ledger_commit, REPORT.pinned_sha)


@pytest.mark.parametrize("taken", ["", "[]", "{}", "null", '{"order": null}', "not JSON", "[" * 100])
def test_what_holds_no_order_is_said(taken: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^input order: it holds no order") as caught:
        write_order(taken, tmp_path)
    assert "`result`" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


POOLS = b'[sweep.pools]\nhopper = ["self-hosted", "h100"]\nampere = ["self-hosted", "a100"]\n'


@pytest.mark.parametrize(
    ("pool", "config", "labels"),
    [
        ("hopper", None, ("self-hosted", "kernelwright")),
        ("hopper", POOLS, ("self-hosted", "h100")),
        ("ampere", POOLS, ("self-hosted", "a100")),
        ("blackwell", POOLS, ("self-hosted", "kernelwright")),
        ("", POOLS, ("self-hosted", "kernelwright")),
        ('hopper"] # ', POOLS, ("self-hosted", "kernelwright")),
    ],
)
def test_the_machine_is_of_the_pool_that_the_order_waits_for(
    pool: str, config: bytes | None, labels: tuple[str, ...], tmp_path: Path
) -> None:
    assert runner_of(pool, inputs("take", tmp_path, campaign="c7"), config) == labels


@pytest.mark.parametrize(
    ("pool", "labels"), [("hopper", ["self-hosted", "h100"]), (None, ["self-hosted", "any"])], ids=["order", "none"]
)
def test_taking_an_order_gives_out_the_machine_s_labels(
    pool: str | None, labels: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []
    output = tmp_path / "output"

    def take(line: list[str], **_: object) -> int:
        ran.append(line)
        output.write_text(f"next=measure\nresult={json.dumps({'campaign': 'c7', 'pool': pool})}\n")
        return 0

    monkeypatch.setattr(door.cli, "main", take)
    (tmp_path / "kernelwright.toml").write_bytes(POOLS)
    given = {
        "KERNELWRIGHT_ZONE": "take",
        "KERNELWRIGHT_CAMPAIGN": "c7",
        "KERNELWRIGHT_RUNNER": '["self-hosted", "any"]',
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_OUTPUT": str(output),
        "GITHUB_WORKSPACE": str(tmp_path),
    }
    done = CliRunner().invoke(door.action, env=given, catch_exceptions=False, standalone_mode=False)
    assert done.return_value == 0
    assert ran == [["publish", "--campaign", "c7"]]
    name, _, value = output.read_text().splitlines()[-1].partition("=")
    assert (name, json.loads(value)) == ("runner", labels)


def test_a_zone_that_fails_fails_the_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door.cli, "main", lambda line, **_: 3)
    given = {"KERNELWRIGHT_ZONE": "decide", "RUNNER_TEMP": str(tmp_path)}
    done = CliRunner().invoke(door.action, env=given, catch_exceptions=False, standalone_mode=False)
    assert done.return_value == 3
