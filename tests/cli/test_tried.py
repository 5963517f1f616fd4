"""What `--try` names: a file of one's own, or the journal of another campaign."""

from __future__ import annotations

import dataclasses
import re
import shutil
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner

from bot.cli import local_desk, tried
from bot.cli.local import optimize
from bot.cli.tried import Version
from bot.errors import UserError
from bot.model.campaign import Campaign, Round, Stage
from bot.model.reasons import ReasonCode
from bot.zones.measure import Workshop
from tests.cli.checkout import OP, Checkout, two
from tests.render.scripts import RESULTS, script


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


def folder_of(here: Checkout, **files: str) -> Path:
    folder = here.root.parent / "mine"
    for path, text in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    return folder


def test_a_folder_is_tried_with_all_of_its_files(here: Checkout) -> None:
    stock = (here.root / OP).read_text("utf-8")
    mine = folder_of(here, **{OP: stock + "# mine\n"})
    assert tried.version(mine, "rms_norm", here.root) == Version("mine", files={OP: (stock + "# mine\n").encode()})
    assert here.run("--yes", "--try", str(mine), "--max-variants", "1").return_value in (0, 1)
    (played,) = here.campaign().rounds
    assert [(file.path, file.text) for file in played.variant.files] == [(OP, stock + "# mine\n")]
    asked = played.variant.hypothesis.references[0]
    assert here.git("log", "-1", "--format=%s", asked).strip() == "try mine"


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({}, "it holds no file"),
        ({OP: "x", "src/other.py": "x"}, "it holds src/other.py, which is no file of the repository"),
        ({f"{number}.py": "x" for number in range(tried.MOST_FILES + 1)}, f"more than {tried.MOST_FILES} files"),
        ({OP: "x" * (tried.MOST_BYTES + 1)}, f"holds {OP}, of more than 1 MiB"),
    ],
)
def test_a_folder_that_is_no_version_says_why_and_what_one_is(files: dict[str, str], why: str, here: Checkout) -> None:
    mine = folder_of(here, **files)
    mine.mkdir(exist_ok=True)
    with pytest.raises(UserError, match=re.escape(why)) as refused:
        tried.version(mine, "rms_norm", here.root)
    assert "as `kernelwright rebuild` writes them" in refused.value.hint


def test_a_folder_of_as_many_files_as_may_be_is_one(here: Checkout) -> None:
    names = [f"{number}.md" for number in range(tried.MOST_FILES)]
    for name in names:
        (here.root / name).write_text("as it was\n", encoding="utf-8")
    found = tried.version(folder_of(here, **dict.fromkeys(names, "x")), "rms_norm", here.root)
    assert found.files is not None and len(found.files) == tried.MOST_FILES


def test_a_file_of_as_much_as_may_be_is_one(here: Checkout) -> None:
    found = tried.version(folder_of(here, **{OP: "x" * tried.MOST_BYTES}), "rms_norm", here.root)
    assert found.files is not None and len(found.files[OP]) == tried.MOST_BYTES


def test_a_link_in_a_folder_is_not_followed(here: Checkout) -> None:
    mine = folder_of(here, **{OP: "x"})
    (mine / "README.md").symlink_to("/etc/passwd")
    with pytest.raises(UserError, match=re.escape("it holds README.md, which is a link")):
        tried.version(mine, "rms_norm", here.root)


def test_a_folder_that_rebuild_made_to_be_published_is_one(here: Checkout) -> None:
    """The journal that lies beside the files is no file of the repository, and is not tried."""
    mine = folder_of(here, **{OP: "x", "journal.jsonl": "{}\n"})
    assert tried.version(mine, "rms_norm", here.root).files == {OP: b"x"}


def test_the_folder_of_a_campaign_is_told_to_name_its_journal(here: Checkout) -> None:
    mine = folder_of(here, **{"journal.jsonl": "{}\n", "report.md": "x"})
    with pytest.raises(UserError, match=re.escape("report.md, which is no file of the repository")) as refused:
        tried.version(mine, "rms_norm", here.root)
    assert refused.value.hint.startswith(f"name {mine / 'journal.jsonl'} to have the winner of that campaign tried; ")


