"""What a wrapper costs on the CPU: read from outside, of v0 and of the variant in turns."""

from __future__ import annotations

import dataclasses
import itertools
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from bot.bench import host, overlay
from bot.bench.bailiff import Objection
from bot.bench.cell import Cells, Places, places
from bot.bench.checks import Laid
from bot.bench.host import BATCHES, PASSES, Lines, Silence, Stage, block, quickest
from bot.bench.interpreter import look_at
from bot.bench.kept_kernels import KeptKernels
from bot.bench.launcher import Ended, Limits, run_process
from bot.bench.sandbox import LIMITS_ONLY, Sandbox
from bot.errors import OperatorError
from bot.guardrails.host_time import MOST_US, longer
from bot.model.measurement import CaseResult, Paired, Reading
from bot.model.variant import SourceFile, sources_digest
from bot.worker.contract import Argument, Call, CasePlan, Plan, TensorSpec, parse, render
from bot.worker.contract.hosting import END, FRAME, GO, NOTHING, READY, V0, VARIANT, HostRequest, asked, told
from tests.bench import tiny
from tests.bench.test_takes import CHOICE
from tests.patience import wait_for

X = TensorSpec("x", "float32", (4, 8), grad=True)
GRAD = TensorSpec("dy", "float32", (4, 8))


def planned(direction: str, nbytes: int) -> CasePlan:
    name = f"{direction}-{nbytes}"
    return CasePlan(Call(name, name, direction, (Argument("x", X),), (GRAD,)), nbytes)


PLAN = Plan((planned("forward", 30), planned("forward", 10), planned("backward", 20)), (), ())

# -- without processes: what is asked, and what becomes of the times ------------------------------------------------


def test_the_case_with_fewest_bytes_of_each_direction_is_asked() -> None:
    assert [call.case for call in quickest(PLAN)] == ["forward-10", "backward-20"]


def test_a_case_that_has_nothing_to_move_is_asked_where_there_is_no_other() -> None:
    nothing, more = planned("backward", 0), planned("backward", 1)
    for cases in ((nothing, *PLAN.cases), (*PLAN.cases, nothing)):
        assert [call.case for call in quickest(Plan(cases, (), ()))] == ["forward-10", "backward-20"]
    assert [call.case for call in quickest(Plan((nothing, more, nothing), (), ()))] == ["backward-1"]
    assert [call.case for call in quickest(Plan((nothing, planned("forward", 1)), (), ()))] == [
        "backward-0",
        "forward-1",
    ]


class Clock:
    """Says how long each thing takes, and notes what was asked."""

    def __init__(self, go_us: dict[str, float], nothing_us: dict[str, float], ready_s: float = 1e-3) -> None:
        self._go, self._nothing, self._ready_s = go_us, nothing_us, ready_s
        self.heard: list[tuple[str, int]] = []

    def __call__(self, arm: str, what: int, number: int) -> float:
        self.heard.append((arm, what))
        return {READY: self._ready_s, GO: self._go[arm] / 1e6, NOTHING: self._nothing[arm] / 1e6}[what]


def test_a_time_is_of_one_pass_of_many_less_the_way_there_and_back() -> None:
    clock = Clock({V0: 40.0 + 100 * PASSES, VARIANT: 40.0 + 103 * PASSES}, {V0: 40.0, VARIANT: 40.0})
    assert block(clock, 0, False) == pytest.approx((100.0, 100.0, 103.0, 103.0))


def test_who_takes_long_over_nothing_is_not_paid_for_it() -> None:
    clock = Clock({V0: 800.0, VARIANT: 1600.0}, {V0: 0.0, VARIANT: 800.0})
    assert block(clock, 0, False) == (100.0, 100.0, 200.0, 200.0)


@pytest.mark.parametrize(("flip", "order"), [(False, [V0, VARIANT, VARIANT, V0]), (True, [VARIANT, V0, V0, VARIANT])])
def test_the_arms_take_turns_and_nothing_is_laid_out_on_the_clock(flip: bool, order: list[str]) -> None:
    clock = Clock({V0: 1.0, VARIANT: 1.0}, {V0: 1.0, VARIANT: 1.0})
    block(clock, 0, flip)
    ran = [arm for arm, what in clock.heard if what == GO]
    assert ran == [arm for arm in order for _ in range(BATCHES)]
    before = [clock.heard[place - 1] for place, (_, what) in enumerate(clock.heard) if what == GO]
    assert before == [(arm, READY) for arm in ran]


