"""Device time of the sample's kernels over launch settings: what bot/analysis/estimate.py was fitted to and checked on.

    python sweep.py time fit.csv fit       on a GPU: CUDA-graph replay of many calls on buffers larger than the L2
    python sweep.py time check.csv check
    python sweep.py facts fit.csv          anywhere: adds what the compiler says of each kernel for sm_90

Run with templates/sample/src on PYTHONPATH, as that folder stood on 2026-11-21. `programs` is the grid where it is not
one program a row.
"""

import csv
import functools
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import triton
import triton.language as tl
from sample_kernels.ops import geglu, jsd, rms_norm, softmax
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

BF16, FP32 = torch.bfloat16, torch.float32
RING_BYTES = 256 * 2**20
"""More than four times the L2: no call finds its inputs there."""
PROCESSORS = 132
TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
OPCODE = re.compile(r"/\*[0-9a-f]{4,5}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]+)")


@triton.jit
def _geglu_tiled(a, b, c, stride, n_cols: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    a += row * stride
    b += row * stride
    c += row * stride
    cols = tl.program_id(1) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x = tl.load(a + cols, mask=mask, other=0).to(tl.float32)
    y = tl.load(b + cols, mask=mask, other=0).to(tl.float32)
    gate = tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    tl.store(c + cols, (x * gate * y).to(c.dtype.element_ty), mask=mask)


@triton.jit
def _copy(src, dst, n, BLOCK_SIZE: tl.constexpr):
    cols = tl.program_id(0).to(tl.int64) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = cols < n
    tl.store(dst + cols, tl.load(src + cols, mask=mask), mask=mask)


@triton.jit
def _layer_norm(Y, X, W, B, Mean, Rstd, stride, n_cols, eps, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x = tl.load(X + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / n_cols
    centred = tl.where(mask, x - mean, 0.0)
    rstd = tl.rsqrt(tl.sum(centred * centred, axis=0) / n_cols + eps)
    tl.store(Mean + row, mean)
    tl.store(Rstd + row, rstd)
    w = tl.load(W + cols, mask=mask).to(tl.float32)
    b = tl.load(B + cols, mask=mask).to(tl.float32)
    tl.store(Y + row * stride + cols, (centred * rstd * w + b).to(Y.dtype.element_ty), mask=mask)


@triton.jit
def _nothing(src):
    pass


def tensor(rows, cols, dtype=BF16):
    return torch.randn(rows, cols, device="cuda", dtype=dtype)


def vector(size, dtype=FP32):
    return torch.rand(size, device="cuda", dtype=dtype)


def _rms_fwd(s, r, c, block, kw):
    y, x, w, rstd = s
    return rms_norm._rms_norm_forward_kernel[(r,)](
        y, c, x, c, w, rstd, c, 1e-6, 0.0, casting_mode=0, has_weight=True, BLOCK_SIZE=block, **kw
    )


def _rms_bwd(s, r, c, block, kw):
    dy, x, w, rstd, dw = s
    programs = kw.pop("programs", PROCESSORS)
    return rms_norm._rms_norm_backward_kernel[(programs,)](
        dy, c, dy, c, x, c, w, rstd, dw, c, r, c, 0.0, -(-r // programs),
        casting_mode=0, has_weight=True, BLOCK_SIZE=block, **kw,
    )  # fmt: skip


def _soft_fwd(s, r, c, block, kw):
    return softmax._softmax_forward_kernel[(r,)](s[0], c, s[1], c, c, BLOCK_SIZE=block, **kw)


def _soft_bwd(s, r, c, block, kw):
    return softmax._softmax_backward_kernel[(r,)](s[0], c, s[1], c, s[2], c, c, BLOCK_SIZE=block, **kw)


def _geglu_fwd(s, r, c, block, kw):
    return geglu._geglu_forward_kernel[(r,)](*s, c, n_cols=c, BLOCK_SIZE=block, **kw)


def _geglu_bwd(s, r, c, block, kw):
    return geglu._geglu_backward_kernel[(r,)](*s, c, n_cols=c, BLOCK_SIZE=block, **kw)


def _tiles(s, r, c, block, kw):
    return _geglu_tiled[(r, -(-c // block))](*s, c, n_cols=c, BLOCK_SIZE=block, **kw)


def _jsd_fwd(s, r, c, block, kw):
    x, y, loss, dx = s
    return jsd._jsd_forward_kernel[(r,)](
        x, c, y, c, loss, c, dx, c, None, 0.001, c,
        beta=0.5, ignore_index=-100, has_label=False, BLOCK_SIZE=block, **kw,
    )  # fmt: skip


def _jsd_bwd(s, r, c, block, kw):
    return jsd._jsd_backward_kernel[(r,)](s[0], c, s[1], c, s[2], c, BLOCK_SIZE=block, **kw)


def _copies(s, r, c, block, kw):
    return _copy[(-(-r * c // block),)](s[0], s[1], r * c, BLOCK_SIZE=block, **kw)


def _layers(s, r, c, block, kw):
    return _layer_norm[(r,)](*s, c, c, 1e-6, BLOCK_SIZE=block, **kw)


def _nothings(s, r, c, block, kw):
    return _nothing[(r,)](s[0], **kw)


B, F, N = "*bf16", "*fp32", "i32"
# buffers(rows, cols), launch, bytes moved, and for the compiler: the kernel, the types of its arguments, its constants
KERNELS = {
    "rms_fwd": (
        lambda r, c: (tensor(r, c), tensor(r, c), vector(c, BF16), vector(r)), _rms_fwd,
        lambda r, c: 4 * r * c + 2 * c + 4 * r, rms_norm._rms_norm_forward_kernel,
        [B, N, B, N, B, F, N, "fp32", "fp32"], {"casting_mode": 0, "has_weight": True}),
    "rms_bwd": (
        lambda r, c: (tensor(r, c), tensor(r, c), vector(c, BF16), vector(r), tensor(4 * PROCESSORS, c, FP32)),
        _rms_bwd,
        lambda r, c: 6 * r * c, rms_norm._rms_norm_backward_kernel,
        [B, N, B, N, B, N, B, F, F, N, N, N, "fp32", "any"], {"casting_mode": 0, "has_weight": True}),
    "soft_fwd": (
        lambda r, c: (tensor(r, c), tensor(r, c)), _soft_fwd, lambda r, c: 4 * r * c,
        softmax._softmax_forward_kernel, [B, N, B, N, N], {}),
    "soft32": (
        lambda r, c: (tensor(r, c, FP32), tensor(r, c, FP32)), _soft_fwd, lambda r, c: 8 * r * c,
        softmax._softmax_forward_kernel, [F, N, F, N, N], {}),
    "soft_bwd": (
        lambda r, c: (tensor(r, c), tensor(r, c), tensor(r, c)), _soft_bwd, lambda r, c: 6 * r * c,
        softmax._softmax_backward_kernel, [B, N, B, N, B, N, N], {}),
    "geglu_fwd": (
        lambda r, c: tuple(tensor(r, c) for _ in range(3)), _geglu_fwd, lambda r, c: 6 * r * c,
        geglu._geglu_forward_kernel, [B, B, B, N], {"n_cols": None}),
    "geglu_bwd": (
        lambda r, c: tuple(tensor(r, c) for _ in range(5)), _geglu_bwd, lambda r, c: 10 * r * c,
        geglu._geglu_backward_kernel, [B, B, B, B, B, N], {"n_cols": None}),
    "geglu_tiled": (
        lambda r, c: tuple(tensor(r, c) for _ in range(3)), _tiles, lambda r, c: 6 * r * c,
        _geglu_tiled, [B, B, B, N], {"n_cols": None}),
    "jsd_fwd": (
        lambda r, c: (tensor(r, c), tensor(r, c), tensor(r, c, FP32), tensor(r, c)), _jsd_fwd, lambda r, c: 10 * r * c,
        jsd._jsd_forward_kernel, [B, N, B, N, F, N, B, N, "fp32", N],
        {"label_ptr": None, "beta": 0.5, "ignore_index": -100, "has_label": False}),
    "jsd_bwd": (
        lambda r, c: (tensor(r, c), tensor(r, c), torch.ones((), device="cuda")), _jsd_bwd, lambda r, c: 4 * r * c,
        jsd._jsd_backward_kernel, [B, N, B, N, F, N], {}),
    "layer": (
        lambda r, c: (tensor(r, c), tensor(r, c), vector(c, BF16), vector(c, BF16), vector(r), vector(r)), _layers,
        lambda r, c: 4 * r * c, _layer_norm, [B, B, B, B, F, F, N, N, "fp32"], {}),
    "copy": (lambda r, c: (tensor(r, c), tensor(r, c)), _copies, lambda r, c: 4 * r * c, _copy, [B, B, N], {}),
    "nothing": (lambda r, c: (tensor(1, 1),), _nothings, lambda r, c: 0, None, [], {}),
}  # fmt: skip


def time_one(name, rows, cols, block, numbers, ring):
    _, launch, *_ = KERNELS[name]
    compiled = launch(ring[0], rows, cols, block, dict(numbers))
    torch.cuda.synchronize()
    calls, stream = max(len(ring), 8), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        launch(ring[0], rows, cols, block, dict(numbers))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for i in range(calls):
                launch(ring[i % len(ring)], rows, cols, block, dict(numbers))
    for _ in range(3):
        graph.replay()
    times = []
    for _ in range(9):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1000 / calls)
    return compiled, statistics.median(times)


def ring_of(name, rows, cols):
    first = KERNELS[name][0](rows, cols)
    each = sum(t.numel() * t.element_size() for t in first)
    return [first] + [KERNELS[name][0](rows, cols) for _ in range(max(1, min(24, RING_BYTES // max(each, 1))))]


def by_warps(names, sizes, all_warps):
    for rows, cols in sizes:
        block = triton.next_power_of_2(cols)
        for name in names:
            for warps in all_warps:
                if 2 <= block // (32 * warps) <= 64:
                    yield name, rows, cols, block, {"num_warps": warps}


def by_pairs(name, sizes, pairs):
    for rows, cols in sizes:
        for block, warps in pairs:
            if block < 2 * cols or name == "copy":
                yield name, rows, cols, block, {"num_warps": warps}


FIT = (
    (4096, 4096),
    (8192, 1024),
    (2048, 16384),
    (512, 4096),
    (4096, 2048),
    (2048, 8192),
    (64, 4096),
    (1024, 32768),
    (4096, 5120),
)
TILES = ((256, 1), (512, 2), (1024, 4), (1024, 8), (2048, 8), (2048, 4), (4096, 8))
STEPS = tuple(
    (16384 >> i, warps) for i in range(5) for warps in (2, 4, 8, 16, 32) if 8 <= (16384 >> i) // (32 * warps) <= 128
)


def plan_fit():
    yield from by_warps(
        ("rms_fwd", "rms_bwd", "soft_fwd", "soft_bwd", "geglu_fwd", "geglu_bwd"), FIT, (1, 2, 4, 8, 16, 32)
    )
    yield from by_pairs("geglu_tiled", FIT, TILES)
    for rows, cols in FIT[:3]:
        for programs in (264, 528):
            for warps in (8, 16):
                if triton.next_power_of_2(cols) // (32 * warps) >= 4:
                    numbers = {"num_warps": warps, "programs": programs}
                    yield "rms_bwd", rows, cols, triton.next_power_of_2(cols), numbers
    for name in ("jsd_fwd", "jsd_bwd"):
        yield from by_pairs(name, ((1024, 32000), (2048, 32000), (512, 32768), (64, 32000), (2048, 4096)), STEPS)
    yield from by_pairs(
        "copy", ((4096, 4096), (512, 4096), (64, 4096), (16384, 8192)), ((1024, 4), (256, 1), (2048, 4), (4096, 4))
    )
    for rows in (1, 132, 4096, 65536):
        for warps in (1, 4, 32):
            yield "nothing", rows, 1, 1, {"num_warps": warps}


def plan_check():
    aligned = ((4096, 4096), (8192, 2048), (2048, 8192), (1024, 16384), (16384, 1024), (8192, 4096))
    odd = ((4096, 4095), (4096, 4097), (4096, 4100), (4096, 4104), (8192, 2047))
    yield from by_warps(("layer", "soft32"), aligned, (1, 2, 4, 8, 16, 32))
    yield from by_warps(("rms_fwd", "soft_fwd", "soft_bwd", "geglu_fwd", "rms_bwd", "layer"), odd, (2, 4, 8, 16, 32))
    for rows, cols in ((4096, 32000), (1024, 65536), (2048, 32000)):
        for name in ("soft_fwd", "soft_bwd"):
            for warps in (16, 32):
                yield name, rows, cols, triton.next_power_of_2(cols), {"num_warps": warps}


def time_all(path, plan):
    size, ring = None, []
    with Path(path).open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["kernel", "rows", "cols", "block", "warps", "programs", "bytes", "us", "registers"])
        for name, rows, cols, block, numbers in plan:
            if size != (name, rows, cols):
                size, ring = (name, rows, cols), []
                torch.cuda.empty_cache()
                ring = ring_of(name, rows, cols)
            compiled, us = time_one(name, rows, cols, block, numbers, ring)
            moved = KERNELS[name][2](rows, cols)
            known = [name, rows, cols, block, numbers["num_warps"], numbers.get("programs", 0), moved]
            writer.writerow([*known, f"{us:.3f}", compiled.n_regs])


def tool(name, content, *arguments):
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        done = subprocess.run(
            [TOOLS / name, *arguments, file.name, *OUT[name]], capture_output=True, text=True, check=True
        )
        return done.stdout + done.stderr


OUT = {"nvdisasm": (), "ptxas": ("-o", "/dev/null")}


@functools.cache
def facts_of(name, cols, block, warps, aligned):
    """(spilled bytes, shared bytes, instructions, barriers, widest load in bits) of one kernel on sm_90."""
    *_, kernel, types, constants = KERNELS[name]
    fixed = {**constants, "BLOCK_SIZE": block, **({"n_cols": cols} if "n_cols" in constants else {})}
    plain = dict(zip((n for n in kernel.arg_names if n not in fixed), types, strict=True))
    signature = {n: "constexpr" if n in fixed else plain[n].replace("any", "i32") for n in kernel.arg_names}
    divisible = {
        (kernel.arg_names.index(n),): [["tt.divisibility", 16]]
        for n, kind in plain.items()
        if kind.startswith("*") or (kind == "i32" and aligned)
    }
    values = {(kernel.arg_names.index(n),): value for n, value in fixed.items()}
    source = ASTSource(kernel, signature, values, divisible)
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps})
    opcodes = OPCODE.findall(tool("nvdisasm", made.asm["cubin"], "-c"))
    log = tool("ptxas", made.asm["ptx"].encode(), "-v", "--gpu-name", "sm_90a")
    spills = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", log)
    widths = [re.search(r"\.[US]?(8|16|64|128)(?:\.|$)", op) for op in opcodes if op.startswith("LDG")]
    return (
        sum(map(int, spills.groups())),
        made.metadata.shared,
        sum(op != "NOP" for op in opcodes),
        sum(op.startswith("BAR") for op in opcodes),
        max((int(w[1]) if w else 32 for w in widths), default=0),
    )


def add_facts(path):
    with Path(path).open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        found = (0, 0, 0, 0, 0)
        if row["kernel"] != "nothing":
            cols = int(row["cols"])
            own = cols if "n_cols" in KERNELS[row["kernel"]][5] else 0
            found = facts_of(row["kernel"], own, int(row["block"]), int(row["warps"]), cols % 16 == 0)
        row.update(zip(("spill_bytes", "shared", "instructions", "barriers", "load_bits"), found, strict=True))
    with Path(path).open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    if sys.argv[1] == "time":
        about = torch.cuda.get_device_properties(0)
        print({key: getattr(about, key) for key in dir(about) if isinstance(getattr(about, key), int)})
        time_all(sys.argv[2], {"fit": plan_fit, "check": plan_check}[sys.argv[3]]())
    else:
        add_facts(sys.argv[2])
