"""`kernelwright sweep`: tonight's order, one campaign of it, and the dashboard. Each prints one JSON object."""

from __future__ import annotations

import os
from pathlib import Path

import click

from bot.cli.jobs import campaign_name, is_off, say, write_bundle
from bot.model.campaign import Zone
from bot.settings import read_settings


@click.group()
def sweep() -> None:
    """Go through the repository's kernels while nobody waits. Off until kernelwright.toml enables it."""


@sweep.command()
def plan() -> int:
    """Order the kernels, say why, and write the matrix for the workflow."""
    from bot.zones.sweep import plan as run
    from bot.zones.sweep import write_sweep_outputs

    if is_off(Zone.DECIDE):
        return 0
    settings = read_settings(os.environ)
    report = run(settings)
    for line in report.lines:
        click.echo(line, err=True)
    click.echo(report.model_dump_json())
    write_sweep_outputs(report, settings.output_path)
    return 0


@sweep.command()
@click.option("--campaign", required=True, callback=campaign_name, help="One name from the matrix.")
@click.option("--order-out", type=click.Path(path_type=Path), help="Where to write the order for the GPU job.")
def start(campaign: str, order_out: Path | None) -> int:
    """Begin one campaign of tonight, or go on with it. People who wait go first."""
    from bot.zones.sweep import start as run

    if is_off(Zone.DECIDE):
        return 0
    settings = read_settings(os.environ)
    report = run(settings, campaign)
    write_bundle(report, order_out)
    return say(report, settings)


@sweep.command()
def dashboard() -> int:
    """Bring the dashboard up to date, and open an issue for each confirmed regression."""
    from bot.zones.notice import write_dashboard
    from bot.zones.sweep import write_sweep_outputs

    if is_off(Zone.DECIDE):
        return 0
    settings = read_settings(os.environ)
    report = write_dashboard(settings)
    click.echo(report.model_dump_json())
    write_sweep_outputs(report, settings.output_path)
    return 0
