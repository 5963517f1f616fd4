"""Where every record stands on the ledger branch."""

from __future__ import annotations

import re

from pydantic import ConfigDict, TypeAdapter, ValidationError

from bot.errors import CorruptRecord, UserError
from bot.model.ids import CampaignId, RepoPath
from bot.model.reasons import ReasonCode

LEDGER_REF = "refs/heads/kernelwright/ledger"
CAMPAIGNS = "campaigns"
TIPS = "tips"
JOURNAL = "journal.jsonl"
README = "README.md"

_RULES = ConfigDict(regex_engine="python-re")
_CAMPAIGN = TypeAdapter(CampaignId, config=_RULES)
_PATH = TypeAdapter(RepoPath, config=_RULES)
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")


def is_campaign(name: str) -> bool:
    try:
        _CAMPAIGN.validate_python(name)
    except ValidationError:
        return False
    return True


def campaign_dir(campaign: str) -> str:
    if not is_campaign(campaign):
        raise UserError(
            f"{campaign[:80]!a} is not a campaign's name",
            hint="names are lower-case letters, digits, - and _, as `kernelwright show` lists them",
            reason=ReasonCode.BAD_VALUE,
        )
    return f"{CAMPAIGNS}/{campaign}"


def journal_path(campaign: str) -> str:
    return f"{campaign_dir(campaign)}/{JOURNAL}"


def plot_path(campaign: str, name: str, dark: bool = False) -> str:
    return f"{campaign_dir(campaign)}/plots/{name}-{'dark' if dark else 'light'}.png"


def tips_path(gpu: str, op: str, backend: str) -> str:
    """A GPU's name is a vendor's free text; every part becomes one folder's name."""
    parts = (_UNFIT.sub("-", part).strip("-.").lower() or "unknown" for part in (gpu, op, backend))
    return "/".join((TIPS, *parts, "tips.md"))


def check_record(campaign: str, path: str) -> str:
    """A path that an append of this campaign may write: its own folder but never the journal, or the tips."""
    try:
        _PATH.validate_python(path)
    except ValidationError as error:
        raise CorruptRecord(f"{path[:80]!a} is not a path of the ledger") from error
    if any(part == "" or part.startswith(".") for part in path.split("/")):
        raise CorruptRecord(f"{path} has a part without a name")
    own = path.startswith(f"{campaign_dir(campaign)}/") and path != journal_path(campaign)
    if not own and not path.startswith(f"{TIPS}/"):
        raise CorruptRecord(f"{campaign} may not write {path}: only its own records and {TIPS}/")
    return path
