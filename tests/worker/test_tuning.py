"""An autotuned kernel is checked with one configuration after another and timed in none; what v0's chose is pinned."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.runtime.errors import OutOfResources

from bot.worker.contract import parse, render
from bot.worker.contract.gpu import MAX_CHOICES, Choice, Recording
from bot.worker.tuning import _source, pinned, untimed

BLOCKS = (64, 128, 256)


@triton.jit
def _kernel(y, n, BLOCK: tl.constexpr):
    tl.store(y + tl.arange(0, BLOCK), 0.0)


class Launcher:
    """Stands where the compiler is: it is told the numbers of each launch, and of each that is compiled ahead of it."""

    def __init__(self, too_large: int = 1 << 30) -> None:
        self.blocks: list[int] = []
        self.ahead: list[int] = []
        self.too_large = too_large

    def run(self, *args: Any, **kwargs: Any) -> str:
        if kwargs["warmup"]:
            assert not self.blocks, "what is timed was to be compiled before"
            self.ahead.append(kwargs["BLOCK"])
            return "compiled"
        self.blocks.append(kwargs["BLOCK"])
        if kwargs["BLOCK"] >= self.too_large:
            raise OutOfResources(300_000, 232_448, "shared memory")
        return "launched"


def tuned(launcher: Launcher, **words: Any) -> Any:
    made = triton.autotune(configs=[triton.Config({"BLOCK": block}) for block in BLOCKS], key=["n"], **words)(_kernel)
    made.fn = launcher
    return made


def launch(kernel: Any) -> object:
    return kernel.run("y", 7, grid=(1,), warmup=False)


def test_one_launch_is_one_launch() -> None:
    launcher = Launcher()
    with untimed("forward-3x100"):
        assert launch(tuned(launcher)) == "launched"
    assert len(launcher.blocks) == 1


def test_a_check_repeats_its_choice_and_others_choose_others() -> None:
    launcher = Launcher()
    kernel = tuned(launcher)
    for name in ("a", "a", *(f"check {n}" for n in range(20))):
        with untimed(name):
            launch(kernel)
    assert launcher.blocks[0] == launcher.blocks[1]
    assert set(launcher.blocks) == set(BLOCKS)


@pytest.mark.parametrize("name", ["a", "b", "c", "d", "e"])
def test_what_does_not_fit_the_chip_is_passed_over(name: str) -> None:
    launcher = Launcher(too_large=128)
    with untimed(name):
        assert launch(tuned(launcher)) == "launched"
    assert launcher.blocks[-1] == 64


def test_where_nothing_fits_the_last_complaint_is_raised() -> None:
    with untimed("a"), pytest.raises(OutOfResources):
        launch(tuned(Launcher(too_large=1)))


def test_what_the_kernel_itself_prunes_is_not_taken() -> None:
    launcher = Launcher()
    kept = {"early_config_prune": lambda configs, named, **kwargs: [c for c in configs if c.kwargs["BLOCK"] == 128]}
    kernel = tuned(launcher, prune_configs_by=kept)
    for name in "abcdef":
        with untimed(name):
            launch(kernel)
    assert set(launcher.blocks) == {128}


def test_its_configurations_are_as_they_were_afterwards() -> None:
    kernel = tuned(Launcher(too_large=1))
    with untimed("a"), pytest.raises(OutOfResources):
        launch(kernel)
    assert [config.kwargs["BLOCK"] for config in kernel.configs] == list(BLOCKS)


# -- what v0's chose is pinned --------------------------------------------------------------------------------


class Clock:
    """Stands where Triton's benchmark is: one block is the fastest, and each that is timed is written down."""

    def __init__(self, launcher: Launcher, fastest: int) -> None:
        self.timed: list[int] = []
        self._launcher, self.fastest = launcher, fastest

    def __call__(self, call: Any, quantiles: Any) -> list[float]:
        call()
        self.timed.append(self._launcher.blocks[-1])
        return [1.0 if self.timed[-1] == self.fastest else 2.0] * 3


class Worker:
    """A process of its own: a kernel that was never tuned."""

    def __init__(self, fastest: int = 128, too_large: int = 1 << 30, **words: Any) -> None:
        self.launcher = Launcher(too_large)
        self.clock = Clock(self.launcher, fastest)
        configs = [triton.Config({"BLOCK": block}) for block in words.pop("blocks", BLOCKS)]
        given = {"configs": configs, "key": ["n"], **words}
        self.kernel = triton.autotune(do_bench=self.clock, **given)(_kernel)
        self.kernel.fn = self.launcher

    def runs(self, *sizes: Any, pins: tuple[Choice, ...] = (), y: object = "y") -> tuple[Choice, ...]:
        """What it chose, told as it is told to the bench."""
        with pinned(pins) as tuned:
            for n in sizes:
                self.kernel.run(y, n=n, grid=(1,), warmup=False)
        return parse(Recording, render(Recording("c", "", "", 0, (), (), choices=tuned.choices))).choices


