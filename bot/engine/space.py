"""The launch numbers worth compiling, found in what was recorded and not declared by anybody."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from bot.analysis.estimate import block_of
from bot.engine import kernels, tiles
from bot.model.measurement import Launch, Setting

WARPS = (1, 2, 4, 8, 16, 32)
PER_THREAD = (8, 16, 32)
"""Elements a thread. Eight are one 16-byte access of a 16-bit row; an H200 liked 8 to 32 in 57 shapes."""
LIKELY_PER_THREAD = (8, 16)
MOST_PER_THREAD = 64
"""Beyond it a kernel spills, and its compilation takes from seconds to minutes."""
SCALED = (2, 4, 8, 16)
SMALLEST_BLOCK = 128
STAGES = (1, 2, 4)
MOST_SETTINGS = 24
"""For one kernel. A candidate costs about 0.3 s of compilation for each shape."""
THREADS_PER_WARP = 32


def next_power(size: int) -> int:
    """What `triton.next_power_of_2` makes of a size."""
    return 1 << max(0, size - 1).bit_length()


def block_constant(launch: Launch) -> tuple[str, int] | None:
    """The constant a launch calls a block: the largest where there are several."""
    blocks = [(name, int(v)) for name, v in launch.constants if "BLOCK" in name.upper() and v.isdecimal()]
    powers = [(name, value) for name, value in blocks if value > 0 and value & (value - 1) == 0]
    return max(powers, key=lambda pair: pair[1], default=None)


def elements(launch: Launch, text: str = "") -> int | None:
    """How many a program holds at a time: as its kernel says, else the product of its blocks."""
    return tiles.elements(text, launch.kernel, launch.constants) or block_of(launch)


@dataclass(frozen=True, slots=True)
class Followed:
    """A block that the elements of a program follow."""

    name: str
    held: int = 1
    """So many blocks a program holds at a time: rows of it beside each other, or heads."""


def followed(launches: Sequence[Launch], text: str = "") -> Followed | None:
    """The block whose size says what a program of a kernel holds, in all its launches.

    None where there is none: where a constant is only called a block, or a program holds a square of it. Nor is one
    followed that is the same everywhere and only a part of what a program holds: a count of warps says it better.
    """
    blocks = [block_constant(launch) for launch in launches]
    known = [block for block in blocks if block is not None]
    names, sizes = {name for name, _ in known}, {size for _, size in known}
    if len(names) != 1 or len(known) != len(blocks):
        return None
    held = {(elements(launch, text) or 0) / size for launch, (_, size) in zip(launches, known, strict=True)}
    name, times = names.pop(), held.pop()
    if held or times < 1 or not times.is_integer() or (times > 1 and len(sizes) == 1):
        return None
    return Followed(name, int(times)) if tiles.reads(text, launches[0].kernel, name) else None


def suits(launch: Launch, warps: int, text: str = "") -> bool:
    """Whether a program has work for so many warps, and none of its threads gets more than is good for it, or than it
    has today."""
    held = elements(launch, text)
    threads = warps * THREADS_PER_WARP
    return held is None or (threads <= held and (held <= MOST_PER_THREAD * threads or warps > launch.num_warps))


def _warps_for(block: int, per_thread: tuple[int, ...]) -> tuple[int, ...]:
    fits = {min(32, max(1, block // (THREADS_PER_WARP * each))) for each in per_thread}
    return tuple(w for w in WARPS if w in fits and block // (THREADS_PER_WARP * w) <= MOST_PER_THREAD)


def _block_settings(kernel: str, launches: list[Launch], text: str) -> Iterable[Setting]:
    """Each recorded block with other warps first, then smaller blocks in place of the largest."""
    block = followed(launches, text)
    if block is None:
        return
    recorded = sorted(
        {found for launch in launches if (found := block_constant(launch)) is not None}, key=_widest_first
    )
    for name, size in recorded:
        yield from _pairs(kernel, name, size, PER_THREAD, block.held)
    for name, size in recorded[:1]:
        for scale in SCALED:
            if (name, size // scale) not in recorded and size // scale >= SMALLEST_BLOCK:
                yield from _pairs(kernel, name, size // scale, LIKELY_PER_THREAD, block.held)


def _widest_first(found: tuple[str, int]) -> int:
    return -found[1]


def _pairs(kernel: str, name: str, block: int, per_thread: tuple[int, ...], held: int) -> Iterable[Setting]:
    for warps in _warps_for(block * held, per_thread):
        yield Setting(kernel=kernel, num_warps=warps, constants=((name, block),))


def _stage_settings(kernel: str, launches: list[Launch], text: str) -> Iterable[Setting]:
    """Only where the kernel itself speaks of stages: loads outside of a pipelined loop gain nothing from them."""
    if any("STAGE" in name.upper() for launch in launches for name, _ in launch.constants):
        for stages in STAGES:
            if any(launch.num_stages != stages for launch in launches):
                yield Setting(kernel=kernel, num_stages=stages)


def _plain_settings(kernel: str, launches: list[Launch], text: str) -> Iterable[Setting]:
    """A kernel without a block to follow: other warps."""
    if followed(launches, text) is None:
        for warps in plain_counts(launches, text):
            yield Setting(kernel=kernel, num_warps=warps)


def plain_counts(launches: Sequence[Launch], text: str = "") -> tuple[int, ...]:
    """Warps that suit all launches of a kernel, and are not what all of them have."""
    fit = [warps for warps in WARPS if all(suits(launch, warps, text) for launch in launches)]
    return tuple(warps for warps in fit if any(launch.num_warps != warps for launch in launches))


def _is_recorded(setting: Setting, launches: list[Launch]) -> bool:
    """Whether it changes nothing anywhere."""
    if setting.num_stages is not None:
        return False
    wanted = {(name, str(value)) for name, value in setting.constants}
    return all(launch.num_warps == setting.num_warps and wanted <= set(launch.constants) for launch in launches)


def _of_kernel(kernel: str, recorded: list[Launch], text: str) -> list[Setting]:
    sources = (_block_settings, _stage_settings, _plain_settings)
    found = [one for source in sources for one in source(kernel, recorded, text) if not _is_recorded(one, recorded)]
    return list(dict.fromkeys(found))[:MOST_SETTINGS]


def settings(launches: Iterable[Launch], text: str = "") -> tuple[Setting, ...]:
    """What a survey should compile, the likeliest of each kernel first, then the second of each: it may end before
    it comes to the last. `text` is the sources of the kernels: one that tunes itself takes no other numbers."""
    by_kernel: dict[str, list[Launch]] = {}
    for launch in launches:
        by_kernel.setdefault(launch.kernel, []).append(launch)
    for kernel in kernels.tuned(text):
        by_kernel.pop(kernel, None)
    columns = [_of_kernel(kernel, recorded, text) for kernel, recorded in by_kernel.items()]
    return tuple(one for row in zip_longest(*columns) for one in row if one is not None)
