"""At the end of a search that has a winner torch.compile takes its time beside v0: once, on a GPU, at nobody's cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from bot.campaign.effects import EndSearch, OpenRound
from bot.errors import CorruptRecord, OperatorError
from bot.git.repo import Repo
from bot.ledger import journal
from bot.model.campaign import OUT_OF_TIME, Campaign, Order, Phase, Profile, Stage, StopReason, Zone
from bot.model.facts import NumbersRaced, SearchEnded
from bot.model.measurement import Reading, Runner
from bot.model.rivals import Rival
from bot.zones import measure
from bot.zones.intake import accept
from bot.zones.measure import Shift, Workshop
from bot.zones.rivals import ELSEWHERE, SPENT, of_winner
from tests.analysis.blocks import exact
from tests.fakes.bench import FakeBench
from tests.render import builders as a

LONGEST = ("full-8192x8192-bfloat16", "backward-8192x8192-bfloat16", "forward-8192x8192-bfloat16")
READ = Reading(blocks=exact(20))


class Track(FakeBench):
    """A bench with a GPU that plays whatever it is asked for."""

    def __init__(self, runner: Runner = a.GPU_RUNNER, falls: Exception | None = None) -> None:
        self._runner, self._falls = runner, falls
        self.asked: list[tuple[str, ...]] = []

    @property
    def runner(self) -> Runner:
        return self._runner

    def rivals_of_winner(self, cases: Sequence[str]) -> tuple[Rival, ...]:
        self.asked.append(tuple(cases))
        if self._falls is not None:
            raise self._falls
        return tuple(Rival(name="max-autotune", case=case, reading=READ) for case in cases)


class Opening:
    def __init__(self, bench: FakeBench) -> None:
        self.bench, self.times = bench, 0

    def __call__(self, profile: Profile) -> FakeBench:
        self.times += 1
        return self.bench


def played(campaign: Campaign, bench: FakeBench, why: StopReason = StopReason.STAGNATION) -> tuple[Rival, ...]:
    return of_winner(campaign, why, Opening(bench), lambda step: None)


def test_the_three_cases_in_which_v0_takes_longest_are_played() -> None:
    track, steps = Track(), list[str]()
    found = of_winner(a.measured(), StopReason.STAGNATION, Opening(track), steps.append)
    assert track.asked == [LONGEST]
    assert steps == ["the winner's rivals played, 0 s"]
    assert [(one.name, one.case, one.why_not) for one in found] == [("max-autotune", case, "") for case in LONGEST]


@pytest.mark.parametrize(
    "campaign",
    [
        a.measured().model_copy(update={"lineage": (0,)}),
        a.measured().model_copy(update={"rivals": (Rival(name="max-autotune", case="c", why_not="late"),)}),
        a.searched(),
        a.measured().model_copy(update={"profile": None}),
    ],
    ids=["no winner", "played before", "no GPU", "no profile"],
)
def test_where_there_is_nothing_to_play_no_bench_is_opened(campaign: Campaign) -> None:
    opening, steps = Opening(Track()), list[str]()
    assert of_winner(campaign, StopReason.STAGNATION, opening, steps.append) == ()
    assert opening.times == 0 and steps == []


@pytest.mark.parametrize("why", OUT_OF_TIME)
def test_a_campaign_that_spent_its_minutes_spends_no_more(why: StopReason) -> None:
    opening = Opening(Track())
    found = of_winner(a.measured(), why, opening, pytest.fail)
    assert [(one.case, one.why_not) for one in found] == [(case, SPENT) for case in LONGEST]
    assert opening.times == 0


def test_a_job_that_went_on_elsewhere_says_so() -> None:
    track = Track(a.GPU_RUNNER.model_copy(update={"gpu_name": "NVIDIA H100 80GB HBM3"}))
    assert {one.why_not for one in played(a.measured(), track)} == {ELSEWHERE}
    assert track.asked == []


@pytest.mark.parametrize("falls", [OperatorError("the judge did not answer within 120 s"), KeyError("no such case")])
def test_whatever_goes_wrong_is_a_reason_and_costs_nothing(falls: Exception) -> None:
    found = played(a.measured(), Track(falls=falls))
    assert [one.case for one in found] == [*LONGEST]
    assert all(one.why_not.startswith(type(falls).__name__) and str(falls)[:9] in one.why_not for one in found)


def test_a_job_that_is_told_to_stop_stops() -> None:
    class Stopped(Track):
        def rivals_of_winner(self, cases: Sequence[str]) -> tuple[Rival, ...]:
            raise SystemExit(1)

    with pytest.raises(SystemExit):
        played(a.measured(), Stopped())


def test_a_bench_that_plays_nothing_is_not_asked() -> None:
    class Silent(FakeBench):
        runner = a.GPU_RUNNER

        def __init__(self) -> None:
            pass

    assert played(a.measured(), Silent()) == ()


# -- in the journal ---------------------------------------------------------------------------------------------------


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo.init(tmp_path / "a.git", bare=True)


def searching(winner: bool = True) -> Campaign:
    """An open order, and a round that won or none."""
    order = Order(id="o-optimize", campaign=a.CAMPAIGN_ID, phase=Phase.OPTIMIZE)
    over = {"stage": Stage.OPTIMIZING, "order": order, "lineage": (0, 3) if winner else (0,)}
    return a.measured().model_copy(update=over)


def ended(campaign: Campaign, *rivals: Rival) -> SearchEnded:
    assert campaign.order is not None
    return SearchEnded(order=campaign.order.id, why=StopReason.STAGNATION, rivals=rivals)


def shift(folder: Path, bench: FakeBench) -> Shift:
    """A job that has its tree already."""
    (folder / "tree").mkdir()
    repo = Repo.init(folder / "b.git", bare=True)
    return Shift(searching(), Workshop(repo=repo, python="python", scratch=folder, open_bench=lambda *_: bench))


@pytest.mark.parametrize("why", [StopReason.STAGNATION, StopReason.IDEAS_EXHAUSTED])
def test_however_a_search_ends_its_winner_has_rivals(
    why: StopReason, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "next_proposal", lambda _: None)
    monkeypatch.setattr(measure, "has_race_ahead", lambda _: False)
    exhausted = why is StopReason.IDEAS_EXHAUSTED
    effect = OpenRound(order="o-optimize", number=4) if exhausted else EndSearch(order="o-optimize", why=why)
    fact = shift(tmp_path, Track()).perform(effect)
    assert isinstance(fact, SearchEnded) and fact.why is why
    assert [rival.case for rival in fact.rivals] == [*LONGEST]


@pytest.mark.parametrize("why", [StopReason.BUDGET_SPENT, *OUT_OF_TIME])
def test_a_search_whose_budget_ends_says_what_would_have_been_next(
    why: StopReason, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "untried", lambda brief: f"next: {brief.site.kernel}")
    fact = shift(tmp_path, Track()).perform(EndSearch(order="o-optimize", why=why))
    assert isinstance(fact, SearchEnded) and fact.note == "next: rms_norm"


def test_nobody_has_an_idea_so_launch_numbers_are_raced_before_the_search_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "next_proposal", lambda _: None)
    fact = shift(tmp_path, Track()).perform(OpenRound(order="o-optimize", number=4))
    assert isinstance(fact, NumbersRaced) and fact.race.of == 3


def one(case: str, name: str = "max-autotune") -> Rival:
    return Rival.model_validate({"name": name, "case": case, "reading": READ})


def test_the_campaign_keeps_who_was_played_first(repo: Repo) -> None:
    campaign = searching()
    after = accept((ended(campaign, *map(one, LONGEST)),), campaign, repo)
    assert [rival.case for rival in after.rivals] == [*LONGEST]
    again = after.model_copy(update={"stage": Stage.OPTIMIZING, "order": campaign.order})
    assert accept((ended(campaign),), again, repo).rivals == after.rivals


@pytest.mark.parametrize(
    ("rivals", "winner"),
    [
        ((one("forward-512x1024-bfloat16"),), True),
        ((one(LONGEST[0], "compiled"),), True),
        ((one(LONGEST[0]), one(LONGEST[0])), True),
        ((one(LONGEST[0]),), False),
    ],
    ids=["another case", "another rival", "twice", "without a winner"],
)
def test_who_was_not_asked_for_is_no_fact(rivals: tuple[Rival, ...], winner: bool, repo: Repo) -> None:
    campaign = searching(winner)
    with pytest.raises(CorruptRecord, match="nobody asked for"):
        accept((ended(campaign, *rivals),), campaign, repo)


def test_a_journal_from_before_is_read_as_it_was() -> None:
    (line,) = journal.number((ended(searching()),), zone=Zone.MEASURE, at="2026-11-20T09:00:00Z", first=0)
    text = journal.write((line,))
    old = text.replace(',"rivals":[]', "")
    assert old != text
    (read,) = journal.parse(old, "journal.jsonl")
    assert read.fact == line.fact
