"""What `--try` names: a file with somebody's own version of the kernel, or the journal of another campaign, whose
winner is judged here as any other idea. A GPU of another kind takes up no campaign; it may begin with what was found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bot.campaign.lineage import sources_of
from bot.cli import rebuild
from bot.errors import UserError
from bot.ledger.layout import JOURNAL
from bot.model.campaign import Campaign
from bot.model.ids import KernelName
from bot.model.reasons import ReasonCode

OF_A_JOURNAL = Path(JOURNAL).suffix


@dataclass(frozen=True, slots=True)
class Version:
    """What is to be tried: the text of one file (which of the repository's, the profile tells), or a winner's files."""

    name: str
    """As people are shown it."""
    text: bytes = b""
    files: Mapping[str, bytes] | None = None
    """All that a winner changes, by their paths."""

    def onto(self, op_file: str) -> Mapping[str, bytes]:
        return self.files if self.files is not None else {op_file: self.text}


def _committed(campaign: Campaign) -> Mapping[str, bytes]:
    """The winner as the style check of the repository left it, where one ran."""
    number = rebuild.wanted(campaign, None)
    done = campaign.finalization
    files = done.files if done is not None and done.variant == number else sources_of(campaign, number)
    return {file.path: file.text.encode() for file in files}


def version(path: Path, kernel: KernelName, root: Path) -> Version:
    """Raises UserError where a journal has no winner for this kernel and tree."""
    if path.suffix != OF_A_JOURNAL:
        return Version(path.name, path.read_bytes())
    campaign, profile = rebuild.profiled(path, root)
    if profile.site.kernel != kernel:
        raise UserError(
            f"{path} is of {profile.site.kernel}, and this campaign of {kernel}",
            hint=f"name a journal of {kernel} with --try",
            reason=ReasonCode.BAD_VALUE,
        )
    rebuild.same_base(campaign, root)
    return Version(f"the winner of {campaign.id}", files=_committed(campaign))
