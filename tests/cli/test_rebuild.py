"""`kernelwright rebuild`: the measured files again, and everything that keeps them from being made."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bot.bench.measure import Bench
from bot.cli import analysing
from bot.cli.profile import profile
from bot.cli.rebuild import rebuild
from bot.errors import BotError, CorruptRecord, OperatorError, UserError
from bot.ledger import slim as slimming
from bot.model.facts import Finalized
from bot.model.profiling import Moved
from bot.model.reasons import ReasonCode
from bot.model.variant import sources_digest
from tests.cli import test_show
from tests.cli.test_show import folded, written
from tests.fakes.bench import FakeBench
from tests.render import builders as a


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A journal of a pushed campaign beside the tree that it ran on."""
    written(tmp_path / "journal.jsonl", folded())
    op = tmp_path / "stock" / a.OP_PATH
    op.parent.mkdir(parents=True)
    op.write_text(a.SOURCE, encoding="utf-8")
    return tmp_path


def typed(place: Path, *words: str) -> Result:
    journal = [] if words and not words[0].startswith("-") else [str(place / "journal.jsonl")]
    where = ["--repo", str(place / "stock")]
    where += [] if "--output" in words else ["--output", str(place / "made")]
    return CliRunner().invoke(rebuild, [*journal, *words, *where], standalone_mode=False)


def refused(place: Path, *words: str, kind: type[BotError] = UserError) -> BotError:
    error = typed(place, *words).exception
    assert isinstance(error, kind), error
    assert not (place / "made").exists() or "made" in str(error)
    assert list(place.glob(".made*")) == []
    return error


def test_the_winner_is_made_again_byte_for_byte(place: Path) -> None:
    done = typed(place)
    assert done.exit_code == 0, done.exception
    (winner,) = a.rounds()[2].variant.files
    assert (place / "made" / winner.path).read_bytes() == winner.text.encode()
    assert sources_digest((winner,)) in done.output and winner.path in done.output
    assert [path for path in (place / "made").rglob("*") if path.is_file()] == [place / "made" / winner.path]


@pytest.mark.parametrize("number", [0, 2])
def test_any_variant_that_was_measured_can_be_asked_for(number: int, place: Path) -> None:
    assert typed(place, "--variant", str(number)).exit_code == 0
    expected = a.SOURCE if number == 0 else a.rounds()[number - 1].variant.files[0].text
    assert (place / "made" / a.OP_PATH).read_text(encoding="utf-8") == expected


def test_a_folder_with_a_journal_will_do(place: Path) -> None:
    assert typed(place, str(place)).exit_code == 0


def test_what_the_style_check_mended_is_told_apart(place: Path) -> None:
    def mended(fact: object) -> object:
        if not isinstance(fact, Finalized):
            return fact
        (file,) = fact.finalization.files
        files = (file.model_copy(update={"text": file.text + "\n"}),)
        return fact.model_copy(update={"finalization": fact.finalization.model_copy(update={"files": files})})

    assert "style check" not in typed(place, "--output", str(place / "first")).output
    written(place / "journal.jsonl", tuple(mended(fact) for fact in folded()))  # type: ignore[misc]
    done = typed(place)
    assert "the style check of the repository mended it" in done.output
    assert (place / "made" / a.OP_PATH).read_text(encoding="utf-8") == a.rounds()[2].variant.files[0].text


def test_a_journal_that_is_published_keeps_no_text_and_leads_to_the_same_files(place: Path) -> None:
    assert typed(place, "--publish", "--output", str(place / "first")).exit_code == 0
    published = place / "first" / "journal.jsonl"
    text = published.read_text(encoding="utf-8")
    assert "tl.program_id" not in text and '"text":' not in text and '"sha256":' in text
    assert [json.loads(line)["seq"] for line in text.splitlines()] == list(range(len(text.splitlines())))
    done = typed(place, str(published))
    assert done.exit_code == 0, done.exception
    (winner,) = a.rounds()[2].variant.files
    assert (place / "made" / winner.path).read_bytes() == winner.text.encode()


