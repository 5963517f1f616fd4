"""The GPUs we know, found by the exact name that a driver gives, never by a part of it and never by a similar product.

Every number carries its unit, its kind and where it was read; what nobody published is UNKNOWN. A number without a
source cannot be loaded: a roof drawn from a guess is worse than no roof.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from importlib import resources

from bot.errors import CorruptRecord, UserError
from bot.hardware.datasheet import (
    Architecture,
    Datasheet,
    cited,
    completed,
    read_architecture,
    read_sheet,
    registered,
)
from bot.hardware.numbers import ARCHITECTURE, PRODUCT, Document, Numbers, Quantity, examine, read_documents
from bot.model.commands import GpuChoice
from bot.model.measurement import Evidence, Runner
from bot.model.reasons import ReasonCode
from bot.model.word import Word

__all__ = [
    "Datasheet", "Device", "Quantity", "cited", "faults", "for_arch", "for_choice", "for_device", "for_runner",
    "for_word", "mixed", "own_words", "registered", "sheets",
]  # fmt: skip

PRODUCTS = (
    "a100-sxm-80gb", "a100-sxm-40gb", "a100-pcie-80gb", "a100-pcie-40gb", "a10g",
    "l4", "l40s", "rtx-4090",
    "h200-sxm", "h200-nvl", "h100-sxm", "h100-pcie", "h100-nvl", "h20", "gh200-96gb", "gh200-144gb",
    "b200", "gb200", "rtx-5090",
    "mi300x", "mi325x", "mi355x", "mi350x",
)  # fmt: skip
ARCHITECTURES = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120", "gfx942", "gfx950")
STANDS_FOR = {
    "sm_80": "NVIDIA A100 SXM 80GB",
    "sm_86": "NVIDIA A10G",
    "sm_89": "NVIDIA L40S",
    "sm_90": "NVIDIA H200 SXM",
    "sm_100": "NVIDIA B200",
    "sm_120": "NVIDIA GeForce RTX 5090",
    "gfx942": "AMD Instinct MI300X",
    "gfx950": "AMD Instinct MI355X",
}
"""The product that a kernel is modelled on when it was only compiled for an architecture."""
FAMILIES = {"ampere": "sm_80", "hopper": "sm_90", "blackwell": "sm_100", "cdna3": "gfx942"}
"""What a command's gpu= stands for."""
LEAST_MEMORY, MOST_MEMORY = 0.86, 1.06
"""Memory that a driver shows over what is printed: it keeps some for itself, error correction takes 1/16, and a printed
gigabyte may be either kind."""
_SLICE = re.compile(r" MIG\b")
_MAKERS = re.compile(r"\A(nvidia|amd|geforce|instinct|tesla) ")


class Device(Word):
    """A GPU as a machine shows it; 0 and "" where nobody looked."""

    name: str
    arch: str = ""
    memory_mib: int = 0
    multiprocessors: int = 0


def _text(path: str) -> str:
    return (resources.files("bot.hardware") / "datasheets" / path).read_text(encoding="utf-8")


@cache
def documents() -> dict[str, Document]:
    return read_documents(_text("documents.toml"), what="documents.toml")


@cache
def architectures() -> dict[str, tuple[Architecture, Numbers]]:
    paths = {name: f"architectures/{name}.toml" for name in ARCHITECTURES}
    return {name: read_architecture(_text(path), documents(), what=path) for name, path in paths.items()}


@cache
def sheets() -> tuple[Datasheet, ...]:
    paths = (f"products/{name}.toml" for name in PRODUCTS)
    return tuple(read_sheet(_text(path), architectures(), documents(), what=path) for path in paths)


def faults() -> tuple[str, ...]:
    """Everything that is wrong with the files that came with this program, for a doctor: no number without a source."""
    found = []
    try:
        known = documents()
    except CorruptRecord as error:
        return (str(error),)
    paths = {f"architectures/{name}.toml": ARCHITECTURE for name in ARCHITECTURES}
    paths |= {f"products/{name}.toml": PRODUCT for name in PRODUCTS}
    for path, metrics in paths.items():
        try:
            wrong = [said for _, said in examine(_text(path), metrics, known, what=path) if isinstance(said, str)]
        except CorruptRecord as error:
            found.append(str(error))
        else:
            found += [f"{path}: {said}" for said in wrong]
    return tuple(found)


def _plain(arch: str) -> str:
    """`sm_90a` is the sm_90 that a compiler speaks of; gfx942:sramecc+ is gfx942."""
    return re.sub(r"(?<=\d)a\Z", "", arch.split(":")[0]) if arch.startswith("sm_") else arch.split(":")[0]


