"""A program of NVIDIA's that is asked about kernels: where it is, and which version."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bot.bench.gpu import ASK_SECONDS

_VERSION = re.compile(r"Version (\d{4})\.(\d+)")


@dataclass(frozen=True)
class Tool:
    path: Path
    version: tuple[int, int]

    @property
    def shown(self) -> str:
        return f"{self.version[0]}.{self.version[1]}"

    @property
    def home(self) -> Path:
        """What a sandbox has to show for it to start."""
        return self.path.resolve().parent


def version_in(text: str) -> tuple[int, int] | None:
    found = _VERSION.search(text)
    return (int(found[1]), int(found[2])) if found else None


def first_of(candidates: Iterable[Path]) -> Tool | None:
    """The first of these that starts and says its version."""
    for path in candidates:
        try:
            done = subprocess.run(
                [str(path), "--version"], capture_output=True, text=True, timeout=ASK_SECONDS, check=False
            )
        except (OSError, subprocess.SubprocessError):
            continue
        version = version_in(done.stdout)
        if version is not None:
            return Tool(path, version)
    return None
