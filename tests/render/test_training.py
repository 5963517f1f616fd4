"""A mini-model with all winners, stock beside it: which winners, in one tree; whether two loss curves are the same."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from bot.campaign.machine import fold
from bot.model.campaign import Campaign
from tests.cli.test_show import folded, written
from tests.render import builders as a
from tests.render.scripts import script
from tests.render.test_campaigns_table import FIRST, SECOND, TABLE, facts, journal, renamed, text_of, until, write

TRAIN, WINNERS, PROCESS = (script("training", name) for name in ("train", "winners", "process"))


# Which campaign of a kernel counts


def picked(folder: Path, *, untested: bool = False) -> tuple[dict[str, tuple[str, int, bool]], list[str]]:
    taken, without = WINNERS.picked(TABLE.read_all(folder), untested=untested)
    return {one.kernel: (one.folder, one.variant, one.tested) for one in taken}, without


def test_a_winner_that_passed_the_library_s_tests_is_taken(tmp_path: Path) -> None:
    write(tmp_path, "a", text_of(FIRST))
    assert picked(tmp_path) == ({"rms_norm": ("a", 3, True)}, [])


def test_of_two_campaigns_the_last_that_came_to_its_end_counts_as_in_the_tables(tmp_path: Path) -> None:
    """The later one's tests failed: there is nothing of the kernel, whatever the earlier one gave."""
    write(tmp_path, "a", text_of(FIRST))
    write(tmp_path, "b", text_of(SECOND))
    assert picked(tmp_path) == ({}, ["rms_norm"])
    assert TABLE.gave(TABLE.read_all(tmp_path)) is None


def test_what_was_not_tested_yet_is_taken_where_it_is_asked_for(tmp_path: Path) -> None:
    write(tmp_path, "searching", journal(until(facts(FIRST), "variant_judged", 3)))
    write(tmp_path, "ready", renamed(until(facts(SECOND), "search_ended"), "softmax"))
    assert picked(tmp_path) == ({}, ["rms_norm", "softmax"])
    expected = {"rms_norm": ("searching", 3, False), "softmax": ("ready", 4, False)}
    assert picked(tmp_path, untested=True) == (expected, [])


def test_what_failed_its_tests_is_never_taken(tmp_path: Path) -> None:
    write(tmp_path, "a", text_of(SECOND))
    assert picked(tmp_path, untested=True) == ({}, ["rms_norm"])


def test_a_campaign_that_accepted_nothing_gives_nothing(tmp_path: Path) -> None:
    """v2 was timed and refused: it is the best of those timed, and no winner."""
    write(tmp_path, "a", journal(until(facts(FIRST), "variant_judged", 2)))
    assert picked(tmp_path, untested=True) == ({}, ["rms_norm"])


