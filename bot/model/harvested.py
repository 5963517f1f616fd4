"""A winner on the sizes of the library's own benchmark script, beside those that its campaign scored."""

from __future__ import annotations

from typing import Literal

from bot.model.ids import CampaignId, Digest, VariantNumber
from bot.model.measurement import Measurement, Suite
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

    case: str
    before_us: float
    after_us: float
    ratio: float
    low: float | None
    high: float | None
    """Of 95 %, over fresh processes; None where these are too few."""


class HarvestedRun(Word):
    schema_version: Literal[1] = 1
    campaign: CampaignId
    kernel: str
    variant: VariantNumber
    source: Digest
    """Of the variant's files; `kernelwright rebuild` makes them again."""
    benchmark: str
    gpu: str
    """What the script was told is there."""
    sweep: tuple[Swept, ...]
    suite: Suite
    baseline: Measurement
    measurement: Measurement
