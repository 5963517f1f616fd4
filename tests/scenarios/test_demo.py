"""The demo as a newcomer runs it: real workers, real interpreter, real compiles. Minutes, so not in `make test`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


def demo(folder: Path, *words: str) -> tuple[int, dict[str, Any]]:
    """Run it from another folder, as somebody with an installed wheel would."""
    done = subprocess.run(
        [sys.executable, "-m", "bot", "demo", *words], cwd=folder, capture_output=True, text=True, check=False
    )
    summary = folder / "demo-output" / "summary.json"
    assert summary.exists(), done.stderr[-2000:]
    return done.returncode, json.loads(summary.read_text())


def git(folder: Path, *words: str) -> str:
    repo = folder / "demo-output" / "repo.git"
    return subprocess.run(["git", *words], cwd=repo, capture_output=True, text=True, check=True).stdout


def test_one_comment_becomes_one_commit_that_touches_the_kernel_alone(tmp_path: Path) -> None:
    code, summary = demo(tmp_path)
    assert code == 0
    assert summary["evidence"] == "static"
    verdicts = [variant["verdict"] for variant in summary["variants"]]
    assert len(verdicts) >= 4
    rejected = [variant for variant in summary["variants"] if variant["verdict"] == "rejected"]
    assert rejected and all(variant["findings"][0]["message"] for variant in rejected)
    new = git(tmp_path, "rev-list", f"{summary['pinned_sha']}..refs/heads/tidy-rms_norm").split()
    assert new == [summary["pushed_commit"]]
    touched = git(tmp_path, "show", "--name-only", "--format=", summary["pushed_commit"]).split()
    assert touched == ["src/sample_kernels/ops/rms_norm.py"]
    text = git(tmp_path, "show", f"{summary['pushed_commit']}:{touched[0]}")
    assert text.startswith("# Reviewed together with the launch settings")
    message = git(tmp_path, "log", "-1", "--format=%B", summary["pushed_commit"])
    assert "estimated" in message and "Evidence: static" in message
    assert (tmp_path / "demo-output" / "page.html").stat().st_size > 10_000
    assert len(summary["plots"]) == 4


def test_without_the_policy_line_the_same_campaign_pushes_nothing(tmp_path: Path) -> None:
    code, summary = demo(tmp_path, "--no-policy", "--mode", "autonomous")
    assert code == 1
    assert summary["reason_code"] == "evidence_insufficient"
    assert summary["pushed_commit"] is None
    assert git(tmp_path, "rev-parse", "refs/heads/tidy-rms_norm").strip() == summary["pinned_sha"]


@pytest.mark.parametrize(("kernel", "outcome"), [("geglu", "pushed"), ("jsd", "pushed"), ("softmax", "nothing_to_do")])
def test_every_sample_kernel_comes_to_an_end(kernel: str, outcome: str, tmp_path: Path) -> None:
    code, summary = demo(tmp_path, "--kernel", kernel, "--mode", "autonomous")
    assert (code, summary["outcome"]) == (0, outcome)
    assert (summary["pushed_commit"] is not None) == (outcome == "pushed")