# The tree


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stock tree, and a pushed campaign on it as the tables would read it."""
    written(tmp_path / "campaigns/one/journal.jsonl", folded())
    for path, text in {
        a.OP_PATH: a.SOURCE,
        "src/sample_kernels/other.py": "OTHER = 1\n",
        ".git/HEAD": "main\n",
    }.items():
        (tmp_path / "stock" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "stock" / path).write_text(text, encoding="utf-8")
    campaign = fold(Campaign(id=a.CAMPAIGN_ID), folded())
    one = SimpleNamespace(kernel="rms_norm", folder="one", number=3, is_over=True, campaign=campaign)
    two = SimpleNamespace(**{**vars(one), "folder": "two"})
    monkeypatch.setattr(
        WINNERS, "TABLE", SimpleNamespace(read_all=lambda folder: [two if folder.name == "later" else one])
    )
    return tmp_path


def made(place: Path, *words: str) -> int:
    places = {"--stock": place / "stock", "--out": place / "made", "--campaigns": place / "campaigns"}
    status: int = WINNERS.main([*(str(word) for pair in places.items() for word in pair), *words])
    return status


def refused(place: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    before = sorted(place.iterdir())
    assert made(place, *words) == 2
    assert sorted(place.iterdir()) == before
    return capsys.readouterr().err


def test_the_tree_is_the_stock_one_with_the_winner_s_file(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert made(place) == 0
    (winner,) = a.rounds()[2].variant.files
    assert (place / "made" / a.OP_PATH).read_text(encoding="utf-8") == winner.text != a.SOURCE
    assert (place / "made/src/sample_kernels/other.py").read_text(encoding="utf-8") == "OTHER = 1\n"
    assert not (place / "made/.git").exists()
    assert capsys.readouterr().out == "rms_norm: v3 of one, tests passed\nnothing of: none\n"


def test_what_is_in_it_is_what_a_run_expects(place: Path) -> None:
    made(place)
    told = TRAIN.same_trees(place / "stock", place / "made")
    assert [(one["kernel"], one["variant"], one["tested"]) for one in told["winners"]] == [("rms_norm", 3, True)]
    assert [(one["path"], one["kernels"]) for one in told["files"]] == [(a.OP_PATH, ["rms_norm"])]


def test_another_stock_tree_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "stock" / a.OP_PATH).write_text(a.SOURCE + "\n", encoding="utf-8")
    assert "is not what campaign" in refused(place, capsys)


def test_a_journal_whose_hash_does_not_agree_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = place / "campaigns/one/journal.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for line in lines:
        if line["fact"]["kind"] == "round_opened" and line["fact"]["variant"]["number"] == 3:
            line["fact"]["variant"]["files"][0]["text"] += "#"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    assert "one: the texts of v3 hash to" in refused(place, capsys)


def test_nothing_is_written_over(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "made").mkdir()
    assert "is there already" in refused(place, capsys)


def test_a_campaign_can_be_left_out_by_a_name_that_is_there(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "has a winner" in refused(place, capsys, "--without", "one")
    assert "is called another" in refused(place, capsys, "--without", "another")


def test_of_two_folders_of_journals_the_first_counts(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(place / "campaigns", place / "later")
    (place / "later/one").rename(place / "later/two")
    folders = [option for name in ("campaigns", "later") for option in ("--campaigns", str(place / name))]
    trees = ["--stock", str(place / "stock"), "--out", str(place / "both")]
    assert WINNERS.main([*trees, *folders]) == 0
    assert capsys.readouterr().out == "rms_norm: v3 of one, tests passed\nnothing of: none\n"
    assert WINNERS.main([*trees[:2], "--out", str(place / "other"), *folders, "--without", "one"]) == 0
    assert "rms_norm: v3 of two, tests passed" in capsys.readouterr().out


def test_two_winners_may_share_a_file_where_they_agree_or_change_other_lines(tmp_path: Path) -> None:
    (tmp_path / "mhc.py").write_bytes(b"stock")
    (tmp_path / "own.py").write_bytes(b"stock")
    one, other = {"mhc.py": b"new"}, {"mhc.py": b"new", "own.py": b"stock"}
    assert WINNERS.together(tmp_path, {"pre": one, "post": other}) == {"mhc.py": (b"new", ["pre", "post"])}
    untouched = {"mhc.py": b"stock"}
    assert WINNERS.together(tmp_path, {"pre": one, "post": untouched}) == {"mhc.py": (b"new", ["pre"])}
    with pytest.raises(WINNERS.Refused, match=r"post changes the same lines of mhc\.py as pre: leave one out with"):
        WINNERS.together(tmp_path, {"pre": one, "post": {"mhc.py": b"newer"}})
    lines = [b"a = 1\n", b"\n", b"\n", b"b = 2\n", b"\n", b"\n", b"c = 3\n"]
    (tmp_path / "mhc.py").write_bytes(b"".join(lines))
    three = {
        kernel: {"mhc.py": b"".join(lines).replace(line, line.replace(b" = ", b" = 1"))}
        for kernel, line in (("a", lines[0]), ("b", lines[3]), ("c", lines[6]))
    }
    both = b"a = 11\n\n\nb = 12\n\n\nc = 13\n"
    assert WINNERS.together(tmp_path, three) == {"mhc.py": (both, ["a", "b", "c"])}
    with pytest.raises(WINNERS.Refused, match=r"d changes the same lines of mhc\.py as a and b and c"):
        WINNERS.together(tmp_path, {**three, "d": {"mhc.py": both.replace(b"12", b"22")}})


# The trees of a run


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda place: (place / "made/src/sample_kernels/other.py").write_text("OTHER = 2\n"), "is of no winner"),
        (lambda place: (place / "stock/src/sample_kernels/more.py").write_text("MORE = 1\n"), "is of no winner"),
        (lambda place: (place / "made" / a.OP_PATH).write_text("X = 1\n"), "is not what winners.json says"),
        (lambda place: (place / "made" / a.OP_PATH).write_text(a.SOURCE), "is not what winners.json says"),
        (lambda place: (place / "stock" / a.OP_PATH).write_text("X = 1\n"), "is not what winners.json says"),
        (lambda place: (place / "made/winners.json").unlink(), "has no winners.json"),
    ],
)
def test_trees_that_differ_in_anything_else_are_refused(
    change: Callable[[Path], object], said: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(place)
    change(place)
    assert trained(place) == 2 and said in capsys.readouterr().err


# The comparison


LOSSES = (10.4, 9.1, 8.0)


def run(arm: str, losses: tuple[float, ...] = LOSSES, ms: float | None = 20.0, **more: Any) -> dict[str, Any]:
    steps = [{"losses": {"loss": loss, "jsd": 0.5}, "gradient": 2.0, "ms": ms} for loss in losses]
    text = "winners hash" if arm == "winners" else "stock hash"
    files = {"sample_kernels/ops/rms_norm.py": text, "sample_kernels/other.py": "one hash"}
    same = {"start": 7, "data": "d", "parameters": 1000, "gpu": "A GPU", "torch": "2", "triton": "3", "python": "3.12"}
    launched = {"sample_kernels/ops/rms_norm.py": ["_forward", "_backward"]}
    return {"arm": arm, **same, "steps": steps, "files": files, "launched": launched, **more}


def five(winners: tuple[float, ...] = LOSSES, **more: Any) -> list[dict[str, Any]]:
    return [run(arm, winners if arm == "winners" else LOSSES, **more) for arm in TRAIN.ORDER]


TOLD = {
    "winners": [{"kernel": "rms_norm", "folder": "one", "variant": 3, "tested": True}],
    "files": [{"path": "src/sample_kernels/ops/rms_norm.py", "stock": "stock hash", "winner": "winners hash",
               "kernels": ["rms_norm"]}],
}  # fmt: skip


def said(runs: list[dict[str, Any]], kind: str = "bfloat16", told: dict[str, Any] | None = None) -> tuple[str, int]:
    text, status = TRAIN.page(runs, told or TOLD, TRAIN.TOLERANCES[kind])
    return text, status


def cells(page: str, first: str) -> list[list[str]]:
    """The table whose first head begins so, without its rule."""
    start = page.index(f"| {first}")
    lines = page[start:].split("\n\n")[0].splitlines()
    return [line.strip("| ").split(" | ") for i, line in enumerate(lines) if i != 1]


def test_curves_that_are_the_same_say_so_step_by_step() -> None:
    text, status = said(five((10.41, 9.1, 8.0)))
    head, *lines = cells(text, "Step |")
    assert head == ["Step", "Stock loss", "Winners' loss", "Difference", "Tolerance"]
    assert lines[0] == ["1", "10.400000", "10.410000", "1.00e-02", "1.05e-01"]
    assert [line[0] for line in lines] == ["1", "2", "3"]
    assert status == 0
    assert text.splitlines()[-1].startswith("SAME: every loss of 3 steps is within the tolerance of test/convergence/")


@pytest.mark.parametrize(("loss", "status"), [(8.08, 0), (7.92, 0), (8.0818, 0), (8.0819, 1), (7.9199, 0), (7.9198, 1)])
def test_a_loss_may_be_as_far_off_as_the_library_allows_and_no_further(loss: float, status: int) -> None:
    """1e-3 + 1e-2 of the winners' loss: 8.0818 is allowed 0.081818, 7.9199 is allowed 0.080199."""
    text, found = said(five((10.4, 9.1, loss)))
    assert found == status
    assert ("DIFFERENT: loss at step 3 is 8.000000 and" in text.splitlines()[-1]) == bool(status)


