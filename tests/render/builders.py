"""A campaign as it might really be: rms_norm on the sample, profiled, five variants, one of them wrong."""

from __future__ import annotations

from typing import Any

from bot.model.campaign import (
    Answer,
    Campaign,
    Checkpoint,
    Order,
    Outcome,
    Phase,
    Profile,
    Round,
    Stage,
    StopReason,
    Zone,
)
from bot.model.commands import Goal, GpuChoice, Optimize
from bot.model.diagnosis import Bottleneck, Clue, Diagnosis
from bot.model.facts import (
    Answered,
    CampaignClosed,
    CampaignRequested,
    Fact,
    Finalized,
    JournalLine,
    OrderPlaced,
    Profiled,
    Pushed,
    RoundOpened,
    SearchEnded,
    VariantJudged,
    VariantMeasured,
)
from bot.model.finalization import CommandRun, Finalization, ScriptRun
from bot.model.measurement import (
    Case,
    CaseResult,
    CheckResult,
    Evidence,
    Fault,
    Launch,
    Measurement,
    Passport,
    Reading,
    Resources,
    Runner,
    Suite,
    Timing,
)
from bot.model.people import Actor
from bot.model.policy import RepoPolicy
from bot.model.pull import PullSnapshot
from bot.model.reasons import ReasonCode
from bot.model.rivals import Rival
from bot.model.site import KernelSite
from bot.model.variant import Hypothesis, SourceFile, Variant
from bot.model.verdict import CaseScore, Decision, Finding, Score, Verdict
from tests.analysis import blocks

HEAD = "abc1234" + "0" * 33
MOVED = "def5678" + "0" * 33
PUSHED = "fee1dea" + "0" * 33
ALICE = Actor(id=1, login="alice")
BOB = Actor(id=2, login="bob")
CAROL = Actor(id=3, login="carol")
ARCHES = ("sm_80", "sm_90", "sm_100", "gfx942")
OP_PATH = "src/sample_kernels/ops/rms_norm.py"

SOURCE = '''"""Root mean square norm."""

import triton
import triton.language as tl


@triton.jit
def _rms_norm_forward_kernel(Y, X, W, n_cols, eps, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    x = tl.load(X + row * n_cols + cols, mask=mask, other=0)
    mean_square = tl.sum(x * x, axis=0) / n_cols
    y = x * tl.rsqrt(mean_square + eps)
    tl.store(Y + row * n_cols + cols, y * tl.load(W + cols, mask=mask), mask=mask)


def calculate_settings(n_cols):
    return triton.next_power_of_2(n_cols), 4
'''

SITE = KernelSite(
    kernel="rms_norm",
    preset="liger",
    source_root="src",
    module="sample_kernels.ops.rms_norm",
    files=(OP_PATH,),
    test_file="test/transformers/test_rms_norm.py",
    benchmark_file="benchmark/scripts/benchmark_rms_norm.py",
    test_command=("python", "-m", "pytest", "{test}", "-x"),
    style_command=("make", "checkstyle"),
)
PULL = PullSnapshot(
    number=7,
    is_open=True,
    is_draft=False,
    author=BOB,
    head_sha=HEAD,
    head_ref="faster-norms",
    head_repo="sample/kernels",
    base_ref="main",
    base_repo="sample/kernels",
)
SHAPES = ((512, 1024), (2048, 4096), (8192, 8192))
STATIC_RUNNER = Runner(
    evidence=Evidence.STATIC, arch="sm_90", python="3.11.9", torch="2.13.0", triton="3.6.0", sandbox="bubblewrap"
)
GPU_RUNNER = STATIC_RUNNER.model_copy(
    update={"evidence": Evidence.MEASURED, "gpu_name": "NVIDIA H200", "gpu_uuid": "GPU-1", "driver": "580.159"}
)


def case(direction: Any, rows: int, cols: int, dtype: Any = "bfloat16") -> Case:
    return Case(
        id=f"{direction}-{rows}x{cols}-{dtype}",
        direction=direction,
        shape=(("rows", rows), ("cols", cols)),
        dtype=dtype,
    )


