"""Four questions to one GPU, asked before the seams between judge, replayer and worker are frozen.

    python3 spike.py all --out DIR --liger DIR_WITH_liger_kernel --bwrap DIR_WITH_bwrap_AND_ITS_LIBRARIES

fd      GPU memory crosses bubblewrap as a file descriptor: the worker runs a Triton kernel on it, the exporter reads
replay  the backward of Liger's rms_norm is recorded on autograd's thread; its cubins run in a process without torch
aa      A against A on the same buffers, in fresh processes
start   what a process costs before it can launch

Each part writes one JSON file and survives the failure of the others. Needs torch, triton, numpy and a CUDA device.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import random
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

ENTERED = time.time()
ROWS, COLS, EPS = 2048, 4096, 1e-6
U64, SIZE, INT = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_int
SCALARS = {"i1": ctypes.c_int8, "i32": ctypes.c_int32, "i64": ctypes.c_int64, "fp32": ctypes.c_float}


# -- the CUDA driver through ctypes: the replayer and the exporter need no torch -----------------------------


class AllocationProperties(ctypes.Structure):
    """CUmemAllocationProp: pinned device memory that can leave as a POSIX file descriptor."""

    _fields_ = [
        ("type", INT),
        ("handle_types", INT),
        ("location_type", INT),
        ("location_id", INT),
        ("win32", ctypes.c_void_p),
        ("flags", ctypes.c_uint8 * 8),
    ]


class Access(ctypes.Structure):
    _fields_ = [("location_type", INT), ("location_id", INT), ("flags", INT)]


class LegacyHandle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_char * 64)]


class DriverError(RuntimeError):
    pass


class Driver:
    """A call that fails raises with the driver's own name for the error."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", ctypes.c_uint(0))
        self.device, context = INT(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(self.device), INT(0))
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *args: object) -> None:
        code = getattr(self.library, name)(*args)
        if code:
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(INT(code), ctypes.byref(text))
            raise DriverError(f"{name}: {(text.value or b'?').decode()} ({code})")

    def attribute(self, number: int) -> int:
        value = INT()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), INT(number), self.device)
        return value.value

    def allocate(self, size: int) -> int:
        pointer = U64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), SIZE(size))
        return pointer.value

    def create_shareable(self, wanted: int) -> tuple[U64, int]:
        properties = AllocationProperties(type=1, handle_types=1, location_type=1)
        unit, handle = SIZE(), U64()
        self.call("cuMemGetAllocationGranularity", ctypes.byref(unit), ctypes.byref(properties), INT(0))
        size = -(-wanted // unit.value) * unit.value
        self.call("cuMemCreate", ctypes.byref(handle), SIZE(size), ctypes.byref(properties), U64(0))
        return handle, size

    def export_descriptor(self, handle: U64) -> int:
        descriptor = INT()
        self.call("cuMemExportToShareableHandle", ctypes.byref(descriptor), handle, INT(1), U64(0))
        return descriptor.value

    def import_descriptor(self, descriptor: int) -> U64:
        handle = U64()
        self.call("cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(descriptor), INT(1))
        return handle

    def map(self, handle: U64, size: int) -> int:
        pointer, access = U64(), Access(1, 0, 3)
        self.call("cuMemAddressReserve", ctypes.byref(pointer), SIZE(size), SIZE(0), U64(0), U64(0))
        self.call("cuMemMap", pointer, SIZE(size), SIZE(0), handle, U64(0))
        self.call("cuMemSetAccess", pointer, SIZE(size), ctypes.byref(access), SIZE(1))
        return pointer.value

    def write(self, pointer: int, data: bytes) -> None:
        self.call("cuMemcpyHtoD_v2", U64(pointer), data, SIZE(len(data)))

    def read(self, pointer: int, size: int) -> bytes:
        data = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", data, U64(pointer), SIZE(size))
        return data.raw

    def fill(self, pointer: int, size: int, byte: int) -> None:
        self.call("cuMemsetD8_v2", U64(pointer), ctypes.c_ubyte(byte), SIZE(size))

    def function(self, cubin: bytes, name: str, shared: int) -> ctypes.c_void_p:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), cubin)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        if shared > 48 * 1024:
            self.call("cuFuncSetAttribute", function, INT(8), INT(shared))
        return function

    def launch(self, function: ctypes.c_void_p, grid: list[int], threads: int, shared: int, values: list) -> None:
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.cast(ctypes.byref(v), ctypes.c_void_p) for v in values])
        sizes = [ctypes.c_uint(n) for n in (*grid, threads, 1, 1, shared)]
        self.call("cuLaunchKernel", function, *sizes, None, pointers, None)

    def wait(self) -> None:
        self.call("cuCtxSynchronize")


