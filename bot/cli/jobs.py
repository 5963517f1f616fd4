"""The four zone verbs, as jobs call them. Each prints one JSON object and exits."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import click

from bot.errors import UserError
from bot.ledger.layout import campaign_dir
from bot.model.campaign import Order, Zone
from bot.model.codec import from_json
from bot.model.word import Word
from bot.settings import Settings, read_settings
from bot.zones.report import ZoneReport, write_outputs
from bot.zones.switch import switched_off

MAX_BUNDLE = 2**20
BUNDLE = "order.json"


class Bundle(Word):
    """What a GPU job is handed: its order, and where the ledger stood when it was placed."""

    order: Order
    ledger_commit: str
    pinned_sha: str


def read_bundle(path: Path) -> Bundle:
    if not path.is_file() or path.is_symlink() or path.stat().st_size > MAX_BUNDLE:
        raise UserError(f"{path} is not an order", hint="give the order.json that decide or publish wrote")
    return from_json(Bundle, path.read_bytes(), what=str(path))


def write_bundle(report: ZoneReport, path: Path | None) -> None:
    if path is None or report.order is None:
        return
    bundle = Bundle(order=report.order, ledger_commit=report.ledger_commit, pinned_sha=report.pinned_sha)
    path.write_text(bundle.model_dump_json() + "\n", encoding="utf-8")


def say(report: ZoneReport, settings: Settings | None = None) -> int:
    click.echo(report.model_dump_json())
    if settings is not None:
        write_outputs(report, settings.output_path)
    return 0


def is_off(zone: Zone) -> bool:
    """The kill switch comes before everything else: not even the other variables are read."""
    report = switched_off(os.environ, zone)
    if report is None:
        return False
    click.echo(report.model_dump_json())
    output = os.environ.get("GITHUB_OUTPUT")
    write_outputs(report, Path(output) if output else None)
    return True


def _commit(context: click.Context, option: click.Parameter, sha: str | None) -> str | None:
    if sha is not None and not re.fullmatch(r"[0-9a-f]{40}", sha):
        raise UserError(f"--ledger: {sha[:60]!a} is no commit", hint="give all 40 digits, as `ledger_commit` has them")
    return sha


def campaign_name(context: click.Context, option: click.Parameter, name: str) -> str:
    campaign_dir(name)  # says what is wrong with a name that cannot be one
    return name


@click.command()
@click.option("--order-out", type=click.Path(path_type=Path), help="Where to write the order for the GPU job.")
@click.option(
    "--replay",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A saved event: say what would be decided and written, and write nothing.",
)
@click.option("--ledger", callback=_commit, help="With --replay: the ledger as it stood at this commit.")
def decide(order_out: Path | None, replay: Path | None, ledger: str | None) -> int:
    """Turn the event of this job (GITHUB_EVENT_PATH) into a campaign's next step."""
    from bot.zones.hearing import dismissed, hear

    if is_off(Zone.DECIDE):
        return 0
    settings = read_settings(os.environ)
    if replay is not None:
        from bot.zones.replay import replay as run

        click.echo(run(settings, replay.read_bytes(), ledger).model_dump_json())
        return 0
    event = hear(settings)
    report = dismissed(event)
    if report is None:
        from bot.zones.decide import act  # most of the house, for an event that matters

        report = act(event, settings)
    write_bundle(report, order_out)
    return say(report, settings)


@click.command()
@click.option(
    "--order", "order_file", required=True, type=click.Path(path_type=Path), help="The order.json to carry out."
)
@click.option(
    "--repository",
    required=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A clone that holds the pinned commit and the ledger branch.",
)
@click.option(
    "--trusted",
    required=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A checkout of the default branch, whose kernelwright.toml counts.",
)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Where to leave the segment.")
@click.option("--scratch", required=True, type=click.Path(path_type=Path), help="An empty folder for this job alone.")
@click.option("--python", default=sys.executable, show_default="this one", help="The target's Python.")
@click.option("--evidence", type=click.Choice(["auto", "measured", "static"]), default="auto", show_default=True)
def measure(
    order_file: Path, repository: Path, trusted: Path, out: Path, scratch: Path, python: str, evidence: str
) -> int:
    """Carry out one order near the GPU. Reads no token and no network."""
    if is_off(Zone.MEASURE):
        return 0
    from bot.bench.choosing import EvidenceChoice, gpu_of, opener_for
    from bot.bench.gpu import reserved
    from bot.bench.halt import halting
    from bot.git.repo import Repo
    from bot.zones.measure import Workshop
    from bot.zones.measure import measure as run

    bundle = read_bundle(order_file)
    scratch.mkdir(parents=True, exist_ok=True)
    gpu = gpu_of(EvidenceChoice(evidence))
    with reserved(gpu), halting() as halt:
        shop = Workshop(
            repo=Repo(repository),
            trusted=trusted,
            python=python,
            scratch=scratch,
            gpu=gpu,
            open_bench=opener_for(gpu),
            halt=halt,
        )
        say(run(bundle.order, bundle.ledger_commit, shop, out))
        return 1 if halt.signal else 0


@click.command()
@click.option("--campaign", required=True, callback=campaign_name, help="The campaign to go on with.")
@click.option("--segment", type=click.Path(path_type=Path), help="The folder that a GPU job left.")
@click.option("--order-out", type=click.Path(path_type=Path), help="Where to write the next order, if one is owed.")
def publish(campaign: str, segment: Path | None, order_out: Path | None) -> int:
    """Check what a GPU job left, join it to the ledger, draw the plots, tell people."""
    from bot.zones.publish import publish as run

    if is_off(Zone.PUBLISH):
        return 0
    settings = read_settings(os.environ)
    report = run(settings, campaign, segment)
    write_bundle(report, order_out)
    return say(report, settings)


@click.command()
def reconcile() -> int:
    """Close or resume what dead jobs left, and hear the reviews whose event was lost."""
    from bot.zones.reconcile import reconcile as run
    from bot.zones.reconcile import write_reconcile_outputs

    if is_off(Zone.DECIDE):
        return 0
    settings = read_settings(os.environ)
    report = run(settings)
    click.echo(report.model_dump_json())
    write_reconcile_outputs(report, settings.output_path)
    return 0


@click.command()
@click.option("--campaign", required=True, callback=campaign_name, help="The campaign whose winner was approved.")
def push(campaign: str) -> int:
    """Push the approved winner as a direct child of the pinned head."""
    from bot.zones.push import push as run

    if is_off(Zone.PUSH):
        return 0
    settings = read_settings(os.environ)
    return say(run(settings, campaign), settings)
