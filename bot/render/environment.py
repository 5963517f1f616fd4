"""Jinja with our own kind of escaping: whatever a template prints is Markdown-escaped unless it is Trusted.

Jinja's `autoescape` knows HTML only, and joins escaped and raw text by HTML's rules; `finalize` sees every printed
value, so one function decides. A missing value, None or a bare float is a mistake of ours and raises.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

import bot
from bot.errors import OperatorError
from bot.render import escape, numbers
from bot.render.escape import Trusted


def templates_dir() -> Path:
    """In an installed wheel inside the package, in a checkout beside it."""
    package = Path(bot.__file__).parent
    for folder in (package / "_templates", package.parent / "templates"):
        if folder.is_dir():
            return folder
    raise OperatorError("the templates are missing", hint="install kernelwright again; the wheel carries them")


def _printed(value: object) -> str:
    if isinstance(value, Trusted):
        return value
    if value is None or isinstance(value, float | bool | bytes | list | tuple | dict):
        raise TypeError(f"a template printed {value!r}: say it in words, or with a function of numbers.py")
    return escape.text(value)


def _filters() -> dict[str, Any]:
    return {
        "trusted": Trusted,
        "text": escape.text,
        "code": escape.code,
        "fence": escape.fence,
        "attribute": escape.attribute,
        "paragraphs": escape.paragraphs,
        "duration": numbers.duration,
        "ratio": numbers.ratio,
        "percent": numbers.percent,
        "size": numbers.size,
        "seconds": numbers.seconds,
        "many": numbers.many,
        "short": lambda sha: sha[:7],
    }


@lru_cache(maxsize=1)
def environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(templates_dir()),
        undefined=StrictUndefined,
        finalize=_printed,
        autoescape=False,
        lstrip_blocks=True,
    )
    made.filters.update(_filters())
    return made


def tidy(body: str) -> str:
    """Tags leave empty lines behind, so that forgetting one never joins two paragraphs; here they are taken out.

    No trailing blanks and never two empty lines in a row, except inside a code block.
    """
    kept: list[str] = []
    fence = ""
    for line in body.strip("\n").split("\n"):
        found = re.match(r"`{3,}", line)
        if found and not fence:
            fence = found.group()
        elif fence and line.strip() == fence:
            fence = ""
        shown = line if fence else line.rstrip()
        if shown or fence or (kept and kept[-1]):
            kept.append(shown)
    return "\n".join(kept) + "\n"


def render(template: str, /, **values: object) -> str:
    return tidy(environment().get_template(template).render(**values))
