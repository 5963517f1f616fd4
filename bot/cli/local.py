"""`kernelwright optimize`: the same campaign on a local checkout, with the terminal as its conversation.

Nothing in the working tree is changed: records go to optimization/<kernel>/, which git does not see, and the winner
becomes one commit on a branch of its own.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from bot.bench.choosing import EvidenceChoice, gpu_of, opener_for
from bot.bench.gpu import Gpu, reserved
from bot.campaign.effects import AskHuman, Close, Effect, PlaceOrder, PushWinner, SayResult, SayStatus
from bot.campaign.lineage import accepted
from bot.campaign.machine import CHECKPOINT_OF, fold, owed
from bot.errors import UserError
from bot.git.local import current_branch, dirty, git_dir, set_branch
from bot.git.repo import Repo
from bot.ledger.journal import JournalFile, Segment
from bot.model.campaign import Answer, Campaign, Outcome, Stage, Zone
from bot.model.commands import DEFAULT_VARIANTS, MOST_VARIANTS, Goal, GpuChoice, Mode, Optimize, Scope
from bot.model.facts import (
    Answered,
    CampaignClosed,
    CampaignRequested,
    EffectDone,
    EffectRequested,
    Fact,
    OrderPlaced,
    Pushed,
    TryRequested,
)
from bot.model.ids import variant_name
from bot.model.people import Actor
from bot.model.pull import PullSnapshot
from bot.model.reasons import ReasonCode
from bot.render import commit as commits
from bot.render.records import records
from bot.render.summary import summary
from bot.render.terminal import checkpoint_text, result_text, stage_text
from bot.targets.base import Target
from bot.targets.contract import RepoConfig, read_config
from bot.targets.liger import open_target
from bot.targets.tree import DirectoryTree
from bot.zones.clock import utc_now
from bot.zones.follow import new_order
from bot.zones.intake import SEGMENT
from bot.zones.measure import Workshop, work

ME = Actor(id=0, login="you")
HERE = "local/checkout"
JOURNAL = "journal.jsonl"
DONE_WELL = (Outcome.PUSHED, Outcome.NOTHING_TO_DO)


class Desk:
    """A campaign whose journal is a file and whose people sit at this terminal."""

    def __init__(
        self, repo: Repo, folder: Path, campaign: str, python: str, assume_yes: bool, gpu: Gpu | None = None
    ) -> None:
        self._repo, self._folder, self._python, self._yes = repo, folder, python, assume_yes
        self._gpu = gpu
        folder.mkdir(parents=True, exist_ok=True)
        self._journal = JournalFile(folder / JOURNAL)
        self.campaign = fold(Campaign(id=campaign), self._journal.facts())

    def record(self, *facts: Fact) -> None:
        for fact in facts:
            self._journal.append(fact, utc_now())
        self.campaign = fold(self.campaign, facts)
        for path, content in records(self.campaign, self._journal.lines()).items() if self.campaign.profile else ():
            place = self._folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)

    def _did(self, effect: Effect, ref: str = "") -> None:
        self.record(
            EffectRequested(key=effect.key, zone=Zone.DECIDE), EffectDone(key=effect.key, zone=Zone.DECIDE, ref=ref)
        )

    def _measure(self) -> None:
        order = self.campaign.order
        assert order is not None
        shop = Workshop(
            repo=self._repo,
            python=self._python,
            scratch=self._folder / "scratch" / order.id,
            gpu=self._gpu,
            open_bench=opener_for(self._gpu),
        )
        shop.scratch.mkdir(parents=True, exist_ok=True)
        out = self._folder / "segments" / order.id
        work(order, self.campaign, shop, out)
        self.record(*Segment(out / SEGMENT).facts())

    def _answer(self, effect: AskHuman) -> None:
        if self.campaign.ref_of(effect.key) is None:
            click.echo(checkpoint_text(self.campaign))
            self._did(effect, "terminal")
        said = "approve" if self._yes else _ask(self.campaign)
        word, _, rest = said.partition(" ")
        chosen = int(rest[1:]) if word == "approve" and rest else None
        self.record(
            Answered(
                answer=Answer(
                    checkpoint=CHECKPOINT_OF[self.campaign.stage],
                    approved=word == "approve",
                    variant=chosen,
                    reason=rest if word == "reject" else "",
                    actor=ME,
                    via="terminal",
                    source_id=0,
                    said_at=utc_now(),
                )
            )
        )

    def _commit(self, effect: PushWinner) -> None:
        """The winner as one commit on a branch of its own; the checked-out branch is not touched."""
        campaign = self.campaign
        assert campaign.pull is not None and campaign.finalization is not None
        files = {file.path: file.text.encode() for file in campaign.finalization.files}
        message = commits.winner_message(campaign)
        made = self._repo.commit_files(
            campaign.pull.head_sha, files, message, author=commits.AUTHOR, date=campaign.requested_at
        )
        set_branch(self._repo.path, f"optimize/{campaign.id}", made)
        self.record(
            EffectRequested(key=effect.key, zone=Zone.PUSH),
            Pushed(commit=made),
            EffectDone(key=effect.key, zone=Zone.PUSH, ref=made),
        )

    def _perform(self, effect: Effect) -> None:
        match effect:
            case PlaceOrder():
                self.record(OrderPlaced(order=new_order(self.campaign, effect)))
            case SayStatus():
                click.echo(stage_text(self.campaign), err=True)
                self._did(effect)
            case SayResult():
                click.echo(result_text(self.campaign))
                self._did(effect)
            case AskHuman():
                self._answer(effect)
            case PushWinner():
                self._commit(effect)
            case Close():
                assert self.campaign.outcome is not None
                self.record(CampaignClosed(outcome=self.campaign.outcome))
            case _ if Zone.MEASURE in effect.zones:
                self._measure()
            case _:
                self._did(effect)

    def run(self) -> Campaign:
        while effects := owed(self.campaign):
            self._perform(effects[0])
        if self.campaign.stage in CHECKPOINT_OF:
            self._answer(AskHuman(checkpoint=CHECKPOINT_OF[self.campaign.stage], turn=len(self.campaign.orders)))
            return self.run()
        return self.campaign


def _ask(campaign: Campaign) -> str:
    """A person's answer, asked until it is one."""
    numbers = [variant_name(number) for number in accepted(campaign)]
    if not sys.stdin.isatty():
        raise UserError(
            f"{campaign.id} waits for your answer at its {CHECKPOINT_OF[campaign.stage]} checkpoint",
            hint="run the same command in a terminal, or with --yes to approve every checkpoint",
            reason=ReasonCode.AWAITING_APPROVAL,
        )
    while True:
        said: str = click.prompt("approve, approve vN, or reject [reason]").strip()
        word, _, rest = said.partition(" ")
        if word == "reject" or (word == "approve" and (not rest or rest in numbers)):
            return said
        click.echo(f"type approve, one of {', '.join('approve ' + n for n in numbers) or 'approve'}, or reject")


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
        raise UserError("this repository has no commit yet", hint="commit the kernel first; a campaign pins a commit")
    changed = dirty(repo.path, kernel_files)
    if changed:
        raise UserError(
            f"{', '.join(changed)} differs from HEAD",
            hint="commit or stash it first: a campaign measures a commit, not a working tree",
        )
    branch = current_branch(repo.path) or "detached"
    return PullSnapshot(
        number=0,
        is_open=True,
        is_draft=False,
        author=ME,
        head_sha=head,
        head_ref=branch,
        head_repo=HERE,
        base_ref=branch,
        base_repo=HERE,
        base_sha=head,
    )


