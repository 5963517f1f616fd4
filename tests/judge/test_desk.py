"""The judge between its requests: plan, inputs, comparison; and what it says when it cannot."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from bot.judge import rivals
from bot.judge.__main__ import Desk
from bot.judge.inputs import fill, to_blob
from bot.judge.plan import Probe
from bot.judge.recipes import RECIPES
from bot.worker.contract import (
    ANSWER,
    CompareRequest,
    Complaint,
    Plan,
    PlanRequest,
    Prepared,
    PrepareRequest,
    Rows,
    render,
)
from bot.worker.contract.timing import (
    CompileRivalRequest,
    Opened,
    OpenRequest,
    RivalCompiled,
    Roof,
    RoofRequest,
    StartRequest,
)
from tests.judge.returned import CHECKS, PROBES, RECIPE, Kernel, Results, rewrite, right, write_answer

ROOT = Path(__file__).parents[2]
FIRST = next(probe.call.id for probe in PROBES if probe.shape == CHECKS[1])
"""Of the check that there is time to draw further."""


def plan_request(folder: Path, kernel: str = "softmax") -> PlanRequest:
    return PlanRequest("plan", kernel, CHECKS, CHECKS, 11, str(folder))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    opened = Desk()
    assert isinstance(opened.answer(render(plan_request(tmp_path))), Plan)
    assert isinstance(opened.answer(render(PrepareRequest("prepare"))), Prepared)
    return opened


def test_inputs_lie_where_the_plan_says(desk: Desk, tmp_path: Path) -> None:
    planned = desk.answer(render(plan_request(tmp_path)))
    assert isinstance(planned, Plan)
    assert planned.draws
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(call.blob for call in planned.checks)


def test_who_prepares_side_by_side_draws_what_one_alone_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for processors in (2, 16):
        monkeypatch.setattr(os, "cpu_count", lambda number=processors: number)
        folder = tmp_path / str(processors)
        folder.mkdir()
        desk = Desk()
        desk.answer(render(plan_request(folder)))
        desk.answer(render(PrepareRequest("prepare")))
        noise = [{key: errors.worst.tolist() for key, errors in known.noise.items()} for known in desk._known]
        found.append(([known.inputs for known in desk._known], repr(noise)))
    assert found[0] == found[1]


def test_the_untouched_kernel_is_remembered_and_others_are_compared(desk: Desk, tmp_path: Path) -> None:
    write_answer(tmp_path / "answer")
    for baseline in (True, False):
        found = desk.answer(render(CompareRequest("compare", str(tmp_path / "answer"), baseline)))
        assert isinstance(found, Rows)
        assert [row.passed for row in found.rows] == [True, True]


def off(by: float) -> Kernel:
    """One value of one probe is."""

    def kernel(probe: Probe, tensors: dict[str, torch.Tensor], turn: int) -> Results:
        found = right(probe, tensors, turn)
        if FIRST in (probe.call.id, probe.again):
            y = found[("output", "0")]
            assert y is not None
            row = y.view(-1, y.shape[-1])[0]
            row[row.argmax()] += by * row.max()
        return found

    return kernel


def compared(desk: Desk, folder: Path, **how: bool) -> Rows:
    found = desk.answer(render(CompareRequest("compare", str(folder), how.pop("baseline", False), **how)))
    assert isinstance(found, Rows)
    return found


def failed(found: Rows) -> list[str]:
    return [row.case for row in found.rows if not row.passed]


def test_draws_are_named_made_and_heard_when_a_variant_fails_without(desk: Desk, tmp_path: Path) -> None:
    write_answer(tmp_path / "base")
    write_answer(tmp_path / "mine", off(1e-4))
    assert compared(desk, tmp_path / "base", baseline=True).again == ()
    assert compared(desk, tmp_path / "base").again == ()
    found = compared(desk, tmp_path / "mine")
    draws = tuple(probe for probe in desk._probes if probe.again == FIRST)
    assert failed(found) == [CHECKS[1].id]
    assert found.again == tuple(draw.call.id for draw in draws) != ()
    for draw in draws:
        assert (tmp_path / draw.call.blob).read_bytes() == to_blob(draw.call, fill(RECIPE, draw))
    assert compared(desk, tmp_path / "mine") == found, "and once more, as long as nobody told"
    write_answer(tmp_path / "drawn", off(1e-4), probes=draws)
    assert compared(desk, tmp_path / "drawn", draws=True) == Rows(())
    found = compared(desk, tmp_path / "mine")
    assert (failed(found), found.again) == ([], ())
    write_answer(tmp_path / "worse", off(1e-3))
    found = compared(desk, tmp_path / "worse")
    assert (failed(found), found.again) == ([CHECKS[1].id], ())


def test_draws_that_are_nonsense_change_nothing(desk: Desk, tmp_path: Path) -> None:
    write_answer(tmp_path / "base")
    write_answer(tmp_path / "mine", off(1e-4))
    compared(desk, tmp_path / "base", baseline=True)
    found = compared(desk, tmp_path / "mine")
    probes = tuple(probe for probe in desk._probes if probe.again == FIRST)
    answer = write_answer(tmp_path / "drawn", off(1e-4), probes=probes)
    rewrite(tmp_path / "drawn", answer, nbytes=3)
    assert isinstance(
        desk.answer(render(CompareRequest("compare", str(tmp_path / "drawn"), False, draws=True))), Complaint
    )
    assert compared(desk, tmp_path / "mine") == found


def test_some_calls_alone_ask_for_none(desk: Desk, tmp_path: Path) -> None:
    write_answer(tmp_path / "base")
    compared(desk, tmp_path / "base", baseline=True)
    once = tuple(dataclasses.replace(p, call=dataclasses.replace(p.call, turns=1)) for p in PROBES)
    write_answer(tmp_path / "mine", off(1e-4), probes=once)
    ids = tuple(probe.call.id for probe in PROBES)
    found = desk.answer(render(CompareRequest("compare", str(tmp_path / "mine"), False, ids)))
    assert isinstance(found, Rows) and failed(found) and found.again == ()


def test_an_answer_that_is_none_is_a_complaint_and_the_judge_goes_on(desk: Desk, tmp_path: Path) -> None:
    write_answer(tmp_path / "answer")
    desk.answer(render(CompareRequest("compare", str(tmp_path / "answer"), baseline=True)))
    (tmp_path / "garbage").mkdir()
    (tmp_path / "garbage" / ANSWER).write_text("{")
    found = desk.answer(render(CompareRequest("compare", str(tmp_path / "garbage"), baseline=False)))
    assert found == Complaint("ContractError: CheckAnswer: not JSON")
    again = desk.answer(render(CompareRequest("compare", str(tmp_path / "answer"), baseline=False)))
    assert isinstance(again, Rows) and all(row.passed for row in again.rows)


def test_a_kernel_without_a_recipe_is_a_complaint_that_names_the_others(tmp_path: Path) -> None:
    found = Desk().answer(render(plan_request(tmp_path, "mhc")))
    assert found == Complaint(f"no recipe for mhc; there is one for {', '.join(sorted(RECIPES))}")


def test_preparing_before_a_plan_is_a_complaint() -> None:
    assert isinstance(Desk().answer(render(PrepareRequest("prepare"))), Complaint)


def test_a_plan_needs_no_torch(tmp_path: Path) -> None:
    """It is there at once: importing torch takes two seconds."""
    script = (
        "import sys\nfrom bot.judge.__main__ import Desk\n"
        f"Desk().answer({render(plan_request(tmp_path))!r})\nprint('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_who_compiles_a_rival_leaves_the_memory_to_those_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[object] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", happened.append)
    monkeypatch.setattr(rivals, "compile_ahead", lambda name, kernel, call, device: happened.append(device))
    request = CompileRivalRequest("compile", "softmax", PROBES[0].call, "compiled")
    assert isinstance(Desk().answer(render(request)), RivalCompiled)
    assert happened == [1 / 8, "cuda"]


@pytest.mark.parametrize(("kernel", "told"), [("softmax", RivalCompiled), ("soft max", Complaint)])
def test_it_compiles_a_rival_without_a_plan(kernel: str, told: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda run, **how: run)
    request = CompileRivalRequest("compile", kernel, PROBES[0].call, "compiled")
    assert isinstance(Desk().answer(render(request)), told)


@pytest.mark.parametrize(
    ("asked", "still"),
    [
        (StartRequest("start", 3, alone=True, still=6), 6),
        (StartRequest("start", 1), 0),
        (OpenRequest("open", CHECKS[0].id, "v0", (), 1, True, (), 4), 4),
        (RoofRequest("roof", 8, 1), 0),
    ],
)
def test_whoever_asks_the_clock_first_says_who_stands_still(
    asked: StartRequest | OpenRequest | RoofRequest, still: int, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []

    class Clock:
        def __init__(self, *_: object) -> None:
            told.append(int(str(_[-1])))

        def start(self, count: int, *, alone: bool) -> int:
            return count

        def open(self, *_: object, **__: object) -> Opened:
            return Opened(1, 1.0)

        def roof(self, nbytes: int, lanes: int) -> Roof:
            return Roof(1.0, 1.0, 1.0)

    monkeypatch.setattr("bot.judge.timekeeper.Timekeeper", Clock)
    assert not isinstance(desk.answer(render(asked)), Complaint)
    assert told == [still]
