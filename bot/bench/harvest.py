"""Which sizes a library's own benchmark script measures: the script is run in a cell without a GPU, like a variant, and
what it tells is read strictly, in the words of the kernel's recipe.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from bot.bench import overlay
from bot.bench.bailiff import Judge, Objection
from bot.bench.cell import Cells, answered, places, start_afresh
from bot.bench.harvest_sizes import Planned, Sizes, Unreadable, read_call
from bot.bench.interpreter import look_at
from bot.bench.launcher import Limits
from bot.bench.sandbox import Sandbox, find_sandbox
from bot.bench.suitcase import pack
from bot.model.measurement import Fault
from bot.model.site import KernelSite
from bot.worker.contract import ARCHES, REQUEST, Argument, Plan, PlanRequest, Shape, render
from bot.worker.contract.harvest import (
    MOST_SIGHTINGS,
    MOST_TROUBLES,
    HarvestAnswer,
    HarvestRequest,
    Origin,
    Sighting,
)

ARCH = "sm_90"
"""The GPU that a script is told is there; its memory decides how far some sweeps go."""
SECONDS = 240.0
DTYPES = ("bfloat16", "float16", "float32")
TOLD = 160


@dataclass(frozen=True)
class Point:
    """One size of the script's sweep, with all the calls that come to it."""

    sizes: Sizes
    dtype: str
    differs: tuple[str, ...]
    origins: tuple[Origin, ...]


@dataclass(frozen=True)
class Harvest:
    gpu: str
    """What the script was told is there."""
    points: tuple[Point, ...] = ()
    unread: tuple[str, ...] = ()
    """Calls of the op that the recipe does not cover, each with the reason."""
    troubles: tuple[str, ...] = ()
    unbounded: str = ""
    why_not: str = ""
    """Why nothing was harvested; `what_next` is what can be done about it."""
    what_next: str = ""


@dataclass(frozen=True)
class Farm:
    """A cell for a script and a judge to ask, in a folder of their own."""

    cells: Cells
    judge: Judge
    room: Path


def _line(text: str, limit: int = TOLD) -> str:
    """A stranger's words on one line, without what a terminal would obey."""
    return " ".join("".join(char if char.isprintable() else " " for char in text[: 4 * limit]).split())[:limit]


def _tops(site: KernelSite) -> tuple[str, ...]:
    """What of a checkout a script may look into: sources, benchmarks, tests, each with the folder at the top."""
    return tuple(
        dict.fromkeys(PurePosixPath(p).parts[0] for p in (site.source_root, site.benchmark_file, site.test_file))
    )


def _laid(tree: Path, site: KernelSite, folder: Path) -> Path:
    """A copy in the shape of the repository, as scripts find each other by their place in it."""
    for top in _tops(site):
        place = tree / top
        if place.is_dir() and not place.is_symlink():
            overlay.lay(tree, site.model_copy(update={"source_root": top}), (), folder / top)
        elif place.is_file() and not place.is_symlink():
            folder.mkdir(exist_ok=True)
            (folder / top).write_bytes(place.read_bytes())
    return folder


def _request(tree: Path, site: KernelSite, root: str, arch: str) -> HarvestRequest:
    subject = overlay.subject(site, overlay.base_files(tree, site), f"{root}/{site.source_root}")
    return HarvestRequest("harvest", subject, f"{root}/{site.benchmark_file}", arch)


def _ran(farm: Farm, tree: Path, site: KernelSite, arch: str) -> HarvestAnswer | Fault:
    request_folder = farm.room / "request"
    request_folder.mkdir()
    where = places(farm.cells, "harvest", _laid(tree, site, farm.room / "tree"), request_folder)
    request = _request(tree, site, farm.cells.sandbox.path_of(where.source), arch)
    (where.request.host / REQUEST).write_text(render(request), encoding="utf-8")
    limits = Limits(SECONDS)
    ended = start_afresh(farm.cells, where, limits, {}, None)
    return answered(where, ended, HarvestAnswer, limits)


