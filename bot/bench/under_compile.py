"""A finalist where models under torch.compile have it: a few checks, forward and backward, held against the same truth
by the same judge. The untouched kernel is asked first: what torch does not make of it is asked of nobody.

What becomes of torch's compiler is an answer in plain words: nobody is blamed for what is not known.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from bot.bench import compile_pool, overlay
from bot.bench.bailiff import Judge
from bot.bench.cell import places, run_cell
from bot.bench.launcher import Limits
from bot.bench.looking import Scene
from bot.model.measurement import Fault, UnderCompile
from bot.worker.contract import Call, CompareRequest, Plan, Rows
from bot.worker.contract.gpu import GpuAnswer
from bot.worker.contract.under_compile import UnderCompileRequest

SECONDS = 60.0
"""Of v0, and of each finalist: torch compiles each pass of each shape anew."""
BEGINS = 0.5
"""The share of it in which a check may begin, so that the last one has time to end."""
MOST_BYTES = 2**18
"""Of the tensors of a check."""
TURNS = 2
"""So often v0 is asked about what is not known of it."""
MOST_WORDS = 400
SILENT = "there is no check to ask"

# -- what is run ------------------------------------------------------------------------------------------------------


def _type(call: Call) -> str:
    return call.tensors[0].dtype


def few(plan: Plan, unheld: Collection[str]) -> tuple[Call, ...]:
    """A check of each pass, as each costs a finalist seconds of a GPU: of the first pass the smallest, of the others
    the largest small one, of another type where there is one. `unheld` are calls in which v0 is far off: asked alone,
    they are held against nothing."""
    fit = [call for call in plan.checks if call.tensors and 0 < call.nbytes <= MOST_BYTES and call.id not in unheld]
    found: list[Call] = []
    for direction in dict.fromkeys(call.direction for call in fit):
        ordered = sorted((call for call in fit if call.direction == direction), key=lambda call: (call.nbytes, call.id))
        first = found[0] if found else ordered[0]
        others = [call for call in ordered if _type(call) != _type(first)] or ordered
        found.append(others[-1] if found else first)
    return tuple(found)


# -- what became of it ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ran:
    """How calls went, by their ids; what is in neither is not known."""

    right: frozenset[str] = frozenset()
    wrong: Mapping[str, str] = field(default_factory=dict)
    unknown: str = ""
    """Why, of the first that is not known."""


def _sorted_out(calls: Sequence[Call], answer: GpuAnswer, ask: Callable[[tuple[str, ...]], Rows]) -> Ran:
    """`ask` the judge of those that ran."""
    asked = {call.id: call.case for call in calls}
    said = {one.id: one.refusal for one in answer.calls if one.id in asked}
    short = {name: refusal.detail for name, refusal in said.items() if refusal is not None and refusal.kind == "memory"}
    ran = tuple(name for name in said if name not in short)
    rows = {row.case: row for row in (ask(ran).rows if ran else ())}
    heard = {name: rows[asked[name]] for name in ran if asked[name] in rows}
    late = f"there was no time for {len(asked) - len(said)} of {len(asked)} checks" if len(said) < len(asked) else ""
    return Ran(
        right=frozenset(name for name, row in heard.items() if row.passed),
        wrong={name: row.detail for name, row in heard.items() if not row.passed},
        unknown=next(iter(short.values()), late),
    )


def _ran(scene: Scene, judge: Judge, calls: Sequence[Call], *, whole: bool, seconds: float) -> Ran:
    if not calls or seconds <= 0:
        return Ran(unknown=f"the {SECONDS:.0f} s for it were over" if calls else "")
    name = "under-compile" if whole else "under-compile-in-parts"
    folder = scene.folder / f"{name}-request"
    folder.mkdir()
    for call in calls:
        os.link(scene.cells.scratch / "inputs" / call.blob, folder / call.blob)
    where = places(scene.cells, f"{scene.folder.name}/{name}", scene.source, folder)
    subject = overlay.subject(scene.site, scene.files, scene.cells.sandbox.path_of(where.source))
    request = UnderCompileRequest("under_compile", subject, tuple(calls), whole, BEGINS * seconds)
    answer = run_cell(scene.cells, where, request, GpuAnswer, Limits(seconds, scene.memory_bytes), {})
    if isinstance(answer, Fault):
        return Ran(unknown=f"{answer.kind}: {answer.detail}")

    def ask(ids: tuple[str, ...]) -> Rows:
        return judge.ask(CompareRequest("compare", str(where.answer.host), False, ids), Rows)

    return _sorted_out(calls, answer, ask)


def _of(ran: Ran, some: Sequence[Call]) -> Ran:
    """What is known of these alone."""
    ids = {call.id for call in some}
    wrong = {name: why for name, why in ran.wrong.items() if name in ids}
    return Ran(ran.right & ids, wrong, ran.unknown if ids - ran.right - wrong.keys() else "")


# -- v0, and who is held against it -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reach:
    """How far torch.compile goes with v0."""

    whole: tuple[Call, ...] = ()
    """What it makes one graph of."""
    parts: tuple[Call, ...] = ()
    """What it makes several of, with Python in between."""
    fails: str = ""
    unknown: str = ""
    """Why it goes no further, of the first call each."""


def _named(calls: Sequence[Call]) -> str:
    return ", ".join(dict.fromkeys(call.case for call in calls))


def _short(text: str) -> str:
    return text if len(text) <= MOST_WORDS else f"{text[: MOST_WORDS - 3]}..."


def reach_of(calls: Sequence[Call], run: Callable[[Sequence[Call], bool], Ran]) -> Reach:
    """Asked for one graph first, as a model may ask, and for as many as it takes where that fails."""
    one = run(calls, True)
    several = run([call for call in calls if call.id in one.wrong], False)
    fails = [f"{call.case}: {several.wrong[call.id]}" for call in calls if call.id in several.wrong]
    return Reach(
        whole=tuple(call for call in calls if call.id in one.right),
        parts=tuple(call for call in calls if call.id in several.right),
        fails=next(iter(fails), ""),
        unknown=one.unknown or several.unknown,
    )


def held_against(reach: Reach, run: Callable[[Sequence[Call], bool], Ran]) -> UnderCompile:
    """A variant is asked for what v0 does, and for nothing else. One graph that becomes several is slower in a model
    and not wrong; it is told."""
    excuse = f"v0 does not go through torch.compile either: {reach.fails}" if reach.fails else ""
    if not reach.whole and not reach.parts:
        if excuse:
            return UnderCompile(status="v0_fails", detail=_short(excuse))
        return UnderCompile(status="unknown", detail=_short(f"v0: {reach.unknown or SILENT}"))
    one = run(reach.whole, True)
    again = [call for call in reach.whole if call.id in one.wrong]
    several = run([*again, *reach.parts], False)
    wrong = [f"{call.case}: {several.wrong[call.id]}" for call in (*again, *reach.parts) if call.id in several.wrong]
    if wrong:
        return UnderCompile(status="wrong", detail=_short(wrong[0]))
    return _not_wrong(reach, one, again, several, excuse)


def _not_wrong(reach: Reach, one: Ran, again: Sequence[Call], several: Ran, excuse: str) -> UnderCompile:
    """`again` are those that did not come out as one graph, and were run as several."""
    breaks = [call for call in again if call.id in several.right]
    right = _named([call for call in reach.whole if call.id in one.right])
    parts = _named([call for call in reach.parts if call.id in several.right])
    unknown = one.unknown or several.unknown or reach.unknown
    lost = next((call for call in again if call.id not in several.right), None)
    if lost is not None:
        unknown = f"{lost.case} does not come out as one graph ({one.wrong[lost.id]}), as several {several.unknown}"
    if not breaks and not right and not parts:
        return UnderCompile(status="unknown", detail=_short(unknown or SILENT))
    said = [
        f"{_named(breaks)} as several graphs, of v0 as one: {one.wrong[breaks[0].id]}" if breaks else "",
        f"{right} as one graph" if right else "",
        f"{parts} as several graphs, as of v0" if parts else "",
        excuse,
        f"the others are not known: {unknown}" if unknown else "",
    ]
    return UnderCompile(status="breaks" if breaks else "right", detail=_short("; ".join(filter(None, said))))


class Finalists:
    """Asks v0 once, and every finalist."""

    def __init__(self, judge: Judge, now: Callable[[], float] = time.monotonic) -> None:
        self._judge, self._now = judge, now
        self._reach: Reach | None = None
        self._asked = 0
        """How often v0 was, for as long as something is not known of it."""

    def _runs(self, scene: Scene) -> Callable[[Sequence[Call], bool], Ran]:
        until = self._now() + SECONDS

        def run(calls: Sequence[Call], whole: bool) -> Ran:
            return _ran(scene, self._judge, calls, whole=whole, seconds=until - self._now())

        return run

    def _beside_each_other(self, calls: Sequence[Call], mine: Scene, stock: Scene) -> UnderCompile:
        """The first time: v0 and the finalist, for one graph and for several, whatever comes of any of them. One after
        the other they took cross_entropy 30 s of an H200."""
        with ThreadPoolExecutor(max_workers=4) as threads:

            def asked(scene: Scene) -> Callable[[Sequence[Call], bool], Ran]:
                run = self._runs(scene)
                found = {whole: threads.submit(run, calls, whole) for whole in (True, False)}
                return lambda some, whole: _of(found[whole].result(), some)

            v0, finalist = asked(stock), asked(mine)
            return held_against(self._known(reach_of(calls, v0)), finalist)

    def _known(self, reach: Reach) -> Reach:
        """What is not known, or failed so, may be for want of memory that a finalist took beside it: v0 is asked once
        more then."""
        self._asked += 1
        is_sure = not reach.unknown and "memory" not in reach.fails.lower()
        if is_sure or self._asked >= TURNS:
            self._reach = reach
        return reach

    def under_compile(self, mine: Scene, stock: Scene, unheld: Collection[str]) -> UnderCompile:
        """Nothing that torch's compiler can do ends a campaign."""
        try:
            calls, reach = few(mine.plan, unheld), self._reach
            if reach is None and compile_pool.leaves_room():
                return self._beside_each_other(calls, mine, stock)
            return held_against(reach or self._known(reach_of(calls, self._runs(stock))), self._runs(mine))
        except Exception as error:
            return UnderCompile(status="unknown", detail=_short(f"{type(error).__name__}: {error}"))
