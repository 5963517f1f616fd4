"""An op under torch.compile, for real but for its kernels: what it makes is held against the truth by the judge."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from bot.judge.__main__ import Desk
from bot.worker import gpu_inputs, under_compile
from bot.worker.contract import (
    ANSWER,
    Call,
    CallAnswer,
    CheckAnswer,
    CompareRequest,
    Plan,
    PlanRequest,
    PrepareRequest,
    Row,
    RunAnswer,
    Subject,
    render,
)
from bot.worker.contract.gpu import GpuAnswer
from bot.worker.contract.under_compile import UnderCompileRequest
from bot.worker.fences import Fences
from bot.worker.under_compile import HEAD, TAIL, _refusal, checks
from tests.judge.returned import CHECKS, write_answer

FORWARD, FULL = (check.id for check in CHECKS)


def gradient(y: Any, dy: Any) -> Any:
    return y * (dy - (y * dy).sum(-1, keepdim=True))


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = x.softmax(-1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        return gradient(*ctx.saved_tensors, dy)


class WrongInAGraph(Softmax):
    """Right wherever it is not traced, as a kernel is that reads what torch does not write down."""

    @staticmethod
    def backward(ctx: Any, dy: Any) -> Any:
        dx = gradient(*ctx.saved_tensors, dy)
        return dx * 2 if torch.compiler.is_compiling() else dx


class NotTraced(Softmax):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        torch._dynamo.graph_break()
        return Softmax.forward(ctx, x)


class Room:
    """A judge that knows what the untouched kernel did, and the inputs it handed out."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.desk = folder, Desk()
        planned = self.desk.answer(render(PlanRequest("plan", "softmax", (), CHECKS, 11, str(folder))))
        assert isinstance(planned, Plan)
        self.desk.answer(render(PrepareRequest("prepare")))
        write_answer(folder / "baseline")
        self.desk.answer(render(CompareRequest("compare", str(folder / "baseline"), baseline=True)))
        first: dict[str, Call] = {}
        for call in planned.checks:
            first.setdefault(call.case, call)
        self.calls = tuple(first.values())

    def ask(self, op: Any, *, whole: bool = True, seconds: float = 60.0) -> GpuAnswer:
        request = UnderCompileRequest("under_compile", Subject("", "", "", ()), self.calls, whole, seconds)
        return checks(op, request, self.folder, self.folder, backend="aot_eager")

    def judged(self, answer: GpuAnswer) -> dict[str, Row]:
        (self.folder / ANSWER).write_text(render(CheckAnswer(answer.calls)))
        ids = tuple(call.id for call in answer.calls)
        found = self.desk.answer(render(CompareRequest("compare", str(self.folder), False, ids)))
        return {row.case: row for row in found.rows}


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    monkeypatch.setattr(gpu_inputs, "DEVICE", "cpu")
    return Room(tmp_path)


def test_what_is_right_is_right_as_one_graph_forward_and_backward(room: Room) -> None:
    found = room.judged(room.ask(Softmax))
    assert {case: row.passed for case, row in found.items()} == {FORWARD: True, FULL: True}
    assert torch._inductor.config.compile_threads == 1, "no process of its own that outlives it"


def test_a_store_beside_an_input_is_seen_there_too(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fences, "broken", lambda _: "wrote behind input x")
    found = room.judged(room.ask(Softmax, whole=False))[FORWARD]
    assert not found.passed and found.detail.startswith("out of bounds: it wrote behind input x")


def test_what_is_wrong_in_a_graph_alone_is_seen_by_the_judge(room: Room) -> None:
    found = room.judged(room.ask(WrongInAGraph))
    assert {case: row.passed for case, row in found.items()} == {FORWARD: True, FULL: False}
    assert found[FULL].worst == "gradient x"


def test_what_torch_does_not_trace_fails_as_one_graph_and_not_as_several(room: Room) -> None:
    refused = room.ask(NotTraced)
    assert [call.refusal.kind for call in refused.calls if call.refusal is not None] == ["crashed", "crashed"]
    found = room.judged(refused)[FORWARD]
    assert not found.passed and "Unsupported: Call to `torch._dynamo.graph_break()`" in found.detail
    assert "Hint" not in found.detail, "torch's advice is for who wrote it"
    found = room.judged(room.ask(NotTraced, whole=False))[FORWARD]
    assert found.passed


def test_what_has_not_begun_in_time_is_not_begun(room: Room) -> None:
    assert room.ask(Softmax, seconds=-1.0) == GpuAnswer((), ())


def test_without_a_compiler_nothing_is_known(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    answer = room.ask(Softmax)
    assert answer.calls == () and answer.refusal is not None
    assert answer.refusal.detail == "there is no C compiler here"


def test_after_a_lost_context_nothing_else_is_asked(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: Any) -> RunAnswer:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(under_compile, "_run", lost)
    (only,) = room.ask(Softmax).calls
    assert only.refusal is not None and only.refusal.kind == "crashed"
    monkeypatch.setattr(under_compile, "_run", lambda *_: (_ for _ in ()).throw(ValueError("no")))
    assert [call.id for call in room.ask(Softmax).calls] == [call.id for call in room.calls]


# -- what is said of an error -----------------------------------------------------------------------------------------


class Wrapped(Exception):
    """As torch wraps what went wrong in its compiler."""

    def __init__(self, inner: Exception) -> None:
        super().__init__(f"backend='inductor' raised:\n{type(inner).__name__}: {inner}\n\nSet TORCHDYNAMO_VERBOSE=1")
        self.inner_exception = inner


def caused(by: Exception) -> Exception:
    found = RuntimeError("wrapped")
    found.__cause__ = by
    return found


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Wrapped(NameError("name 'WIDE' is not defined")), "crashed"),
        (Wrapped(OSError("no space left on device")), "memory"),
        (Wrapped(caused(MemoryError())), "memory"),
        (caused(torch.cuda.OutOfMemoryError("CUDA out of memory")), "memory"),
        (caused(ValueError("no")), "crashed"),
    ],
)
def test_want_of_memory_or_of_a_disk_is_not_the_variants(error: Exception, kind: str) -> None:
    assert _refusal(error).kind == kind


def test_of_an_error_its_name_and_its_end_are_told() -> None:
    told = _refusal(Wrapped(NameError("name 'WIDE' is not defined")))
    assert told.detail == "Wrapped: backend='inductor' raised: NameError: name 'WIDE' is not defined"
    long = _refusal(ValueError("a" * HEAD + "b" * 500 + "the end")).detail
    assert long.startswith("ValueError: aaa") and long.endswith("the end")
    assert len(long) == HEAD + TAIL + len(" ... ")


def test_a_call_that_failed_left_nothing_to_compare(room: Room) -> None:
    assert all(call == CallAnswer(call.id, (), call.refusal) for call in room.ask(NotTraced).calls)
