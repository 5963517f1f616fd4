"""Tests that call a zone by themselves give it what its workflow file would, and no more."""

from __future__ import annotations

from pathlib import Path

from bot.settings import INPUTS, VARIABLES
from tests.workflows import handed
from tests.workflows.test_files import ACTION
from tests.zones.conversation import BOT, Conversation

TALK = ("comment", "ledger", "read", "status")
(RUN,) = (step for step in ACTION.steps if step.id == "zone")


def test_what_a_zone_s_tokens_may_do_is_written_in_its_file() -> None:
    given = {zone: handed.scopes(zone) for zone in handed.jobs()}
    talks = {"KERNELWRIGHT_TOKEN": TALK}
    assert given.pop("measure") == {}, "near code of a pull request there is none"
    assert given.pop("push") == talks | {"KERNELWRIGHT_PUSH_TOKEN": ("comment", "push", "read")}
    assert given and all(tokens == talks for tokens in given.values())


def test_the_action_hands_each_input_over_in_the_variable_that_is_read() -> None:
    read = {**VARIABLES, **INPUTS}
    for name, variable in handed.TOKENS.items():
        assert RUN.env[variable] == f"${{{{ inputs.{name} }}}}"
        assert read[name.replace("-", "_")] == variable
    by_the_action = {variable for variable in read.values() if variable.startswith("KERNELWRIGHT_")}
    assert by_the_action <= set(RUN.env)


def test_a_conversation_gives_a_job_its_own_tokens_and_no_other(tmp_path: Path) -> None:
    talk = Conversation(tmp_path).open()
    talk.hub.add_user(BOT, "write", is_bot=True)
    for zone in ("decide", "publish", "push"):
        settings = talk.settings(zone)
        held = {"KERNELWRIGHT_TOKEN": settings.token, "KERNELWRIGHT_PUSH_TOKEN": settings.push_token}
        known = {text: tuple(sorted(token.scopes)) for text, token in talk.hub.world.tokens.items()}
        assert {variable: known[text] for variable, text in held.items() if text} == handed.scopes(zone)
    talk.close()
