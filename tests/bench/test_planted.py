"""The kernels a clock is calibrated with: many texts, one meaning, and effects of a known size."""

from __future__ import annotations

import ast
import re

import pytest

from bot.bench.calibrating import _of, amounts
from bot.bench.planted import IDLE, PLANTED, SIZES, source


def test_each_kernel_has_a_name_and_words_of_its_own() -> None:
    text = source(40, seed=3)
    names = re.findall(r"^def (_rows_\w+_kernel)", text, re.MULTILINE)
    bodies = re.split(r"^def _rows_\w+_kernel", text, flags=re.MULTILINE)[1:]
    ast.parse(text)
    assert len(set(names)) == 40
    assert len(set(bodies[:-1])) > 20
    assert f"KERNELS = [{', '.join(names)}]" in text


def test_the_same_seed_writes_the_same_kernels() -> None:
    assert source(5, seed=3) == source(5, seed=3) != source(5, seed=4)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: size.name)
@pytest.mark.parametrize("percent", PLANTED)
def test_a_planted_effect_is_as_many_rows(size, percent: float) -> None:  # type: ignore[no-untyped-def]
    before, after = size.rows * (1 + IDLE), size.rows + size.extra(percent)
    assert 100 * (before / after - 1) == pytest.approx(percent, abs=0.03)
    assert size.extra(0.0) == round(size.rows * IDLE)


def test_three_hundred_trials_are_enough_for_what_is_promised() -> None:
    counts = {percent: sum(_of(size, count) for size in SIZES) for percent, count in amounts(300).trials}
    of_size = {
        percent: sum(_of(s, count) for s in SIZES if s.name != "short") for percent, count in amounts(300).trials
    }
    assert counts[0.0] >= 300
    assert counts[-2.0] >= 300
    assert of_size[2.0] >= 200
    assert set(counts) == {0.0, *PLANTED}
