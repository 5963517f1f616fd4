"""The tables of all kernels, one a GPU: of each kernel the last campaign there that came to its end."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from bot.render import numbers
from bot.targets.liger import NO_RECIPE, stem
from bot.targets.sizes import SIZES
from tests.render.scripts import RESULTS, script
from tests.render.test_campaigns_table import FIRST, OF_H100, SECOND, TABLE, facts, journal, text_of, until, write

EVERY = script("..", "every_kernel")
README = RESULTS.parent / "README.md"
H200, H100 = "NVIDIA H200", "NVIDIA H100 80GB HBM3"


def test_the_readme_says_what_lies_beside_it() -> None:
    said = README.read_text(encoding="utf-8")
    assert EVERY.TABLE.written(said, EVERY.page()) == said, "run docs/results/every_kernel.py"


def test_every_kernel_has_a_row_that_leads_to_its_journal() -> None:
    found = EVERY.last_ones(EVERY.FOLDERS)
    assert list(found) == [H200, H100] and set(found[H200]) == set(SIZES) > set(found[H100])
    for of_kernel in found.values():
        for kernel, pair in of_kernel.items():
            link, *_ = EVERY.row(*pair)
            assert link.startswith(f"[{kernel}](") and (README.parent / link.partition("(")[2].rstrip(")")).is_file()


@pytest.mark.parametrize(("gpu", "folder"), [(H200, TABLE.HERE), (H100, OF_H100)])
def test_a_gpu_has_the_figures_that_stand_beside_its_journals(gpu: str, folder: Path) -> None:
    """A later campaign on another GPU stands in none of its rows, and in no mean."""
    section = EVERY.page().split(f"### {gpu}\n")[1].split("###")[0]
    assert ("h100/" in section, "h200/" in section) == (gpu == H100, gpu == H200)
    mean, known = re.findall(r"\*\*(.*?)\*\*", section)[0], re.findall(r"before: \*\*(.*?)\*\*", section)[0]
    beside = TABLE.over_kernels(TABLE.read_all(folder))
    assert f"that can be scored: **{mean}**" in beside and f"known before: **{known}**" in beside


def of(*folders: Path) -> dict[str, str]:
    (found,) = EVERY.last_ones(folders).values()
    return {kernel: f"{folder.name}/{one.folder}" for kernel, (one, folder) in found.items()}


def test_two_gpus_are_two_tables(tmp_path: Path) -> None:
    write(tmp_path, "a", text_of(FIRST))
    write(tmp_path, "b", text_of(SECOND).replace(H200, H100))
    assert {gpu: list(found) for gpu, found in EVERY.last_ones([tmp_path]).items()} == {
        H100: ["rms_norm"],
        H200: ["rms_norm"],
    }
    page = EVERY.page([tmp_path])
    assert [line for line in page.splitlines() if line.startswith("###")] == [f"### {H100}", f"### {H200}"]
    assert page.count("[rms_norm](") == 2 and page.count(f"over 1 of the {len(SIZES)} ops: ") == 2


def test_of_two_folders_the_later_one_counts_and_what_did_not_end_does_not(tmp_path: Path) -> None:
    write(tmp_path / "older", "a", text_of(FIRST))
    assert of(tmp_path / "older", tmp_path / "newer") == {"rms_norm": "older/a"}
    later = write(tmp_path / "newer", "b", journal(until(facts(SECOND), "variant_judged", 2)))
    assert of(tmp_path / "older", tmp_path / "newer") == {"rms_norm": "older/a"}
    later.write_text(text_of(SECOND), encoding="ascii")
    assert (
        of(tmp_path / "older", tmp_path / "newer")
        == of(tmp_path / "newer", tmp_path / "older")
        == {"rms_norm": "newer/b"}
    )


def test_a_winner_whose_tests_failed_is_as_it_was(tmp_path: Path) -> None:
    write(tmp_path, "a", text_of(SECOND))
    one, folder = EVERY.last_ones([tmp_path])[H200]["rms_norm"]
    assert EVERY.row(one, folder)[1] == "1.00x, as it was" and "tests failed" in EVERY.row(one, folder)[3]
    assert f"over 1 of the {len(SIZES)} ops: **1.00x**" in EVERY.means([one])


def test_the_mean_is_of_what_each_campaign_gave(tmp_path: Path) -> None:
    write(tmp_path, "a", text_of(FIRST))
    (first,) = TABLE.read_all(tmp_path)
    second = next(one for one in TABLE.read_all(OF_H100) if one.kernel == "sparsemax" and TABLE.gave([one]))
    both = numbers.ratio(math.sqrt(TABLE.gave([first]) * TABLE.gave([second])))
    said = EVERY.means([first, second])
    assert f"over 2 of the {len(SIZES)} ops: **{both}**" in said
    assert f"over 1 of the 15 whose stock times were known before: **{numbers.ratio(TABLE.gave([first]))}**" in said


def test_the_roof_is_held_against_v0_and_no_winner_is_beyond_it() -> None:
    """A winner that saves its op a pass over memory may come near; what is known of every case says how near."""
    for gpu, of_kernel in EVERY.last_ones(EVERY.FOLDERS).items():
        for kernel, (one, _) in of_kernel.items():
            assert EVERY.at_roof(one) >= (TABLE.gave([one]) or 1.0), (gpu, kernel)


def test_a_case_without_a_roof_counts_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write(tmp_path, "a", text_of(FIRST))
    (one,) = TABLE.read_all(tmp_path)
    assert EVERY.at_roof(one) > 1.5
    monkeypatch.setattr(EVERY, "case_percent", lambda *_: None)
    assert EVERY.at_roof(one) == 1.0
    monkeypatch.setattr(EVERY, "case_percent", lambda *_: 50.0)
    assert EVERY.at_roof(one) == pytest.approx(2.0)
    monkeypatch.setattr(EVERY, "case_percent", lambda *_: 120.0)
    assert EVERY.at_roof(one) == 1.0


def test_of_a_loss_it_is_said_what_its_winner_is_with_one_backward_pass() -> None:
    """kl_div's winner is 2.30x with both, and most of that is the one that training seldom has."""
    found = {kernel: one for kernel, (one, _) in EVERY.last_ones([TABLE.HERE])[H200].items()}
    losses = {kernel: speed for kernel, one in found.items() if (speed := EVERY.as_trained(one)) is not None}
    cases = {kernel: one.campaign.profile.suite.cases for kernel, one in found.items()}
    assert set(losses) == {kernel for kernel, some in cases.items() if any(case.grad == "one" for case in some)}
    mine, timed = (
        found["kl_div"],
        [case for case in cases["kl_div"] if case.direction == "forward" or case.grad == "one"],
    )
    before, after = dict[object, float](), dict[object, float]()
    for case in timed:
        before[case.shape] = before.get(case.shape, 0.0) + mine.readings[case.id].before_us
        after[case.shape] = after.get(case.shape, 0.0) + mine.readings[case.id].after_us
    by_medians = math.prod(before[shape] / after[shape] for shape in before) ** (1 / len(before))
    assert len(before) == 4 and losses["kl_div"] == pytest.approx(by_medians, rel=0.01)
    (said,) = EVERY.of_losses(list(found.values()))
    assert f"kl_div {numbers.ratio(losses['kl_div'])}" in said and "grpo_loss 1.00x" in said
    assert EVERY.of_losses([found["rms_norm"]]) == []


