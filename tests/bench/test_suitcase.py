"""A guest house travels alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bot.bench.interpreter import look_at
from bot.bench.suitcase import command, environment, pack


def packed(house: str, folder: Path) -> set[str]:
    pack(house, folder)  # type: ignore[arg-type]
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*.py")}


def test_the_judge_travels_without_the_workers_code(tmp_path: Path) -> None:
    found = packed("judge", tmp_path)
    assert "bot/judge/compare.py" in found
    assert "bot/worker/contract/codec.py" in found
    assert not any(
        name.startswith("bot/worker/") and "contract" not in name for name in found - {"bot/worker/__init__.py"}
    )


def test_the_worker_travels_without_the_judge(tmp_path: Path) -> None:
    found = packed("worker", tmp_path)
    assert "bot/worker/recorder.py" in found
    assert {name.split("/")[1] for name in found} == {"__init__.py", "worker"}


@pytest.mark.parametrize("house", ["worker", "judge"])
def test_only_the_house_is_importable_and_no_pth_code_runs(house: str, tmp_path: Path) -> None:
    pack(house, tmp_path / "case")  # type: ignore[arg-type]
    library = tmp_path / "library"
    library.mkdir()
    (library / "evil.pth").write_text(f"import pathlib; pathlib.Path({str(tmp_path / 'ran')!r}).touch()\n")
    # The house's own start is replaced, to look around from where it would begin.
    (tmp_path / "case/bot" / house / "__main__.py").write_text(
        "import importlib.util, resource, sys\n"
        "print([importlib.util.find_spec(n) is not None for n in ('bot.model', 'bot.bench', 'pytest', 'pydantic')])\n"
        "data, core = (resource.getrlimit(k)[1] for k in (resource.RLIMIT_DATA, resource.RLIMIT_CORE))\n"
        "print(sys.argv[1:], data, core)\n"
    )
    python = look_at(sys.executable).model_copy(update={"libraries": (library,)})
    argv = command(python, house, str(tmp_path / "case"), ("in", "out"), 2**30)  # type: ignore[arg-type]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, env={}, cwd=tmp_path)
    assert done.stdout.splitlines() == ["[False, False, False, False]", "['in', 'out'] 1073741824 0"]
    assert not (tmp_path / "ran").exists()
    left = list((tmp_path / "case").rglob("__pycache__"))
    assert not left or house == "judge", "a worker's bytecode would come and go beside the source of others"


def test_the_environment_is_small_and_private(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    found = environment("/tmp/home", {"TRITON_INTERPRET": "1"})
    assert "GITHUB_TOKEN" not in found
    assert found["HOME"] == found["TMPDIR"] == "/tmp/home"
    assert found["TRITON_CACHE_DIR"] == "/tmp/home/triton"
    assert found["TRITON_INTERPRET"] == "1"