def test_a_hiccup_is_one_of_several_batches() -> None:
    hiccups = itertools.count()

    def ask(arm: str, what: int, number: int) -> float:
        return 0.5 if what == GO and next(hiccups) % BATCHES == 0 else 1e-3

    assert block(ask, 0, False) == (0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("ready_ms", "go_ms", "batches"),
    [
        (1, 9.9, BATCHES),
        (1, 11.4, BATCHES),
        (1, 11.6, 4),
        (1, 15.6, 4),
        (1, 15.7, 3),
        (1, 24.1, 2),
        (24.1, 1, 2),
        (900, 900, 2),
    ],
)
def test_a_place_of_long_passes_is_one_of_few_batches(ready_ms: float, go_ms: float, batches: int) -> None:
    """Long for whoever asks, or for the GPU, which is waited for before the next batch."""
    took = {V0: 1e3 * go_ms, VARIANT: 1e3 * go_ms}
    clock = Clock(took, {V0: 0.0, VARIANT: 0.0}, ready_ms / 1e3)
    assert block(clock, 0, False) == pytest.approx([1e3 * go_ms / PASSES] * 4)
    assert [what for _, what in clock.heard].count(GO) == 4 * batches


# -- the pipes ------------------------------------------------------------------------------------------------------


class Arm:
    """The other end of an arm's pipes, on a thread: does with each frame what it is told to do."""

    def __init__(self, folder: Path, arm: str, answer: Callable[[bytes], bytes]) -> None:
        self._asked = os.open(folder / asked(arm), os.O_RDONLY)
        self._told = os.open(folder / told(arm), os.O_WRONLY)
        self._answer = answer
        threading.Thread(target=self._live, daemon=True).start()

    def _live(self) -> None:
        while (frame := os.read(self._asked, FRAME)) and frame[0] != END:
            os.write(self._told, self._answer(frame))


def lines(folder: Path, *, alive: bool = True) -> Lines:
    return Lines(folder, lambda: alive)


@pytest.mark.parametrize(
    ("ask_s", "read"), [(1e-4, host.BLOCKS), (2.4e-3, host.BLOCKS), (4e-3, 10), (5.2e-3, host.FEWEST), (1, host.FEWEST)]
)
def test_what_takes_long_is_read_less_often_and_often_enough(ask_s: float, read: int) -> None:
    """A block asks fifty times."""
    asked = itertools.count()
    ticking = [0.0]

    def ask(arm: str, what: int, number: int) -> float:
        ticking[0] = ask_s * (1 + next(asked))
        return 1e-3

    assert len(host.blocks(ask, 0, lambda: ticking[0])) == read


def test_a_frame_comes_back(tmp_path: Path) -> None:
    mine = lines(tmp_path)
    Arm(tmp_path, V0, bytes)
    assert 0 < mine.ask(V0, GO) < 60
    assert 0 < mine.ask(V0, NOTHING) < 60
    mine.say(V0, END)


def test_another_frame_than_was_asked_is_no_answer(tmp_path: Path) -> None:
    mine = lines(tmp_path)
    Arm(tmp_path, VARIANT, lambda frame: frame[:2] + bytes(FRAME - 2))
    with pytest.raises(Silence, match="variant told something else than it was asked"):
        mine.ask(VARIANT, GO)


def test_an_answer_that_lies_there_before_the_question_is_none(tmp_path: Path) -> None:
    mine = lines(tmp_path)
    Arm(tmp_path, VARIANT, lambda frame: frame + bytes(FRAME))
    with pytest.raises(Silence):
        mine.ask(VARIANT, GO)
    Arm(tmp_path, V0, bytes)
    mine.say(V0, GO)
    wait_for(lambda: mine._has_told(V0, 0))
    with pytest.raises(Silence, match="v0 told before it was asked"):
        mine.ask(V0, GO)


