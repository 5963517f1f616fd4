"""Sizes that nobody named, on the clock: v0 is played on them first, and a variant in the processes that confirm it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bot.bench.bailiff import Objection
from bot.bench.effort import Effort
from bot.bench.lanes import lanes_for
from bot.bench.launcher import Limits
from bot.bench.measure import Deadlines
from bot.bench.measured import MeasuredBench
from bot.bench.take import Take
from bot.model.measurement import Case, CaseResult
from bot.worker.contract import Argument, Call, Plan, Shape, TensorSpec, UnseenCase
from tests.bench import tiny
from tests.bench.test_measured import QUICK_US, Judge, bench


def drawn(case: str, nbytes: int = 2**21, grad: Any = "drawn") -> UnseenCase:
    shape = Shape(case, "forward", (("rows", 33), ("cols", 7)), "float16", grad)
    handed = Argument("x", TensorSpec("x", "float16", (nbytes // 2,)))
    return UnseenCase(shape, Call(case, case, "forward", (handed,), ()))


def asked_for(judge: Judge, *unseen: UnseenCase, may_win: bool = True) -> tuple[Any, dict[str, Take]]:
    """A bench whose v0 was recorded on these, and on two that it cannot be played on."""
    made: Any = bench(judge, slow=1)
    made._roofs, made._effort = {"slow": 1.0}, Effort(processes=2)
    made._plan.unseen = (*unseen, drawn("lost"), drawn("not recorded"))
    made.weigh(lambda cases: may_win)
    there = {one.call.case: Take(one.call.case, Path("takes"), "", 0, kernels=1) for one in unseen}
    return made, {**made._takes.takes("v1"), **there}


@pytest.mark.parametrize("may_win", [True, False])
def test_sizes_that_nobody_named_are_read_where_fresh_processes_are(may_win: bool) -> None:
    """Behind what is scored, and not in the search. v0 is played on each alone before; what it cannot be played on is
    held against nobody."""
    judge = Judge()
    made, takes = asked_for(judge, drawn("unseen-1", grad="one"), may_win=may_win)
    made._clock_unseen(takes)
    made._clock_unseen(takes)
    _, unseen = made._of_variant((CaseResult(case="slow"),), takes, takes, lambda: None)
    turns = ["slow", "unseen-1"] * 2 * may_win
    assert [case for case, _, _, _ in judge.opened] == ["unseen-1", "slow", *turns]
    assert [fresh for case, _, _, fresh in judge.opened if case == "unseen-1"] == [False] * (1 + 2 * may_win)
    assert [told for told in judge.read if told[0] == "unseen-1"] == [("unseen-1", 24, 0)] * 2 * may_win
    assert [len(one.confirm) for one in unseen] == [2] * may_win
    if unseen:
        shape = (("rows", 33), ("cols", 7))
        told = Case(id="unseen-1", direction="forward", shape=shape, dtype="float16", hidden=True, grad="one")
        assert unseen[0].case == told


def test_as_many_passes_go_into_a_graph_as_such_a_size_allows() -> None:
    judge = Judge()
    made, takes = asked_for(judge, drawn("unseen-1", 2**21), drawn("unseen-2", 2**29))
    made._clock_unseen(takes)
    made._of_variant((CaseResult(case="slow"),), takes, takes, lambda: None)
    lanes = {case: lanes for case, _, lanes, _ in judge.opened}
    assert lanes["unseen-1"] == lanes_for(QUICK_US, 2**21, 0.0) > lanes["unseen-2"] == lanes_for(QUICK_US, 2**29, 0.0)


def test_where_v0_cannot_be_played_no_variant_is_blamed() -> None:
    """It was recorded there, and the judge finds its result wrong: a fault of every finalist, before v0 went first."""
    judge = Judge(cannot="unseen-1")
    made, takes = asked_for(judge, drawn("unseen-1"), drawn("unseen-2"))
    made._clock_unseen(takes)
    _, unseen = made._of_variant((CaseResult(case="slow"),), takes, takes, lambda: None)
    assert [one.case.id for one in unseen] == ["unseen-2"] and made._unread == ""
    judge = Judge(cannot="unseen-1")
    made, takes = asked_for(judge, drawn("unseen-1"))
    made._clock_unseen(takes)
    assert made._unread == "v0 takes none of those that were drawn"


def test_a_variant_that_cannot_be_played_where_v0_can_is_told_before_anything_is_read() -> None:
    judge = Judge()
    made, takes = asked_for(judge, drawn("unseen-1"))
    made._clock_unseen(takes)
    mine = {**takes, "unseen-1": Take("unseen-1", None, "it sorts", 0)}
    with pytest.raises(Objection, match="unseen-1 cannot be replayed: it sorts"):
        made._of_variant((CaseResult(case="slow"),), mine, takes, lambda: None)
    assert judge.read == []


@pytest.mark.parametrize(("may_win", "told"), [(True, "it tunes itself"), (False, "")])
def test_why_a_finalist_was_read_on_no_other_size_is_told(
    may_win: bool, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, takes = asked_for(Judge(), may_win=may_win)
    made._plan.unseen, made._unread = (), "it tunes itself"
    made._takes = SimpleNamespace(takes=lambda digest: takes, forget=lambda digest: None)
    monkeypatch.setattr(made, "_with_host", lambda files, cases: cases)
    first, *rest = tiny.files()
    other = (first.model_copy(update={"text": "another = 1\n"}), *rest)
    assert made._timed(other, (CaseResult(case="slow"),), (), lambda: None).unread == told


TUNED = "\n\ntuned = triton.autotune(configs=[], key=[])\n"


@pytest.mark.parametrize(
    ("effort", "text", "tuned", "count"),
    [
        (Effort(), "", (), 2),
        (Effort(), "\n# no autotune here\n", (), 2),
        (Effort(), TUNED, (), 0),
        (Effort(), TUNED, ("cols",), 2),
        (Effort(unseen=False), "", (), 0),
        (Effort(processes=0), "", (), 0),
    ],
)
def test_who_tunes_itself_or_names_sizes_is_asked_for_no_others(
    effort: Effort, text: str, tuned: tuple[str, ...], count: int, tmp_path: Path
) -> None:
    """To tune itself for each of them would take minutes; where the judge knows by which sizes it does, these are as in
    a scored case."""
    made: Any = object.__new__(MeasuredBench)
    first, *rest = tiny.files()
    made._base = (first.model_copy(update={"text": first.text + text}), *rest)
    made._effort, made._deadlines, made._unread = effort, Deadlines(), ""
    made._cells = SimpleNamespace(scratch=tmp_path, gpu=None)
    made._site, made._arch, made._judge = tiny.SITE, "sm_90", Judge()
    made._plan = Plan((), (), (), unseen=(drawn("unseen-1"), drawn("unseen-2")), tuned=tuned)
    made._make_checker(tmp_path, Limits(1.0, 1))
    assert len(made._plan.unseen) == len(made._takes._everything) == count
    assert made._unread == ("it tunes itself, and would for each of them" if text == TUNED and not tuned else "")