def test_float32_is_held_to_its_own_tolerance() -> None:
    assert said(five((10.4, 9.1, 8.00007)), "float32")[1] == 0
    assert said(five((10.4, 9.1, 8.0001)), "float32")[1] == 1
    assert said(five((10.4, 9.1, 8.0001)), "bfloat16")[1] == 0


def test_each_part_of_the_sum_is_held_to_it() -> None:
    runs = five()
    runs[1]["steps"][1]["losses"]["jsd"] = 0.51
    text, status = said(runs)
    assert status == 1
    assert text.splitlines()[-1].startswith("DIFFERENT: jsd at step 2 is 0.500000 and 0.510000, 1.00e-02 apart")


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_every_process_is_held_to_it_and_not_the_first_two_alone(number: int) -> None:
    runs = five()
    runs[number]["steps"][2]["losses"]["loss"] = 9.0
    assert said(runs)[1] == 1


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("arms", [("winners",), ("stock", "winners")])
def test_what_is_no_number_is_not_the_same(broken: float, arms: tuple[str, ...]) -> None:
    runs = five()
    for one in (one for one in runs if one["arm"] in arms):
        one["steps"][1]["losses"]["loss"] = broken
    text, status = said(runs)
    assert status == 1 and "DIFFERENT: loss at step 2" in text.splitlines()[-1]


