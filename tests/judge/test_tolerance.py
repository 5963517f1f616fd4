"""The yardstick is the untouched kernel's own error. Both sides of each limit."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from bot.judge.tolerance import (
    CROWD_FOR_LEAN,
    GROSS,
    LEAN_ULPS,
    LEAN_ULPS_OF_FLOAT32,
    LOST,
    MAX_FACTOR,
    MAX_ULPS,
    NOISE_FACTOR,
    RMS_FACTOR,
    RMS_ULPS,
    ROWS_FOR_RMS,
    Entry,
    Errors,
    Mark,
    errors,
    largest_of,
    marks,
    unfit,
    worse,
)

ULP, TINY = torch.finfo(torch.float32).eps, torch.finfo(torch.float32).tiny


def constant(value: float, rows: int, typical: float | None = None) -> Errors:
    worst = torch.full((rows,), value, dtype=torch.float64)
    return Errors(worst, worst if typical is None else torch.full((rows,), typical, dtype=torch.float64))


def entry(
    base: Errors, mine: Errors, *, case: str = "c", label: str = "output y", noise: float = 0.0, typical: float = 0.0
) -> Entry:
    return Entry(case, label, "float32", base, mine, constant(noise, len(base.worst), typical))


def ratio(*entries: Entry) -> float:
    return marks(entries)["c"].ratio


def test_errors_are_relative_to_the_largest_of_their_row() -> None:
    truth = torch.tensor([[1000.0, 1.0], [0.001, 0.0005]], dtype=torch.float64)
    found = truth + torch.tensor([[1.0, 0.0], [0.0, 0.0001]], dtype=torch.float64)
    assert errors(found, truth).worst.tolist() == pytest.approx([1e-3, 0.1])


def test_the_entries_of_a_vector_are_judged_one_by_one_on_its_scale() -> None:
    truth = torch.tensor([10.0, 1.0, 0.0], dtype=torch.float64)
    found = truth + torch.tensor([0.0, 0.1, 0.2], dtype=torch.float64)
    assert errors(found, truth).worst.tolist() == pytest.approx([0.0, 0.01, 0.02])


def test_a_single_number_is_relative_to_itself() -> None:
    assert errors(torch.tensor(2.2), torch.tensor(2.0, dtype=torch.float64)).worst.tolist() == pytest.approx([0.1])


def test_an_empty_tensor_has_no_error() -> None:
    assert errors(torch.zeros(0, 4), torch.zeros(0, 4, dtype=torch.float64)).worst.tolist() == [0.0]


def test_a_row_below_the_floor_is_compared_on_the_floor() -> None:
    truth = torch.tensor([[0.0], [1e-12], [1.0]], dtype=torch.float64)
    found = truth + 1e-10
    assert errors(found, truth, floor=1e-6).worst.tolist() == pytest.approx([1e-4, 1e-4, 1e-10], rel=1e-3)


@pytest.mark.parametrize(("row", "seen"), [(1.0, 1.0), (LOST, 1.0), (LOST / 2, 0.5), (TINY * 300, 300 / 2**20)])
def test_what_a_flushed_number_is_a_factor_of_is_nobodys_loss(row: float, seen: float) -> None:
    """attn_res' shares of far blocks: an exponential to the base of two is zero there, and exp has a few digits."""
    truth = torch.full((2, 4), row, dtype=torch.float64)
    truth[1] = 1.0
    found = truth.clone()
    found[0] = 0.0
    assert errors(found, truth).worst[0].item() == pytest.approx(seen)


def test_where_the_truth_is_zero_any_error_is_infinite_and_none_is_none() -> None:
    truth = torch.zeros(1, 4, dtype=torch.float64)
    assert errors(torch.zeros(1, 4), truth).worst.item() == 0.0
    assert errors(torch.full((1, 4), 1e-3), truth).worst.item() > 1e28


def test_the_largest_error_may_be_twice_the_baselines_and_two_ulp() -> None:
    base = constant(1e-5, 20)
    limit = MAX_FACTOR * 1e-5 + MAX_ULPS * ULP
    assert ratio(entry(base, constant(limit * 0.999, 20, 0))) == pytest.approx(0.999)
    assert ratio(entry(base, constant(limit * 1.001, 20, 0))) > 1


