"""A job that goes on with a search on another machine, by a bench with another GPU; and what publish believes of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from bot.bench.gpu import Gpu
from bot.campaign.effects import OpenRound
from bot.campaign.machine import fold, owed_in
from bot.errors import CorruptRecord, OperatorError
from bot.ledger.journal import Segment
from bot.model.campaign import Campaign, Outcome, Phase, Zone
from bot.model.facts import Fact, MachineChanged, Profiled, VariantJudged, VariantMeasured
from bot.model.measurement import CaseResult, Evidence, Fault, Measurement, Runner, Timing
from bot.model.reasons import ReasonCode
from bot.model.variant import Hypothesis, Proposal, SourceFile
from bot.model.verdict import Decision
from bot.proposers.brief import Brief
from bot.zones import measure
from bot.zones.intake import SEGMENT, accept
from bot.zones.measure import Shift, work
from bot.zones.rereading import doubted
from bot.zones.workshop import Preflight, Workshop
from tests.fakes.bench import FakeBench, _marks
from tests.guardrails.hearings import paired
from tests.zones.conversation import Conversation
from tests.zones.places import At
from tests.zones.test_intake import put

V0_US = {"GPU-1": 100.0, "GPU-2": 120.0, "GPU-3": 90.0}
"""No two of a kind are equally fast."""
H200 = Gpu(uuid="GPU-2", name="NVIDIA H200", driver="580.159", arch="sm_90", memory_mib=143771, nodes=())


class Clock(FakeBench):
    """A bench with a GPU. A variant is as much faster as `# fake: gain PERCENT` says; a second number is of every other
    GPU than the first."""

    uuid = "GPU-1"
    gpu_name = "NVIDIA H200"
    wrong = False
    """Whether v0 passes no check here."""

    @property
    def runner(self) -> Runner:
        told = {"evidence": Evidence.MEASURED, "gpu_name": self.gpu_name, "gpu_uuid": self.uuid, "driver": "580.159"}
        return super().runner.model_copy(update={**told, "gpu_memory_mib": 143771})

    def measure(self, files: tuple[SourceFile, ...], *, passports: bool) -> Measurement:
        found = super().measure(files, passports=passports).model_copy(update={"seconds": 3.0})
        v0_us, gains = V0_US[self.uuid], _marks(files).get("gain", "0").split()
        us = v0_us / (1 + float(gains[0 if self.uuid == "GPU-1" else -1]) / 100)
        told: dict[str, Any] = {"timing": Timing(median_us=us, timer="replay")}
        if "gain" in _marks(files):
            told["paired"] = paired(v0_us, us)
        rows = tuple(row.model_copy(update={"passed": row.passed and not self.wrong}) for row in found.checks)
        cases = tuple(case.model_copy(update=told) for case in found.cases)
        return found.model_copy(update={"cases": cases, "checks": rows})


def on(uuid: str, **more: Any) -> type[Clock]:
    return type("There", (Clock,), {"uuid": uuid, **more})


IDEAS = ("# fake: gain 10", "# fake: gain 25 -20", "# fake: gain 40")
"""The second one is faster on the first machine alone."""


def having(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    """These ideas and no other, and no race once they are tried."""

    def next_proposal(brief: Brief) -> Proposal | None:
        left = lines[len(brief.rounds) :]
        if not left:
            return None
        first, *rest = brief.original
        files = (SourceFile(path=first.path, text=f"{first.text}\n{left[0]}\n"), *rest)
        idea = Hypothesis(title=left[0], why="it waits", expected="faster", technique="other")
        return Proposal(files=files, hypothesis=idea, proposer="engine")

    monkeypatch.setattr(measure, "next_proposal", next_proposal)
    monkeypatch.setattr(measure, "has_race_ahead", lambda _: False)
    monkeypatch.setattr(measure, "has_opening_ahead", lambda _: False)


@pytest.fixture
def talk(at: At) -> Conversation:
    return at("searching")


@pytest.fixture
def campaign(talk: Conversation) -> Campaign:
    """A search whose v0 was measured on the first GPU."""
    found = talk.campaign
    assert found.profile is not None
    bench = on("GPU-1")(Path(), found.profile.site, found.profile.suite)
    baseline = bench.measure(found.profile.sources, passports=True)
    # As an interpreter counted them; no clock does.
    cases = tuple(case.model_copy(update={"traffic_factor": 1.75}) for case in baseline.cases)
    counted = baseline.model_copy(update={"cases": cases})
    return found.model_copy(update={"profile": found.profile.model_copy(update={"baseline": counted})})


def shop(talk: Conversation, folder: Path, bench: type[FakeBench], **more: Any) -> Workshop:
    scratch = folder / "scratch"
    (scratch / "tree").mkdir(parents=True, exist_ok=True)
    return Workshop(repo=talk.repo, python="python", scratch=scratch, open_bench=bench, **more)


def worked(campaign: Campaign, talk: Conversation, folder: Path, bench: type[FakeBench], **more: Any) -> Campaign:
    assert campaign.order is not None
    return work(campaign.order, campaign, shop(talk, folder, bench, **more), folder / "out")


def told(folder: Path) -> tuple[Fact, ...]:
    return Segment(folder / "out" / SEGMENT).facts()


def kinds(folder: Path) -> list[str]:
    return [fact.kind for fact in told(folder)]


def killed_after(campaign: Campaign, talk: Conversation, folder: Path, count: int) -> Campaign:
    """The first machine dies once so many facts are written; the campaign as the next one finds it."""

    class Died(Exception):
        pass

    def dies(_: Campaign, __: Fact) -> None:
        if len(told(folder)) == count:
            raise Died

    with pytest.raises(Died):
        worked(campaign, talk, folder, on("GPU-1"), told=dies)
    return campaign


def test_the_search_goes_on_with_what_wins_on_both(
    talk: Conversation, campaign: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two were accepted on the first machine: the second loses on the next one, the first wins again."""
    having(monkeypatch, *IDEAS)
    killed_after(campaign, talk, tmp_path, 7)
    after = worked(campaign, talk, tmp_path, on("GPU-2"))
    again = ["machine_changed", "variant_measured", "variant_judged", "variant_measured", "variant_judged"]
    assert kinds(tmp_path)[7:] == [*again, "round_opened", "variant_measured", "variant_judged", "search_ended"]
    facts = told(tmp_path)
    assert [(fact.number, fact.verdict.decision) for fact in facts if isinstance(fact, VariantJudged)] == [
        (1, Decision.ACCEPTED),
        (2, Decision.ACCEPTED),
        (2, Decision.REJECTED),
        (1, Decision.ACCEPTED),
        (3, Decision.ACCEPTED),
    ]
    assert (after.lineage, after.ignored) == ((0, 1, 3), ())
    assert accept(facts, campaign, talk.repo).lineage == (0, 1, 3), "publish believes it"
    (journal,) = talk.journals.values()
    clocked = {"profile": campaign.profile}
    before = (one.model_copy(update=clocked) if isinstance(one, Profiled) else one for one in journal)
    assert doubted(campaign.id, (*before, *facts)) == (), "and whoever reads the journal"
    for played in after.rounds:
        if played.is_accepted:
            assert played.verdict is not None and played.verdict.score is not None
            assert {case.before_us for case in played.verdict.score.cases} == {V0_US["GPU-2"]}


