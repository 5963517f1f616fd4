"""What is read out of a binary, held against NVIDIA's own disassembler."""

from __future__ import annotations

import importlib.util
import re
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from bot.worker import resources
from bot.worker.contract import ARCHES, Binary, ContractError, cubin

OPCODE = re.compile(r"/\*[0-9a-f]{4,5}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]+)")
WIDTHS = {"U8": 8, "S8": 8, "U16": 16, "S16": 16, "64": 64, "128": 128}


@triton.jit
def copy_kernel(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n, other=0) + 1, mask=i < n)


@triton.jit
def sum_kernel(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0.0).to(tl.float32)
    tl.store(y + i, v / tl.sum(v * v, axis=0), mask=i < n)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


def build(
    kernel: Any, arch: str, *, kind: str = "*bf16", aligned: bool = True, warps: int = 4, block: int = 2048
) -> Any:
    chip = ARCHES[arch]
    attributes = {(i,): [["tt.divisibility", 16]] for i in range(3)} if aligned else {}
    signature = {"x": kind, "y": kind, "n": "i32", "B": "constexpr"}
    source = ASTSource(kernel, signature, {(3,): block}, attributes)
    target = GPUTarget(chip.backend, chip.number, chip.warp)
    return triton.compile(source, target=target, options={"num_warps": warps})


def read(kernel: Any, arch: str, **how: Any) -> Binary:
    make: Callable[[], Any] = lambda: build(kernel, arch, **how)  # noqa: E731
    return resources.compile_and_read(make)


def disassembled(kernel: Any, folder: Path) -> list[str]:
    path = folder / "kernel.cubin"
    path.write_bytes(kernel.asm["cubin"])
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/nvdisasm"
    done = subprocess.run([str(tool), "-c", str(path)], capture_output=True, text=True, timeout=60, check=True)
    return OPCODE.findall(done.stdout)


def widest(opcodes: list[str], name: str) -> int:
    parts = [op.split(".") for op in opcodes if op.startswith(name)]
    return max((next((WIDTHS[p] for p in op if p in WIDTHS), 32) for op in parts), default=0)


@pytest.mark.parametrize(
    ("kernel", "arch", "how"),
    [
        (copy_kernel, "sm_80", {}),
        (copy_kernel, "sm_90", {"aligned": False}),
        (copy_kernel, "sm_90", {"kind": "*i8"}),
        (sum_kernel, "sm_90", {"kind": "*fp32", "warps": 8}),
        (sum_kernel, "sm_100", {}),
        (copy_kernel, "sm_120", {"kind": "*fp64"}),
    ],
)
def test_machine_code_is_read_as_nvdisasm_reads_it(kernel: Any, arch: str, how: dict[str, Any], tmp_path: Path) -> None:
    found = read(kernel, arch, **how)
    opcodes = disassembled(build(kernel, arch, **how), tmp_path)
    assert found.load_bits == widest(opcodes, "LDG.")
    assert found.store_bits == widest(opcodes, "STG.")
    assert found.barriers == sum(op.startswith("BAR.") for op in opcodes)
    assert found.instructions == sum(op != "NOP" for op in opcodes)
    assert found.uses_fp64 == any(op.split(".")[0] in ("DADD", "DMUL", "DFMA", "DSETP") for op in opcodes)
    assert found.registers > 0


def test_alignment_shows_in_the_width_of_loads() -> None:
    assert read(copy_kernel, "sm_90").load_bits == 128
    assert read(copy_kernel, "sm_90", aligned=False).load_bits == 16


def test_spills_are_counted() -> None:
    assert read(sum_kernel, "sm_90", warps=4).spill_bytes == 0
    assert read(sum_kernel, "sm_90", warps=1, block=16384).spill_bytes > 0


def test_the_digest_is_of_the_program_not_of_its_place(tmp_path: Path) -> None:
    import importlib.util

    def from_file(text: str, name: str) -> Any:
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.k

    body = (
        "import triton\nimport triton.language as tl\n{gap}@triton.jit\ndef k(x, y, n, B: tl.constexpr):\n"
        "    i = tl.arange(0, B)\n    tl.store(y + i, tl.load(x + i, mask=i < n) * {factor}, mask=i < n)\n"
    )
    plain = read(from_file(body.format(gap="", factor=2.0), "plain"), "sm_90")
    moved = read(from_file(body.format(gap="\n\n# lower\n", factor=2.0), "moved"), "sm_90")
    other = read(from_file(body.format(gap="", factor=3.0), "other"), "sm_90")
    assert plain.digest == moved.digest
    assert plain.digest != other.digest