# -- children and the sandbox --------------------------------------------------------------------------------


def sandboxed(command: list[str], options: argparse.Namespace) -> list[str]:
    nodes = sorted(str(p) for p in Path("/dev").glob("nvidia*") if not p.is_dir())
    here, out, liger = Path(__file__).resolve().parent, Path(options.out).resolve(), Path(options.liger).resolve()
    cache = out / "triton-sandbox"
    cache.mkdir(parents=True, exist_ok=True)
    binds = [x for node in nodes for x in ("--dev-bind", node, node)]
    binds += ["--proc", "/proc", "--tmpfs", "/tmp"]
    for path in (here, liger):
        binds += ["--ro-bind", str(path), str(path)]
    binds += ["--bind", str(cache), str(cache)]
    words = {"LD_LIBRARY_PATH": os.environ["LD_LIBRARY_PATH"]} if "LD_LIBRARY_PATH" in os.environ else {}
    words |= {"HOME": str(cache), "TRITON_CACHE_DIR": str(cache), "PATH": "/usr/bin:/bin", "SPAWNED": repr(time.time())}
    settings = [x for name, value in words.items() for x in ("--setenv", name, value)]
    return [
        *(str(Path(options.bwrap) / "bwrap"), "--unshare-all", "--die-with-parent", "--new-session", "--clearenv"),
        *(
            "--cap-drop",
            "ALL",
            "--ro-bind",
            "/",
            "/",
            "--dev",
            "/dev",
            *binds,
            *settings,
            "--chdir",
            str(cache),
            *command,
        ),
    ]


def child(
    part: str,
    options: argparse.Namespace,
    *more: str,
    sandbox: bool = False,
    pass_fds: tuple[int, ...] = (),
    stdin: int | None = None,
) -> subprocess.Popen:
    command = [sys.executable, str(Path(__file__).resolve()), part, "--out", str(Path(options.out).resolve())]
    command += ["--liger", str(Path(options.liger).resolve()), "--bwrap", options.bwrap, *more]
    environment = dict(os.environ, SPAWNED=repr(time.time()))
    if sandbox:
        command = sandboxed(command, options)
        environment["LD_LIBRARY_PATH"] = str(Path(options.bwrap).resolve())
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=environment, pass_fds=pass_fds, stdin=stdin, **piped)


def answer(process: subprocess.Popen, deadline: float = 180) -> dict:
    """The child's last line of output as JSON, or what it complained about."""
    try:
        out, err = process.communicate(timeout=deadline)
    except subprocess.TimeoutExpired:
        process.kill()
        return {"failed": "deadline", "stderr": process.communicate()[1][-1500:]}
    if process.returncode:
        return {"failed": process.returncode, "stderr": err[-1500:]}
    return json.loads(out.strip().splitlines()[-1])


def rms_norm_op(options: argparse.Namespace):
    sys.path.insert(0, str(options.liger))
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction

    return LigerRMSNormFunction


def inputs(seed: int, device: str):
    import torch

    made = torch.Generator("cpu").manual_seed(seed)
    x, dy = (torch.randn(ROWS, COLS, generator=made).bfloat16() for _ in range(2))
    w = (1 + 0.1 * torch.randn(COLS, generator=made)).bfloat16()
    return [t.to(device) for t in (x, w, dy)]


def to_bytes(tensor) -> bytes:
    import torch

    return tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()