SUITE = Suite(
    name="full",
    cases=tuple(case(direction, *shape) for direction in ("forward", "backward", "full") for shape in SHAPES),
    checks=tuple(
        case(direction, rows, cols, "float32")
        for direction in ("forward", "backward")
        for rows, cols in ((1, 7), (3, 129), (5, 1000), (8, 1024))
    ),
)
BASE_US = {"forward": (2.61, 14.2, 118.0), "backward": (7.9, 48.4, 342.0), "full": (10.5, 62.6, 460.0)}


def sources(mark: str = "") -> tuple[SourceFile, ...]:
    text = SOURCE.replace("next_power_of_2(n_cols), 4", f"next_power_of_2(n_cols), {mark}") if mark else SOURCE
    return (SourceFile(path=OP_PATH, text=text),)


def resources(registers: int = 64, spills: int = 0, arch: str = "sm_90") -> Resources:
    return Resources(
        arch=arch,
        registers=registers,
        spill_bytes=spills,
        shared_bytes=1024,
        load_bits=128,
        store_bits=128,
        instructions=412,
    )


def before_us(case_id: str) -> float:
    found = next(one for one in SUITE.cases if one.id == case_id)
    return BASE_US[found.direction][[cols for _, cols in SHAPES].index(found.size("cols"))]


def case_result(one: Case, gain: float, registers: int, spills: int, timer: Any) -> CaseResult:
    rows, cols = one.size("rows"), one.size("cols")
    return CaseResult(
        case=one.id,
        launches=(
            Launch(
                kernel="_rms_norm_forward_kernel",
                source_file=OP_PATH,
                grid=(rows, 1, 1),
                num_warps=4,
                num_stages=3,
                constants=(("BLOCK_SIZE", str(cols)),),
                tensor_bytes=4 * rows * cols,
                resources=resources(registers, spills),
            ),
        ),
        minimum_bytes=4 * rows * cols,
        traffic_factor=1.25,
        memory_bytes=2 * rows * cols,
        timing=Timing(median_us=before_us(one.id) / gain, timer=timer),
    )


def measurement(
    variant_sources: tuple[SourceFile, ...],
    gain: float = 1.0,
    *,
    wrong: int = 0,
    registers: int = 64,
    spills: int = 0,
    runner: Runner = STATIC_RUNNER,
    fault: Fault | None = None,
) -> Measurement:
    from bot.model.variant import sources_digest

    if fault is not None:
        return Measurement(runner=runner, source=sources_digest(variant_sources), fault=fault)
    checks = tuple(
        CheckResult(case=one.id, passed=i >= wrong, worst="dX", margin=0.4 if i >= wrong else 7.5)
        for i, one in enumerate(SUITE.checks)
    )
    timer = "model" if runner.evidence is Evidence.STATIC else "graph"
    return Measurement(
        runner=runner,
        source=sources_digest(variant_sources),
        checks=checks,
        cases=tuple(case_result(one, gain, registers, spills, timer) for one in SUITE.cases),
        passports=tuple(
            Passport(arch=arch, ok=True, kernels=(("_rms_norm_forward_kernel", resources(registers, spills, arch)),))
            for arch in ARCHES
        ),
        seconds=11.0,
    )


def score(gain: float, *, evidence: Evidence = Evidence.STATIC, worst: float | None = None) -> Score:
    """Forward gains less, backward more. The goal is balanced, so the score itself is the root of the speed-up."""
    factors = {"forward": 0.9, "backward": 1.1, "full": 1.0}
    cases = []
    for i, one in enumerate(SUITE.cases):
        speedup = worst if worst is not None and i == 0 else gain * factors[one.direction]
        before = before_us(one.id)
        cases.append(CaseScore(case=one.id, before_us=before, after_us=before / speedup, speedup=speedup))
    measured = evidence is Evidence.MEASURED
    return Score(
        evidence=evidence,
        value=gain if measured else gain**0.5,
        speed=gain,
        memory=1.0,
        low=gain * 0.98 if measured else None,
        high=gain * 1.02 if measured else None,
        roof_percent=min(38 * gain, 100),
        cases=tuple(cases),
    )


def gained(now: float, best: float, evidence: Evidence) -> float:
    """Of the scores above, which weigh memory where they are modelled."""
    return (now / best) ** (1.0 if evidence is Evidence.MEASURED else 0.5) - 1


def variant(number: int, parent: int, title: str, why: str, technique: str, expected: str, mark: str) -> Variant:
    return Variant(
        number=number,
        parent=parent,
        files=sources(mark),
        hypothesis=Hypothesis(title=title, why=why, expected=expected, technique=technique),
        proposer="engine",
    )


