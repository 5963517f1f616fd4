"""Which lines of a comment are commands, read the way GitHub reads the comment.

Markdown decides what is code, quotation or hidden, so Markdown is parsed; a rule of our own, first in its row, marks
the places where a line begins with the command. Whatever swallows a line (a code span, a comment) wins by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

COMMAND = "/optimize"
_WORD = rf"{COMMAND}(?=[.,:;!?]*(?:\s|\Z)|[^\w!-~])"
"""The word itself: not `/optimizer`, not the path `/optimize/x.py`, not `/optimize's`."""
_PLAIN = re.compile(_WORD, re.IGNORECASE)
_IN_BACKTICKS = re.compile(
    rf"(?P<ticks>`+) ?(?P<line>{COMMAND}(?=[\s`])[^`\n]*)(?P=ticks)(?!`)[.,:;!?]*[ \t]*(?=\n|\Z)", re.IGNORECASE
)
"""A whole line in backticks is how Nanosoldier's users had learnt to write commands; it is forgiven here."""
_AT_MARGIN = re.compile(rf"^ {{0,3}}(?:{_WORD}|`+ ?{COMMAND})", re.IGNORECASE | re.MULTILINE)
"""Four spaces or a tab are how people write code, also where Markdown takes them for a continued paragraph."""
_HTML_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_SHELTER = re.compile(r"<(/?)(?:blockquote|code|details|kbd|pre|samp|table)\b", re.IGNORECASE)
"""HTML that GitHub keeps and people use to quote, to show or to fold away."""


def _starts_line(state: StateInline) -> bool:
    start = state.src.rfind("\n", 0, state.pos) + 1
    return not state.src[start : state.pos].strip(" \t")


def _command_rule(state: StateInline, silent: bool) -> bool:
    """Consumes the word alone (or a line in backticks), so that what opens behind it still hides the lines below."""
    if state.src[state.pos] not in "/`" or not _starts_line(state):
        return False
    found = _PLAIN.match(state.src, state.pos) or _IN_BACKTICKS.match(state.src, state.pos)
    if found is None:
        return False
    if not silent:
        token = state.push("command", "", 0)
        token.content = found.groupdict().get("line") or ""
        token.meta = {"row": state.src.count("\n", 0, state.pos), "in_link": state.linkLevel > 0}
    state.pos = found.end()
    return True


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark").enable("table")
    # The dashes of a signature would turn the command above them into a heading.
    parser.disable("lheading")
    parser.inline.ruler.before("text", "command", _command_rule)
    return parser


_PARSER = _parser()


def _outside_quotes(tokens: Iterable[Token]) -> Iterator[Token]:
    """Blocks and the pieces of their text. Commands learn their row in the comment and whether a list is open."""
    quotes = lists = 0
    parent = ""
    for token in tokens:
        if token.type.startswith("blockquote"):
            quotes += token.nesting
        elif token.type.startswith("list_item"):
            lists += token.nesting
        if not quotes:
            yield token
            for child in token.children or ():
                if child.type == "command" and token.map:
                    child.meta |= {"row": child.meta["row"] + token.map[0], "in_list": lists > 0, "parent": parent}
                yield child
        parent = token.type


def _counts(command: Token, line: str) -> bool:
    """Text of a list item is not a command, but a line at the margin right below a list is one."""
    if command.meta["parent"] != "paragraph_open" or command.meta["in_link"]:
        return False
    return _AT_MARGIN.match(line) is not None and not (command.meta["in_list"] and line[0] == " ")


def _opened(html: str) -> int:
    """How many sheltering elements a piece of HTML leaves open; negative when it closes more than it opens."""
    return sum(-1 if slash else 1 for slash in _SHELTER.findall(_HTML_COMMENT.sub("", html)))


def _lines(text: str) -> str:
    return re.sub(r"\r\n?", "\n", text)


def looks_like_command(text: str) -> bool:
    """A quick look without Markdown. It may say yes too often, never no too often."""
    return _AT_MARGIN.search(_lines(text)) is not None


def command_lines(text: str) -> tuple[str, ...]:
    """The lines that begin with the command outside code, quotations, lists, tables and hidden text."""
    if not looks_like_command(text):
        return ()
    lines = _lines(text).split("\n")
    found: list[str] = []
    shelter = 0
    for token in _outside_quotes(_PARSER.parse(_lines(text))):
        if token.type in ("html_block", "html_inline"):
            shelter = max(0, shelter + _opened(token.content))
        elif token.type == "command" and not shelter and _counts(token, lines[token.meta["row"]]):
            found.append(token.content.strip() or lines[token.meta["row"]].strip(" \t"))
    return tuple(found)
