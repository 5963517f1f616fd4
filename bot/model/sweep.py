"""What a repository lets the nightly sweep do, and what a night consists of. Off until kernelwright.toml says more."""

from __future__ import annotations

import re
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, StringConstraints, model_validator

from bot.model.commands import DEFAULT_VARIANTS, MOST_VARIANTS
from bot.model.ids import CampaignId, KernelName
from bot.model.word import Word

MOST_JOBS = 256
"""GitHub's own limit for one matrix."""

Pool: TypeAlias = Literal["ampere", "hopper", "blackwell", "cdna3"]
"""Runners of one GPU family."""
Label: TypeAlias = Annotated[str, StringConstraints(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")]
Labels: TypeAlias = Annotated[tuple[Label, ...], Field(min_length=1, max_length=10)]

_ID = re.compile(r"sweep-([0-9]{8})-(ampere|hopper|blackwell|cdna3)-([a-z][a-z0-9_]{0,63})")


class SweepPolicy(Word):
    enabled: bool = False
    max_gpu_minutes: Annotated[int, Field(ge=1, le=7 * 24 * 60)] = 240
    """Of one night and one pool."""
    minutes_per_kernel: Annotated[int, Field(ge=1, le=24 * 60)] = 20
    """What a kernel is taken to need until it was swept once."""
    max_variants: Annotated[int, Field(ge=1, le=MOST_VARIANTS)] = DEFAULT_VARIANTS
    max_campaigns: Annotated[int, Field(ge=1, le=MOST_JOBS)] = 32
    """Of one night."""
    pools: dict[Pool, Labels] = Field(default={})
    """Labels that a job needs to run there."""

    @model_validator(mode="after")
    def _somewhere(self) -> SweepPolicy:
        if self.enabled and not self.pools:
            raise ValueError('a sweep needs a pool, e.g. [sweep.pools] hopper = ["self-hosted", "gpu", "hopper"]')
        return self


class Cell(Word):
    """One kernel on one pool."""

    kernel: KernelName
    pool: Pool


def sweep_id(day: str, cell: Cell) -> CampaignId:
    """One campaign a cell and day, however often the night is started. `day` is an ISO date or time."""
    return f"sweep-{day[:10].replace('-', '')}-{cell.pool}-{cell.kernel}"


def cell_of(campaign: str) -> Cell | None:
    """The cell that a sweep's campaign is named after; None for any other name."""
    found = _ID.fullmatch(campaign)
    return Cell.model_validate({"kernel": found[3], "pool": found[2]}) if found else None


def own_branch(kernel: KernelName) -> str:
    """The only branch a sweep pushes to. It follows from the kernel's name and from nothing that was written down."""
    return f"kernelwright/sweep/{kernel}"