def test_what_nothing_is_pinned_for_is_tuned_and_tells_its_choice() -> None:
    v0 = Worker(fastest=128)
    (choice,) = v0.runs(7, 7)
    assert v0.clock.timed == list(BLOCKS)
    assert v0.launcher.blocks[-2:] == [128, 128]
    assert choice.kernel == "tests.worker.test_tuning._kernel"
    assert (choice.key, choice.constants) == ("(7,)", (("BLOCK", 128),))
    assert (choice.num_warps, choice.num_stages, choice.num_ctas, choice.maxnreg) == (4, 3, 1, None)


def test_what_is_pinned_is_taken_without_a_clock_though_another_would_win_here() -> None:
    pins = Worker(fastest=128).runs(7)
    variant = Worker(fastest=256)
    assert variant.runs(7, 7, pins=pins) == pins
    assert (variant.clock.timed, variant.launcher.blocks) == ([], [128, 128])


def test_each_key_keeps_its_own_choice_and_a_new_one_is_tuned() -> None:
    v0 = Worker(fastest=128)
    small = v0.runs(7)
    v0.clock.fastest = 64
    both = v0.runs(7, 9)
    assert [choice.constants for choice in both] == [(("BLOCK", 128),), (("BLOCK", 64),)]
    assert both[:1] == small
    variant = Worker(fastest=256)
    variant.runs(9, 7, 9, 11, pins=both)
    assert variant.launcher.blocks[:3] == [64, 128, 64]
    assert variant.clock.timed == list(BLOCKS)
    assert variant.launcher.blocks[-1] == 256


def test_the_types_of_its_tensors_tell_launches_apart() -> None:
    single, half = torch.empty(1), torch.empty(1, dtype=torch.float16)
    pins = Worker(fastest=128).runs(7, y=single)
    assert [pin.key for pin in pins] == ["(7, 'torch.float32')"]
    variant = Worker(fastest=256)
    variant.runs(7, pins=pins, y=single)
    assert (variant.clock.timed, variant.launcher.blocks) == ([], [128])
    variant.runs(7, pins=pins, y=half)
    assert variant.clock.timed == list(BLOCKS)


@pytest.mark.parametrize("blocks", [(64, 256), (*BLOCKS, 512), (64, 128)], ids=["without it", "more", "fewer"])
def test_a_kernel_that_lists_other_configurations_is_tuned_itself(blocks: tuple[int, ...]) -> None:
    pins = Worker(fastest=128).runs(7)
    variant = Worker(fastest=blocks[-1], blocks=blocks)
    variant.runs(7, pins=pins)
    assert variant.clock.timed == list(blocks)
    assert variant.launcher.blocks[-1] == blocks[-1]


@pytest.mark.parametrize(
    "other",
    [
        *({"kernel": "elsewhere._kernel"}, {"key": "(8,)"}, {"num_warps": 8}, {"maxnreg": 64}),
        *({"source": "another text"}, {"grid": (2,)}, {"grid": ()}),
    ],
)
def test_a_pin_of_something_else_pins_nothing(other: dict[str, Any]) -> None:
    (pin,) = Worker(fastest=128).runs(7)
    variant = Worker(fastest=256)
    variant.runs(7, pins=(dataclasses.replace(pin, **other),))
    assert variant.clock.timed == list(BLOCKS)


def test_what_nothing_is_pinned_for_is_compiled_before_it_is_timed_and_what_is_pinned_is_not() -> None:
    v0, variant = Worker(fastest=128), Worker(fastest=256)
    variant.runs(7, pins=v0.runs(7))
    assert (v0.launcher.ahead, variant.launcher.ahead) == (list(BLOCKS), [])


@triton.jit
def _helper(x):
    return x + 1.0


@triton.jit
def _with_a_helper(y, n, BLOCK: tl.constexpr):
    tl.store(y + tl.arange(0, BLOCK), _helper(0.0))


def test_a_kernel_is_known_by_its_text_and_by_that_of_what_it_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, helped = _source(_kernel.fn), _source(_with_a_helper.fn)
    assert plain and helped and plain != helped
    monkeypatch.setitem(globals(), "_helper", _kernel)
    assert _source(_with_a_helper.fn) not in (helped, plain)
    assert _source(len) == ""


