"""How many programs of a launch fit on one multiprocessor at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bot.hardware.catalog import Datasheet
from bot.model.measurement import Launch

Limit = Literal["warps", "registers", "shared memory", "programs"]

REGISTER_UNIT = 8
"""Registers of a thread are handed out in eights: the resident programs of 457 runs on an H200 agree with it."""
RESERVED_SHARED = 1024
"""Bytes of shared memory the system keeps for itself in each program (CUDA Programming Guide, shared memory)."""


@dataclass(frozen=True, slots=True)
class Occupancy:
    programs: int
    """Programs resident on one multiprocessor."""
    limit: Limit
    """What keeps another one out."""
    warps: int
    most_warps: int | None


def _limits(launch: Launch, sheet: Datasheet) -> dict[Limit, int]:
    resources = launch.resources
    threads = max(1, launch.num_warps) * int(sheet.number("threads_per_warp") or 32)
    limits: dict[Limit, int] = {}
    if sheet.warps:
        limits["warps"] = int(sheet.warps.value) // max(1, launch.num_warps)
    if sheet.registers and resources:
        rounded = -(-max(1, resources.registers) // REGISTER_UNIT) * REGISTER_UNIT
        limits["registers"] = int(sheet.registers.value) // (rounded * threads)
    if sheet.shared and resources:
        limits["shared memory"] = int(sheet.shared.value * 1024) // (max(0, resources.shared_bytes) + RESERVED_SHARED)
    if sheet.blocks:
        limits["programs"] = int(sheet.blocks.value)
    return limits


def occupancy(launch: Launch, sheet: Datasheet) -> Occupancy:
    """A limit nobody published does not limit; a program that fits nowhere still runs alone."""
    limits = _limits(launch, sheet) or {"programs": 1}
    limit = min(limits, key=lambda name: limits[name])
    programs = max(1, limits[limit])
    most = int(sheet.warps.value) if sheet.warps else None
    return Occupancy(programs, limit, programs * max(1, launch.num_warps), most)
