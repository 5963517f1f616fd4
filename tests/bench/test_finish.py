"""FINALIZE in real worktrees: style, tests, and whose copies of them decide."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from bot.bench.finish import finish
from bot.errors import GitError
from bot.git.repo import Repo
from bot.model.finalization import Finalization, PassedFile
from bot.model.site import KernelSite
from bot.model.variant import SourceFile
from tests.git.world import raw_commit

WHO, AT = ("Ann", "ann@example.com"), "2026-01-31T12:00:00Z"
OP, TEST, OTHER, STYLE = "src/op.py", "test/test_op.py", "test/test_layer.py", "Makefile"
SITE = KernelSite(
    kernel="softmax",
    preset="toml",
    source_root="src",
    module="op",
    files=(OP,),
    test_file=TEST,
    benchmark_file="bench/op.py",
    test_command=("{python}", "-I", "-S", "{test}"),
    style_command=("{python}", "-I", "-S", STYLE),
)
"""Commands that take a hundredth of a second: a test is a script here, and so is the style check."""
STRICT = b"import sys\nsys.exit('op' not in open('src/op.py').read() or 'wrong' in open('src/op.py').read())\n"
BLIND = b"print('all is well')\n"
FAILS = b"raise SystemExit('no')\n"
RIGHT, WRONG = (SourceFile(path=OP, text=text) for text in ("op = 'right'\n", "op = 'wrong'\n"))
Tree = dict[str, bytes | None]


class Place:
    def __init__(self, root: Path) -> None:
        self.repo, self.scratch = Repo.init(root / "a.git", bare=True), root / "scratch"
        self.target = self.commit({OP: b"op = 0\n", TEST: STRICT, STYLE: BLIND})

    def commit(self, tree: Tree) -> str:
        files = {path: text for path, text in tree.items() if text is not None}
        return self.repo.commit_files(None, files, "tree\n", author=WHO, date=AT, whole_tree=True)

    def head(self, **changes: bytes | None) -> str:
        return self.commit({OP: b"op = 0\n", TEST: STRICT, STYLE: BLIND, **changes})

    def finish(
        self, head: str, file: SourceFile, *, target: bool, differs: tuple[str, ...] = (TEST,), site: KernelSite = SITE
    ) -> Finalization:
        return finish(
            self.repo,
            head,
            site,
            3,
            (file,),
            python=sys.executable,
            scratch=self.scratch,
            judging=differs,
            judged_by=self.target if target else None,
        )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_what_another_winner_compiled_is_nobody_s(place: Place) -> None:
    kept = [place.scratch / f"{name}-kernels" for name in ("tests", "untouched")]
    for folder in kept:
        folder.mkdir(parents=True)
        (folder / "poison").write_text("", encoding="utf-8")
    assert place.finish(place.head(), RIGHT, target=False, differs=()).passed
    assert not any(folder.exists() for folder in kept)


def test_a_winner_that_passes_is_finished_as_it_is(place: Place) -> None:
    done = place.finish(place.head(), RIGHT, target=False, differs=())
    assert (done.passed, done.variant, done.files) == (True, 3, (RIGHT,))
    assert [run.argv for run in done.tests] == [("python", "-I", "-S", TEST)]


def test_a_winner_that_a_test_refuses_does_not_pass(place: Place) -> None:
    done = place.finish(place.head(), WRONG, target=False, differs=())
    assert [run.passed for run in done.tests] == [False] and not done.passed


def test_a_test_that_refuses_the_winner_says_what_it_makes_of_the_kernel_as_it_was(place: Place) -> None:
    done = place.finish(place.head(), WRONG, target=False, differs=())
    assert done.untouched is not None
    assert (done.untouched.passed, done.untouched.argv, done.failed_before) == (True, done.tests[0].argv, False)


def test_a_test_that_fails_anyhow_is_told_apart(place: Place) -> None:
    done = place.finish(place.head(**{TEST: FAILS}), RIGHT, target=False, differs=())
    assert (done.passed, done.failed_before) == (False, True)
    assert done.untouched is not None and done.untouched.summary == "no"


def test_where_the_target_branch_judges_its_test_runs_on_the_kernel_as_it_was(place: Place) -> None:
    assert not place.finish(place.head(**{TEST: FAILS}), WRONG, target=True).failed_before


def test_where_all_is_well_the_kernel_as_it_was_is_left_alone(place: Place) -> None:
    assert place.finish(place.head(), RIGHT, target=False, differs=()).untouched is None


@pytest.mark.parametrize(("target", "passed"), [(False, True), (True, False)])
def test_whose_test_decides(place: Place, target: bool, passed: bool) -> None:
    """The pull request brings a test that sees nothing; the one of the target branch sees that the winner is wrong."""
    assert place.finish(place.head(**{TEST: BLIND}), WRONG, target=target).passed is passed


@pytest.mark.parametrize(("target", "passed"), [(False, False), (True, True)])
def test_whose_style_check_decides(place: Place, target: bool, passed: bool) -> None:
    done = place.finish(place.head(**{STYLE: FAILS}), RIGHT, target=target, differs=(STYLE,))
    assert done.style[-1].passed is passed


@pytest.mark.parametrize(("target", "passed"), [(False, False), (True, True)])
def test_a_file_the_target_branch_does_not_have_is_not_there(place: Place, target: bool, passed: bool) -> None:
    """Like a conftest.py that came with the pull request."""
    extra = "test/extra.txt"
    look = f"import os, sys\nsys.exit(os.path.exists({extra!r}))\n".encode()
    place.target = place.commit({OP: b"op = 0\n", TEST: look, STYLE: BLIND})
    head = place.commit({OP: b"op = 0\n", TEST: look, STYLE: BLIND, extra: b"here"})
    assert place.finish(head, RIGHT, target=target, differs=(extra,)).passed is passed


@pytest.mark.parametrize("target", [False, True])
def test_a_file_the_pull_request_dropped_comes_back(place: Place, target: bool) -> None:
    data = "test/data/expected.txt"
    look = f"import os, sys\nsys.exit(not os.path.exists({data!r}))\n".encode()
    place.target = place.commit({OP: b"op = 0\n", TEST: look, STYLE: BLIND, data: b"1"})
    head = place.commit({OP: b"op = 0\n", TEST: look, STYLE: BLIND})
    assert place.finish(head, RIGHT, target=target, differs=(data,)).passed is target


@pytest.mark.parametrize(("target", "runs"), [(False, [TEST, OTHER]), (True, [TEST])])
def test_a_test_that_only_the_pull_request_has_runs_only_where_its_own_decide(
    place: Place, target: bool, runs: list[str]
) -> None:
    site = SITE.model_copy(update={"dependent_tests": (OTHER,)})
    done = place.finish(place.head(**{OTHER: BLIND}), RIGHT, target=target, differs=(OTHER,), site=site)
    assert [run.argv[-1] for run in done.tests] == runs
    assert done.passed


def test_the_kernel_itself_is_the_winner_s_whoever_judges(place: Place) -> None:
    assert place.finish(place.head(**{TEST: BLIND}), RIGHT, target=True).files == (RIGHT,)


def hostile(place: Place, entries: list[tuple[str, str, bytes]]) -> str:
    """A head that nobody's tools would write."""
    usual = [("100644", OP, b"op = 0\n"), ("100644", STYLE, BLIND)]
    return raw_commit(place.repo.path, "refs/heads/evil", [*usual, *entries])


