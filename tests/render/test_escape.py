"""Strangers' text shows as the characters it is, and does nothing else."""

from __future__ import annotations

import html
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from bot.render import escape

MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])
ANYTHING = st.text(max_size=120) | st.text(alphabet="`*_~[]()<>#@|\\/!&$-+=1. \n\tab:w", max_size=60)


def rendered(markdown: str) -> tuple[set[str], str]:
    """What kinds of things the Markdown became, and the words a reader sees."""
    kinds, words = set(), []
    for token in MARKDOWN.parse(markdown):
        kinds.add(token.type)
        for child in token.children or ():
            kinds.add(child.type)
            words.append(child.content)
    return kinds, "".join(words).replace("\u200b", "")


@given(ANYTHING)
@example("/optimize approve v99")
@example("- [x] done")
@example("1. first")
@example("<!-- kernelwright:v1 key=forged -->")
@example("&lt;b&gt;")
@example("a __b__ _c_ d_e_f")
def test_text_reads_as_it_was_written(given: str) -> None:
    given = given.replace("`", "'")
    kinds, words = rendered(escape.text(given))
    assert words == escape.plain(given)
    assert kinds <= {"paragraph_open", "paragraph_close", "inline", "text", "text_special"}


@given(ANYTHING)
@example("`` `a` ``")
@example("`a|b`")
@example("`<b>`")
def test_backticks_make_code_and_nothing_else(given: str) -> None:
    kinds, _ = rendered(escape.text(given))
    known = {"paragraph_open", "paragraph_close", "inline", "text", "text_special", "code_inline", "html_inline"}
    assert kinds <= known
    tags = re.findall(r"<[^>]*>", re.sub(r"`[^`]*`", "", escape.text(given)))
    assert set(tags) <= {"<code>", "</code>"}


@given(ANYTHING)
@example(" | ")
@example("\\|")
def test_no_cell_is_broken(given: str) -> None:
    table = f"| a | b |\n|---|---|\n| {escape.text(given)} | {escape.code(given)} |\n"
    cells = [token for token in MARKDOWN.parse(table) if token.type == "td_open"]
    assert len(cells) == 2


@given(ANYTHING)
def test_no_line_begins_with_a_slash(given: str) -> None:
    for shown in (escape.text(given), escape.code(given), escape.fence(given), escape.paragraphs(given)):
        assert not any(re.match(r"\s*/", line) for line in shown.split("\n"))


@given(ANYTHING)
@example("````\n</details>\n~~~")
@example("`" * 50)
def test_a_block_holds_all_of_its_text(given: str) -> None:
    tokens = MARKDOWN.parse(escape.fence(given, "text"))
    assert [token.type for token in tokens] == ["fence"]


@pytest.mark.parametrize("name", ["@everyone", "@org/team", "mail@host.io"])
def test_nobody_is_called(name: str) -> None:
    assert not re.search(r"@[\w-]", html.unescape(escape.text(name)))
    assert not re.search(r"@[\w-]", html.unescape(escape.attribute(name)))
    assert not re.search(r"@[\w-]", escape.message(name))


@pytest.mark.parametrize(
    "reference", ["#123", "owner/repo#7", "GH-12", "gh-12", "https://evil.example", "www.evil.example"]
)
def test_nothing_is_linked(reference: str) -> None:
    shown = html.unescape(escape.text(f"fixes {reference}"))
    assert reference not in shown
    assert shown.replace("\u200b", "") == f"fixes {reference}"


def test_hidden_characters_are_taken_out() -> None:
    assert escape.plain("a\u202eb\u2066c\x00d\x1b[31me\u200bf\ufeffg\U000e0041h") == "abcd[31mefgh"
    assert escape.plain("one\ntwo\r\n\tthree\u2028four") == "one two three four"


def test_length_is_capped_with_a_sign() -> None:
    assert escape.plain("x" * 400) == "x" * 400
    assert escape.plain("x" * 401) == "x" * 399 + "…"
    assert len(escape.plain("y" * 1_000_000)) == 400
    assert escape.plain(" " * 1_000_000 + "x").endswith("…")


def test_a_long_block_says_how_long_it_was() -> None:
    lines = "\n".join(f"line {i}" for i in range(100))
    start, end = escape.fence(lines, lines=3), escape.fence(lines, lines=3, tail=True)
    assert start == f"```\nline 0\nline 1\nline 2\n... ({len(lines)} characters in all)\n```"
    assert end == f"```\n... ({len(lines)} characters in all)\nline 97\nline 98\nline 99\n```"


def test_a_block_of_paths_stays_readable() -> None:
    assert (
        escape.fence("/usr/lib/a.py:1\n  /optimize approve\nok")
        == "```\n| /usr/lib/a.py:1\n|   /optimize approve\nok\n```"
    )


def test_trusted_text_is_left_alone() -> None:
    assert escape.text(escape.Trusted("**ours**")) == "**ours**"


@pytest.mark.parametrize(
    ("given", "safe"),
    [
        ("fixes #12, @triton.jit [skip ci]", "fixes # 12, @ triton.jit (skip ci)"),
        ("one\n\nCo-authored-by: x <x@y>", "one Co-authored-by: x <x@ y>"),
        ("GH-7", "GH 7"),
    ],
)
def test_a_commit_message_calls_closes_and_skips_nothing(given: str, safe: str) -> None:
    assert escape.message(given) == safe


@pytest.mark.parametrize(
    ("given", "paste"),
    [
        ("/optimize rms_norm goal=speed", "/optimize rms_norm goal=speed"),
        ("/optimize", "/optimize"),
        ("  /optimize help\n", "/optimize help"),
        ("/optimize a\n/optimize approve", "/optimize a /optimize approve"),
        ("/optimizer", ""),
        ("rm -rf /", ""),
        ("/optimize `x`", ""),
        ("/optimize é", ""),
        ("", ""),
    ],
)
def test_only_a_command_can_be_pasted(given: str, paste: str) -> None:
    assert escape.one_command(given) == paste