def _planned(farm: Farm, kernel: str) -> Planned:
    def ask(sizes: Sizes, dtype: str) -> tuple[Argument, ...]:
        shape = Shape("harvest", "forward", sizes, dtype)
        request = PlanRequest("plan", kernel, (shape,), (), 0, str(farm.room))
        return farm.judge.ask(request, Plan).cases[0].call.arguments

    return ask


@dataclass
class _Books:
    """Calls that come to the same are one point."""

    points: dict[tuple[Sizes, str, tuple[str, ...]], list[Origin]] = field(default_factory=dict)
    unread: dict[str, None] = field(default_factory=dict)

    def add(self, sighting: Sighting, names: Sequence[str], planned: Planned) -> None:
        one = sighting.origin
        origin = Origin(*(_line(text) for text in (one.x_name, one.x_label, one.x, one.provider, one.config)))
        try:
            found = read_call(sighting.arguments, names, planned, DTYPES)
        except (Unreadable, Objection) as error:
            self.unread[_line(f"{origin.provider} at {origin.x_name} {origin.x}: {error}")] = None
            return
        key = (found.sizes, found.dtype, tuple(map(_line, found.differs)))
        self.points.setdefault(key, []).append(origin)


MISSING = "install the module that it names for the target's Python, and ask again"
BROKEN = "run the script where there is a GPU: if it ends there as well, it is the script that has to be mended"
NEVER = "it ran, and never called the op"


def _why_not(found: Harvest) -> Harvest:
    """The reason of an empty harvest, and what can be done."""
    if found.points:
        return found
    if found.unread:
        why = f"what it hands to the op has no words in the recipe: {found.unread[0]}"
        return replace(found, why_not=why, what_next="widen the recipe, or leave the kernel to the sizes of the table")
    if found.troubles:
        why = f"it did not come to the op: {found.troubles[0]}"
        return replace(found, why_not=why, what_next=MISSING if "ModuleNotFoundError" in why else BROKEN)
    return replace(
        found,
        why_not=NEVER,
        what_next="measure the op itself in that script, or leave the kernel to the sizes of the table",
    )


def _of_fault(fault: Fault, gpu: str) -> Harvest:
    why = f"it could not be run: {fault.kind}: {_line(fault.detail, 300)}"
    return Harvest(gpu, why_not=why, what_next=fault.next_step)


def read(answer: HarvestAnswer, names: Sequence[str], planned: Planned, gpu: str) -> Harvest:
    """What a worker told, as far as it can be believed."""
    books = _Books()
    for sighting in answer.sightings[:MOST_SIGHTINGS]:
        books.add(sighting, names, planned)
    points = tuple(Point(*key, tuple(origins)) for key, origins in books.points.items())
    troubles = tuple(_line(trouble) for trouble in answer.troubles[:MOST_TROUBLES])
    return _why_not(Harvest(gpu, points, tuple(books.unread), troubles, _line(answer.unbounded)))


def harvest(
    tree: Path,
    site: KernelSite,
    names: Sequence[str],
    python: str,
    scratch: Path,
    *,
    arch: str = ARCH,
    sandbox: Sandbox | None = None,
) -> Harvest:
    """What the benchmark script of one kernel measures, in these names of sizes. Whatever the script does in there, the
    result is a harvest; an empty one says why."""
    room = Path(scratch).absolute() / secrets.token_hex(4)
    room.mkdir(parents=True)
    pack("worker", room / "suitcase")
    pack("judge", room / "judge")
    target = look_at(python)
    cells = Cells(target, sandbox or find_sandbox(), room / "suitcase", room)
    judge = Judge(target, room / "judge", room / "judge-home")
    try:
        farm = Farm(cells, judge, room)
        answer = _ran(farm, tree, site, arch)
        if isinstance(answer, Fault):
            return _of_fault(answer, ARCHES[arch].chip)
        return read(answer, names, _planned(farm, site.kernel), ARCHES[arch].chip)
    finally:
        judge.close()
