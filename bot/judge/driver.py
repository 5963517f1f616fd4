"""The few calls of the CUDA driver that torch does not offer: memory that can be handed to another process, and
launching a cubin."""

from __future__ import annotations

import ctypes
from typing import Any

from bot.worker.contract.tape import ELEMENTS, Descriptor

INT, SIZE, U64 = ctypes.c_int, ctypes.c_size_t, ctypes.c_uint64
MAX_DYNAMIC_SHARED = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES."""
PLAIN_SHARED = 48 * 1024
L2_SIZE = 38
"""CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE."""
MAP_BYTES, MAP_ALIGNED = 128, 64
"""Of a CUtensorMap."""
FETCHED = 2
"""CU_TENSOR_MAP_L2_PROMOTION_L2_128B: as Triton has it."""


class _Properties(ctypes.Structure):
    """CUmemAllocationProp: pinned device memory that can leave as a file descriptor."""

    _fields_ = [
        ("type", INT),
        ("handle_types", INT),
        ("location_type", INT),
        ("location_id", INT),
        ("win32", ctypes.c_void_p),
        ("flags", ctypes.c_uint8 * 8),
    ]


class _Access(ctypes.Structure):
    _fields_ = [("location_type", INT), ("location_id", INT), ("flags", INT)]


class DriverError(RuntimeError):
    """A call failed; the text is the driver's own name for the error."""


class Driver:
    """The context is torch's own: the primary one of device 0."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self._call("cuInit", ctypes.c_uint(0))
        self._device, context = INT(), ctypes.c_void_p()
        self._call("cuDeviceGet", ctypes.byref(self._device), INT(0))
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._device)
        self._call("cuCtxSetCurrent", context)
        self._kept: list[Any] = []

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self._library.cuGetErrorName(INT(code), ctypes.byref(text))
            raise DriverError(f"{name}: {(text.value or b'?').decode()} ({code})")

    @property
    def l2_bytes(self) -> int:
        value = INT()
        self._call("cuDeviceGetAttribute", ctypes.byref(value), INT(L2_SIZE), self._device)
        return int(value.value)

    def share(self, wanted: int) -> tuple[int, int, int]:
        """(address, size, descriptor) of new memory that the receiver of the descriptor may map as well."""
        properties = _Properties(type=1, handle_types=1, location_type=1)
        unit, handle, descriptor = SIZE(), U64(), INT()
        self._call("cuMemGetAllocationGranularity", ctypes.byref(unit), ctypes.byref(properties), INT(0))
        size = -(-wanted // unit.value) * unit.value
        self._call("cuMemCreate", ctypes.byref(handle), SIZE(size), ctypes.byref(properties), U64(0))
        self._call("cuMemExportToShareableHandle", ctypes.byref(descriptor), handle, INT(1), U64(0))
        address = self._map(handle, size)
        self._call("cuMemRelease", handle)
        return address, size, int(descriptor.value)

    def receive(self, descriptor: int, size: int) -> int:
        handle = U64()
        self._call("cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(descriptor), INT(1))
        address = self._map(handle, size)
        self._call("cuMemRelease", handle)
        return address

    def _map(self, handle: Any, size: int) -> int:
        address, access = U64(), _Access(1, 0, 3)
        self._call("cuMemAddressReserve", ctypes.byref(address), SIZE(size), SIZE(0), U64(0), U64(0))
        self._call("cuMemMap", address, SIZE(size), SIZE(0), handle, U64(0))
        self._call("cuMemSetAccess", address, SIZE(size), ctypes.byref(access), SIZE(1))
        return int(address.value)

    def unmap(self, address: int, size: int) -> None:
        """The memory goes back when nobody has it mapped any more."""
        self._call("cuMemUnmap", U64(address), SIZE(size))
        self._call("cuMemAddressFree", U64(address), SIZE(size))

    def function(self, cubin: bytes, symbol: str, shared: int) -> Any:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(module), cubin)
        self._call("cuModuleGetFunction", ctypes.byref(function), module, symbol.encode())
        if shared > PLAIN_SHARED:
            self._call("cuFuncSetAttribute", function, INT(MAX_DYNAMIC_SHARED), INT(shared))
        return function

    def tensor_map(self, address: int, told: Descriptor) -> Any:
        """What a kernel is handed for a described tensor. The driver counts dimensions from the innermost on."""
        raw = (ctypes.c_uint8 * (MAP_BYTES + MAP_ALIGNED))()
        made = (ctypes.c_uint8 * MAP_BYTES).from_buffer(raw, -ctypes.addressof(raw) % MAP_ALIGNED)
        rank = len(told.shape)
        steps = [step * ELEMENTS[told.element] for step in told.stride[-2::-1]]
        self._call(
            "cuTensorMapEncodeTiled",
            made,
            INT(told.element),
            ctypes.c_uint32(rank),
            ctypes.c_void_p(address),
            (U64 * rank)(*told.shape[::-1]),
            (U64 * rank)(*steps),
            (ctypes.c_uint32 * rank)(*told.block[::-1]),
            (ctypes.c_uint32 * rank)(*[1] * rank),
            INT(0),
            INT(told.swizzle),
            INT(FETCHED),
            INT(told.nan),
        )
        return made

    def launch(
        self, function: Any, grid: tuple[int, int, int], threads: int, shared: int, stream: int, values: list[Any]
    ) -> None:
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.cast(ctypes.byref(v), ctypes.c_void_p) for v in values])
        sizes = [ctypes.c_uint(n) for n in (*grid, threads, 1, 1, shared)]
        self._call("cuLaunchKernel", function, *sizes, ctypes.c_void_p(stream), pointers, None)


class Foreign:
    """Memory at an address, offered to torch without a copy."""

    def __init__(self, address: int, nbytes: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 2,
        }
