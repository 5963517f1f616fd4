"""Short passes are put behind one another, as long as there is memory for them."""

from __future__ import annotations

import pytest

from bot.bench.lanes import GRAPH_US, IDLE_LANES, MOST_BYTES, MOST_LANES, MOST_SLOT_US, NOBODY_MOVES, lanes_for
from bot.worker.contract import Argument, Call, TensorSpec


@pytest.mark.parametrize(
    ("pilot_us", "lanes"), [(75.0, 1), (74.9, 3), (22.0, 7), (100.0, 1), (2.0, MOST_LANES), (0.0, MOST_LANES)]
)
def test_short_passes_are_put_behind_one_another(pilot_us: float, lanes: int) -> None:
    assert lanes_for(pilot_us, 0) == lanes
    assert lanes == 1 or lanes == MOST_LANES or lanes * pilot_us >= GRAPH_US


@pytest.mark.parametrize(
    ("nbytes", "lanes"),
    [
        (MOST_BYTES // 8, 8),
        (MOST_BYTES // 8 + 1, 7),
    ],
)
def test_lanes_take_no_more_than_so_much_memory(nbytes: int, lanes: int) -> None:
    assert lanes_for(nbytes / NOBODY_MOVES, 0) > 8
    assert lanes_for(nbytes / NOBODY_MOVES, nbytes) == lanes


@pytest.mark.parametrize(("pilot_us", "lanes"), [(2.0, 64), (1.99, IDLE_LANES), (0.0, IDLE_LANES)])
def test_a_pass_that_does_nothing_with_what_it_is_handed_gets_hardly_more_of_it(pilot_us: float, lanes: int) -> None:
    """The backward pass of a loss whose gradient is 1 launches no kernel; 64 lanes of it were more than a GPU holds."""
    nbytes = int(2 * NOBODY_MOVES)
    assert lanes_for(pilot_us, nbytes) == min(lanes, MOST_BYTES // nbytes)
    assert lanes_for(pilot_us, MOST_BYTES // 2) == IDLE_LANES
    assert lanes_for(pilot_us, MOST_BYTES // 2 + 1) == 1


@pytest.mark.parametrize(
    ("slot_us", "lanes"),
    [
        (0.0, 30),
        (MOST_SLOT_US / 30, 30),
        (MOST_SLOT_US / 29.5, 29),
        (MOST_SLOT_US / IDLE_LANES, IDLE_LANES),
        (MOST_SLOT_US, IDLE_LANES),
        (10 * MOST_SLOT_US, IDLE_LANES),
    ],
)
def test_a_short_backward_pass_behind_a_long_forward_pass_stands_in_few_lanes(slot_us: float, lanes: int) -> None:
    """Each lane has a forward pass of its own before it."""
    assert lanes_for(5.0, 0, slot_us) == lanes
    assert lanes_for(75.0, 0, slot_us) == 1


def test_everything_that_is_handed_over_counts() -> None:
    x, dy = TensorSpec("x", "bfloat16", (4, 8)), TensorSpec("dy", "float32", (4, 8))
    call = Call("c", "backward-4x8", "backward", (Argument("x", x),), (dy,), blob="", turns=1)
    assert call.nbytes == 4 * 8 * (2 + 4)