def test_what_the_one_before_gained_elsewhere_is_nothing_to_be_held_against(
    talk: Conversation, campaign: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second gains 20 % there; that the first gained 30 % was on another machine."""
    having(monkeypatch, "# fake: gain 30", "# fake: gain 40 20")
    killed_after(campaign, talk, tmp_path, 7)
    after = worked(campaign, talk, tmp_path, on("GPU-2"))
    assert after.lineage == (0, 1, 2) and kinds(tmp_path).count("variant_measured") == 3
    verdict = after.rounds[1].verdict
    assert verdict is not None and verdict.gain_over_best == pytest.approx(1.2**0.5 - 1), "goal=balanced"


def test_v0_keeps_the_bytes_that_were_counted_of_it(
    talk: Conversation, campaign: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    having(monkeypatch)
    after = worked(campaign, talk, tmp_path, on("GPU-2"))
    assert after.profile is not None and campaign.profile is not None
    baseline = after.profile.baseline
    assert {case.traffic_factor for case in baseline.cases} == {1.75}
    assert [stamp.arch for stamp in baseline.passports] == [stamp.arch for stamp in campaign.profile.baseline.passports]
    assert after.profile.model_copy(update={"baseline": campaign.profile.baseline}) == campaign.profile


@pytest.mark.parametrize("count", [3, 8, 9, 12])
def test_wherever_the_second_machine_dies_the_third_goes_on(
    count: int, talk: Conversation, campaign: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    having(monkeypatch, *IDEAS)
    killed_after(campaign, talk, tmp_path, min(count, 7))
    if count > 7:
        assert campaign.order is not None
        segment = Segment(tmp_path / "out" / SEGMENT)
        shift = Shift(fold(campaign, segment.facts()), shop(talk, tmp_path, on("GPU-2")))
        for _ in range(count - 7):
            fact = shift.perform(owed_in(shift.campaign, Zone.MEASURE)[0])
            segment.append(fact, "2026-01-02T03:04:05Z")
            shift.campaign = fold(shift.campaign, [fact])
    after = worked(campaign, talk, tmp_path, on("GPU-3"))
    assert after.ignored == () and after.lineage == (0, 1, 3)
    assert accept(told(tmp_path), campaign, talk.repo).lineage == (0, 1, 3)
    assert after.profile is not None and after.profile.baseline.runner.gpu_uuid == "GPU-3"


def test_on_the_same_machine_nothing_is_measured_again(
    talk: Conversation, campaign: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    having(monkeypatch, *IDEAS)
    killed_after(campaign, talk, tmp_path, 7)
    worked(campaign, talk, tmp_path, on("GPU-1"))
    assert kinds(tmp_path).count("machine_changed") == 0 and kinds(tmp_path).count("variant_measured") == 3


@pytest.mark.parametrize("evidence", list(Evidence))
def test_a_clock_and_a_model_never_take_turns(
    evidence: Evidence, talk: Conversation, campaign: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of its variants is refused, and says so, as it always was."""
    having(monkeypatch, "# fake: gain 10")
    begun, bench = (campaign, FakeBench) if evidence is Evidence.MEASURED else (talk.campaign, on("GPU-2"))
    after = worked(begun, talk, tmp_path, bench)
    assert "machine_changed" not in kinds(tmp_path) and after.lineage == (0,)
    verdict = after.rounds[0].verdict
    assert verdict is not None and "different machines (evidence" in verdict.reason


def test_estimates_are_made_again_under_another_compiler(
    talk: Conversation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Newer(FakeBench):
        @property
        def runner(self) -> Runner:
            return super().runner.model_copy(update={"triton": "3.7.0"})

    having(monkeypatch)
    after = worked(talk.campaign, talk, tmp_path, Newer)
    assert kinds(tmp_path) == ["order_taken", "machine_changed", "search_ended"]
    assert after.profile is not None and after.profile.baseline.runner.triton == "3.7.0"
    assert all(case.timing is not None for case in after.profile.baseline.cases)


# A machine that nothing can be measured on


BROKEN = [
    (on("GPU-2", wrong=True), "is no yardstick on this machine: it passes none of its checks"),
    (on("GPU-2", gpu_name="NVIDIA H100 80GB HBM3"), "NVIDIA H100 80GB HBM3 .*: another kind of GPU"),
]


@pytest.mark.parametrize(("bench", "why"), BROKEN)
def test_a_job_says_why_it_cannot_go_on_and_what_helps(
    bench: type[Clock], why: str, talk: Conversation, campaign: Campaign, tmp_path: Path
) -> None:
    after = worked(campaign, talk, tmp_path, bench)
    assert (after.outcome, after.reason, after.failed) == (
        Outcome.FAILED,
        ReasonCode.PREFLIGHT_FAILED,
        Phase.OPTIMIZE,
    )
    assert "`/optimize retry`" in after.detail
    with pytest.raises(Preflight, match=why):
        shift = Shift(campaign, shop(talk, tmp_path, bench))
        shift.perform(OpenRound(order=str(campaign.order and campaign.order.id), number=1))


@pytest.mark.parametrize(("bench", "why"), BROKEN)
def test_at_a_terminal_the_campaign_stays_open_for_a_machine_that_can(
    bench: type[Clock],
    why: str,
    talk: Conversation,
    campaign: Campaign,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    having(monkeypatch, "# fake: gain 10")
    with pytest.raises(OperatorError, match=why) as stopped:
        worked(campaign, talk, tmp_path, bench, is_own=True)
    assert "the same command goes on" in stopped.value.hint
    assert kinds(tmp_path) == ["order_taken"], "nothing is lost"
    assert worked(campaign, talk, tmp_path, on("GPU-2"), is_own=True).lineage == (0, 1)


def test_a_fault_of_v0_there_is_told(talk: Conversation, campaign: Campaign, tmp_path: Path) -> None:
    class Faulty(Clock):
        uuid = "GPU-2"

        def measure(self, files: tuple[SourceFile, ...], *, passports: bool) -> Measurement:
            found = super().measure(files, passports=passports)
            return found.model_copy(update={"fault": Fault(kind="crashed", detail="signal 11")})

    after = worked(campaign, talk, tmp_path, Faulty)
    assert "the untouched rms_norm does not run on this machine: crashed: signal 11" in after.detail


def test_a_weak_fence_is_asked_about_before_anything_runs_there(
    talk: Conversation, campaign: Campaign, tmp_path: Path
) -> None:
    (tmp_path / "trusted").mkdir()
    (tmp_path / "trusted" / "kernelwright.toml").write_text('[target]\npreset = "liger"\n')
    bench = on("GPU-2")
    after = worked(campaign, talk, tmp_path, bench, gpu=H200, trusted=tmp_path / "trusted")
    assert "install bubblewrap" in after.detail and kinds(tmp_path) == ["order_taken", "order_failed"]


# What publish believes


def moved(campaign: Campaign, uuid: str = "GPU-2") -> MachineChanged:
    assert campaign.profile is not None and campaign.order is not None
    bench = on(uuid)(Path(), campaign.profile.site, campaign.profile.suite)
    return MachineChanged(order=campaign.order.id, baseline=bench.measure(campaign.profile.sources, passports=True))


def test_v0_of_another_machine_is_believed(talk: Conversation, campaign: Campaign) -> None:
    after = accept((moved(campaign),), campaign, talk.repo)
    assert after.profile is not None and after.profile.baseline.runner.gpu_uuid == "GPU-2"


LIES: dict[str, tuple[tuple[str | int, ...], object, str]] = {
    "another order": (("order",), "c1-9-optimize", "not the open one"),
    "another source": (("baseline", "source"), "0" * 64, "another source was measured"),
    "fewer cases": (("baseline", "cases"), lambda cases: cases[1:], "scored on other cases"),
    "fewer checks": (("baseline", "checks"), lambda rows: rows[1:], "checked on other cases"),
    "a case without a time": (("baseline", "cases", 0, "timing"), None, "could not be timed"),
    "nothing right": (
        ("baseline", "checks"),
        lambda rows: [{**row, "passed": False} for row in rows],
        "passes none of its checks",
    ),
    "the same machine": (("baseline", "runner", "gpu_uuid"), "GPU-1", "v0 was measured on this machine"),
    "another kind": (("baseline", "runner", "gpu_name"), "NVIDIA H100", "another kind of GPU"),
    "no clock": (("baseline", "runner", "evidence"), "static", "v0 was not measured there"),
    "a fault": (("baseline", "fault"), {"kind": "crashed", "detail": ""}, "v0 does not run there"),
    "a bandwidth out of a wiki": (
        ("baseline", "runner", "learned"),
        [{"name": "memory_bandwidth", "value": 9000.0, "source": "<gpu-wiki>/docs/x.md:L1", "read": "2026-11-22"}],
        "from a knowledge base",
    ),
    "a number beyond numbers": (("baseline", "cases", 0, "memory_bytes"), 10**400, "larger than any"),
}


@pytest.mark.parametrize("what", LIES)
def test_v0_of_another_machine_with_one_lie_is_not_believed(what: str, talk: Conversation, campaign: Campaign) -> None:
    path, value, words = LIES[what]
    with pytest.raises(CorruptRecord, match=words):
        accept((put(moved(campaign), value, *path),), campaign, talk.repo)


def test_a_better_estimate_of_v0_is_not_believed_either(talk: Conversation) -> None:
    campaign = talk.campaign
    assert campaign.profile is not None and campaign.order is not None
    newer = put(campaign.profile.baseline, "3.7.0", "runner", "triton")
    honest = MachineChanged(order=campaign.order.id, baseline=newer)
    assert accept((honest,), campaign, talk.repo).left != ()
    with pytest.raises(CorruptRecord, match="do not follow from the raw facts"):
        accept((put(honest, 1e6, "baseline", "cases", 0, "timing", "median_us"),), campaign, talk.repo)


def test_a_second_measurement_is_believed_only_where_it_is_owed(
    talk: Conversation, campaign: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    having(monkeypatch, "# fake: gain 10")
    worked(campaign, talk, tmp_path, on("GPU-1"))
    *facts, ended = told(tmp_path)
    (first,) = [fact for fact in facts if isinstance(fact, VariantMeasured)]
    with pytest.raises(CorruptRecord, match="v1 is not being measured"):
        accept((*facts, first, ended), campaign, talk.repo)
    with pytest.raises(CorruptRecord, match="v1 was not measured on this machine yet"):
        accept((*facts, moved(campaign), ended), campaign, talk.repo)
    with pytest.raises(CorruptRecord, match="v0 and v1 are of two machines"):
        accept((*facts, moved(campaign), first, ended), campaign, talk.repo)
    again = put(first, "GPU-2", "measurement", "runner", "gpu_uuid")
    with pytest.raises(CorruptRecord, match="a round has no verdict yet"):
        accept((*facts, moved(campaign), again, ended), campaign, talk.repo)


class Frugal(Clock):
    """Reads a variant in fresh processes where one says that it may win, and has tools for whoever does."""

    uuid = "GPU-2"
    asked: ClassVar[list[str]] = []

    def weigh(self, may_win: Callable[[tuple[CaseResult, ...]], bool]) -> None:
        self._may_win = may_win

    def measure(self, files: tuple[SourceFile, ...], *, passports: bool) -> Measurement:
        found = super().measure(files, passports=passports)
        if "gain" not in _marks(files) or self._may_win(found.cases):
            return found
        cases = [
            case.model_copy(update={"paired": case.paired.model_copy(update={"confirm": (), "control": ()})})
            for case in found.cases
            if case.paired is not None
        ]
        return found.model_copy(update={"cases": tuple(cases)})

    def asked_last(self, files: tuple[SourceFile, ...], found: Measurement, following: Any = tuple) -> Measurement:
        self.asked.append(_marks(files)["gain"])
        return found


def test_the_best_so_far_need_not_beat_itself_on_another_machine(
    talk: Conversation, campaign: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its score there is of the first one: here it is read to the end, and tools are asked about it again."""
    having(monkeypatch, *IDEAS[:1])
    monkeypatch.setattr(Frugal, "asked", [])
    found = worked(killed_after(campaign, talk, tmp_path, 4), talk, tmp_path, Frugal)
    played = found.round_of(1)
    assert found.lineage == (0, 1) and played is not None and played.verdict is not None
    assert played.verdict.decision.is_accepted and Frugal.asked == ["10"]
