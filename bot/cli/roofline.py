"""`kernelwright roofline`: how near each case of a kernel is to what the GPU can do, and nothing else."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import click

from bot.cli.analysing import ROOF, analysed, asked, code_of, options
from bot.cli.screen import paint_of
from bot.render.profile_text import roofline_json, roofline_text


@click.command()
@options
def roofline(
    kernel: str, root: Path, gpu: str, evidence: str, python: str, quick: bool, wiki: Path | None, as_json: bool
) -> int:
    """Bytes, work, intensity, ridge, bound and share of the roof of each case of KERNEL, each ceiling with its source.

    Looks at the working tree and changes nothing. Exit code 4 when a share would be above 105 %: then something was
    counted or timed wrong, and the share is not shown.
    """
    profile = analysed(asked(kernel, root, python, evidence, gpu, quick=quick, wiki=wiki), ROOF)
    if as_json:
        click.echo(json.dumps(roofline_json(profile), indent=2, allow_nan=False))
    else:
        width = shutil.get_terminal_size((100, 24)).columns
        click.echo(roofline_text(profile, max(60, min(width, 120)), paint_of(sys.stdout)))
    return code_of(profile)