def test_a_link_of_the_head_in_place_of_a_test_is_replaced_not_followed(place: Place, tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.write_bytes(BLIND)
    head = hostile(place, [("120000", TEST, os.fsencode(outside))])
    assert not place.finish(head, WRONG, target=True).passed
    assert outside.read_bytes() == BLIND


def test_a_link_of_the_head_in_place_of_a_folder_is_refused(place: Place, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    head = hostile(place, [("120000", "test", os.fsencode(outside))])
    with pytest.raises(GitError, match="cannot be taken from the target branch"):
        place.finish(head, RIGHT, target=True)
    assert list(outside.iterdir()) == []


def test_a_link_in_place_of_a_folder_goes_when_it_judges_itself(place: Place, tmp_path: Path) -> None:
    """git names the link beside what the target branch has below it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    head = hostile(place, [("120000", "test", os.fsencode(outside))])
    differs = place.repo.changed(place.target, head)
    assert differs == ("test", TEST)
    assert place.finish(head, RIGHT, target=True, differs=differs).passed
    assert list(outside.iterdir()) == []


def test_a_folder_in_place_of_a_test_is_an_answer_not_a_crash(place: Place) -> None:
    head = hostile(place, [("100644", f"{TEST}/inner.txt", b"1")])
    with pytest.raises(GitError, match="cannot be taken from the target branch"):
        place.finish(head, RIGHT, target=True)


TWO = SITE.model_copy(update={"dependent_tests": (OTHER,)})


def told(
    place: Place, head: str, file: SourceFile, *earlier: PassedFile, **fields: Any
) -> tuple[Finalization, list[PassedFile]]:
    heard: list[PassedFile] = []
    where = {"python": sys.executable, "scratch": place.scratch, "earlier": earlier, "passed": heard.append, **fields}
    return finish(place.repo, head, TWO, 3, (file,), **where), heard


def test_each_file_that_passes_is_told_of_and_does_not_run_again_on_the_same_text(place: Place) -> None:
    head = place.head(**{OTHER: BLIND})
    whole, heard = told(place, head, RIGHT)
    assert whole.passed and [(one.test, one.variant, one.gpu) for one in heard] == [(TEST, 3, ""), (OTHER, 3, "")]
    assert tuple(one.run for one in heard) == whole.tests
    cut = told(place, place.head(**{OTHER: FAILS}), RIGHT)
    assert [one.test for one in cut[1]] == [TEST] and not cut[0].passed, "what fails is no news of this kind"
    again, rest = told(place, head, RIGHT, *cut[1])
    assert again.passed and [one.test for one in rest] == [OTHER]
    assert again.tests[0] == cut[1][0].run, "to the tenth of a second: it did not run"


@pytest.mark.parametrize(
    "other", [{"variant": 2}, {"source": "0" * 64}, {"gpu": "NVIDIA H200"}, {"test": "test/test_another.py"}]
)
def test_what_passed_of_another_text_or_elsewhere_runs(other: dict[str, object], place: Place) -> None:
    head = place.head(**{OTHER: BLIND})
    _, heard = told(place, head, RIGHT)
    _, rest = told(place, head, RIGHT, heard[0].model_copy(update=other))
    assert [one.test for one in rest] == [TEST, OTHER]


def test_what_passed_before_says_nothing_of_a_text_that_the_style_check_mends_otherwise(place: Place) -> None:
    head = place.head(**{OTHER: BLIND})
    _, heard = told(place, head, RIGHT)
    worse, rest = told(place, head, WRONG, *heard)
    assert not worse.passed and rest == []


MENDED = b"""import pathlib, sys
op, other = pathlib.Path('src/op.py'), pathlib.Path('src/other.py')
if 'mended' in op.read_text():
    sys.exit()
op.write_text('op = "mended and right"\\n')
other.write_text("changed as well")
sys.exit('not in the style of the house')
"""
SEES_OTHERS = b"""import sys
mended = open('src/op.py').read() == 'op = "mended and right"\\n'
sys.exit(not mended or open('src/other.py').read() != 'as it was')
"""


def test_what_the_style_check_made_of_the_kernel_is_tested_and_of_other_files_nothing(place: Place) -> None:
    head = place.head(**{"src/other.py": b"as it was", STYLE: MENDED, TEST: SEES_OTHERS})
    done = place.finish(head, RIGHT, target=False, differs=())
    assert [run.passed for run in done.style][0::3] == [False, True], "the second verdict counts"
    assert [file.text for file in done.files] == ['op = "mended and right"\n'] and done.passed


def test_a_style_check_that_fails_twice_ends_it(place: Place) -> None:
    done = place.finish(place.head(**{STYLE: FAILS}), RIGHT, target=False, differs=())
    assert len(done.style) == 4 and not done.passed


BESIDE = b"""import os, pathlib, subprocess, sys
assert pathlib.Path(os.environ['PATH'].split(os.pathsep)[0]).samefile(pathlib.Path(sys.argv[1]).parent)
assert 'LIGER_KERNEL_IMPL' not in os.environ
"""


def test_what_is_installed_beside_its_python_is_found_and_no_choice_of_ours_goes_along(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Liger's Makefile says `ruff`, and the runner's own PATH has none."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("LIGER_KERNEL_IMPL", "cutile")
    asks = SITE.model_copy(update={"style_command": (*SITE.style_command, "{python}")})
    head = place.head(**{STYLE: BESIDE, TEST: BESIDE.replace(b"sys.argv[1]", b"sys.executable")})
    assert place.finish(head, RIGHT, target=False, differs=(), site=asks).passed
