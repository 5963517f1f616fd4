"""Everything that is no proper command of somebody who may: a reason for each, an answer where one is due, no more."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bot.errors import OperatorError, UserError
from bot.model.campaign import Stage
from bot.zones.decide import decide
from bot.zones.report import ZoneReport
from tests.zones.conversation import BOT, DANA, LEE, MIRA, PULL, Conversation, said
from tests.zones.places import At

Payload = dict[str, Any]
World = tuple[dict[str, str], list[str], list[str], int]


def world(talk: Conversation) -> World:
    """All that a job could have changed."""
    said = [comment["body"] for number in talk.hub.world.threads for comment in talk.hub.comments(number)]
    reactions = [f"{r.author}: {r.content}" for r in talk.hub.world.reactions.values()]
    return talk.branches, said, reactions, len(talk.hub.world.statuses)


def payload_of(talk: Conversation, text: str = "/optimize rms_norm", who: str = MIRA) -> Payload:
    """The event of a comment, to be spoiled."""
    talk.says(who, text)
    found: Payload = json.loads(talk.last_event()[1].read_bytes())
    return found


def delivered(talk: Conversation, payload: bytes | Payload, name: str = "issue_comment") -> ZoneReport:
    event = talk.folder / "event.json"
    event.write_bytes(payload if isinstance(payload, bytes) else json.dumps(payload).encode())
    return talk.decides((name, event))


# Events that are nobody's business: silence


def without(*path: str) -> Callable[[Payload], Payload]:
    def spoil(payload: Payload) -> Payload:
        part = payload
        for name in path[:-1]:
            part = part[name]
        del part[path[-1]]
        return payload

    return spoil


def having(value: object, *path: str) -> Callable[[Payload], Payload]:
    def spoil(payload: Payload) -> Payload:
        part = payload
        for name in path[:-1]:
            part = part[name]
        part[path[-1]] = value
        return payload

    return spoil


BOT_ACCOUNT = {"id": 9, "login": "dependabot[bot]", "type": "Bot"}
SPOILED: dict[str, tuple[Callable[[Payload], Payload | bytes], str]] = {
    "cut in the middle": (lambda payload: json.dumps(payload).encode()[:200], "malformed_event"),
    "nothing": (lambda payload: b"", "malformed_event"),
    "not UTF-8": (lambda payload: b"\xff\xfe{}", "malformed_event"),
    "a list": (lambda payload: b"[]", "malformed_event"),
    "nested": (lambda payload: b"[" * 100_000, "malformed_event"),
    "no action": (without("action"), "malformed_event"),
    "no comment": (without("comment"), "malformed_event"),
    "no id": (without("comment", "id"), "malformed_event"),
    "no author": (without("comment", "user"), "malformed_event"),
    "no issue": (without("issue", "number"), "malformed_event"),
    "no repository": (without("repository"), "malformed_event"),
    "no sender": (without("sender"), "malformed_event"),
    "an id in words": (having("7; rm -rf /", "comment", "id"), "malformed_event"),
    "a login with a slash": (having("mira/../dana", "comment", "user", "login"), "malformed_event"),
    "edited": (having("edited", "action"), "edited_comment"),
    "deleted": (having("deleted", "action"), "unrelated_event"),
    "a bot's": (having(BOT_ACCOUNT, "comment", "user"), "bot_comment"),
    "through an app": (having({"id": 5}, "comment", "performed_via_github_app"), "bot_comment"),
    "by somebody else": (having({"id": 5, "login": "eve", "type": "User"}, "sender"), "confused_sender"),
    "without text": (having(None, "comment", "body"), "no_command"),
}


def test_an_event_that_cannot_be_believed_changes_nothing(at: At) -> None:
    talk = at("opened")
    whole = json.dumps(payload_of(talk))
    before = world(talk)
    for why, (spoil, code) in SPOILED.items():
        report = delivered(talk, spoil(json.loads(whole)))
        assert (why, report.decision, report.reason_code) == (why, "ignored", code)
        assert report.detail and report.detail.isprintable()
    assert world(talk) == before
    assert delivered(talk, whole.encode()).reason_code == "accepted", "unspoiled it is obeyed"


@pytest.mark.parametrize(
    "name", ["push", "pull_request_target", "schedule", "workflow_dispatch", "", "../issue_comment"]
)
def test_an_event_of_another_name_changes_nothing(at: At, name: str) -> None:
    talk = at("opened")
    payload = payload_of(talk)
    before = world(talk)
    assert delivered(talk, payload, name).decision == "ignored"
    assert world(talk) == before


def test_a_comment_of_ten_megabytes_is_not_even_parsed(at: At) -> None:
    talk = at("opened")
    payload = payload_of(talk)
    payload["comment"]["body"] = "/optimize rms_norm " + "x" * 10 * 2**20
    before = world(talk)
    report = delivered(talk, payload)
    assert (report.decision, report.reason_code) == ("ignored", "malformed_event")
    assert len(report.detail) < 200
    assert world(talk) == before


def test_what_we_write_ourselves_is_no_command(at: At) -> None:
    talk = at("opened")
    payload = payload_of(talk)
    payload["comment"]["user"] = payload["sender"] = {"id": talk.hub.user_id(BOT), "login": BOT, "type": "User"}
    before = world(talk)
    assert delivered(talk, payload).reason_code == "bot_comment"
    assert world(talk) == before


NO_COMMANDS = [
    "Thanks!",
    "please /optimize rms_norm",
    "/optimizer rms_norm",
    "```\n/optimize rms_norm\n```",
    "````\n```\n/optimize rms_norm\n```\n/optimize rms_norm\n````",
    "~~~\n```\n/optimize rms_norm\n~~~",
    "> /optimize rms_norm",
    "> > /optimize rms_norm\n> /optimize rms_norm",
    "    /optimize rms_norm",
    "<!-- \n/optimize rms_norm\n-->",
    "- a list\n  /optimize rms_norm",
    "\x00\x01\x02",
    "",
]


def test_a_comment_without_a_command_is_left_alone(at: At) -> None:
    """Quoted, shown as code, hidden or halfway through a sentence: not even a reaction."""
    talk = at("opened")
    payload = payload_of(talk, "hello")
    before = world(talk)
    for text in NO_COMMANDS:
        payload["comment"]["body"] = text
        report = delivered(talk, payload)
        assert (text, report.decision, report.reason_code) == (text, "ignored", "no_command")
    assert world(talk) == before


# Commands that cannot be understood: one answer, one reaction, nothing else

MISTAKES = {
    "/optimize": "missing_value",
    "/optimize rms_nrom": "unknown_kernel",
    "/optimize ../../etc/passwd": "unknown_kernel",
    "/optimize kernel=../rms_norm": "unknown_kernel",
    "/optimize src/sample_kernels/ops/rms_norm.py": "unknown_kernel",
    "/optimize aprove": "unknown_verb",
    "/optimize rms_norm speed=fast": "unknown_option",
    "/optimize rms_norm --force": "unknown_option",
    "/optimize rms_norm goal=speed goal=memory": "duplicate_option",
    "/optimize rms_norm goal=": "missing_value",
    "/optimize rms_norm goal=blue": "bad_value",
    "/optimize rms_norm max_variants=0": "bad_value",
    "/optimize rms_norm max_variants=9999": "bad_value",
    "/optimize rms_norm max_variants=-1": "bad_value",
    "/optimize rms_norm max_variants=1e2": "bad_value",
    "/optimize rms_norm sha=main": "bad_value",
    '/optimize rms_norm target="forward under 0.3ms': "unclosed_quote",
    '/optimize rms_norm target="as fast as you can"': "target_not_understood",
    "/optimize rms_norm\n/optimize softmax": "multiple_commands",
    "/optimize rms_norm\u202e goal=speed": "parse_error",
    "/optimize rms_norm\x1b[31m": "parse_error",
    "/optimize try deadbee; git push --force": "unknown_option",
    "/optimize try main": "bad_value",
}


def test_a_mistake_is_answered_once_and_nothing_else_happens(at: At) -> None:
    talk = at("opened")
    for text, code in MISTAKES.items():
        branches, said, reactions, statuses = world(talk)
        comment = talk.says(MIRA, text)
        report = talk.decides()
        assert (text, report.decision, report.reason_code, report.next) == (text, "refused", code, "none")
        assert talk.reactions(comment) == ["confused"]
        assert f"(`{code}`)" in talk.answers()[-1]
        assert world(talk) == (branches, [*said, text, talk_last(talk)], [*reactions, f"{BOT}: confused"], statuses)
    assert not talk.has_ledger


def test_a_comment_hears_what_a_kernel_lacks_in_the_words_of_the_terminal(at: At) -> None:
    """Whatever way its name is spelled; a name that nothing has is still no kernel."""
    talk = at("opened")
    trusted = talk.folder / "trusted"
    (trusted / "benchmark/scripts/benchmark_rms_norm.py").unlink()
    for text in ("/optimize rms_norm", "/optimize **RMS-Norm**", "/optimize kernel=rms_norm goal=speed"):
        talk.says(MIRA, text)
        report = talk.decides()
        assert (text, report.decision, report.reason_code) == (text, "refused", "preflight_failed")
        answer = talk.answers()[-1]
        assert "cannot be optimised: missing benchmark/scripts/benchmark_rms_norm.py** (`preflight_failed`)" in answer
        assert "Add and commit that file: without its test and its benchmark nothing about it can be proved." in answer
        assert "default branch" in answer
    talk.says(MIRA, "/optimize rms_nrom")
    assert talk.decides().reason_code == "unknown_kernel"
    assert not talk.has_ledger


def talk_last(talk: Conversation) -> str:
    return str(talk.hub.comments(PULL)[-1]["body"])


def test_max_variants_one_and_the_most_are_fine(at: At) -> None:
    for count in (1, 119):
        talk = at("opened")
        assert talk.asks(MIRA, f"/optimize rms_norm max_variants={count}").reason_code == "accepted"
        assert talk.campaign.command is not None and talk.campaign.command.max_variants == count


def test_a_comment_at_github_s_limit_is_read_and_a_longer_one_answered(at: At) -> None:
    talk = at("opened")
    prose = "word " * 20_000
    assert talk.asks(LEE, f"/optimize help\n\n{prose}"[:65_536]).reason_code == "help_completed"
    payload = payload_of(talk, "/optimize help")
    payload["comment"]["body"] = f"/optimize help\n\n{prose}"
    report = delivered(talk, payload)
    assert (report.decision, report.reason_code) == ("refused", "comment_too_long")


def test_hostile_text_comes_back_harmless(at: At) -> None:
    talk = at("opened")
    hostile = "@everyone <img src=x onerror=alert(1)> [x](http://evil.example) `` ``` #1"
    talk.asks(LEE, f"/optimize {hostile}")
    answer = re.sub(r"`[^`\n]*`", "", talk.answers()[0])  # code calls nobody and links to nothing
    assert "@everyone" not in answer
    assert "<img" not in answer
    assert "](http" not in answer
    assert "http://evil" not in answer
    assert not [line for line in answer.splitlines() if line.startswith("/optimize") and "everyone" in line]


# Commands of people who may not, or in places where they cannot


def refused(talk: Conversation, who: str, text: str, code: str, number: int = PULL) -> None:
    branches, said, reactions, statuses = world(talk)
    comment = talk.says(who, text, number)
    report = talk.decides()
    assert (report.decision, report.reason_code, report.next) == ("refused", code, "none")
    assert talk.reactions(comment) == ["-1"]
    answer = str(talk.hub.comments(number)[-1]["body"])
    assert f"(`{code}`)" in answer
    assert world(talk)[0] == branches
    assert sorted(world(talk)[1]) == sorted([*said, text, answer])
    assert world(talk)[2:] == ([*reactions, f"{BOT}: -1"], statuses)


def test_without_write_access_nothing_is_started(at: At) -> None:
    talk = at("opened")
    talk.hub.add_user("tom", "triage")
    talk.hub.add_user("eve", "none")
    for who in (LEE, "tom", "eve"):
        refused(talk, who, "/optimize rms_norm", "permission_denied")
    assert "yours is none" in talk.answers()[-1]
    assert not talk.has_ledger


def test_without_write_access_nothing_is_answered_or_stopped(at: At) -> None:
    talk = at("final")
    refused(talk, LEE, "/optimize approve", "permission_denied")
    explained = len(talk.answers())
    for text in ("/optimize reject", "/optimize cancel", f"/optimize try {talk.head}"):
        assert said(talk.asks(LEE, text)) == ("refused", "permission_denied", "none")
    assert len(talk.answers()) == explained, "the first no said why"
    assert talk.campaign.stage is Stage.AWAIT_FINAL


def test_an_issue_is_no_pull_request(at: At) -> None:
    talk = at("opened")
    number = talk.hub.open_issue(DANA, "It is slow")
    refused(talk, MIRA, "/optimize rms_norm", "not_a_pull_request", number)


def test_a_closed_pull_request_is_left_alone(at: At) -> None:
    talk = at("profile")
    talk.hub.close_pull(PULL)
    refused(talk, MIRA, "/optimize approve", "pr_closed")
    assert talk.campaign.stage is Stage.AWAIT_PROFILE
    assert talk.asks(MIRA, "/optimize cancel").reason_code == "cancelled_by_user", "what only stops is still heard"
    refused(talk, MIRA, "/optimize rms_norm", "pr_closed")


def test_a_draft_waits_until_policy_or_its_author_says_otherwise(at: At) -> None:
    talk = at("opened")
    talk.pushes(DANA, "# another\n", branch="draft", path="notes.md")
    number = talk.hub.open_pull(DANA, "draft", "main", "Not ready", draft=True)
    refused(talk, MIRA, "/optimize rms_norm", "draft_not_allowed", number)
    (talk.folder / "trusted" / "kernelwright.toml").write_text("[policy]\nallow_drafts = true\n")
    assert talk.asks(MIRA, "/optimize rms_norm", number).reason_code == "accepted"


def forked(talk: Conversation) -> tuple[int, str]:
    """lee's fork of the repository, and a pull request from it."""
    fork = talk.hub.fork(LEE)
    head = talk.hub.push(LEE, "mine", {"notes.md": b"mine\n"}, "Mine\n", repo=fork)
    return talk.hub.open_pull(LEE, "mine", "main", "From a fork", head_repo=fork), head