def test_nothing_that_ended_is_said(tmp_path: Path) -> None:
    assert EVERY.page([tmp_path]) == "No campaign came to its end yet.\n"


def test_the_library_s_own_mean_counts_a_file_once_and_what_cannot_be_judged() -> None:
    speeds = dict.fromkeys(SIZES, 2.0) | {"rope": None, "mhc_coeffs": 1.0, "mhc_post_res": 2.0, "mhc_pre": 4.0}
    kernels = TABLE.as_the_library_counts(speeds)
    assert set(kernels) == {stem(op) for op in SIZES} | {"tiled_mlp"} and len(kernels) == 30
    assert set(TABLE.UNJUDGED) == set(NO_RECIPE) - {"mhc", "vocab_parallel_cross_entropy"}
    assert kernels["mhc"] == pytest.approx(2.0) and kernels["rope"] == kernels["tiled_mlp"] == 1.0
    said = TABLE.over_the_library(speeds)
    whole, judged = (numbers.ratio(2 ** (28 / many)) for many in (30, 29))
    assert said.endswith(f", which cannot be judged, as 1.00x: **{whole}**; over the 29 without it **{judged}**.")
    assert "mhc as one of them and tiled_mlp, which" in said


def test_of_a_part_of_the_ops_there_is_no_mean_of_the_library() -> None:
    assert TABLE.over_the_library(dict.fromkeys(list(SIZES)[1:], 2.0)) == ""


@pytest.mark.parametrize("folder", [RESULTS / "campaigns", RESULTS / "pass", OF_H100, RESULTS, RESULTS.parent])
def test_a_page_with_intervals_says_what_they_are_worth(folder: Path) -> None:
    page = (folder / "README.md").read_text(encoding="utf-8")
    assert TABLE.intervals(folder) in page
    (link,) = re.findall(r"\]\((.*?)\)", TABLE.intervals(folder))
    assert (folder / link).resolve() == RESULTS / "calibration/README.md"
