"""Small kernels played in a process of their own, as Triton's interpreter is turned on by a variable read at import."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
INTERPRETED = {"TRITON_INTERPRET": "1"}


def played(scene: str, *words: str, told: dict[str, str], seconds: float = 110) -> dict[str, Any]:
    """What a scene saw, which it prints as one line of JSON."""
    done = subprocess.run(
        [sys.executable, "-m", f"{__name__}.{scene}", *words],
        cwd=ROOT,
        env={**os.environ, **told},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