def test_a_fork_is_measured_at_a_commit_that_somebody_named(at: At) -> None:
    talk = at("opened")
    number, head = forked(talk)
    refused(talk, MIRA, "/optimize rms_norm", "fork_sha_required", number)
    assert f"/optimize rms_norm sha={head}" in str(talk.hub.comments(number)[-1]["body"])
    refused(talk, MIRA, "/optimize rms_norm sha=deadbeef", "sha_mismatch", number)
    refused(talk, LEE, f"/optimize rms_norm sha={head}", "permission_denied", number)
    report = talk.asks(MIRA, f"/optimize rms_norm sha={head[:10]}", number)
    assert (report.reason_code, report.pinned_sha) == ("accepted", head)


def test_a_fork_that_is_gone_has_no_branch_to_push_to(at: At) -> None:
    talk = at("opened")
    number, head = forked(talk)
    talk.hub.delete_fork(f"{LEE}/kernels")
    refused(talk, MIRA, f"/optimize rms_norm sha={head}", "head_repo_missing", number)


# A repository that is not set up


CONFIGS: dict[str, tuple[str, str]] = {
    '[policy]\nevidense = "static"\n': ("config_invalid", "unknown key `policy.evidense`"),
    "[policy\n": ("config_invalid", "it is not TOML"),
    "[policy]\nmax_variants = 0\n": ("config_invalid", "`policy.max_variants`"),
    "[target.kernels.scale]\n": ("config_invalid", "such as rms_norm, softmax or swiglu; docs/kernels.md"),
}


