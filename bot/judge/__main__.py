"""The judge at its desk: one JSON request a line on standard input, one JSON answer a line on standard output.

It holds the inputs, the oracle and the untouched kernel's results for as long as a bench is open. torch is imported
only when the first tensor is needed, so that the plan of a campaign is there at once.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

from bot.judge.plan import Probe, plan
from bot.judge.recipe import Recipe
from bot.judge.recipes import RECIPES
from bot.worker.contract import (
    CompareRequest,
    Complaint,
    Plan,
    PlanRequest,
    Prepared,
    PrepareRequest,
    Rows,
    clip,
    parse,
    render,
)


class Desk:
    """What the judge remembers between requests."""

    def __init__(self) -> None:
        self._recipe: Recipe | None = None
        self._probes: tuple[Probe, ...] = ()
        self._folder = Path()
        self._known: list[Any] = []

    def plan(self, request: PlanRequest) -> Plan | Complaint:
        recipe = RECIPES.get(request.kernel)
        if recipe is None:
            return Complaint(f"no recipe for {request.kernel}; there is one for {', '.join(sorted(RECIPES))}")
        self._recipe, self._folder = recipe, Path(request.folder)
        try:
            planned, self._probes = plan(recipe, request.cases, request.checks, request.seed)
        except ValueError as error:
            return Complaint(str(error))
        return planned

    def prepare(self) -> Prepared | Complaint:
        if self._recipe is None:
            return Complaint("prepare was asked for before a plan")
        from bot.judge.inputs import to_blob
        from bot.judge.known import known_of

        for probe in self._probes:
            known, filled = known_of(self._recipe, probe)
            (self._folder / probe.call.blob).write_bytes(to_blob(probe.call, filled))
            self._known.append(known)
        return Prepared(len(self._probes))

    def compare(self, request: CompareRequest) -> Rows | Complaint:
        from bot.judge.answer import read_answer
        from bot.judge.compare import rows

        try:
            returned = read_answer(Path(request.folder))
            if request.baseline:
                self._known = [dataclasses.replace(k, baseline=returned.get(k.probe.call.id)) for k in self._known]
            return Rows(rows(self._known, returned, baseline=request.baseline))
        except Exception as error:  # hostile bytes have no closed list of ways to be wrong, and the judge has to go on
            return Complaint(clip(f"{type(error).__name__}: {error}"))

    def answer(self, line: str) -> Any:
        do = json.loads(line).get("do")
        if do == "plan":
            return self.plan(parse(PlanRequest, line))
        if do == "prepare":
            parse(PrepareRequest, line)
            return self.prepare()
        return self.compare(parse(CompareRequest, line))


def main() -> int:
    desk = Desk()
    for line in sys.stdin:
        print(render(desk.answer(line)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
