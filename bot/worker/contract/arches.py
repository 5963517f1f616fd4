"""What the stub driver and the stub torch.cuda say about each chip that code is compiled for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Arch:
    name: str
    chip: str
    """The device name host code reads."""
    backend: str
    """Triton's name of the compiler: cuda or hip."""
    number: int | str
    """What GPUTarget wants: 90, or "gfx942"."""
    processors: int
    """Streaming multiprocessors or compute units: kernels size their grids by it."""
    warp: int
    shared_bytes: int
    """Shared memory a program may ask for."""
    memory_bytes: int

    @property
    def capability(self) -> tuple[int, int]:
        if isinstance(self.number, int):
            return divmod(self.number, 10)
        return int(self.number[3]), int(self.number[4])


def _nvidia(number: int, chip: str, processors: int, shared: int, gigabytes: int) -> Arch:
    return Arch(f"sm_{number}", chip, "cuda", number, processors, 32, shared, gigabytes * 2**30)


def _amd(name: str, chip: str, processors: int, shared: int, gigabytes: int) -> Arch:
    return Arch(name, chip, "hip", name, processors, 64, shared, gigabytes * 2**30)


ARCHES = {
    arch.name: arch
    for arch in (
        _nvidia(80, "NVIDIA A100-SXM4-80GB", 108, 166912, 80),
        _nvidia(86, "NVIDIA A10", 72, 101376, 24),
        _nvidia(89, "NVIDIA L40S", 142, 101376, 48),
        _nvidia(90, "NVIDIA H100 80GB HBM3", 132, 232448, 80),
        _nvidia(100, "NVIDIA B200", 148, 232448, 180),
        _nvidia(120, "NVIDIA RTX PRO 6000", 188, 101376, 96),
        _amd("gfx942", "AMD Instinct MI300X", 304, 65536, 192),
        _amd("gfx950", "AMD Instinct MI355X", 256, 163840, 288),
    )
}
