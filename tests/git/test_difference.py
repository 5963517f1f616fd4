"""What a page shows of a change is what git will show of the commit."""

from __future__ import annotations

import pytest

from bot.git.difference import difference
from bot.model.variant import SourceFile
from bot.render import view
from tests.git.world import AUTHOR, DATE, World, git

PATH = "src/op.py"


def files(text: str, path: str = PATH) -> tuple[SourceFile, ...]:
    return (SourceFile(path=path, text=text),)


def numstat(world: World, before: str, after: str) -> str:
    """As git counts one commit on top of another."""
    base = world.repo.commit_files(None, {PATH: before.encode()}, "one", author=AUTHOR, date=DATE)
    head = world.repo.commit_files(base, {PATH: after.encode()}, "two", author=AUTHOR, date=DATE)
    added, removed, _ = git(world.repo.path, "diff", "--numstat", base, head).split("\t")
    return f"+{added} -{removed}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("z\nw\nz\n", "w\ny\nz\n"),
        ("one\ntwo\n", "one\n2\n"),
        ("one\ntwo", "one\ntwo\n"),
        ("one\n", "one"),
        ("", "one\n"),
        ("-- x\n++ y\n", "-- y\n"),
        ("one\ftwo\r\n\u2028three\n", "one\r\n"),
        ("a\n" * 40 + "b\n" + "c\n" * 40 + "d\n", "a\n" * 40 + "c\n" * 40),
    ],
)
def test_lines_count_as_in_the_commit(world: World, before: str, after: str) -> None:
    assert view.diff_size(difference(files(before), files(after))) == numstat(world, before, after)


def test_the_standard_library_pairs_some_lines_otherwise() -> None:
    """Why git is asked."""
    before, after = files("z\nw\nz\n"), files("w\ny\nz\n")
    assert view.diff_size(view.diff(before, after)) == "+2 -2"
    assert view.diff_size(difference(before, after)) == "+1 -1"


def test_only_what_changed_is_shown_and_under_its_own_name() -> None:
    before = (*files("x = 1\n"), *files("same\n", "src/other.py"))
    after = (*files("x = 2\n"), *files("same\n", "src/other.py"), *files("new\n", "src/new.py"))
    shown = difference(before, after)
    assert shown.splitlines() == [
        "--- a/src/op.py",
        "+++ b/src/op.py",
        "@@ -1 +1 @@",
        "-x = 1",
        "+x = 2",
        "--- a/src/new.py",
        "+++ b/src/new.py",
        "@@ -0,0 +1 @@",
        "+new",
    ]
    assert view.diff_size(shown) == "+2 -1"
    assert difference(before, before) == ""
