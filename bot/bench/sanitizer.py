"""compute-sanitizer's memcheck around a worker that runs small passes of a finalist.

Each tensor is an allocation of its own meanwhile, so that whatever reads or writes beyond one is seen, also where it
ignores what it read. Whatever becomes of the tool is an answer in plain words.
"""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bot.bench import overlay
from bot.bench.cell import Around, Cells, answer_of, answered, places, start_afresh, watched_standby
from bot.bench.launcher import Ended, Limits
from bot.bench.looking import Scene
from bot.bench.nvidia_tool import Tool, first_of
from bot.bench.sandbox import Mount
from bot.bench.standby import Ready, Room
from bot.errors import OperatorError
from bot.model.measurement import Fault, Sanitized
from bot.worker.contract import REQUEST, Call, Plan, render
from bot.worker.contract.looking import LookAnswer, LookRequest

SECONDS = 60.0
LOG = "sanitizer.log"
PLACES = ("usr/local/cuda*/bin/compute-sanitizer", "usr/local/cuda*/compute-sanitizer/compute-sanitizer")
MOST_BYTES, MOST_LOG = 2**18, 2**20
"""Of the tensors of a pass that is run; of what the tool may write."""
SEPARATE = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
LAUNCH_S = 86_400
"""How long the tool waits for the program's first word to the driver. Of itself it waits 10 s, and what says that later
stands still for ever."""
_MARK = "========="
_SUMMARY = re.compile(r"ERROR SUMMARY: ([\d,]+) errors?")
_WHAT = re.compile(r"Invalid \S+ \w+ of size [\d,]+ bytes?")
_WHERE = re.compile(r"at (?:0x[0-9a-f]+ in .*:(?P<old>\w+)$|(?P<name>.*?)\+0x[0-9a-f]+)")
_BEYOND = re.compile(r"and is ([\d,]+ bytes? (?:after|before|inside) the nearest allocation)")


class Unreadable(Exception):
    """What the tool found is not known: its log is not one, it was ended, or its worker did not come to its end."""


@dataclass(frozen=True)
class Finding:
    what: str
    kernel: str
    beyond: str

    def __str__(self) -> str:
        return ", ".join(part for part in (f"{self.what} in {self.kernel or 'a kernel'}", self.beyond) if part)


def _candidates() -> Iterable[Path]:
    found = shutil.which("compute-sanitizer")
    if found:
        yield Path(found)
    for pattern in PLACES:
        yield from sorted(Path("/").glob(pattern), reverse=True)


def find_tool() -> Tool | None:
    """The one on the PATH, else the newest of a CUDA toolkit."""
    return first_of(_candidates())


# -- what is run ------------------------------------------------------------------------------------------------------


def _is_odd(call: Call) -> bool:
    """Whether a row ends in the middle of a block, as that is where masks are forgotten."""
    widest = max(call.tensors, key=lambda spec: spec.nbytes)
    width = widest.shape[-1] if widest.shape else 1
    return width > 1 and width & (width - 1) != 0 and all(spec.layout == "dense" for spec in call.tensors)


def small_calls(plan: Plan) -> tuple[Call, ...]:
    """The smallest and the largest small check that runs a backward pass, and so the forward before it; of forward
    passes where there is no other."""
    small = [call for call in plan.checks if call.tensors and 0 < call.nbytes <= MOST_BYTES]
    both = [call for call in small if call.direction != "forward"] or small
    fit = sorted([call for call in both if _is_odd(call)] or both, key=lambda call: (call.nbytes, call.id))
    return (fit[0], fit[-1])[: 1 + (fit[0].case != fit[-1].case)] if fit else ()


# -- what it says -----------------------------------------------------------------------------------------------------


def _findings(said: list[str]) -> tuple[Finding, ...]:
    found: list[Finding] = []
    for number, line in enumerate(said):
        if _WHAT.fullmatch(line) is None:
            continue
        below = []
        for later in said[number + 1 :]:
            if not later.startswith(" "):
                break
            below.append(later.strip())
        where = next((match for one in below if (match := _WHERE.match(one))), None)
        beyond = next((match[1] for one in below if (match := _BEYOND.match(one))), "")
        kernel = (where["old"] or where["name"]) if where is not None else ""
        found.append(Finding(line, kernel[:200], beyond))
    return tuple(found)


def parse(log: str) -> tuple[int, tuple[Finding, ...]]:
    """How many errors it counts, and those of them that are accesses. Nothing is skipped: a line that is not the
    tool's makes all of it unreadable."""
    lines = log.splitlines()
    if not all(line.startswith(_MARK) for line in lines):
        raise Unreadable("it holds lines that are not the tool's")
    said = [line.removeprefix(_MARK).removeprefix(" ").rstrip() for line in lines]
    totals = [match[1] for line in said if (match := _SUMMARY.fullmatch(line))]
    if not said or said[0] != "COMPUTE-SANITIZER" or len(totals) != 1:
        raise Unreadable("it has no beginning or no end")
    count, found = int(totals[0].replace(",", "")), _findings(said)
    if len(found) > count:
        raise Unreadable(f"it counts {count} errors and shows {len(found)}")
    return count, found


