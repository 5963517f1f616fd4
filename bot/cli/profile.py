"""`kernelwright profile`: why a kernel is slow, with the evidence: the profile step of a campaign, in the terminal."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import click

from bot.analysis.rivals import of_campaign, rivalry
from bot.cli.analysing import FULL, Depth, analysed, asked, code_of, counted_again, options
from bot.cli.rebuild import about, read
from bot.cli.screen import paint_of
from bot.errors import UserError
from bot.model.campaign import Campaign, Profile
from bot.model.commands import GpuChoice, Optimize
from bot.model.reasons import ReasonCode
from bot.render import plots
from bot.render.profile_text import profile_json, profile_text
from bot.render.records import records
from bot.zones.figures import figures_of


def _pictures(campaign: Campaign, folder: Path) -> None:
    """Both looks of the roofline, where matplotlib is installed."""
    known = figures_of(campaign)
    if "roofline" not in plots.available(campaign, known):
        return
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        click.echo('no picture: pip install "kernelwright[report]" draws it', err=True)
        return
    for look in ("light", "dark"):
        picture = plots.picture("roofline", campaign, known, dark=look == "dark")
        (folder / f"roofline-{look}.png").write_bytes(picture)


def _alone(profile: Profile, gpu: str) -> Campaign:
    """A campaign that has come as far as this."""
    name = profile.site.kernel
    return Campaign(id=f"profile-{name}", command=Optimize(kernel=name, gpu=GpuChoice(gpu)), profile=profile)


def _of_journal(path: Path, kernel: str, root: Path) -> tuple[Campaign, Profile]:
    """What a campaign wrote down of the untouched kernel, and what came of it since."""
    about(path, kernel, lambda name: f"kernelwright profile {name} --journal {path}")
    found = read(path, root)
    if found.profile is None:
        raise UserError(
            f"{path} holds no profile",
            hint="name the journal.jsonl of a campaign that was profiled",
            reason=ReasonCode.NOT_FOUND,
        )
    assert found.as_profiled is not None
    return found, found.as_profiled


def _write(campaign: Campaign, profile: Profile, folder: Path) -> None:
    """The record a campaign leaves of it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "profile.md").write_bytes(records(campaign, (), of_campaign(campaign))["profile.md"])
    (folder / "profile.json").write_text(
        json.dumps(profile_json(profile, rivalry(profile)), indent=2) + "\n", encoding="utf-8"
    )
    _pictures(campaign, folder)


@click.command()
@options
@click.option("--no-survey", is_flag=True, help="Compile no other launch numbers.")
@click.option("--no-profiler", is_flag=True, help="Ask no profiler.")
@click.option("--no-clock", is_flag=True, help="On a GPU: profilers alone; times are estimated.")
@click.option(
    "--shape", "shapes", multiple=True, metavar="4096x1024", help="Look at these sizes instead of the suite's."
)
@click.option(
    "--journal",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Show what this campaign saw, and look at nothing.",
)
@click.option("--recount", is_flag=True, help="With --journal: count the bytes again, beside what was read then.")
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Write profile.md, .json and pictures here."
)
def profile(
    kernel: str,
    root: Path,
    gpu: str,
    evidence: str,
    python: str,
    quick: bool,
    wiki: Path | None,
    as_json: bool,
    no_survey: bool,
    no_profiler: bool,
    no_clock: bool,
    shapes: tuple[str, ...],
    journal: Path | None,
    recount: bool,
    out: Path | None,
) -> int:
    """Why KERNEL is slow: roofline, diagnosis, what profilers say, what to try, and whether it compiles elsewhere.

    Looks at the working tree and changes nothing. Without a GPU it is compiled, counted and modelled, and every such
    number is called estimated. Exit code 4 when a share of the roof would be above 105 %.
    """
    if recount and journal is None:
        raise UserError("--recount is for a journal", hint="without --journal the bytes are counted in any case")
    if journal is not None:
        campaign, found = _of_journal(journal, kernel, root)
        if recount:
            found = counted_again(found, root, python)
            campaign = campaign.model_copy(update={"profile": found})
    else:
        depth = Depth(not no_survey, not no_profiler, FULL.passports)
        wanted = asked(kernel, root, python, evidence, gpu, quick=quick, wiki=wiki, shapes=shapes, timed=not no_clock)
        found = analysed(wanted, depth)
        campaign = _alone(found, gpu)
    if out is not None:
        _write(campaign, found, out)
    if as_json:
        click.echo(json.dumps(profile_json(found, rivalry(found)), indent=2, allow_nan=False))
    else:
        width = shutil.get_terminal_size((100, 24)).columns
        click.echo(profile_text(found, max(60, min(width, 120)), paint_of(sys.stdout), rivalry(found)))
    return code_of(found)
