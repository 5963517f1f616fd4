"""Which kernel goes first, why, and how many fit into a night."""

from __future__ import annotations

import pytest

from bot.campaign.sweeping import (
    Place,
    Plan,
    Seen,
    busy,
    explained,
    matrix,
    minutes,
    plan,
    queue_before,
    spent_today,
    sweeps,
)
from bot.model.campaign import Campaign, Order, Origin, Outcome, Phase, Stage
from bot.model.commands import GpuChoice, Optimize
from bot.model.policy import RepoPolicy
from bot.model.sweep import Cell, SweepPolicy, cell_of, own_branch, sweep_id
from tests.campaign.nights import HOPPER, NEWER, found, night
from tests.campaign.story import pull

NOW = "2026-01-11T02:00:00Z"
POLICY = SweepPolicy(enabled=True, pools={"hopper": ("gpu", "hopper")})
A, B, C = (Cell(kernel=name, pool="hopper") for name in ("a", "b", "c"))


def ordered(*campaigns: Campaign, seen: dict[Cell, Seen] | None = None, policy: SweepPolicy = POLICY) -> Plan:
    return plan(campaigns, ("a", "b"), seen or {}, policy, NOW)


def names(found: Plan) -> list[str]:
    return [p.cell.kernel for p in found.places]


def person(kernel: str, *, gpu: GpuChoice = GpuChoice.HOPPER, waiting: bool = True, **fields: object) -> Campaign:
    order = Order(id="c7-1-profile", campaign="c7", phase=Phase.PROFILE) if waiting else None
    base: dict[str, object] = {"command": Optimize(kernel=kernel, gpu=gpu), "pull": pull(), "order": order}
    return Campaign.model_validate({"id": "c7", "stage": Stage.PROFILING, **base, **fields})


# Names


def test_a_campaign_is_named_after_its_cell_and_day() -> None:
    assert sweep_id(NOW, HOPPER) == "sweep-20260111-hopper-rms_norm"
    assert cell_of(sweep_id(NOW, HOPPER)) == HOPPER
    assert own_branch("rms_norm") == "kernelwright/sweep/rms_norm"


@pytest.mark.parametrize("name", ["c42", "sweep-2026-hopper-a", "sweep-20260111-volta-a", "sweep-20260111-hopper-A"])
def test_other_names_are_no_cells(name: str) -> None:
    assert cell_of(name) is None


def test_neither_a_name_nor_an_origin_alone_makes_a_sweep() -> None:
    named = night(1).model_copy(update={"origin": Origin.PERSON})
    called = night(1).model_copy(update={"id": "c42"})
    assert sweeps((named, called, night(2))) == (night(2),)


# The order


def test_what_was_never_swept_comes_first() -> None:
    assert names(ordered(night(10, A, profile=found(roof=5.0)))) == ["b", "a"]


def test_of_two_the_one_farther_from_its_roof() -> None:
    far, near = night(10, B, profile=found(roof=30.0)), night(10, A, profile=found(roof=80.0))
    assert names(ordered(far, near)) == ["b", "a"]
    assert [p.points for p in ordered(far, near).places] == [75.0, 25.0]


def test_of_two_the_one_that_waited_longer() -> None:
    assert names(ordered(night(10, A), night(5, B))) == ["b", "a"]


def test_a_kernel_near_its_roof_has_its_turn_in_time() -> None:
    near, far = night(1, A, profile=found(roof=95.0)), night(10, B, profile=found(roof=55.0))
    assert names(ordered(near, far)) == ["a", "b"], "10 days outweigh 40 % of room"


def test_of_two_the_one_that_changed() -> None:
    both = (night(10, A), night(10, B))
    assert names(ordered(*both, seen={B: Seen(changed=True)})) == ["b", "a"]


def test_what_was_measured_under_other_software_comes_before_what_was_not() -> None:
    kept = ordered(night(9, B), night(10, A, profile=found(roof=10.0, runner=NEWER)))
    assert names(kept) == ["b", "a"], "though a has more room"
    assert kept.places[0].reasons[-1] == "50 because it was measured under torch 2.9 and Triton 3.5"


def test_the_latest_campaign_of_a_cell_speaks_for_it() -> None:
    early, late = night(1, A, profile=found(roof=10.0)), night(10, A, profile=found(roof=90.0))
    assert ordered(late, early).places[-1].reasons[0] == "10 for 90 % of the roof"


def test_a_campaign_that_found_nothing_out_does_not_hide_the_one_before() -> None:
    failed = night(10, A, profile=None, outcome=Outcome.FAILED)
    assert "never swept" not in ordered(night(9, A), failed).places[-1].reasons[0]