def from_bytes(data: bytes, dtype, *shape: int):
    import torch

    return torch.frombuffer(bytearray(data), dtype=dtype).reshape(shape)


# -- (a) a descriptor of GPU memory through bubblewrap -------------------------------------------------------

X_BYTES, W_BYTES = ROWS * COLS * 2, COLS * 2
Y_AT = X_BYTES + W_BYTES


class Foreign:
    """Memory of another process, offered to torch."""

    def __init__(self, pointer: int, *shape: int) -> None:
        self.__cuda_array_interface__ = {"shape": shape, "typestr": "<i2", "data": (pointer, False), "version": 2}


def try_legacy(driver: Driver, handle: LegacyHandle) -> str:
    pointer = U64()
    try:
        driver.call("cuIpcOpenMemHandle_v2", ctypes.byref(pointer), handle, ctypes.c_uint(1))
        seen = driver.read(pointer.value, 16)
        driver.fill(pointer.value, 16, 0xC3)
        driver.wait()
    except DriverError as refused:
        return str(refused)
    return "opened, exporter's bytes seen" if seen == b"\x5a" * 16 else f"opened, other bytes seen: {seen.hex()}"


def fd_worker(options: argparse.Namespace) -> dict:
    import torch

    channel = socket.socket(fileno=options.channel)
    header, descriptors, _, _ = socket.recv_fds(channel, 4096, 1)
    size, legacy = struct.unpack("<Q64s", header)
    torch.cuda.init()
    base = torch.empty(1, device="cuda").device
    driver = Driver()
    pointer = driver.map(driver.import_descriptor(descriptors[0]), size)
    legacy_result = try_legacy(driver, LegacyHandle.from_buffer_copy(legacy))
    views = [Foreign(pointer, ROWS, COLS), Foreign(pointer + X_BYTES, COLS), Foreign(pointer + Y_AT, ROWS, COLS)]
    x, w, y = (torch.as_tensor(v, device=base).view(torch.bfloat16) for v in views)
    shared_for_real = x.data_ptr() == pointer
    op = rms_norm_op(options)
    network = "has interfaces" if socket.if_nameindex()[1:] else "loopback only"
    while channel.recv(1) == b"g":
        y.copy_(op.apply(x, w, EPS, 0.0, "llama", False, None))
        torch.cuda.synchronize()
        channel.sendall(struct.pack("<I", 1))
    return {
        "pid": os.getpid(),
        "no_copy": shared_for_real,
        "legacy_ipc": legacy_result,
        "network": network,
        "environment_variables": len(os.environ),
    }


def oracle(x, w):
    x64, w64 = x.double(), w.double()
    return x64 * (x64.pow(2).mean(-1, keepdim=True) + EPS).rsqrt() * w64


def fd_exchange(driver: Driver, options: argparse.Namespace, sandbox: bool) -> dict:
    import torch

    handle, size = driver.create_shareable(Y_AT + X_BYTES)
    pointer, descriptor = driver.map(handle, size), driver.export_descriptor(handle)
    legacy = LegacyHandle()
    legacy_at = driver.allocate(1 << 21)
    driver.fill(legacy_at, 16, 0x5A)
    driver.call("cuIpcGetMemHandle", ctypes.byref(legacy), U64(legacy_at))
    ours, theirs = socket.socketpair()
    ours.settimeout(120)
    started = time.perf_counter()
    worker = child(
        "fd-worker", options, "--channel", str(theirs.fileno()), sandbox=sandbox, pass_fds=(theirs.fileno(),)
    )
    theirs.close()
    socket.send_fds(ours, [struct.pack("<Q64s", size, bytes(legacy))], [descriptor])
    found: dict = {"allocation_bytes": size, "trips": []}
    try:
        for seed in range(1, 9):
            x, w, _ = inputs(seed, "cpu")
            driver.write(pointer, to_bytes(x) + to_bytes(w))
            driver.fill(pointer + Y_AT, X_BYTES, 0xFF)  # poison: bf16 NaN
            driver.wait()
            began = time.perf_counter()
            ours.sendall(b"g")
            if len(ours.recv(4)) != 4:
                break
            took = time.perf_counter() - began
            y = from_bytes(driver.read(pointer + Y_AT, X_BYTES), torch.bfloat16, ROWS, COLS)
            wanted = oracle(x, w)
            error = ((y.double() - wanted).norm() / wanted.norm()).item()
            found["trips"].append({"ms": round(took * 1e3, 3), "relative_error": error, "nan": int(y.isnan().sum())})
        found["first_answer_s"] = round(began - started + found["trips"][0]["ms"] / 1e3, 2) if found["trips"] else None
        ours.sendall(b"q")
    except OSError as broken:
        found["broken"] = repr(broken)
    found["worker"] = answer(worker)
    found["legacy_ipc_write_arrived"] = driver.read(legacy_at, 16) == b"\xc3" * 16
    driver.fill(pointer + Y_AT, 16, 0xAB)
    found["memory_outlives_worker"] = driver.read(pointer + Y_AT, 16) == b"\xab" * 16
    return found


