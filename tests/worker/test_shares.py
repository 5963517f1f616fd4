"""A GPU request is carried out by several processes and answered as if by one."""

from __future__ import annotations

import dataclasses
import os
import signal
import time
from pathlib import Path

import pytest

from bot.worker import shares
from bot.worker.contract import Argument, Call, CallAnswer, Exit, Refusal, Subject, TensorSpec
from bot.worker.contract.gpu import GpuAnswer, GpuRequest, Recording
from bot.worker.shares import FEWEST_CHECKS, MOST, carry_out, shares_of


@pytest.fixture(autouse=True)
def nothing_to_warm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "warm", lambda: None)


def call(name: str) -> Call:
    return Call(name, name, "forward", (), ())


def request(checks: int = 20) -> GpuRequest:
    subject = Subject("/cell/source", "pkg.ops.double", "double.py", ())
    return GpuRequest("gpu", subject, tuple(call(f"c{n}") for n in range(checks)), (call("big"), call("long")), ())


def honest(share: GpuRequest) -> tuple[GpuAnswer, int]:
    calls = tuple(CallAnswer(check.id, ()) for check in share.checks)
    recordings = tuple(Recording(case.case, "tape", "", 0, (), ()) for case in share.cases)
    return GpuAnswer(calls, recordings, marks=(("asked", 1.0),)), Exit.OK


def test_recordings_are_one_share_and_the_checks_are_dealt_to_all_other_hands() -> None:
    recordings, *hands = shares_of(request(), processors=16)
    assert (len(recordings.checks), len(recordings.cases)) == (0, 2)
    assert [len(hand.checks) for hand in hands] == [3, 3, 3, 3, 3, 3, 2]
    assert sorted(check.id for hand in hands for check in hand.checks) == sorted(c.id for c in request().checks)
    assert all(hand.cases == () for hand in hands)


def over(rows: int, name: str, dtype: str = "float32") -> Call:
    return dataclasses.replace(call(name), arguments=(Argument("x", TensorSpec("x", dtype, (rows, 8))),))


def hands_of(*checks: Call, processors: int = 3) -> list[list[str]]:
    asked = dataclasses.replace(request(), checks=checks, cases=())
    return [[check.id for check in share.checks] for share in shares_of(asked, processors)]


def test_checks_of_a_shape_and_type_are_in_one_hand() -> None:
    """A kernel is compiled by whoever needs it first, and once in each process."""
    shapes = [(rows, dtype) for rows in (1, 2, 3) for dtype in ("float32", "float16")]
    asked = [over(rows, f"{rows}{dtype}{turn}", dtype) for turn in range(3) for rows, dtype in shapes]
    hands = hands_of(*asked)
    assert [len(hand) for hand in hands] == [6, 6, 6]
    assert all(len({name[:-1] for name in hand}) == 2 for hand in hands)
    assert hands[0] == ["1float320", "2float160", "1float321", "2float161", "1float322", "2float162"], "as asked"


def test_what_would_be_more_than_anybodys_part_is_dealt_out_all_the_same() -> None:
    """Its constants may differ, and then nothing is compiled once for all of them."""
    assert [len(hand) for hand in hands_of(*(over(1, f"c{n}") for n in range(15)))] == [5, 5, 5]
    one_more = [over(1, f"c{n}") for n in range(15)] + [over(2, "other")]
    assert sorted(len(hand) for hand in hands_of(*one_more)) == [4, 6, 6]


def test_checks_alone_are_dealt_to_all_hands() -> None:
    """v0 is recorded apart, and its checks are most of what is compiled."""
    alone = dataclasses.replace(request(), cases=())
    hands = shares_of(alone, processors=16)
    assert len(hands) == MOST
    assert sorted(check.id for hand in hands for check in hand.checks) == sorted(c.id for c in alone.checks)
    assert shares_of(alone, processors=1) == (alone,)


def test_recordings_alone_are_one_share() -> None:
    alone = dataclasses.replace(request(), checks=())
    assert shares_of(alone, processors=16) == (alone,)


