"""Counters become symptoms at their thresholds, and a class without a gap between the rules."""

from __future__ import annotations

import itertools

import pytest

from bot.analysis.symptoms import (
    COUNTERS,
    IN_GENERAL,
    STALLS,
    SYMPTOMS,
    WAITS,
    class_of,
    classified,
    dominant,
    stalls,
    symptoms,
)
from bot.model.diagnosis import Bottleneck
from bot.model.profiling import Counter, KernelCounters


def profiled(kernel: str = "_k", **values: float) -> KernelCounters:
    found = tuple(Counter(name=COUNTERS[name][0], value=value) for name, value in values.items())
    return KernelCounters(kernel=kernel, counters=found)


def letters(**values: float) -> str:
    found = (*symptoms(profiled(**values)), *symptoms(profiled(**values), IN_GENERAL))
    return "".join(clue.evidence.rpartition("symptom ")[2][0] for clue in found)


BOUNDARIES = [
    ("A", {"waves": 0.49}, {"waves": 0.5}),
    ("A", {"grid": 131, "processors": 132, "waves": 0.9}, {"grid": 132, "processors": 132, "waves": 0.9}),
    ("B", {"waves": 1.6}, {"waves": 1.8}),
    ("C", {"load_sectors": 51, "load_requests": 10}, {"load_sectors": 50, "load_requests": 10}),
    (
        "C",
        {"load_sectors": 16, "load_requests": 1, "load_bytes": 25.5},
        {"load_sectors": 16, "load_requests": 1, "load_bytes": 25.6},
    ),
    ("D", {"store_bytes": 15.9}, {"store_bytes": 16}),
    ("E", {"long_scoreboard": 3.1}, {"long_scoreboard": 3.0}),
    ("F", {"fp32": 51, "tensor": 0.9}, {"fp32": 51, "tensor": 1.0}),
    ("G", {"atomics": 1, "lg_throttle": 1.1}, {"atomics": 1, "lg_throttle": 1.0}),
    ("H", {"short_scoreboard": 2.1}, {"short_scoreboard": 2.0}),
    ("I", {"barrier": 2.1}, {"barrier": 2.0}),
    ("J", {"achieved": 29.9, "theoretical": 60}, {"achieved": 30, "theoretical": 60}),
    ("J", {"achieved": 10, "theoretical": 51}, {"achieved": 10, "theoretical": 50}),
    ("K", {"local_loads": 1}, {"local_loads": 0}),
    ("K", {"registers": 129}, {"registers": 128}),
    ("L", {"fp64": 1.1}, {"fp64": 1.0}),
    ("M", {"long_scoreboard": 2.1, "dram_read": 31}, {"long_scoreboard": 2.1, "dram_read": 30}),
    ("N", {"threads": 23.9}, {"threads": 24}),
    ("O", {"memory": 45.1, "compute": 30}, {"memory": 45, "compute": 30}),
    ("O", {"memory": 30.1, "compute": 0}, {"memory": 30, "compute": 0}),
]


@pytest.mark.parametrize(("letter", "seen", "unseen"), BOUNDARIES)
def test_a_symptom_shows_beyond_its_threshold_and_not_at_it(
    letter: str, seen: dict[str, float], unseen: dict[str, float]
) -> None:
    assert letters(**seen) == letter
    assert letters(**unseen) == ""


def test_every_symptom_has_its_boundary() -> None:
    assert {letter for letter, _, _ in BOUNDARIES} == {*SYMPTOMS, *IN_GENERAL}


def test_a_counter_that_is_missing_is_not_taken_for_zero() -> None:
    assert symptoms(profiled()) == ()
    assert letters(fp32=90) == ""


def test_each_symptom_says_what_was_seen_what_it_means_and_what_to_do() -> None:
    (clue,) = symptoms(profiled("_fwd", long_scoreboard=17.9, dram_read=8))
    assert clue.evidence.startswith("_fwd: 17.9 warps wait for memory")
    assert (clue.confidence, clue.basis) == ("high", "counters")
    assert clue.inference and clue.action


@pytest.mark.parametrize(
    ("compute", "memory", "waves", "expected"),
    [
        (39.9, 60.1, 4, (Bottleneck.MEMORY, "high")),
        (60.1, 39.9, 4, (Bottleneck.COMPUTE, "high")),
        (60.1, 60.1, 4, (Bottleneck.BALANCED, "high")),
        (30, 60, 4, (Bottleneck.BALANCED, "medium")),
        (29.9, 29.9, 4, (Bottleneck.LATENCY, "medium")),
        (29.9, 29.9, 0.9, (Bottleneck.LAUNCH, "medium")),
        (29.9, 29.9, None, (Bottleneck.LATENCY, "medium")),
        (29.9, 29.9, 1, (Bottleneck.LATENCY, "medium")),
        (40, 60.1, 4, (Bottleneck.MEMORY, "low")),
        (60.1, 40, 4, (Bottleneck.COMPUTE, "low")),
        (60, 60, 4, (Bottleneck.BALANCED, "medium")),
        (30, 30, 4, (Bottleneck.BALANCED, "medium")),
        (50, 65, 4, (Bottleneck.MEMORY, "low")),
        (65, 50, 4, (Bottleneck.COMPUTE, "low")),
        (10, 45, 4, (Bottleneck.MEMORY, "low")),
    ],
)
def test_two_shares_of_peak_make_a_class(
    compute: float, memory: float, waves: float | None, expected: tuple[Bottleneck, str]
) -> None:
    assert class_of(compute, memory, waves) == expected


def test_no_pair_of_shares_is_left_without_a_class() -> None:
    for compute, memory in itertools.product(range(0, 101, 5), repeat=2):
        kind, certainty = class_of(float(compute), float(memory), 2.0)
        assert kind in Bottleneck and certainty in ("high", "medium", "low")


def test_the_kernel_that_took_most_time_speaks_for_all_as_its_longest_launch() -> None:
    short, long, other = profiled("_b", time=60), profiled("_b", time=70), profiled("_f", time=100)
    assert dominant((short, other, long)) == (long, pytest.approx(130 / 230))
    assert dominant(()) is None
    assert dominant((profiled("_b"),)) is None


def test_the_three_longest_waits_are_named() -> None:
    found = stalls(profiled(long_scoreboard=5, wait=1, barrier=0, not_selected=2, mio_throttle=0.5))
    assert found == (("long_scoreboard", 5.0), ("not_selected", 2.0), ("wait", 1.0))


@pytest.mark.parametrize(
    ("compute", "achieved", "expected"),
    [(12, 24.9, (Bottleneck.LATENCY, "medium")), (12, 25.0, (Bottleneck.MEMORY, "low")),
     (35, 24.9, (Bottleneck.BALANCED, "medium"))],
)  # fmt: skip
def test_where_nothing_is_near_its_peak_warps_that_wait_beside_few_others_decide(
    compute: float, achieved: float, expected: tuple[Bottleneck, str]
) -> None:
    assert classified(profiled(compute=compute, memory=45, achieved=achieved, long_scoreboard=3.1)) == expected
    assert classified(profiled(compute=12, memory=45, achieved=10, long_scoreboard=3.0)) == (Bottleneck.MEMORY, "low")
    assert classified(profiled(memory=45)) is None


def test_every_wait_has_a_word() -> None:
    assert set(WAITS) == set(STALLS)