def test_an_exact_baseline_still_allows_two_ulp() -> None:
    base = constant(0.0, 20)
    assert ratio(entry(base, constant(2 * ULP, 20, 0))) == pytest.approx(1.0)
    assert ratio(entry(base, constant(2.1 * ULP, 20, 0))) > 1


def test_where_rounding_alone_strays_further_that_is_the_yardstick() -> None:
    base, noise = constant(0.0, 20), 1e-5
    limit = MAX_FACTOR * NOISE_FACTOR * noise + MAX_ULPS * ULP
    assert ratio(entry(base, constant(limit * 0.999, 20, 0), noise=noise)) < 1
    assert ratio(entry(base, constant(limit * 1.001, 20, 0), noise=noise)) > 1
    assert ratio(entry(constant(1e-4, 20), constant(2e-4, 20, 0), noise=noise)) == pytest.approx(1.0, rel=2e-3)


def test_where_rounding_alone_is_typically_larger_that_is_the_yardstick_of_the_typical_too() -> None:
    base = constant(1e-4, ROWS_FOR_RMS, 1e-6)
    limit = RMS_FACTOR * 1e-5 + RMS_ULPS * ULP
    assert ratio(entry(base, constant(1e-4, ROWS_FOR_RMS, limit * 0.99), typical=1e-5)) < 1
    assert ratio(entry(base, constant(1e-4, ROWS_FOR_RMS, limit * 1.01), typical=1e-5)) == pytest.approx(1.01)


def test_of_several_samples_the_largest_counts_and_what_is_typical_of_all() -> None:
    small, large = Errors(torch.tensor([1.0]), torch.tensor([3.0])), Errors(torch.tensor([2.0]), torch.tensor([4.0]))
    found = largest_of([large, small])
    assert (found.worst.item(), found.rms.item()) == (2.0, pytest.approx((25 / 2) ** 0.5))


def test_one_ill_conditioned_probe_does_not_loosen_the_others() -> None:
    wild = entry(constant(0.5, 1), constant(0.5, 1), case="wild", noise=0.5)
    wrong = entry(constant(1e-6, 4), constant(1e-3, 4))
    assert marks([wild, wrong])["c"].ratio > 100


def test_the_typical_error_may_be_half_more_than_the_baselines() -> None:
    base = constant(1e-4, ROWS_FOR_RMS, 1e-5)
    limit = RMS_FACTOR * 1e-5 + RMS_ULPS * ULP
    assert ratio(entry(base, constant(1e-4, ROWS_FOR_RMS, limit * 0.999))) < 1
    found = marks([entry(base, constant(1e-4, ROWS_FOR_RMS, limit * 1.01))])["c"]
    assert found.ratio == pytest.approx(1.01)
    assert found.rule == "typical"


def test_too_few_rows_say_nothing_of_the_typical_error() -> None:
    base = constant(1e-4, ROWS_FOR_RMS - 1, 1e-6)
    assert ratio(entry(base, constant(1e-4, ROWS_FOR_RMS - 1, 1e-4))) < 1


def test_rows_of_all_cases_are_pooled_for_the_typical_error() -> None:
    few = [entry(constant(1e-4, 16, 1e-6), constant(1e-4, 16, 9e-6), case=f"c{i}") for i in range(4)]
    assert any(not mark.ratio <= 1 for mark in marks(few).values())


def test_nothing_that_is_not_a_number_passes() -> None:
    found = marks([entry(constant(1e-5, 20), constant(float("nan"), 20)), entry(constant(1e-5, 20), constant(0.0, 20))])
    assert math.isnan(found["c"].ratio)
    assert not found["c"].ratio <= 1


def test_nan_is_worse_than_anything_and_stays() -> None:
    nan, small, large = (Mark("x", "largest", value) for value in (float("nan"), 0.1, 9.0))
    assert worse(nan, large) is nan
    assert worse(small, nan) is nan
    assert worse(small, large) is large
    assert worse(large, small) is large
    assert worse(None, small) is small


