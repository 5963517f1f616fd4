"""What the README quotes of the tables: the journals' own figures, with what they are of."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from bot.analysis.calibration import parse, report
from bot.analysis.harvested import figures
from bot.model.facts import TryRequested
from bot.render import numbers, view
from bot.targets.sizes import SIZES
from tests.render.scripts import RESULTS, script

ROOT = RESULTS.parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FIRST_SCREEN = " ".join(README.split("## Try it")[0].split())
TABLE = script("campaigns")


@pytest.fixture(scope="module")
def by_kernel() -> dict[str, list[Any]]:
    every = TABLE.read_all(RESULTS / "campaigns")
    return {kernel: [one for one in every if one.kernel == kernel] for kernel in SIZES}


def text_of(campaign: Any, number: int) -> tuple[str, str]:
    """Whose it is and which: two campaigns may be of one text, as where only its rivals were asked for again."""
    return campaign.command.kernel, view.measurement_of(campaign, number).source


def test_the_readme_says_of_what_its_means_are(by_kernel: dict[str, list[Any]]) -> None:
    speeds = {kernel: TABLE.gave(found) for kernel, found in by_kernel.items()}
    kernels = TABLE.as_the_library_counts(speeds)
    ops = math.prod(speed or 1.0 for speed in speeds.values()) ** (1 / len(speeds))
    whole = math.prod(kernels.values()) ** (1 / len(kernels))
    assert f"{numbers.ratio(ops)} as fast in the geometric mean of {len(SIZES)} ops" in FIRST_SCREEN
    assert f"as it was, {numbers.ratio(whole)}" in FIRST_SCREEN
    judged = [speed for kernel, speed in kernels.items() if kernel not in TABLE.UNJUDGED]
    assert f"with mhc as one {numbers.ratio(math.prod(judged) ** (1 / len(judged)))}" in FIRST_SCREEN


def test_the_readme_says_that_no_winner_is_slower_on_sizes_that_nobody_named(by_kernel: dict[str, list[Any]]) -> None:
    """In their own campaign, which refuses what is, or afterwards: as the very text that counts today."""
    runs = script("harvested").read_all(RESULTS / "harvested")
    every = {one.campaign.id: one.campaign for found in by_kernel.values() for one in found}
    drawn = {text_of(every[run.campaign], run.variant): run for run in runs if run.seed is not None}
    last = [next(one for one in reversed(found) if one.is_over) for found in by_kernel.values()]
    won = [one for one in last if TABLE.gave([one]) is not None]
    own = {one.kernel for one in won if view.measurement_of(one.campaign, one.number).unseen}
    after = {one.kernel: drawn.get(text_of(one.campaign, one.number)) for one in won if one.kernel not in own}
    read = {kernel: figures(run) for kernel, run in after.items() if run is not None}
    assert len(own) + len(read) == len(won) and not any(isinstance(found, str) for found in read.values())
    assert not [kernel for kernel, found in read.items() if any(case.slower for case in found)]
    said = f"All {len(won)} winners were read on two sizes each that nobody had named, and [none is clearly slower]"
    assert said in FIRST_SCREEN


def test_the_readme_says_which_winners_were_known_before(by_kernel: dict[str, list[Any]]) -> None:
    last = [next(one for one in reversed(found) if one.is_over) for found in by_kernel.values()]
    won = [one for one in last if TABLE.gave([one]) is not None]
    known = [one for one in won if any(isinstance(line.fact, TryRequested) for line in one.lines)]
    assert f"{len(known)} of the {len(won)} winners it had found before" in FIRST_SCREEN


def test_the_readme_says_what_a_pass_with_nothing_known_has() -> None:
    page = (RESULTS / "pass" / "README.md").read_text(encoding="utf-8")
    (mean,) = re.findall(r"over (\d+) of the \d+ ops .* of the best that each search found: \*\*(\d\.\d+x)\*\*", page)
    assert f"{mean[0]} ops are {mean[1]}" in FIRST_SCREEN
    (minutes,) = re.findall(r"that count took (\d+) min of a GPU", page)
    (most,) = re.findall(r"Liger-Kernel 0\.8\.5 (\S+x) as", FIRST_SCREEN)
    told = " ".join(page.split())
    assert f"In {minutes} minutes of a GPU it finds {mean[1]}, where the campaigns have {most}" in told


def test_what_a_pass_and_the_campaigns_that_count_took_is_quoted_as_it_is() -> None:
    page = " ".join((RESULTS / "README.md").read_text(encoding="utf-8").split())
    took = {
        folder: re.findall(r"that count took (\d+) min", (RESULTS / folder / "README.md").read_text(encoding="utf-8"))
        for folder in ("pass", "campaigns")
    }
    assert f"[the pass](pass/README.md) took {took['pass'][0]} for all" in page
    assert f"The campaigns that count took {took['campaigns'][0]} in all" in page


def test_the_readme_says_what_a_loss_is_with_one_backward_pass() -> None:
    every = script("..", "every_kernel")
    found = [one for one, _ in every.last_ones([TABLE.HERE])["NVIDIA H200"].values()]
    (said,) = every.of_losses(found)
    (mean,) = re.findall(r"\*\*(.*?)\*\*", said)
    assert f"with the one that training has, the {len(found)} ops are {mean}" in FIRST_SCREEN


def test_the_readme_has_the_figures_of_an_h200(by_kernel: dict[str, list[Any]]) -> None:
    quoted = re.findall(r"`(\w+)` (\d[\d.]*x)", FIRST_SCREEN)
    assert len(quoted) == 4
    for kernel, speed in quoted:
        assert numbers.ratio(TABLE.gave(by_kernel[kernel])) == speed, kernel


def test_the_readme_counts_no_winner_whose_tests_were_skipped(by_kernel: dict[str, list[Any]]) -> None:
    won = {kernel for kernel, found in by_kernel.items() if TABLE.gave(found) is not None}
    skipped = {kernel for kernel in won if TABLE.untested(by_kernel[kernel])}
    told = " ".join(README.split())
    behind = len(won - skipped) if skipped else "all"
    assert f"{len(won)} have a winner that was pushed, {behind} of them behind the library's own" in told
    assert all(f"those of {kernel} were all skipped" in told for kernel in skipped)
    assert ("were all skipped" in told) is bool(skipped)


@pytest.mark.long
def test_the_calibrations_say_what_is_quoted_of_them() -> None:
    """Of what takes less than 20 us, 2 % more work is not 2 % more time: none found there says nothing."""
    files = {path.name: path.read_bytes() for path in sorted((RESULTS / "calibration").glob("*.json"))}
    found = {group.name: group for group in report([parse(text, name) for name, text in files.items()]).groups}
    errors, planted = found["all"].errors, {row.percent: row for row in found[">=20us"].planted}
    assert errors is not None
    share = round(100 * errors.coverage.hits / errors.coverage.tries)
    assert f"{share} of 100 did, at a median error of {errors.median:.2f} points" in TABLE.intervals(RESULTS)
    equal = next(row for row in found["all"].planted if row.percent == 0)
    assert f"Of {equal.accepted.tries} pairs of equal kernels" in FIRST_SCREEN and equal.accepted.hits == 0
    at_two = planted[2].found
    assert f"of {at_two.tries} of 20 us and more that were 2 % faster it found {at_two.hits}" in FIRST_SCREEN
