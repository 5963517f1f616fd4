"""A comment's Markdown as safe HTML. Everything people write is hostile: what is not on a list here becomes text.

The Markdown parser lets raw HTML through; then one pass over the whole result keeps known tags with known attributes,
escapes the rest, and closes what was left open, so that nothing of one comment can reach the page around it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from html.parser import HTMLParser
from typing import Any, Protocol

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict

TAGS = re.compile(
    "a|b|blockquote|br|code|dd|del|details|div|dl|dt|em|h[1-6]|hr|i|img|input|kbd|li|ol|p|picture|pre|q|s|samp|source|"
    "span|strong|sub|summary|sup|table|tbody|td|tfoot|th|thead|tr|tt|ul|var"
)
VOID = frozenset({"br", "hr", "img", "input", "source"})
ALIGN = {"align": r"left|right|center"}
SPANS = {"colspan": r"\d{1,2}", "rowspan": r"\d{1,3}"}
SIZE = {"width": r"\d{1,4}", "height": r"\d{1,4}"}
ATTRIBUTES = {
    "a": {"title": r".{0,200}"},
    "code": {"class": r"language-[\w+-]{1,30}"},
    "details": {"open": r".*"},
    "div": ALIGN,
    "img": {"alt": r".{0,400}", "title": r".{0,200}", **SIZE},
    "ol": {"start": r"\d{1,6}"},
    "p": ALIGN,
    "source": {"media": r"\(prefers-color-scheme: (dark|light)\)"},
    "span": {"class": r"add|del|hunk"},
    "td": {**ALIGN, **SPANS},
    "th": {**ALIGN, **SPANS},
}
DEEPEST = 60
"""Tags inside tags; deeper ones are shown as text."""
# What these tags hold is no HTML to any parser, so they must never be seen as tags (GitHub's own rule).
RAW_TAGS = re.compile(
    r"<(?=/?(?:title|textarea|style|xmp|iframe|noembed|noframes|noscript|script|plaintext|svg|math|template)\b)", re.I
)
TASK = re.compile(r"\[([ xX])\]\s")
MENTION = re.compile(r"(?<![\w/@.-])@([A-Za-z0-9][A-Za-z0-9-]*(?:\[bot\])?)")


class Surroundings(Protocol):
    """What the page knows and a comment may point at."""

    def link(self, address: str) -> str | None:
        """Where a link may lead; None: nowhere."""

    def picture(self, address: str) -> str | None:
        """The picture itself as a data address; None when it is not one of ours."""

    def media(self, words: str) -> str:
        """When a picture for one colouring is shown."""

    def is_account(self, login: str) -> bool: ...


class Cleaner(HTMLParser):
    def __init__(self, around: Surroundings) -> None:
        super().__init__(convert_charrefs=True)
        self._around = around
        self._out: list[str] = []
        self._open: list[tuple[str, str]] = []
        """Tags that are open, each with the name it was given in the output."""

    def _attributes(self, tag: str, given: Sequence[tuple[str, str | None]]) -> dict[str, str]:
        rules = ATTRIBUTES.get(tag, {})
        kept = {name: value or "" for name, value in given}
        if "style" in kept and (aligned := re.fullmatch(r"text-align:(left|right|center)", kept["style"])):
            kept["align"] = aligned[1]
        return {name: kept[name] for name, rule in rules.items() if name in kept and re.fullmatch(rule, kept[name])}

    def _tag(self, name: str, attributes: dict[str, str]) -> None:
        words = "".join(f' {key}="{escape(value)}"' for key, value in attributes.items())
        self._out.append(f"<{name}{words}>")

    def _void(self, tag: str, given: dict[str, str], kept: dict[str, str]) -> None:
        match tag:
            case "img":
                found = self._around.picture(given.get("src", ""))
                if found:
                    self._tag("img", {**kept, "src": found})
                else:
                    self._out.append(
                        f'<span class="absent">image: {escape(kept.get("alt") or "not shown here")}</span>'
                    )
            case "source":
                found = self._around.picture(given.get("srcset", ""))
                if found and "media" in kept:
                    self._tag("source", {"media": self._around.media(kept["media"]), "srcset": found})
            case "input":
                if given.get("type") == "checkbox":
                    checked = {"checked": ""} if "checked" in given else {}
                    self._tag("input", {"type": "checkbox", "disabled": "", **checked})
            case _:
                self._tag(tag, {})

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if not TAGS.fullmatch(tag) or len(self._open) >= DEEPEST:
            self._out.append(escape(self.get_starttag_text() or ""))
            return
        kept = self._attributes(tag, attrs)
        if tag in VOID:
            self._void(tag, {name: value or "" for name, value in attrs}, kept)
            return
        name = tag
        if tag == "a":
            address = self._around.link(dict(attrs).get("href") or "")
            name = "a" if address else "span"
            kept = {**kept, "href": address, "rel": "nofollow noopener noreferrer"} if address else kept
        if tag == "table":
            self._out.append('<div class="wide">')
        self._open.append((tag, name))
        self._tag(name, kept)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def _close(self) -> str:
        tag, name = self._open.pop()
        self._out.append(f"</{name}>" + ("</div>" if tag == "table" else ""))
        return tag

    def handle_endtag(self, tag: str) -> None:
        if any(tag == open_tag for open_tag, _ in self._open):
            while self._close() != tag:
                pass
        elif not TAGS.fullmatch(tag):
            self._out.append(escape(f"</{tag}>"))

    def handle_data(self, data: str) -> None:
        text = escape(data)
        if not {"a", "code", "pre"} & {tag for tag, _ in self._open}:
            text = MENTION.sub(self._mention, text)
        self._out.append(text)

    def _mention(self, found: re.Match[str]) -> str:
        return f'<span class="mention">{found[0]}</span>' if self._around.is_account(found[1]) else found[0]

    def result(self) -> str:
        self.close()
        while self._open:
            self._close()
        return "".join(self._out)


def _without_comments(text: str) -> str:
    """Python's parser looks for the end of an unclosed comment again and again: seconds for a long one."""
    kept, at = [], 0
    while (start := text.find("<!--", at)) >= 0 and (end := text.find("-->", start)) >= 0:
        kept.append(text[at:start])
        at = end + 3
    return "".join([*kept, text[at:]]).replace("<!--", "&lt;!--")


