"""A calibration is believed block by block: every figure is recomputed, and what does not count is named."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from bot.analysis.calibration import Calibration, Group, Planted, parse, percentile, report
from bot.errors import CorruptRecord
from tests.analysis.blocks import exact, noisy

SIZES = {"<20us": 5.0, "~100us": 100.0, ">1ms": 1500.0}


def readings(*percents: float, first: int = 0, us: float = 100.0, blocks: int = 12) -> list[dict[str, Any]]:
    return [{"process": first + i, "blocks": exact(percent, blocks, us)} for i, percent in enumerate(percents)]


def trial(planted: float, *percents: float, size: str = "~100us", **fields: Any) -> dict[str, Any]:
    """What was planted, and what each process read of it."""
    us = SIZES[size]
    plain = {"kernel": "k", "class": size, "planted": planted, "readings": readings(*percents, us=us)}
    return plain | fields


def text(*trials: dict[str, Any], **fields: Any) -> str:
    return json.dumps({"machine": {"gpu": "G"}, "command": "made by hand", "trials": trials} | fields)


def read(*trials: dict[str, Any], **fields: Any) -> Calibration:
    return parse(text(*trials, **fields), "here")


def group(name: str, *files: Calibration) -> Group:
    return next(one for one in report(files).groups if one.name == name)


def row(found: Group, percent: float) -> Planted:
    return next(one for one in found.planted if one.percent == percent)


SAME, GAIN, LOSS = (0.0,) * 5, (2.0,) * 5, (-2.0,) * 5


def test_a_false_accept_is_counted_where_the_blocks_show_one() -> None:
    aa = row(group("~100us", read(trial(0, *SAME), trial(0, *SAME), trial(0, *GAIN))), 0)
    # A floor of 2 % asks for 4 %, so that this clock cannot accept it...
    assert (aa.accepted.hits, aa.accepted.tries, aa.found.hits) == (0, 3, 3)
    # ... unless it is rare enough not to be the floor.
    many = read(*[trial(0, *SAME)] * 39, trial(0, *GAIN))
    aa = row(group("~100us", many), 0)
    assert (aa.accepted.hits, aa.accepted.tries, aa.found.hits) == (1, 40, 39)
    assert aa.accepted.at_most == pytest.approx(0.1133, abs=0.0005)


def test_the_bound_of_300_trials_without_a_false_accept_is_one_percent() -> None:
    aa = row(group("all", read(*[trial(0, *SAME)] * 300)), 0)
    assert aa.accepted.hits == 0
    assert aa.accepted.at_most == pytest.approx(0.00994, abs=1e-5)


def test_planted_effects_are_found_and_losses_never_accepted() -> None:
    found = group("~100us", read(trial(2, *GAIN), trial(2, *SAME), trial(-2, *LOSS), trial(-2, *GAIN)))
    up, down = row(found, 2), row(found, -2)
    assert (up.found.hits, up.found.tries, up.accepted.hits) == (1, 2, 1)
    assert (down.found.hits, down.accepted.hits) == (1, 1)


def test_what_is_not_known_is_neither_found_nor_accepted() -> None:
    up = row(group("~100us", read(trial(2, 9.0, -5.0, 2.0, 1.0, 3.0))), 2)
    assert (up.found.hits, up.accepted.hits, up.ambiguous) == (0, 0, 1)


def test_the_floor_belongs_to_its_size_of_kernel() -> None:
    found = read(trial(0, *(0.8,) * 5, size="<20us"), trial(0, *SAME), trial(1, *(1.2,) * 5, size="<20us"))
    small, middle = group("<20us", found), group("~100us", found)
    assert small.floor_percent == pytest.approx(0.8)
    assert small.min_gain_percent == pytest.approx(1.6)
    assert row(small, 1).found.hits == 0
    assert (middle.floor_percent, middle.min_gain_percent) == (pytest.approx(0.0), pytest.approx(1.0))


def test_kernels_of_20_us_and_more_are_also_taken_together() -> None:
    found = read(trial(2, *GAIN, size="<20us"), trial(2, *GAIN), trial(2, *GAIN, size=">1ms"))
    assert row(group(">=20us", found), 2).found.tries == 2
    assert row(group("all", found), 2).found.tries == 3
    assert group("<20us", found).floor_percent is None


def test_a_wrong_label_is_counted_where_the_blocks_say() -> None:
    wrong = trial(0, *SAME) | {"class": ">1ms"}
    found = report([read(wrong)])
    assert [one.name for one in found.groups] == ["~100us", ">=20us", "all"]
    assert found.set_aside == ("file 1, trial 0 (k, +0 %): v0's blocks say ~100us, not >1ms: counted there",)


@pytest.mark.parametrize(("us", "size"), [(19.99, "<20us"), (20.0, "~100us"), (1000.0, "~100us"), (1000.1, ">1ms")])
def test_the_sizes(us: float, size: str) -> None:
    found = report([read(trial(0, readings=readings(*SAME, us=us)))])
    assert found.groups[0].name == size


def test_four_processes_are_no_trial() -> None:
    found = report([read(trial(2, *GAIN[:4]), trial(2, *GAIN))])
    assert found.groups[-1].trials == 1
    assert "4 processes read enough, not 5" in found.set_aside[0]
    few = [*readings(*GAIN[:4]), {"process": 9, "blocks": exact(2.0, 11)}]
    assert report([read(trial(2, readings=few))]).groups == ()


@pytest.mark.parametrize(("voided", "counts"), [(15, True), (16, False)])
def test_a_trial_on_a_sick_machine_is_none(voided: int, counts: bool) -> None:
    blocks = readings(*GAIN)
    blocks[0]["voided"] = voided
    found = report([read(trial(2, readings=blocks))])
    assert bool(found.groups) is counts
    assert ["blocks were voided" in reason for reason in found.set_aside] == [True] * (not counts)


# Errors against the truth.


def truth(percent: float, first: int = 1000, processes: int = 20, blocks: int = 100) -> list[dict[str, Any]]:
    return readings(*[percent] * processes, first=first, blocks=blocks)


def test_errors_are_against_the_long_reading_and_not_against_what_was_planted() -> None:
    found = group("all", read(trial(2, *GAIN, truth="t"), trial(2, *(2.5,) * 5, truth="t"), truths={"t": truth(1.9)}))
    assert found.errors is not None
    assert (found.errors.trials, found.errors.median) == (2, pytest.approx(0.35))
    assert found.errors.p95 == pytest.approx(0.6)
    assert found.errors.coverage.hits == 0


def test_a_truth_may_stand_in_its_trial() -> None:
    found = group("all", read(trial(2, 1.8, 1.9, 2.0, 2.1, 2.2, truth=truth(1.9))))
    assert found.errors is not None
    assert found.errors.median == pytest.approx(0.1, abs=0.001)
    assert found.errors.coverage.hits == 1


def test_what_was_planted_is_no_truth_and_v0_against_itself_is_one() -> None:
    assert group("all", read(trial(2, *GAIN))).errors is None
    found = group("all", read(trial(0, *(0.3,) * 5))).errors
    assert found is not None
    assert found.median == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("one", "counts"),
    [
        (truth(2.0), True),
        (truth(2.0, processes=19, blocks=200), False),
        (truth(2.0, blocks=99), False),
        (truth(2.0, first=4), False),  # read in process 4, as the trial was
    ],
)
def test_a_truth_is_long_and_not_the_trial_s_own(one: list[dict[str, Any]], counts: bool) -> None:
    found = report([read(trial(2, *GAIN, truth="t"), truths={"t": one})])
    assert (found.groups[-1].errors is not None) is counts
    assert len(found.set_aside) == (not counts)


# Resampling the processes.


def test_one_odd_process_of_eight_shows_in_the_resampled_bound_of_all_its_trials() -> None:
    """Twelve trials read by the same eight processes are not twelve witnesses."""
    dice = random.Random(1)
    calm = [trial(2, *(2.0 + dice.gauss(0, 0.05) for _ in range(8))) for _ in range(12)]
    odd = [trial(2, *(2.0 + dice.gauss(0, 0.05) for _ in range(7)), -1.5) for _ in range(12)]
    assert row(group("all", read(*calm)), 2).found.resampled_low == 1.0
    shaken = row(group("all", read(*odd)), 2).found
    assert (shaken.resampled_low, shaken.resampled_high) == (0.0, 1.0)


def test_a_median_moves_with_the_processes_that_read_it() -> None:
    def far(i: int) -> dict[str, Any]:
        return trial(0, readings=readings(*[0.1 * i] * 5, first=10 * i))

    few, many = (group("all", read(*(far(i) for i in range(n)))).errors for n in (4, 9))
    assert few is not None and many is not None
    assert (few.median_low, few.median_high) == (None, None)
    assert many.median_low is not None and many.median_high is not None
    assert many.median_low < many.median < many.median_high


def test_figures_asked_twice_are_the_same() -> None:
    dice = random.Random(2)
    noise = [{"process": i, "blocks": noisy(dice, 1.0, 1.0, 12)} for i in range(8)]
    found = read(trial(1, readings=noise), trial(0, *SAME))
    assert report([found]) == report([found])


def test_files_add_up_and_their_processes_are_not_confused() -> None:
    found = report([read(trial(2, *GAIN, truth="t"), truths={"t": truth(2.0)}), read(trial(2, *GAIN))])
    assert found.groups[-1].trials == 2
    assert len(found.machines) == 2
    errors = report([read(trial(0, *SAME))] * 5).groups[-1].errors
    assert errors is not None
    assert errors.median_low is not None  # five sets of processes, though all are numbered alike


# Malformed files.


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ("", "the whole file"),
        ("[]", "the whole file"),
        (text(), "trials: there is none, and no null campaign"),
        (text(trial(2, *GAIN) | {"class": "huge"}), "trials.0.class"),
        (text(trial(2, *GAIN) | {"color": "red"}), "trials.0.color"),
        (text(trial(2)), "trials.0.readings"),
        (text(trial(2, readings=[{"process": 1, "blocks": [[1, 1, 1]]}])), "trials.0.readings.0.blocks.0"),
        (text(trial(2, readings=[{"process": 1, "blocks": [[1, 1, 1, 0]]}])), "trials.0.readings.0.blocks.0.3"),
        (text(trial(2, readings=[{"process": 1, "blocks": []}])), "trials.0.readings.0.blocks"),
        (text(trial(2, *GAIN)).replace("100.0", "NaN", 1), "finite number"),
        (text(trial(2, *GAIN, truth="gone")), 'trial 0: there is no truth called "gone"'),
        (text(trial(2, readings=readings(1.0) * 2)), "trial 0: process 0 appears twice"),
        (text(trial(2, *GAIN), truths={"t": readings(1.0) * 2}), 'truth "t": process 0 appears twice'),
    ],
)
def test_a_malformed_file_is_refused_by_its_place(broken: str, says: str) -> None:
    with pytest.raises(CorruptRecord, match="here") as caught:
        parse(broken, "here")
    assert says in str(caught.value)


@pytest.mark.parametrize(("share", "value"), [(0.95, 19), (0.951, 20), (0.5, 10), (0.0, 1), (1.0, 20)])
def test_a_percentile_is_one_of_the_values(share: float, value: float) -> None:
    assert percentile(list(range(20, 0, -1)), share) == value
