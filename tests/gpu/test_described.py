"""What a kernel is told of tensors by descriptors is played on memory of the judge's own."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.worker.scenes import ROOT


def test_a_launch_with_descriptors_is_right_on_every_lane() -> None:
    command = [sys.executable, "-m", "tests.gpu.described"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {"off": [0.0, 0.0], "descriptors": 2}