def _result(status: str, detail: str, tool: Tool | None) -> Sanitized:
    words = {"status": status, "detail": detail[:400], "version": tool.shown if tool is not None else ""}
    return Sanitized.model_validate(words)


# -- a run -----------------------------------------------------------------------------------------------------------


def arguments(tool: Tool, log: str) -> tuple[str, ...]:
    """What comes before the program. Errors of the API are torch's business; the compiler's processes have no GPU."""
    return (
        str(tool.path),
        *("--tool", "memcheck", "--report-api-errors", "no"),
        *("--target-processes", "application-only", "--launch-timeout", str(LAUNCH_S)),
        *("--log-file", log),
    )


def _log(place: Path) -> str:
    """What the tool left; nothing but a plain file counts, for the variant can write there too."""
    if place.is_symlink() or not place.is_file() or place.stat().st_size > MOST_LOG:
        raise Unreadable("it left none that can be read")
    return place.read_text(encoding="utf-8", errors="replace")


def _around(tool: Tool, answer: str) -> Around:
    return Around(arguments(tool, f"{answer}/{LOG}"), (Mount(tool.home, str(tool.home)),))


def ahead(cells: Cells, memory_bytes: int) -> Ready | None:
    """The tool around a worker that stands ready: to start both is half of what a finalist waits for. None where
    there is no tool, or nobody stands ready; who asks then starts afresh."""
    tool = find_tool() if cells.gpu is not None and True in cells.standby else None
    if tool is None:
        return None
    room = Room(cells.scratch / f"sanitizer-{secrets.token_hex(4)}")
    try:
        around = _around(tool, cells.sandbox.path_of(answer_of(room)))
        return watched_standby(cells, room, memory_bytes, around, SEPARATE)
    except OSError:
        return None


def _ran(
    scene: Scene, calls: tuple[Call, ...], tool: Tool, ready: Ready | None = None, name: str = "sanitizer"
) -> tuple[Finding, ...]:
    """The accesses beyond what was allocated. Raises Unreadable where they are not known."""
    folder = scene.folder / f"{name}-request"
    folder.mkdir()
    where = places(scene.cells, f"{scene.folder.name}/{name}", scene.source, folder)
    subject = overlay.subject(scene.site, scene.files, scene.cells.sandbox.path_of(where.source))
    request = LookRequest("look", subject, calls, scene.plan.fills, "counters")
    (folder / REQUEST).write_text(render(request), encoding="utf-8")
    limits = Limits(SECONDS, scene.memory_bytes)
    if ready is not None:
        ended = ready.carry_out(where.source.host, where.request.host, where.answer.host, limits)
    else:
        around = _around(tool, scene.cells.sandbox.path_of(where.answer))
        ended = start_afresh(scene.cells, where, limits, SEPARATE, scene.cells.gpu, around)
    return _heard(where.answer.host / LOG, ended, answered(where, ended, LookAnswer, limits))


def _of_finalist(scene: Scene, calls: tuple[Call, ...], tool: Tool, ready: Ready | None) -> tuple[Finding, ...]:
    """By who stands ready. What that one cannot tell one that starts afresh is asked as well: it may have stood too
    long."""
    if ready is None or not ready.running.is_alive:
        return _ran(scene, calls, tool)
    try:
        return _ran(scene, calls, tool, ready)
    except Unreadable:
        return _ran(scene, calls, tool, name="sanitizer-again")


def _heard(log: Path, ended: Ended, answer: LookAnswer | Fault) -> tuple[Finding, ...]:
    if ended.stopped:
        raise Unreadable(f"it was ended: {ended.stopped}, after {ended.seconds:.0f} s")
    count, found = parse(_log(log))
    if count and not found:
        raise Unreadable(f"it counts {count} errors, none of them an access that is known")
    if not found and isinstance(answer, Fault):
        raise Unreadable(f"the worker did not come to its end; {answer.kind}: {answer.detail}")
    return found


def _excuses(stock: Scene, calls: tuple[Call, ...], tool: Tool, first: Finding) -> frozenset[tuple[str, str]]:
    """What v0 does too."""
    try:
        return frozenset((one.kernel, one.what) for one in _ran(stock, calls, tool))
    except Unreadable as error:
        raise Unreadable(f"{first}; whether v0 does that is not known: {error}") from error


def sanitized(mine: Scene, stock: Scene, ready: Ready | None = None) -> Sanitized:
    """What is found in the variant and not in v0, which is only asked where there is anything to excuse. `ready` as
    made by `ahead`."""
    tool, calls = find_tool(), small_calls(mine.plan)
    if tool is None:
        return _result("absent", "", None)
    try:
        if not calls:
            raise Unreadable("no check is small enough")
        found = _of_finalist(mine, calls, tool, ready)
        known = _excuses(stock, calls, tool, found[0]) if found else frozenset()
    except (Unreadable, OperatorError, OSError) as error:
        return _result("failed", str(error), tool)
    new = [one for one in found if (one.kernel, one.what) not in known]
    if new:
        more = f" and {len(new) - 1} more" if len(new) > 1 else ""
        return _result("found", f"{new[0]}{more}", tool)
    excused = "; what was found v0 does too" if found else ""
    cases = ", ".join(dict.fromkeys(call.case for call in calls))
    return _result("clean", f"memcheck of {cases}{excused}", tool)
