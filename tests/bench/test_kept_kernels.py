"""What was compiled of a source is kept for its next workers: v0's for good, a variant's for a while."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from threading import Thread

import pytest

from bot.bench import kept_kernels
from bot.bench.kept_kernels import MOST, KeptKernels

VARIANTS = [f"v{number}" for number in range(1, MOST + 2)]


class Shelf:
    """Where kernels are kept, and a worker that leaves some."""

    def __init__(self, scratch: Path) -> None:
        self.scratch, self._folder = scratch, scratch / "kernels"
        self.kept = KeptKernels(self._folder)

    def compiled(self, *names: str, text: str = "code") -> Path:
        answer = self.scratch / "answer"
        for name in names:
            (answer / name).parent.mkdir(parents=True, exist_ok=True)
            (answer / name).write_text(text)
        return answer

    def put(self, left: Path, digest: str) -> None:
        self.kept.keep(left, digest, untouched=digest == "v0")

    def keep(self, *digests: str) -> None:
        for digest in digests:
            self.put(self.compiled("KEY/_k.cubin", text=f"of {digest}"), digest)

    def lies(self) -> set[str]:
        return {place.name for place in self._folder.iterdir()} if self._folder.exists() else set()

    def laid(self, digest: str, name: str = "laid") -> Path:
        self.kept.lay(digest, self.scratch / name)
        return self.scratch / name


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


# -- who is kept ------------------------------------------------------------------------------------------------------


def test_v0_s_are_kept_for_good_and_of_all_others_the_last(shelf: Shelf) -> None:
    shelf.keep("v0", *VARIANTS[:MOST])
    assert shelf.lies() == {"v0", *VARIANTS[:MOST]}
    shelf.keep(VARIANTS[MOST])
    assert shelf.lies() == {"v0", *VARIANTS[1:]}
    shelf.keep(*(f"later-{number}" for number in range(MOST)))
    assert shelf.lies() == {"v0", *(f"later-{number}" for number in range(MOST))}


def test_who_is_kept_again_is_the_last_and_its_old_ones_are_gone(shelf: Shelf) -> None:
    first, second, *others = VARIANTS
    shelf.keep("v0", first, second, *others[:-1])
    shelf.put(shelf.compiled("OTHER/_k.cubin", text="anew"), first)
    assert [path.name for path in sorted(shelf.laid(first).rglob("*"))] == ["OTHER", "_k.cubin"]
    shelf.keep(others[-1])
    assert shelf.lies() == {"v0", first, *others}


def test_v0_that_is_kept_again_takes_the_place_of_no_variant(shelf: Shelf) -> None:
    shelf.keep("v0", *VARIANTS[:MOST], "v0")
    assert shelf.lies() == {"v0", *VARIANTS[:MOST]}
    shelf.keep(VARIANTS[MOST])
    assert "v0" in shelf.lies()


@pytest.mark.parametrize("kind", ["link", "file", "nothing"])
def test_what_is_no_folder_is_left_alone_and_takes_nothing_away(kind: str, shelf: Shelf) -> None:
    """A variant may put anything in its place."""
    shelf.keep("v0")
    left, elsewhere = shelf.scratch / "left", shelf.scratch / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "secret").write_text("of the bench")
    if kind == "link":
        left.symlink_to(elsewhere)
    elif kind == "file":
        left.write_text("")
    for digest in ("v0", "v1"):
        shelf.put(left, digest)
    assert shelf.lies() == {"v0"}
    assert (shelf.laid("v0") / "KEY/_k.cubin").read_text() == "of v0"
    assert left.is_symlink() == (kind == "link") and left.is_file() == (kind == "file")
    assert (elsewhere / "secret").exists()


@pytest.mark.parametrize(("files", "is_kept"), [(2, True), (3, False)])
def test_so_many_files_are_no_kernels(files: int, is_kept: bool, shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_kernels, "MOST_FILES", 2)
    left = shelf.compiled(*(f"KEY-{number}/_k.cubin" for number in range(files)))
    shelf.put(left, "v0")
    assert (shelf.lies(), left.exists()) == (({"v0"}, False) if is_kept else (set(), True))


def test_where_v0_left_none_no_variant_s_stay_for_good(shelf: Shelf) -> None:
    shelf.keep(*VARIANTS)
    assert shelf.lies() == set(VARIANTS[1:])


def test_what_cannot_be_kept_costs_nobody_a_measurement(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variant may take the right to move its folder away."""

    def refused(path: Path, target: Path) -> None:
        raise PermissionError(13, "Permission denied")

    shelf.keep("v0")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", refused)
        shelf.keep("v1")
    assert shelf.lies() == {"v0"}
    assert not shelf.laid("v1").exists()


