"""A source written to break Python's parser, or whoever walks its tree, is refused like any other: none raises."""

from __future__ import annotations

import ast
from types import SimpleNamespace

import pytest

from bot.guardrails import judge, prescreen, source
from bot.guardrails.honesty import signs
from bot.guardrails.source import LONGEST_TEXT, UNREADABLE, parse
from bot.model.verdict import Decision
from tests.guardrails import hearings as h

HOSTILE = {
    "signs in a row": "x = " + "-" * 50_000 + "1\n",
    "brackets": "x = " + "(" * 5_000 + ")" * 5_000 + "\n",
    "lists in lists": "x = " + "[" * 190 + "]" * 190 + "\n",
    "attributes of attributes": "x = a" + ".b" * 50_000 + "\n",
    "calls of calls": "x = f" + "()" * 50_000 + "\n",
    "a long sum": "x = " + "+".join("1" for _ in range(50_000)) + "\n",
    "a long power": "x = " + "**".join("1" for _ in range(50_000)) + "\n",
    "lambdas": "x = " + "lambda: " * 20_000 + "1\n",
    "many elifs": "if a: pass\n" + "elif a: pass\n" * 5_000,
    "blocks in blocks": "".join(f"{' ' * depth}if a:\n" for depth in range(99)) + " " * 99 + "pass\n",
    "strings in strings": "x = " + "f'{" * 500 + "1" + "}'" * 500 + "\n",
    "a number without an end": "x = " + "9" * 50_000 + "\n",
    "too much of it": "# words\n" * (LONGEST_TEXT // 8 + 1),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_it_is_refused_or_read_and_never_raised(name: str) -> None:
    for text in (HOSTILE[name], h.FASTER + "\n" + HOSTILE[name]):
        verdict = judge(h.hearing(text=text))
        try:
            parse(text)
        except UNREADABLE:
            assert verdict.decision is Decision.REJECTED
            assert {finding.guardrail for finding in verdict.findings} == {"scope", "honesty"}
            assert any("cannot be read" in finding.message for finding in verdict.findings)


def test_some_of_them_break_the_parser_by_depth() -> None:
    """Else this file would prove nothing about depth."""

    def kind(text: str) -> str:
        try:
            parse(text)
        except UNREADABLE as error:
            return type(error).__name__
        return ""

    broken = {kind(text) for text in HOSTILE.values()}
    assert broken & {"RecursionError", "MemoryError"}
    assert "SyntaxError" in broken


@pytest.mark.parametrize("error", [RecursionError, MemoryError])
def test_whichever_way_the_parser_gives_up(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    """What it raises for the same text differs from one Python to the next."""

    def parser(text: str) -> ast.Module:
        raise error

    heard = h.hearing()
    source.parse.cache_clear()  # another test may have had the same text read
    signs.cache_clear()
    monkeypatch.setattr(source, "ast", SimpleNamespace(**{**vars(ast), "parse": parser}))
    found = prescreen(heard)
    assert {finding.guardrail for finding in found} >= {"scope", "honesty"}
    assert all(finding.severity == "reject" for finding in found if finding.guardrail in ("scope", "honesty"))
    assert judge(heard).decision is Decision.REJECTED


def test_a_hostile_v0_that_the_target_branch_holds_is_no_way_around_it() -> None:
    """Compared with a v0 that nobody can read, nothing is known to be v0's own."""
    heard = h.hearing(text=h.FASTER, before=HOSTILE["signs in a row"])
    assert judge(heard).decision is Decision.REJECTED
