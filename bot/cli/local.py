"""`kernelwright optimize`: the same campaign on a local checkout, with the terminal as its conversation.

Nothing in the working tree is changed: records go to optimization/<kernel>/, which git does not see, and the winner
becomes one commit on a branch of its own.
"""

from __future__ import annotations

import json
import math
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click

from bot.analysis.rivals import of_campaign
from bot.bench.choosing import EvidenceChoice, gpu_of
from bot.bench.gpu import reserved
from bot.bench.interpreter import look_at
from bot.campaign.machine import fold
from bot.cli import resume as resuming
from bot.cli import tried
from bot.cli.local_desk import ME, Desk, Stopped
from bot.cli.options import Whole
from bot.cli.resume import Resumed
from bot.cli.screen import Screen, voice_of
from bot.cli.wiki import option as wiki_option
from bot.errors import CorruptRecord, OperatorError, UserError
from bot.git.local import current_branch, dirty, git_dir
from bot.git.repo import Repo
from bot.ledger.journal import JournalFile
from bot.ledger.layout import JOURNAL
from bot.model.campaign import Campaign, Outcome, Stage
from bot.model.commands import DEFAULT_VARIANTS, MOST_VARIANTS, Goal, GpuChoice, Mode, Optimize, Scope
from bot.model.facts import CampaignRequested
from bot.model.pull import CHECKOUT, PullSnapshot
from bot.model.reasons import ReasonCode
from bot.render.summary import summary
from bot.targets.base import Target, hindrance
from bot.targets.contract import RepoConfig, read_config
from bot.targets.liger import open_target
from bot.targets.tree import DirectoryTree
from bot.zones.clock import utc_now

DONE_WELL = (Outcome.PUSHED, Outcome.NOTHING_TO_DO)
STOPPED = 130
MOST_MINUTES = 7 * 24 * 60
ONCE = ("fresh", "resume")
"""How a campaign is begun; it goes on without them."""


def _exclude(repo: Repo) -> None:
    """optimization/ is ours: git (and ruff, which follows it) must not see it."""
    path = git_dir(repo.path) / "info" / "exclude"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if "/optimization/" not in text.splitlines():
        path.write_text(text + ("" if text.endswith("\n") or not text else "\n") + "/optimization/\n", encoding="utf-8")


def _snapshot(repo: Repo, kernel_files: tuple[str, ...]) -> PullSnapshot:
    head = repo.resolve("HEAD")
    if head is None:
        raise UserError(
            "this repository has no commit yet",
            hint="commit the kernel first; a campaign pins a commit",
            reason=ReasonCode.NOT_FOUND,
        )
    changed = dirty(repo.path, kernel_files)
    if changed:
        raise UserError(
            f"{', '.join(changed)} differs from HEAD",
            hint="commit or stash it first: a campaign measures a commit, not a working tree",
            reason=ReasonCode.PREFLIGHT_FAILED,
        )
    branch = current_branch(repo.path) or "detached"
    return PullSnapshot(
        number=0,
        is_open=True,
        is_draft=False,
        author=ME,
        head_sha=head,
        head_ref=branch,
        head_repo=CHECKOUT,
        base_ref=branch,
        base_repo=CHECKOUT,
        base_sha=head,
    )


def kernel_of(target: Target, name: str) -> str:
    wanted = name.strip().strip("`").lower().replace("-", "_")
    if why := hindrance(target, wanted):
        raise why
    return wanted


def _locally(config: RepoConfig, *, no_script: bool) -> RepoConfig:
    """Whoever types the command is author, requester and approver in one."""
    ours = {"self_approval": True} | ({"benchmark_script": False} if no_script else {})
    return config.model_copy(update={"policy": config.policy.model_copy(update=ours)})


def _open(desk: Desk, command: Optimize, config: RepoConfig, pull: PullSnapshot) -> None:
    if desk.campaign.stage is Stage.NEW:
        desk.record(
            CampaignRequested(
                campaign=desk.campaign.id,
                command=command,
                requester=ME,
                comment_id=0,
                requested_at=utc_now(),
                pull=pull,
                policy=config.policy,
            )
        )


