"""A local knowledge base of hardware facts: found through its README's index, cited by page and line.

It holds Markdown pages with a heading for each product and tables below it. A line is evidence only as long as it still
says the same, so a citation carries the line; and a number that its author hedges ("about", "~") is none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from bot.hardware.catalog import own_words
from bot.hardware.datasheet import Datasheet
from bot.hardware.numbers import METRICS
from bot.model.hardware import Learned
from bot.model.word import Word

INDEX = "README.md"
MOST_PAGES = 2000
Read = Callable[[str], str | None]
"""A page by its path below the knowledge base; None where there is no such page."""

ROWS: dict[str, tuple[str, ...]] = {
    "memory_bandwidth": ("memory bandwidth", "gpu memory bandwidth", "hbm bandwidth", "peak memory bandwidth"),
    "memory": ("vram", "memory", "gpu memory", "memory size"),
    "multiprocessors": (
        "streaming multiprocessors (sms)", "streaming multiprocessors", "sms", "sm count", "compute units",
    ),
    "l2": ("l2 cache", "l2", "l2 cache size"),
    "clock": ("peak clock", "boost clock", "peak engine clock"),
    "fp64": ("fp64 (cuda core)", "fp64 (vector)"),
    "fp32": ("fp32 (cuda core)", "fp32 (vector)"),
    "tf32": ("tf32 (tensor core)", "fp32 (tensor core / tf32)", "tf32 (matrix)"),
    "fp16": ("fp16 / bf16 (tensor core)", "fp16 (tensor core)", "fp16 / bf16 (matrix)", "fp16 (matrix)"),
    "bf16": ("fp16 / bf16 (tensor core)", "bf16 (tensor core)", "fp16 / bf16 (matrix)", "bf16 (matrix)"),
    "fp8": ("fp8 (tensor core)", "fp8 (matrix)"),
    "registers": ("registers per sm",),
    "registers_per_thread": ("max registers per thread",),
    "shared": ("shared memory per sm", "shared memory"),
    "threads": ("max threads per sm",),
    "warps": ("max warps per sm",),
    "blocks": ("max blocks per sm",),
    "threads_per_warp": ("warp size", "wavefront size"),
}  # fmt: skip
"""What a page calls each number, in lower case. Another word is not taken for it."""

VALUES = ("value", "peak tflops", "peak", "dense", "capacity", "size")
"""The columns a number may stand in. One that speaks of sparsity never does."""
SCALES = {
    "GB/s": {"tb/s": 1000.0, "gb/s": 1.0},
    "GB": {"gb": 1.0, "gib": 1.0},
    "MHz": {"mhz": 1.0, "ghz": 1000.0},
    "MiB": {"mb": 1.0, "mib": 1.0, "kb": 1 / 1024, "kib": 1 / 1024},
    "TFLOPS": {"": 1.0, "t": 1.0, "tflops": 1.0, "pflops": 1000.0},
    "KiB per SM": {"kb": 1.0, "kib": 1.0},
    "KiB per block": {"kb": 1.0, "kib": 1.0},
}
HEDGED = re.compile(r"[~≈]|\b(about|approx\w*|around|usually|typically|roughly|estimated|similar)\b", re.IGNORECASE)
_LINK = re.compile(r"\]\(<?([^)\s>#]+\.md)(?:#[^)]*)?>?\)|`([\w./-]+\.md)`")
_HEADING = re.compile(r"#{1,6}\s+(.+?)\s*#*\s*\Z")
_AMOUNT = re.compile(r"\A(?:up to )?([0-9][0-9,]*(?:\.[0-9]+)?)\s*(?:×\s*32-bit|threads)?\s*([a-z/]*)", re.IGNORECASE)


class NoWiki(Word):
    """Why there is nothing to look up."""

    reason: Literal["no_folder", "no_index", "empty_index"]
    detail: str
    hint: str


class Citation(Word):
    """A line of a page, as it was read."""

    path: str
    line: int
    text: str

    def says(self) -> str:
        return f"{self.path}:L{self.line}"


class Fact(Word):
    """A number of a product, by its page."""

    name: str
    value: float
    citation: Citation


class Doubt(Word):
    """A line that speaks of the number and cannot be used, and why."""

    name: str
    why: str
    citation: Citation


@dataclass(frozen=True, slots=True)
class _Row:
    label: str
    cells: dict[str, str]
    citation: Citation


def _words(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"[*_`]|<[^>]*>", "", text)).strip().casefold()


def _product(heading: str) -> str:
    """`NVIDIA H100 SXM (sm_90, Hopper)` is about the NVIDIA H100 SXM."""
    return _words(re.sub(r"\([^)]*\)", "", heading))


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _rows(page: str, text: str, names: frozenset[str]) -> Iterator[_Row]:
    """The table rows below a heading that is exactly one of these names."""
    level, head = 0, [""]
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        heading = _HEADING.match(line)
        if heading:
            depth = len(line) - len(line.lstrip("#"))
            if level == 0 or depth <= level:
                level = depth if _product(heading[1]) in names else 0
        elif level and line.lstrip().startswith("|"):
            cells = _cells(line)
            following = lines[number] if number < len(lines) else ""
            if re.match(r"\s*\|?\s*:?-{2,}", following):
                head = [_words(cell) for cell in cells]
            elif len(cells) > 1 and not re.match(r":?-{2,}", cells[0]):
                citation = Citation(path=page, line=number, text=line)
                yield _Row(_words(cells[0]), dict(zip(head[1:], cells[1:], strict=False)), citation)


def _amount(text: str, unit: str) -> float | None:
    """A value in its metric's unit; None where it is not one number with a unit that we know."""
    found = _AMOUNT.match(_words(text))
    if found is None:
        return None
    scales = SCALES.get(unit)
    number, said = float(found[1].replace(",", "")), found[2]
    if scales is None:
        return number
    return number * scales[said] if said in scales else None