def test_every_place_says_how_it_came_about() -> None:
    shown = explained(ordered(night(10, A), seen={A: Seen(changed=True), B: Seen(waits="theirs")}))
    assert shown == (
        "1. a on hopper: 115 points (60 for 40 % of the roof; 5 for 1.0 days since its last sweep;"
        " 50 because it changed since then); about 2 GPU minutes",
        "-  b on hopper: left out, theirs",
    )


def test_a_distance_that_nobody_knows_lies_in_the_middle() -> None:
    assert "nobody knows" in ordered(night(10, A, profile=found(roof=None))).places[-1].reasons[0]


# What does not go in tonight


def test_what_was_swept_today_is_left_out() -> None:
    kept = ordered(night(11, A))
    assert names(kept) == ["b"]
    assert kept.left[0].why == "swept today already"
    assert names(ordered(night(11, A, outcome=None))) == ["b", "a"], "it goes on with what is under way"


def test_a_person_at_the_kernel_keeps_the_sweep_away() -> None:
    kept = ordered(person("a", gpu=GpuChoice.AMPERE))
    assert names(kept) == ["b"] and "somebody is at it: campaign c7 on pull request 1" in kept.left[0].why
    assert busy((person("a", stage=Stage.ENDED),), "a") == ""


def test_minutes_bound_the_night_and_a_shorter_one_may_still_fit() -> None:
    long = night(9, A, profile=found(roof=1.0), spent=(("o1", 3000.0),))
    short = night(9, B, spent=(("o1", 540.0),))
    ten = POLICY.model_copy(update={"max_gpu_minutes": 10})
    kept = ordered(long, short, policy=ten)
    assert names(kept) == ["b"]
    assert kept.left[0].why == "max_gpu_minutes = 10: 0 min of hopper are taken, and it is taken to need 50 min"
    nine = POLICY.model_copy(update={"max_gpu_minutes": 9})
    assert names(ordered(long, short, policy=nine)) == ["b"], "nine fit into nine"
    assert names(ordered(long, short, policy=POLICY.model_copy(update={"max_gpu_minutes": 8}))) == []


def test_what_was_used_today_counts() -> None:
    today = night(11, C, spent=(("o1", 600.0),))
    assert spent_today((today, night(10, B)), "hopper", NOW) == 10
    assert names(ordered(today, policy=POLICY.model_copy(update={"max_gpu_minutes": 30}))) == ["a"], "20 min assumed"


def test_pools_have_budgets_of_their_own() -> None:
    two = SweepPolicy(enabled=True, max_gpu_minutes=40, pools={"hopper": ("h",), "ampere": ("a",)})
    assert [(p.cell.pool, p.cell.kernel) for p in ordered(policy=two).places] == [
        ("ampere", "a"),
        ("ampere", "b"),
        ("hopper", "a"),
        ("hopper", "b"),
    ]


def test_a_night_has_so_many_campaigns_and_no_more() -> None:
    kept = ordered(policy=POLICY.model_copy(update={"max_campaigns": 1}))
    assert names(kept) == ["a"] and kept.left[0].why == "max_campaigns = 1 of this night are placed"


def test_booked_minutes_are_believed_before_those_of_the_records() -> None:
    assert minutes(night(1)) == 2.0
    assert minutes(night(1, spent=(("o1", 60.0), ("o2", 30.0)))) == 1.5


def test_the_matrix_names_campaign_and_labels() -> None:
    place = Place(cell=A, campaign="sweep-20260111-hopper-a", points=1, reasons=(), minutes=1)
    assert matrix(Plan(places=(place,)), POLICY.pools) == {
        "include": [
            {"campaign": "sweep-20260111-hopper-a", "kernel": "a", "pool": "hopper", "labels": ["gpu", "hopper"]}
        ]
    }


# People go first


def test_a_person_s_order_for_the_pool_is_before_every_sweep() -> None:
    assert queue_before((person("z"), night(1)), "hopper") == ("c7",)
    assert queue_before((person("z", gpu=GpuChoice.AUTO),), "hopper") == ("c7",), "the default GPU"
    ampere = RepoPolicy(default_gpu="ampere")
    assert queue_before((person("z", gpu=GpuChoice.AUTO, policy=ampere),), "hopper") == ()


def test_who_waits_for_a_human_or_has_ended_holds_nobody_up() -> None:
    assert queue_before((person("z", waiting=False), person("z", stage=Stage.ENDED)), "hopper") == ()
