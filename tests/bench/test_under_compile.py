"""A finalist under torch.compile: v0 is asked once, beside the first of them, who fails where it passes is told, and
nobody is blamed for what is not known."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from bot.bench import compile_pool, under_compile
from bot.bench.cell import Cells
from bot.bench.looking import Scene
from bot.bench.measure import make_cells
from bot.bench.sandbox import LIMITS_ONLY, Sandbox
from bot.bench.under_compile import MOST_BYTES, SECONDS, SILENT, Finalists, Ran, few
from bot.model.measurement import Fault, UnderCompile
from bot.worker.contract import Argument, Call, CallAnswer, Plan, Refusal, Row, Rows, TensorSpec
from bot.worker.contract.gpu import GpuAnswer
from tests.bench import tiny


def check(direction: str, rows: int, cols: int, dtype: str = "float32", number: int = 0) -> Call:
    name, spec = f"{direction}-{rows}x{cols}-{dtype}", TensorSpec("x", dtype, (rows, cols))
    return Call(f"{name}#{number}", name, direction, (Argument("x", spec),), (), blob=f"{name}.in")


def chosen(*calls: Call, unheld: Sequence[str] = ()) -> list[str]:
    return [call.case for call in few(Plan((), calls, ()), unheld)]


# -- what is run ------------------------------------------------------------------------------------------------------


def test_one_of_each_pass_the_smallest_and_the_largest_of_another_type() -> None:
    sizes = [(1, 7), (3, 129), (8, 1024)]
    calls = [check(way, *size, dtype) for way in ("forward", "backward") for size in sizes for dtype in
             ("float32", "bfloat16")]  # fmt: skip
    assert chosen(*calls) == ["forward-1x7-bfloat16", "backward-8x1024-float32"]
    of_one_type = [call for call in calls if "float32" in call.case]
    assert chosen(*of_one_type) == ["forward-1x7-float32", "backward-8x1024-float32"]
    assert chosen(*(call for call in of_one_type if "back" in call.case)) == ["backward-1x7-float32"]


def test_one_case_is_run_once_and_none_that_is_too_large_or_wrong_anyhow() -> None:
    assert chosen(check("full", 1, 7), check("full", 1, 7, number=1)) == ["full-1x7-float32"]
    rows = MOST_BYTES // 4
    assert chosen(check("full", rows, 1), check("full", rows + 1, 1)) == [f"full-{rows}x1-float32"]
    two = check("full", 1, 7), check("full", 2, 7)
    assert chosen(*two, unheld=[two[0].id]) == ["full-2x7-float32"]
    assert chosen(*two, check("full", 1, 7, number=1), unheld=[two[0].id]) == ["full-1x7-float32"], "with other values"
    assert chosen() == []


# -- what becomes of it -----------------------------------------------------------------------------------------------

FORWARD, BACKWARD = check("forward", 3, 8), check("backward", 3, 8)
FWD, BWD = FORWARD.case, BACKWARD.case
PLAN, WIDER = Plan((), (FORWARD, BACKWARD), ()), Plan((), (FORWARD, BACKWARD, check("forward", 4, 8)), ())
WHY = "Unsupported: graph break"
STARVED = "InductorError: CUDA out of memory"
LATE = Fault(kind="run_timeout", detail="did not finish within 60 s")
NO_CC = Fault(kind="compile_failed", detail="there is no C compiler here")
LIMITED = "run_timeout: did not finish within 60 s"
FIRST = [(who, whole, (FWD, BWD)) for who in ("mine", "stock-of-mine") for whole in (False, True)]
"""What is asked the first time."""


class Torch:
    """Says how each case goes, by who asks and whether as one graph, and writes down who was asked for what.

    right, wrong (the judge says so), refused (it raised), short (of memory), or not begun in time."""

    def __init__(self, **said: dict[str, str] | Fault | Exception) -> None:
        self._said = said
        self.asked: list[tuple[str, bool, tuple[str, ...]]] = []
        self.compared: list[tuple[str, ...]] = []
        self.begun: Callable[[], object] = lambda: None
        self.has_room = True
        self._ran: dict[str, dict[str, str]] = {}
        """How each call went, by where the answer lies: some are asked side by side."""

    def __call__(self, cells: Any, where: Any, request: Any, kind: Any, limits: Any, extra: Any) -> GpuAnswer | Fault:
        who = where.answer.host.parent.parent.name
        self.asked.append((who, request.whole, tuple(call.case for call in request.checks)))
        self.begun()
        assert 0 < request.seconds < limits.seconds <= SECONDS and extra == {}
        assert all((where.request.host / call.blob).read_bytes() == b"inputs" for call in request.checks)
        said = self._said.get(f"{who}_{'whole' if request.whole else 'parts'}", {})
        if isinstance(said, Exception):
            raise said
        if isinstance(said, Fault):
            return said
        went = {call.id: said.get(call.case, "right") for call in request.checks}
        self._ran[str(where.answer.host)] = went
        refusals = {
            "refused": Refusal("crashed", WHY),
            "starved": Refusal("crashed", STARVED),
            "short": Refusal("memory", "OSError: the disk is full"),
        }
        answered = {name: how for name, how in went.items() if how != "late"}
        return GpuAnswer(tuple(CallAnswer(name, (), refusals.get(how)) for name, how in answered.items()), ())

    def ask(self, request: Any, kind: Any) -> Rows:
        assert not request.baseline
        self.compared.append(request.once)
        why = {"refused": WHY, "starved": STARVED, "wrong": "output y: its largest error is 7 times"}
        cases, went = {name: name.partition("#")[0] for name in request.once}, self._ran[request.folder]
        rows = [Row(cases[name], went[name] == "right", "", None, why.get(went[name], "")) for name in cases]
        return Rows(tuple(rows))


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., UnderCompile]:
    cells = Cells(None, Sandbox(LIMITS_ONLY), tmp_path / "suitcase", tmp_path)  # type: ignore[arg-type]
    (tmp_path / "inputs").mkdir()
    for call in WIDER.checks:
        (tmp_path / "inputs" / call.blob).write_bytes(b"inputs")
    kept: dict[int, Finalists] = {}

    def scene(name: str, plan: Plan) -> Scene:
        folder = tmp_path / name
        folder.mkdir()
        return Scene(cells, tiny.SITE, tiny.files(), folder, folder, plan, 2**30)

    def look(
        torch: Torch,
        plan: Plan = PLAN,
        mine: str = "mine",
        now: Callable[[], float] = lambda: 0.0,
        unheld: Sequence[str] = (),
    ) -> Any:
        monkeypatch.setattr(under_compile, "run_cell", torch)
        monkeypatch.setattr(compile_pool, "leaves_room", lambda: torch.has_room)
        finalists = kept.setdefault(id(torch), Finalists(torch, now))  # type: ignore[arg-type]
        return finalists.under_compile(scene(mine, plan), scene(f"stock-of-{mine}", plan), unheld)

    return look


def test_who_is_right_where_v0_is_is_said_to_be(held: Callable[..., UnderCompile]) -> None:
    torch = Torch()
    found = held(torch)
    assert found.said == f"right, {FWD}, {BWD} as one graph"


def test_v0_and_the_first_finalist_are_asked_for_one_graph_and_for_several_side_by_side(
    held: Callable[..., UnderCompile],
) -> None:
    torch, together = Torch(), threading.Barrier(len(FIRST), timeout=20)
    torch.begun = together.wait
    assert held(torch).status == "right"
    assert sorted(torch.asked) == FIRST


def test_where_there_is_no_room_beside_v0_is_asked_first_and_nobody_more_than_has_to_be(
    held: Callable[..., UnderCompile],
) -> None:
    torch = Torch(**{"stock-of-mine_whole": {BWD: "refused"}})
    torch.has_room = False
    assert held(torch).said == f"right, {FWD} as one graph; {BWD} as several graphs, as of v0"
    of_v0 = [("stock-of-mine", True, (FWD, BWD)), ("stock-of-mine", False, (BWD,))]
    assert torch.asked == [*of_v0, ("mine", True, (FWD,)), ("mine", False, (BWD,))]


@pytest.mark.parametrize("room", [True, False])
def test_what_is_not_known_of_v0_is_asked_once_more_and_no_oftener(
    room: bool, held: Callable[..., UnderCompile]
) -> None:
    """A finalist may have taken the memory beside it, and torch may be slow with it each time."""
    torch = Torch(**{f"stock-of-{who}_whole": {BWD: "short"} for who in ("mine", "other")})
    torch.has_room = room
    short = f"right, {FWD} as one graph; the others are not known: OSError: the disk is full"
    assert held(torch).said == held(torch, mine="other").said == short
    before = len(torch.asked)
    assert held(torch, mine="third").said == short
    assert torch.asked[before:] == [("third", True, (FWD,))]


def test_what_v0_failed_for_want_of_memory_beside_others_is_asked_once_more(
    held: Callable[..., UnderCompile],
) -> None:
    """Inductor calls it another thing than torch does."""
    fails = {f"stock-of-mine_{kind}": {BWD: "starved"} for kind in ("whole", "parts")}
    torch = Torch(**fails)
    found = held(torch)
    assert "does not go through torch.compile either" in found.said and "out of memory" in found.said
    assert held(torch, mine="other").said == f"right, {FWD}, {BWD} as one graph"


def test_v0_is_asked_once_and_later_finalists_for_what_is_not_known_yet(held: Callable[..., UnderCompile]) -> None:
    torch = Torch(third_whole={BWD: "refused"})
    assert held(torch).status == held(torch, mine="other").status == "right"
    assert torch.asked[len(FIRST) :] == [("other", True, (FWD, BWD))]
    held(torch, mine="third")
    assert torch.asked[len(FIRST) + 1 :] == [("third", True, (FWD, BWD)), ("third", False, (BWD,))]


@pytest.mark.parametrize("who", ["stock-of-mine", "mine"])
@pytest.mark.parametrize("said", [{FWD: "wrong", BWD: "refused"}, {FWD: "short", BWD: "late"}, LATE])
def test_several_graphs_of_what_comes_out_as_one_are_nothing_to_know(
    who: str, said: Any, held: Callable[..., UnderCompile]
) -> None:
    """They are asked for before anybody knows."""
    torch = Torch(**{f"{who}_parts": said})
    assert held(torch).said == f"right, {FWD}, {BWD} as one graph"
    assert held(torch, mine="other").said == f"right, {FWD}, {BWD} as one graph"


def test_one_graph_of_what_v0_makes_several_of_is_nothing_to_know(held: Callable[..., UnderCompile]) -> None:
    torch = Torch(**{"stock-of-mine_whole": {BWD: "refused"}}, mine_whole={BWD: "wrong"})
    assert held(torch).said == f"right, {FWD} as one graph; {BWD} as several graphs, as of v0"


def test_what_v0_is_far_off_in_is_asked_of_nobody(held: Callable[..., UnderCompile]) -> None:
    torch, other = Torch(), WIDER.checks[2].case
    assert held(torch, plan=WIDER, unheld=[FORWARD.id]).said == f"right, {BWD}, {other} as one graph"
    assert {cases for _, _, cases in torch.asked} == {(BWD, other)}


def test_v0_that_could_not_be_asked_is_asked_again_with_the_next_finalist(held: Callable[..., UnderCompile]) -> None:
    torch = Torch(**{"stock-of-mine_parts": OSError("no room")})
    assert held(torch).said == "not known, OSError: no room"
    assert held(torch, mine="other").status == "right"
    assert {who for who, _, _ in torch.asked[len(FIRST) :]} == {"stock-of-other", "other"}


def test_and_is_not_where_only_the_finalist_could_not(held: Callable[..., UnderCompile]) -> None:
    torch = Torch(mine_whole=OSError("no room"))
    assert held(torch).said == "not known, OSError: no room"
    assert held(torch, mine="other").status == "right"
    assert torch.asked[len(FIRST) :] == [("other", True, (FWD, BWD))]


@pytest.mark.parametrize(("how", "why"), [("refused", WHY), ("wrong", "output y: its largest error is 7 times")])
def test_who_fails_where_v0_passes_is_told_with_the_case(how: str, why: str, held: Callable[..., UnderCompile]) -> None:
    said = {f"{who}_{what}": {BWD: how} for who in ("mine", "other") for what in ("whole", "parts")}
    torch = Torch(**said)
    assert held(torch) == held(torch, mine="other") == UnderCompile(status="wrong", detail=f"{BWD}: {why}")
    assert torch.asked[-1] == ("other", False, (BWD,)), "asked again, as several"


def test_what_is_one_graph_of_v0_and_several_of_a_variant_is_told_and_not_wrong(
    held: Callable[..., UnderCompile],
) -> None:
    found = held(Torch(mine_whole={BWD: "refused"}))
    assert found.status == "breaks"
    assert found.said == f"right, {BWD} as several graphs, of v0 as one: {WHY}; {FWD} as one graph"


def test_what_fails_as_one_graph_and_was_not_run_as_several_is_not_known(held: Callable[..., UnderCompile]) -> None:
    told = f"{BWD} does not come out as one graph ({WHY}), as several {LIMITED}"
    some = held(Torch(mine_whole={BWD: "refused"}, mine_parts=LATE))
    assert (some.status, some.detail) == ("right", f"{FWD} as one graph; the others are not known: {told}")
    none = held(Torch(other_whole={FWD: "short", BWD: "refused"}, other_parts=LATE), mine="other")
    assert (none.status, none.detail) == ("unknown", told)


def test_where_v0_takes_several_graphs_no_more_is_asked_of_a_variant(held: Callable[..., UnderCompile]) -> None:
    stock = {"stock-of-mine_whole": {BWD: "refused"}}
    torch = Torch(**stock, mine_whole={BWD: "refused"})
    right = f"right, {FWD} as one graph; {BWD} as several graphs, as of v0"
    assert held(torch).said == held(torch, mine="other").said == right
    assert torch.asked[len(FIRST) :] == [("other", True, (FWD,)), ("other", False, (BWD,))]


def test_and_who_fails_there_is_told_too(held: Callable[..., UnderCompile]) -> None:
    found = held(Torch(**{"stock-of-mine_whole": {BWD: "refused"}}, mine_parts={BWD: "wrong"}))
    assert found.status == "wrong" and found.detail.startswith(f"{BWD}: output y")


def test_where_v0_fails_as_well_it_is_excused_and_said(held: Callable[..., UnderCompile]) -> None:
    fails = {BWD: "refused"}
    torch = Torch(**{"stock-of-mine_whole": fails, "stock-of-mine_parts": fails}, mine_whole=fails)
    right = f"right, {FWD} as one graph; v0 does not go through torch.compile either: {BWD}: {WHY}"
    assert held(torch).said == held(torch, mine="other").said == right
    assert torch.asked[len(FIRST) :] == [("other", True, (FWD,))]


def test_where_v0_goes_nowhere_no_later_finalist_is_asked(held: Callable[..., UnderCompile]) -> None:
    fails = {FWD: "wrong", BWD: "refused"}
    torch = Torch(**{"stock-of-mine_whole": fails, "stock-of-mine_parts": fails})
    found = held(torch)
    assert found.status == "v0_fails"
    assert found.said.startswith(f"not asked, v0 does not go through torch.compile either: {FWD}: output y")
    assert held(torch, mine="other") == found
    assert sorted(torch.asked) == FIRST


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"stock-of-mine_whole": LATE}, f"v0: {LIMITED}"),
        ({"stock-of-mine_whole": NO_CC}, "v0: compile_failed: there is no C compiler here"),
        ({"stock-of-mine_whole": {FWD: "late", BWD: "late"}}, "v0: there was no time for 2 of 2 checks"),
        ({"stock-of-mine_whole": {FWD: "short", BWD: "short"}}, "v0: OSError: the disk is full"),
        ({"mine_whole": LATE}, LIMITED),
        ({"mine_whole": Fault(kind="crashed", detail="ended by SIGSEGV")}, "crashed: ended by SIGSEGV"),
        ({"mine_whole": {FWD: "short", BWD: "late"}}, "OSError: the disk is full"),
        ({"mine_whole": OSError("no room")}, "OSError: no room"),
        ({"stock-of-mine_whole": KeyError("inputs")}, "KeyError: 'inputs'"),
    ],
)
def test_what_is_not_known_blames_nobody(said: dict[str, Any], told: str, held: Callable[..., UnderCompile]) -> None:
    assert held(Torch(**said)).said == f"not known, {told}"


def test_what_is_known_of_some_is_said_and_that_the_others_are_not(held: Callable[..., UnderCompile]) -> None:
    found = held(Torch(mine_whole={BWD: "late"}))
    assert found.said == f"right, {FWD} as one graph; the others are not known: there was no time for 1 of 2 checks"
    torch = Torch(other_whole={FWD: "short", BWD: "wrong"}, other_parts={BWD: "wrong"})
    assert held(torch, mine="other").status == "wrong"
    both = (FORWARD.id, BACKWARD.id)
    assert sorted(torch.compared) == [(BACKWARD.id,), both, both, both], "what was short of memory is not compared"


def test_without_a_check_to_ask_there_is_nothing_to_say(held: Callable[..., UnderCompile]) -> None:
    torch = Torch()
    assert held(torch, plan=Plan((), (), ())).said == f"not known, v0: {SILENT}"
    assert torch.asked == []


def test_when_the_time_is_over_nothing_more_is_started(held: Callable[..., UnderCompile]) -> None:
    clock = itertools.count(0.0, SECONDS)
    torch = Torch()
    assert held(torch, now=lambda: next(clock)).said == "not known, v0: the 60 s for it were over"
    assert torch.asked == []


def test_several_graphs_have_what_one_left_of_the_time(held: Callable[..., UnderCompile]) -> None:
    torch, clock = Torch(other_whole={BWD: "refused"}), [0.0]
    held(torch, now=lambda: clock[0])
    torch.begun = lambda: clock.append(clock.pop() + SECONDS)
    told = f"{BWD} does not come out as one graph ({WHY}), as several the 60 s for it were over"
    assert held(torch, mine="other").detail == f"{FWD} as one graph; the others are not known: {told}"
    assert torch.asked[len(FIRST) :] == [("other", True, (FWD, BWD))]


def test_a_long_reason_is_cut() -> None:
    said = UnderCompile(status="wrong", detail=under_compile._short("x" * 500))
    assert len(said.detail) == under_compile.MOST_WORDS and said.detail.endswith("...")


# -- a worker ---------------------------------------------------------------------------------------------------------


def test_on_a_machine_without_a_gpu_a_real_worker_says_why_and_nobody_is_blamed(tmp_path: Path) -> None:
    cells, _ = make_cells(sys.executable, tmp_path, 1, sandbox=Sandbox(LIMITS_ONLY))
    if cells.nursery is not None:
        cells.nursery.close()
    (cells.scratch / "inputs").mkdir()
    (cells.scratch / "inputs" / FORWARD.blob).write_bytes(b"inputs")
    folder = tmp_path / "mine"
    folder.mkdir()
    scene = Scene(cells, tiny.SITE, tiny.files(), folder, folder, PLAN, 2**33)

    class Silent:
        def ask(self, *_: Any) -> Rows:
            raise AssertionError("there is nothing to compare")

    found = under_compile._ran(scene, Silent(), (FORWARD,), whole=True, seconds=SECONDS)  # type: ignore[arg-type]
    assert isinstance(found, Ran) and not found.right and not found.wrong
    assert found.unknown.startswith("import_failed: ")
