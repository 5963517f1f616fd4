"""What `--try` names: a file with somebody's own version of the kernel, a folder where it is several, or the journal
of another campaign, whose winner is judged here as any other idea. A GPU of another kind takes up no campaign; it may
begin with what was found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from bot.campaign.lineage import TRY_TECHNIQUE, ancestry, sources_of
from bot.cli import rebuild
from bot.errors import UserError
from bot.ledger.layout import JOURNAL
from bot.model.campaign import Campaign
from bot.model.ids import KernelName, VariantNumber, variant_name
from bot.model.reasons import ReasonCode
from bot.proposers import human, merged
from bot.proposers.brief import techniques_in

MOST_FILES = 16
MOST_BYTES = 2**20
"""Of one file; the longest of liger-kernel's has fifty kilobytes."""
OF_A_JOURNAL = Path(JOURNAL).suffix


@dataclass(frozen=True, slots=True)
class Version:
    """What is to be tried: the text of one file (which of the repository's, the profile tells), or several by their
    paths."""

    name: str
    """As people are shown it."""
    text: bytes = b""
    files: Mapping[str, bytes] | None = None
    """All that it changes, by their paths."""
    made_of: tuple[str, ...] = ()
    """By the names of the transforms that it came of, the first one first."""

    @property
    def message(self) -> str:
        """Of the commit that holds it; what it is made of is read there when its round begins."""
        told = f"\n{human.MADE_OF}{', '.join(self.made_of)}\n" if self.made_of else ""
        return f"try {self.name}\n{told}"

    def onto(self, op_file: str) -> Mapping[str, bytes]:
        return self.files if self.files is not None else {op_file: self.text}


def _committed(campaign: Campaign, number: VariantNumber) -> Mapping[str, bytes]:
    """The winner as the style check of the repository left it, where one ran."""
    done = campaign.finalization
    files = done.files if done is not None and done.variant == number else sources_of(campaign, number)
    return {file.path: file.text.encode() for file in files}


def _techniques(campaign: Campaign, number: VariantNumber) -> Iterator[str]:
    """Of two that had a round together, both; of a winner that was tried itself, what its title tells, or that it
    was."""
    by_name = {variant_name(played.variant.number): played.variant.hypothesis for played in campaign.rounds}
    for played in ancestry(campaign, number):
        hypothesis = played.variant.hypothesis
        if parts := merged.together(played):
            known = (by_name[part].technique for part in parts if part in by_name)
            yield from (technique for one in known for technique in techniques_in(one))
        elif hypothesis.technique == TRY_TECHNIQUE and (told := hypothesis.title.partition(": ")[2]):
            yield from told.split(", ")
        else:
            yield from techniques_in(hypothesis.technique)


def _made_of(campaign: Campaign, number: VariantNumber) -> tuple[str, ...]:
    """Nothing, rather than a part of it, where somebody brought what nobody says."""
    found = tuple(_techniques(campaign, number))
    return () if TRY_TECHNIQUE in found else human.of_ours(found)


def _of_folder(folder: Path, root: Path) -> Version:
    """Files that lie in it as they lie in the repository; whether they are the kernel's own is asked with the rest."""
    found = (path for path in folder.rglob("*") if path.is_symlink() or path.is_file())
    inside = [path for path in islice(found, MOST_FILES + 2) if path != folder / JOURNAL]
    if len(inside) > MOST_FILES:
        raise _no_version(folder, f"holds more than {MOST_FILES} files")
    if not inside:
        raise _no_version(folder, "holds no file")
    for path in sorted(inside):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            raise _no_version(folder, f"holds {name}, which is a link")
        if not (root / name).is_file():
            raise _no_version(folder, f"holds {name}, which is no file of the repository")
        if path.stat().st_size > MOST_BYTES:
            raise _no_version(folder, f"holds {name}, of more than {MOST_BYTES // 2**20} MiB")
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(inside)}
    return Version(folder.resolve().name, files=files)


def _no_version(folder: Path, why: str) -> UserError:
    journal = folder / JOURNAL
    name = f"name {journal} to have the winner of that campaign tried; " if journal.is_file() else ""
    return UserError(
        f"{folder} is no version to try: it {why}",
        hint=f"{name}a folder holds changed files by their paths in the repository, as `kernelwright rebuild` writes "
        "them",
        reason=ReasonCode.BAD_VALUE,
    )


def version(path: Path, kernel: KernelName, root: Path) -> Version:
    """Raises UserError where a folder is no version, or a journal has no winner for this kernel and tree."""
    if path.is_dir():
        return _of_folder(path, root)
    if path.suffix != OF_A_JOURNAL:
        return Version(path.name, path.read_bytes())
    sha = rebuild.about(path, kernel, lambda _: f"name a journal of {kernel} with --try").pull.head_sha
    hint = f"a winner is tried on the files that its campaign began with: check out {sha[:7]}, or name another journal"
    campaign, _ = rebuild.profiled(path, root, hint)
    rebuild.same_base(campaign, root, hint)
    number = rebuild.wanted(campaign, None)
    name, files = f"the winner of {campaign.id}", _committed(campaign, number)
    return Version(name, files=files, made_of=_made_of(campaign, number))