def for_arch(arch: str) -> Datasheet:
    """The GPU that stands for an architecture."""
    name = STANDS_FOR.get(_plain(arch))
    if name is not None:
        return next(sheet for sheet in sheets() if sheet.gpu == name)
    raise UserError(
        f"no datasheet for {arch[:40]!r}",
        hint=f"architectures with a datasheet: {', '.join(STANDS_FOR)}",
        reason=ReasonCode.BAD_VALUE,
    )


def for_choice(choice: GpuChoice) -> Datasheet:
    """The GPU that a command's gpu= stands for; `auto` is Hopper, which the model was compared with."""
    family = GpuChoice.HOPPER if choice is GpuChoice.AUTO else choice
    return for_arch(FAMILIES[family.value])


def _without_product(device: Device, note: str) -> Datasheet:
    """No product's numbers, for another one's would be a guess. What its whole architecture shares still holds."""
    arch = _plain(device.arch)
    facts, limits = architectures().get(arch, (None, {}))
    family = facts.family if facts is not None else "unknown"
    return Datasheet(gpu=device.name or "unnamed GPU", arch=device.arch, family=family, note=note, **limits)


def _differs(device: Device, sheet: Datasheet) -> str:
    """What the device shows that the product of its name does not have; empty where nothing does."""
    if device.arch and _plain(device.arch) != sheet.arch:
        return f"it was compiled for {_plain(device.arch)[:20]}, and {sheet.gpu} is {sheet.arch}"
    count, memory = sheet.number("multiprocessors"), sheet.number("memory")
    if device.multiprocessors and count and device.multiprocessors != count:
        return f"it shows {device.multiprocessors} multiprocessors, and {sheet.gpu} has {count:g}"
    shown = device.memory_mib / 1024
    if device.memory_mib and memory and not LEAST_MEMORY * memory <= shown <= MOST_MEMORY * memory:
        return f"it shows {shown:.1f} GiB of memory, and {sheet.gpu} has {memory:g} GB"
    return ""


def for_device(device: Device) -> Datasheet:
    """The product of exactly this name and these properties; else a sheet without a product's numbers that says why."""
    if _SLICE.search(device.name):
        whole = _SLICE.split(device.name)[0]
        return _without_product(device, f"it is a MIG slice of an {whole}: what share of it a slice has is not known")
    sheet = next((sheet for sheet in sheets() if device.name in sheet.driver_names), None)
    if sheet is None:
        return _without_product(device, "no datasheet is of a GPU with exactly this name")
    different = _differs(device, sheet)
    return _without_product(device, f"{different}: it is another product of that name") if different else sheet


def for_runner(runner: Runner) -> Datasheet:
    """The GPU that was timed by its own name; what was only compiled stands for its architecture's product. What a
    knowledge base added is added here too."""
    if runner.evidence is Evidence.STATIC:
        return completed(for_arch(runner.arch), runner.learned)
    device = Device(name=runner.gpu_name, arch=runner.arch, memory_mib=runner.gpu_memory_mib)
    return completed(for_device(device), runner.learned)


def mixed(devices: Iterable[Device]) -> str:
    """What to say of a machine with several kinds of GPU; nothing where there is one kind, or none."""
    names = list(dict.fromkeys(device.name for device in devices))
    if len(names) < 2:
        return ""
    return (
        f"there are {len(names)} kinds of GPU here ({', '.join(names)}): everything is measured on the first,"
        " and no number of another one is used; CUDA_VISIBLE_DEVICES chooses"
    )


def _said(word: str) -> str:
    said = re.sub(r"[\s_-]+", " ", word).strip().casefold()
    while (shorter := _MAKERS.sub("", said)) != said:
        said = shorter
    return said


def own_words(sheet: Datasheet) -> tuple[str, ...]:
    """What names this product and no other one: its own words, then what a driver calls it."""
    others = {word for other in sheets() if other.gpu != sheet.gpu for word in other.words}
    return (*(word for word in sheet.words if word not in others), sheet.gpu, *sheet.driver_names)


def for_word(word: str) -> Datasheet:
    """The product that a person means by `H200` or `mi300x`. A word of several is asked back with the choices."""
    said = _said(word)
    found = [sheet for sheet in sheets() if said in sheet.words or word.strip() in (sheet.gpu, *sheet.driver_names)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UserError(
            f"{word[:40]!r} is the name of {len(found)} products",
            hint=f"say which one: {', '.join(next(iter(own_words(sheet))) for sheet in found)}",
            reason=ReasonCode.BAD_VALUE,
        )
    words = list(dict.fromkeys(word for sheet in sheets() for word in sheet.words))
    close = get_close_matches(said, words, n=3)
    hint = f"did you mean {' or '.join(close)}?" if close else f"products with a datasheet: {', '.join(PRODUCTS)}"
    raise UserError(f"no datasheet for {word[:40]!r}", hint=hint, reason=ReasonCode.BAD_VALUE)
