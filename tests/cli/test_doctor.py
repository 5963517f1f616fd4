"""What doctor prints, in words and as JSON, and how it exits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bot.bench import probes
from bot.cli import doctor as door
from bot.cli.doctor import doctor, github_probes
from bot.errors import UserError
from bot.forge.rights import Answer, Api
from bot.model.health import Health, Probe, missing, ok, warning
from tests.forge.test_rights import FakeApi

ENVIRONMENT = {"KERNELWRIGHT_TOKEN": "t", "GITHUB_REPOSITORY": "sample/kernels"}


def run(monkeypatch: pytest.MonkeyPatch, found: list[Probe], *arguments: str) -> tuple[int, str]:
    def machine(where: str, python: str, scratch: Path) -> Iterator[Probe]:
        yield from found

    monkeypatch.setattr(door, "_machine", machine)
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    done = CliRunner().invoke(doctor, arguments, standalone_mode=False)
    assert done.exception is None, done.exception
    return int(done.return_value), done.output


def test_what_is_missing_makes_the_exit_code_and_a_warning_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    well = [ok("git", "2.47"), warning("clocks", "slow", "cool it")]
    assert run(monkeypatch, well)[0] == 0
    assert run(monkeypatch, [*well, missing("GPU", "none", "install one")])[0] == 3


def test_each_line_says_what_was_found_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    _, text = run(monkeypatch, [ok("git", "2.47"), missing("GPU", "none", "install one")])
    assert "✔ ok           git     2.47" in text
    assert "✘ missing      GPU     none" in text and "-> install one" in text
    assert "? not checked  GitHub  no token or no repository is named" in text
    assert text.rstrip().endswith("1 ok, 0 warning, 1 missing, 1 not checked")


def test_as_json_it_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    code, text = run(monkeypatch, [missing("GPU", "none", "install one")], "--json")
    told = json.loads(text)
    assert (code, told["exit_code"], told["schema_version"]) == (3, 3, 1)
    assert told["probes"][0] == {"name": "GPU", "health": "missing", "found": "none", "todo": "install one"}


def test_a_runner_asks_nothing_of_github_and_a_hosted_job_nothing_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "GitHub" not in run(monkeypatch, [ok("git", "2.47")], "--runner")[1]
    tables = {
        "runner": {*probes.EVERYWHERE, *probes.RUNNER},
        "hosted": {*probes.EVERYWHERE, *probes.HOSTED},
        "": set(probes.ANYWHERE),
    }
    assert probes.gpu in tables["runner"] and probes.drawing not in tables["runner"]
    assert probes.gpu not in tables["hosted"] | tables[""]


def connected(asked: list[Any]) -> Any:
    def connect(url: str, repo: str, token: str) -> Api:
        asked.append((url, repo, token))
        return FakeApi({"": Answer(status=200)})

    return connect


def test_github_is_asked_with_the_labels_that_jobs_are_sent_to(tmp_path: Path) -> None:
    (tmp_path / "kernelwright.toml").write_text('[sweep.pools]\nhopper = ["gpu", "hopper"]\n')
    asked: list[Any] = []
    environment = {**ENVIRONMENT, "KERNELWRIGHT_RUNNER": '["self-hosted", "gpu"]'}
    found = {probe.name: probe for probe in github_probes(environment, tmp_path, connected(asked))}
    assert asked == [("https://api.github.com", "sample/kernels", "t")]
    assert found["token"].health is Health.OK
    assert "self-hosted, gpu and gpu, hopper" in found["runner labels"].todo


@pytest.mark.parametrize("value", ["gpu", '"gpu"', '["gpu"]'])
def test_a_label_may_be_a_word_or_a_list(tmp_path: Path, value: str) -> None:
    found = list(github_probes({**ENVIRONMENT, "KERNELWRIGHT_RUNNER": value}, tmp_path, connected([])))
    assert "look for gpu at" in next(probe.todo for probe in found if probe.name == "runner labels")


def test_what_is_no_list_of_labels_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="KERNELWRIGHT_RUNNER"):
        list(github_probes({**ENVIRONMENT, "KERNELWRIGHT_RUNNER": "{}"}, tmp_path, connected([])))
