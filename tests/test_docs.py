"""What the documents list is what there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.commands.grammar import VERBS
from bot.model.policy import RepoPolicy
from bot.model.reasons import ReasonCode
from bot.targets.contract import read_config

DOCS = Path(__file__).parents[1] / "docs"
COMMANDS = (DOCS / "commands.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("code", list(ReasonCode))
def test_every_reason_code_is_explained(code: ReasonCode) -> None:
    assert f"`{code}`" in COMMANDS


@pytest.mark.parametrize("verb", [verb.name for verb in VERBS])
def test_every_verb_is_listed(verb: str) -> None:
    assert f"/optimize {verb}" in COMMANDS


def test_the_policy_shown_is_the_default_one() -> None:
    shown = COMMANDS.split("```toml\n")[1].split("```")[0]
    assert read_config(shown).policy == RepoPolicy()