def test_nobody_waits_for_an_arm_that_is_gone_or_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone, hanging = tmp_path / "gone", tmp_path / "hanging"
    for folder in (gone, hanging):
        folder.mkdir()
    with pytest.raises(Silence, match="variant did not answer"):
        lines(gone, alive=False).ask(VARIANT, GO)
    monkeypatch.setattr(host, "BATCH_S", 0.05)
    with pytest.raises(Silence, match="v0 did not answer"):
        lines(hanging).ask(V0, GO)


# -- the whole way, with processes, on the CPU ------------------------------------------------------------------------

SOFTMAX = """
import os
import time

import torch


class SoftmaxFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, -1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, dy):
        (y,) = ctx.saved_tensors
        return y * (dy - (y * dy).sum(-1, keepdim=True))
"""
SLEEPS = SOFTMAX.replace("    def forward(ctx, x):\n", "    def forward(ctx, x):\n        time.sleep(0.002)\n")
ENDS = SOFTMAX.replace("    def forward(ctx, x):\n", "    def forward(ctx, x):\n        os._exit(3)\n")
RAISES = SOFTMAX.replace("    def forward(ctx, x):\n", '    def forward(ctx, x):\n        raise ValueError("no")\n')
ON_CPU = """
import sys, torch
torch.cuda.init = torch.cuda.synchronize = lambda *_: None
from bot.worker import gpu_inputs
from bot.worker.__main__ import main
gpu_inputs.DEVICE = "cpu"
sys.exit(main(sys.argv[1:]))
"""


def start_on_cpu(cells: Cells, where: Places, limits: Limits, extra: Any, gpu: Any, beside: Any) -> Ended:
    """The worker itself; all it lacks is a GPU to wait for."""
    folders = (str(where.request.host), str(where.answer.host))
    environment = {"PYTHONPATH": str(Path(host.__file__).parents[2])}
    argv = [sys.executable, "-c", ON_CPU, *folders]
    return run_process(argv, environment=environment, directory=where.home, limits=limits)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Stage]:
    monkeypatch.setattr(host, "start", start_on_cpu)
    monkeypatch.setattr(host, "BLOCKS", 3)
    monkeypatch.setattr(host, "FEWEST", 3)
    tree = tiny.write_tree(tmp_path / "tree")
    cells = Cells(look_at(sys.executable), Sandbox(LIMITS_ONLY), tmp_path / "none", tmp_path)

    def laid(name: str, files: tuple[SourceFile, ...]) -> Laid:
        folder = tmp_path / name
        return Laid(name, files, folder, overlay.lay(tree, tiny.SITE, files, folder / "source"))

    def staged(variant: str, base: str = SOFTMAX) -> Stage:
        stock, mine = laid("v-0", tiny.files(base)), laid("v-1", tiny.files(variant))
        return Stage(cells, tiny.SITE, stock, mine, PLAN, 2**31)

    return staged


def case(name: str, *, confirmed: bool) -> CaseResult:
    reading = Reading(blocks=((1.0, 1.0, 1.0, 1.0),))
    paired = Paired(tier="replay", search=reading, confirm=(reading,) if confirmed else ())
    return CaseResult(case=name, paired=paired)


def test_a_wrapper_that_sleeps_is_seen_in_the_pass_in_which_it_sleeps(
    stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "PAIRS", 1)
    scene = stage(SLEEPS)
    cases = tuple(case(one.call.case, confirmed=True) for one in PLAN.cases)
    found = {one.case: one.paired.host for one in host.told_of(cases, scene) if one.paired is not None}
    assert {name: len(blocks) for name, blocks in found.items()} == {"forward-30": 0, "forward-10": 3, "backward-20": 3}
    slower = median((c + d - a - b) / 2 for a, b, c, d in found["forward-10"])
    assert slower > 1900
    assert median(median(slots) for slots in found["backward-20"]) < slower
    assert slower > MOST_US
    assert not scene.mine.folder.exists()
    assert not scene.stock.folder.exists()


