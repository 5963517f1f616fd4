"""How many copies of a pass stand behind one another in one graph, each on memory of its own."""

from __future__ import annotations

import math

SHORT_US, GRAPH_US = 75.0, 150.0
"""A pass shorter than this is put several times into one graph, until the graph takes about so long. Played alone,
passes of 22 us that nobody had changed came out up to 0.5 % apart on an H200; several in one graph within 0.1 %."""
MOST_LANES = 64
MOST_BYTES = 2**30
"""Of all lanes together."""
NOBODY_MOVES = 20e6
"""Bytes a microsecond, more than any memory gives: who seems to move as much leaves alone most of what it is handed. A
loss whose gradient is 1 has nothing to do in its backward pass; its lanes were filled and compared for a second a
case."""
IDLE_LANES = 2
MOST_SLOT_US = 10_000.0
"""Of a slot in all. Before a backward pass stands a forward pass in each lane: that of fused_linear_jsd takes 1.2 ms,
and its backward pass, which only asks whether the gradient is one, 5 us, so that 25 lanes were 30 ms a slot."""


def lanes_for(pilot_us: float, nbytes: int, slot_us: float = 0.0) -> int:
    """`nbytes` are what one of them is handed, and `slot_us` what a slot with one of them takes in all."""
    if pilot_us >= SHORT_US:
        return 1
    most = IDLE_LANES if nbytes > NOBODY_MOVES * pilot_us else MOST_LANES
    most = min(most, max(IDLE_LANES, int(MOST_SLOT_US / max(slot_us, 1.0))))
    return max(1, min(most, math.ceil(GRAPH_US / max(pilot_us, 1.0)), MOST_BYTES // max(1, nbytes)))
