"""The compile job: record the launches of each case, then compile what they need, each distinct specialisation once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from bot.worker.contract import (
    Binary,
    Call,
    Caught,
    CaughtCase,
    CompileAnswer,
    CompileRequest,
    Refusal,
    Stamp,
    Tried,
)
from bot.worker.contract.arches import ARCHES, Arch
from bot.worker.contract.limits import clip
from bot.worker.device import StubDriver, as_if
from bot.worker.loading import NotTheVariant
from bot.worker.pool import compile_all
from bot.worker.recorder import Capture, Recorder
from bot.worker.resources import compile_and_read
from bot.worker.warming import warm_up

Recorded = list[tuple[CaughtCase, tuple[Capture, ...]]]
"""Of each call, as it stands in an answer and as it can be compiled."""


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


def _memory(capture: Capture) -> int:
    return sum(nbytes for _, nbytes in capture.regions)


def _largest_of_each(passes: Iterable[tuple[Call, Sequence[Capture]]]) -> list[Capture]:
    """One launch of each kernel stands for it in a passport: the one with the most memory of the pass that is handed
    the most. By what is allocated beside that, a variant's passport would be of another case than v0's, against which
    it is held."""
    best: dict[str, tuple[Call, Capture]] = {}
    for call, captures in passes:
        for capture in captures:
            known = best.get(capture.kernel)
            is_more = known is not None and call is known[0] and _memory(capture) > _memory(known[1])
            if known is None or is_more or call.nbytes > known[0].nbytes:
                best[capture.kernel] = call, capture
    return [capture for _, capture in best.values()]


class _Elsewhere:
    """What other chips would launch: a host may ask which chip it has, and take other numbers there."""

    def __init__(self, op: Any, recorder: Recorder, driver: StubDriver, own: Arch) -> None:
        self._op, self._recorder, self._driver, self._own = op, recorder, driver, own

    def launched(self, arch: Arch, calls: list[Call], here: list[Capture]) -> list[Capture] | Refusal:
        """One launch of each kernel of these passes, where they are `here` on the chip that was recorded."""
        if arch == self._own:
            return here
        try:
            with as_if(self._driver, arch, self._recorder.root):
                found = [(call, self._recorder.record(self._op, call)[1]) for call in calls]
        except NotTheVariant:
            raise
        except Exception as error:  # of host code there is no closed list
            return Refusal("crashed", clip(f"{type(error).__name__}: {error}"))
        return _largest_of_each(found)


def _stamped(
    orders: _Orders, elsewhere: _Elsewhere, request: CompileRequest, recorded: Recorded
) -> list[tuple[str, str, str | Refusal]]:
    """An architecture, a kernel, and what is to be compiled of it there."""
    passes = [(call, captures) for call, (_, captures) in zip(request.calls, recorded, strict=True)]
    here = _largest_of_each(passes)
    calls = [call for call, captures in passes if any(one is capture for one in here for capture in captures)]
    found: list[tuple[str, str, str | Refusal]] = []
    for name in request.passports:
        arch = ARCHES[name]
        there = elsewhere.launched(arch, calls, here)
        if isinstance(there, Refusal):
            found += [(name, capture.kernel, there) for capture in here]
        else:
            found += [(name, capture.kernel, orders.add(capture, arch)) for capture in there]
    return found


def _stamp(orders: _Orders, arch: str, kernel: str, ordered: str | Refusal) -> Stamp:
    if isinstance(ordered, Refusal):
        return Stamp(arch, kernel, refusal=ordered)
    return Stamp(arch, kernel, orders.replies[ordered].binary, orders.replies[ordered].refusal)


def compile_job(op: Any, recorder: Recorder, driver: StubDriver, request: CompileRequest) -> CompileAnswer:
    arch = ARCHES[request.arch]
    recorded = [recorder.record(op, call) for call in request.calls]
    orders = _Orders(driver)
    case_keys = [[orders.add(c, arch) for c in captures] for _, captures in recorded]
    stamped = _stamped(orders, _Elsewhere(op, recorder, driver, arch), request, recorded)
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
        stamps=tuple(_stamp(orders, *one) for one in stamped),
        tried=tuple(
            Tried(number, case, tuple(orders.onto(c, k) for c, k in zip(caught, keys, strict=True)))
            for number, case, caught, keys in tried_keys
        ),
        slowest_s=max((orders.replies[key].seconds for keys in case_keys for key in keys), default=0.0),
    )


def _filled(orders: _Orders, case: CaughtCase, keys: list[str]) -> CaughtCase:
    launches = tuple(orders.onto(c, k) for c, k in zip(case.launches, keys, strict=True))
    return dataclasses.replace(case, launches=launches)