def _raw(_: RendererHTML, tokens: Sequence[Token], index: int, *__: Any) -> str:
    return RAW_TAGS.sub("&lt;", _without_comments(tokens[index].content))


def _diff_line(line: str) -> str:
    kind = {"+": "add", "-": "del", "@": "hunk"}.get(line[:1])
    return f'<span class="{kind}">{escape(line)}</span>' if kind else f"{escape(line)}\n"


def _fence(renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: Any) -> str:
    if tokens[index].info.strip() != "diff":
        return renderer.fence(tokens, index, options, env)
    lines = "".join(map(_diff_line, tokens[index].content.splitlines()))
    return f'<pre><code class="language-diff">{lines}</code></pre>\n'


def _check_boxes(tokens: Sequence[Token]) -> None:
    """`- [x] done`: the item's text begins with a box."""
    for item, _, inline in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if item.type == "list_item_open" and inline.type == "inline" and inline.children:
            first = inline.children[0]
            found = TASK.match(first.content) if first.type == "text" else None
            if found:
                first.content = first.content[found.end() :]
                checked = "" if found[1] == " " else " checked"
                inline.children.insert(0, Token("html_inline", "", 0, content=f'<input type="checkbox"{checked}> '))


def to_html(text: str, around: Surroundings) -> str:
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    parser.add_render_rule("html_block", _raw)
    parser.add_render_rule("html_inline", _raw)
    parser.add_render_rule("fence", _fence)
    tokens = parser.parse(text.replace("\0", "\ufffd"))
    _check_boxes(tokens)
    cleaner = Cleaner(around)
    cleaner.feed(parser.renderer.render(tokens, parser.options, {}))
    return cleaner.result()
