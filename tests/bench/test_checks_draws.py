"""Further draws of v0, which are asked for when a variant fails without them, and then once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from bot.bench import checks
from bot.bench.bailiff import Objection
from bot.bench.cell import Cells, Places
from bot.bench.checks import Checked, Checker, Laid
from bot.bench.interpreter import TargetPython
from bot.bench.launcher import Limits
from bot.bench.sandbox import LIMITS_ONLY, Sandbox
from bot.judge import __main__ as desk
from bot.judge.__main__ import Desk
from bot.judge.plan import Probe
from bot.model.measurement import CheckResult, Fault
from bot.model.variant import SourceFile
from bot.worker.contract import (
    ANSWER,
    Call,
    CheckAnswer,
    CheckRequest,
    CompareRequest,
    Complaint,
    Plan,
    PlanRequest,
    PrepareRequest,
    Row,
    Rows,
    Shape,
    parse,
    render,
)
from tests.bench.tiny import OP, SITE
from tests.judge.returned import Kernel, Results, right, write_answer
from tests.patience import wait_for

FEW = Shape("forward-3x16-float32", "forward", (("rows", 3), ("cols", 16)), "float32")
ENOUGH = Shape("full-40x9-float32", "full", (("rows", 40), ("cols", 9)), "float32")
FIRST = "000"
"""The first probe of the three rows; there are others."""
OUTPUT = ("output", "0")
ROUNDING = 1e-4
"""What v0 is off by, but for its luck in the checks themselves."""
DIED = Fault(kind="crashed", detail="ended by SIGSEGV")


def off(by: float, *, where: Callable[[Probe], bool]) -> Kernel:
    """One value is, in those probes."""

    def kernel(probe: Probe, tensors: dict[str, torch.Tensor], turn: int) -> Results:
        found = right(probe, tensors, turn)
        if where(probe):
            y = found[OUTPUT]
            assert y is not None
            row = y.view(-1, y.shape[-1])[0]
            row[row.argmax()] += by * row.max()
        return found

    return kernel


def lucky(probe: Probe) -> bool:
    return bool(probe.again)


def few(probe: Probe) -> bool:
    return probe.call.id == FIRST


def without_a_number(probe: Probe, tensors: dict[str, torch.Tensor], turn: int) -> Results:
    found = off(0.9 * ROUNDING, where=few)(probe, tensors, turn)
    if probe.shape == ENOUGH:
        found[OUTPUT][..., 0] = float("nan")  # type: ignore[index]
    return found


KERNELS = {
    "v0": off(ROUNDING, where=lucky),
    "as good": off(0.9 * ROUNDING, where=few),
    "as good too": off(-0.8 * ROUNDING, where=few),
    "ten times as far": off(10 * ROUNDING, where=few),
    "right": right,
    "off in many rows": off(0.9 * ROUNDING, where=lambda probe: probe.shape == ENOUGH),
    "as good, and NaN": without_a_number,
}


class Judge:
    """The judge itself, in this process."""

    def __init__(self, desk: Desk) -> None:
        self._desk, self._turn = desk, threading.Lock()
        self.compared: list[CompareRequest] = []

    def receive(self, kind: type[Any]) -> Any:
        return parse(kind, render(self._desk.answer(render(PrepareRequest("prepare")))))

    def ask(self, request: CompareRequest, kind: type[Any]) -> Any:
        with self._turn:
            found = self._desk.answer(render(request))
            self.compared.append(request)
        if isinstance(found, Complaint):
            raise Objection(found.complaint)
        return parse(kind, render(found))


class Room:
    """A checker whose workers compute with torch, and remember what they were asked."""

    def __init__(self, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.inputs, self._scratch = scratch / "inputs", scratch
        self.inputs.mkdir()
        self.desk = Desk()
        planned = self.desk.answer(render(PlanRequest("plan", "softmax", (), (FEW, ENOUGH), 11, str(self.inputs))))
        assert isinstance(planned, Plan) and planned.draws
        self.plan, self.judge = planned, Judge(self.desk)
        python = TargetPython(executable=Path("/usr/bin/python3"), version="3.12.3", roots=(), libraries=())
        cells = Cells(python, Sandbox(LIMITS_ONLY), scratch / "suitcase", scratch)
        limits = Limits(60, 2**30)
        self.checker = Checker(cells, SITE, "sm_90", self.judge, planned, self.inputs, limits, self.stock)  # type: ignore[arg-type]
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self.laid_out: list[Laid] = []
        self.on_draws: Callable[[Places], Fault | None] = lambda where: None
        monkeypatch.setattr(checks, "run_cell", self._run)

    def _run(self, cells: Cells, where: Places, request: CheckRequest, *_: Any) -> CheckAnswer | Fault:
        name, ids = where.source.host.name.partition("#")[0], tuple(call.id for call in request.calls)
        self.asked.append((name, ids))
        assert all((where.request.host / call.blob).stat().st_size for call in request.calls)
        probes = tuple(probe for probe in self.desk._probes if probe.call.id in ids)
        answer = write_answer(where.answer.host, KERNELS[name], probes=probes)
        return (self.on_draws(where) if any(probe.again for probe in probes) else None) or answer

    def laid(self, name: str) -> Laid:
        folder = self._scratch / f"{name}#{len(list(self._scratch.iterdir()))}"
        folder.mkdir()
        return Laid(folder.name, (SourceFile(path=OP, text=name),), folder, folder)

    def stock(self) -> Laid:
        self.laid_out.append(self.laid("v0"))
        return self.laid_out[-1]

    def check(self, name: str) -> Checked:
        return self.checker.check(self.laid(name))

    @property
    def drawn(self) -> list[tuple[str, ...]]:
        """What was asked of v0 beside its checks."""
        checks = tuple(call.id for call in self.plan.checks)
        assert all(who == "v0" for who, ids in self.asked if ids != checks)
        return [ids for _, ids in self.asked if ids != checks]


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    opened = Room(tmp_path, monkeypatch)
    assert all(row.passed for row in opened.checker.check_baseline(opened.laid("v0")).rows)
    return opened


def failed(checked: Checked) -> list[str]:
    assert checked.fault is None
    return [row.case for row in checked.rows if not row.passed]


def test_v0_begins_with_the_checks_alone_and_nothing_is_made_for_more(room: Room) -> None:
    assert room.asked == [("v0", tuple(call.id for call in room.plan.checks))]
    assert {path.name for path in room.inputs.iterdir()} == {call.blob for call in room.plan.checks}


def test_who_fails_for_few_rows_is_held_against_the_draws_of_that_probe(room: Room) -> None:
    assert failed(room.check("as good")) == []
    meant = [probe.call for probe in room.desk._probes if probe.again == FIRST]
    assert 0 < len(meant) < len(room.plan.draws)
    assert room.drawn == [tuple(call.id for call in meant)]
    assert {path.name for path in room.inputs.iterdir()} == {call.blob for call in (*room.plan.checks, *meant)}
    assert not any(laid.folder.exists() for laid in room.laid_out)


def test_what_takes_the_judge_long_is_asked_for_a_part_at_a_time(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for an answer forever: with many large draws it would not have come in time."""
    monkeypatch.setattr(desk, "MAKING_S", 0.0)
    monkeypatch.setattr(desk, "MOST_AT_ONCE", 1)
    first, *others = (probe.call.id for probe in room.desk._probes if probe.again == FIRST)
    assert failed(room.check("as good")) == [] and others
    assert room.drawn == [(first,)], "one was enough for it"
    assert failed(room.check("ten times as far")) == [FEW.id]
    assert room.drawn == [(first,), *((name,) for name in others)]


