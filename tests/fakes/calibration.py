"""A calibration without a GPU: kernels are written and never compiled, and the judge's blocks are replayed noise."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any

import pytest

from bot.bench import calibrating, planted
from bot.bench.cell import Places
from bot.model.measurement import Block
from bot.worker.contract import Argument, Call, CasePlan, Plan, PlanRequest, TensorSpec
from bot.worker.contract.gpu import GpuAnswer, GpuRequest, Recording
from bot.worker.contract.timing import (
    Blocks,
    BlocksRequest,
    Closed,
    CloseRequest,
    Common,
    CommonRequest,
    Opened,
    OpenRequest,
    Started,
)
from tests.fakes.gpu_clock import FakeGpuClock, conditions

V0_US = {"short": 6.0, "middle": 110.0, "long": 1300.0}
FASTER = 3.0
"""Percent, of those that are faster in truth."""


class FakeJudge:
    """Answers at once, and keeps what it was asked."""

    def __init__(self, seed: int = 1, faster: Collection[int] = (), voids: Collection[int] = ()) -> None:
        self.asked: list[Any] = []
        self.recorded: list[str] = []
        self._faster, self._voids = faster, voids
        self._opens, self._process = OpenRequest("open", "", "", (), 1, False), -1
        recorded, names = conditions(), [size.name for size in planted.SIZES]
        self._luck = {name: recorded[(7 * seed + i) % len(recorded)] for i, name in enumerate(names)}
        self._clocks = {name: FakeGpuClock(luck, seed) for name, luck in self._luck.items()}

    def ask(self, request: Any, kind: Any) -> Any:
        self.asked.append(request)
        if isinstance(request, PlanRequest):
            return Plan(tuple(CasePlan(_call(shape), 0) for shape in request.cases), (), ())
        if isinstance(request, OpenRequest):
            self._opens, self._process = request, self._process + request.fresh
            return Opened(request.lanes, V0_US[request.case])
        if isinstance(request, BlocksRequest):
            if self._process in self._voids:
                return Blocks((), (), request.blocks, "", 0.0)
            return Blocks(self._read(request.variant, request.blocks), (), 0, "", 1.0)
        if isinstance(request, CommonRequest):
            if self._process in self._voids:
                return Common(((),) * len(request.variants), request.blocks, "", 0.0)
            return Common(tuple(self._read(one, request.blocks) for one in request.variants), 0, "", 1.0)
        return Closed() if isinstance(request, CloseRequest) else Started(request.count)

    def _read(self, place: int, count: int) -> tuple[Block, ...]:
        """A kernel has one place in one process, wherever it is read again."""
        case = self._opens.case
        size = next(size for size in planted.SIZES if size.name == case)
        which, extra = (int(part) for part in Path(self._opens.variants[place]).name.split("-")[1:])
        gain = 100 * ((size.rows + size.extra(0.0)) / (size.rows + extra) - 1)
        gain += FASTER if which in self._faster else 0.0
        blocks = self._clocks[case].blocks(gain, count, process=101 * self._process + which)
        scale = V0_US[case] / fmean(self._luck[case].us)
        return tuple((a * scale, b * scale, c * scale, d * scale) for a, b, c, d in blocks)

    def close(self) -> None:
        pass


def _call(shape: Any) -> Call:
    x = TensorSpec("x", shape.dtype, tuple(size for _, size in shape.sizes))
    constants = (Argument(name, None, 0) for name in ("turns", "extra", "which"))
    return Call(shape.id, shape.id, shape.direction, (Argument("x", x), *constants), ())


def _recording(call: Call) -> Recording:
    """What the judge is told later is in the folder's name: `kernel-WHICH-EXTRA`."""
    constants = {argument.name: argument.value for argument in call.arguments}
    return Recording(call.case, f"kernel-{constants['which']}-{constants['extra']}", "", 0, (), ())


def cells(scratch: Path) -> Any:
    sandbox = SimpleNamespace(name="none", path_of=lambda mount: str(mount.host))
    python = SimpleNamespace(torch="2.11.0", triton="3.6.0")
    return SimpleNamespace(scratch=scratch, gpu=SimpleNamespace(uuid="GPU-1"), python=python, sandbox=sandbox)


def install(patch: pytest.MonkeyPatch, judge: FakeJudge) -> None:
    """At the doors of the bench: the judge's and the workers'."""

    def record(_: Any, __: Places, request: GpuRequest, *___: Any) -> GpuAnswer:
        judge.recorded += [call.case for call in request.cases]
        return GpuAnswer((), tuple(map(_recording, request.cases)))

    patch.setattr(calibrating, "Judge", lambda *_: judge)
    patch.setattr(calibrating, "pack", lambda *_: None)
    patch.setattr(calibrating, "run_cell", record)
