"""An autotuned kernel is checked with one configuration after another, and timed in none."""

from __future__ import annotations

from typing import Any

import pytest
import triton
import triton.language as tl
from triton.runtime.errors import OutOfResources

from bot.worker.tuning import untimed

BLOCKS = (64, 128, 256)


@triton.jit
def _kernel(y, n, BLOCK: tl.constexpr):
    tl.store(y + tl.arange(0, BLOCK), 0.0)


class Launcher:
    """Stands where the compiler is: it is told the numbers of each launch."""

    def __init__(self, too_large: int = 1 << 30) -> None:
        self.blocks: list[int] = []
        self._too_large = too_large

    def run(self, *args: Any, **kwargs: Any) -> str:
        self.blocks.append(kwargs["BLOCK"])
        if kwargs["BLOCK"] >= self._too_large:
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
