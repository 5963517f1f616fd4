"""Triton's interpreter after it was mended: what tripped real kernels works, and nothing it touches goes unnoticed."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.worker.scenes import INTERPRETED, played


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    """One process for all scenes: the variable that turns the interpreter on is read at import."""
    return played("interpreted", told=INTERPRETED)


def test_float_and_bool_arguments_are_tensors(seen: dict[str, Any]) -> None:
    assert seen["scalars"] == 3.5


def test_libdevice_computes(seen: dict[str, Any]) -> None:
    assert seen["library"] < 1e-6


def test_a_libdevice_function_nobody_wrote_says_so(seen: dict[str, Any]) -> None:
    assert "the interpreter does not know libdevice.cyl_bessel_i0" in seen["unknown"]["error"]


def test_range_over_a_tensor_works(seen: dict[str, Any]) -> None:
    assert seen["loop"] == sum(range(1, 17))


def test_traffic_is_counted_by_region_and_masked_lanes_are_not(seen: dict[str, Any]) -> None:
    assert seen["copy"]["error"] == ""
    assert seen["copy"]["shares"] == {"y": [0.0, 1.0], "x": [0.5, 0.0]}


def test_what_a_program_reads_again_stands_apart(seen: dict[str, Any]) -> None:
    """It moves its row three times, and once from one read to the next."""
    assert seen["copy"]["again"] == {}
    assert seen["twice"]["shares"] == {"y": [0.0, 1.0], "x": [1.0, 0.0]}
    assert seen["twice"]["again"] == {"x": [1.0, pytest.approx(1 / 3)]}


@pytest.mark.parametrize(
    ("scene", "told"),
    [
        ("beyond", "beyond_kernel reads 4 bytes outside of every tensor it was handed, nearest x"),
        ("before", "before_kernel writes 4 bytes outside of every tensor it was handed, nearest y"),
        # Far outside: where the other tensor happens to lie decides which of them is nearest, and how far it is.
        ("nested", r"nested_kernel reads [1-9]\d* bytes outside of every tensor it was handed, nearest [xy]"),
    ],
)
def test_an_address_outside_is_refused(seen: dict[str, Any], scene: str, told: str) -> None:
    assert re.fullmatch(told, seen[scene]["stray"])
    assert "InterpreterError" in seen[scene]["error"]


def test_programs_that_disagree_about_one_place_race(seen: dict[str, Any]) -> None:
    assert seen["race"]["races"] == ["race_kernel writes two different values to one place in y"]


def test_programs_that_agree_do_not(seen: dict[str, Any]) -> None:
    assert seen["agree"]["races"] == []


def test_reading_what_another_program_wrote_is_a_race(seen: dict[str, Any]) -> None:
    assert seen["chain"]["races"] == ["chain_kernel reads from y what another program of the launch wrote"]


def test_atomics_are_no_race(seen: dict[str, Any]) -> None:
    assert seen["atomic"]["races"] == []
    assert seen["atomic value"] == 3.0


def test_running_backwards_shows_what_depends_on_the_order(seen: dict[str, Any]) -> None:
    assert seen["orders"] == [[1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 1.0, 1.0]]


def test_an_autotuned_kernel_takes_its_first_configuration(seen: dict[str, Any]) -> None:
    assert seen["tuned"] == 4.0
