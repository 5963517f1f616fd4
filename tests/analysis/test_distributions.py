"""Printed tables are the witness: nobody has to trust our series."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.analysis.distributions import (
    beta_share,
    share_at_least,
    share_at_most,
    student_below,
    student_quantile,
)

TABLE = {  # share: {degrees of freedom: t}, as every statistics book prints it
    0.95: {1: 6.314, 2: 2.920, 4: 2.132, 7: 1.895, 10: 1.812, 30: 1.697, 120: 1.658},
    0.975: {1: 12.706, 2: 4.303, 4: 2.776, 7: 2.365, 10: 2.228, 30: 2.042, 120: 1.980},
    0.99: {1: 31.821, 2: 6.965, 4: 3.747, 7: 2.998, 10: 2.764, 30: 2.457, 120: 2.358},
    0.995: {1: 63.657, 2: 9.925, 4: 4.604, 7: 3.499, 10: 3.169, 30: 2.750, 120: 2.617},
}


@pytest.mark.parametrize(("share", "freedom", "t"), [(s, f, t) for s, row in TABLE.items() for f, t in row.items()])
def test_student_s_t_is_what_the_tables_print(share: float, freedom: int, t: float) -> None:
    assert student_quantile(share, freedom) == pytest.approx(t, abs=0.0006)


@pytest.mark.parametrize(("share", "t"), [(0.975, 1.959964), (0.995, 2.575829)])
@pytest.mark.parametrize("freedom", [1e6, 1e9])
def test_with_many_degrees_of_freedom_it_is_the_normal_curve(share: float, t: float, freedom: float) -> None:
    assert student_quantile(share, freedom) == pytest.approx(t, abs=1e-5)


@given(st.floats(0.001, 0.999), st.integers(1, 500))
def test_a_quantile_and_its_probability_are_one_another_s_way_back(share: float, freedom: int) -> None:
    assert student_below(student_quantile(share, freedom), freedom) == pytest.approx(share, abs=1e-9)
    assert student_quantile(1 - share, freedom) == pytest.approx(-student_quantile(share, freedom), abs=1e-6)


def test_nothing_lies_above_infinity() -> None:
    assert (student_below(math.inf, 4), student_below(-math.inf, 4)) == (1.0, 0.0)


@pytest.mark.parametrize(("share", "freedom"), [(0.0, 4), (1.0, 4), (0.5, 0)])
def test_a_quantile_of_nothing_is_refused(share: float, freedom: float) -> None:
    with pytest.raises(ValueError, match="share"):
        student_quantile(share, freedom)


def test_the_beta_function_of_whole_numbers_is_a_sum_of_binomials() -> None:
    """I_x(a, b) is the chance of at least a heads in a + b - 1 throws."""
    for a, b, x in [(1, 1, 0.3), (3, 4, 0.2), (10, 2, 0.9), (5, 296, 0.02)]:
        n = a + b - 1
        heads = math.fsum(math.comb(n, i) * x**i * (1 - x) ** (n - i) for i in range(a, n + 1))
        assert beta_share(a, b, x) == pytest.approx(heads, rel=1e-10)


@pytest.mark.parametrize(
    ("hits", "tries", "bound"),
    [(0, 300, 1 - 0.05 ** (1 / 300)), (0, 1, 0.95), (4, 1000, 0.00913), (1, 500, 0.00945), (3, 3, 1.0)],
)
def test_the_exact_bound_on_a_share(hits: int, tries: int, bound: float) -> None:
    """0 of 300 is the rule of three; the others are the ones that evaluation 5.2 counts on to stay below 1 %."""
    assert share_at_most(hits, tries) == pytest.approx(bound, abs=5e-6)


def test_the_bound_from_below_is_the_same_one_turned_over() -> None:
    assert share_at_least(300, 300) == pytest.approx(0.05 ** (1 / 300))
    assert share_at_least(0, 300) == 0.0
    assert share_at_least(196, 200) < 0.98 < share_at_most(196, 200)


def test_more_hits_than_tries_are_refused() -> None:
    with pytest.raises(ValueError, match="hits"):
        share_at_most(2, 1)
