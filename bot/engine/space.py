"""The launch numbers worth compiling, found in what was recorded and not declared by anybody."""

from __future__ import annotations

from collections.abc import Iterable

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


def _warps_for(block: int, per_thread: tuple[int, ...]) -> tuple[int, ...]:
    fits = {min(32, max(1, block // (THREADS_PER_WARP * each))) for each in per_thread}
    return tuple(w for w in WARPS if w in fits and block // (THREADS_PER_WARP * w) <= MOST_PER_THREAD)


def _block_settings(kernel: str, launches: list[Launch]) -> Iterable[Setting]:
    """Each recorded block with other warps first, then smaller blocks in place of the largest."""
    recorded = sorted(
        {found for launch in launches if (found := block_constant(launch)) is not None}, key=_widest_first
    )
    for name, block in recorded:
        yield from _pairs(kernel, name, block, PER_THREAD)
    for name, block in recorded[:1]:
        for scale in SCALED:
            if (name, block // scale) not in recorded and block // scale >= SMALLEST_BLOCK:
                yield from _pairs(kernel, name, block // scale, LIKELY_PER_THREAD)


def _widest_first(found: tuple[str, int]) -> int:
    return -found[1]


def _pairs(kernel: str, name: str, block: int, per_thread: tuple[int, ...]) -> Iterable[Setting]:
    for warps in _warps_for(block, per_thread):
        yield Setting(kernel=kernel, num_warps=warps, constants=((name, block),))


def _stage_settings(kernel: str, launches: list[Launch]) -> Iterable[Setting]:
    """Only where the kernel itself speaks of stages: loads outside of a pipelined loop gain nothing from them."""
    if any("STAGE" in name.upper() for launch in launches for name, _ in launch.constants):
        for stages in STAGES:
            if any(launch.num_stages != stages for launch in launches):
                yield Setting(kernel=kernel, num_stages=stages)


def _plain_settings(kernel: str, launches: list[Launch]) -> Iterable[Setting]:
    """A kernel without a block: other warps, and nothing is known about its elements."""
    if all(block_constant(launch) is None for launch in launches):
        for warps in WARPS:
            if any(launch.num_warps != warps for launch in launches):
                yield Setting(kernel=kernel, num_warps=warps)


def _is_recorded(setting: Setting, launches: list[Launch]) -> bool:
    """Whether it changes nothing anywhere."""
    if setting.num_stages is not None:
        return False
    wanted = {(name, str(value)) for name, value in setting.constants}
    return all(launch.num_warps == setting.num_warps and wanted <= set(launch.constants) for launch in launches)


def settings(launches: Iterable[Launch]) -> tuple[Setting, ...]:
    """What a survey should compile, kernel by kernel, the likeliest first."""
    by_kernel: dict[str, list[Launch]] = {}
    for launch in launches:
        by_kernel.setdefault(launch.kernel, []).append(launch)
    found: list[Setting] = []
    for kernel, recorded in by_kernel.items():
        sources = (_block_settings, _stage_settings, _plain_settings)
        mine = [s for source in sources for s in source(kernel, recorded) if not _is_recorded(s, recorded)]
        found += list(dict.fromkeys(mine))[:MOST_SETTINGS]
    return tuple(found)