class Wiki:
    def __init__(self, read: Read, pages: tuple[str, ...]) -> None:
        self._read = read
        self.pages = pages
        """What the index leads to, in its order."""

    def _lookup(self, names: frozenset[str]) -> Iterator[_Row]:
        for page in self.pages:
            text = self._read(page)
            if text is not None:
                yield from _rows(page, text, names)

    def find(self, sheet: Datasheet) -> tuple[Fact | Doubt, ...]:
        """What the pages say of exactly this product. Of several lines for one number the first stands."""
        maker, said = sheet.gpu.split(" ", 1)[0], own_words(sheet)
        names = frozenset(_words(name) for name in (*said, *(f"{maker} {word}" for word in said)))
        found: dict[str, Fact | Doubt] = {}
        for row in self._lookup(names):
            for name, labels in ROWS.items():
                if row.label in labels and not isinstance(found.get(name), Fact):
                    found[name] = _read_row(name, row)
        return tuple(found[name] for name in ROWS if name in found)

    def check(self, citation: Citation) -> str:
        """What is wrong with a citation, in words; nothing where its line still says what was read there."""
        if citation.path not in self.pages:
            return f"{citation.path} is not in the index of the knowledge base"
        lines = (self._read(citation.path) or "").splitlines()
        if not 1 <= citation.line <= len(lines):
            return f"{citation.says()}: the page has {len(lines)} lines"
        now = lines[citation.line - 1]
        if now != citation.text:
            return f"{citation.says()} says {now.strip()[:120]!r}, and {citation.text.strip()[:120]!r} was read there"
        return ""


def _read_row(name: str, row: _Row) -> Fact | Doubt:
    column = next((head for head in VALUES if head in row.cells), "")
    if not column:
        return Doubt(name=name, why="no column of the table is one that holds values", citation=row.citation)
    said = row.cells[column]
    if HEDGED.search(said):
        return Doubt(name=name, why=f"{said[:60]!r} is hedged, and a guess is no number", citation=row.citation)
    value = _amount(said, METRICS[name].unit)
    if value is None or value <= 0:
        return Doubt(name=name, why=f"{said[:60]!r} is not a number in {METRICS[name].unit}", citation=row.citation)
    return Fact(name=name, value=value, citation=row.citation)


def _links(text: str, page: str) -> Iterator[str]:
    """Pages that a page names, as paths below the knowledge base; none outside of it."""
    for first, second in _LINK.findall(text):
        target = first or second
        if "://" in target or target.startswith("/"):
            continue
        parts: list[str] = []
        for part in (PurePosixPath(page).parent / target).parts:
            if part == "..":
                if not parts:
                    break
                parts.pop()
            elif part != ".":
                parts.append(part)
        else:
            yield "/".join(parts)


def read_wiki(read: Read) -> Wiki | NoWiki:
    """The pages that the index names, and those that an index below it names."""
    index = read(INDEX)
    if index is None:
        return NoWiki(
            reason="no_index",
            detail=f"the knowledge base has no {INDEX}",
            hint=f"give it a {INDEX} that links its pages: nothing is looked up that no index leads to",
        )
    pages: dict[str, None] = {}
    waiting = [(INDEX, index)]
    while waiting and len(pages) < MOST_PAGES:
        page, text = waiting.pop(0)
        for path in _links(text, page):
            if path in pages or path == INDEX:
                continue
            content = read(path)
            if content is None:
                continue
            pages[path] = None
            if PurePosixPath(path).name == INDEX:
                waiting.append((path, content))
    if not pages:
        return NoWiki(
            reason="empty_index",
            detail=f"the {INDEX} of the knowledge base leads to no page that is there",
            hint="link pages by paths that start from it, like docs/hardware-specs/hopper.md",
        )
    return Wiki(read, tuple(pages))


def learned(sheet: Datasheet, facts: tuple[Fact | Doubt, ...], *, read: str) -> tuple[Learned, ...]:
    """What the pages add to a datasheet."""
    return tuple(
        Learned(name=fact.name, value=fact.value, source=f"<gpu-wiki>/{fact.citation.says()}", read=read)
        for fact in facts
        if isinstance(fact, Fact) and sheet.quantity(fact.name) is None
    )


def disagreements(sheet: Datasheet, facts: tuple[Fact | Doubt, ...]) -> tuple[str, ...]:
    """Where a page says something else than the registry, whose number stands; and what could not be used."""
    found = []
    for fact in facts:
        metric, known = METRICS[fact.name], sheet.quantity(fact.name)
        if isinstance(fact, Doubt):
            found.append(f"{fact.citation.says()}: {metric.label}: {fact.why}")
        elif known is not None and abs(fact.value - known.value) > known.value / 100:
            found.append(
                f"{fact.citation.says()} gives {fact.value:.10g} {metric.unit} as {metric.label};"
                f" {known.value:.10g} stands: {known.source}"
            )
    return tuple(found)
