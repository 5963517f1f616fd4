"""The replayer: our code, hostile GPU code. Plays two tapes on the same memory and reads a clock; it knows no oracle.

Started by the judge with one end of a socket. It says that it is up, is told what to play, and answers frames until it
is ended.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import os
import secrets
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from bot.judge.arms import Arm, Lane
from bot.judge.driver import Driver, Foreign
from bot.judge.frames import BLOCK, BURST, END, FAILED, FINE, Ask, BrokenFrame, Tell, read_ask, read_message
from bot.judge.layout import ALIGN, BANKS, layout_of
from bot.judge.rivals import RivalArm
from bot.worker.contract import Call, ContractError, parse, read_bytes
from bot.worker.contract.tape import TAPE, Tape, sound

POISON = (-1, 0x2D2D2D2D2D2D2D2D)
"""Eight bytes of it: NaNs in every type, or numbers."""
WORD = torch.int64
FLUSH = 3
"""A slot finds nothing of the slot before it in the cache after this many times its size of other traffic."""
MAX_TAPE = 8 * 2**20
TURNS_OF_A_QUESTION = 16
"""How often a pass that leaves everything as it was stands in a graph. The gradient of a loss whose own gradient is 1
took 3 us for it, before its answer was copied too, and holds too much memory to stand in many lanes: two of them came
out up to 1.5 % apart."""


@dataclasses.dataclass(frozen=True)
class Setup:
    call: Call
    folders: tuple[str, ...]
    """One tape an arm; the first is v0's."""
    lanes: int
    shared_bytes: int
    kernel: str = ""
    rivals: tuple[str, ...] = ()
    """Arms behind the tapes, and then no tape is a variant's: see `bot/judge/rivals.py`."""


def _tape(folder: str) -> Tape:
    return sound(parse(Tape, read_bytes(Path(folder) / TAPE, MAX_TAPE)))


@contextlib.contextmanager
def _recording(pool: Any) -> Iterator[Any]:
    """Without torch.cuda.graph's own collection of garbage, which takes longer than all the rest."""
    graph = torch.cuda.CUDAGraph()
    graph.capture_begin(pool=pool, capture_error_mode="global")
    try:
        yield graph
    finally:
        graph.capture_end()


def drawn_order(count: int) -> list[int]:
    """Anew each time. Whose graph is built first makes it faster or slower by tenths of a percent. Where its code lies
    matters too, most likely: v0 of mhc_coeffs beside itself, always loaded later, was 1.8 % slower in most."""
    numbers = list(range(count))
    secrets.SystemRandom().shuffle(numbers)
    return numbers