def _aside(folder: Path, campaign: str) -> None:
    """Under a name of its own, never overwritten."""
    target = folder.with_name(f"{folder.name}.{campaign}")
    try:
        folder.rename(target)
    except OSError as error:
        raise OperatorError(
            f"{folder} cannot be moved aside to {target.name}: {error.strerror}", hint="move or remove one of the two"
        ) from error


def _campaign_of(folder: Path, *, fresh: bool) -> str | None:
    """The id of an unfinished campaign in this folder; a finished one, or one that is not wanted, is moved aside."""
    journal = folder / JOURNAL
    if not journal.exists():
        return None
    try:
        facts = JournalFile(journal).facts()
    except CorruptRecord as error:
        raise CorruptRecord(str(error), hint=f"move {folder} away, and a new campaign begins") from error
    first = next((fact for fact in facts if isinstance(fact, CampaignRequested)), None)
    if first is None:
        return None
    if not fresh and fold(Campaign(id=first.campaign), facts).stage is not Stage.ENDED:
        return first.campaign
    _aside(folder, first.campaign)
    return None


def _begun(folder: Path, resumed: Resumed | None, *, fresh: bool) -> str | None:
    """The id of the campaign that goes on, here or from a file; a file is read before anything is moved for it."""
    unfinished = _campaign_of(folder, fresh=fresh)
    if resumed is None:
        return unfinished
    if unfinished is not None:
        raise UserError(
            f"campaign {unfinished} is under way in {folder}",
            hint="it goes on without --resume; with --fresh it is moved aside for the one of the file",
            reason=ReasonCode.ALREADY_RUNNING,
        )
    return resumed.put(folder)


def _later_than(minutes: int | None, now: Callable[[], float] = time.monotonic) -> Callable[[], bool]:
    """Since now; never without a number."""
    ends = now() + 60 * minutes if minutes is not None else math.inf
    return lambda: now() >= ends


def _save(campaign: Campaign, path: Path | None) -> None:
    if path is not None:
        path.write_text(json.dumps(summary(campaign, of_campaign(campaign)), indent=2) + "\n", encoding="utf-8")


def _again(ctx: click.Context) -> str:
    """The command that goes on: what was given, but for beginning anew."""
    words = ["kernelwright", "optimize"]
    for parameter in ctx.command.params:
        value = ctx.params.get(parameter.name or "")
        if isinstance(parameter, click.Argument):
            words.append(str(value))
        elif parameter.name not in ONCE and value and value != parameter.get_default(ctx):
            for one in value if isinstance(value, tuple) else (value,):
                words += [parameter.opts[0], *([] if one is True else [str(one)])]
    return shlex.join(words)