def fd(options: argparse.Namespace) -> dict:
    driver = Driver()
    return {
        "posix_fd_supported": driver.attribute(103),
        "exporter_pid": os.getpid(),
        "plain": fd_exchange(driver, options, sandbox=False),
        "bubblewrap": fd_exchange(driver, options, sandbox=True),
    }


# -- (b) record the backward, replay the cubins elsewhere ----------------------------------------------------


class Recorder:
    """Wraps the launcher on the class, so that launches from autograd's device thread are seen as well."""

    def __init__(self) -> None:
        from triton.compiler.compiler import CompiledKernel

        self.launches: list[tuple] = []
        self.kept: CompiledKernel = CompiledKernel
        self.original = CompiledKernel.run

    def __enter__(self) -> Recorder:
        recorder = self

        def run(kernel):
            launcher = recorder.original.fget(kernel)

            def launch(gx, gy, gz, stream, function, packed, metadata, enter, leave, *args):
                recorder.launches.append((kernel, [gx, gy, gz], args, threading.get_native_id()))
                return launcher(gx, gy, gz, stream, function, packed, metadata, enter, leave, *args)

            return launch

        self.kept.run = property(run)
        return self

    def __exit__(self, *_: object) -> None:
        self.kept.run = self.original


def library_calls(log: list):
    from torch.utils._python_dispatch import TorchDispatchMode

    class Listening(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            log.append((str(func), threading.get_native_id()))
            return func(*args, **(kwargs or {}))

    return Listening()


def written_down(launches: list[tuple], known: dict[int, str], out: Path) -> tuple[list[dict], dict[str, int]]:
    buffers: dict[str, int] = {}
    recorded = []
    for index, (kernel, grid, args, thread) in enumerate(launches):
        (out / f"kernel{index}.cubin").write_bytes(kernel.asm["cubin"])
        values = []
        for kind, value in zip(kernel.src.signature.values(), args, strict=True):
            if kind == "constexpr":
                continue
            if kind.startswith("*"):
                role = known.setdefault(value.data_ptr(), f"buffer{len(known)}")
                buffers[role] = value.untyped_storage().nbytes()
                values.append({"role": role, "recorded_at": value.data_ptr()})
            else:
                values.append({"kind": kind, "value": value})
        m = kernel.metadata
        recorded.append(
            {
                "name": m.name,
                "grid": grid,
                "warps": m.num_warps,
                "shared": m.shared,
                "ctas": m.num_ctas,
                "thread": thread,
                "values": values,
            }
            | {"scratch": [m.global_scratch_size, m.profile_scratch_size], "cubin_bytes": len(kernel.asm["cubin"])}
        )
    return recorded, buffers


def step(op, x, w, dy, in_place: bool):
    import torch

    y = op.apply(x, w, EPS, 0.0, "llama", in_place, None)
    dx, dw = torch.autograd.grad(y, (x, w), dy)
    torch.cuda.synchronize()
    return y, dx, dw


def seen_from_outside(op, x, w, dy) -> list[dict]:
    """The kernels of an un-instrumented step, as the profiler sees them."""
    import torch

    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CUDA, torch.profiler.ProfilerActivity.CPU]
    ) as profile:
        step(op, x, w, dy, in_place=True)
    with tempfile.TemporaryDirectory() as folder:
        profile.export_chrome_trace(f"{folder}/trace.json")
        events = json.loads(Path(folder, "trace.json").read_text())["traceEvents"]
    kernels = sorted((e for e in events if e.get("cat") == "kernel"), key=lambda e: e["ts"])
    return [{"name": e["name"][:90], "grid": e["args"].get("grid"), "block": e["args"].get("block")} for e in kernels]