@pytest.mark.parametrize(
    ("longer_in", "pairs", "is_longer"), [(0, 1, False), (1, 2, False), (2, 3, False), (3, 3, True)]
)
def test_one_pair_of_processes_condemns_nobody(
    longer_in: int, pairs: int, is_longer: bool, stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three wrappers that do the same were 2, 4 and 9 us quicker than v0's on an H200's host, each in its own pair."""
    unlike, alike = (100.0, 100.0, 108.0, 108.0), (100.0, 100.0, 99.0, 99.0)
    read = [{"forward-10": (unlike if turn < longer_in else alike,) * 16} for turn in range(host.PAIRS)]
    turns = iter(read)
    monkeypatch.setattr(host, "read", lambda _: next(turns))
    (found,) = host.told_of((case("forward-10", confirmed=True),), stage(SOFTMAX))
    assert found.paired is not None and len(found.paired.host) == 16 * pairs
    assert bool(longer(found)) is is_longer


def test_both_arms_are_told_what_v0_chose(stage: Callable[..., Stage]) -> None:
    scene = dataclasses.replace(stage(SOFTMAX), pins=(CHOICE,))
    where = places(scene.cells, "v-1/host", scene.mine.source, scene.mine.folder)
    request = host._request(scene, where, where.source, quickest(PLAN))
    assert parse(HostRequest, render(request)).pins == (CHOICE,)


def kept_of(scene: Stage, *known: Laid) -> Stage:
    kernels = KeptKernels(scene.cells.scratch / "kernels")
    for laid in known:
        compiled = scene.cells.scratch / "compiled"
        compiled.mkdir()
        (compiled / "_k.cubin").write_text(laid.name)
        kernels.keep(compiled, sources_digest(laid.files), untouched=False)
    return dataclasses.replace(scene, kernels=kernels)


def lies_in(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.cubin")}


@pytest.mark.parametrize("known", [("v-0", "v-1"), ("v-0",), ("v-1",), ()])
def test_each_arm_finds_what_was_compiled_of_it_and_nothing_of_the_other(
    known: tuple[str, ...], stage: Callable[..., Stage], tmp_path: Path
) -> None:
    scene = stage(SLEEPS)
    folders = {"v-0": "kernels-v0/_k.cubin", "v-1": "kernels-variant/_k.cubin"}
    (tmp_path / "request").mkdir()
    kept = kept_of(scene, *(laid for laid in (scene.stock, scene.mine) if laid.name in known))
    for _ in range(2):  # pairs of processes
        kept.lay_kernels(tmp_path / "request")
        assert lies_in(tmp_path / "request") == {folders[name]: name for name in known}


def test_where_nothing_is_kept_nothing_is_laid(stage: Callable[..., Stage], tmp_path: Path) -> None:
    (tmp_path / "request").mkdir()
    stage(SLEEPS).lay_kernels(tmp_path / "request")
    assert list((tmp_path / "request").iterdir()) == []


def test_a_pair_of_processes_has_them_beside_its_request(
    stage: Callable[..., Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[dict[str, str]] = []

    def leaves(cells: Cells, where: Places, *_: Any) -> Ended:
        found.append(lies_in(where.request.host))
        return Ended(1, "", 0.0, "")

    monkeypatch.setattr(host, "start", leaves)
    scene = stage(SLEEPS)
    with pytest.raises(OperatorError, match="host time cannot be read here"):
        host.read(kept_of(scene, scene.stock, scene.mine))
    assert found == [{"kernels-v0/_k.cubin": "v-0", "kernels-variant/_k.cubin": "v-1"}]


def test_a_variant_that_does_not_answer_is_heard_no_further(stage: Callable[..., Stage]) -> None:
    with pytest.raises(Objection, match="its host time cannot be read: crashed: variant ended with 3"):
        host.read(stage(ENDS))


def test_where_v0_cannot_be_read_no_variant_is_blamed(stage: Callable[..., Stage]) -> None:
    with pytest.raises(OperatorError, match=r"host time cannot be read here: .*v0: ValueError: no") as caught:
        host.read(stage(SOFTMAX, RAISES))
    assert not isinstance(caught.value, Objection)
