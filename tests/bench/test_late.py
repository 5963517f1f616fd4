"""Who is late says which checks were left."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from bot.bench import cell
from bot.bench.cell import Cells, places, run_cell
from bot.bench.interpreter import look_at
from bot.bench.launcher import Ended, Limits
from bot.bench.sandbox import LIMITS_ONLY, Sandbox
from bot.model.measurement import Fault
from bot.worker.contract import Call, CheckAnswer, CheckRequest, Subject
from bot.worker.contract.gpu import GpuAnswer, GpuRequest

SUBJECT = Subject("/cell/source", "pkg.ops.k", "k.py", ())
CHECKS = (
    Call("c0", "forward-3x100-float32", "forward", (), ()),
    Call("c1", "hidden-2-backward-bfloat16", "backward", (), (), turns=2),
    Call("c2", "hidden-3-forward-float16", "forward", (), ()),
)


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """What is said of a worker that leaves these files and does not come to an end."""

    def said(left_behind: tuple[str, ...], request: Any, kind: Any = GpuAnswer, stopped: Any = "deadline") -> str:
        def carried_out(*_: Any) -> Ended:
            for name in left_behind:
                (where.answer.host / name).write_bytes(b"")
            return Ended(None, stopped, 240.0, "")

        monkeypatch.setattr(cell, "start", carried_out)
        cells = Cells(look_at(sys.executable), Sandbox(LIMITS_ONLY), tmp_path, tmp_path)
        (tmp_path / "request").mkdir()
        where = places(cells, "late", tmp_path, tmp_path / "request")
        found = run_cell(cells, where, request, kind, Limits(seconds=240), {})
        assert isinstance(found, Fault)
        return found.detail

    return said


def of(*checks: Call) -> GpuRequest:
    return GpuRequest("gpu", SUBJECT, checks, (), ())


def test_the_first_check_without_its_last_result_is_named(late: Any) -> None:
    said = late(("c0-0.bin", "c1-0.bin"), of(*CHECKS))
    assert said == "did not finish within 240 s: 2 of 3 checks were not done, hidden-2-backward-bfloat16 first"


def test_when_all_are_done_it_is_the_recordings(late: Any) -> None:
    said = late(("c0-0.bin", "c1-0.bin", "c1-1.bin", "c2-0.bin"), of(*CHECKS))
    assert said == "did not finish within 240 s: all checks were done"


def test_recordings_alone_have_no_checks_to_speak_of(late: Any) -> None:
    assert late((), of()) == "did not finish within 240 s"


def test_other_ends_are_no_matter_of_time(late: Any) -> None:
    assert late((), of(*CHECKS), stopped="processes") == f"started more than {Limits(seconds=1).processes} processes"


def test_where_no_gpu_is_nothing_is_added(late: Any) -> None:
    request = CheckRequest("check", SUBJECT, "sm_90", CHECKS)
    assert late((), request, CheckAnswer) == "did not finish within 240 s"
