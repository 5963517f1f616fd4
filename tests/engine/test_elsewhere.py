"""The rig that holds rewrites to other libraries says what they made, and what went wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from bot.engine.transforms import TRANSFORMS
from bot.engine.transforms.rewrite import Rewrite
from tests.engine import elsewhere
from tests.engine.library import sample


@pytest.fixture
def library(tmp_path: Path) -> Path:
    folder = tmp_path / "library"
    folder.mkdir()
    text = sample("softmax")
    (folder / "a.py").write_text(text, encoding="utf-8")
    (folder / "copy.py").write_text(text, encoding="utf-8")
    (folder / "plain.py").write_text("import torch\n", encoding="utf-8")
    return folder


def run(folder: Path, *more: str) -> str:
    done = CliRunner().invoke(elsewhere.main, [str(folder), *more])
    assert done.exit_code == 0, done.output
    return done.output


def test_each_text_is_read_once_and_what_is_made_can_be_read(library: Path, tmp_path: Path) -> None:
    said = run(library, "--diffs", str(tmp_path / "out"))
    diffs = list((tmp_path / "out").rglob("*.diff"))
    assert said.endswith(f"1 files, {len(diffs)} texts, 0 wrong\n") and diffs
    assert all(path.name == "a.py.diff" and path.read_text(encoding="utf-8").startswith("--- a.py") for path in diffs)


@pytest.mark.parametrize(("text", "wrong"), [("def broken(:\n", "SyntaxError"), (None, "ZeroDivisionError")])
def test_what_raises_or_does_not_parse_is_said(
    text: str | None, wrong: str, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Careless:
        def rewrite(self, source: str) -> Rewrite | None:
            if text is None:
                raise ZeroDivisionError
            return Rewrite(text=text, kernels=(), title="", why="")

    monkeypatch.setitem(TRANSFORMS, "careless", Careless())  # type: ignore[arg-type]
    (found,) = [one for one in elsewhere.of_text("a.py", f"import triton\n# {wrong}\n") if one.rewrite == "careless"]
    assert wrong in found.wrong and not found.diff
