"""The script that plays campaigns on each GPU of a machine: what it keeps, what goes on, and that it stops."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.render.scripts import RESULTS

LANES = RESULTS / "campaigns" / "lanes.sh"
STAND_IN = """#!/usr/bin/env bash
# kernelwright optimize KERNEL --repo . ...
mkdir -p optimization/$2
while [ "${@: -2:1}" = --resume ]; do
  cp "${@: -1}" optimization/$2/journal.jsonl
  set -- "${@:1:$#-2}"
done
echo "$CUDA_VISIBLE_DEVICES $*" >> optimization/$2/journal.jsonl
[ "$2" != jsd ] || { echo "jsd: running tests"; sleep 20; }
echo "$2 is done"
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A stock tree, and something that is called kernelwright."""
    stock = tmp_path / "stock"
    stock.mkdir()
    (stock / "op.py").write_text("x = 1\n", encoding="utf-8")
    who = ("-c", "user.name=k", "-c", "user.email=k@example.org")
    for words in (("init", "-q"), ("add", "-A"), (*who, "commit", "-q", "-m", "stock")):
        subprocess.run(("git", *words), cwd=stock, check=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kernelwright").write_text(STAND_IN, encoding="utf-8")
    (tmp_path / "bin" / "kernelwright").chmod(0o755)
    return tmp_path


def played(place: Path, seconds: int, *lanes: str) -> str:
    path = f"{place / 'bin'}:{os.environ['PATH']}"
    asked = ("bash", str(LANES), str(place / "stock"), str(place / "out"), str(seconds), *lanes)
    ran = subprocess.run(asked, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=True)
    return ran.stdout


def journal(place: Path, kernel: str) -> list[str]:
    return (place / "out" / kernel / "journal.jsonl").read_text(encoding="utf-8").splitlines()


def test_each_gpu_has_its_kernels_and_every_journal_comes_home(place: Path) -> None:
    said = played(place, 300, "tvd:60:1:6 geglu:60", "softmax:60:4")
    assert sorted(said.splitlines()) == ["geglu on GPU 0: exit 0", "softmax on GPU 1: exit 0", "tvd on GPU 0: exit 0"]
    assert journal(place, "tvd")[0].startswith("0 optimize tvd ") and journal(place, "tvd")[0].endswith(
        "--max-variants 1 --minutes 6"
    )
    assert journal(place, "geglu")[0].endswith("--max-variants 8")
    assert journal(place, "softmax")[0].startswith("1 optimize softmax ")
    assert (place / "out" / "softmax" / "log.txt").read_text(encoding="utf-8") == "softmax is done\n"


def test_something_else_may_run_it_and_note_its_stages(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = place / "stages.sh"
    other.write_text('echo "took 1 s" > "$STAGES"\nkernelwright "$@"\n', encoding="utf-8")
    monkeypatch.setenv("KERNELWRIGHT", f"bash {other}")
    played(place, 300, "tvd:60:1")
    assert (place / "out" / "tvd" / "stages.csv").read_text(encoding="utf-8") == "took 1 s\n"
    assert journal(place, "tvd")[0].startswith("0 optimize tvd ")


def test_a_journal_that_lies_there_goes_on(place: Path) -> None:
    (place / "out" / "tvd").mkdir(parents=True)
    (place / "out" / "tvd" / "journal.jsonl").write_text("before\n", encoding="utf-8")
    played(place, 300, "tvd:60")
    assert journal(place, "tvd")[0] == "before" and len(journal(place, "tvd")) == 2


def test_what_lies_there_to_be_tried_is_tried_first(place: Path) -> None:
    """The winner of elsewhere, a file that somebody wrote, a folder of several, or all of them."""
    found = [(place / "out").resolve() / "tvd" / name for name in ("try.jsonl", "try.py", "try")]
    found[2].mkdir(parents=True)
    for version in found[:2]:
        version.write_text("elsewhere\n", encoding="utf-8")
    played(place, 300, "tvd:60:1 geglu:60:1")
    assert journal(place, "tvd")[0].endswith(" ".join(("--max-variants 1", *(f"--try {one}" for one in found))))
    assert journal(place, "geglu")[0].endswith("--max-variants 1")


def test_options_are_given_to_each_campaign(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPTIONS", "--no-script --quiet")
    played(place, 300, "tvd:60:1 geglu:60:1")
    for kernel in ("tvd", "geglu"):
        assert journal(place, kernel)[0].endswith("--no-script --quiet --max-variants 1")


def test_the_clock_stops_a_campaign_and_what_it_wrote_is_kept(place: Path) -> None:
    began = time.monotonic()
    said = played(place, 300, "jsd:1 tvd:60")
    assert time.monotonic() - began < 18
    assert "jsd on GPU 0: exit 124" in said and "tvd on GPU 0: exit 0" in said
    assert len(journal(place, "jsd")) == 1


def test_a_line_of_its_log_may_stop_one_too(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNTIL", "running tests")
    began = time.monotonic()
    said = played(place, 300, "jsd:60 tvd:60")
    assert time.monotonic() - began < 18
    assert "jsd on GPU 0: exit 0" not in said and "tvd on GPU 0: exit 0" in said
    assert len(journal(place, "jsd")) == len(journal(place, "tvd")) == 1


def test_nothing_is_begun_when_there_is_no_time_left(place: Path) -> None:
    assert played(place, 30, "tvd:60") == ""
    assert not (place / "out" / "tvd").exists()