def _kernel(target: Target, name: str) -> str:
    import difflib

    wanted = name.strip().strip("`").lower().replace("-", "_")
    kernels = target.kernels()
    if wanted in kernels:
        return wanted
    missing = target.missing(wanted)
    close = difflib.get_close_matches(wanted, kernels, n=1)
    hint = f"did you mean {close[0]}?" if close else f"kernels here: {', '.join(kernels) or 'none'}"
    raise UserError(
        f"{wanted!r} cannot be optimised here" + (f": missing {', '.join(missing)}" if missing else ""),
        hint=hint,
        reason=ReasonCode.UNKNOWN_KERNEL,
    )


def _open(repo: Repo, folder: Path, command: Optimize, config: RepoConfig, pull: PullSnapshot, desk: Desk) -> None:
    if desk.campaign.stage is Stage.NEW:
        desk.record(
            CampaignRequested(
                campaign=desk.campaign.id,
                command=command,
                requester=ME,
                comment_id=0,
                requested_at=utc_now(),
                pull=pull,
                policy=config.policy.model_copy(update={"self_approval": True}),
            )
        )


def _campaign_of(folder: Path) -> str | None:
    """The id of an unfinished campaign in this folder; a finished one is moved aside, never overwritten."""
    journal = folder / JOURNAL
    if not journal.exists():
        return None
    facts = JournalFile(journal).facts()
    first = next((fact for fact in facts if isinstance(fact, CampaignRequested)), None)
    if first is None:
        return None
    if fold(Campaign(id=first.campaign), facts).stage is not Stage.ENDED:
        return first.campaign
    folder.rename(folder.with_name(f"{folder.name}.{first.campaign}"))
    return None


