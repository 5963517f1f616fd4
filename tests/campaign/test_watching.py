"""What a sweep looks back at: slower kernels, winners under other software, branches that are somebody else's."""

from __future__ import annotations

import pytest

from bot.campaign.watching import (
    SUSPECT,
    OwnPull,
    drift,
    holding,
    in_first_words,
    ours,
    pull_to_update,
    second_looks,
    slower,
    why_left_alone,
)
from bot.model.campaign import Campaign, Round
from bot.model.verdict import Decision, Verdict
from tests.campaign.nights import NEWER, found, night, try_of, won
from tests.campaign.story import variant

OLD, NEW, WINNER = "a" * 40, "b" * 40, "f" * 40
TIP = "1" * 40


def won_by(verdict: Verdict) -> bool:
    return verdict.decision.is_accepted


def now(text: str = "# v1\n", us: float = 120.0, **fields: object) -> Campaign:
    return night(9, head="b", profile=found(text, us=us), outcome=None, **fields)


def looks(campaign: Campaign, earlier: Campaign | None = None, winner: Campaign | None = None, stands: bool = False):  # type: ignore[no-untyped-def]
    return second_looks(campaign, earlier, winner, winner_stands=stands)


# Suspicion


def test_another_source_that_is_slower_is_looked_into() -> None:
    assert looks(now(), night(8)) == (OLD,)


def test_a_difference_that_a_machine_s_days_have_is_not() -> None:
    assert looks(now(us=100 * SUSPECT), night(8)) == ()
    assert looks(now(us=100 * SUSPECT + 0.1), night(8)) == (OLD,)


def test_the_same_source_cannot_be_tried_against_itself() -> None:
    assert looks(now(text="# v0\n", us=300.0), night(8)) == ()


def test_across_machines_or_software_no_times_are_compared_and_the_source_is_tried() -> None:
    elsewhere = night(8, profile=found(us=900.0, runner=NEWER))
    assert drift(found(), found(runner=NEWER)) is None
    assert looks(now(), elsewhere) == (OLD,)


def test_drift_is_today_over_then() -> None:
    assert drift(found(us=150.0), found(us=100.0)) == pytest.approx(1.5)


def test_the_first_sweep_has_nothing_to_look_back_at() -> None:
    assert looks(now()) == ()


# Winners


def test_a_winner_that_waits_for_its_merge_is_tried_every_time() -> None:
    assert looks(now(text="# v0\n"), None, won(8, "# w\n"), stands=True) == (WINNER,)
    assert looks(now(text="# v0\n"), None, won(8, "# w\n"), stands=False) == (), "its pull request was closed"


def test_a_merged_winner_is_tried_again_when_triton_changed() -> None:
    winner, merged = won(8, "# w\n"), night(9, head="b", profile=found("# w\n", runner=NEWER), outcome=None)
    assert looks(merged, None, winner) == (OLD,), "the source before it"
    same = night(9, head="b", profile=found("# w\n"), outcome=None)
    assert looks(same, None, winner) == ()


def test_one_commit_is_tried_once_and_the_earlier_source_first() -> None:
    winner = won(7, "# w\n", head="a")
    merged = night(9, head="b", profile=found("# w\n", runner=NEWER), outcome=None)
    assert looks(merged, night(8), winner) == (OLD,)
    assert looks(now(), night(8), won(7, "# w\n", head="c"), stands=True) == (OLD, WINNER)


def test_a_merged_winner_holds_unless_the_source_before_it_wins() -> None:
    winner, merged = won(8, "# w\n"), now("# w\n")
    assert holding(merged, winner, won_by) == "untried"
    assert holding(now("# w\n", rounds=(try_of("a", Decision.REJECTED),)), winner, won_by) == "holds"
    assert holding(now("# w\n", rounds=(try_of("a"),)), winner, won_by) == "lost"


def test_a_waiting_winner_holds_if_it_wins_again() -> None:
    winner = won(8, "# w\n")
    assert holding(now(rounds=(try_of("f"),)), winner, won_by) == "holds"
    assert holding(now(rounds=(try_of("f", Decision.INCONCLUSIVE),)), winner, won_by) == "lost"
    assert holding(now(), winner, won_by) == "untried"
    assert holding(now(), None, won_by) == "untried"


# Its words


def finder() -> Campaign:
    """Whose second idea won and was pushed as `f`."""
    played = Round(variant=variant(1)), Round(variant=variant(2))
    return won(7, "# w\n", rounds=played).model_copy(update={"lineage": (0, 2)})