def record(options: argparse.Namespace) -> dict:
    op = rms_norm_op(options)
    out = Path(options.out) / "recording"
    out.mkdir(parents=True, exist_ok=True)
    x, w, dy = inputs(11, "cuda")
    x.requires_grad_(), w.requires_grad_()
    calls: list = []
    with library_calls(calls), Recorder() as recorder:
        step(op, x, w, dy, in_place=True)
    known = {x.data_ptr(): "x", w.data_ptr(): "w", dy.data_ptr(): "dy"}
    launches, buffers = written_down(recorder.launches, known, out)
    x2, w2, dy2 = inputs(12, "cuda")
    for name, tensor in (("x", x2), ("w", w2), ("dy", dy2)):
        (out / f"{name}.bytes").write_bytes(to_bytes(tensor))
    y2, dx2, dw2 = step(op, x2.requires_grad_(), w2.requires_grad_(), dy2.clone(), in_place=True)
    for name, tensor in (("y", y2), ("dx", dx2), ("dw", dw2)):
        (out / f"expected_{name}.bytes").write_bytes(to_bytes(tensor))
    main = threading.get_native_id()
    found = {
        "launches": launches,
        "buffers": buffers,
        "threads": {"main": main, "launch_threads": [entry["thread"] for entry in launches]},
        "library_calls": [{"op": name, "on_main_thread": thread == main} for name, thread in calls],
        "outside": seen_from_outside(op, x2, w2, dy2.clone()),
    }
    (out / "recording.json").write_text(json.dumps(found))
    return found


def replay(options: argparse.Namespace) -> dict:
    """Standard library and the driver only: this is what the replayer could be."""
    marks = [("entered", time.time())]
    folder = Path(options.out) / "recording"
    recording = json.loads((folder / "recording.json").read_text())
    driver = Driver()
    marks.append(("context", time.time()))
    driver.allocate(7 << 20)  # shifts what follows away from the recorder's addresses
    at = {role: driver.allocate(size) for role, size in recording["buffers"].items()}
    for role, size in recording["buffers"].items():
        driver.fill(at[role], size, 0xFF)
    for role in ("x", "w", "dy"):
        driver.write(at[role], (folder / f"{role}.bytes").read_bytes())
    same_address = 0
    functions = [
        driver.function((folder / f"kernel{i}.cubin").read_bytes(), launch["name"], launch["shared"])
        for i, launch in enumerate(recording["launches"])
    ]
    marks.append(("loaded", time.time()))
    for function, launch in zip(functions, recording["launches"], strict=True):
        values = [U64(at[v["role"]]) if "role" in v else SCALARS[v["kind"]](v["value"]) for v in launch["values"]]
        same_address += sum(at[v["role"]] == v["recorded_at"] for v in launch["values"] if "role" in v)
        driver.launch(function, launch["grid"], 32 * launch["warps"], launch["shared"], [*values, U64(0), U64(0)])
    driver.wait()
    marks.append(("ran", time.time()))
    for role, size in recording["buffers"].items():
        (folder / f"replayed_{role}.bytes").write_bytes(driver.read(at[role], size))
    previous, phases = float(os.environ["SPAWNED"]), {}
    for name, stamp in marks:
        phases[name], previous = round(stamp - previous, 4), stamp
    return {"seconds": phases, "pointers_equal_to_recorded": same_address, "torch_loaded": "torch" in sys.modules}