def reject(guardrail: str, message: str, case_id: str = "") -> Finding:
    return Finding(guardrail=guardrail, severity="reject", message=message, case=case_id)


def rounds(evidence: Evidence = Evidence.STATIC) -> tuple[Round, ...]:
    runner = STATIC_RUNNER if evidence is Evidence.STATIC else GPU_RUNNER
    v1 = variant(
        1, 0, "8 warps for rows of 4096 columns and more", "Four warps leave each thread with 32 values of a wide row.",
        "num_warps", "10 to 20 % on the wide cases", "8 if n_cols >= 4096 else 4",
    )  # fmt: skip
    v2 = variant(
        2, 1, "Two rows a program", "Fewer, longer programs hide the latency of the weight load.",
        "rows_per_program", "5 % on the narrow cases", "16",
    )  # fmt: skip
    v3 = variant(
        3, 1, "Row loop with pipelined loads in the backward",
        "The backward walks its rows one by one and waits for each load.", "pipeline_rows",
        "20 % and more on the backward", "8 if n_cols >= 2048 else 2",
    )  # fmt: skip
    v4 = variant(
        4, 3, "Skip the mask where the block fits", "The mask costs an instruction a load.", "drop_mask",
        "2 %", "32",
    )  # fmt: skip
    v5 = variant(5, 3, "One warp for narrow rows", "A narrow row needs no more.", "num_warps", "3 %", "1")
    return (
        Round(
            variant=v1,
            measurement=measurement(v1.files, 1.18, registers=48, runner=runner),
            verdict=Verdict(
                decision=Decision.ACCEPTED,
                score=score(1.18, evidence=evidence),
                gain_over_best=gained(1.18, 1.0, evidence),
            ),
        ),
        Round(
            variant=v2,
            measurement=measurement(v2.files, 0.91, registers=168, spills=96, runner=runner),
            verdict=Verdict(
                decision=Decision.REJECTED,
                findings=(
                    reject(
                        "regression",
                        "forward 512x1024 is 8.1 % slower than v0 (limit 5 %)",
                        "forward-512x1024-bfloat16",
                    ),
                    Finding(guardrail="resources", severity="info", message="96 bytes of spills a thread; v0 has none"),
                ),
                score=score(0.91, evidence=evidence),
                gain_over_best=gained(0.91, 1.18, evidence),
            ),
        ),
        Round(
            variant=v3,
            measurement=measurement(v3.files, 1.42, registers=72, runner=runner),
            verdict=Verdict(
                decision=Decision.ACCEPTED_WITH_NOTE,
                findings=(
                    Finding(
                        guardrail="regression",
                        severity="note",
                        message="forward 512x1024 is 1.6 % slower than v0, within the 5 % limit",
                        case="forward-512x1024-bfloat16",
                    ),
                ),
                score=score(1.42, evidence=evidence, worst=0.984),
                gain_over_best=gained(1.42, 1.18, evidence),
            ),
        ),
        Round(
            variant=v4,
            measurement=measurement(v4.files, wrong=2, runner=runner),
            verdict=Verdict(
                decision=Decision.REJECTED,
                findings=(
                    reject("correctness", "`dX` is 7.5 times over its limit on 2 of 8 cases", "forward-1x7-float32"),
                ),
            ),
        ),
        Round(
            variant=v5,
            measurement=measurement(v5.files, fault=Fault(kind="compile_timeout", detail="60 s"), runner=runner),
            verdict=Verdict(
                decision=Decision.REJECTED, findings=(reject("correctness", "did not compile within 60 s"),)
            ),
        ),
    )


DIAGNOSIS = Diagnosis(
    bottleneck=Bottleneck.MEMORY,
    confidence="heuristic",
    sentence="The backward moves 1.25 times the bytes it must and waits for each row's load before the next.",
    clues=(
        Clue(
            evidence="`_rms_norm_backward_kernel` has a loop over rows and num_stages has no effect on it",
            inference="loads are not overlapped",
            action="pipeline the row loop",
        ),
        Clue(evidence="4 warps at 8192 columns", inference="64 values a thread", action="raise num_warps on wide rows"),
    ),
    strategies=("num_warps", "pipeline_rows", "rows_per_program"),
    roof_percent=38.0,
)


