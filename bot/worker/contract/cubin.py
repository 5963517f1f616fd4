"""What of a compiled kernel is its program. The rest of the file changes when a kernel moves by two lines."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from bot.worker.contract.limits import ContractError

CODE, CONSTANTS = b".text.", b".nv.constant"
MOST_SECTIONS = 1024
"""A kernel of Triton's has some twenty."""


def _sections(elf: bytes) -> Iterator[tuple[int, int, int]]:
    """(where its name stands, where it begins, how long it is) of each section of a 64-bit ELF file."""
    table = struct.unpack_from("<Q", elf, 0x28)[0]
    size, count, names_index = struct.unpack_from("<HHH", elf, 0x3A)
    if count > MOST_SECTIONS or table + count * size > len(elf):
        raise ValueError("more sections than there are")
    headers = [struct.unpack_from("<IIQQQQ", elf, table + i * size) for i in range(count)]
    names = headers[names_index][4]
    for name, _, _, _, start, length in headers:
        yield names + name, start, length


def code_of(cubin: bytes, *beside: bytes) -> bytes:
    """The machine code, and what else has such names: no more of it than the file is long. Whoever made the file may
    have meant to keep somebody busy."""
    found, left = [], len(cubin)
    try:
        for name, start, length in _sections(cubin):
            if name < len(cubin) and cubin.startswith((CODE, *beside), name):
                found.append(cubin[start : start + min(length, left)])
                left -= len(found[-1])
    except (struct.error, ValueError, IndexError, OverflowError) as error:
        raise ContractError("the cubin is no ELF file") from error
    if not any(found):
        raise ContractError("the cubin holds no code")
    return b"".join(found)
