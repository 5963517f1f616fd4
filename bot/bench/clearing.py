"""Takes folders away that a worker could write into: whatever lies in them, nobody's job ends for it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


def clear(folder: Path) -> None:
    """Python's own way down ends after a thousand levels. What cannot be taken away stays."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:
        subprocess.run(["rm", "-rf", "--", str(folder)], check=False, capture_output=True)
