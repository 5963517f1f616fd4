"""Templates escape by themselves; a mistake in one is loud."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from jinja2 import UndefinedError

import bot
from bot.errors import OperatorError
from bot.render.environment import environment, render, templates_dir, tidy
from bot.render.escape import Trusted

OURS = (
    "approval", "yes", "no", "review_does", "reason", "name", "goal", "kernel", "baseline",
    "campaign.id", "campaign.pushed[:7]",
    'differs | join(", ")',
    'files | join(", ")', 'others | join(", ")', 'strategies | join(", ")', 'touched | join(", ")',
    '(cases_picture ~ "\\n\\n" ~ cases if variants_picture else cases)',
    '(roof_picture ~ "\\n\\n" ~ resources)',
)  # fmt: skip
"""The only things a template may print as they are: checked names, our own words, and lists escaped one by one."""


def printed(source: str, **values: object) -> str:
    return environment().from_string(source).render(**values)


def test_escaping_is_what_happens_when_nobody_thinks_of_it() -> None:
    assert printed("{{ x }}", x="<b>|@bob") == "&lt;b&gt;\\|@&#8203;bob"
    assert printed("{{ 'a' ~ x }}", x="<b>") == "a&lt;b&gt;"
    assert printed("{% set y = x ~ x %}{{ y }}", x=Trusted("<b>")) == "&lt;b&gt;&lt;b&gt;"


def test_trust_is_said_out_loud() -> None:
    assert printed("{{ x | trusted }}", x="**b**") == "**b**"
    assert printed("{{ x }}", x=Trusted("**b**")) == "**b**"


@pytest.mark.parametrize("value", [None, 1.5, True, b"x", ["x"], ("x",), {"x": 1}])
def test_what_is_not_words_is_a_mistake(value: object) -> None:
    with pytest.raises(TypeError, match="say it in words"):
        printed("{{ x }}", x=value)


def test_a_missing_name_is_a_mistake() -> None:
    with pytest.raises(UndefinedError):
        printed("{{ x }}")


def test_every_template_compiles_and_trusts_only_what_is_ours() -> None:
    found = sorted(path for room in ("comments", "records") for path in (templates_dir() / room).rglob("*.j2"))
    assert len(found) > 30
    for path in found:
        source = path.read_text(encoding="utf-8")
        environment().parse(source)
        for trusted in re.findall(r"([^{}]*?)\s*\|\s*trusted", source):
            assert trusted.strip().endswith(OURS), f"{path.name} trusts {trusted!r}"
        assert "| safe" not in source


def test_templates_are_found_in_a_checkout_or_in_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "bot"
    package.mkdir()
    monkeypatch.setattr(bot, "__file__", str(package / "__init__.py"))
    with pytest.raises(OperatorError, match="templates are missing"):
        templates_dir()
    (tmp_path / "templates").mkdir()
    assert templates_dir() == tmp_path / "templates"
    (package / "_templates").mkdir()
    assert templates_dir() == package / "_templates"


def test_tidy_leaves_code_blocks_alone() -> None:
    assert tidy("\n\na  \n\n\n\nb\n```\nx  \n\n\n\ny\n```\n\n\nc\n\n") == "a\n\nb\n```\nx  \n\n\n\ny\n```\n\nc\n"


def test_render_ends_in_one_newline() -> None:
    assert render("comments/help.md.j2", body="answer.").endswith("answer.\n")


def test_speaking_needs_no_heavy_package() -> None:
    heavy = "{'torch', 'triton', 'pandas', 'matplotlib', 'numpy', 'PIL'}"
    program = (
        f"import sys, bot.render.comments, bot.render.records, bot.render.plots; print({heavy} & set(sys.modules))"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert said.stdout == "set()\n"
