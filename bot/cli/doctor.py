"""`kernelwright doctor`: what this machine and this repository still lack, and what to do about each."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import click

from bot.errors import UserError
from bot.forge.rights import GITHUB, Api, Asked, open_api
from bot.model.health import Health, Probe, not_checked
from bot.model.reasons import ReasonCode
from bot.model.sweep import Labels
from bot.targets.contract import CONFIG, read_config

GLYPHS = {Health.OK: "✔", Health.WARNING: "!", Health.MISSING: "✘", Health.NOT_CHECKED: "?"}
NEEDS_WORK = 3
"""Exit code when something is missing; warnings alone are 0."""


def _machine(where: str, python: str, scratch: Path) -> Iterator[Probe]:
    from bot.bench.probes import ANYWHERE, EVERYWHERE, HOSTED, RUNNER, ThisMachine

    machine = ThisMachine(scratch)
    asked = {"runner": (*EVERYWHERE, *RUNNER), "hosted": (*EVERYWHERE, *HOSTED)}
    for look in asked.get(where, ANYWHERE):
        yield look(machine, python)


def _runner_variable(environment: Mapping[str, str]) -> tuple[Labels, ...]:
    """Labels from KERNELWRIGHT_RUNNER, which is JSON: a word or a list of them."""
    text = environment.get("KERNELWRIGHT_RUNNER", "")
    if not text:
        return ()
    try:
        found = json.loads(text)
    except ValueError:
        found = text
    names = [found] if isinstance(found, str) else found
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        hint = 'set it like ["self-hosted", "gpu"]'
        raise UserError("KERNELWRIGHT_RUNNER: it is no list of labels", hint=hint, reason=ReasonCode.CONFIG_INVALID)
    return (tuple(names),)


def _labels(environment: Mapping[str, str], checkout: Path) -> tuple[Labels, ...]:
    """Every kind of runner that jobs are sent to: the repository variable's, and the sweep's pools."""
    config = checkout / CONFIG
    pools = read_config(config.read_bytes() if config.is_file() else None).sweep.pools
    return tuple(dict.fromkeys((*_runner_variable(environment), *pools.values())))


def github_probes(
    environment: Mapping[str, str], checkout: Path, connect: Callable[[str, str, str], Api]
) -> Iterator[Probe]:
    """Asked where a token and a repository are named; said where they are not."""
    token, repo = environment.get("KERNELWRIGHT_TOKEN", ""), environment.get("GITHUB_REPOSITORY", "")
    if not token or not repo:
        todo = "set KERNELWRIGHT_TOKEN and GITHUB_REPOSITORY=owner/name, or run it in a job of the workflows"
        yield not_checked("GitHub", "no token or no repository is named", todo)
        return
    number = environment.get("KERNELWRIGHT_BOT_ID", "")
    asked = Asked(
        api=connect(environment.get("GITHUB_API_URL") or "https://api.github.com", repo, token),
        bot_id=int(number) if number.isdecimal() else None,
        labels=_labels(environment, checkout),
    )
    for probe in GITHUB:
        yield probe(asked)


def _as_text(probes: list[Probe]) -> str:
    width = max(len(probe.name) for probe in probes)
    lines = []
    for probe in probes:
        lines.append(f"{GLYPHS[probe.health]} {probe.health:<11}  {probe.name:<{width}}  {probe.found}")
        lines += [f"{'':<{width + 17}}-> {probe.todo}"] * bool(probe.todo)
    counts = ", ".join(f"{sum(p.health is health for p in probes)} {health}" for health in Health)
    return "\n".join([*lines, "", counts])


@click.command()
@click.option("--runner", "where", flag_value="runner", help="Only what a machine that measures needs.")
@click.option("--hosted", "where", flag_value="hosted", help="Only what a hosted job and the repository need.")
@click.option("--python", default=sys.executable, show_default="this one", help="The target's Python.")
@click.option(
    "--repo", "checkout", type=click.Path(path_type=Path, exists=True, file_okay=False), default=".",
    help="The checkout with kernelwright.toml.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")
def doctor(where: str | None, python: str, checkout: Path, as_json: bool) -> int:
    """Look at this machine, this token and this repository, and say what to do. Changes nothing.

    Exit code 3 when something is missing, else 0.
    """
    scratch = Path(os.environ.get("RUNNER_TEMP") or ".")
    probes = list(_machine(where or "", python, scratch if scratch.is_dir() else Path()))
    if where != "runner":
        probes += github_probes(os.environ, checkout, open_api)
    code = NEEDS_WORK if any(probe.health is Health.MISSING for probe in probes) else 0
    if as_json:
        listed = [probe.model_dump(mode="json") for probe in probes]
        click.echo(json.dumps({"schema_version": 1, "exit_code": code, "probes": listed}, indent=2))
    else:
        click.echo(_as_text(probes))
    return code
