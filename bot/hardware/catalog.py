"""The GPUs we know. Every number carries its unit, its kind and where it was read; what nobody published is UNKNOWN.

A number without a source cannot be loaded: a roof drawn from a guess is worse than no roof.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints, ValidationError

from bot.errors import CorruptRecord, UserError
from bot.model.commands import GpuChoice
from bot.model.measurement import Evidence, Runner
from bot.model.reasons import ReasonCode
from bot.model.word import Word

Unit = Literal["GB/s", "MHz", "MiB", "KiB per SM", "KiB per block", "per SM", "per thread", "count"]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]

SHEETS = ("a100", "h200", "h100", "b200", "mi300x")
"""The first of an architecture is its default."""


class Quantity(Word):
    value: Annotated[float, Field(gt=0)]
    unit: Unit
    kind: Literal["peak", "limit", "count", "measured"]
    source: Text
    read: Annotated[str, StringConstraints(pattern=r"\A\d{4}-\d{2}-\d{2}\Z")]


def _known(value: Any) -> Any:
    return None if value == "UNKNOWN" else value


Known = Annotated[Quantity | None, BeforeValidator(_known)]
"""None stands for UNKNOWN: nothing may be computed from it."""


class Datasheet(Word):
    gpu: Text
    model: Text
    """The word by which a driver's name of the GPU is recognised."""
    arch: Text
    family: Literal["ampere", "hopper", "blackwell", "cdna3", "unknown"]
    memory_bandwidth: Known
    multiprocessors: Known
    l2: Known
    clock: Known
    registers: Known
    registers_per_thread: Known
    shared: Known
    shared_per_block: Known
    threads: Known
    warps: Known
    blocks: Known
    threads_per_warp: Known
    schedulers: Known

    def number(self, name: str) -> float | None:
        quantity: Quantity | None = getattr(self, name)
        return quantity.value if quantity else None

    @property
    def bytes_per_us(self) -> float | None:
        """1 GB/s is 1000 bytes in a microsecond."""
        return self.memory_bandwidth.value * 1000 if self.memory_bandwidth else None


UNITS: dict[str, str] = {
    "memory_bandwidth": "GB/s",
    "multiprocessors": "count",
    "l2": "MiB",
    "clock": "MHz",
    "registers": "per SM",
    "registers_per_thread": "per thread",
    "shared": "KiB per SM",
    "shared_per_block": "KiB per block",
    "threads": "per SM",
    "warps": "per SM",
    "blocks": "per SM",
    "threads_per_warp": "count",
    "schedulers": "per SM",
}
"""Every quantity has one unit, so that nobody converts by hand."""


def read_sheet(text: str, *, what: str) -> Datasheet:
    """A datasheet from its TOML, or what is wrong with it."""
    try:
        sheet = Datasheet.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise CorruptRecord(f"{what}: {error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise CorruptRecord(f"{what}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    for name, unit in UNITS.items():
        quantity: Quantity | None = getattr(sheet, name)
        if quantity is not None and quantity.unit != unit:
            raise CorruptRecord(f"{what}: {name} is given in {quantity.unit}, expected {unit}")
    return sheet


def cited(sheet: Datasheet) -> tuple[str, ...]:
    """Each number as a record shows it, with its source; what is missing is said to be missing."""
    lines = []
    for name in UNITS:
        quantity: Quantity | None = getattr(sheet, name)
        label = f"{sheet.gpu} {name.replace('_', ' ')}"
        if quantity is None:
            lines.append(f"{label}: UNKNOWN")
        else:
            lines.append(f"{label}: {quantity.value:g} {quantity.unit} <- {quantity.source} (read {quantity.read})")
    return tuple(lines)


@cache
def sheets() -> tuple[Datasheet, ...]:
    folder = resources.files("bot.hardware") / "datasheets"
    texts = ((name, (folder / f"{name}.toml").read_text(encoding="utf-8")) for name in SHEETS)
    return tuple(read_sheet(text, what=f"datasheets/{name}.toml") for name, text in texts)


def for_arch(arch: str) -> Datasheet:
    """The default GPU of an architecture. `sm_90a` is the sm_90 that a compiler speaks of."""
    for sheet in sheets():
        if arch in (sheet.arch, f"{sheet.arch}a"):
            return sheet
    known = ", ".join(dict.fromkeys(sheet.arch for sheet in sheets()))
    raise UserError(
        f"no datasheet for {arch[:40]!r}",
        hint=f"architectures with a datasheet: {known}",
        reason=ReasonCode.BAD_VALUE,
    )


def for_choice(choice: GpuChoice) -> Datasheet:
    """The GPU that a command's gpu= stands for; `auto` is Hopper, which the model was compared with."""
    family = GpuChoice.HOPPER if choice is GpuChoice.AUTO else choice
    return next(sheet for sheet in sheets() if sheet.family == family.value)


def _unknown(runner: Runner) -> Datasheet:
    """A GPU that nobody has described: it has no roof, since another one's would be a guess."""
    name = runner.gpu_name or "unnamed GPU"
    return Datasheet(gpu=name, model=name, arch=runner.arch, family="unknown", **dict.fromkeys(UNITS))


def for_runner(runner: Runner) -> Datasheet:
    """The GPU that was timed by its own name; what was only compiled stands for its architecture's default."""
    if runner.evidence is Evidence.STATIC:
        return for_arch(runner.arch)
    words = runner.gpu_name.replace("-", " ").split()
    return next((sheet for sheet in sheets() if sheet.model in words), _unknown(runner))