def test_a_broken_configuration_is_told_to_whoever_asks_and_to_nobody_else(at: At) -> None:
    talk = at("opened")
    config = talk.folder / "trusted" / "kernelwright.toml"
    for text, (code, words) in CONFIGS.items():
        config.write_text(text)
        assert talk.asks(MIRA, "Thanks!").reason_code == "no_command"
        refused(talk, MIRA, "/optimize rms_norm", code)
        assert words in talk.answers()[-1] and "kernelwright.toml of the default branch: " in talk.answers()[-1]
    assert not talk.has_ledger


def test_an_unknown_layout_is_pointed_to_the_configuration(at: At) -> None:
    talk = at("opened")
    empty = talk.folder / "empty"
    empty.mkdir()
    talk.says(MIRA, "/optimize rms_norm")
    report = decide(talk.settings("decide", talk.last_event(), GITHUB_WORKSPACE=str(empty)))
    assert (report.decision, report.reason_code) == ("refused", "target_not_recognised")
    assert "kernelwright.toml" in talk.answers()[0]


def test_a_job_without_its_event_or_its_checkout_says_which_variable_is_wrong(at: At, tmp_path: Path) -> None:
    talk = at("opened")
    with pytest.raises(UserError, match="GITHUB_EVENT_PATH"):
        decide(talk.settings("decide"))
    with pytest.raises(UserError, match="GITHUB_EVENT_PATH"):
        decide(talk.settings("decide", ("issue_comment", tmp_path / "missing.json")))
    talk.says(MIRA, "/optimize rms_norm")
    event = talk.last_event()
    with pytest.raises(OperatorError, match="GITHUB_WORKSPACE"):
        decide(talk.settings("decide", event, GITHUB_WORKSPACE=str(tmp_path / "missing")))
    with pytest.raises(UserError, match="KERNELWRIGHT_TOKEN"):
        decide(talk.settings("decide", event, KERNELWRIGHT_TOKEN=""))
    assert talk.answers() == []