@pytest.mark.parametrize("kind", ["a path too long", "too many levels", "closed"])
def test_nor_does_what_nobody_can_look_through(kind: str, shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker may leave whatever it likes."""
    shelf.keep("v0")
    place = left = shelf.compiled("KEY/_k.cubin")
    here = os.open(left, os.O_RDONLY)
    for _ in range({"a path too long": 30, "too many levels": 1200, "closed": 0}[kind]):
        name = "d" * (200 if kind == "a path too long" else 1)
        os.mkdir(name, dir_fd=here)
        deeper = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    if kind == "closed":  # root may look everywhere
        scan = os.scandir
        monkeypatch.setattr(os, "scandir", lambda at: scan(at) if Path(at) != place else scan("/proc/1/no-such"))
    shelf.put(left, "v1")
    assert (shelf.laid("v0") / "KEY/_k.cubin").read_text() == "of v0"
    shelf.laid("v1", "another")
    subprocess.run(["rm", "-rf", shelf.scratch], check=True)  # Python's own way down ends after a thousand levels


def test_v0_that_is_kept_as_a_variant_stays(shelf: Shelf) -> None:
    """Somebody asked to try it."""
    shelf.keep("v0")
    shelf.kept.keep(shelf.compiled("KEY/_k.cubin", text="of v0"), "v0", untouched=False)
    shelf.keep(*VARIANTS)
    assert "v0" in shelf.lies()


def test_what_is_being_laid_is_not_taken_away_meanwhile(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf.keep("v0", *VARIANTS[:MOST])
    link, others = os.link, list[Thread]()

    def slowly(file: Path, place: Path) -> None:
        others.append(Thread(target=shelf.keep, args=(VARIANTS[MOST],)))
        others[-1].start()
        others[-1].join(0.05)
        link(file, place)

    monkeypatch.setattr(os, "link", slowly)
    assert (shelf.laid(VARIANTS[0]) / "KEY/_k.cubin").read_text() == f"of {VARIANTS[0]}"
    others[0].join()
    assert shelf.lies() == {"v0", *VARIANTS[1:]}


# -- who finds them ---------------------------------------------------------------------------------------------------


def test_they_are_laid_under_second_names_as_they_lay(shelf: Shelf) -> None:
    shelf.put(shelf.compiled("A/_k.cubin", "A/deep/er/_k.ptx", "top.json"), "v0")
    first, second = shelf.laid("v0", "one/kernels"), shelf.laid("v0", "another/kernels")
    names = {"A/_k.cubin", "A/deep/er/_k.ptx", "top.json"}
    for place in (first, second):
        assert {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()} == names
    assert all((first / name).samefile(second / name) for name in names), "nothing is copied"


def test_each_source_finds_its_own_and_who_is_not_known_nothing(shelf: Shelf) -> None:
    shelf.keep("v0", "v1")
    assert (shelf.laid("v1") / "KEY/_k.cubin").read_text() == "of v1"
    assert not shelf.laid("v2", "nothing").exists()


def test_nothing_is_laid_where_some_lie_already(shelf: Shelf) -> None:
    shelf.keep("v0", "v1")
    place = shelf.laid("v0")
    shelf.laid("v1")
    assert (place / "KEY/_k.cubin").read_text() == "of v0"
    (shelf.scratch / "empty").mkdir()
    assert list(shelf.laid("v1", "empty").iterdir()) == []


def test_links_among_them_are_not_laid(shelf: Shelf) -> None:
    """They would show the next worker what lies outside of its cell."""
    outside = shelf.scratch / "outside"
    outside.mkdir()
    (outside / "secret").write_text("of the bench")
    left = shelf.compiled("KEY/_k.cubin")
    (left / "KEY/link").symlink_to(outside / "secret")
    (left / "folder").symlink_to(outside)
    (left / "nowhere").symlink_to("gone")
    shelf.put(left, "v0")
    assert [path.name for path in sorted(shelf.laid("v0").rglob("*"))] == ["KEY", "_k.cubin"]
