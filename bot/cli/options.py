"""Options that several commands have, each told once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


class Whole(click.IntRange):
    """What click would call an integer range: a word that is no number is told what was expected of it."""

    name = "whole number"


class Number(click.FloatRange):
    name = "number"


def in_repository(words: str) -> Callable[[F], F]:
    """`--repo FOLDER`, this folder if left out; the command gets it as `repo`. `words`: what it is used for."""
    return click.option(
        "--repo",
        type=click.Path(path_type=Path, exists=True, file_okay=False),
        default=".",
        show_default="this folder",
        help=words,
    )
