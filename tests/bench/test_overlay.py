"""A variant lies over a copy of the sources, and nothing else of the machine comes along."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from bot.bench import overlay
from bot.errors import UserError
from tests.bench import tiny


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return tiny.write_tree(tmp_path / "tree")


def test_the_variants_file_replaces_its_own_and_the_rest_is_the_trees(tree: Path, tmp_path: Path) -> None:
    root = overlay.lay(tree, tiny.SITE, tiny.files("# new\n"), tmp_path / "laid")
    assert (root / "tiny/ops/softmax.py").read_text() == "# new\n"
    assert (root / "tiny/ops/settings.py").read_text() == tiny.SETTINGS
    assert (tree / tiny.OP).read_text() == tiny.SOURCE


def test_what_lies_beside_another_shares_all_but_its_own_files(tree: Path, tmp_path: Path) -> None:
    first = overlay.lay(tree, tiny.SITE, tiny.files("# one\n"), tmp_path / "0")
    second = overlay.lay(tree, tiny.SITE, tiny.files("# two\n"), tmp_path / "1", beside=first)
    op, settings = "tiny/ops/softmax.py", "tiny/ops/settings.py"
    assert [(root / op).read_text() for root in (first, second)] == ["# one\n", "# two\n"]
    assert (first / settings).samefile(second / settings) and not (first / settings).samefile(tree / "src" / settings)
    assert sorted(path.name for path in first.rglob("*")) == sorted(path.name for path in second.rglob("*"))


def test_links_are_left_behind(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tree / "src/tiny/link.py").symlink_to(tmp_path / "secret")
    (tree / "src/tiny/folder").symlink_to(tmp_path)
    root = overlay.lay(tree, tiny.SITE, tiny.files(), tmp_path / "laid")
    assert sorted(path.name for path in (root / "tiny").iterdir()) == ["__init__.py", "ops"]


def test_caches_and_version_control_are_left_behind(tree: Path, tmp_path: Path) -> None:
    for name in (".git", "__pycache__"):
        (tree / "src" / name).mkdir()
        (tree / "src" / name / "x").write_text("x")
    root = overlay.lay(tree, tiny.SITE, tiny.files(), tmp_path / "laid")
    assert [path.name for path in root.iterdir()] == ["tiny"]


def test_a_repository_in_place_of_a_package_is_refused(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overlay, "MAX_BYTES", 1000)
    with pytest.raises(UserError, match="larger than"):
        overlay.lay(tree, tiny.SITE, tiny.files(), tmp_path / "laid")
    monkeypatch.setattr(overlay, "MAX_FILES", 3)
    with pytest.raises(UserError, match="more than 3 files"):
        overlay.lay(tree, tiny.SITE, tiny.files(), tmp_path / "again")


def test_every_file_of_the_variant_is_proved(tree: Path) -> None:
    subject = overlay.subject(tiny.SITE, tiny.files(), "/cell/source")
    assert subject.module == "tiny.ops.softmax"
    assert subject.op_file == "tiny/ops/softmax.py"
    assert [(proof.path, proof.sha256) for proof in subject.files] == [
        ("tiny/ops/softmax.py", hashlib.sha256(tiny.SOURCE.encode()).hexdigest())
    ]


def test_a_file_outside_of_the_package_is_refused() -> None:
    with pytest.raises(UserError, match="not below src"):
        overlay.below(tiny.SITE, "test/test_softmax.py")
    rooted = tiny.SITE.model_copy(update={"source_root": "."})
    assert overlay.below(rooted, "tiny/x.py") == "tiny/x.py"


def test_the_base_is_read_from_the_tree(tree: Path) -> None:
    assert overlay.base_files(tree, tiny.SITE) == tiny.files()