def test_a_published_journal_is_shown_as_the_whole_one_beside_the_stock_tree(place: Path) -> None:
    assert typed(place, "--publish", "--output", str(place / "first")).exit_code == 0
    whole = test_show.shown(str(place / "journal.jsonl"), root=place / "stock")
    assert whole.exit_code == 0 and "rms_norm" in whole.output
    assert test_show.shown(str(place / "first/journal.jsonl"), root=place / "stock").output == whole.output
    elsewhere = test_show.shown(str(place / "first/journal.jsonl"), root=place / "first").exception
    assert isinstance(elsewhere, UserError) and "--repo TREE" in elsewhere.hint


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ('"edits":[[', '"edits":[[999,999,""],[', ReasonCode.ARTIFACT_REJECTED),
        ('"edits":[[', '"edits":[["a","b",1],[', ReasonCode.ARTIFACT_REJECTED),
        ('"edits":[[', '"edits":[[0,0,"#"],[', ReasonCode.BASE_CHANGED),
        ('"edits":', '"sha256":"0","edits":', ReasonCode.BASE_CHANGED),
    ],
)
def test_a_published_journal_is_held_against_its_hashes(
    before: str, after: str, reason: ReasonCode, place: Path
) -> None:
    assert typed(place, "--publish", "--output", str(place / "first")).exit_code == 0
    published = place / "first" / "journal.jsonl"
    text = published.read_text(encoding="utf-8")
    assert before in text
    published.write_text(text.replace(before, after), encoding="utf-8")
    assert refused(place, str(published), kind=BotError).reason is reason


def test_a_published_journal_needs_the_stock_tree(place: Path) -> None:
    assert typed(place, "--publish", "--output", str(place / "first")).exit_code == 0
    (place / "stock" / a.OP_PATH).write_text(a.SOURCE + "\n", encoding="utf-8")
    error = refused(place, str(place / "first"))
    assert error.reason is ReasonCode.BASE_CHANGED and "--repo" in error.hint


@pytest.mark.parametrize("change", [lambda p: p.write_text(a.SOURCE + "\n", encoding="utf-8"), Path.unlink])
def test_another_tree_is_refused(change: Callable[[Path], object], place: Path) -> None:
    change(place / "stock" / a.OP_PATH)
    error = refused(place)
    assert error.reason is ReasonCode.BASE_CHANGED
    assert a.OP_PATH in str(error) and "--repo" in error.hint and a.HEAD in error.hint


@pytest.mark.parametrize("number", ["9", "119"])
def test_a_variant_that_is_not_there_is_refused_with_those_that_are(number: str, place: Path) -> None:
    error = refused(place, "--variant", number)
    assert error.reason is ReasonCode.NO_SUCH_VARIANT
    assert f"no v{number}" in str(error) and "v0, v1, v2, v3" in error.hint


def test_a_campaign_that_accepted_nothing_has_no_winner(place: Path) -> None:
    written(place / "journal.jsonl", folded()[:4])
    error = refused(place)
    assert error.reason is ReasonCode.NO_SUCH_VARIANT and "--variant N" in error.hint


def test_a_campaign_without_a_profile_measured_nothing(place: Path) -> None:
    written(place / "journal.jsonl", folded()[:1])
    assert "measured nothing" in str(refused(place))


def test_a_folder_that_is_there_is_left_alone(place: Path) -> None:
    (place / "made").mkdir()
    (place / "made" / "mine").write_text("1", encoding="utf-8")
    error = refused(place)
    assert error.reason is ReasonCode.BAD_VALUE and "--output" in error.hint
    assert [path.name for path in (place / "made").iterdir()] == ["mine"]


def test_a_link_to_nowhere_is_there_as_well(place: Path) -> None:
    (place / "made").symlink_to(place / "nowhere")
    assert "is there already" in str(refused(place))
    assert not (place / "nowhere").exists()


def test_a_place_where_nothing_can_be_written(place: Path) -> None:
    (place / "file").write_text("1", encoding="utf-8")
    error = refused(place, "--output", str(place / "file" / "folder"), kind=OperatorError)
    assert "--output" in error.hint