@pytest.mark.parametrize(
    ("recorders", "processors", "cases"),
    [(1, 16, [6]), (2, 16, [3, 3]), (4, 16, [1, 2, 1, 2]), (4, 2, [3, 3]), (9, 16, [1] * 6), (4, 1, [6]), (0, 16, [6])],
)
def test_several_may_record_and_the_first_of_them_tells_what_was_imported(
    recorders: int, processors: int, cases: list[int]
) -> None:
    """Neighbours stay together: what the backward of a shape needs of its forward is compiled once."""
    asked = dataclasses.replace(
        request(), checks=(), cases=tuple(call(f"case{n}") for n in range(6)), recorders=recorders
    )
    shares = shares_of(asked, processors)
    assert [len(share.cases) for share in shares] == cases
    assert tuple(case for share in shares for case in share.cases) == asked.cases
    assert [share.recorders for share in shares] == [recorders, *[0] * (len(cases) - 1)]


def test_several_record_beside_those_who_check() -> None:
    shares = shares_of(dataclasses.replace(request(), recorders=2), processors=16)
    assert [(len(share.cases), bool(share.checks)) for share in shares[:3]] == [(1, False), (1, False), (0, True)]
    assert len(shares) == 2 + MOST - 1
    first, other = shares_of(dataclasses.replace(request(FEWEST_CHECKS), recorders=2), processors=16)
    assert (len(first.cases), len(first.checks), len(other.cases), len(other.checks)) == (1, FEWEST_CHECKS, 1, 0)


def test_several_recorders_are_answered_for_in_the_order_of_the_request(tmp_path: Path) -> None:
    answer, code = carry_out(dataclasses.replace(request(), recorders=2), honest, tmp_path, processors=4)
    assert code == Exit.OK and [recording.case for recording in answer.recordings] == ["big", "long"]
    assert len(answer.calls) == 20


@pytest.mark.parametrize(("checks", "processors", "count"), [(FEWEST_CHECKS, 16, 1), (FEWEST_CHECKS + 1, 16, MOST)])
def test_a_few_checks_are_not_worth_it(checks: int, processors: int, count: int) -> None:
    assert len(shares_of(request(checks), processors)) == count


@pytest.mark.parametrize(("processors", "count"), [(1, 1), (2, 2), (3, 3)])
def test_no_more_shares_than_processors(processors: int, count: int) -> None:
    assert len(shares_of(request(), processors)) == count


def test_the_answer_is_in_the_order_of_the_request_and_nothing_is_left_over(tmp_path: Path) -> None:
    answer, code = carry_out(request(), honest, tmp_path, processors=4)
    assert code == Exit.OK
    assert [told.id for told in answer.calls] == [f"c{n}" for n in range(20)]
    assert [recording.case for recording in answer.recordings] == ["big", "long"]
    assert answer.refusal is None
    assert answer.marks == (("asked", 1.0),) * 4, "of each that had a share"
    assert list(tmp_path.iterdir()) == []


def test_every_share_has_a_process_of_its_own(tmp_path: Path) -> None:
    def says_who(share: GpuRequest) -> tuple[GpuAnswer, int]:
        (tmp_path / str(os.getpid())).touch()
        return honest(share)

    out = tmp_path / "out"
    out.mkdir()
    carry_out(request(), says_who, out, processors=4)
    assert len([place for place in tmp_path.iterdir() if place != out]) == 4
    assert not (tmp_path / str(os.getpid())).exists()


def test_what_one_share_refuses_is_refused(tmp_path: Path) -> None:
    def refuses(share: GpuRequest) -> tuple[GpuAnswer, int]:
        answer, code = honest(share)
        if any(check.id == "c1" for check in share.checks):
            return GpuAnswer((), (), Refusal("import_failed", "SyntaxError")), Exit.IMPORT_FAILED
        return answer, code

    answer, code = carry_out(request(), refuses, tmp_path, processors=4)
    assert answer.refusal == Refusal("import_failed", "SyntaxError")
    assert code == Exit.IMPORT_FAILED


def test_a_share_that_says_nothing_ends_the_worker_with_its_code(tmp_path: Path) -> None:
    def leaves(share: GpuRequest) -> tuple[GpuAnswer, int]:
        if share.cases:
            os._exit(9)
        return honest(share)

    with pytest.raises(SystemExit) as ended:
        carry_out(request(), leaves, tmp_path, processors=4)
    assert ended.value.code == 9


def test_a_share_that_is_killed_takes_the_worker_along(tmp_path: Path) -> None:
    def dies(share: GpuRequest) -> tuple[GpuAnswer, int]:
        if share.cases:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.05)
        return honest(share)

    worker = os.fork()
    if worker == 0:
        carry_out(request(), dies, tmp_path, processors=4)
        os._exit(0)
    _, status = os.waitpid(worker, 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL
