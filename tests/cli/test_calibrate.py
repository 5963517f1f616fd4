"""`kernelwright calibrate` with a judge that replays noise: what is asked of it, written and printed."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner

from bot.bench import gpu as gpus
from bot.cli import calibrate
from bot.cli.entry import cli
from bot.errors import CorruptRecord, OperatorError
from bot.worker.contract.timing import OpenRequest
from tests.fakes.calibration import FakeJudge, cells, install

NULLS = ("--trials", "0", "--nulls")


@dataclass
class Ran:
    output: str
    file: Path
    judge: FakeJudge

    @property
    def told(self) -> Any:
        return json.loads(self.file.read_text(encoding="utf-8"))

    @property
    def tables(self) -> str:
        """What is printed once all is read."""
        return self.output[self.output.index("made by:") :]


def run(folder: Path, *words: str, judge: FakeJudge | None = None, seed: int = 5) -> Ran:
    judge, file = judge or FakeJudge(), folder / "found.json"
    with pytest.MonkeyPatch.context() as patch:
        install(patch, judge)
        patch.setattr(calibrate, "the_gpu", lambda instead: SimpleNamespace(name="G", uuid="GPU-1", driver="580"))
        patch.setattr(calibrate, "reserved", lambda gpu: contextlib.nullcontext())
        patch.setattr(calibrate, "make_cells", lambda python, room, drawn, gpu: (cells(room), drawn))
        given = ["calibrate", *words, "--seed", str(seed), "--json", str(file)]
        ran = CliRunner().invoke(cli, given, standalone_mode=False, catch_exceptions=False)
    return Ran(ran.output, file, judge)


def verify(*files: Path) -> str:
    words = ["verify", *map(str, files)]
    return CliRunner().invoke(cli, words, standalone_mode=False, catch_exceptions=False).output


def test_without_a_gpu_no_option_is_offered_that_it_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "find_gpus", lambda: ())
    error = CliRunner().invoke(cli, ["calibrate"], standalone_mode=False).exception
    assert isinstance(error, OperatorError)
    assert "kernelwright verify FILE" in error.hint and "--evidence" not in error.hint


# Null campaigns.


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_no_null_is_accepted_however_fast_the_best_looked(seed: int, tmp_path: Path) -> None:
    ran = run(tmp_path, *NULLS, "10", judge=FakeJudge(seed))
    assert "Null campaigns: accepted 0 of 10\n" in ran.tables
    assert ran.tables == verify(ran.file)
    found = json.loads(verify_as_json(ran.file))["nulls"]
    assert min(one["looked_percent"] for one in found["campaigns"]) > 0
    assert found["groups"][-1]["looked_percent"] > found["groups"][-1]["confirmed_percent"]
    assert [one["size_class"] for one in found["campaigns"]] == (["<20us", "~100us", ">1ms"] * 4)[:10]


def verify_as_json(file: Path) -> str:
    words = ["verify", "--json", str(file)]
    return CliRunner().invoke(cli, words, standalone_mode=False, catch_exceptions=False).output


def test_each_draws_64_others_of_those_that_were_recorded_once(tmp_path: Path) -> None:
    ran = run(tmp_path, *NULLS, "4")
    drawn = [campaign["variants"] for campaign in ran.told["nulls"]]
    assert all(len(set(some)) == 64 and set(some) <= set(range(1, 121)) for some in drawn)
    assert len({frozenset(some) for some in drawn}) == 4


@pytest.mark.parametrize(("campaigns", "sizes"), [(1, 1), (2, 2), (4, 3)])
def test_what_is_equal_is_recorded_once_in_the_sizes_that_are_asked_for(
    campaigns: int, sizes: int, tmp_path: Path
) -> None:
    recorded = run(tmp_path, *NULLS, str(campaigns)).judge.recorded
    assert len(recorded) == len(set(recorded)) == 3 + 120 * sizes


def test_a_faster_copy_among_them_is_found_and_accepted(tmp_path: Path) -> None:
    faster = range(8, 121, 8)
    ran = run(tmp_path, *NULLS, "3", judge=FakeJudge(faster=faster))
    assert "Null campaigns: accepted 3 of 3\n" in ran.tables
    assert {campaign["chosen"] for campaign in ran.told["nulls"]} <= set(faster)
    assert f"  accepted: file 1, null campaign 0 (rows short), kernel {ran.told['nulls'][0]['chosen']}\n" in ran.tables


def test_a_campaign_that_was_disturbed_counts_for_nothing_and_is_said_to(tmp_path: Path) -> None:
    # Process 0 warms up; seven belong to a campaign, and number 9 confirms the second one.
    ran = run(tmp_path, *NULLS, "3", judge=FakeJudge(voids={9}))
    assert "null campaign 2 of 3: too much of it was disturbed, it counts for nothing\n" in ran.output
    assert "Null campaigns: accepted 0 of 2\n" in ran.tables
    assert [campaign["kernel"] for campaign in ran.told["nulls"]] == ["rows short", "rows long"]


def test_two_files_add_up(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    first = run(tmp_path / "a", *NULLS, "3")
    second = run(tmp_path / "b", *NULLS, "2", judge=FakeJudge(2), seed=6)
    assert "Null campaigns: accepted 0 of 5\n" in verify(first.file, second.file)


def test_a_doctored_choice_and_doctored_blocks_are_refused(tmp_path: Path) -> None:
    ran = run(tmp_path, *NULLS, "1")
    told = ran.told
    (campaign,) = told["nulls"]
    chosen, other = campaign["chosen"], next(x for x in campaign["variants"] if x != campaign["chosen"])
    campaign["chosen"] = other
    ran.file.write_text(json.dumps(told), encoding="utf-8")
    with pytest.raises(CorruptRecord, match=f"kernel {other} was confirmed, but the blocks say kernel {chosen} was"):
        verify(ran.file)
    campaign["chosen"] = chosen
    mine = campaign["searched"]["blocks"][campaign["variants"].index(chosen)]
    for block in mine:
        block[2] *= 1.5
    ran.file.write_text(json.dumps(told), encoding="utf-8")
    with pytest.raises(CorruptRecord, match=f"kernel {chosen} was confirmed, but the blocks say kernel"):
        verify(ran.file)


# Trials.


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return run(tmp_path_factory.mktemp("both"), "--trials", "3", "--nulls", "2").told


def test_campaigns_change_nothing_of_the_trials_and_without_them_nothing_is_written_of_them(
    both: Any, tmp_path: Path
) -> None:
    ran = run(tmp_path, "--trials", "3")
    assert list(ran.told) == ["machine", "command", "trials", "truths"]
    assert "Null campaigns" not in ran.output
    assert ran.told["command"] == "kernelwright calibrate --trials 3 --seed 5"
    assert both["command"] == "kernelwright calibrate --trials 3 --nulls 2 --seed 5"
    before, after = (
        [(one["kernel"], one["planted"], len(one["readings"])) for one in told["trials"]] for told in (ran.told, both)
    )
    assert before == after
    assert both["truths"].keys() == ran.told["truths"].keys()


def test_no_process_of_a_campaign_is_another_one_s(both: Any) -> None:
    seen = Counter(one["searched"]["process"] for one in both["nulls"])
    seen.update(reading["process"] for one in both["nulls"] for reading in one["readings"])
    assert set(seen.values()) == {1} and len(seen) == 14
    others = {reading["process"] for trial in both["trials"] for reading in trial["readings"]}
    others |= {reading["process"] for some in both["truths"].values() for reading in some}
    assert not others & set(seen)


@pytest.mark.parametrize("words", [("--trials", "0"), ("--trials", "2"), ("--trials", "2", "--nulls", "1")])
def test_fewer_than_three_trials_are_none_and_no_calibration(words: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(click.BadParameter, match=r"is not in the range 3<=x<=3000, nor 0 beside --nulls"):
        run(tmp_path, *words)
    assert not (tmp_path / "found.json").exists()


# Time.


class SlowJudge(FakeJudge):
    """A second goes by in each process, and the file is looked at when one begins."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.now, self.whole = 0.0, list[int]()
        self._file = file

    def ask(self, request: Any, kind: Any) -> Any:
        if isinstance(request, OpenRequest) and request.fresh:
            self.now += 1.0
            written = self._file.exists() and json.loads(self._file.read_text(encoding="utf-8")).get("nulls", [])
            self.whole.append(len(written or []))
        return super().ask(request, kind)