def profile(evidence: Evidence = Evidence.STATIC, **fields: Any) -> Profile:
    runner = STATIC_RUNNER if evidence is Evidence.STATIC else GPU_RUNNER
    known: dict[str, Any] = {
        "site": SITE,
        "suite": SUITE,
        "sources": sources(),
        "baseline": measurement(sources(), runner=runner),
        "diagnosis": DIAGNOSIS,
    }
    return Profile(**(known | fields))


def run(
    argv: tuple[str, ...], passed: bool = True, summary: str = "", seconds: float = 14.2, output: str = ""
) -> CommandRun:
    return CommandRun(
        argv=argv, passed=passed, exit_code=0 if passed else 1, seconds=seconds, summary=summary, output=output
    )


TESTS = run(("python", "-m", "pytest", SITE.test_file, "-x"), True, "42 passed in 13.80s")
STYLE = run(("make", "checkstyle"), True, "All checks passed!", 1.3)


SCRIPT = run(("python", SITE.benchmark_file, "--overwrite"), True, "Finished", 64.2)
BAD_SCRIPT = run(SCRIPT.argv, False, "OutOfResources: shared memory", 9.1, "Traceback\nOutOfResources: shared memory")


def broken_script() -> Finalization:
    """Its benchmark script runs on v0, and not on the winner."""
    scripts = (ScriptRun(variant=0, run=SCRIPT), ScriptRun(variant=3, run=BAD_SCRIPT))
    return finalization().model_copy(update={"scripts": scripts})


def finalization(tests: tuple[CommandRun, ...] = (TESTS,), style: tuple[CommandRun, ...] = (STYLE,)) -> Finalization:
    return Finalization(variant=3, tests=tests, style=style, files=rounds()[2].variant.files)


def answer(checkpoint: Checkpoint, approved: bool = True, **fields: Any) -> Answer:
    known: dict[str, Any] = {
        "checkpoint": checkpoint,
        "approved": approved,
        "actor": CAROL,
        "via": "comment",
        "source_id": 99,
        "said_at": "2026-11-20T10:00:00Z",
    }
    return Answer(**(known | fields))


COMMAND = Optimize(kernel="rms_norm", gpu=GpuChoice.HOPPER)
CAMPAIGN_ID = "4711-rms_norm"


def requested(**fields: Any) -> Campaign:
    known: dict[str, Any] = {
        "id": CAMPAIGN_ID,
        "stage": Stage.PROFILING,
        "command": COMMAND,
        "requester": ALICE,
        "comment_id": 4711,
        "requested_at": "2026-11-20T09:00:00Z",
        "pull": PULL,
        "policy": RepoPolicy(evidence="static"),
    }
    return Campaign(**(known | fields))


def profiled(**fields: Any) -> Campaign:
    return requested(**({"stage": Stage.AWAIT_PROFILE, "profile": profile()} | fields))


def searched(**fields: Any) -> Campaign:
    return profiled(
        **(
            {
                "stage": Stage.AWAIT_WINNER,
                "rounds": rounds(),
                "lineage": (0, 1, 3),
                "stopped": StopReason.IDEAS_EXHAUSTED,
                "answers": (answer(Checkpoint.PROFILE),),
            }
            | fields
        )
    )


def finalized(**fields: Any) -> Campaign:
    answers = (answer(Checkpoint.PROFILE), answer(Checkpoint.WINNER, variant=3))
    return searched(
        **({"stage": Stage.AWAIT_FINAL, "winner": 3, "finalization": finalization(), "answers": answers} | fields)
    )


def ended(outcome: Outcome, reason: ReasonCode, **fields: Any) -> Campaign:
    return searched(**({"stage": Stage.CLOSING, "outcome": outcome, "reason": reason} | fields))


def pushed(**fields: Any) -> Campaign:
    answers = (
        answer(Checkpoint.PROFILE),
        answer(Checkpoint.WINNER, variant=3),
        answer(Checkpoint.FINAL, variant=3, via="review"),
    )
    return finalized(
        **(
            {
                "stage": Stage.CLOSING,
                "outcome": Outcome.PUSHED,
                "reason": ReasonCode.PUSHED,
                "pushed": PUSHED,
                "answers": answers,
            }
            | fields
        )
    )


