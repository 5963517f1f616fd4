"""What the bench asks of a worker that runs a benchmark script without a GPU: what the script would hand to the op."""

from __future__ import annotations

import dataclasses
from typing import Literal

from bot.worker.contract.answers import Refusal
from bot.worker.contract.calls import Subject

MOST_SIGHTINGS = 400
MOST_TROUBLES = 20


@dataclasses.dataclass(frozen=True)
class HarvestRequest:
    job: Literal["harvest"]
    subject: Subject
    script: str
    """Run as a program, with no argument."""
    arch: str
    """The GPU that the script is told is there."""


@dataclasses.dataclass(frozen=True)
class Handed:
    """One tensor, as the script hands it to the op. It never had values."""

    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Given:
    """One argument: a tensor, a plain value, or the kind of what is neither."""

    tensor: Handed | None = None
    value: bool | int | float | str | tuple[int, ...] | None = None
    other: str = ""


@dataclasses.dataclass(frozen=True)
class Origin:
    """Which point of the script's sweep a call belongs to; all empty where the script has a runner of its own."""

    x_name: str = ""
    x_label: str = ""
    x: str = ""
    provider: str = ""
    config: str = ""


@dataclasses.dataclass(frozen=True)
class Sighting:
    """One call of the op."""

    origin: Origin
    arguments: tuple[Given, ...]


@dataclasses.dataclass(frozen=True)
class HarvestAnswer:
    sightings: tuple[Sighting, ...]
    troubles: tuple[str, ...]
    """What did not run, in the script's own words."""
    unbounded: str = ""
    """Why the script's memory probe could not be followed; then sizes go further than the GPU's memory may allow."""
    refusal: Refusal | None = None