def test_the_folders_above_it_are_made(place: Path) -> None:
    made = place / "no" / "such" / "folder"
    assert typed(place, "--output", str(made)).exit_code == 0
    assert (made / a.OP_PATH).is_file()


def test_a_journal_that_is_not_there(place: Path) -> None:
    """Other commands read journals as this one does, so the hint names none of them."""
    error = refused(place, str(place / "nothing"))
    assert "journal.jsonl" in error.hint and "kernelwright " not in error.hint
    assert error.reason is ReasonCode.NOT_FOUND


@pytest.mark.parametrize(
    ("damage", "said", "next_step"),
    [
        (lambda text: text[:-20], "has no end", "it was cut"),
        (lambda text: text.replace('"seq":3', '"seq":4', 1), "seq", "changed after it was written"),
        (lambda text: text + '{"no": "fact"}\n', "line", "it was cut"),
        (lambda text: text + "(\n", "line", "it was cut"),
        (lambda text: text.replace('{"schema_version":1,"seq":3', "(", 1), "line 4", "changed after it was written"),
        (lambda text: text.replace("{", "(", 1), "line 1", "name the journal.jsonl of a campaign"),
        (lambda text: "# A title\n" + text, "line 1", "name the journal.jsonl of a campaign"),
        (lambda text: text + "\u202e\n", "not ASCII", "name the journal.jsonl of a campaign"),
    ],
)
@pytest.mark.parametrize("slim", [False, True])
def test_a_damaged_journal_is_refused(
    damage: Callable[[str], str], said: str, next_step: str, slim: bool, place: Path
) -> None:
    path = place / "journal.jsonl"
    text = path.read_text(encoding="utf-8")
    text = slimming.slim(text, {a.OP_PATH: (place / "stock" / a.OP_PATH).read_text("utf-8")}) if slim else text
    path.write_text(damage(text), encoding="utf-8")
    error = refused(place, kind=CorruptRecord)
    assert error.reason is ReasonCode.ARTIFACT_REJECTED and next_step in error.hint
    assert said in str(error) or slim, "an unfinished line of a slim one cannot even be taken apart"
    assert str(error).startswith("journal.jsonl: ")


