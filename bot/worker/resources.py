"""Reads what a compiled kernel needs out of its binary and its assembly."""

from __future__ import annotations

import hashlib
import os
import re
import struct
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import triton

from bot.worker.contract import Binary, ContractError
from bot.worker.contract import cubin as contract_cubin

TOOL_SECONDS = 60
_TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
_REGISTERS = re.compile(r"Used (\d+) registers")
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_PTX_TARGET = re.compile(r"^\.target\s+(\w+)", re.MULTILINE)
_GCN_FIELD = r"^\s*\.{}:\s*(\d+)"
_GCN_LINE = re.compile(r"^\s+([a-z][a-z0-9_]+)(?:\s|$)", re.MULTILINE)
_GCN_WIDTH = re.compile(r"^(?:global|buffer|flat)_(load|store)_(\w+)")
_GCN_BITS = {"ubyte": 8, "sbyte": 8, "byte": 8, "ushort": 16, "sshort": 16, "short": 16}
_CP_ASYNC = re.compile(r"\bcp\.async\.c[ag]\.shared\.global[\w.:]*\s+\[[^]]*\],\s*\[[^]]*\],\s*(0x[0-9a-f]+|\d+)")

# Opcodes of sm_80 to sm_120, as nvdisasm shows them beside its text; a test holds this table against nvdisasm, which at
# 0.4 to 1 s a kernel is too slow to ask each time.
_NOP, _BAR = 0x918, 0xB1D
_LDG, _STG = {0x381, 0x981}, {0x385, 0x386, 0x985, 0x986}
_FP64 = {0x028, 0x029, 0x02A, 0x02B}
"""DMUL, DADD, DSETP and DFMA without the bits that say where their operands lie."""
_WIDTHS = (8, 8, 16, 16, 32, 64, 128, 256)


class Unreadable(Exception):
    """A tool could not read what the compiler made."""


def _run(tool: str, *arguments: str) -> str:
    done = subprocess.run(
        [str(_TOOLS / tool), *arguments], capture_output=True, text=True, timeout=TOOL_SECONDS, check=False
    )
    if done.returncode != 0:
        raise Unreadable(f"{tool}: {done.stderr[-400:]}")
    return done.stdout + done.stderr


def _ptxas_log(ptx: str) -> str:
    """Which ptxas speaks this PTX is found by asking: 3.9's plain one rejects the PTX 9.4 it gets for sm_90a."""
    target = _PTX_TARGET.search(ptx)
    if target is None:
        raise Unreadable("the PTX names no target")
    complaint = ""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.ptx"
        path.write_text(ptx, encoding="utf-8")
        for tool in ("ptxas", "ptxas-blackwell"):
            try:
                return _run(tool, "-v", "--gpu-name", target[1], str(path), "-o", os.devnull)
            except (Unreadable, FileNotFoundError) as error:
                complaint = str(error)
    raise Unreadable(complaint)


def _registers_and_spills(log: str) -> tuple[int, int]:
    """Only ptxas -v counts spills; the cubin's own resource table does not have them."""
    used, spilled = _REGISTERS.search(log), _SPILLS.search(log)
    if used is None or spilled is None:
        raise Unreadable("ptxas -v printed no register count")
    return int(used[1]), int(spilled[1]) + int(spilled[2])


def code_of(cubin: bytes) -> bytes:
    """The machine code alone: the rest of the file changes when a kernel moves by two lines."""
    try:
        return contract_cubin.code_of(cubin)
    except ContractError as error:
        raise Unreadable(str(error)) from error


