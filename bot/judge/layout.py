"""Where everything lies in the memory that judge and replayer share: banks of inputs, then slots for results."""

from __future__ import annotations

from dataclasses import dataclass

from bot.judge.frames import MOST_SLOTS
from bot.worker.contract import Call
from bot.worker.contract.tape import Left, Region, Tape

ALIGN = 512
BLOCK = 4
"""Slots of a block: v0, v0, variant, variant, in an order drawn at random."""
MOST_RESULTS = 4 * 2**30
"""Bytes that the results of one batch of blocks may take; larger cases are played a block at a time."""
FLOAT64_OVER_HALF = 4
MOST_RIGHT = 3
"""v0 rounds in one way and a variant in another; one whose bits change from run to run is compared each time."""
BANKS = 3
"""Different contents of the inputs; a slot never finds those of the slot before it."""


def padded(nbytes: int) -> int:
    return -(-nbytes // ALIGN) * ALIGN


@dataclass(frozen=True)
class Layout:
    inputs: tuple[tuple[str, int, int], ...]
    """(name, offset in a bank, bytes)"""
    bank_bytes: int
    outputs: tuple[tuple[str, int, int], ...]
    """(role:name, offset in a slot's lane, bytes)"""
    lane_bytes: int
    """Of the results of one lane."""
    lanes: int

    @property
    def shared_bytes(self) -> int:
        return BANKS * self.bank_bytes + self.slots * self.lanes * self.lane_bytes

    @property
    def slots(self) -> int:
        return MOST_SLOTS if MOST_SLOTS * self.lanes * self.lane_bytes <= MOST_RESULTS else BLOCK

    @property
    def kept_bytes(self) -> int:
        """What the judge keeps of a case between its turns at most, the truth in float64 and right results included."""
        return self.shared_bytes + BANKS * (FLOAT64_OVER_HALF + MOST_RIGHT * self.lanes) * self.lane_bytes

    def bank(self, number: int) -> int:
        return number * self.bank_bytes

    def result(self, slot: int, lane: int) -> int:
        return BANKS * self.bank_bytes + (slot * self.lanes + lane) * self.lane_bytes

    def contents(self, slot_bank: int, lane: int) -> int:
        """Which bank a lane is filled from."""
        return (slot_bank + lane) % BANKS


def _stacked(sizes: list[tuple[str, int]]) -> tuple[tuple[tuple[str, int, int], ...], int]:
    found, end = [], 0
    for name, nbytes in sizes:
        found.append((name, end, nbytes))
        end += padded(nbytes)
    return tuple(found), end


def key_of(left: Left) -> str:
    return f"{left.role}:{left.name}"


def layout_of(call: Call, baseline: Tape, lanes: int) -> Layout:
    inputs, bank = _stacked([(spec.name, spec.nbytes) for spec in call.tensors])
    outputs, lane = _stacked([(key_of(left), left.view.nbytes) for left in baseline.left])
    return Layout(inputs, bank, outputs, lane, lanes)


def scratch_of(regions: tuple[Region, ...]) -> tuple[dict[int, int], int]:
    """(offset by region, bytes) of what a tape allocates for itself."""
    placed, end = _stacked([(str(i), region.nbytes) for i, region in enumerate(regions) if not region.name])
    return {int(name): offset for name, offset, _ in placed}, end