@pytest.mark.parametrize("slim", [False, True])
def test_a_journal_that_was_cut_is_read_as_its_hint_says(slim: bool, place: Path) -> None:
    """Without its last line."""
    path = place / "journal.jsonl"
    text = path.read_text(encoding="utf-8")
    text = slimming.slim(text, {a.OP_PATH: (place / "stock" / a.OP_PATH).read_text("utf-8")}) if slim else text
    *whole, last = text.splitlines(keepends=True)
    path.write_text("".join(whole) + last[: len(last) // 2], encoding="utf-8")
    error = refused(place, kind=CorruptRecord)
    assert f"line {len(whole) + 1} " in str(error) and f"delete line {len(whole) + 1}," in error.hint
    path.write_text("".join(whole), encoding="utf-8")
    assert typed(place).exit_code == 0


def test_a_tree_of_another_library_is_told_as_such(place: Path) -> None:
    path = place / "journal.jsonl"
    stock = (place / "stock" / a.OP_PATH).read_text("utf-8")
    path.write_text(slimming.slim(path.read_text(encoding="utf-8"), {a.OP_PATH: stock}), encoding="utf-8")
    (place / "stock" / a.OP_PATH).unlink()
    error = refused(place)
    assert error.reason is ReasonCode.BASE_CHANGED and "--repo TREE" in error.hint
    assert str(error) == f"{a.OP_PATH} is not in this tree, and journal.jsonl is of a library that has it"


@pytest.mark.parametrize(("number", "kind"), [(3, "round_opened"), (0, "profiled")])
def test_a_text_that_is_not_the_measured_one_is_refused(number: int, kind: str, place: Path) -> None:
    path = place / "journal.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for line in lines:
        fact = line["fact"]
        if fact["kind"] == kind and fact.get("variant", {"number": number})["number"] == number:
            files = fact["variant"]["files"] if number else fact["profile"]["sources"]
            files[0]["text"] += "#"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    error = refused(place, kind=CorruptRecord)
    assert f"v{number} hash to" in str(error) and "changed after it was written" in error.hint


@pytest.mark.parametrize("source", ["", "0" * 64])
def test_v0_of_another_machine_is_of_the_same_text(source: str, place: Path) -> None:
    path = place / "journal.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    (baseline,) = (line["fact"]["profile"]["baseline"] for line in lines if line["fact"]["kind"] == "profiled")
    fact = {"kind": "machine_changed", "order": "o", "baseline": {**baseline, "source": source or baseline["source"]}}
    lines.append({**lines[-1], "seq": len(lines), "fact": fact})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    if source:
        assert "the texts of v0 hash to" in str(refused(place, kind=CorruptRecord))
    else:
        assert typed(place).exit_code == 0


def shown(place: Path, kernel: str, *words: str) -> Result:
    where = ["--journal", str(place / "journal.jsonl"), "--repo", str(place / "stock")]
    return CliRunner().invoke(profile, [kernel, *where, *words], standalone_mode=False)


def test_what_a_campaign_saw_before_its_first_variant_can_be_read_again(place: Path) -> None:
    done = shown(place, "rms_norm", "--json")
    assert done.exception is None
    told = json.loads(done.output)
    assert told["kernel"] == "rms_norm"
    assert told["diagnosis"]["bottleneck"] == a.profile().diagnosis.bottleneck.value


def test_a_journal_of_another_kernel_is_answered_with_the_line_that_works(place: Path) -> None:
    error = shown(place, "softmax").exception
    assert isinstance(error, UserError)
    assert "is of a campaign about rms_norm, not softmax" in str(error)
    assert error.hint.startswith("kernelwright profile rms_norm")


def test_a_journal_without_a_profile_is_told_so(place: Path) -> None:
    written(place / "journal.jsonl", folded()[:1])
    error = shown(place, "rms_norm").exception
    assert isinstance(error, UserError) and "holds no profile" in str(error)


def test_the_bytes_of_a_journal_are_counted_as_they_are_today(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By an interpreter, of the sources that the journal names; nothing else of the profile changes."""
    case = a.profile().baseline.cases[0]
    opened: list[tuple[object, ...]] = []

    class Counting(FakeBench):
        moved = (Moved(case=case.case, kernel=case.launches[0].kernel, read_bytes=7e6, written_bytes=3e6),)

    def open_counting(*where: object) -> Bench:
        opened.append(where)
        return Counting(*where)  # type: ignore[arg-type]

    monkeypatch.setattr(analysing, "open_static_bench", open_counting)
    before, after = (
        json.loads(shown(place, "rms_norm", "--json").output),
        shown(place, "rms_norm", "--recount", "--json"),
    )
    assert after.exception is None
    told = json.loads(after.output)
    (counted,) = told.pop("traffic")
    assert (counted["counted_read"], counted["counted_written"], counted["again"]) == (7e6, 3e6, 0.0)
    assert before.pop("traffic") == [] and told == before
    assert [(root, arch) for root, _, _, arch, *_ in opened] == [(place / "stock", a.profile().baseline.runner.arch)]

    shown(place, "rms_norm", "--recount", "--out", str(place / "made"))
    assert json.loads((place / "made" / "profile.json").read_text(encoding="utf-8"))["traffic"] == [counted]


def test_bytes_that_cannot_be_counted_are_told_so(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*where: object) -> Bench:
        raise OperatorError("no torch there", hint="install it")

    monkeypatch.setattr(analysing, "open_static_bench", fails)
    error = shown(place, "rms_norm", "--recount").exception
    assert isinstance(error, OperatorError) and "--python" in error.hint


def test_only_a_journal_can_be_counted_again(place: Path) -> None:
    words = ["rms_norm", "--recount", "--repo", str(place / "stock")]
    error = CliRunner().invoke(profile, words, standalone_mode=False).exception
    assert isinstance(error, UserError) and "--recount is for a journal" in str(error)