def titles(campaign: Campaign, *before: Campaign) -> list[str]:
    return [played.variant.hypothesis.title for played in in_first_words(campaign, before).rounds]


def test_a_winner_that_is_tried_again_is_told_by_what_it_changes() -> None:
    again = won(8, "# w\n", rounds=(try_of("f"),))  # it moved nothing, so it names the commit of the first one
    assert titles(now(rounds=(try_of("f"),)), finder(), again) == ["idea 2"]


def test_a_winner_that_built_on_another_is_told_by_the_steps_of_both() -> None:
    played = try_of("f"), Round(variant=variant(3)), Round(variant=variant(4))
    better = won(8, "# x\n", pushed="e", rounds=played).model_copy(update={"lineage": (0, 1, 4)})
    assert titles(now(rounds=(try_of("e"),)), finder(), better) == ["idea 2; idea 4"]


def test_what_was_tried_beside_it_keeps_its_own_words() -> None:
    campaign = now(rounds=(try_of("d"), Round(variant=variant(3, references=("f" * 40,)))))
    assert in_first_words(campaign, (finder(),)) == campaign
    assert in_first_words(now(rounds=(try_of("f"),)), ()) == now(rounds=(try_of("f"),))


# Regressions


def test_a_regression_is_what_was_tried_and_accepted_beside_today() -> None:
    regression = slower(now(rounds=(try_of("a"),)), night(8), won_by)
    assert regression is not None
    assert (regression.since, regression.now, regression.score.value) == (OLD, NEW, 1.2)
    assert regression.new_software == ""


@pytest.mark.parametrize("decision", [Decision.REJECTED, Decision.INCONCLUSIVE])
def test_what_was_tried_and_not_accepted_is_none(decision: Decision) -> None:
    assert slower(now(rounds=(try_of("a", decision),)), night(8), won_by) is None


def test_slower_times_alone_are_no_regression() -> None:
    assert slower(now(us=500.0), night(8), won_by) is None


def test_software_that_changed_meanwhile_is_named() -> None:
    regression = slower(now(rounds=(try_of("a"),)), night(8, profile=found(runner=NEWER)), won_by)
    assert regression is not None and regression.new_software == "torch 2.9, Triton 3.6"


# Its branch


def shown(number: int = 5, head: str = TIP, **fields: bool) -> OwnPull:
    return OwnPull(
        **{"number": number, "is_open": True, "is_merged": False, "head_sha": head, "is_ours": True, **fields}  # type: ignore[arg-type]
    )


def why(tip: str | None, own: str = "", other: str = "", *pulls: OwnPull, same: bool = False) -> str:
    return why_left_alone(tip, frozenset({own}), frozenset({other}), pulls, same)


def test_a_branch_that_is_not_there_or_holds_our_own_commit_may_move() -> None:
    assert why(None) == ""
    assert why(TIP, TIP, "", shown()) == ""


def test_a_commit_that_no_sweep_pushed_is_somebody_s() -> None:
    assert "somebody else pushed to it: 1111111" in why(TIP, "2" * 40)


def test_another_pool_s_winner_stays_until_its_pull_request_is_merged_or_closed() -> None:
    assert "another pool" in why(TIP, "", TIP, shown())
    assert "another pool" in why(TIP, "", TIP), "its pull request is about to be opened"
    assert why(TIP, "", TIP, shown(is_open=False)) == ""
    assert why(TIP, "", TIP, shown(is_open=False, is_merged=True)) == ""


def test_what_was_merged_leaves_the_branch_free_whoever_pushed_to_it() -> None:
    assert why(TIP, "", "", shown(is_open=False, is_merged=True)) == ""
    assert "theirs" in why(TIP, "", "", shown(is_open=False)), "closed work is still somebody's"


def test_a_no_to_this_very_change_counts_and_to_another_does_not() -> None:
    closed = shown(is_open=False)
    assert "somebody closed it" in why(TIP, TIP, "", closed, same=True)
    assert why(TIP, TIP, "", closed, same=False) == ""
    assert why(TIP, TIP, "", shown(is_open=False, is_merged=True), same=True) == ""
    assert why(TIP, TIP, "", shown(head="9" * 40, is_open=False), same=True) == ""


def test_only_our_own_open_pull_request_is_brought_up_to_date() -> None:
    theirs, closed = shown(4, is_ours=False), shown(3, is_open=False)
    assert pull_to_update((theirs, closed)) is None
    assert pull_to_update((theirs, closed, shown(2))) == 2


def test_ours_is_what_the_journals_say_we_pushed() -> None:
    assert ours((won(8, "# w\n"), night(9))) == {WINNER}