@pytest.mark.parametrize(("seconds", "campaigns"), [(7.9, 1), (8.0, 2), (14.9, 2), (15.0, 3)])
def test_a_campaign_that_was_begun_is_finished_and_none_is_begun_late(
    seconds: float, campaigns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process warms up and a campaign has seven: the second begins at 8 s, the third at 15 s."""
    judge = SlowJudge(tmp_path / "found.json")
    monkeypatch.setattr(calibrate, "time", SimpleNamespace(monotonic=lambda: judge.now * 60 / seconds))
    ran = run(tmp_path, *NULLS, "4", "--minutes", "1", judge=judge)
    assert len(ran.told["nulls"]) == campaigns
    assert f"time is up: {4 - campaigns} of 4 null campaigns are left out\n" in ran.output
    assert f"Null campaigns: accepted 0 of {campaigns}\n" in ran.tables
    assert judge.whole == [0, *(done for done in range(campaigns) for _ in range(7))]


def test_campaigns_are_left_out_as_well_where_the_trials_took_all_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = SlowJudge(tmp_path / "found.json")
    monkeypatch.setattr(calibrate, "time", SimpleNamespace(monotonic=lambda: judge.now * 60))
    ran = run(tmp_path, "--trials", "3", "--nulls", "2", "--minutes", "2", judge=judge)
    assert "time is up: 2 of 3 waves are left out\n" in ran.output
    assert "time is up: 2 of 2 null campaigns are left out\n" in ran.output
    assert "nulls" not in ran.told
