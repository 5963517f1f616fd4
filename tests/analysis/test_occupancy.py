"""How many programs fit beside each other, and what keeps out the next one."""

from __future__ import annotations

import pytest

from bot.analysis.occupancy import occupancy
from bot.hardware.catalog import for_arch
from tests.analysis import made

H200 = for_arch("sm_90")


@pytest.mark.parametrize(
    ("warps", "registers", "shared", "programs", "limit"),
    [
        (32, 17, 128, 2, "warps"),
        (1, 16, 0, 32, "programs"),
        # 126 registers are handed out as 128: 128 x 256 threads is half of the file.
        (8, 126, 8192, 2, "registers"),
        (8, 128, 0, 2, "registers"),
        (8, 129, 0, 1, "registers"),
        (2, 255, 2048, 4, "registers"),
        (4, 32, 64 * 1024, 3, "shared memory"),
    ],
)
def test_the_scarcest_thing_decides(warps: int, registers: int, shared: int, programs: int, limit: str) -> None:
    needs = made.resources(registers=registers, shared_bytes=shared)
    found = occupancy(made.launch(warps=warps, resources=needs), H200)
    assert (found.programs, found.limit, found.warps) == (programs, limit, programs * warps)


def test_a_program_that_fits_nowhere_still_runs_alone() -> None:
    needs = made.resources(registers=255)
    assert occupancy(made.launch(warps=32, resources=needs), H200).programs == 1


def test_a_wavefront_of_cdna3_has_64_threads() -> None:
    needs = made.resources(arch="gfx942", registers=128)
    found = occupancy(made.launch(warps=4, resources=needs), for_arch("gfx942"))
    assert (found.programs, found.limit) == (4, "registers")


@pytest.mark.parametrize("warps", [0, -3])
def test_nonsense_from_a_hostile_job_is_survived(warps: int) -> None:
    needs = made.resources(registers=-1, shared_bytes=-(10**9))
    assert occupancy(made.launch(warps=warps, resources=needs), H200).programs >= 1


def test_without_a_binary_warps_alone_are_counted() -> None:
    assert occupancy(made.launch(warps=8, resources=None), H200).programs == 8
