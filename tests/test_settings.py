"""A job's environment and the inputs of action.yml: what is missing or wrong is named, with what it should hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.errors import UserError
from bot.model.reasons import ReasonCode
from bot.settings import INPUTS, NEEDED, TOKENS, VARIABLES, Inputs, Settings, read_inputs, read_settings

JOB = {
    "GITHUB_REPOSITORY": "sample/kernels",
    "GITHUB_API_URL": "http://127.0.0.1:8000/api/v3",
    "GITHUB_SERVER_URL": "http://127.0.0.1:8000",
    "GITHUB_EVENT_NAME": "issue_comment",
    "GITHUB_EVENT_PATH": "/github/event.json",
    "GITHUB_WORKSPACE": "/github/workspace",
    "GITHUB_OUTPUT": "/github/output",
    "RUNNER_TEMP": "/github/temp",
    "KERNELWRIGHT_TOKEN": "ghs_secret",
    "KERNELWRIGHT_PUSH_TOKEN": "ghs_of_the_app",
    "KERNELWRIGHT_RUN_URL": "https://github.com/sample/kernels/actions/runs/1",
    "KERNELWRIGHT_BOT_LOGIN": "kernelwright[bot]",
    "KERNELWRIGHT_BOT_ID": "41898282",
}


def test_every_variable_is_read() -> None:
    assert set(JOB) == set(VARIABLES.values())
    assert set(VARIABLES) == set(Settings.model_fields)
    found = read_settings(JOB)
    assert found.repository == "sample/kernels"
    assert found.event_path == Path("/github/event.json")
    assert found.bot_id == 41898282
    assert found.git_url == "http://127.0.0.1:8000/sample/kernels.git"
    assert found.blob_url("c0ffee", "a/b.png") == "http://127.0.0.1:8000/sample/kernels/blob/c0ffee/a/b.png"
    assert found.tree_url("main", "") == "http://127.0.0.1:8000/sample/kernels/tree/main"
    assert found.commit_url("c0ffee") == "http://127.0.0.1:8000/sample/kernels/commit/c0ffee"


def test_two_variables_are_enough_on_github() -> None:
    found = read_settings({"GITHUB_REPOSITORY": "sample/kernels", "RUNNER_TEMP": "/github/temp"})
    assert (found.api_url, found.server_url) == ("https://api.github.com", "https://github.com")
    assert (found.token, found.event_path, found.bot_login, found.bot_id) == ("", None, None, None)


@pytest.mark.parametrize("variable", ["GITHUB_REPOSITORY", "RUNNER_TEMP"])
@pytest.mark.parametrize("empty", [True, False])
def test_a_missing_variable_is_named(variable: str, empty: bool) -> None:
    job = {name: value for name, value in JOB.items() if name != variable}
    with pytest.raises(UserError, match=variable) as caught:
        read_settings(job | ({variable: ""} if empty else {}))
    assert variable in caught.value.hint
    assert caught.value.reason is ReasonCode.CONFIG_INVALID


WRONG = {
    "GITHUB_REPOSITORY": ["kernels", "sample/kernels/more", "../kernels", "sample/ker nels", "sample/kernels\n"],
    "GITHUB_API_URL": [
        "api.github.com",
        "ftp://github.com",
        "https://",
        "https://github.com/",
        "https://a b",
        "https://a?b",
    ],
    "GITHUB_SERVER_URL": ["github.com", "javascript:alert(1)", "https://github.com/", "https://github.com\n"],
    "KERNELWRIGHT_BOT_LOGIN": ["kernel wright", "-kernelwright", "kernelwright[robot]", "@kernelwright"],
    "KERNELWRIGHT_BOT_ID": ["kernelwright", "0", "-1", "1.5"],
}


@pytest.mark.parametrize(("variable", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_a_wrong_variable_is_named(variable: str, value: str) -> None:
    with pytest.raises(UserError, match=variable) as caught:
        read_settings(JOB | {variable: value})
    assert variable in caught.value.hint


def test_no_error_tells_the_token() -> None:
    with pytest.raises(UserError) as caught:
        read_settings(JOB | {"GITHUB_REPOSITORY": "ghs_secret"})
    assert "ghs_secret" not in str(caught.value) + caught.value.hint


def test_variables_of_others_do_not_matter() -> None:
    assert read_settings(JOB | {"PATH": "/bin", "GITHUB_SHA": "x"}) == read_settings(JOB)


# The inputs of action.yml

GIVEN = {
    "KERNELWRIGHT_ZONE": "publish",
    "KERNELWRIGHT_CAMPAIGN": "c7",
    "KERNELWRIGHT_ORDER": '{"order": null}',
    "KERNELWRIGHT_REPOSITORY": "/github/workspace/pinned",
    "KERNELWRIGHT_SEGMENT": "/github/temp/segment",
    "KERNELWRIGHT_EVIDENCE": "measured",
    "KERNELWRIGHT_RUNNER": '["self-hosted", "h100"]',
    "RUNNER_TEMP": "/github/temp",
    "GITHUB_WORKSPACE": "/github/workspace",
    "GITHUB_OUTPUT": "/github/output",
}


def test_every_input_is_read() -> None:
    assert set(GIVEN) == set(INPUTS.values())
    assert set(INPUTS) == set(Inputs.model_fields)
    found = read_inputs(GIVEN)
    assert (found.zone, found.campaign, found.evidence) == ("publish", "c7", "measured")
    assert (found.repository, found.segment) == (Path("/github/workspace/pinned"), Path("/github/temp/segment"))
    assert found.runner == ("self-hosted", "h100")


def test_an_input_that_was_left_empty_was_not_given() -> None:
    empty = dict.fromkeys(GIVEN, "") | {"KERNELWRIGHT_ZONE": "decide", "RUNNER_TEMP": "/github/temp"}
    found = read_inputs(empty)
    assert (found.campaign, found.segment, found.evidence) == (None, None, "auto")
    assert found.runner == ("self-hosted", "kernelwright")


WRONG_INPUTS = {
    "zone": ["", "mesure", "Decide", "decide\n", "decide push", "sweep"],
    "campaign": ["../c1", "C1", "c1/journal.jsonl", "c1 --segment x", "-c1", "c1\n", "c" * 97],
    "evidence": ["real", "MEASURED", "static;"],
    "runner": ["gpu", "[", "{}", "[]", '["gpu", ""]', '["a b"]', '[["gpu"]]', "[1]", '["${{ secrets.X }}"]'],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG_INPUTS.items() for value in values]
)
def test_a_wrong_input_is_named(name: str, value: str) -> None:
    with pytest.raises(UserError, match=f"^input {name}: ") as caught:
        read_inputs(GIVEN | {INPUTS[name]: value})
    assert caught.value.reason is ReasonCode.CONFIG_INVALID
    assert "action.yml" in caught.value.hint


@pytest.mark.parametrize(("zone", "name"), [(zone, name) for zone, names in NEEDED.items() for name in names])
def test_what_a_zone_needs_is_asked_for(zone: str, name: str) -> None:
    given = GIVEN | {"KERNELWRIGHT_ZONE": zone}
    assert read_inputs(given).zone == zone
    with pytest.raises(UserError, match=f"^input {name}: zone {zone} needs it") as caught:
        read_inputs(given | {INPUTS[name]: ""})
    assert f"`{name}:`" in caught.value.hint


@pytest.mark.parametrize("variable", TOKENS)
def test_the_measuring_job_is_refused_with_a_token_in_its_hand(variable: str) -> None:
    """Threat: token theft. Whoever edits the workflow and hands it one learns of it before any code runs."""
    given = GIVEN | {"KERNELWRIGHT_ZONE": "measure"}
    assert read_inputs(given | {variable: ""}).zone == "measure"
    with pytest.raises(UserError, match=variable) as caught:
        read_inputs(given | {variable: "ghs_secret"})
    assert "ghs_secret" not in str(caught.value) + caught.value.hint
    assert read_inputs(GIVEN | {variable: "ghs_secret"}).zone == "publish", "others may hold one"


def test_a_missing_folder_of_the_runner_is_called_by_its_own_name() -> None:
    with pytest.raises(UserError, match=r"^RUNNER_TEMP: "):
        read_inputs(GIVEN | {"RUNNER_TEMP": ""})