@click.command()
@click.argument("kernel")
@click.option(
    "--repo", "root", type=click.Path(path_type=Path, exists=True, file_okay=False), default=".", help="The checkout."
)
@click.option(
    "--mode", type=click.Choice([choice.value for choice in Mode]), default=Mode.INTERACTIVE.value, show_default=True
)
@click.option(
    "--goal", type=click.Choice([choice.value for choice in Goal]), default=Goal.BALANCED.value, show_default=True
)
@click.option(
    "--scope", type=click.Choice([choice.value for choice in Scope]), default=Scope.GENERAL.value, show_default=True
)
@click.option(
    "--gpu", type=click.Choice([choice.value for choice in GpuChoice]), default=GpuChoice.AUTO.value, show_default=True
)
@click.option("--max-variants", type=Whole(1, MOST_VARIANTS), default=DEFAULT_VARIANTS, show_default=True)
@click.option(
    "--minutes",
    type=Whole(1, MOST_MINUTES),
    help="Begin no round once so many have passed; the best so far is finished.",
)
@click.option(
    "--try",
    "versions",
    type=click.Path(path_type=Path, exists=True),
    multiple=True,
    help="A kernel file to judge as a variant, a folder of its files by their paths, or another campaign's journal, "
    "whose winner is.",
)
@click.option("--yes", is_flag=True, help="Approve every checkpoint.")
@click.option("--fresh", is_flag=True, help="Begin anew; an unfinished campaign is moved aside.")
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    help="Go on with the journal FILE of a campaign that was begun elsewhere.",
    metavar="FILE",
)
@click.option("--python", default=sys.executable, show_default="this one", help="The target's Python.")
@click.option(
    "--evidence",
    type=click.Choice([choice.value for choice in EvidenceChoice]),
    default=EvidenceChoice.AUTO.value,
    show_default=True,
    help="Whether a GPU has to measure.",
)
@click.option("--no-script", is_flag=True, help="Leave out the repository's own benchmark script.")
@wiki_option
@click.option("--quiet", is_flag=True, help="Say nothing but questions and the result.")
@click.option("--json", "as_json", is_flag=True, help="Speak in JSON lines (docs/terminal.md).")
@click.option(
    "--summary", "summary_path", type=click.Path(path_type=Path, dir_okay=False), help="Write a summary here."
)
@click.pass_context
def optimize(
    ctx: click.Context,
    kernel: str,
    root: Path,
    mode: str,
    goal: str,
    scope: str,
    gpu: str,
    max_variants: int,
    minutes: int | None,
    versions: tuple[Path, ...],
    yes: bool,
    fresh: bool,
    resume: Path | None,
    python: str,
    evidence: str,
    no_script: bool,
    wiki: Path | None,
    quiet: bool,
    as_json: bool,
    summary_path: Path | None,
) -> int:
    """Optimise KERNEL of a local checkout. The winner becomes one commit on a branch of its own.

    Stopped with Ctrl-C, the campaign goes on where it was when the same command is typed again.
    """
    repo = Repo(root.resolve())
    tree = DirectoryTree(root)
    config = _locally(read_config(tree.read("kernelwright.toml")), no_script=no_script)
    target = open_target(tree, config)
    name = kernel_of(target, kernel)
    command = Optimize(
        kernel=name,
        mode=Mode(mode),
        goal=Goal(goal),
        scope=Scope(scope),
        gpu=GpuChoice(gpu),
        max_variants=max_variants,
    )
    pull = _snapshot(repo, target.site(name).files)
    tries = [tried.version(path, name, root) for path in versions]
    folder = root.resolve() / "optimization" / name
    resumed = resuming.read(resume, repo, name, max_variants) if resume is not None else None
    device = gpu_of(EvidenceChoice(evidence))
    look_at(python)  # what cannot begin opens no campaign, and moves none aside
    _exclude(repo)
    voice = voice_of(quiet, as_json, sys.stderr)
    screen = Screen(voice, utc_now, gpu=device.uuid if device else None)
    with reserved(device):
        unfinished = _begun(folder, resumed, fresh=fresh)
        campaign_id = unfinished or f"local-{name}-{utc_now().lower().replace(':', '').replace('-', '')}"
        desk = Desk(
            repo,
            folder,
            campaign_id,
            screen,
            python=python,
            assume_yes=yes,
            gpu=device,
            tries=tries,
            wiki=wiki,
            is_late=_later_than(minutes),
        )
        if resumed:
            desk.record(*resumed.raised)
        if unfinished:
            screen.goes_on(desk.campaign, pull.head_sha, command, no_script=no_script)
        _open(desk, command, config, pull)
        try:
            campaign = desk.run()
        except Stopped as stop:
            look = shlex.join(["kernelwright", "show", name, *(["--repo", str(root)] if str(root) != "." else [])])
            screen.interrupted(desk.campaign, _again(ctx), look, by=stop.by)
            return STOPPED
    _save(campaign, summary_path)
    return 0 if campaign.outcome in DONE_WELL else 1