def test_how_far_a_tree_is_from_itself_stands_beside_it() -> None:
    runs = five()
    runs[3]["steps"][0]["losses"]["loss"] = 10.43
    runs[2]["steps"][1]["losses"]["jsd"] = 0.502
    _, *lines = cells(said(runs)[0], "Loss |")
    assert [line[0] for line in lines] == [
        "loss, any stock against any winners'",
        "jsd, any stock against any winners'",
        "loss, stock against itself",
        "jsd, winners against itself",
        "loss, stock against stock begun a rounding error away",
    ]
    assert lines[0][1:5] == ["1", "10.430000", "10.400000", "3.00e-02"]
    assert lines[2][1:5] == ["1", "10.400000", "10.430000", "3.00e-02"]
    assert lines[3][1:5] == ["2", "0.500000", "0.502000", "2.00e-03"]


def test_how_far_a_rounding_error_leads_stands_beside_what_differs_and_excuses_nothing() -> None:
    runs = five((10.4, 9.1, 8.5))
    text, status = said(runs)
    assert status == 1
    assert "Stock begun a rounding error away stays within it everywhere. 1 of 1" in text.splitlines()[-1]
    runs[4]["steps"][1]["losses"]["jsd"] = 0.52
    runs[4]["steps"][2]["losses"]["loss"] = 8.3
    text, status = said(runs)
    assert status == 1
    assert text.splitlines()[-1].count("leaves it as well, in 2 of 6 losses: loss at step 3 by 3.00e-01") == 1
    assert cells(text, "Loss |")[-1][1:5] == ["3", "8.000000", "8.300000", "3.00e-01"]


def test_a_rounding_error_is_not_held_against_the_winners() -> None:
    runs = five()
    runs[4]["steps"][2]["losses"]["loss"] = 12.0
    assert said(runs)[1] == 0


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float32])
def test_a_nudge_is_the_last_place_of_one_number(kind: torch.dtype) -> None:
    before = [torch.tensor([[1.5, 2.0], [3.0, 4.0]]), torch.tensor([-0.25, 7.0]), torch.tensor([0.0])]
    after = [torch.nn.Parameter(one.to(kind)) for one in before]
    PROCESS.nudge(after)
    step = torch.finfo(kind).eps
    assert after[0].tolist() == [[1.5 + step, 2.0], [3.0, 4.0]]
    assert after[1].tolist() == [-0.25 * (1 + step), 7.0]
    assert 0 < after[2].item() < 1e-38


