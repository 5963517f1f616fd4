"""One recording: what it says, and whether it is believed."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from bot.model.measurement import Fault
from bot.worker.contract import ContractError, clip, parse, read_bytes, render
from bot.worker.contract.cubin import CONSTANTS, code_of
from bot.worker.contract.gpu import MAX_CHOICES, Choice, GpuAnswer, Recording, Traced, is_sound
from bot.worker.contract.tape import MAX_CUBIN, TAPE, Kernel, Operation, Tape, sound

MAX_TAPE = 8 * 2**20
MOST_BINARIES = 64
"""Of a pass whose recording is held against others; rms_norm's has three."""


@dataclass(frozen=True)
class Take:
    """One scored case of one variant."""

    case: str
    folder: Path | None
    """None where it cannot be replayed."""
    why_not: str
    peak_bytes: int
    waits: int = 0
    """How often the host waits for a value of the GPU."""
    kernels: int = 0
    """How many of its launches are Triton's; what torch launches is played as well."""
    choices: tuple[Choice, ...] = ()
    """Which configurations its autotuned kernels took."""
    local_bytes: tuple[tuple[str, int], ...] = ()
    """By kernel, what a thread keeps in memory at most."""


def differs(tape: Tape, traced: tuple[Traced, ...]) -> str:
    """What the profiler saw of an unrecorded run, against the recording. Empty when they agree."""
    steps = (*tape.before, *tape.steps)
    recorded = Counter((step.symbol, step.grid) for step in steps if isinstance(step, Kernel))
    symbols = {symbol for symbol, _ in recorded}
    seen = Counter((kernel.name, (*kernel.grid, 1, 1, 1)[:3]) for kernel in traced if kernel.name in symbols)
    if seen != recorded:
        return "an unrecorded run launches other kernels than the recording holds"
    others = [kernel.name for kernel in traced if kernel.name not in symbols]
    if others and not any(isinstance(step, Operation) for step in steps):
        return f"an unrecorded run launches {others[0][:60]}, which the recording does not hold"
    return ""


def take_of(recording: Recording, folder: Path, *, brief: bool = False) -> Take:
    why, waits, kernels = recording.why_not, 0, 0
    if len(recording.choices) > MAX_CHOICES or not all(map(is_sound, recording.choices)):
        raise ContractError(f"{recording.case}: no autotuned kernel chooses so much")
    if not why:
        if Path(recording.folder).name != recording.folder or not recording.folder:
            raise ContractError("the name of a folder leaves its place")
        tape = sound(parse(Tape, read_bytes(folder / recording.folder / TAPE, MAX_TAPE)))
        if tape.case != recording.case:
            raise ContractError("a recording is of another case than it says")
        why, waits = "" if brief else differs(tape, recording.traced), tape.waits
        kernels = sum(isinstance(step, Kernel) for step in tape.steps)
    place = folder / recording.folder if not why else None
    known = (recording.case, place, why, recording.peak_bytes, waits, kernels)
    return Take(*known, recording.choices, recording.local_bytes)


def refused(answer: GpuAnswer) -> Fault | None:
    """What went wrong while a pass was recorded: such a recording lies nowhere."""
    why = next(((r.case, r.refusal) for r in answer.recordings if r.refusal is not None), None)
    if why is None:
        return None
    case, refusal = why
    return Fault(kind="memory" if refusal.kind == "memory" else "crashed", detail=clip(f"{case}: {refusal.detail}"))


def short_of_memory(answer: GpuAnswer) -> tuple[str, ...]:
    """Cases whose pass found no room, where nothing else went wrong."""
    refusals = {r.case: r.refusal.kind for r in answer.recordings if r.refusal is not None}
    return tuple(refusals) if set(refusals.values()) == {"memory"} else ()


def plays(take: Take) -> str:
    """Stands for the programs that a recording plays, with all that they are given, and for the memory that the pass
    took; empty where that cannot be read, or not in a moment. A cubin has the lines and the path of its source in it,
    which say nothing of its time."""
    if take.folder is None:
        return ""
    try:
        told = sound(parse(Tape, read_bytes(take.folder / TAPE, MAX_TAPE)))
        binaries = {step.binary for step in (*told.before, *told.steps) if isinstance(step, Kernel)}
        text, left = render(told), MAX_CUBIN if len(binaries) <= MOST_BINARIES else 0
        for binary in sorted(binaries):
            cubin = read_bytes(take.folder / f"{binary}.cubin", left)
            left -= len(cubin)
            text = text.replace(binary, hashlib.sha256(code_of(cubin, CONSTANTS)).hexdigest())
    except (ContractError, OSError):
        return ""
    return hashlib.sha256(f"{text} {take.peak_bytes}".encode()).hexdigest()
