"""A winner on sizes that its campaign did not score: those of the library's own benchmark script, or drawn ones."""

from __future__ import annotations

from typing import Literal

from bot.model.ids import CampaignId, Digest, VariantNumber
from bot.model.measurement import Measurement, Suite
from bot.model.verdict import UnseenScore
from bot.model.word import Word


class Swept(Word):
    """One size and type of the script's sweep."""

    sizes: tuple[tuple[str, int], ...]
    dtype: Literal["float32", "float16", "bfloat16"]
    told: str
    """Where in the script, in its own words."""
    differs: tuple[str, ...] = ()
    """What the script hands over otherwise than it was timed here."""
    left_out: str = ""
    """Why it was not timed here."""


class Beside(Word):
    """One case of it, read block by block against v0."""

    score: UnseenScore
    slower: bool = False
    """Whether it is clearly slower by more than a verdict lets pass, among all cases of the run."""


class HarvestedRun(Word):
    schema_version: Literal[1] = 1
    campaign: CampaignId
    kernel: str
    variant: VariantNumber
    source: Digest
    """Of the variant's files; `kernelwright rebuild` makes them again."""
    benchmark: str = ""
    gpu: str = ""
    """What the script was told is there."""
    seed: int | None = None
    """What those that are no script's were drawn with."""
    sweep: tuple[Swept, ...]
    suite: Suite
    baseline: Measurement
    measurement: Measurement