def _save(campaign: Campaign, path: Path | None) -> None:
    if path is not None:
        path.write_text(json.dumps(summary(campaign), indent=2) + "\n", encoding="utf-8")


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
@click.option("--max-variants", type=click.IntRange(1, MOST_VARIANTS), default=DEFAULT_VARIANTS, show_default=True)
@click.option(
    "--try",
    "tried",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    multiple=True,
    help="A kernel file to judge as a variant.",
)
@click.option("--yes", is_flag=True, help="Approve every checkpoint.")
@click.option("--python", default=sys.executable, show_default="this one", help="The target's Python.")
@click.option(
    "--evidence",
    type=click.Choice([choice.value for choice in EvidenceChoice]),
    default=EvidenceChoice.AUTO.value,
    show_default=True,
    help="Whether a GPU has to measure.",
)
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write a summary here.")
def optimize(
    kernel: str,
    root: Path,
    mode: str,
    goal: str,
    scope: str,
    gpu: str,
    max_variants: int,
    tried: tuple[Path, ...],
    yes: bool,
    python: str,
    evidence: str,
    json_path: Path | None,
) -> int:
    """Optimise KERNEL of a local checkout. The winner becomes one commit on a branch of its own."""
    repo = Repo(root.resolve())
    tree = DirectoryTree(root)
    config = read_config(tree.read("kernelwright.toml"))
    target = open_target(tree, config)
    name = _kernel(target, kernel)
    pull = _snapshot(repo, target.site(name).files)
    command = Optimize(
        kernel=name,
        mode=Mode(mode),
        goal=Goal(goal),
        scope=Scope(scope),
        gpu=GpuChoice(gpu),
        max_variants=max_variants,
    )
    _exclude(repo)
    folder = root.resolve() / "optimization" / name
    campaign_id = _campaign_of(folder) or f"local-{name}-{utc_now().lower().replace(':', '').replace('-', '')}"
    device = gpu_of(EvidenceChoice(evidence))
    desk = Desk(repo, folder, campaign_id, python, yes, device)
    _open(repo, folder, command, config, pull, desk)
    for path in tried:
        files = {target.site(name).files[0]: path.read_bytes()}
        made = repo.commit_files(pull.head_sha, files, f"try {path.name}\n", author=commits.AUTHOR, date=utc_now())
        desk.record(TryRequested(commit=made, actor=ME))
    with reserved(device):
        campaign = desk.run()
    _save(campaign, json_path)
    return 0 if campaign.outcome in DONE_WELL else 1