def measured() -> Campaign:
    """The same campaign with a GPU under it."""
    speed = COMMAND.model_copy(update={"goal": Goal.SPEED})
    found = profile(Evidence.MEASURED)
    return searched(profile=found, rounds=rounds(Evidence.MEASURED), policy=RepoPolicy(), command=speed)


RIVAL_GAINS = {"eager": {"forward": -35.0, "backward": 4.0, "full": -20.0},
               "compiled": {"forward": 43.0, "backward": 12.0, "full": 25.0}}  # fmt: skip
"""Percent over v0; below 0 is slower."""


def rivals(**fields: Any) -> tuple[Rival, ...]:
    """Both on every case but one, on which torch.compile gave up. `compiled=60.0` says how all of its cases went."""
    found = []
    for name, gains in RIVAL_GAINS.items():
        for one in SUITE.cases:
            percent, us = fields.get(name, gains[one.direction]), before_us(one.id)
            spread = (
                *blocks.exact(percent - 1, 6, us),
                *blocks.exact(percent, 8, us),
                *blocks.exact(percent + 1, 6, us),
            )
            reading = Reading(blocks=spread)
            if (name, one.id) == ("compiled", "backward-8192x8192-bfloat16"):
                found.append(Rival(name="compiled", case=one.id, why_not="torch.compile: <b>out</b> of | memory"))
            else:
                found.append(Rival.model_validate({"name": name, "case": one.id, "reading": reading}))
    return tuple(found)


def rivalled(campaign: Campaign | None = None, **fields: Any) -> Campaign:
    """With rivals in its profile, and the best variant confirmed by five processes as fast as its score says."""
    campaign = campaign or measured()
    assert campaign.profile is not None
    played = []
    for one in campaign.rounds:
        score = one.verdict.score if one.verdict else None
        found = one.measurement
        if found is not None and score is not None:
            gains = {case.case: 100 * (case.speedup - 1) for case in score.cases}
            cases = tuple(
                case.model_copy(
                    update={"paired": blocks.paired([gains[case.case] + by for by in (-1, -0.5, 0, 0.5, 1)])}
                )
                for case in found.cases
            )
            one = one.model_copy(update={"measurement": found.model_copy(update={"cases": cases})})
        played.append(one)
    profile = campaign.profile.model_copy(update={"rivals": rivals(**fields)})
    return campaign.model_copy(update={"profile": profile, "rounds": tuple(played)})


def _order(phase: Phase, winner: int | None = None) -> OrderPlaced:
    return OrderPlaced(order=Order(id=f"o-{phase}", campaign=CAMPAIGN_ID, phase=phase, winner=winner))


def facts() -> tuple[Fact, ...]:
    """The journal of `pushed()`, in the order it was written."""
    played: list[Fact] = []
    for one in rounds():
        assert one.measurement is not None and one.verdict is not None
        number = one.variant.number
        played += [
            RoundOpened(order="o-optimize", variant=one.variant),
            VariantMeasured(order="o-optimize", number=number, measurement=one.measurement),
            VariantJudged(order="o-optimize", number=number, verdict=one.verdict),
        ]
    yes = pushed().answers
    return (
        CampaignRequested(
            campaign=CAMPAIGN_ID,
            command=COMMAND,
            requester=ALICE,
            comment_id=4711,
            requested_at="2026-11-20T09:00:00Z",
            pull=PULL,
            policy=RepoPolicy(evidence="static"),
        ),
        _order(Phase.PROFILE),
        Profiled(order="o-profile", profile=profile()),
        Answered(answer=yes[0]),
        _order(Phase.OPTIMIZE),
        *played,
        SearchEnded(order="o-optimize", why=StopReason.IDEAS_EXHAUSTED),
        Answered(answer=yes[1]),
        _order(Phase.FINALIZE, 3),
        Finalized(order="o-finalize", finalization=finalization()),
        Answered(answer=yes[2]),
        Pushed(commit=PUSHED),
        CampaignClosed(outcome=Outcome.PUSHED),
    )


def lines() -> tuple[JournalLine, ...]:
    return tuple(
        JournalLine(seq=i, at=f"2026-11-20T09:{i:02d}:00Z", zone=Zone.PUBLISH, fact=fact)
        for i, fact in enumerate(facts())
    )
