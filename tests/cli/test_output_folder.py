"""What an earlier run left goes; what is somebody's stays; two runs do not share a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.cli.output_folder import emptied
from bot.errors import UserError


def ours(out: Path) -> bool:
    return (out / "summary.json").exists()


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "demo-output"


def test_a_folder_is_made(out: Path) -> None:
    with emptied(out / "below", "demo", ours) as place:
        assert list(place.iterdir()) == []


def test_what_an_earlier_one_left_is_gone(out: Path) -> None:
    out.mkdir()
    (out / "summary.json").touch()
    with emptied(out, "demo", ours):
        assert list(out.iterdir()) == []


def test_a_folder_with_something_else_in_it_is_left_alone(out: Path) -> None:
    out.mkdir()
    (out / "letter.txt").write_text("dear")
    with pytest.raises(UserError, match="holds no earlier demo"), emptied(out, "demo", ours):
        pass
    assert (out / "letter.txt").read_text() == "dear"


def test_a_file_of_that_name_is_left_alone(out: Path) -> None:
    out.write_text("dear")
    with pytest.raises(UserError, match="holds no earlier demo"), emptied(out, "demo", ours):
        pass
    assert out.read_text() == "dear"


def test_a_second_one_does_not_take_the_folder_of_one_that_runs(out: Path) -> None:
    with emptied(out, "rehearsal", ours):
        (out / "summary.json").write_text("half done")
        with pytest.raises(UserError, match="another rehearsal is writing") as refused, emptied(out, "rehearsal", ours):
            pass
        assert "--out" in refused.value.hint
        assert (out / "summary.json").read_text() == "half done"
    with emptied(out, "rehearsal", ours):
        assert list(out.iterdir()) == []
