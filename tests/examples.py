"""How many examples a property is asked of: a few in `make test`, many more in CI's long run.

    python -m pytest -m hypothesis --hypothesis-profile=thorough

A busy machine is slow, not wrong: how long one example takes is asked of none.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

SLOW = [HealthCheck.too_slow]
SHARE = {"quick": 0.25, "thorough": 2.0}
"""Of the number that a test names."""


def register() -> None:
    settings.register_profile("quick", max_examples=30, deadline=None, suppress_health_check=SLOW)
    settings.register_profile("thorough", max_examples=300, deadline=None, suppress_health_check=SLOW)
    settings.load_profile("quick")


def many(count: int) -> int:
    """For a property that needs more than most."""
    return max(1, round(count * SHARE.get(settings.get_current_profile_name(), 1.0)))
