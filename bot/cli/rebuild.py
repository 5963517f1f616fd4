"""`kernelwright rebuild`: the files that a campaign measured, made again from its journal: no GPU, no search."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import click

from bot.campaign.lineage import sources_of
from bot.campaign.machine import fold
from bot.cli.options import Whole, in_repository
from bot.cli.show import id_of
from bot.errors import CorruptRecord, OperatorError, UserError, why_unread
from bot.ledger import journal, slim
from bot.ledger.layout import JOURNAL
from bot.model.campaign import Campaign, Profile
from bot.model.codec import read_line
from bot.model.facts import CampaignRequested, Fact, MachineChanged, Profiled, RoundOpened, VariantMeasured
from bot.model.ids import VariantNumber
from bot.model.reasons import ReasonCode
from bot.model.variant import SourceFile, sources_digest
from bot.targets.tree import DirectoryTree, read_text


def raw(path: Path) -> str:
    """A journal as it stands in its file, or in this folder."""
    path = path / JOURNAL if path.is_dir() else path
    try:
        with path.open("rb") as file:
            content = file.read(journal.MAX_TEXT + 1)
    except OSError as error:
        raise UserError(
            f"{path} cannot be read: {error.strerror}",
            hint=f"name the {JOURNAL} of a campaign, or the folder that holds it",
            reason=why_unread(error),
        ) from error
    return journal.text_of(content, path.name)


def _request(text: str, name: str) -> CampaignRequested:
    """What began the campaign of a journal: it holds no text, so that no tree is needed to read it."""
    for number, row in enumerate(text.split("\n"), start=1):
        if f'"{CampaignRequested.model_fields["kind"].default}"' in row:
            try:
                fact = read_line(row, what=f"{name}: line {number}").fact
            except CorruptRecord:
                break  # told of with the rest
            if isinstance(fact, CampaignRequested):
                return fact
    journal.parse(text, name)
    raise UserError(f"{name} begins no campaign", hint=journal.NO_JOURNAL, reason=ReasonCode.BAD_VALUE)


def about(path: Path, kernel: str, hint: Callable[[str], str]) -> CampaignRequested:
    """What began it; refuses the journal of another kernel, whose name `hint` is given. This comes first: beside a
    tree that is not its own a journal cannot even be read."""
    asked = _request(raw(path), path.name)
    name = asked.command.kernel
    if name != kernel:
        raise UserError(
            f"{path} is of a campaign about {name}, not {kernel}", hint=hint(name), reason=ReasonCode.BAD_VALUE
        )
    return asked


def text_of(path: Path, root: Path, hint: str = slim.STOCK) -> str:
    """A journal with its texts: where it keeps hashes and edits in place of them, they are made of the tree's."""
    text, tree = raw(path), DirectoryTree(root)
    return slim.whole(text, lambda name: read_text(tree, name), path.name, hint) if slim.is_slim(text) else text


def read(path: Path, root: Path, hint: str = slim.STOCK) -> Campaign:
    return campaign_of(text_of(path, root, hint), path.name)


def campaign_of(text: str, name: str) -> Campaign:
    """The campaign of a journal that is whole to its last byte: half a line may have been the one that counts."""
    lines = journal.parse(text, name)
    for line in lines:
        _check(line.fact, tuple(one.fact for one in lines[: line.seq]))
    return fold(Campaign(id=id_of(lines)), (line.fact for line in lines))


def profiled(path: Path, root: Path, hint: str = slim.STOCK) -> tuple[Campaign, Profile]:
    """As `read`; refused where nothing was measured."""
    campaign = read(path, root, hint)
    if campaign.profile is None:
        raise UserError(
            f"{path} is of a campaign that measured nothing",
            hint="name the journal of one that has a profile: kernelwright show FILE tells how far it came",
            reason=ReasonCode.NO_SUCH_VARIANT,
        )
    return campaign, campaign.profile


def _slim(path: Path, campaign: Campaign, folder: Path) -> None:
    """The journal without the texts of the repository, beside the files that it leads to."""
    base = {file.path: file.text for file in sources_of(campaign, 0)}
    (folder / JOURNAL).write_text(slim.slim(raw(path), base), encoding="ascii")


