"""The judge between its requests: plan, inputs, comparison; and what it says when it cannot."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bot.judge.__main__ import Desk
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
from tests.judge.returned import CHECKS, write_answer

ROOT = Path(__file__).parents[2]


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
    asked = (*planned.checks, *planned.draws)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(call.blob for call in asked)


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


def test_draws_are_asked_of_the_untouched_kernel_alone(desk: Desk, tmp_path: Path) -> None:
    write_answer(tmp_path / "base", probes=desk._probes)
    write_answer(tmp_path / "mine")
    for folder, baseline in (("base", True), ("mine", False)):
        found = desk.answer(render(CompareRequest("compare", str(tmp_path / folder), baseline)))
        assert isinstance(found, Rows)
        assert [row.passed for row in found.rows] == [True, True]
    drawn = [known for known in desk._folded if known.drawn]
    assert {draw.again for draw in desk._probes if draw.again} == {known.probe.call.id for known in drawn}


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