def test_a_grossly_wrong_baseline_is_no_yardstick() -> None:
    limit = GROSS["float32"]
    assert unfit([entry(constant(limit * 0.9, 8), constant(0, 8))]) == ""
    assert "typically further than 0.001" in unfit([entry(constant(limit * 1.1, 8), constant(0, 8))])
    one_bad_row = [entry(constant(1e-7, 8), constant(0, 8)), entry(constant(0.9, 1), constant(0, 1))]
    assert unfit(one_bad_row) == ""


def leaning(lean: float, crowd: float = CROWD_FOR_LEAN) -> Errors:
    return Errors(torch.zeros(4, dtype=torch.float64), torch.zeros(4, dtype=torch.float64), lean, crowd)


@pytest.mark.parametrize("sign", [1, -1])
def test_all_values_together_lean_hardly_at_all(sign: int) -> None:
    limit = (LEAN_ULPS + LEAN_ULPS_OF_FLOAT32) * ULP
    assert ratio(entry(leaning(0.0), leaning(sign * limit * 0.999))) < 1
    assert marks([entry(leaning(0.0), leaning(sign * limit * 1.001))])["c"].rule == "common"
    assert ratio(entry(leaning(0.0), leaning(sign * limit * 1.001))) > 1


def test_a_baseline_that_leans_may_be_followed_half_as_far_again() -> None:
    limit = RMS_FACTOR * 1e-3 + (LEAN_ULPS + LEAN_ULPS_OF_FLOAT32) * ULP
    assert ratio(entry(leaning(-1e-3), leaning(limit * 0.999))) < 1
    assert ratio(entry(leaning(-1e-3), leaning(limit * 1.001))) > 1


def test_few_values_lean_by_chance() -> None:
    assert ratio(entry(leaning(0.0), leaning(0.01, CROWD_FOR_LEAN - 1))) == 0
    assert ratio(entry(leaning(0.0), leaning(0.01))) > 100


def test_one_percent_of_a_long_softmax_is_seen_in_half_precision() -> None:
    """It is less than a last place of the row's largest value, everywhere."""
    truth = torch.randn(8, 32000, generator=torch.Generator().manual_seed(5), dtype=torch.float64).softmax(dim=-1)
    base, wrong = (errors((factor * truth).bfloat16(), truth) for factor in (1.0, 1.01))
    noise = errors(truth, truth)
    assert base.crowd > CROWD_FOR_LEAN
    assert wrong.lean == pytest.approx(0.01, rel=0.02)
    assert marks([Entry("c", "output y", "bfloat16", base, base, noise)])["c"].ratio < 1
    found = marks([Entry("c", "output y", "bfloat16", base, wrong, noise)])["c"]
    assert (found.rule, found.ratio > 10) == ("common", True)


def test_one_value_that_dwarfs_all_others_is_one_value() -> None:
    spike = torch.full((1, 5000), 1e-6, dtype=torch.float64)
    spike[0, 0] = 1.0
    assert errors(spike, spike).crowd == pytest.approx(1.0, rel=1e-3)
    assert errors(torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.float64)).crowd == 0.0
    faint = torch.full((2, 3), 1e-99, dtype=torch.float64)
    assert errors(faint, faint, floor=1.0).crowd == 0.0


def test_what_is_one_value_alone_leans_as_its_rounding_does() -> None:
    """The gradient of a total variation is plus or minus one number. v0 may meet it by luck of two roundings."""
    signs = torch.randn(64, 100, generator=torch.Generator().manual_seed(1), dtype=torch.float64).sign()
    truth = signs * 1.0035  # nearest in bfloat16: 1.0, a third of a percent below
    once, none = errors(truth.bfloat16(), truth), errors(truth, truth)
    lucky = dataclasses.replace(once, lean=0.0)
    assert once.grain == pytest.approx(once.lean) == pytest.approx(-0.0035, rel=0.01)
    assert marks([Entry("c", "gradient x", "bfloat16", lucky, once, none)])["c"].ratio <= 1
    further = dataclasses.replace(once, lean=4 * once.lean)
    assert marks([Entry("c", "gradient x", "bfloat16", lucky, further, none)])["c"].rule == "common"
    assert errors(truth.bfloat16().double(), truth, kind=torch.bfloat16).grain == once.grain
