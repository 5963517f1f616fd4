"""What `--try` names: a file of one's own, or the journal of another campaign."""

from __future__ import annotations

import shutil
from functools import partial

import pytest
from click.testing import CliRunner

from bot.cli import local_desk
from bot.cli.local import optimize
from bot.cli.tried import Version
from bot.errors import UserError
from bot.model.campaign import Stage
from bot.model.reasons import ReasonCode
from bot.zones.measure import Workshop
from tests.cli.checkout import OP, Checkout, two


def brought(here: Checkout, name: str = "elsewhere.jsonl") -> str:
    """The journal as it would come from another machine."""
    return str(shutil.copyfile(here.folder / "journal.jsonl", here.root.parent / name))


def test_the_winner_of_another_campaign_is_tried_first(here: Checkout) -> None:
    assert here.run("--yes", *two(here)).return_value == 0
    found, was = brought(here), here.campaign()
    done = here.run("--yes", "--fresh", "--try", found, "--max-variants", "1")
    assert done.return_value == 0, done.output
    (played,) = here.campaign().rounds
    first = played.variant
    assert (first.hypothesis.technique, first.proposer) == ("try", "human")
    assert first.files == was.rounds[1].variant.files
    asked = first.hypothesis.references[0]
    assert here.git("log", "-1", "--format=%s", asked).strip() == f"try the winner of {was.id}"


def test_a_winner_that_changes_several_files_is_tried_with_all_of_them() -> None:
    assert Version("mine.py", b"pass\n").onto("ops/jsd.py") == {"ops/jsd.py": b"pass\n"}
    both = {"ops/jsd.py": b"a\n", "ops/backends/jsd.py": b"b\n"}
    assert Version("the winner of one", files=both).onto("ops/jsd.py") == both


def test_what_was_tried_before_a_stop_did_not_come_too_late(here: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped in the tests of the winner, and typed again: the search is over, and the idea was in it."""

    def cut(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    words = ["--yes", *here.idea("better", 1.2), "--max-variants", "1"]
    with monkeypatch.context() as patch:
        patch.setattr(local_desk, "Workshop", partial(Workshop, finish=cut))
        assert here.run(*words).return_value == 130
    assert here.campaign().stage is Stage.FINALIZING
    again = here.run(*words, *here.idea("later", 1.1))
    assert again.return_value == 0, again.output
    assert "later.py is not tried: the search was over already" in again.stderr
    assert "better.py is not tried" not in again.stderr


def test_a_journal_that_has_nothing_to_try_is_refused_and_moves_nothing(here: Checkout) -> None:
    assert here.run("--yes", *here.idea("worse", 2.5), "--max-variants", "1").return_value == 0
    assert here.campaign().winner is None
    lost = here.run("--fresh", "--try", brought(here, "lost.jsonl"))
    assert isinstance(lost.exception, UserError)
    assert lost.exception.reason is ReasonCode.NO_SUCH_VARIANT
    assert here.run("--yes", "--fresh", *two(here)).return_value == 0
    found, before = brought(here), sorted(path.name for path in here.folder.iterdir())
    words = ["softmax", "--repo", str(here.root), "--try", found]
    other = CliRunner().invoke(optimize, words, standalone_mode=False)
    assert isinstance(other.exception, UserError)
    assert "is of rms_norm, and this campaign of softmax" in str(other.exception)
    op = here.root / OP
    op.write_text(op.read_text("utf-8") + "# another\n", "utf-8")
    here.git("commit", "--quiet", "-am", "Another base")
    moved = here.run("--fresh", "--try", found)
    assert isinstance(moved.exception, UserError)
    assert moved.exception.reason is ReasonCode.BASE_CHANGED
    assert sorted(path.name for path in here.folder.iterdir()) == before
