"""The compile job: record the launches of each case, then compile what they need, each distinct specialisation once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from bot.worker.contract import (
    Binary,
    Caught,
    CaughtCase,
    CompileAnswer,
    CompileRequest,
    Stamp,
    Tried,
)
from bot.worker.contract.arches import ARCHES, Arch
from bot.worker.device import StubDriver
from bot.worker.pool import compile_all
from bot.worker.recorder import Capture, Recorder
from bot.worker.resources import compile_and_read
from bot.worker.warming import warm_up


class _Orders:
    """What is to be compiled, each distinct thing once."""

    def __init__(self, driver: StubDriver) -> None:
        self._driver = driver
        self._captures: dict[str, tuple[Capture, Arch]] = {}
        self.replies: dict[str, Any] = {}

    def add(self, capture: Capture, arch: Arch) -> str:
        key = capture.key(arch)
        self._captures[key] = (capture, arch)
        return key

    def _job(self, capture: Capture, arch: Arch) -> Callable[[], Binary]:
        return lambda: compile_and_read(lambda: capture.compile(self._driver, arch))

    def fill(self, request: CompileRequest) -> None:
        warm_up(self._driver.get_current_target())
        jobs = [self._job(*order) for order in self._captures.values()]
        replies = compile_all(jobs, budget_s=request.budget_s, processes=request.processes, within_s=request.within_s)
        self.replies = dict(zip(self._captures, replies, strict=True))

    def onto(self, caught: Caught, key: str) -> Caught:
        reply = self.replies[key]
        return dataclasses.replace(caught, binary=reply.binary, refusal=reply.refusal)


def _largest_of_each(captures: list[Capture]) -> list[Capture]:
    """One launch of each kernel stands for it in a passport: the one with the most memory."""
    best: dict[str, Capture] = {}
    for capture in captures:
        size = sum(nbytes for _, nbytes in capture.regions)
        known = best.get(capture.kernel)
        if known is None or size > sum(nbytes for _, nbytes in known.regions):
            best[capture.kernel] = capture
    return list(best.values())


def compile_job(op: Any, recorder: Recorder, driver: StubDriver, request: CompileRequest) -> CompileAnswer:
    arch = ARCHES[request.arch]
    recorded = [recorder.record(op, call) for call in request.calls]
    orders = _Orders(driver)
    case_keys = [[orders.add(c, arch) for c in captures] for _, captures in recorded]
    everything = [capture for _, captures in recorded for capture in captures]
    stamp_keys = [
        (name, capture.kernel, orders.add(capture, ARCHES[name]))
        for name in request.passports
        for capture in _largest_of_each(everything)
    ]
    tried_keys = []
    for number, override in enumerate(request.overrides):
        for case, captures in recorded:
            if all(capture.kernel != override.kernel for capture in captures):
                continue
            changed = [c.with_numbers(override) if c.kernel == override.kernel else c for c in captures]
            keys = [orders.add(c, arch) for c in changed]
            tried_keys.append((number, case.case, [c.caught(arch) for c in changed], keys))
    orders.fill(request)
    return CompileAnswer(
        cases=tuple(_filled(orders, case, keys) for (case, _), keys in zip(recorded, case_keys, strict=True)),
        stamps=tuple(
            Stamp(name, kernel, orders.replies[key].binary, orders.replies[key].refusal)
            for name, kernel, key in stamp_keys
        ),
        tried=tuple(
            Tried(number, case, tuple(orders.onto(c, k) for c, k in zip(caught, keys, strict=True)))
            for number, case, caught, keys in tried_keys
        ),
        slowest_s=max((orders.replies[key].seconds for keys in case_keys for key in keys), default=0.0),
    )


def _filled(orders: _Orders, case: CaughtCase, keys: list[str]) -> CaughtCase:
    launches = tuple(orders.onto(c, k) for c, k in zip(case.launches, keys, strict=True))
    return dataclasses.replace(case, launches=launches)
