"""The numbers that a datasheet holds: what each is called, its only unit, and what a line of a file must say of it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, ValidationError

from bot.errors import CorruptRecord
from bot.model.word import Word

FOLDER = "bot/hardware/datasheets"
"""Where a reader of a record finds the lines that it cites."""

Unit = Literal[
    "GB/s", "GB", "MHz", "MiB", "TFLOPS", "KiB per SM", "KiB per block", "per SM", "per thread", "count"
]  # fmt: skip
Kind = Literal["peak", "maximum", "typical", "limit", "count", "dense", "sparse", "measured"]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Day = Annotated[str, StringConstraints(pattern=r"\A\d{4}-\d{2}-\d{2}\Z")]


@dataclass(frozen=True, slots=True)
class Metric:
    label: str
    unit: Unit
    kinds: tuple[Kind, ...]
    """Others are refused: a rate with sparsity, under a name that promises a dense one, doubles a roof."""


PRODUCT: dict[str, Metric] = {
    "memory_bandwidth": Metric("memory bandwidth", "GB/s", ("peak", "measured")),
    "memory": Metric("memory", "GB", ("limit",)),
    "multiprocessors": Metric("multiprocessors", "count", ("count",)),
    "l2": Metric("L2 cache", "MiB", ("limit",)),
    "clock": Metric("clock", "MHz", ("maximum", "typical", "measured")),
    "fp64": Metric("FP64 vector rate", "TFLOPS", ("peak",)),
    "fp32": Metric("FP32 vector rate", "TFLOPS", ("peak",)),
    "tf32": Metric("TF32 matrix rate, dense", "TFLOPS", ("dense",)),
    "fp16": Metric("FP16 matrix rate, dense", "TFLOPS", ("dense",)),
    "bf16": Metric("BF16 matrix rate, dense", "TFLOPS", ("dense",)),
    "fp8": Metric("FP8 matrix rate, dense", "TFLOPS", ("dense",)),
    "bf16_sparse": Metric("BF16 matrix rate, with sparsity", "TFLOPS", ("sparse",)),
}
"""What differs from product to product."""

ARCHITECTURE: dict[str, Metric] = {
    "registers": Metric("registers", "per SM", ("limit",)),
    "registers_per_thread": Metric("registers of a thread", "per thread", ("limit",)),
    "shared": Metric("shared memory", "KiB per SM", ("limit",)),
    "shared_per_block": Metric("shared memory of a program", "KiB per block", ("limit",)),
    "threads": Metric("resident threads", "per SM", ("limit",)),
    "warps": Metric("resident warps", "per SM", ("limit",)),
    "blocks": Metric("resident programs", "per SM", ("limit",)),
    "threads_per_warp": Metric("threads of a warp", "count", ("count",)),
    "schedulers": Metric("warp schedulers", "per SM", ("count",)),
    "data_cache": Metric("L1 cache and shared memory", "KiB per SM", ("limit",)),
}
"""What every product of an architecture shares: it stands once, in a file of its own."""

METRICS = PRODUCT | ARCHITECTURE


class Document(Word):
    title: Text
    url: Text
    by: Literal["vendor", "device", "research", "own"]
    """Its maker says so; a driver was asked; others measured or collected it; the project's own GPU."""
    via: str = ""
    """How it was read, where that was not the document itself."""


class Quantity(Word):
    value: Annotated[float, Field(gt=0)]
    unit: Unit
    kind: Kind
    source: Text
    """File and line here, then document and section."""
    read: Day


class _Line(Word):
    value: Annotated[float, Field(gt=0)]
    unit: Unit
    kind: Kind
    source: Text
    section: Text
    read: Day


Numbers = dict[str, Quantity | None]
"""None stands for UNKNOWN: nothing may be computed from it."""


def toml(text: str, *, what: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CorruptRecord(f"{what}: {error}") from error


def read_documents(text: str, *, what: str) -> dict[str, Document]:
    found = {}
    for name, raw in toml(text, what=what).items():
        try:
            found[name] = Document.model_validate(raw)
        except ValidationError as error:
            raise CorruptRecord(f"{what}: {name}: {_first(error)}") from error
    return found


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}".removeprefix(": ")


def _line_numbers(text: str) -> dict[str, int]:
    """Where each name is given, counted from 1. A value that begins elsewhere could not be cited."""
    lines = enumerate(text.splitlines(), start=1)
    return {match[1]: number for number, line in lines if (match := re.match(r"([a-z]\w*) = \S", line))}


def _quantity(name: str, raw: object, at: str, documents: Mapping[str, Document]) -> Quantity | str:
    """The number, or what is wrong with its line."""
    try:
        line = _Line.model_validate(raw)
    except ValidationError as error:
        return f"{name}.{_first(error)}"
    metric = METRICS[name]
    if line.unit != metric.unit:
        return f"{name} is given in {line.unit}, expected {metric.unit}"
    if line.kind not in metric.kinds:
        return f"{name} is called {line.kind}, and only {' or '.join(metric.kinds)} may stand here"
    document = documents.get(line.source)
    if document is None:
        return f"{name}.source: there is no document {line.source!r} in documents.toml"
    source = f"{at}, {document.title}, {line.section}"
    return Quantity(value=line.value, unit=line.unit, kind=line.kind, source=source, read=line.read)


def examine(
    text: str, metrics: Mapping[str, Metric], documents: Mapping[str, Document], *, what: str
) -> Iterator[tuple[str, Quantity | str | None]]:
    """Each number of a file: known, UNKNOWN, or what is wrong with it in words. A missing line says nothing."""
    raw, at = toml(text, what=what), _line_numbers(text)
    for name in metrics:
        if name not in raw:
            yield name, f"{name} is missing: write UNKNOWN where nobody published it"
        elif name not in at:
            yield name, f"{name} has no line of its own"
        elif raw[name] == "UNKNOWN":
            yield name, None
        else:
            yield name, _quantity(name, raw[name], f"{FOLDER}/{what}:L{at[name]}", documents)


def numbers(text: str, metrics: Mapping[str, Metric], documents: Mapping[str, Document], *, what: str) -> Numbers:
    """Every number of a file, or the first thing that is wrong."""
    found: Numbers = {}
    for name, quantity in examine(text, metrics, documents, what=what):
        if isinstance(quantity, str):
            raise CorruptRecord(f"{what}: {quantity}")
        found[name] = quantity
    return found