def test_gradients_are_told_without_a_verdict() -> None:
    runs = five()
    runs[2]["steps"][0]["gradient"] = 3.0
    text, status = said(runs)
    assert "at most 5.00e-01 of the stock's apart" in text and status == 0


@pytest.mark.parametrize("broken", [0.0, math.nan, math.inf])
def test_gradients_that_are_no_numbers_are_not_passed_over(broken: float) -> None:
    runs = five()
    runs[0]["steps"][1]["gradient"] = broken
    assert "at most inf of the stock's apart" in said(runs)[0]


# Times


def test_step_times_are_of_both_processes_with_their_spread() -> None:
    arms = zip(TRAIN.ORDER, (20.0, 16.0, 18.0, 22.0, 99.0), strict=True)
    runs = [run(arm, ms=ms) for arm, ms in arms]
    runs[0]["steps"][2]["ms"] = 31.0
    text, _ = said(runs)
    assert cells(text, "Step time, ms")[1:] == [
        ["stock", "22.00", "20.00 to 31.00", "20.00, 22.00"],
        ["winners", "17.00", "16.00 to 18.00", "16.00, 18.00"],
    ]
    assert "Median of stock's steps over the winners': 1.294. Two processes each, no interval." in text


def test_the_interpreter_times_nothing_and_says_so() -> None:
    text, status = said(five(ms=None, gpu=None))
    assert "Step time: none. Triton's interpreter on a CPU ran this" in text and status == 0
    assert "on Triton's interpreter on a CPU; torch 2" in text and " ms" not in text


# What ran in it


def test_every_file_a_kernel_was_launched_from_is_named_with_both_hashes() -> None:
    runs = five()
    for one in runs:
        one["launched"]["sample_kernels/other.py"] = ["_third"]
    assert cells(said(runs)[0], "File below src")[1:] == [
        ["sample_kernels/ops/rms_norm.py", "stock hash", "**winners hash**", "_forward, _backward"],
        ["sample_kernels/other.py", "one hash", "the same", "_third"],
    ]


def test_a_winner_that_is_not_in_the_model_is_named() -> None:
    mhc = {"kernel": "mhc_pre", "folder": "two", "variant": 1, "tested": False}
    file = {"path": "src/sample_kernels/ops/mhc.py", "stock": "x", "winner": "y", "kernels": ["mhc_pre"]}
    told = {"winners": [*TOLD["winners"], mhc], "files": [*TOLD["files"], file]}
    text, status = said(five(), told=told)
    assert cells(text, "Winner |")[1:] == [
        ["rms_norm", "v3 of one", "passed", "_forward, _backward"],
        ["mhc_pre", "v1 of two", "**not run yet**", "**none**"],
    ]
    assert status == 0
    assert text.splitlines()[-1].endswith("1 of 2 winners ran in it; NOT IN THIS MODEL: mhc_pre.")


# The whole


def trained(place: Path, *words: str) -> int:
    trees = ["--stock", str(place / "stock"), "--winners", str(place / "made")]
    status: int = TRAIN.main([*trees, "--out", str(place / "out"), "--steps", "3", *words])
    return status


@pytest.fixture
def acted(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, list[dict[str, Any]]]]:
    """Both trees, and processes that leave what they are told to."""
    made(place)
    (file,) = TRAIN.manifest(place / "made")["files"]
    runs = five()
    for one in runs:
        one["files"] = {"sample_kernels/ops/rms_norm.py": file["winner" if one["arm"] == "winners" else "stock"]}

    def ran(asked: Any, scratch: Path, number: int, arm: str) -> dict[str, Any]:
        assert runs[number - 1]["arm"] == arm
        return runs[number - 1]

    monkeypatch.setattr(TRAIN, "ran", ran)
    yield place, runs


