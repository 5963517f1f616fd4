"""What a slot finds in memory before it is played. The rest of the replayer needs a GPU."""

from __future__ import annotations

from itertools import permutations
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bot.judge.layout import ALIGN, BANKS, Layout
from bot.judge.replayer import Stage, drawn_order, first_line

INPUT, SCRATCH = 3 * ALIGN, 2 * ALIGN
RUBBISH = (0xFF, 0x2D)


def stage(lanes: int, inputs: int = INPUT) -> Any:
    """Each bank holds its own number everywhere."""
    layout = Layout((("x", 0, inputs),) if inputs else (), inputs, (), 0, lanes)
    made: Any = object.__new__(Stage)
    made._layout, made._arms = layout, [SimpleNamespace(scratch_bytes=SCRATCH), SimpleNamespace(scratch_bytes=ALIGN)]
    banks = torch.arange(1, BANKS + 1, dtype=torch.uint8).repeat_interleave(inputs)
    made._shared = torch.cat([banks, torch.zeros(ALIGN, dtype=torch.uint8)])
    made._lanes = made._make_lanes(lanes)
    return made


def values(memory: torch.Tensor) -> set[int]:
    return set(memory.unique().tolist())


@pytest.mark.parametrize("lanes", [1, 2, BANKS, BANKS + 1, 17])
@pytest.mark.parametrize("poison", [0, 1])
def test_inputs_have_their_contents_and_all_else_is_rubbish(lanes: int, poison: int) -> None:
    made = stage(lanes)
    for bank in range(BANKS):
        made._memory.fill_(0x77)  # as the slot before it left everything
        made._fill(bank, poison)
        for number, lane in enumerate(made._lanes):
            inputs, rest = made._memory[lane.base :][:INPUT], made._memory[lane.base + INPUT :][:SCRATCH]
            assert values(inputs) == {1 + (bank + number) % BANKS}
            assert values(rest) == {RUBBISH[poison]}


def test_who_has_no_inputs_finds_rubbish_alone() -> None:
    made = stage(2, inputs=0)
    made._memory.fill_(0x77)
    made._fill(0, 1)
    for lane in made._lanes:
        assert values(made._memory[lane.base :][:SCRATCH]) == {0x2D}


def test_lanes_lie_behind_one_another_and_what_lies_before_them_is_rubbish_too() -> None:
    made = stage(3)
    bases = [lane.base for lane in made._lanes]
    assert [bases[1] - bases[0], bases[2] - bases[1]] == [INPUT + SCRATCH + ALIGN] * 2
    assert made._memory.numel() == bases[2] + INPUT + SCRATCH + ALIGN
    assert values(made._memory[: bases[0]]) <= {0xFF}


def test_who_is_loaded_first_is_drawn_anew_and_everybody_is_on_every_lane() -> None:
    assert {tuple(drawn_order(3)) for _ in range(400)} == set(permutations(range(3)))
    made, happened = stage(2), list[tuple[str, int, int]]()

    def arm(number: int) -> Any:
        def note(what: str) -> Any:
            return lambda lane, _: happened.append((what, number, made._lanes.index(lane)))

        return SimpleNamespace(prepare=note("prepare"), body=note("body"))

    made._arms, made._stream = [arm(number) for number in range(3)], SimpleNamespace(cuda_stream=0)
    made._load([2, 0, 1])
    assert happened == [(what, who, lane) for who in (2, 0, 1) for lane in (0, 1) for what in ("prepare", "body")]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("operation not permitted\nCompile with TORCH_USE_CUDA_DSA", "operation not permitted"),
        ("\n  \nlate", "late"),
        ("", ""),
    ],
)
def test_the_first_line_of_an_error_is_what_happened(text: str, told: str) -> None:
    """The last one of CUDA's was all that a campaign said of the rivals of grpo_loss."""
    assert first_line(RuntimeError(text)) == told