def compared(options: argparse.Namespace) -> dict:
    import torch

    folder = Path(options.out) / "recording"
    recording = json.loads((folder / "recording.json").read_text())
    forward, backward = recording["launches"]
    roles = [v["role"] for v in forward["values"] if "role" in v]
    partial = next(r for r in [v["role"] for v in backward["values"] if "role" in v] if r not in {*roles, "dy"})

    def raw(name: str) -> bytes:
        return (folder / f"{name}.bytes").read_bytes()

    x, w, dy = (
        from_bytes(raw(n), torch.bfloat16, *s).double()
        for n, s in (("x", (ROWS, COLS)), ("w", (COLS,)), ("dy", (ROWS, COLS)))
    )
    x.requires_grad_(), w.requires_grad_()
    wanted = (oracle(x, w), *torch.autograd.grad(oracle(x, w), (x, w), dy))
    dw_sum = from_bytes(raw(f"replayed_{partial}"), torch.float32, -1, COLS).double().sum(0)
    replayed = {"y": raw(f"replayed_{roles[0]}"), "dx": raw("replayed_dy"), "dw": to_bytes(dw_sum.bfloat16())}
    found = {}
    for (name, data), exact in zip(replayed.items(), wanted, strict=True):
        ours, theirs = (from_bytes(b, torch.bfloat16, *exact.shape).double() for b in (data, raw(f"expected_{name}")))
        found[name] = {
            "bits_equal_op": data == raw(f"expected_{name}"),
            "elements_different": int((ours != theirs).sum()),
            "error_vs_fp64": ((ours - exact).norm() / exact.norm()).item(),
            "op_error_vs_fp64": ((theirs - exact).norm() / exact.norm()).item(),
        }
    return found


def replayed(options: argparse.Namespace) -> dict:
    recorded = answer(child("record", options))
    if "failed" in recorded:
        return recorded
    for launch in recorded["launches"]:
        launch.pop("values")
    return {"recorded": recorded, "replay": answer(child("replayer", options)), "compared": compared(options)}


# -- (c) A against A -----------------------------------------------------------------------------------------

CASES = (
    ("rms_norm", 8192, 4096, 1),
    ("rms_norm", 8192, 4096, 8),
    ("rms_norm", 256, 4096, 64),
    ("swiglu", 4096, 14336, 1),
    ("swiglu", 4096, 14336, 4),
)
BLOCKS = 64


def graph_of(launch: tuple, separate: bool, calls: int):
    """A graph of one recorded launch, repeated; a separate arm gets clones of every tensor."""
    import torch

    kernel, grid, args, _ = launch
    if separate:
        args = tuple(a.clone() if isinstance(a, torch.Tensor) else a for a in args)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            kernel[tuple(grid)](*args)
    return graph, args


class Reading(NamedTuple):
    """How the blocks of one series are laid out."""

    either_order: bool = False  # A-B-B-A or B-A-A-B by chance, so that a slot's place in the block favours nobody
    lead_in: bool = False  # one replay before the first mark
    cold: bool = False  # 192 MB written before every timed slot: more than 3x the L2


READINGS = {
    "ABBA": Reading(),
    "either order": Reading(either_order=True),
    "either order, lead-in": Reading(either_order=True, lead_in=True),
    "either order, cold": Reading(either_order=True, cold=True),
}


def block(arms: tuple, order: tuple[int, ...], reading: Reading, other_traffic) -> list[tuple]:
    import torch

    marks = []
    torch.cuda._sleep(400_000)  # 0.2 ms: the host gets ahead, so that no slot waits for a launch
    if reading.lead_in:
        arms[order[1]].replay()
    for arm in order:
        if reading.cold:
            other_traffic.fill_(arm)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        arms[arm].replay()
        end.record()
        marks.append((begin, end))
    return marks