def test_another_grid_is_tuned_anew_and_one_that_follows_the_block_is_known_by_what_it_comes_to() -> None:
    def launched(worker: Worker, programs: int, pins: tuple[Choice, ...] = ()) -> tuple[Choice, ...]:
        with pinned(pins) as tuned:
            worker.kernel.run("y", n=1024, grid=lambda meta: (meta["n"] // meta["BLOCK"], programs), warmup=False)
        return tuned.choices

    v0 = launched(Worker(fastest=128), 132)
    assert [choice.grid for choice in v0] == [(8, 132)]
    same, twice = Worker(fastest=256), Worker(fastest=256)
    launched(same, 132, v0)
    launched(twice, 264, v0)
    assert (same.clock.timed, twice.clock.timed) == ([], list(BLOCKS))


def test_a_grid_that_cannot_be_asked_is_no_reason_to_fail() -> None:
    worker = Worker()
    with pinned(()) as tuned:
        worker.kernel.run("y", n=7, grid=lambda meta: (meta["nothing"],), warmup=False)
    assert [choice.grid for choice in tuned.choices] == [()]


def test_what_the_kernel_itself_prunes_is_not_pinned() -> None:
    pins = Worker(fastest=128).runs(7)
    kept = {"early_config_prune": lambda configs, named, **kwargs: [c for c in configs if c.kwargs["BLOCK"] != 128]}
    variant = Worker(fastest=256, prune_configs_by=kept)
    variant.runs(7, pins=pins)
    assert (variant.clock.timed, variant.launcher.blocks[-1]) == ([64, 256], 256)


def test_a_variant_that_needs_more_than_the_chip_has_is_tuned_once() -> None:
    pins = Worker(fastest=256).runs(7)
    variant = Worker(fastest=128, too_large=256)
    (choice,) = variant.runs(7, 7, pins=pins)
    assert variant.clock.timed == [64, 128]
    assert variant.launcher.blocks == [256, 64, 128, 256, 128, 128]
    assert choice.constants == (("BLOCK", 128),)


def test_a_pin_may_turn_out_too_large_at_a_later_launch_of_the_same_key() -> None:
    pins = Worker(fastest=256).runs(7)
    variant = Worker(fastest=64)
    with pinned(pins):
        launch(variant.kernel)
        variant.launcher.too_large = 256
        launch(variant.kernel)
    assert variant.launcher.blocks == [256, 256, 64, 128, 256, 64]


def test_what_a_worker_tuned_itself_fails_as_ever_when_a_later_launch_is_too_large() -> None:
    (pin,) = Worker(fastest=128).runs(7)
    variant = Worker(fastest=256)
    with pinned((dataclasses.replace(pin, key="(8,)"),)):
        launch(variant.kernel)
        variant.launcher.too_large = 256
        with pytest.raises(OutOfResources):
            launch(variant.kernel)
    assert variant.clock.timed == list(BLOCKS)


@pytest.mark.parametrize("is_pinned", [True, False])
def test_where_nothing_fits_it_fails_as_it_does_for_everybody(is_pinned: bool) -> None:
    pins = Worker().runs(7) if is_pinned else ()
    with pytest.raises(OutOfResources):
        Worker(too_large=1).runs(7, pins=pins)


def test_another_case_of_the_same_worker_finds_what_was_tuned_and_tells_it_too() -> None:
    v0 = Worker(fastest=64)
    assert v0.runs(7) == v0.runs(7) != ()
    assert v0.clock.timed == list(BLOCKS)


def test_a_kernel_with_one_configuration_chooses_nothing() -> None:
    worker = Worker(blocks=(64,))
    assert worker.runs(7) == ()
    assert worker.launcher.blocks == [64]


@pytest.mark.parametrize("size", [object(), "x" * 500, "\N{SNOWMAN}"], ids=["no name", "endless", "not ASCII"])
def test_what_no_other_process_could_know_again_is_not_told(size: Any) -> None:
    worker = Worker(fastest=64)
    assert worker.runs(size, 7, size)[0].key == "(7,)"
    assert len(worker.runs(size)) == len(worker.runs(7)) - 1 == 0


@pytest.mark.parametrize(
    "odd",
    [{"kwargs": {"ODD": float("nan")}}, {"kwargs": {"ODD": (1,)}}, {"ir_override": "mine.ttgir"}, {"num_warps": 4.0}],
)
def test_a_configuration_that_is_not_plain_is_not_told(odd: dict[str, Any]) -> None:
    constants = odd.pop("kwargs", {})
    worker = Worker(configs=[triton.Config({"BLOCK": block, **constants}, **odd) for block in BLOCKS])
    assert worker.runs(7) == ()
    assert worker.clock.timed == list(BLOCKS)


def test_two_kernels_of_one_name_that_chose_differently_are_not_told() -> None:
    one, same, other = Worker(fastest=64), Worker(fastest=64), Worker(fastest=128)
    with pinned(()) as tuned:
        for worker in (one, same):
            launch(worker.kernel)
        assert len(tuned.choices) == 1
        for worker in (other, one):
            launch(worker.kernel)
    assert tuned.choices == ()


def test_no_more_is_told_than_the_bench_takes() -> None:
    worker = Worker()
    assert len(worker.runs(*range(MAX_CHOICES))) == MAX_CHOICES
    assert len(worker.runs(*range(MAX_CHOICES + 1))) == MAX_CHOICES


def test_triton_tunes_as_ever_afterwards() -> None:
    pins = Worker(fastest=128).runs(7)
    worker = Worker(fastest=256)
    launch(worker.kernel)
    assert worker.launcher.blocks == [*BLOCKS, 256]
    assert worker.runs(7, pins=pins)[0].constants == (("BLOCK", 256),)
