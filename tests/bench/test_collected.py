"""What pytest finds in the kernel's own test file, in the tree that the tests would run in, with none of them run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bot.bench.finish import collected
from bot.model.finalization import CommandRun
from tests.bench.test_finish import SITE, TEST, Place

PYTEST = SITE.model_copy(
    update={"test_command": ("{python}", "-m", "pytest", "-q", "-p", "no:cacheprovider", "{test}")}
)
RUNS = b"def test_it():\n    raise SystemExit('it was run')\n"


def asked(place: Place, test: bytes, *, target: bool = False) -> CommandRun:
    found = collected(
        place.repo,
        place.head(**{TEST: test}),
        PYTEST,
        python=sys.executable,
        scratch=place.scratch,
        judging=(TEST,),
        judged_by=place.target if target else None,
    )
    assert found is not None
    return found


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize(
    ("test", "code"), [(RUNS, 0), (b"import nothing_of_that_name\n", 2), (b"def helper(): pass\n", 5)]
)
def test_a_file_that_imports_and_holds_a_test_is_told_from_others(place: Place, test: bytes, code: int) -> None:
    run = asked(place, test)
    assert (run.exit_code, run.passed) == (code, code == 0), run.output
    if code == 2:
        assert "nothing_of_that_name" in run.output


def test_where_the_target_branch_judges_its_file_is_collected(place: Place) -> None:
    place.target = place.head(**{TEST: RUNS})
    assert asked(place, b"import nothing_of_that_name\n", target=True).passed


def test_another_command_is_not_asked(place: Place) -> None:
    assert collected(place.repo, place.head(), SITE, python=sys.executable, scratch=place.scratch) is None
