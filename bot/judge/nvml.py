"""What NVML says of the GPU between two blocks: clocks held back, other processes. Read only; nothing is ever set."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

HELD_BACK = 0x8 | 0x20 | 0x40 | 0x80
"""HW slowdown, SW and HW thermal slowdown, HW power brake. The software power cap (0x4) is not among them: under it
both arms run as they do in production, and the interleaving cancels it."""
POWER_CAP = 0x4
SM_CLOCK = 1
PROCESSES = 256


@dataclass(frozen=True)
class Reading:
    reasons: int
    sm_mhz: int
    processes: int

    @property
    def is_disturbed(self) -> bool:
        return bool(self.reasons & HELD_BACK)


class _Process(ctypes.Structure):
    _fields_ = [
        ("pid", ctypes.c_uint),
        ("memory", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


class Nvml:
    """Of the device with this PCI address or UUID; where NVML is missing it says so once and reads nothing."""

    def __init__(self, uuid: str) -> None:
        self._handle = ctypes.c_void_p()
        self.is_there = False
        try:
            self._library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return
        find = self._library.nvmlDeviceGetHandleByUUID
        if self._library.nvmlInit_v2() == 0 and find(uuid.encode(), ctypes.byref(self._handle)) == 0:
            self.is_there = True

    def _reasons(self) -> int:
        found = ctypes.c_ulonglong()
        self._library.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle, ctypes.byref(found))
        return int(found.value)

    def _clock(self) -> int:
        found = ctypes.c_uint()
        self._library.nvmlDeviceGetClockInfo(self._handle, SM_CLOCK, ctypes.byref(found))
        return int(found.value)

    def _processes(self) -> int:
        count = ctypes.c_uint(PROCESSES)
        room = (_Process * PROCESSES)()
        code = self._library.nvmlDeviceGetComputeRunningProcesses_v3(self._handle, ctypes.byref(count), room)
        return int(count.value) if code == 0 else 0

    def read(self) -> Reading:
        if not self.is_there:
            return Reading(0, 0, 0)
        return Reading(self._reasons(), self._clock(), self._processes())