def _check(fact: Fact, before: tuple[Fact, ...]) -> None:
    """The text that was written down is the one that was measured. A campaign goes on without a measurement of another
    text, and its winner would be another one: here that is damage."""
    if not isinstance(fact, VariantMeasured | MachineChanged | Profiled):
        return
    if isinstance(fact, Profiled):
        number, said, found = 0, fact.profile.baseline.source, sources_digest(fact.profile.sources)
    elif isinstance(fact, MachineChanged):
        profiles = [one.profile for one in before if isinstance(one, Profiled)]
        number, said, found = 0, fact.baseline.source, sources_digest(profiles[0].sources) if profiles else ""
    else:
        opened = [one.variant for one in before if isinstance(one, RoundOpened) and one.variant.number == fact.number]
        if not opened:
            raise CorruptRecord(f"v{fact.number} was measured before it was written down", hint=journal.CHANGED)
        number, said, found = fact.number, fact.measurement.source, opened[0].digest
    if found != said:
        raise CorruptRecord(
            f"the texts of v{number} hash to {found[:12]}, and the measurement is of {said[:12]}", hint=journal.CHANGED
        )


def _is_measured(campaign: Campaign, number: VariantNumber) -> bool:
    played = campaign.round_of(number)
    return number == 0 or (played is not None and played.measurement is not None)


def _named(campaign: Campaign) -> str:
    known = [f"v{played.variant.number}" for played in campaign.rounds if played.measurement]
    return ", ".join(["v0", *known])


def wanted(campaign: Campaign, number: VariantNumber | None) -> VariantNumber:
    """What was asked for, else the winner, else the last that was accepted."""
    if number is None:
        number = campaign.winner or campaign.incumbent
        if number == 0:
            raise UserError(
                f"campaign {campaign.id} has no winner: nothing in it was accepted",
                hint=f"name a variant with --variant N; measured in this journal: {_named(campaign)}",
                reason=ReasonCode.NO_SUCH_VARIANT,
            )
    if not _is_measured(campaign, number):
        raise UserError(
            f"campaign {campaign.id} measured no v{number}",
            hint=f"name one that it did with --variant N: {_named(campaign)}",
            reason=ReasonCode.NO_SUCH_VARIANT,
        )
    return number


def same_base(campaign: Campaign, root: Path, hint: str = "") -> None:
    """Refuses a tree whose files are not the ones that the campaign began with."""
    tree = DirectoryTree(root)
    other = [file.path for file in sources_of(campaign, 0) if tree.read(file.path) != file.text.encode()]
    if other:
        at = f" (the commit was {campaign.measured_at or campaign.pull.head_sha})" if campaign.pull else ""
        raise UserError(
            f"{', '.join(other)} under {root} is missing or is not what campaign {campaign.id} began with",
            hint=hint or f"name the stock tree it ran on with --repo TREE{at}",
            reason=ReasonCode.BASE_CHANGED,
        )


def _write(folder: Path, files: tuple[SourceFile, ...]) -> None:
    """All of it or nothing: the folder appears with its last file in it."""
    if os.path.lexists(folder):
        raise UserError(
            f"{folder} is there already, and nothing is written over it",
            hint="name a folder that is not there: --output FOLDER",
            reason=ReasonCode.BAD_VALUE,
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        making = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise OperatorError(
            f"nothing can be written beside {folder}: {error.strerror}", hint="name another place: --output FOLDER"
        ) from error
    try:
        for file in files:
            path = making / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.text.encode())
        making.chmod(0o755)
        making.rename(folder)
    except OSError as error:
        raise OperatorError(f"{folder} cannot be written: {error.strerror}", hint="make room, then again") from error
    finally:
        shutil.rmtree(making, ignore_errors=True)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@in_repository("The stock tree that the campaign ran on.")
@click.option("--variant", type=Whole(min=0), help="Another than the winner: its number; 0 is the stock text.")
@click.option("--output", type=click.Path(path_type=Path), help="The new folder.  [default: rebuilt-<kernel>-vN]")
@click.option("--publish", is_flag=True, help="Put a journal beside them that keeps no text of the repository.")
def rebuild(file: Path, repo: Path, variant: int | None, output: Path | None, publish: bool) -> int:
    """Make the files again that a campaign measured, from the journal FILE, byte for byte.

    They are written under the folder by their paths in the repository. Needs no GPU and searches for nothing. A
    journal that was published without the repository's text will do: the text comes from the stock tree.
    """
    campaign, profile = profiled(file, repo)
    number = wanted(campaign, variant)
    files = sources_of(campaign, number)
    same_base(campaign, repo)
    folder = output or Path(f"rebuilt-{profile.site.kernel}-v{number}")
    _write(folder, files)
    if publish:
        _slim(file, campaign, folder)
    click.echo(f"{folder}: v{number} of {campaign.id}, sources {sources_digest(files)}")
    for one in files:
        click.echo(f"  {one.path}")
    done = campaign.finalization
    if done is not None and done.variant == number and done.files != files:
        click.echo("What was committed differs from it: the style check of the repository mended it.", err=True)
    return 0
