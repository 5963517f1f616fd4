"""A campaign told fact by fact, for tests that want to stand somewhere in it."""

from __future__ import annotations

from bot.campaign.effects import Effect
from bot.campaign.machine import fold, owed_in
from bot.model.campaign import Answer, Campaign, Checkpoint, Order, Outcome, Phase, Profile, StopReason, Zone
from bot.model.commands import Mode, Optimize
from bot.model.diagnosis import Bottleneck, Diagnosis
from bot.model.facts import (
    Answered,
    CampaignClosed,
    CampaignRequested,
    Cancelled,
    EffectDone,
    EffectRequested,
    Fact,
    Finalized,
    HeadMoved,
    MachineChanged,
    NumbersRaced,
    OrderFailed,
    OrderPlaced,
    Profiled,
    Pushed,
    PushRefused,
    RoundOpened,
    SearchEnded,
    SegmentJoined,
    TryRequested,
    VariantJudged,
    VariantMeasured,
)
from bot.model.finalization import CommandRun, Finalization, ScriptRun
from bot.model.measurement import Case, Evidence, Measurement, Runner, Suite
from bot.model.people import Actor
from bot.model.policy import RepoPolicy
from bot.model.pull import PullSnapshot
from bot.model.race import Race
from bot.model.reasons import ReasonCode
from bot.model.site import KernelSite
from bot.model.variant import Hypothesis, SourceFile, Variant
from bot.model.verdict import CaseScore, Decision, Finding, Score, Verdict

CAMPAIGN = "c42"
HEAD = "a" * 40
MOVED = "b" * 40
COMMIT = "c" * 40
MIRA = Actor(id=7, login="mira")
DANA = Actor(id=8, login="dana")
PATH = "src/sample_kernels/ops/rms_norm.py"
CASE = Case(
    id="forward-r4096-c4096-bfloat16", direction="forward", shape=(("rows", 4096), ("cols", 4096)), dtype="bfloat16"
)
RUNNER = Runner(evidence=Evidence.STATIC, arch="sm_90")


def pull(head: str = HEAD) -> PullSnapshot:
    return PullSnapshot(
        number=1,
        is_open=True,
        is_draft=False,
        author=DANA,
        head_sha=head,
        head_ref="faster-norm",
        head_repo="sample/kernels",
        base_ref="main",
        base_repo="sample/kernels",
    )


def requested(
    mode: Mode = Mode.INTERACTIVE, max_variants: int = 8, policy: RepoPolicy | None = None
) -> CampaignRequested:
    return CampaignRequested(
        campaign=CAMPAIGN,
        command=Optimize(kernel="rms_norm", mode=mode, max_variants=max_variants),
        requester=MIRA,
        comment_id=42,
        requested_at="2026-01-02T03:04:05Z",
        pull=pull(),
        policy=policy or RepoPolicy(evidence="static"),
    )


def order_id(number: int, phase: Phase) -> str:
    return f"{CAMPAIGN}-{number}-{phase}"


def placed(number: int, phase: Phase, winner: int | None = None) -> OrderPlaced:
    return OrderPlaced(order=Order(id=order_id(number, phase), campaign=CAMPAIGN, phase=phase, winner=winner))


def source(text: str) -> tuple[SourceFile, ...]:
    return (SourceFile(path=PATH, text=text),)


def variant(number: int, parent: int = 0, references: tuple[str, ...] = (), technique: str = "num_warps") -> Variant:
    return Variant(
        number=number,
        parent=parent,
        files=source(f"# v{number}\n"),
        hypothesis=Hypothesis(
            title=f"idea {number}", why="it spills", expected="1.2x", technique=technique, references=references
        ),
        proposer="engine",
    )


def measurement(of: Variant | None = None) -> Measurement:
    return Measurement(runner=RUNNER, source=(of or variant(0)).digest)


def profile(roof_percent: float | None = 40.0) -> Profile:
    site = KernelSite(
        kernel="rms_norm",
        preset="liger",
        source_root="src",
        module="sample_kernels.ops.rms_norm",
        files=(PATH,),
        test_file="test/transformers/test_rms_norm.py",
        benchmark_file="benchmark/scripts/benchmark_rms_norm.py",
        test_command=("{python}", "-m", "pytest", "{test}"),
        style_command=("make", "checkstyle"),
    )
    return Profile(
        site=site,
        suite=Suite(name="quick", cases=(CASE,), checks=()),
        sources=source("# v0\n"),
        baseline=measurement(),
        diagnosis=Diagnosis(
            bottleneck=Bottleneck.MEMORY, confidence="heuristic", sentence="it moves bytes", roof_percent=roof_percent
        ),
    )


def to_the_search(first: Profile, max_variants: int = 8) -> tuple[Fact, ...]:
    """Up to where the first idea is owed, with nobody to ask."""
    return (
        requested(mode=Mode.AUTONOMOUS, max_variants=max_variants),
        placed(1, Phase.PROFILE),
        Profiled(order=order_id(1, Phase.PROFILE), profile=first),
        placed(2, Phase.OPTIMIZE),
    )


def next_step(campaign: Campaign) -> Effect:
    """What a GPU job would do now."""
    (step,) = owed_in(campaign, Zone.MEASURE)
    return step


