"""`kernelwright action`: what action.yml runs. It turns the inputs into the command of one zone, and runs that."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from bot.cli.entry import cli
from bot.cli.jobs import BUNDLE, Bundle, is_off
from bot.errors import UserError
from bot.model.campaign import Zone
from bot.model.reasons import ReasonCode
from bot.model.sweep import Labels, cell_of
from bot.settings import Inputs, read_inputs
from bot.targets.contract import CONFIG, read_config


def write_order(taken: str, scratch: Path) -> Path:
    """The order for `measure`, out of the result of the job that took it. What is in it, measure checks."""
    try:
        found = json.loads(taken)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not found.get("order"):
        raise UserError(
            "input order: it holds no order",
            hint="give it the `result` output of the job that took the order",
            reason=ReasonCode.CONFIG_INVALID,
        )
    path = scratch / BUNDLE
    path.write_text(json.dumps({name: found[name] for name in Bundle.model_fields if name in found}), encoding="utf-8")
    return path


def words(inputs: Inputs) -> tuple[str, ...]:
    """The command line of a zone. Nothing here passes through a shell."""
    campaign = ("--campaign", str(inputs.campaign))
    match inputs.zone:
        case "take" if cell_of(str(inputs.campaign)) is not None:
            return ("sweep", "start", *campaign)
        case "take":
            return ("publish", *campaign)
        case "publish":
            return ("publish", *campaign, *(("--segment", str(inputs.segment)) if inputs.segment else ()))
        case "push":
            return ("push", *campaign)
        case "measure":
            return (
                *("measure", "--order", str(write_order(inputs.order, inputs.scratch))),
                *("--repository", str(inputs.repository), "--trusted", str(inputs.workspace)),
                *("--out", str(inputs.segment)),
                *("--scratch", str(inputs.scratch / "kernelwright-scratch"), "--evidence", inputs.evidence),
            )
        case _:
            return tuple(inputs.zone.split("-"))


def runner_of(pool: str, inputs: Inputs, config: bytes | None) -> Labels:
    """The labels of the machine for this order: its pool's, or those of the repository variable.

    Whatever was written in a comment, labels come from what the repository says.
    """
    pools = read_config(config).sweep.pools
    return next((labels for name, labels in pools.items() if name == pool), inputs.runner)


def taken_pool(output: str) -> str:
    """The pool of the order that this job took, in the words of its `result` output."""
    said = [line.removeprefix("result=") for line in output.splitlines() if line.startswith("result=")]
    return str(json.loads(said[-1]).get("pool") or "") if said else ""


def _add_output(name: str, value: object, path: Path) -> None:
    """One line of JSON, which no newline can leave."""
    with path.open("a", encoding="utf-8") as out:
        out.write(f"{name}={json.dumps(value)}\n")


@click.command()
def action() -> int:
    """Run the zone that the inputs of action.yml name."""
    if is_off(Zone.DECIDE):
        return 0
    inputs = read_inputs(os.environ)
    done = cli.main(list(words(inputs)), prog_name="kernelwright", standalone_mode=False)
    if inputs.zone == "take" and inputs.output_path is not None:
        config = inputs.workspace / CONFIG
        pool = taken_pool(inputs.output_path.read_text(encoding="utf-8"))
        labels = runner_of(pool, inputs, config.read_bytes() if config.is_file() else None)
        _add_output("runner", labels, inputs.output_path)
    return done if isinstance(done, int) else 0
