"""What to try for each kind of bottleneck, in order, and the most that each could give.

The most is arithmetic, not hope: a strategy is about certain parts of the time, and if all of them went away the rest
would still be there. The parts are the model's, so the figure is an estimate; the record holds it against what came.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from bot.model.diagnosis import Bottleneck, Strategy

LATE = ("partial_sums", "scale_at_store", "scale_in_kernel", "base_two", "cache_hints")
STRATEGIES: dict[Bottleneck, tuple[str, ...]] = {
    Bottleneck.MEMORY: (
        *("launch_parameters", "drop_zero_fill", "tile_rows", "walk_rows", "pipeline_rows", "block_rows"),
        *("divide_by_constants", *LATE, "more_programs"),
    ),
    Bottleneck.RESOURCE: (
        *("launch_parameters", "walk_rows", "tile_rows", "pipeline_rows", "block_rows", "divide_by_constants"),
        *("more_programs", "drop_zero_fill", *LATE),
    ),
    Bottleneck.LATENCY: (
        *("launch_parameters", "pipeline_rows", "block_rows", "more_programs", "tile_rows", "walk_rows"),
        *("divide_by_constants", "drop_zero_fill", *LATE),
    ),
    Bottleneck.HOST: (
        *("launch_parameters", "drop_zero_fill", "scale_at_store", "scale_in_kernel", "partial_sums"),
        *("pipeline_rows", "block_rows", "more_programs", "tile_rows", "walk_rows"),
        *("divide_by_constants", "base_two", "cache_hints"),
    ),
    **dict.fromkeys(
        (Bottleneck.COMPUTE, Bottleneck.BALANCED, Bottleneck.LAUNCH),
        (
            *("launch_parameters", "pipeline_rows", "block_rows", "more_programs", "drop_zero_fill", "tile_rows"),
            *("walk_rows", "divide_by_constants", *LATE),
        ),
    ),
}
"""What to try, in order. Launch numbers always come first (T-20): they are cheap to try and easy to read."""

UNHIDDEN = ("waiting", "issue", "spills")
"""Parts of the time that neighbours, or fewer elements a thread, could hide."""
MOST_SHARE = 0.99
"""Nothing takes no time at all."""


@dataclass(frozen=True, slots=True)
class Aim:
    """What a strategy is about."""

    techniques: tuple[str, ...]
    removes: tuple[str, ...]
    because: str


AIMS: dict[str, Aim] = {
    "launch_parameters": Aim(("P0",), UNHIDDEN, "warps and blocks decide what runs side by side and what spills"),
    "divide_by_constants": Aim(
        ("C2", "C4"), UNHIDDEN, "a division by a number of the launch costs each element a load and an address"
    ),
    "tile_rows": Aim(("C5", "G2"), UNHIDDEN, "tiles of a row leave room for many programs"),
    "walk_rows": Aim(("C1", "C4"), UNHIDDEN, "a row in blocks needs fewer registers than a row at once"),
    "pipeline_rows": Aim(("P0", "M4"), ("waiting", "issue"), "the next rows can be under way while one is worked on"),
    "block_rows": Aim(("P0", "G2"), UNHIDDEN, "several rows make one block, whose loads and sums wait together"),
    "partial_sums": Aim(("G1",), ("waiting", "excess"), "additions to the same few places queue"),
    "more_programs": Aim(("G2",), ("waiting", "issue"), "a second program works while one waits"),
    "drop_zero_fill": Aim(
        ("M3", "G1"), ("excess", "fixed"), "a fill writes every byte once more, in a launch of its own"
    ),
    "scale_at_store": Aim(("G1", "M3"), ("excess", "fixed"), "a product and a quotient are passes over every byte"),
    "scale_in_kernel": Aim(("G1", "M3"), ("excess", "fixed"), "a general library kernel moves more than the bytes"),
    "base_two": Aim(("C1",), ("issue",), "an exponential to the base of two is one instruction of the GPU"),
    "cache_hints": Aim(("M2",), ("excess",), "what all programs read should stay in the cache"),
}


def _at_most(aim: Aim, shares: Mapping[str, float] | None) -> float | None:
    if shares is None:
        return None
    gone = min(MOST_SHARE, sum(max(0.0, shares.get(part, 0.0)) for part in aim.removes))
    return 1 / (1 - gone)


def plan(kind: Bottleneck, shares: Mapping[str, float] | None, unfit: Collection[str] = ()) -> tuple[Strategy, ...]:
    """`shares` of the estimated time, by part; `excess` is the part of memory's that is more than the least traffic.
    What is `unfit` finds nothing to change."""
    return tuple(
        Strategy(
            name=name,
            techniques=AIMS[name].techniques,
            because=AIMS[name].because,
            at_most=_at_most(AIMS[name], shares),
        )
        for name in STRATEGIES[kind]
        if name not in unfit
    )
