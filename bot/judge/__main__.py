"""The judge at its desk: one JSON request a line on standard input, one JSON answer a line on standard output.

It holds the inputs, the oracle and the untouched kernel's results for as long as a bench is open. torch is imported
only when the first tensor is needed, so that the plan of a campaign is there at once.
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bot.judge.hands import hands
from bot.judge.hidden import hidden, unseen_sizes
from bot.judge.plan import Probe, plan
from bot.judge.recipe import Recipe
from bot.judge.recipes import RECIPES
from bot.judge.unseen import unseen_cases
from bot.worker.contract import (
    Call,
    CompareRequest,
    Complaint,
    ContractError,
    Plan,
    PlanRequest,
    Prepared,
    PrepareRequest,
    Rows,
    Shape,
    UnseenRequest,
    UnseenSizes,
    clip,
    parse,
    render,
)
from bot.worker.contract.timing import (
    TIED,
    BlocksRequest,
    Closed,
    CommonRequest,
    CompileRivalRequest,
    OpenRequest,
    RivalCompiled,
    RoofRequest,
    Started,
    StartRequest,
)

PR_SET_PDEATHSIG = 1
MEMORY_SHARE = 1 / 8
"""Of the GPU's memory one that compiles a rival may have: others are checked beside it, and would be blamed for what
they lack. One that needs more is compiled by whoever plays it, alone."""
CLOCK = ("start", "open", "blocks", "common", "burst", "roof", "close")


MOST_THREADS = 4
"""That prepare probes: those of large hidden shapes take a second and more of one processor each."""
MOST_AT_ONCE = 12
"""Of the evaluations behind them: one hidden shape of multi_token_attention takes 4 s of a processor, all its others
together as long."""
MAKING_S = 60.0
"""Of one answer, after which no more further draws are begun: nobody waits for an answer forever. What is left is asked
for again. Hundreds may be wanted at once."""


def _answered(known: Iterable[Any], returned: Mapping[str, Any]) -> list[Any]:
    """The same with what the untouched kernel made of those that it was asked for."""
    return [dataclasses.replace(one, baseline=returned.get(one.probe.call.id, one.baseline)) for one in known]


class Desk:
    """What the judge remembers between requests."""

    def __init__(self) -> None:
        self._kernel = ""
        self._recipe: Recipe | None = None
        self._probes: tuple[Probe, ...] = ()
        self._folder = Path()
        self._known: list[Any] = []
        self._draws: dict[str, Any] = {}
        """What is known of those further draws that somebody asked for."""
        self._folded: list[Any] = []
        """What everybody is held against."""
        self._seed = 0
        self._gpu = ""
        self._calls: dict[str, Call] = {}
        self._scored: tuple[Shape, ...] = ()
        self._clock: Any = None

    def plan(self, request: PlanRequest) -> Plan | Complaint:
        recipe = RECIPES.get(request.kernel)
        if recipe is None:
            return Complaint(f"no recipe for {request.kernel}; there is one for {', '.join(sorted(RECIPES))}")
        self._kernel, self._recipe, self._folder = request.kernel, recipe, Path(request.folder)
        self._seed, self._gpu = request.seed, request.gpu
        on_gpu = bool(request.gpu)
        unnamed = hidden(recipe, request.cases, request.checks, request.seed) if on_gpu else ()
        try:
            planned, self._probes = plan(
                recipe, request.cases, request.checks, request.seed, on_gpu=on_gpu, hidden=unnamed
            )
        except ValueError as error:
            return Complaint(str(error))
        drawn = unseen_cases(recipe, request.cases, request.seed) if on_gpu else ()
        calls = [*(one.call for one in planned.cases), *(one.call for one in drawn)]
        self._calls = {call.case: call for call in calls}
        self._scored = request.cases
        fills = tuple((o.name, o.filled(recipe.stock)) for o in recipe.operands)
        return dataclasses.replace(planned, fills=fills, unseen=drawn, tuned=recipe.tuned)

    def unseen(self, request: UnseenRequest) -> UnseenSizes | Complaint:
        recipe = RECIPES.get(request.kernel)
        if recipe is None or not request.cases:
            return Complaint(f"nobody can say what sizes {request.kernel} is asked for")
        return UnseenSizes(unseen_sizes(recipe, request.cases, request.seed, request.count))

    def prepare(self) -> Prepared | Complaint:
        if self._recipe is None:
            return Complaint("prepare was asked for before a plan")
        from bot.judge.work import work

        self._hear(self._made(self._recipe, [probe for probe in self._probes if not probe.again]), [])
        return Prepared(len(self._known), work(self._recipe, self._scored))

    def _made(self, recipe: Recipe, probes: Sequence[Probe]) -> list[Any]:
        """All that is known of these, and their inputs."""
        from bot.judge.inputs import to_blob
        from bot.judge.known import known_of

        def known(probe: Probe) -> Any:
            found, filled = known_of(recipe, probe, samples.map)
            (self._folder / probe.call.blob).write_bytes(to_blob(probe.call, filled))
            return found

        # Each draws from generators of its own, so neither their order nor their company changes anything.
        with ThreadPoolExecutor(hands(MOST_THREADS)) as threads, ThreadPoolExecutor(hands(MOST_AT_ONCE)) as samples:
            return list(threads.map(known, probes))

    def compare(self, request: CompareRequest) -> Rows | Complaint:
        try:
            found = self._compared(request)
        except Exception as error:  # hostile bytes have no closed list of ways to be wrong, and the judge has to go on
            return Complaint(clip(f"{type(error).__name__}: {error}"))
        if self._recipe is not None:
            wanted = [p for p in self._probes if p.call.id in found.again and p.call.id not in self._draws]
            self._draws |= {known.probe.call.id: known for known in self._made_in_time(self._recipe, wanted)}
        return dataclasses.replace(found, again=tuple(name for name in found.again if name in self._draws))

    def _made_in_time(self, recipe: Recipe, probes: Sequence[Probe]) -> list[Any]:
        made: list[Any] = []
        until = time.monotonic() + MAKING_S
        while len(made) < len(probes) and (not made or time.monotonic() < until):
            made += self._made(recipe, probes[len(made) : len(made) + MOST_AT_ONCE])
        return made

    def _compared(self, request: CompareRequest) -> Rows:
        from bot.judge.answer import read_answer
        from bot.judge.compare import compared, once

        returned = read_answer(Path(request.folder), on_gpu=bool(self._gpu))
        if request.draws:
            self._hear(self._known, _answered(self._draws.values(), returned))
            return Rows(())
        if request.baseline:
            self._hear(_answered(self._known, returned), list(self._draws.values()))
        known = once(self._folded, request.once) if request.once else self._folded
        return compared(known, returned, baseline=request.baseline)

    def _hear(self, known: list[Any], draws: list[Any]) -> None:
        """What the untouched kernel did, as far as it did anything. Where that fails all stays as it was."""
        from bot.judge.compare import folded

        heard = [one for one in draws if one.baseline is not None]
        ids = {one.probe.call.id for one in heard}
        unheard = [probe for probe in self._probes if probe.again and probe.call.id not in ids]
        self._folded = folded([*known, *heard], unheard)
        self._known, self._draws = known, {one.probe.call.id: one for one in draws}

    def _timed(self, do: str, line: str) -> Any:
        """Questions of the clock. What a tape does to its replayer is news about the variant, not our end."""
        from bot.judge.handle import Unplayable
        from bot.judge.timekeeper import Timekeeper

        if self._recipe is None:
            return Complaint("a clock was asked for before a plan")
        if self._clock is None:
            asks = {"open": OpenRequest, "start": StartRequest}
            still = parse(asks[do], line).still if do in asks else 0
            self._clock = Timekeeper(self._kernel, self._recipe, self._seed, Path.cwd(), self._gpu, still)
        try:
            match do:
                case "start":
                    wished = parse(StartRequest, line)
                    return Started(self._clock.start(wished.count, alone=wished.alone))
                case "open":
                    wanted = parse(OpenRequest, line)
                    call = self._calls[wanted.case]
                    arms, lanes = wanted.variants, wanted.lanes
                    return self._clock.open(
                        call,
                        wanted.baseline,
                        arms,
                        lanes,
                        fresh=wanted.fresh,
                        rivals=wanted.rivals,
                        still=wanted.still,
                    )
                case "blocks":
                    asked = parse(BlocksRequest, line)
                    return self._clock.blocks(asked.variant, asked.blocks, asked.control)
                case "common":
                    shared = parse(CommonRequest, line)
                    return self._clock.common(shared.variants, shared.blocks)
                case "burst":
                    return self._clock.burst()
                case "roof":
                    moved = parse(RoofRequest, line)
                    return self._clock.roof(moved.nbytes, moved.lanes)
            self._clock.close()
            return Closed()
        except (Unplayable, ContractError, OSError, RuntimeError) as error:
            self._clock.close()
            return Complaint(clip(f"{type(error).__name__}: {error}"))

    def compile_rival(self, request: CompileRivalRequest) -> RivalCompiled | Complaint:
        """In a process that does nothing else: it needs no plan, and has no clock."""
        import torch

        from bot.judge.rivals import compile_ahead

        started, device = time.monotonic(), "cuda" if torch.cuda.is_available() else "cpu"
        if device == "cuda":
            torch.cuda.set_per_process_memory_fraction(MEMORY_SHARE)
        try:
            compile_ahead(request.name, request.kernel, request.call, device)
        except Exception as error:  # whoever plays it meets the same, and says so
            return Complaint(clip(f"{type(error).__name__}: {error}"))
        return RivalCompiled(round(time.monotonic() - started, 3))

    def end(self) -> None:
        if self._clock is not None:
            self._clock.end()

    def answer(self, line: str) -> Any:
        do = json.loads(line).get("do")
        if do in CLOCK:
            return self._timed(do, line)
        if do == "compile":
            return self.compile_rival(parse(CompileRivalRequest, line))
        if do == "plan":
            return self.plan(parse(PlanRequest, line))
        if do == "unseen":
            return self.unseen(parse(UnseenRequest, line))
        if do == "prepare":
            parse(PrepareRequest, line)
            return self.prepare()
        return self.compare(parse(CompareRequest, line))


def main(arguments: Sequence[str]) -> int:
    if arguments[:1] == [TIED]:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != int(arguments[1]):  # who started it went before that
            return 1
        print(render(Started(0)), flush=True)
    desk = Desk()
    try:
        for line in sys.stdin:
            print(render(desk.answer(line)), flush=True)
    finally:
        desk.end()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
