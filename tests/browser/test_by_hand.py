"""The whole of it as a newcomer has it: `kernelwright demo --interactive`, real jobs, the interpreter, a browser."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.conftest import NewReader
from tests.patience import wait_for

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
A_JOB_MS = 240_000
"""The longest job takes half a minute on two idle cores."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Started from another folder, as somebody with an installed wheel would; its address is the first line it says."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bot", "demo", "--interactive"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=(tmp_path / "told").open("w"),
        text=True,
    )
    assert process.stdout is not None
    yield process, process.stdout.readline().strip()
    if process.poll() is None:
        process.kill()
    process.wait(timeout=20)


def test_a_person_plays_it_from_the_comment_to_the_commit(
    reader: NewReader, served: tuple[subprocess.Popen[str], str], tmp_path: Path
) -> None:
    process, address = served
    assert address.startswith("http://127.0.0.1:"), (tmp_path / "told").read_text()
    one = reader().goes_to(address)
    one.page.get_by_role("link", name="Say what rms_norm is reviewed with").click()
    one.is_now("mira").says("/optimize rms_norm max_variants=2")
    one.sees("profiling the untouched kernel", within="#now", patience_ms=A_JOB_MS)
    one.sees("Shall I go on?", within="#timeline", patience_ms=A_JOB_MS)
    one.sees("waits for a word on the profile", within="#now", patience_ms=A_JOB_MS)
    one.says("/optimize approve").sees("v1", within="#now .attempts", patience_ms=A_JOB_MS)
    one.sees("compiled and checked now", within="#now .attempts", patience_ms=A_JOB_MS)
    one.sees("waits for a word on the winner", within="#now", patience_ms=A_JOB_MS)
    plot = one.page.locator("#timeline img").first
    plot.scroll_into_view_if_needed()
    wait_for(lambda: plot.evaluate("plot => plot.complete && plot.naturalWidth > 0"))
    one.says("/optimize approve").sees("waits for the last word", within="#now", patience_ms=A_JOB_MS)
    one.presses("Approve").sees("pushed 1 commit", within="#timeline", patience_ms=A_JOB_MS)
    one.sees("rms_norm: pushed", within="#now", patience_ms=A_JOB_MS)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 0
    kept = (tmp_path / "play-output" / "pull-1.html").read_text()
    assert "estimated" in kept and "<script" not in kept
    repo = tmp_path / "play-output" / "repo.git"
    log = ["git", "log", "-1", "--format=%an %B", "refs/heads/tidy-rms_norm"]
    message = subprocess.run(log, cwd=repo, capture_output=True, text=True, check=True).stdout
    assert "Approved-by: mira" in message and "Evidence: static" in message