def test_amd_is_read_from_its_assembly() -> None:
    found = read(copy_kernel, "gfx942")
    assert 0 < found.registers <= 512
    assert found.spill_bytes == 0
    assert found.load_bits == 128
    assert found.store_bits == 128
    assert found.instructions > 10
    assert not found.uses_fp64
    assert read(copy_kernel, "gfx942", aligned=False).load_bits == 16
    assert read(sum_kernel, "gfx942").barriers > 0


def test_ptxas_is_asked_again_when_triton_kept_its_answer_to_itself() -> None:
    kernel = build(sum_kernel, "sm_90")
    registers, spills = resources._registers_and_spills(resources._ptxas_log(kernel.asm["ptx"]))
    assert registers == read(sum_kernel, "sm_90").registers
    assert spills == 0


@pytest.mark.parametrize("text", ["", "// nothing", ".version 8.0\n.target sm_90a\nnonsense"])
def test_a_text_that_is_no_ptx_is_unreadable(text: str) -> None:
    with pytest.raises(resources.Unreadable):
        resources._ptxas_log(text)


@pytest.mark.parametrize("content", [b"", b"\x7fELF", bytes(200)])
def test_what_is_no_cubin_is_unreadable(content: bytes) -> None:
    with pytest.raises(resources.Unreadable):
        resources.code_of(content)


TEXT = """import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n, other=0) * 1.5, mask=i < n)
"""


def cubin_of(text: str, path: Path) -> bytes:
    path.parent.mkdir()
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return bytes(build(module.kernel, "sm_90", kind="*fp32").asm["cubin"])


def test_the_same_program_of_other_lines_and_of_another_file_has_the_same_code(tmp_path: Path) -> None:
    """By its bytes alone no two variants of a kernel would be the same."""
    first = cubin_of(TEXT, tmp_path / "a" / "one.py")
    moved = cubin_of("\n\n" + TEXT, tmp_path / "b" / "other.py")
    changed = cubin_of(TEXT.replace("1.5", "1.25"), tmp_path / "c" / "one.py")
    assert first != moved
    assert cubin.code_of(first, cubin.CONSTANTS) == cubin.code_of(moved, cubin.CONSTANTS)
    assert cubin.code_of(first, cubin.CONSTANTS) != cubin.code_of(changed, cubin.CONSTANTS)
    assert len(cubin.code_of(first)) < len(cubin.code_of(first, cubin.CONSTANTS)) < len(first)


@pytest.mark.parametrize(
    "changed",
    [
        (0x3C, b"\xff\xff"),  # more sections than there are
        (0x28, b"\xff" * 8),  # and beyond whatever Python can count
        (0x28, b"\xff" * 7 + b"\x7f"),
        (0x3E, b"\xff\xff"),  # their names in none of them
    ],
)
def test_a_file_that_was_made_to_be_in_the_way_is_no_cubin(changed: tuple[int, bytes], tmp_path: Path) -> None:
    honest = cubin_of(TEXT, tmp_path / "a" / "one.py")
    at, other = changed
    with pytest.raises(ContractError):
        cubin.code_of(honest[:at] + other + honest[at + len(other) :])


def built(sections: int, code: bytes, length: int) -> bytes:
    """So many sections that all are the same code, of whatever length they say."""
    names, head = b"\0.text._k\0", 0x40
    body = code + names
    header = struct.pack("<IIQQQQ", 1, 0, 0, 0, head, length)
    last = struct.pack("<IIQQQQ", 0, 0, 0, 0, head + len(code), len(names))
    first = bytearray(head)
    struct.pack_into("<Q", first, 0x28, head + len(body))
    struct.pack_into("<HHH", first, 0x3A, len(header), sections + 1, sections)
    return bytes(first) + body + header * sections + last


def test_no_more_is_read_than_the_file_is_long() -> None:
    whole = built(cubin.MOST_SECTIONS - 1, b"x" * 100_000, 100_000)
    assert len(cubin.code_of(whole)) == len(whole)
    with pytest.raises(ContractError):
        cubin.code_of(built(cubin.MOST_SECTIONS, b"x", 1))
    with pytest.raises(ContractError, match="no code"):
        cubin.code_of(built(3, b"x", 0))