def test_once_heard_they_are_heard_for_all_who_come_after(room: Room) -> None:
    assert failed(room.check("as good")) == failed(room.check("as good too")) == []
    assert len(room.drawn) == len(room.laid_out) == 1


def test_what_is_ten_times_as_far_is_refused_still(room: Room) -> None:
    assert failed(room.check("ten times as far")) == [FEW.id]
    assert len(room.drawn) == 1
    assert failed(room.check("ten times as far")) == [FEW.id]
    assert len(room.drawn) == 1


@pytest.mark.parametrize(
    ("name", "wrong"), [("right", []), ("off in many rows", [ENOUGH.id]), ("as good, and NaN", [FEW.id, ENOUGH.id])]
)
def test_who_passes_or_is_refused_anyhow_asks_for_none(room: Room, name: str, wrong: list[str]) -> None:
    assert failed(room.check(name)) == wrong
    assert room.drawn == []


def nonsense(where: Places) -> None:
    (where.answer.host / ANSWER).write_text("{")


@pytest.mark.parametrize("happens", [lambda where: DIED, nonsense], ids=["it dies", "no answer"])
def test_where_v0_fails_on_its_draws_what_was_found_stands_and_nobody_tries_again(
    room: Room, happens: Callable[[Places], Fault | None]
) -> None:
    room.on_draws = happens
    assert failed(room.check("as good")) == failed(room.check("as good too")) == [FEW.id]
    assert len(room.drawn) == 1
    assert not any(laid.folder.exists() for laid in room.laid_out)
    assert failed(room.check("right")) == []


