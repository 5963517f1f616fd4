"""What holds untrusted code: bubblewrap where it works, otherwise a weaker fence that says its name."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

PROBE_SECONDS = 10
SCRATCH_BYTES = 2 * 2**30
"""Size of the private /tmp inside."""
BUBBLEWRAP = "bubblewrap"
LIMITS_ONLY = "process limits only"

_ISOLATED = ("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL")
_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin")
_SETTINGS = ("/etc/ld.so.cache", "/etc/alternatives")


@dataclass(frozen=True)
class Mount:
    """A folder that the code inside may see."""

    host: Path
    inside: str
    writable: bool = False


@dataclass(frozen=True)
class Sandbox:
    name: str
    program: str = ""

    @property
    def is_strong(self) -> bool:
        return self.name == BUBBLEWRAP

    def path_of(self, mount: Mount) -> str:
        """Where the code inside finds a mount."""
        return mount.inside if self.is_strong else str(mount.host)


def _system() -> list[str]:
    arguments: list[str] = []
    for folder in _SYSTEM:
        path = Path(folder)
        if path.is_symlink():
            arguments += ["--symlink", str(path.readlink()), folder]
        elif path.is_dir():
            arguments += ["--ro-bind", folder, folder]
    for file in _SETTINGS:
        arguments += ["--ro-bind-try", file, file]
    return arguments


def _bind(mount: Mount) -> list[str]:
    return ["--bind" if mount.writable else "--ro-bind", str(mount.host), mount.inside]


def _environment(environment: Mapping[str, str]) -> list[str]:
    return [part for name, value in environment.items() for part in ("--setenv", name, value)]


def _nodes(devices: tuple[Path, ...]) -> list[str]:
    return [part for node in devices for part in ("--dev-bind", str(node), str(node))]


def confined(
    sandbox: Sandbox,
    argv: list[str],
    mounts: tuple[Mount, ...],
    environment: Mapping[str, str],
    directory: str,
    devices: tuple[Path, ...] = (),
) -> list[str]:
    """argv that runs inside. Only the system's programs, the mounts and these devices exist there; nothing of the
    network, no other process."""
    if not sandbox.is_strong:
        return argv
    binds = [part for mount in mounts for part in _bind(mount)]
    # The driver looks its own settings up there.
    nodes = [*_nodes(devices), *(["--ro-bind-try", "/sys", "/sys"] if devices else [])]
    return [
        sandbox.program,
        *_ISOLATED,
        "--clearenv",
        *_environment(environment),
        *_system(),
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        *nodes,
        "--size",
        str(SCRATCH_BYTES),
        "--tmpfs",
        "/tmp",
        *binds,
        "--chdir",
        directory,
        "--",
        *argv,
    ]


def overlooking(
    sandbox: Sandbox,
    argv: list[str],
    writable: tuple[Path, ...],
    environment: Mapping[str, str],
    directory: Path,
    devices: tuple[Path, ...] = (),
) -> list[str]:
    """argv that sees the whole machine read-only, but for these devices, and may write these folders alone: for a
    repository's own commands."""
    if not sandbox.is_strong:
        return argv
    binds = [part for path in writable for part in ("--bind", str(path), str(path))]
    return [
        sandbox.program,
        *_ISOLATED,
        "--clearenv",
        *_environment(environment),
        "--ro-bind",
        "/",
        "/",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        *_nodes(devices),
        *binds,
        "--chdir",
        str(directory),
        "--",
        *argv,
    ]


@lru_cache(maxsize=1)
def find_sandbox() -> Sandbox:
    """The strongest that a trial shows to work: Ubuntu's AppArmor rule and Docker's seccomp filter often forbid
    bubblewrap."""
    program = shutil.which("bwrap")
    if program is not None:
        strong = Sandbox(BUBBLEWRAP, program)
        trial = confined(strong, ["/bin/sh", "-c", "exit 0"], (), {"PATH": "/usr/bin:/bin"}, "/tmp")
        try:
            if subprocess.run(trial, capture_output=True, timeout=PROBE_SECONDS, check=False).returncode == 0:
                return strong
        except (OSError, subprocess.SubprocessError):
            pass
    return Sandbox(LIMITS_ONLY)
