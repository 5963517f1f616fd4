"""A diagnosis names what takes the time and shows the evidence it has."""

from __future__ import annotations

import pytest

from bot.analysis.bottleneck import STRATEGIES, diagnose
from bot.hardware.catalog import for_arch
from bot.model.diagnosis import Bottleneck, Diagnosis
from bot.model.measurement import Launch, Survey
from tests.analysis import made

H200 = for_arch("sm_90")
CASE = made.case()


def of(launch: Launch, *surveys: Survey, **fields: float) -> Diagnosis:
    baseline = made.measurement(made.result(CASE, launch, **fields))
    return diagnose(baseline, made.suite(CASE), H200, surveys)


def needing(**fields: int) -> Launch:
    return made.launch(resources=made.resources(**fields))


@pytest.mark.parametrize(
    ("launch", "expected"),
    [
        (needing(instructions=100), Bottleneck.MEMORY),
        (needing(spill_bytes=400, registers=255), Bottleneck.RESOURCE),
        (needing(instructions=20_000), Bottleneck.COMPUTE),
        (made.launch(grid=(132, 1, 1), block=256, resources=made.resources(instructions=80)), Bottleneck.LAUNCH),
        (needing(instructions=3500), Bottleneck.BALANCED),
    ],
)
def test_the_class_is_what_takes_most_of_the_time(launch: Launch, expected: Bottleneck) -> None:
    found = of(launch)
    assert found.bottleneck is expected
    assert found.strategies == STRATEGIES[expected]


@pytest.mark.parametrize("kind", list(Bottleneck))
def test_launch_numbers_are_always_tried_first(kind: Bottleneck) -> None:
    assert STRATEGIES[kind][0] == "launch_parameters"
    assert len(set(STRATEGIES[kind])) == len(STRATEGIES[kind])


def test_without_a_profiler_it_is_a_heuristic_and_the_numbers_are_estimated() -> None:
    found = of(needing(instructions=100))
    assert found.confidence == "heuristic"
    assert "estimated" in found.sentence
    assert found.roof_percent is not None
    assert f"{found.roof_percent:.0f} % of the NVIDIA H200 SXM's roof" in found.sentence


def evidence(found: Diagnosis) -> str:
    return "\n".join(clue.evidence for clue in found.clues)


def test_spills_are_shown_with_the_case_they_happen_on() -> None:
    found = of(needing(spill_bytes=620, registers=255))
    assert f"_k: 620 B of spills a thread with 255 registers on {CASE.id}" in evidence(found)


def test_a_grid_of_one_program_a_multiprocessor_is_noticed() -> None:
    found = of(made.launch(grid=(132, 1, 1), warps=2))
    assert "2 of 64 warps busy on a multiprocessor (1 x 2, the grid has no more)" in evidence(found)


def test_registers_that_keep_programs_out_are_named() -> None:
    found = of(needing(registers=255, instructions=2000))
    assert "(1 x 8, registers keep out more)" in evidence(found)


@pytest.mark.parametrize(("bits", "said"), [(16, True), (32, True), (64, False), (0, False)])
def test_narrow_loads_are_noticed(bits: int, said: bool) -> None:
    assert (f"the widest load is {bits} bits" in evidence(of(needing(load_bits=bits)))) is said


@pytest.mark.parametrize(("factor", "said"), [(1.24, False), (1.25, True)])
def test_traffic_beyond_the_inputs_and_outputs_is_noticed(factor: float, said: bool) -> None:
    assert (f"moves {factor:.2f} times" in evidence(of(needing(), traffic_factor=factor))) is said


def test_a_survey_that_promises_something_is_quoted() -> None:
    slow = made.launch(warps=2, resources=made.resources(instructions=1500, registers=120))
    found = of(slow, made.survey(CASE, 4096, 8))
    assert "_k: BLOCK_SIZE 4096, 8 warps is estimated" in evidence(found)


def test_a_survey_of_another_block_is_not_quoted_since_it_may_be_wrong() -> None:
    slow = made.launch(warps=2, resources=made.resources(instructions=1500, registers=120))
    assert "is estimated" not in evidence(of(slow, made.survey(CASE, 512, 8)))


def test_a_survey_that_promises_nothing_is_not_quoted() -> None:
    fast = made.launch(resources=made.resources(instructions=10))
    assert "is estimated" not in evidence(of(fast, made.survey(CASE, 4096, 8)))


def test_a_kernel_that_cannot_be_modelled_gets_no_story() -> None:
    found = of(made.launch(resources=None))
    assert found.roof_percent is None
    assert "nothing is said" in found.sentence
