"""Strangers' text on its way into Markdown. Whatever is not `Trusted` is escaped, so forgetting is safe.

GitHub looks for mentions and references after Markdown was rendered, in the text nodes: a backslash or an entity does
not stop them, a zero-width space does.
"""

from __future__ import annotations

import html
import re
import unicodedata
from functools import lru_cache

CELL_LIMIT = 400
"""Characters of one inline text; a sentence, not a log."""
SENTENCE_LIMIT = 900
"""Of what is said in a line of its own: three clauses with the names of cases in them."""
CODE_LIMIT = 200
FENCE_LIMIT = 4000
FENCE_LINES = 60
FENCE_LINE_LIMIT = 400
BREAK = "\u200b"
"""Zero-width space. `plain` lets none through, so each one in a text is ours."""
SPACES = frozenset("\t\n\v\f\r\x1c\x1d\x1e\x1f\x85\u2028\u2029")


class Trusted(str):
    """Markdown we wrote ourselves, or a stranger's text that went through an escape."""

    __slots__ = ()


def _visible(char: str) -> str:
    """Control, bidirectional, zero-width and unassigned characters never reach a reader."""
    if char in SPACES:
        return " "
    return "" if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") else char


def _shown(line: str) -> str:
    return line if line.isprintable() else "".join(map(_visible, line))


def visible(line: str) -> str:
    """Nothing in it that hides, or turns round what stands beside it; tabs stay."""
    return line if line.isprintable() else "\t".join(map(_shown, line.split("\t")))


def plain(value: object, limit: int = CELL_LIMIT) -> str:
    """One line of readable characters, capped. Not yet safe for Markdown."""
    whole = str(value)
    text = " ".join(_shown(whole[: 4 * limit]).split())
    if len(text) > limit or len(whole) > 4 * limit:
        return text[: limit - 1].rstrip() + "…"
    return text


def _no_references(shown: str) -> str:
    """Nobody is called, no issue is linked, no address becomes a link."""
    shown = re.sub(r"@(?=[\w-])", "@" + BREAK, shown)
    shown = re.sub(r"#(?=\d)", "#" + BREAK, shown)
    shown = re.sub(r"\b(GH-)(?=\d)", r"\1" + BREAK, shown, flags=re.IGNORECASE)
    shown = re.sub(r":(?=//)", ":" + BREAK, shown)
    return re.sub(r"\b(www)(?=\.)", r"\1" + BREAK, shown, flags=re.IGNORECASE)


def _quiet_start(shown: str) -> str:
    """A heading, rule or list marker at the start of a line becomes plain characters."""
    shown = re.sub(r"^([#=+-]+)(?=\s|$)", r"\\\1", shown)
    return re.sub(r"^(\d+)([.)])(?=\s|$)", r"\1\\\2", shown)


def _escaped(shown: str) -> str:
    out = html.escape(_no_references(shown), quote=False)
    out = re.sub(r"([\\`*\[\]|~$])", r"\\\1", out)
    out = re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", out)
    out = re.sub(r"(?<!\S)/", "&#47;", out)
    return out.replace(BREAK, "&#8203;")


def _span(shown: str) -> str:
    """Inline code. A pipe would end a cell and a backtick the span, so such text gets a tag instead."""
    return f"<code>{_escaped(shown)}</code>" if re.search(r"[`|\\]", shown) or not shown.strip() else f"`{shown}`"


def text(value: object, limit: int = CELL_LIMIT) -> Trusted:
    """For running text and table cells alike. Words between single backticks become code, which is inert too."""
    return value if isinstance(value, Trusted) else _inline(plain(value, limit))


@lru_cache(maxsize=4096)
def _inline(shown: str) -> Trusted:
    """A page that is too long is made again, with fewer of the same cells."""
    parts = re.split(r"(?<!`)`([^`]{1,80})`(?!`)", shown)
    out = "".join(_span(part) if i % 2 else _escaped(part) for i, part in enumerate(parts))
    return Trusted(_quiet_start(out))


def code(value: object, limit: int = CODE_LIMIT) -> Trusted:
    return Trusted(_span(plain(value, limit)))


def attribute(value: object, limit: int = CELL_LIMIT) -> Trusted:
    """For an HTML attribute or a line of raw HTML, where Markdown's own escapes would be shown."""
    out = html.escape(_no_references(plain(value, limit)), quote=True)
    return Trusted(out.replace(BREAK, "&#8203;"))


def _quiet_line(line: str) -> str:
    """A line of a block. One that begins with a slash is moved away from the margin: it might be a command."""
    shown = visible(line[:FENCE_LINE_LIMIT])
    shown += "…" if len(line) > FENCE_LINE_LIMIT else ""
    return f"| {shown}" if re.match(r"\s*/", shown) else shown


def visible_lines(value: object, most: int, longest: int = FENCE_LINE_LIMIT) -> list[str]:
    """Lines of a stranger's text with nothing in them that a reader cannot see. Not yet safe for Markdown or HTML."""
    rows = re.sub(r"\r\n?", "\n", str(value)[: most * longest]).split("\n")
    shown = [visible(row[:longest]) for row in rows[:most]]
    return [*shown, f"... ({len(rows) - most} more lines)"] if len(rows) > most else shown


def _end_of(text: str, limit: int, lines: int) -> list[str]:
    kept = text[-limit:].split("\n")
    return kept[-lines:]


def _start_of(text: str, limit: int, lines: int) -> list[str]:
    return text[:limit].split("\n")[:lines]


def fence(
    value: object, language: str = "", *, limit: int = FENCE_LIMIT, lines: int = FENCE_LINES, tail: bool = False
) -> Trusted:
    """A code block whose fence is longer than any run of backticks inside. `tail` keeps the end of a log."""
    whole = re.sub(r"\r\n?", "\n", str(value)).strip("\n")
    kept = (_end_of if tail else _start_of)(whole, limit, lines)
    shown = [_quiet_line(line) for line in kept]
    if len("\n".join(kept)) < len(whole):
        note = f"... ({len(whole)} characters in all)"
        shown = [note, *shown] if tail else [*shown, note]
    body = "\n".join(shown)
    ticks = "`" * max(3, 1 + max(map(len, re.findall("`+", body)), default=0))
    return Trusted(f"{ticks}{language}\n{body}\n{ticks}")


def paragraphs(value: object, limit: int = FENCE_LIMIT) -> Trusted:
    """Text of several paragraphs, each escaped by itself."""
    parts = re.split(r"\n\s*\n", re.sub(r"\r\n?", "\n", str(value)[: 4 * limit]))
    return Trusted("\n\n".join(text(part, limit) for part in parts if part.strip()))


def message(value: object, limit: int = CELL_LIMIT) -> str:
    """For a commit message: GitHub reads mentions, closing words and skip marks there too, and it knows no escapes."""
    out = re.sub(r"@(?=[\w-])", "@ ", plain(value, limit))
    out = re.sub(r"#(?=\d)", "# ", out)
    out = re.sub(r"\b(GH)-(?=\d)", r"\1 ", out, flags=re.IGNORECASE)
    return out.replace("[", "(").replace("]", ")")


def one_command(value: object) -> str:
    """A ready-to-paste command line, or nothing when the text is not one."""
    line = plain(value, CODE_LIMIT)
    return line if re.fullmatch(r"/optimize(?: [ -~]*)?", line) and "`" not in line else ""
