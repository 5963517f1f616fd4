"""Which ideas find something to change in the sources of a kernel as they are: only those belong into its plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bot.analysis.estimate import block_of
from bot.engine import race_field, rewriting
from bot.engine.transforms import ACROSS_FILES, TRANSFORMS, heads_at_once, rows_at_once
from bot.model.measurement import Launch, Measurement
from bot.model.variant import SourceFile

NUMBERS = "launch_parameters"
"""What a plan calls launch numbers."""
HALF = 2
"""Bytes."""


def _is_of_short_rows(launch: Launch) -> bool:
    """Whether its programs, one for each row, could take several of half precision."""
    block, longest = block_of(launch), rows_at_once.MOST_BYTES // 2 // HALF
    return block is not None and block <= longest and launch.grid[0] >= rows_at_once.FEWEST


def _is_of_many_heads(launch: Launch) -> bool:
    """Whether a program takes several heads then: a few programs keep one each."""
    return launch.grid[1] > 1 and launch.grid[0] * launch.grid[1] >= heads_at_once.FEWEST


def _has_several_axes(launch: Launch) -> bool:
    """Whether programs may be counted otherwise."""
    return sum(size > 1 for size in launch.grid) > 1


def _spills_in_tiles(launch: Launch) -> bool:
    """Whether a thread of one tile among several on an axis behind the first holds too much."""
    return launch.resources is not None and launch.resources.spill_bytes > 0 and max(launch.grid[1:], default=1) > 1


ABOUT: dict[str, Callable[[Launch], bool]] = {
    "rows_at_once": _is_of_short_rows,
    "heads_at_once": _is_of_many_heads,
    "narrower_tiles": _spills_in_tiles,
    "last_axis_first": _has_several_axes,
}
"""Which launches a rewrite changes, where it leaves most as they are and the model of time sees no difference."""


def is_about(name: str, kernels: Sequence[str], facts: Measurement) -> bool:
    """Whether a case launches one of the kernels in a way that a rewrite changes."""
    launches = [one for case in facts.cases for one in case.launches if one.kernel in kernels]
    return name not in ABOUT or any(map(ABOUT[name], launches))


def _fits(name: str, text: str, baseline: Measurement) -> bool:
    found = rewriting.of_file(name, text)
    return found is not None and is_about(name, found.kernels, baseline)


def fitting(files: Sequence[SourceFile], baseline: Measurement) -> frozenset[str]:
    """Nothing fits a source that cannot be read."""
    together = tuple(files)
    found = {name for name in TRANSFORMS if any(_fits(name, file.text, baseline) for file in files)}
    found |= {name for name in ACROSS_FILES if rewriting.of_files(name, together) is not None}
    return frozenset({*found, NUMBERS} if race_field.has_room(together, baseline) else found)