def abba(arms: tuple, reading: Reading, calls: int) -> dict:
    import torch

    other_traffic = torch.empty(192 << 20, dtype=torch.uint8, device="cuda") if reading.cold else None
    for graph in arms * 10:
        graph.replay()
    orders = [(1, 0, 0, 1) if reading.either_order and random.random() < 0.5 else (0, 1, 1, 0) for _ in range(BLOCKS)]
    torch.cuda.synchronize()
    began = time.perf_counter()
    marks = [block(arms, order, reading, other_traffic) for order in orders]
    torch.cuda.synchronize()
    wall = time.perf_counter() - began
    spans = [[begin.elapsed_time(end) * 1e3 / calls for begin, end in four] for four in marks]
    sums = [
        [sum(t for t, arm in zip(four, order, strict=True) if arm == which) for which in (0, 1)]
        for four, order in zip(spans, orders, strict=True)
    ]
    differences = [200 * (b - a) / (a + b) for a, b in sums]
    places = [statistics.mean(400 * four[i] / sum(four) - 100 for four in spans) for i in range(4)]
    return {
        "us": round(statistics.median(t for four in spans for t in four), 3),
        "mean_percent": round(statistics.mean(differences), 4),
        "sd_percent": round(statistics.stdev(differences), 4),
        "place_percent": [round(place, 3) for place in places],
        "wall_s": round(wall, 3),
    }