class Stage:
    """Everything that is needed to play a slot, made before the first clock runs."""

    def __init__(self, setup: Setup, shared: torch.Tensor, driver: Driver) -> None:
        self._shared = shared
        self._stream = torch.cuda.Stream()
        tapes = [_tape(folder) for folder in setup.folders]
        self._layout = layout_of(setup.call, tapes[0], setup.lanes)
        if self._layout.shared_bytes > shared.numel():
            raise ContractError("the shared memory is too small for this case")
        self._arms: list[Arm | RivalArm] = [
            Arm(tape, Path(folder), self._layout, driver) for tape, folder in zip(tapes, setup.folders, strict=True)
        ]
        self._arms += [RivalArm(name, setup.kernel, setup.call, self._layout, tapes[0].left) for name in setup.rivals]
        self._turns = TURNS_OF_A_QUESTION if all(arm.only_asks for arm in self._arms) else 1
        self._lanes = self._make_lanes(setup.lanes)
        self._flush = torch.empty(FLUSH * driver.l2_bytes, dtype=torch.uint8, device="cuda")
        numbers = drawn_order(len(self._arms))
        with torch.cuda.stream(self._stream):
            self._fill(0, 0)
            self._load(numbers)
        torch.cuda.synchronize()
        self._before: dict[int, Any] = {}
        self._body: dict[int, Any] = {}
        self._leave: dict[tuple[int, int], Any] = {}
        self._pool = torch.cuda.graph_pool_handle()
        with torch.cuda.stream(self._stream):
            for number in numbers:
                self._capture(number)
        torch.cuda.synchronize()
        self._events = [
            (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
            for _ in range(self._layout.slots)
        ]

    def _load(self, numbers: list[int]) -> None:
        """Modules, and torch's own kernels, before anything is captured."""
        for number in numbers:
            for lane in self._lanes:
                self._arms[number].prepare(lane, self._stream.cuda_stream)
                self._arms[number].body(lane, self._stream.cuda_stream)

    def _make_lanes(self, count: int) -> list[Lane]:
        size = self._layout.bank_bytes + max(arm.scratch_bytes for arm in self._arms) + ALIGN
        # Where memory happens to lie moves a time by as much as a percent: each process draws it anew.
        shift = secrets.randbelow(4096) * ALIGN
        self._memory = torch.empty(shift + count * size, dtype=torch.uint8, device=self._shared.device)
        self._memory.view(WORD).fill_(POISON[0])
        self._words = self._memory[shift:].view(WORD).view(count, -1)
        return [Lane(self._memory, shift + number * size) for number in range(count)]

    def _fill(self, bank: int, poison: int) -> None:
        """Rubbish wherever no input is copied to. Few launches for however many lanes: every slot waits for them."""
        layout, inputs = self._layout, self._layout.bank_bytes // WORD.itemsize
        self._words[:, inputs:].fill_(POISON[poison % 2])
        for number in range(min(BANKS, len(self._words))):
            start = layout.bank(layout.contents(bank, number))
            source = self._shared[start : start + layout.bank_bytes].view(WORD)
            self._words[number::BANKS, :inputs].copy_(source)

    def _targets(self, slot: int, lane: int) -> list[torch.Tensor]:
        found = []
        start = self._layout.result(slot, lane)
        for (_, offset, nbytes), left in zip(self._layout.outputs, self._arms[0].left, strict=True):
            raw = self._shared[start + offset : start + offset + nbytes]
            found.append(raw.view(Arm.dtype_of(left)).view(left.view.shape))
        return found

    def _capture(self, number: int) -> None:
        arm, stream = self._arms[number], self._stream
        if arm.has_before:
            with _recording(self._pool) as self._before[number]:
                for lane in self._lanes:
                    arm.prepare(lane, stream.cuda_stream)
        with _recording(self._pool) as self._body[number]:
            for lane in self._lanes * self._turns:
                arm.body(lane, stream.cuda_stream)
        for slot in range(self._layout.slots):
            with _recording(self._pool) as self._leave[number, slot]:
                for place, lane in enumerate(self._lanes):
                    arm.hand_over(lane, self._targets(slot, place))

    def _slot(self, slot: int, arm: int, bank: int, poison: int) -> None:
        begin, end = self._events[slot]
        self._fill(bank, poison)
        if arm in self._before:
            self._before[arm].replay()
        self._flush.fill_(poison & 0x7F)
        begin.record()
        self._body[arm].replay()
        end.record()
        self._leave[arm, slot].replay()

    def blocks(self, ask: Ask) -> tuple[float, ...]:
        if len(ask.arms) > len(self._events):
            raise ContractError("more slots than there is room for")
        with torch.cuda.stream(self._stream):
            for slot, (arm, bank) in enumerate(zip(ask.arms, ask.banks, strict=True)):
                self._slot(slot, arm % len(self._arms), bank % BANKS, ask.poison + slot)
        self._stream.synchronize()
        played, many = self._events[: len(ask.arms)], len(self._lanes) * self._turns
        return tuple(begin.elapsed_time(end) * 1e3 / many for begin, end in played)

    def burst(self, ask: Ask) -> tuple[float, ...]:
        """One arm many times over, for the judge's own clock."""
        arm = ask.arms[0] % len(self._arms)
        begin, end = self._events[0]
        with torch.cuda.stream(self._stream):
            self._fill(ask.banks[0] % BANKS, ask.poison)
            if arm in self._before:
                self._before[arm].replay()
            begin.record()
            for _ in range(ask.count):
                self._body[arm].replay()
            end.record()
        self._stream.synchronize()
        return (begin.elapsed_time(end) * 1e3,)


def _serve(stage: Stage, channel: socket.socket) -> None:
    while True:
        ask = read_ask(channel)
        if ask.kind == END:
            return
        times = stage.blocks(ask) if ask.kind == BLOCK else stage.burst(ask) if ask.kind == BURST else ()
        channel.sendall(Tell(FINE, ask.nonce, times).pack())


def _play(channel: socket.socket, driver: Driver) -> None:
    """One case, from its set-up to its end."""
    text, descriptors = read_message(channel)
    setup = parse(Setup, text)
    address = driver.receive(descriptors[0], setup.shared_bytes)
    os.close(descriptors[0])
    shared = torch.as_tensor(Foreign(address, setup.shared_bytes), device="cuda")
    stage = Stage(setup, shared, driver)
    channel.sendall(Tell(FINE, 0).pack())
    _serve(stage, channel)
    del stage, shared
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    driver.unmap(address, setup.shared_bytes)
    channel.sendall(Tell(FINE, 0).pack())


def first_line(error: Exception) -> str:
    """What happened; of CUDA's errors the last line is how to compile torch to hear more."""
    return next((line for line in str(error).splitlines() if line.strip()), "")


def main(arguments: list[str]) -> int:
    channel = socket.socket(fileno=int(arguments[0]))
    torch.cuda.init()
    driver = Driver()
    torch.zeros(1, device="cuda").add_(1)
    torch.cuda.synchronize()
    gc.freeze()  # what is here by now stays: 168,000 objects, through which each case's end would look again
    channel.sendall(Tell(FINE, 0).pack())
    try:
        while True:
            _play(channel, driver)
    except BrokenFrame:
        return 0
    except Exception as error:
        print(f"{type(error).__name__}: {first_line(error)}", file=sys.stderr, flush=True)
        channel.sendall(Tell(FAILED, 0).pack())
        return 1


if __name__ == "__main__":
    code = main(sys.argv[1:])
    os._exit(code)  # the judge waits for its end, and an interpreter that has torch takes a second over it
