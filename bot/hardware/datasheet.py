"""A GPU's numbers, put together from the file of its product and the file of its architecture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from pydantic import ValidationError

from bot.errors import CorruptRecord
from bot.hardware.numbers import ARCHITECTURE, METRICS, PRODUCT, Document, Numbers, Quantity, Text, numbers, toml
from bot.model.hardware import HardwareNumber, Learned
from bot.model.word import Word

Family = Literal["ampere", "ada", "hopper", "blackwell", "cdna3", "cdna4", "unknown"]


class Product(Word):
    """What a product's file says beside its numbers."""

    gpu: Text
    arch: Text
    driver_names: tuple[Text, ...]
    """Exactly as drivers write it; nothing else is this product."""
    words: tuple[Text, ...] = ()
    """How people call it; a word of several products is asked back."""


class Architecture(Word):
    arch: Text
    family: Family


class Datasheet(Word):
    gpu: str
    arch: str
    family: Family
    driver_names: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    note: str = ""
    """Why there is no product for this device, where there is none."""
    memory_bandwidth: Quantity | None = None
    memory: Quantity | None = None
    multiprocessors: Quantity | None = None
    l2: Quantity | None = None
    clock: Quantity | None = None
    fp64: Quantity | None = None
    fp32: Quantity | None = None
    tf32: Quantity | None = None
    fp16: Quantity | None = None
    bf16: Quantity | None = None
    fp8: Quantity | None = None
    bf16_sparse: Quantity | None = None
    registers: Quantity | None = None
    registers_per_thread: Quantity | None = None
    shared: Quantity | None = None
    shared_per_block: Quantity | None = None
    threads: Quantity | None = None
    warps: Quantity | None = None
    blocks: Quantity | None = None
    threads_per_warp: Quantity | None = None
    schedulers: Quantity | None = None
    data_cache: Quantity | None = None

    def quantity(self, name: str) -> Quantity | None:
        found: Quantity | None = getattr(self, name)
        return found

    def number(self, name: str) -> float | None:
        quantity = self.quantity(name)
        return quantity.value if quantity else None

    @property
    def bytes_per_us(self) -> float | None:
        """1 GB/s is 1000 bytes in a microsecond."""
        return self.memory_bandwidth.value * 1000 if self.memory_bandwidth else None


def _facts(text: str, known: Mapping[str, object], *, what: str) -> dict[str, object]:
    return {name: value for name, value in toml(text, what=what).items() if name not in known}


Architectures = Mapping[str, tuple[Architecture, Numbers]]


def _about(error: ValidationError, what: str) -> CorruptRecord:
    first = error.errors(include_url=False, include_input=False)[0]
    return CorruptRecord(f"{what}: {'.'.join(map(str, first['loc']))}: {first['msg']}")


def read_architecture(text: str, documents: Mapping[str, Document], *, what: str) -> tuple[Architecture, Numbers]:
    try:
        facts = Architecture.model_validate(_facts(text, ARCHITECTURE, what=what))
    except ValidationError as error:
        raise _about(error, what) from error
    return facts, numbers(text, ARCHITECTURE, documents, what=what)


def read_sheet(text: str, known: Architectures, documents: Mapping[str, Document], *, what: str) -> Datasheet:
    """A datasheet from the file of its product, or what is wrong with it."""
    try:
        product = Product.model_validate(_facts(text, PRODUCT, what=what))
    except ValidationError as error:
        raise _about(error, what) from error
    if product.arch not in known:
        raise CorruptRecord(f"{what}: there is no architectures/{product.arch}.toml")
    shared, limits = known[product.arch]
    found = numbers(text, PRODUCT, documents, what=what) | limits
    return Datasheet(**product.model_dump(), family=shared.family, **found)


def completed(sheet: Datasheet, learned: Iterable[Learned]) -> Datasheet:
    """The datasheet with what was learned elsewhere. What the registry knows stays as it is."""
    added = {}
    for one in learned:
        metric = METRICS.get(one.name)
        if metric is not None and sheet.quantity(one.name) is None:
            added[one.name] = Quantity(
                value=one.value, unit=metric.unit, kind=metric.kinds[0], source=one.source, read=one.read
            )
    return sheet.model_copy(update=added) if added else sheet


def registered(sheet: Datasheet) -> tuple[HardwareNumber, ...]:
    """Every number as a campaign writes it down before it is used; what nobody published is written down too."""
    found = []
    for name, metric in METRICS.items():
        quantity = sheet.quantity(name)
        label = f"{sheet.gpu} {metric.label}"
        if quantity is None:
            found.append(HardwareNumber(metric=label))
        else:
            source = f"{quantity.source} (read {quantity.read})"
            found.append(
                HardwareNumber(
                    metric=label, value=quantity.value, unit=quantity.unit, kind=quantity.kind, source=source
                )
            )
    return tuple(found)


def cited(sheet: Datasheet) -> tuple[str, ...]:
    """Each number as a record shows it: metric, value, unit, file and line; what is missing is said to be missing."""
    return tuple(number.says() for number in registered(sheet))