def _words(code: bytes) -> Iterator[tuple[int, int]]:
    """(opcode, access width field) of each instruction."""
    for low, high in struct.iter_unpack("<QQ", code[: len(code) // 16 * 16]):
        yield low & 0xFFF, high >> 9 & 7


@dataclass(frozen=True)
class _Sass:
    load_bits: int
    store_bits: int
    instructions: int
    barriers: int
    uses_fp64: bool


def _read_code(code: bytes) -> _Sass:
    words = list(_words(code))
    return _Sass(
        load_bits=max((_WIDTHS[width] for op, width in words if op in _LDG), default=0),
        store_bits=max((_WIDTHS[width] for op, width in words if op in _STG), default=0),
        instructions=sum(op != _NOP for op, _ in words),
        barriers=sum(op == _BAR for op, _ in words),
        uses_fp64=any(op & 0x1FF in _FP64 for op, _ in words),
    )


def _nvidia(kernel: Any, log: str) -> Binary:
    ptx = kernel.asm["ptx"]
    registers, spills = _registers_and_spills(log or _ptxas_log(ptx))
    code = code_of(kernel.asm["cubin"])
    sass = _read_code(code)
    copies = [8 * int(size, 0) for size in _CP_ASYNC.findall(ptx)]
    return Binary(
        registers=registers,
        spill_bytes=spills,
        shared_bytes=int(kernel.metadata.shared),
        load_bits=max([sass.load_bits, *copies]),
        store_bits=sass.store_bits,
        instructions=sass.instructions,
        barriers=sass.barriers,
        uses_fp64=sass.uses_fp64,
        digest=hashlib.sha256(code).hexdigest(),
    )


def _gcn_number(text: str, field: str) -> int:
    found = re.search(_GCN_FIELD.format(field), text, re.MULTILINE)
    if found is None:
        raise Unreadable(f"the amdgcn text has no {field}")
    return int(found[1])


def _gcn_bits(width: str) -> int:
    words = re.match(r"dwordx(\d)", width) or re.match(r"b(\d+)", width)
    if words is not None:
        return int(words[1]) * 32 if width.startswith("dword") else int(words[1])
    return next((bits for name, bits in _GCN_BITS.items() if width.startswith(name)), 32)


def _amd(kernel: Any) -> Binary:
    text = kernel.asm["amdgcn"]
    body = text.split(".Lfunc_end0")[0]
    opcodes = [op for op in _GCN_LINE.findall(body) if "_" in op]
    widest = {"load": 0, "store": 0}
    for op in opcodes:
        if access := _GCN_WIDTH.match(op):
            widest[access[1]] = max(widest[access[1]], _gcn_bits(access[2]))
    lines = [line.split(";")[0].strip() for line in body.splitlines()]
    code = "\n".join(line for line in lines if line and not line.startswith((".", "/")))
    return Binary(
        registers=_gcn_number(text, "vgpr_count"),
        # A spilled register is stored once and loaded at least once, four bytes each way.
        spill_bytes=8 * _gcn_number(text, "vgpr_spill_count"),
        shared_bytes=int(kernel.metadata.shared),
        load_bits=widest["load"],
        store_bits=widest["store"],
        instructions=len(opcodes),
        barriers=sum(op == "s_barrier" for op in opcodes),
        uses_fp64=any(op.endswith("_f64") or "_f64_e" in op for op in opcodes),
        digest=hashlib.sha256(code.encode()).hexdigest(),
    )


class _Ears:
    """Stands for `subprocess` in Triton's NVIDIA backend and keeps what ptxas says: asking again doubles its time."""

    def __init__(self) -> None:
        self.heard = ""

    def run(self, command: Any, **options: Any) -> Any:
        done = subprocess.run(command, **options)
        log = getattr(options.get("stderr"), "name", None)
        if isinstance(log, str):
            self.heard = Path(log).read_text(encoding="utf-8", errors="replace")
        return done

    def __getattr__(self, name: str) -> Any:
        return getattr(subprocess, name)


def compile_and_read(compile_one: Callable[[], Any]) -> Binary:
    """Compile a kernel and say what it needs. In a process of its own: it listens to Triton's backend."""
    from triton.backends.nvidia import compiler

    compiler.subprocess = ears = _Ears()
    kernel = compile_one()
    return _nvidia(kernel, ears.heard) if "ptx" in kernel.asm else _amd(kernel)
