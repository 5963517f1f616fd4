"""A command counts on a line that begins with it, outside code, quotations, lists, tables and hidden text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.commands.markdown import command_lines, looks_like_command
from tests.examples import many

ASKED = ("/optimize rms_norm",)


@pytest.mark.parametrize(
    "comment",
    [
        "/optimize rms_norm",
        "   /optimize rms_norm  ",
        "Please have a look.\n/optimize rms_norm\nThank you!",
        "Please.\r\n\r\n/optimize rms_norm\r\n",
        "Please.\r/optimize rms_norm",
        "> did you measure it?\n\n/optimize rms_norm",
        "- faster\n- smaller\n/optimize rms_norm",
        "1. first\n\n/optimize rms_norm",
        "```\nlog\n```\n/optimize rms_norm",
        "````\n```\nnested\n```\n````\n/optimize rms_norm",
        "<!-- hidden -->\n/optimize rms_norm",
        "<!-- <details> -->\n\n/optimize rms_norm",
        "<details><summary>log</summary>\n\nx\n\n</details>\n\n/optimize rms_norm",
        "**note\n/optimize rms_norm\nnote**",
        "[x]: https://example.org\n/optimize rms_norm",
        "**bold** and `code`\n/optimize rms_norm",
    ],
)
def test_a_line_of_a_paragraph_is_read(comment: str) -> None:
    assert command_lines(comment) == ASKED


@pytest.mark.parametrize("mark", ["--", "---", "==="])
def test_the_dashes_of_a_signature_do_not_turn_it_into_a_heading(mark: str) -> None:
    assert command_lines(f"/optimize rms_norm\n{mark}\nJane") == ASKED


@pytest.mark.parametrize(
    "comment", ["`/optimize rms_norm`", "``/optimize rms_norm``", "` /optimize rms_norm `", "Do\n`/optimize rms_norm`."]
)
def test_a_whole_line_in_backticks_is_forgiven(comment: str) -> None:
    assert command_lines(comment) == ASKED


@pytest.mark.parametrize(
    "comment",
    [
        "I would write /optimize rms_norm here",
        "`/optimize rms_norm` starts it",
        "Use `/optimize rms_norm`",
        "```\n/optimize rms_norm\n```",
        "~~~sh\n/optimize rms_norm",
        "````\n```\n/optimize rms_norm\n```\n````",
        "```\n/optimize rms_norm\n``",
        "    /optimize rms_norm",
        "\t/optimize rms_norm",
        "See:\n    /optimize rms_norm",
        "See:\n\t/optimize rms_norm",
        "`open\n/optimize rms_norm\nclosed`",
        "> /optimize rms_norm",
        "> a quotation that goes on\n/optimize rms_norm",
        ">> > deep\n/optimize rms_norm",
        "On Monday Jane wrote:\n> /optimize rms_norm\n>\n> Thanks",
        "<!-- /optimize rms_norm -->",
        "<!--\n\n/optimize rms_norm\n-->",
        "a <!--\n/optimize rms_norm\n--> b",
        "<div>\n/optimize rms_norm\n</div>",
        "<blockquote>\n\n/optimize rms_norm\n\n</blockquote>",
        "<details>\n\n/optimize rms_norm\n\n</details>",
        "<details>\n\n/optimize rms_norm",
        "a <code>\n/optimize rms_norm\n</code>",
        "- /optimize rms_norm",
        "- one\n  /optimize rms_norm",
        "1. /optimize rms_norm",
        "# /optimize rms_norm",
        "| a |\n|---|\n| /optimize rms_norm |",
        "a | b\n--|--\n/optimize rms_norm",
        "[words\n/optimize rms_norm\n](https://example.org)",
        "\\/optimize rms_norm",
        "&#47;optimize rms_norm",
        "\u200b/optimize rms_norm",
        "\ufeff/optimize rms_norm",
        "/\u200boptimize rms_norm",
        "/optimizer rms_norm",
        "/optimize/rms_norm.py",
        "/optimize.py is slow",
        "/optimize's help is short",
        "/optimize-all",
        "optimize rms_norm",
        "",
    ],
)
def test_what_is_quoted_shown_or_hidden_is_not(comment: str) -> None:
    assert command_lines(comment) == ()


def test_what_opens_behind_a_command_still_hides_the_lines_below() -> None:
    assert command_lines("/optimize geglu <!--\n/optimize jsd\n-->") == ("/optimize geglu <!--",)
    assert command_lines("/optimize geglu `\n/optimize jsd\n`") == ("/optimize geglu `",)


def test_beside_a_command_the_same_rules_hold() -> None:
    assert command_lines("/optimize geglu\n    /optimize jsd") == ("/optimize geglu",)
    assert command_lines("/optimize geglu */optimize jsd") == ("/optimize geglu */optimize jsd",)


def test_every_command_of_a_comment_is_seen_in_order() -> None:
    assert command_lines("/optimize geglu\n/optimize jsd\n\n/optimize list") == (
        "/optimize geglu",
        "/optimize jsd",
        "/optimize list",
    )


def test_invisible_characters_behind_the_word_are_kept_for_the_grammar_to_refuse() -> None:
    assert command_lines("/optimize\u200b rms_norm") == ("/optimize\u200b rms_norm",)
    assert command_lines("/optimize rms_norm\x00") == ("/optimize rms_norm\x00",)


def test_the_first_letter_may_be_a_capital_as_phones_write_it() -> None:
    assert command_lines("/Optimize rms_norm") == ("/Optimize rms_norm",)


FULL = 65_536 - len("\n/optimize x")
HARD = {
    "brackets": "[" * FULL,
    "backticks": "".join("`" * n + " " for n in range(1, 360)),
    "links": "[a](" * (FULL // 4),
    "stars": "*a_" * (FULL // 3),
    "angles": "<" * FULL,
    "comments": "a <!-- x" * (FULL // 8),
    "quotes": ">" * FULL,
    "lists": "- " * (FULL // 2),
    "dashes": "-\n" * (FULL // 2),
    "entities": "&" * FULL,
    "commands": "/optimize\n" * (FULL // 10),
    "ticked": "`/optimize a\n" * (FULL // 13),
    "table": "|a" * 100 + "\n" + "|-" * 100 + "\n" + ("|" * 100 + "\n") * 600,
    "details": "<details>\n\n" * (FULL // 11),
}


@pytest.mark.parametrize("kind", HARD)
def test_the_longest_comment_is_read_in_seconds_whatever_it_is_made_of(kind: str) -> None:
    started = time.process_time()
    command_lines(HARD[kind] + "\n/optimize x")
    assert time.process_time() - started < 8, "of processor time: a busy machine is no long comment"


SIGNS = "/optimize ` ``` ~~~ <!-- --> <details> </details> <div> | --- [ ]( ) \\ * x é"
SPACES = [" rms_norm", "\n", "\n\n", "\r\n", "\r", "> ", "- ", "    ", "\t", "\x00", "\u200b", "\u2028"]
PIECES = st.sampled_from([*SIGNS.split(), *SPACES])


@settings(max_examples=many(400))
@given(st.lists(PIECES, max_size=30).map("".join) | st.text(max_size=80))
def test_whatever_is_found_stood_at_the_beginning_of_a_line(comment: str) -> None:
    lines = [line.lstrip(" `").lower() for line in comment.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    for found in command_lines(comment):
        assert found.lower().startswith("/optimize")
        assert any(line.startswith(found.lower()) for line in lines)


@settings(max_examples=many(200))
@given(st.lists(PIECES, max_size=30).map("".join))
def test_the_quick_look_never_misses_a_command(comment: str) -> None:
    assert looks_like_command(comment) or command_lines(comment) == ()


@settings(max_examples=many(200))
@given(st.lists(PIECES, max_size=30).map("".join))
def test_a_comment_that_is_quoted_holds_no_command_whatever_it_holds(comment: str) -> None:
    lines = comment.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    assert command_lines("\n".join(f"> {line}" for line in lines)) == ()
