"""Quantiles of Student's t and exact bounds on a share, without a numerical library: verdicts must not need one."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

TINY = 1e-300
STEPS = 300
"""Far more than the continued fraction takes for any number of blocks and processes we could hold."""
ALMOST_NORMAL = 1e7
"""Degrees of freedom from which Student's t and the normal curve agree in eleven digits."""


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function, after Lentz."""
    front, back = 1.0, 1 - (a + b) * x / (a + 1)
    back = 1 / (back if abs(back) > TINY else TINY)
    found = back
    for m in range(1, STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            back = 1 + term * back
            back = 1 / (back if abs(back) > TINY else TINY)
            front = 1 + term / front
            front = front if abs(front) > TINY else TINY
            change = front * back
            found *= change
        if abs(change - 1) < 1e-15:
            break
    return found


def beta_share(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function I_x(a, b)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    logs = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    if x < (a + 1) / (a + b + 2):
        return math.exp(logs) * _fraction(a, b, x) / a
    return 1 - math.exp(logs) * _fraction(b, a, 1 - x) / b


def student_below(t: float, freedom: float) -> float:
    """The probability that Student's t lies below `t`."""
    if math.isinf(t):
        return 1.0 if t > 0 else 0.0
    if freedom >= ALMOST_NORMAL:
        return NormalDist().cdf(t)
    tail = beta_share(freedom / 2, 0.5, freedom / (freedom + t * t)) / 2
    return 1 - tail if t > 0 else tail


def _solve(rising: Callable[[float], float], wanted: float, low: float, high: float) -> float:
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if rising(middle) < wanted else (low, middle)
    return (low + high) / 2


@lru_cache(maxsize=4096)
def student_quantile(share: float, freedom: float) -> float:
    """The t below which this share lies, e.g. 0.975 for a two-sided 95 % interval."""
    if not (0 < share < 1 and freedom > 0):
        raise ValueError("a quantile needs a share between 0 and 1 and at least one degree of freedom")
    if share < 0.5:
        return -student_quantile(1 - share, freedom)
    if freedom >= ALMOST_NORMAL:
        return NormalDist().inv_cdf(share)
    high = 2.0
    while student_below(high, freedom) < share:
        high *= 2
    return _solve(lambda t: student_below(t, freedom), share, 0.0, high)


def share_at_most(hits: int, tries: int, confidence: float = 0.95) -> float:
    """One-sided Clopper-Pearson upper bound: the share is below it with this confidence."""
    if not 0 <= hits <= tries:
        raise ValueError("more hits than tries")
    if hits == tries:
        return 1.0
    return _solve(lambda x: beta_share(hits + 1, tries - hits, x), confidence, 0.0, 1.0)


def share_at_least(hits: int, tries: int, confidence: float = 0.95) -> float:
    """The same bound from below."""
    return 1 - share_at_most(tries - hits, tries, confidence)