def made_of(campaign: Campaign, number: int) -> tuple[str, ...]:
    return tried._made_of(campaign, number)


def measured(name: str) -> Campaign:
    found: Campaign = script("campaigns").read(RESULTS / "campaigns" / name / "journal.jsonl", RESULTS).campaign
    return found


def retold(campaign: Campaign, number: int, **words: str) -> Campaign:
    """With other words in the hypothesis of one variant."""

    def told(played: Round) -> Round:
        variant = played.variant
        said = variant.model_copy(update={"hypothesis": variant.hypothesis.model_copy(update=words)})
        return played.model_copy(update={"variant": said}) if variant.number == number else played

    return campaign.model_copy(update={"rounds": tuple(map(told, campaign.rounds))})


def test_a_winner_says_of_which_changes_it_is_made_in_their_order() -> None:
    jsd = measured("jsd-g")
    steps = ("reduce_loss", "drop_clone", "scale_in_kernel", "share_exponentials")
    assert [made_of(jsd, number) for number in range(5)] == [steps[:number] for number in range(5)]
    assert made_of(retold(jsd, 2, technique="drop_clone:_jsd_kernel"), 4) == steps, "in whichever kernel"
    assert made_of(retold(jsd, 2, technique="@everyone"), 4) == (steps[0], *steps[2:]), "no words of somebody's own"


def test_two_changes_that_had_a_round_together_are_two() -> None:
    jsd = retold(measured("jsd-g"), 4, technique="together:v2+v3+v9+v")
    assert made_of(jsd, 4) == ("reduce_loss", "drop_clone", "scale_in_kernel")


def test_those_that_were_gathered_are_named_one_by_one() -> None:
    jsd = retold(measured("jsd-g"), 2, technique="gathered:drop_clone:_jsd_kernel+quick_log")
    assert made_of(jsd, 2) == ("reduce_loss", "drop_clone", "quick_log")
    parts = retold(retold(jsd, 4, technique="together:v2+v3"), 3, technique="base_two")
    assert made_of(parts, 4) == ("reduce_loss", "drop_clone", "quick_log", "base_two"), "also within another"


def test_a_winner_of_a_winner_says_what_that_one_said_or_nothing_of_either() -> None:
    jsd = measured("jsd-g")
    again = retold(jsd, 1, technique="try", title="Try 0123456789ab: quick_log, base_two")
    assert made_of(again, 2) == ("quick_log", "base_two", "drop_clone")
    assert made_of(retold(jsd, 1, technique="try", title="Try 0123456789ab"), 2) == ()


def test_its_commit_says_so_and_what_somebody_wrote_by_hand_says_nothing() -> None:
    found = Version("the winner of one", files={}, made_of=("quick_log", "base_two"))
    assert found.message == "try the winner of one\n\nMade of: quick_log, base_two\n"
    assert Version("mine.py", b"pass\n").message == "try mine.py\n"


def test_whoever_reads_of_it_is_told(here: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    words = here.idea("better", 1.2)
    own = tried.version(Path(words[1]), "rms_norm", here.root)
    monkeypatch.setattr(tried, "version", lambda *_: dataclasses.replace(own, made_of=("quick_log", "base_two")))
    done = here.run("--yes", *words, "--max-variants", "1")
    assert done.return_value == 0, done.output
    (played,) = here.campaign().rounds
    assert played.variant.hypothesis.title.endswith(": quick_log, base_two")


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
    assert "is of a campaign about rms_norm, not softmax" in str(other.exception)
    assert other.exception.hint == "name a journal of softmax with --try"
    op = here.root / OP
    op.write_text(op.read_text("utf-8") + "# another\n", "utf-8")
    here.git("commit", "--quiet", "-am", "Another base")
    moved = here.run("--fresh", "--try", found)
    assert isinstance(moved.exception, UserError)
    assert moved.exception.reason is ReasonCode.BASE_CHANGED
    sha = here.campaign().pull
    assert sha is not None and f"check out {sha.head_sha[:7]}" in moved.exception.hint
    assert "--repo" not in moved.exception.hint, "that is the repository that is optimised"
    assert sorted(path.name for path in here.folder.iterdir()) == before