def launch_of(name: str, rows: int, cols: int) -> tuple:
    import torch

    x, other = (torch.randn(rows, cols, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    with Recorder() as recorder:
        if name == "rms_norm":
            from liger_kernel.ops.rms_norm import LigerRMSNormFunction as op

            op.apply(x, other[0].clone(), EPS, 0.0, "llama", False, None)
        else:
            from liger_kernel.ops.swiglu import LigerSiLUMulFunction as op

            op.apply(x, other)
    (launch,) = recorder.launches
    return launch


def aa_process(options: argparse.Namespace) -> dict:
    sys.path.insert(0, str(options.liger))
    found = {}
    for name, rows, cols, calls in CASES:
        launch = launch_of(name, rows, cols)
        built = [graph_of(launch, separate, calls) for separate in (False, False, True)]
        first, same, apart = (graph for graph, _ in built)
        for buffers, second in (("same", same), ("separate", apart)):
            for title, reading in READINGS.items():
                if calls == 1 or not reading.cold:
                    key = f"{name} {rows}x{cols} x{calls} | {buffers} buffers | {title}"
                    found[key] = abba((first, second), reading, calls)
    return found


def neighbour(options: argparse.Namespace) -> dict:
    """A process that holds a context and memory and does nothing, as a judge or worker would while a replayer times."""
    import torch

    held = torch.ones(1 << 28, device="cuda")
    print("ready", flush=True)
    sys.stdin.read()
    return {"held": held.numel()}


def series(count: int, options: argparse.Namespace) -> dict:
    runs = [answer(child("aa-process", options)) for _ in range(count)]
    good = [run for run in runs if "failed" not in run]
    summary = {}
    for key in good[0] if good else ():
        rows = [run[key] for run in good]
        means = [row["mean_percent"] for row in rows]
        summary[key] = {
            "us": [row["us"] for row in rows],
            "mean_percent": means,
            "sd_within_percent": [row["sd_percent"] for row in rows],
            "mean_of_means": round(statistics.mean(means), 4),
            "sd_between": round(statistics.stdev(means), 4) if len(means) > 1 else None,
            "worst": max(means, key=abs),
            "place_percent": [round(statistics.mean(row["place_percent"][i] for row in rows), 3) for i in range(4)],
            "wall_s": statistics.median(row["wall_s"] for row in rows),
        }
    return {"processes": summary, "failed": [run for run in runs if "failed" in run]}


def aa(options: argparse.Namespace) -> dict:
    alone = series(options.processes, options)
    neighbours = [child("neighbour", options, stdin=subprocess.PIPE) for _ in range(2)]
    ready = [n.stdout.readline().strip() for n in neighbours]
    beside = series(3, options)
    for n in neighbours:
        n.communicate(timeout=60)
    return {"alone": alone, "beside_two_idle_contexts": {"ready": ready, **beside}}


# -- (d) what a start costs ----------------------------------------------------------------------------------


def start_process(options: argparse.Namespace) -> dict:
    marks = [("interpreter", ENTERED)]
    import torch

    marks.append(("import torch", time.time()))
    torch.cuda.init()
    ones = torch.ones(1024, device="cuda")
    torch.cuda.synchronize()
    marks.append(("context and first allocation", time.time()))
    (ones + 1).sum().item()
    marks.append(("first torch kernels", time.time()))
    import triton  # noqa: F401

    marks.append(("import triton", time.time()))
    op = rms_norm_op(options)
    marks.append(("import liger_kernel", time.time()))
    x, w, _ = inputs(1, "cuda")
    torch.cuda.synchronize()
    marks.append(("inputs", time.time()))
    for turn in ("first triton launch", "second triton launch"):
        op.apply(x, w, EPS, 0.0, "llama", False, None)
        torch.cuda.synchronize()
        marks.append((turn, time.time()))
    previous, phases = float(os.environ["SPAWNED"]), {}
    for name, stamp in marks:
        phases[name], previous = round(stamp - previous, 4), stamp
    phases["total"] = round(marks[-1][1] - float(os.environ["SPAWNED"]), 4)
    return phases


def medians(runs: list[dict]) -> dict:
    good = [run for run in runs if "failed" not in run]
    keys = good[0] if good else ()
    return {"median_s": {k: round(statistics.median(r[k] for r in good), 4) for k in keys}, "runs": runs}


def start(options: argparse.Namespace) -> dict:
    empty = dict(os.environ, TRITON_CACHE_DIR=tempfile.mkdtemp(dir=options.out))
    kept = dict(os.environ)
    os.environ.update(empty)
    uncached = answer(child("start-process", options))
    os.environ.update(kept)
    warm = [answer(child("start-process", options)) for _ in range(4)]
    boxed = [answer(child("start-process", options, sandbox=True)) for _ in range(4)][1:]
    bare = [answer(child("replayer", options))["seconds"] for _ in range(5)]
    return {
        "empty_triton_cache": uncached,
        "plain": medians(warm),
        "bubblewrap": medians(boxed),
        "replayer_without_torch": medians(bare),
    }


def machine(options: argparse.Namespace) -> dict:
    import torch
    import triton

    asked = "name,driver_version,clocks.sm,clocks.mem,temperature.gpu,power.draw"
    row = subprocess.run(
        ["nvidia-smi", f"--query-gpu={asked}", "--format=csv,noheader"], capture_output=True, text=True
    )
    versions = {"python": platform.python_version(), "torch": torch.__version__, "triton": triton.__version__}
    return {asked: row.stdout.strip(), "cpus": os.cpu_count(), **versions}


PARTS = {"machine": machine, "fd": fd, "replay": replayed, "aa": aa, "start": start}
CHILDREN = {
    "fd-worker": fd_worker,
    "record": record,
    "replayer": replay,
    "aa-process": aa_process,
    "neighbour": neighbour,
    "start-process": start_process,
}


def every(options: argparse.Namespace) -> None:
    for name in options.parts.split(","):
        began = time.perf_counter()
        found = answer(child(name, options), deadline=400)
        found["seconds_taken"] = round(time.perf_counter() - began, 1)
        Path(options.out, f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
        print(name, found["seconds_taken"], "s", "FAILED" if found.get("failed") else "ok", flush=True)
        print(json.dumps(found)[:1500], flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["all", *PARTS, *CHILDREN])
    parser.add_argument("--out", required=True)
    parser.add_argument("--liger", required=True)
    parser.add_argument("--bwrap", required=True)
    parser.add_argument("--channel", type=int)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--parts", default=",".join(PARTS))
    options = parser.parse_args()
    if options.part == "all":
        Path(options.out).mkdir(parents=True, exist_ok=True)
        every(options)
    else:
        print(json.dumps((PARTS | CHILDREN)[options.part](options)))


if __name__ == "__main__":
    main()
