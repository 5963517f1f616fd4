"""The GPU of this machine as the driver names it, and the lock that lets one bench at a time have it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bot.errors import OperatorError
from bot.model.word import Word

ASK_SECONDS = 20
_QUERY = "uuid,name,driver_version,compute_cap,memory.total,mig.mode.current"
_CONTROL = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
_SLICED = " MIG"
_MINOR = re.compile(r"^Device Minor:\s*(\d+)", re.MULTILINE)


class Gpu(Word):
    uuid: str
    name: str
    driver: str
    arch: str
    """What code is compiled for, e.g. sm_90."""
    memory_mib: int
    nodes: tuple[Path, ...]
    """The device files that a process needs to use this GPU and no other."""

    @property
    def environment(self) -> dict[str, str]:
        libraries = os.environ.get("LD_LIBRARY_PATH", "")
        return {"CUDA_VISIBLE_DEVICES": self.uuid} | ({"LD_LIBRARY_PATH": libraries} if libraries else {})


def _minor_of(uuid: str) -> str | None:
    for path in Path("/proc/driver/nvidia/gpus").glob("*/information"):
        text = path.read_text(encoding="utf-8", errors="replace")
        if uuid in text and (found := _MINOR.search(text)):
            return found[1]
    return None


def _nodes(uuid: str) -> tuple[Path, ...]:
    minor = _minor_of(uuid)
    numbered = [Path(f"/dev/nvidia{minor}")] if minor else sorted(Path("/dev").glob("nvidia[0-9]*"))
    return tuple(path for path in (*numbered, *(Path("/dev") / name for name in _CONTROL)) if path.exists())


def parse(line: str) -> Gpu:
    """One line of nvidia-smi's table."""
    uuid, name, driver, capability, memory, *mig = (part.strip() for part in line.split(","))
    return Gpu(
        uuid=uuid,
        name=name + _SLICED if mig == ["Enabled"] else name,  # what runs there has a slice of it, not the GPU
        driver=driver,
        arch="sm_" + capability.replace(".", ""),
        memory_mib=int(memory),
        nodes=_nodes(uuid),
    )


def _names(word: str, number: int, gpu: Gpu) -> bool:
    if word.startswith("MIG-"):  # nvidia-smi's table has no slices, only the GPU that is cut into them
        return gpu.name.endswith(_SLICED)
    return word == str(number) or (word.startswith("GPU-") and gpu.uuid.startswith(word))


def visible(found: tuple[Gpu, ...], chosen: str | None) -> tuple[Gpu, ...]:
    """What CUDA_VISIBLE_DEVICES leaves of them, in its order. A number is nvidia-smi's; as CUDA does, the list ends at
    the first word that names none, for whoever mistyped must not get another GPU."""
    if chosen is None:
        return found
    kept: list[Gpu] = []
    for word in (part.strip() for part in chosen.split(",")):
        named = [gpu for number, gpu in enumerate(found) if _names(word, number, gpu)]
        if len(named) != 1:
            break
        kept += named
    return tuple(kept)


def find_gpus() -> tuple[Gpu, ...]:
    """Every GPU that the driver shows and CUDA_VISIBLE_DEVICES leaves; none where there is no driver."""
    try:
        done = subprocess.run(
            ["nvidia-smi", f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=ASK_SECONDS,
            check=True,
        )
        found = tuple(parse(line) for line in done.stdout.splitlines() if line.strip())
        return visible(found, os.environ.get("CUDA_VISIBLE_DEVICES"))
    except (OSError, subprocess.SubprocessError, ValueError):
        return ()


def free_mib(gpu: Gpu) -> int:
    """Of its memory, at the moment; none where the driver does not say."""
    asked = ["nvidia-smi", "-i", gpu.uuid, "--query-gpu=memory.free", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=ASK_SECONDS, check=True)
        return int(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return 0


def why_none() -> str:
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    return (
        "nvidia-smi shows none" if chosen is None else f"nvidia-smi shows none that CUDA_VISIBLE_DEVICES={chosen} names"
    )


def the_gpu(instead: str = "kernelwright doctor looks at the machine") -> Gpu:
    """The first one, or an OperatorError that offers what works without: what that is, each command knows itself."""
    found = find_gpus()
    if not found:
        raise OperatorError(
            f"no NVIDIA GPU was found here ({why_none()})",
            hint=instead,
        )
    return found[0]


@contextlib.contextmanager
def reserved(gpu: Gpu | None) -> Iterator[None]:
    """Nobody else of ours uses this GPU meanwhile; the lock goes with the process that holds it."""
    if gpu is None:
        yield
        return
    name = re.sub(r"[^\w-]", "_", gpu.uuid)
    with (Path(tempfile.gettempdir()) / f"kernelwright-{name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise OperatorError(
                f"another campaign is using {gpu.name} ({gpu.uuid})", hint="wait until it has ended and try again"
            ) from error
        yield
