"""Who adds up shares atomically has a last bit that depends on the order of programs; not every probe shows it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from pathlib import Path

import pytest
import torch

from bot.judge.answer import read_answer
from bot.judge.known import Known, known_of
from bot.judge.plan import TURNS_ON_GPU, Probe, probes_of
from bot.worker.contract import Row, Shape
from tests.judge.returned import RECIPE, Kernel, Results, right, rows, write_answer

CHECKS = (
    Shape("forward-3x64-float32", "forward", (("rows", 3), ("cols", 64)), "float32"),
    Shape("full-3x33-float32", "full", (("rows", 3), ("cols", 33)), "float32"),
    Shape("full-2x40-float32", "full", (("rows", 2), ("cols", 40)), "float32"),
    Shape("full-4x24-float16", "full", (("rows", 4), ("cols", 24)), "float16"),
)
FORWARD, LUCKY, OTHER, HALF = (check.id for check in CHECKS)
ONE_EACH = {probe.shape.id: probe for probe in reversed(probes_of(RECIPE, CHECKS, 5, TURNS_ON_GPU))}
PROBES = tuple(ONE_EACH[check.id] for check in CHECKS)
"""The first of each check, which is run most often."""
GRADIENT, OUTPUT = ("gradient", "x"), ("output", "0")
LATE = TURNS_ON_GPU[0] - 1
SAID = "depends on uninitialised memory or on the order in which programs run"


def in_the_last_bit(values: torch.Tensor) -> torch.Tensor:
    moved = values.clone()
    moved.view(-1)[0] = moved.view(-1)[0].nextafter(torch.tensor(9.0, dtype=values.dtype))
    return moved


def changing(
    cases: Collection[str], change: object = in_the_last_bit, key: tuple[str, str] = GRADIENT, turn: int = LATE
) -> Kernel:
    """One run in which a result of these cases is another."""

    def kernel(probe: Probe, tensors: dict[str, torch.Tensor], number: int) -> Results:
        found = right(probe, tensors, number)
        if probe.call.case in cases and number == turn and key in found:
            found[key] = change(found[key])  # type: ignore[operator]
        return found

    return kernel


@pytest.fixture(scope="module")
def prepared() -> list[Known]:
    return [known_of(RECIPE, probe)[0] for probe in PROBES]


class Hearing:
    """A variant beside an untouched kernel."""

    def __init__(self, prepared: list[Known], folder: Path) -> None:
        self._prepared, self._folder = prepared, folder

    def _answer(self, kernel: Kernel, name: str, probes: tuple[Probe, ...]) -> Path:
        write_answer(self._folder / name, kernel, probes=probes)
        return self._folder / name

    def known(self, kernel: Kernel) -> list[Known]:
        returned = read_answer(self._answer(kernel, "base", PROBES))
        return [dataclasses.replace(one, baseline=returned[one.probe.call.id]) for one in self._prepared]

    def of(self, base: Kernel, mine: Kernel, *, baseline: bool = False) -> dict[str, Row]:
        known = self.known(base)
        found = read_answer(self._answer(mine, "mine", PROBES))
        return {row.case: row for row in rows(known, found, baseline=baseline)}


@pytest.fixture
def hearing(prepared: list[Known], tmp_path: Path) -> Hearing:
    return Hearing(prepared, tmp_path)


def test_the_luck_that_the_untouched_kernel_had_in_one_probe_binds_nobody(hearing: Hearing) -> None:
    found = hearing.of(changing({OTHER}), changing({LUCKY}))
    assert all(row.passed for row in found.values()), found


@pytest.mark.parametrize(
    "shown",
    [changing(()), changing({FORWARD, OTHER, LUCKY}, key=OUTPUT)],
    ids=["nothing", "another result"],
)
def test_what_it_never_showed_of_this_result_is_not_excused(hearing: Hearing, shown: Kernel) -> None:
    row = hearing.of(shown, changing({LUCKY}))[LUCKY]
    assert not row.passed
    assert row.detail.startswith(f"gradient x {SAID}")


def test_what_it_showed_of_another_type_is(hearing: Hearing) -> None:
    """group_norm rounds its shares to bfloat16: in float16 they add up without rounding, most of the time."""
    assert hearing.of(changing({HALF}), changing({LUCKY}))[LUCKY].passed
    assert hearing.of(changing({OTHER}), changing({HALF}))[HALF].passed


def test_another_pass_is_made_by_another_kernel(hearing: Hearing) -> None:
    row = hearing.of(changing({OTHER}, key=OUTPUT), changing({FORWARD}, key=OUTPUT))[FORWARD]
    assert not row.passed and row.detail.startswith(f"output y {SAID}")
    assert hearing.of(changing({OTHER}, key=OUTPUT), changing({LUCKY}, key=OUTPUT))[LUCKY].passed


@pytest.mark.parametrize(("case", "turn"), [(LUCKY, 1), (OTHER, LATE)])
@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (lambda dx: dx * 1.001, "times what the untouched kernel's own error allows"),
        (lambda dx: dx.index_fill(0, torch.tensor([1]), float("nan")), "infinity or NaN"),
        (
            lambda dx: dx.index_fill(0, torch.tensor([1]), -12345.0),
            "times what the untouched kernel's own error allows",
        ),
        (lambda dx: dx.half(), "gradient x is float16"),
        (lambda dx: None, "gradient x is None"),
    ],
    ids=["off", "NaN", "rubbish", "another type", "nothing"],
)
def test_but_then_every_run_is_held_against_the_truth(
    hearing: Hearing, case: str, turn: int, wrong: object, told: str
) -> None:
    """Also where the untouched kernel shows it itself: memory that nobody wrote cannot hide behind the first run."""
    row = hearing.of(changing({OTHER}), changing({case}, wrong, turn=turn))[case]
    assert not row.passed
    assert told in row.detail


def overwriting(cases: Collection[str], name: str, base: Kernel = right) -> Kernel:
    def kernel(probe: Probe, tensors: dict[str, torch.Tensor], number: int) -> Results:
        found = base(probe, tensors, number)
        if probe.call.case in cases and number == LATE:
            tensors[name].zero_()
        return found

    return kernel


def test_an_input_is_overwritten_in_no_run_whatever_is_excused(hearing: Hearing) -> None:
    for base in (changing({OTHER}), overwriting({OTHER}, "dy", changing({OTHER}))):
        row = hearing.of(base, overwriting({LUCKY}, "dy", changing({LUCKY})))[LUCKY]
        assert not row.passed
        assert row.detail.startswith("grad output dy was overwritten")


def off_by(share: float) -> object:
    return lambda dx: dx + share * dx.abs().amax(-1, keepdim=True)


def test_all_runs_are_held_against_all_runs_of_the_untouched_kernel(hearing: Hearing) -> None:
    base = changing({OTHER}, off_by(1e-5))
    assert hearing.of(base, changing({OTHER}, off_by(1.9e-5), turn=2))[OTHER].passed
    assert not hearing.of(base, changing({OTHER}, off_by(2.3e-5), turn=2))[OTHER].passed
    assert not hearing.of(base, changing({LUCKY}, off_by(1.9e-5), turn=2))[LUCKY].passed, "of this probe alone"


def test_a_run_of_the_untouched_kernel_that_is_gross_allows_nothing(hearing: Hearing) -> None:
    base = changing({OTHER}, lambda dx: dx * 7)
    assert not hearing.of(base, changing({OTHER}, off_by(1e-4)))[OTHER].passed
    assert hearing.of(base, changing({OTHER}))[OTHER].passed
    assert hearing.of(base, base, baseline=True)[OTHER].passed, "and it is judged by its first run, as ever"


def test_where_the_untouched_kernel_is_far_off_an_order_takes_no_run_further_off(hearing: Hearing) -> None:
    """What comes of it there is chance, but the same chance each time. Another run may be nearer to the truth."""

    def chance(probe: Probe, tensors: dict[str, torch.Tensor], number: int) -> Results:
        found = changing({OTHER})(probe, tensors, number)
        if probe.call.case == LUCKY:
            found[GRADIENT] = found[GRADIENT] * 3  # type: ignore[operator]
        return found

    def mine(times: float) -> Kernel:
        def kernel(probe: Probe, tensors: dict[str, torch.Tensor], number: int) -> Results:
            found = chance(probe, tensors, number)
            if probe.call.case == LUCKY and number == LATE:
                found[GRADIENT] = times * found[GRADIENT]  # type: ignore[operator]
            return found

        return kernel

    assert hearing.of(chance, chance)[LUCKY].passed
    assert hearing.of(chance, mine(0.9))[LUCKY].passed
    for times in (1.1, -1.0, float("nan")):
        row = hearing.of(chance, mine(times))[LUCKY]
        assert not row.passed and SAID in row.detail