def test_two_side_by_side_ask_once_and_both_are_held_against_them(room: Room) -> None:
    """The first waits with its draws until the second was refused as well."""

    def both_compared(where: Places) -> None:
        wait_for(lambda: len(room.judge.compared) >= len(("v0", "as good", "as good too")))

    room.on_draws = both_compared
    with ThreadPoolExecutor(max_workers=2) as threads:
        found = [threads.submit(room.check, name) for name in ("as good", "as good too")]
        assert [failed(future.result()) for future in found] == [[], []]
    assert len(room.drawn) == 1


def test_what_waits_for_inputs_begins_when_they_lie_there_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room, happened, receive = Room(tmp_path, monkeypatch), list[str](), Judge.receive

    def received(judge: Judge, kind: type[Any]) -> Any:
        made = receive(judge, kind)
        happened.append("made")
        return made

    def run(*asked: Any) -> Any:
        happened.append("checked")
        return room._run(*asked)

    monkeypatch.setattr(Judge, "receive", received)
    monkeypatch.setattr(checks, "run_cell", run)
    for name in ("first", "second"):
        room.checker.when_inputs_lie_there(partial(happened.append, name))
    assert happened == []
    room.checker.check_baseline(room.laid("v0"))
    assert happened == ["made", "first", "second", "checked"]
    room.checker.when_inputs_lie_there(partial(happened.append, "late"))
    assert happened[4:] == ["late"], "at once"
    room.check("right")
    assert happened[5:] == ["checked"]


def test_calls_that_cannot_be_asked_alone_are_those_it_is_wrong_or_far_off_in() -> None:
    asked = tuple(Call(f"{n:03d}", case, "forward", (), ()) for n, case in enumerate(("a", "a", "b", "c")))
    checker = Checker.__new__(Checker)
    checker._plan, checker.baseline = Plan((), asked, ()), None
    assert checker.unheld == frozenset()
    wrong, right_ = CheckResult(case="a", passed=False), CheckResult(case="b", passed=True)
    checker.baseline = Checked(rows=(wrong, right_), unheld=frozenset({"002"}))
    assert checker.unheld == {"000", "001", "002"}


def nothing_at_all(probe: Probe, tensors: dict[str, torch.Tensor], turn: int) -> Results:
    found = right(probe, tensors, turn)
    if probe.shape == ENOUGH:
        found[OUTPUT] = None
    return found


def test_what_v0_is_far_off_in_is_held_against_nobody_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KERNELS, "v0", nothing_at_all)
    room = Room(tmp_path, monkeypatch)
    own = room.checker.check_baseline(room.laid("v0")).rows
    assert [(row.passed, row.excused) for row in own] == [(True, False), (False, False)]
    assert [(row.passed, row.margin is None, row.excused) for row in room.check("right").rows] == [
        (True, False, False),
        (True, True, True),
    ]


def test_whoever_fails_where_v0_does_and_what_is_asked_of_nobody_is_excused() -> None:
    checker = Checker.__new__(Checker)
    checker._plan = Plan((), (), (("too large", "not run"),))
    checker.baseline = Checked(rows=(CheckResult(case="a", passed=False), CheckResult(case="b", passed=True)))
    compared = Rows(tuple(Row(case, False, "y", 3.0, "off") for case in ("a", "b")))
    assert [(row.case, row.excused) for row in checker._results(compared)] == [
        ("a", True),
        ("b", False),
        ("too large", True),
    ]