def verdict(decision: Decision, value: float | None = 1.2, gain: float | None = 0.2) -> Verdict:
    score = None
    if value is not None:
        case = CaseScore(case=CASE.id, before_us=100.0, after_us=100.0 / value, speedup=value)
        score = Score(evidence=Evidence.STATIC, value=value, cases=(case,))
    severity = "reject" if decision is Decision.REJECTED else "info"
    finding = Finding(guardrail="gain", severity=severity, message="because")
    return Verdict(decision=decision, findings=(finding,), score=score, gain_over_best=gain)


ACCEPTED = verdict(Decision.ACCEPTED)
WRONG = verdict(Decision.REJECTED, value=None, gain=None)
STAGNANT = verdict(Decision.INCONCLUSIVE, value=1.005, gain=0.005)


def round_facts(number: int, order: str, outcome: Verdict, parent: int = 0) -> tuple[Fact, ...]:
    played = variant(number, parent)
    return (
        RoundOpened(order=order, variant=played),
        VariantMeasured(order=order, number=number, measurement=measurement(played)),
        VariantJudged(order=order, number=number, verdict=outcome),
    )


def elsewhere(number: int, outcome: Verdict) -> tuple[Fact, ...]:
    """v0 and a variant once more, under another compiler."""
    runner = RUNNER.model_copy(update={"triton": "3.7.0"})
    there = [measurement(of).model_copy(update={"runner": runner}) for of in (None, variant(number))]
    return (
        MachineChanged(order=O2, baseline=there[0]),
        VariantMeasured(order=O2, number=number, measurement=there[1]),
        VariantJudged(order=O2, number=number, verdict=outcome),
    )


def asked(checkpoint: Checkpoint, turn: int) -> tuple[Fact, ...]:
    key = f"checkpoint/{checkpoint}/{turn}"
    return (
        EffectRequested(key=key, zone=Zone.PUBLISH),
        EffectDone(key=key, zone=Zone.PUBLISH, ref="100"),
    )


def answered(checkpoint: Checkpoint, approved: bool = True, chosen: int | None = None, actor: Actor = MIRA) -> Answered:
    return Answered(
        answer=Answer(
            checkpoint=checkpoint,
            approved=approved,
            variant=chosen,
            actor=actor,
            via="comment",
            source_id=200,
            said_at="2026-01-02T03:05:00Z",
        )
    )


def finalization(
    winner: int = 1, tests_pass: bool = True, style_passes: bool = True, script: tuple[bool, ...] = ()
) -> Finalization:
    """`script`: how the repository's own benchmark script went on v0, and on the winner."""

    def run(passed: bool) -> CommandRun:
        return CommandRun(argv=("x",), passed=passed, exit_code=0 if passed else 1, seconds=1.0, summary="done")

    return Finalization(
        variant=winner,
        tests=(run(tests_pass),),
        style=(run(style_passes),),
        files=source(f"# v{winner}\n"),
        scripts=tuple(ScriptRun(variant=of, run=run(ran)) for of, ran in zip((0, winner), script, strict=False)),
    )


P1, O2, F3 = order_id(1, Phase.PROFILE), order_id(2, Phase.OPTIMIZE), order_id(3, Phase.FINALIZE)

WHOLE: tuple[Fact, ...] = (
    requested(),
    placed(1, Phase.PROFILE),
    Profiled(order=P1, profile=profile()),
    SegmentJoined(order=P1, digest="0" * 64),
    *asked(Checkpoint.PROFILE, 1),
    answered(Checkpoint.PROFILE),
    placed(2, Phase.OPTIMIZE),
    *round_facts(1, O2, ACCEPTED),
    *round_facts(2, O2, WRONG, parent=1),
    SearchEnded(order=O2, why=StopReason.IDEAS_EXHAUSTED),
    SegmentJoined(order=O2, digest="1" * 64),
    *asked(Checkpoint.WINNER, 2),
    answered(Checkpoint.WINNER),
    placed(3, Phase.FINALIZE, winner=1),
    Finalized(order=F3, finalization=finalization()),
    SegmentJoined(order=F3, digest="2" * 64),
    *asked(Checkpoint.FINAL, 3),
    answered(Checkpoint.FINAL),
    EffectRequested(key="push", zone=Zone.PUSH),
    Pushed(commit=COMMIT),
    EffectDone(key="push", zone=Zone.PUSH, ref=COMMIT),
    CampaignClosed(outcome=Outcome.PUSHED),
)
"""The whole story of an interactive campaign that ends in a commit."""

STRAYS: tuple[Fact, ...] = (
    OrderFailed(order=P1, reason=ReasonCode.PREFLIGHT_FAILED, detail="no test file"),
    OrderFailed(order=O2, reason=ReasonCode.COMPUTE_FAILED, detail="the GPU is gone"),
    TryRequested(commit=COMMIT, actor=MIRA),
    Cancelled(actor=MIRA, comment_id=300),
    HeadMoved(measured=HEAD, now=MOVED),
    HeadMoved(measured=MOVED, now=HEAD),
    PushRefused(reason=ReasonCode.PUSH_CONFLICT, detail="moved"),
    Finalized(order=F3, finalization=finalization(tests_pass=False)),
    CampaignClosed(outcome=Outcome.FAILED),
    NumbersRaced(order=O2, race=Race(of=0)),
    *elsewhere(1, ACCEPTED),
    *elsewhere(1, WRONG)[2:],
    answered(Checkpoint.FINAL, approved=False),
    answered(Checkpoint.WINNER, chosen=2),
    answered(Checkpoint.PROFILE, approved=False),
)
"""Facts that belong to other turns of the story."""


def until(count: int) -> Campaign:
    return fold(Campaign(id=CAMPAIGN), WHOLE[:count])