def test_a_run_keeps_every_step_and_prints_its_verdict_last(acted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    place, runs = acted
    capsys.readouterr()
    assert trained(place) == 0
    printed = capsys.readouterr().out
    kept = json.loads((place / "out/training.json").read_text(encoding="utf-8"))
    assert kept["runs"] == runs and kept["order"] == ["stock", "winners", "winners", "stock", "nudged"]
    assert kept["asked"]["type"] == "bfloat16" and kept["tolerance"]["relative"] == 1e-2
    assert (place / "out/training.md").read_text(encoding="utf-8") == printed
    assert printed.splitlines()[-1].endswith("1 of 1 winners ran in it.")


def test_a_run_whose_losses_differ_ends_with_one(acted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    place, runs = acted
    runs[2]["steps"][2]["losses"]["loss"] = 9.0
    assert trained(place) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("DIFFERENT: loss at step 3")


@pytest.mark.parametrize(
    ("number", "change", "said"),
    [
        (2, {"start": 8}, "do not agree on start"),
        (1, {"data": "e"}, "do not agree on data"),
        (3, {"gpu": "Another"}, "do not agree on gpu"),
        (0, {"steps": []}, "took other than 3 steps"),
        (1, {"files": {"sample_kernels/ops/rms_norm.py": "elsewhere"}}, "a process of winners imported"),
        (3, {"files": {"sample_kernels/ops/rms_norm.py": "elsewhere"}}, "a process of stock imported"),
    ],
)
def test_processes_that_cannot_be_compared_are_refused(
    number: int, change: dict[str, Any], said: str, acted: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    place, runs = acted
    runs[number].update(change)
    assert trained(place) == 2
    assert said in capsys.readouterr().err and not (place / "out/training.json").exists()


def test_a_process_that_dies_is_no_verdict(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    asked = TRAIN.asked_for(["--stock", str(place / "nowhere"), "--winners", str(place / "made")])
    with pytest.raises(TRAIN.Refused, match="process 1, stock, ended with 1 and without an answer"):
        TRAIN.ran(asked, place, 1, "stock")
    assert "nowhere/src is no folder" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arm", "tree", "is_nudged"), [("stock", "one", False), ("winners", "other", False), ("nudged", "one", True)]
)
def test_the_control_is_the_stock_tree_begun_elsewhere(
    arm: str, tree: str, is_nudged: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = TRAIN.asked_for(["--stock", str(tmp_path / "one"), "--winners", str(tmp_path / "other")])
    told: list[Any] = []

    def answered(words: list[str], env: dict[str, str], check: bool) -> SimpleNamespace:
        told.append((words, env["TRITON_CACHE_DIR"]))
        Path(words[3]).write_text("{}", encoding="utf-8")
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(TRAIN.subprocess, "run", answered)
    assert TRAIN.ran(asked, tmp_path, 1, arm) == {"arm": arm}
    ((words, cache),) = told
    assert Path(words[2]) == tmp_path / tree and ("--nudge" in words) == is_nudged
    assert cache == str(tmp_path / ("triton-winners" if tree == "other" else "triton-stock"))


def test_a_process_is_not_told_to_choose_other_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIGER_KERNEL_IMPL", "cutile")
    stock, winners = (TRAIN.environment(tmp_path, arm) for arm in ("stock", "winners"))
    assert "LIGER_KERNEL_IMPL" not in stock
    assert stock["TRITON_CACHE_DIR"] != winners["TRITON_CACHE_DIR"]


def test_the_interpreter_takes_what_it_can_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    trees = ["--stock", "a", "--winners", "b"]
    assert TRAIN.asked_for(trees).type == "bfloat16"
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert TRAIN.asked_for([*trees, "--size", "tiny"]).type == "float32"
    for words in (["--size", "small"], ["--size", "tiny", "--type", "bfloat16"], ["--size", "tiny", "--steps", "0"]):
        with pytest.raises(SystemExit):
            TRAIN.asked_for([*trees, *words])
