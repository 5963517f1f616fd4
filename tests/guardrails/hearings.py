"""A small world for the guardrails: one kernel file, two shapes, both passes, and a variant that is 10 % faster.

Every helper changes one thing, so that a test says in one line what is different about its variant.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from bot.analysis.paired import FEWEST_BLOCKS
from bot.analysis.stats import score
from bot.guardrails import Hearing, Weighed
from bot.model.commands import Goal, Scope
from bot.model.measurement import (
    Case,
    CaseResult,
    CheckResult,
    Evidence,
    Launch,
    Measurement,
    Paired,
    Passport,
    Reading,
    Resources,
    Runner,
    Suite,
    Timing,
    Unseen,
)
from bot.model.variant import Hypothesis, SourceFile, Variant, sources_digest
from bot.model.verdict import Decision, Finding, Verdict

PATH = "src/sample_kernels/ops/scale.py"
OTHER = "src/sample_kernels/ops/settings.py"

V0 = '''"""Scales a row."""

import os

import torch
import triton
import triton.language as tl

# The widest block.
MAX_BLOCK = 4096


@triton.jit
def _scale_kernel(X, Y, factor, n_cols, BLOCK_SIZE: tl.constexpr):
    """One program a row."""
    row = tl.program_id(0)
    # Where the row ends.
    mask = tl.arange(0, BLOCK_SIZE) < n_cols
    x = tl.load(X + row * n_cols + tl.arange(0, BLOCK_SIZE), mask=mask)
    tl.store(Y + row * n_cols + tl.arange(0, BLOCK_SIZE), x * factor, mask=mask)


@triton.jit
def shared_kernel(X, n_cols, BLOCK_SIZE: tl.constexpr):
    pass


def scale_forward(x, factor):
    y = torch.empty_like(x)
    debug = os.environ.get("SCALE_DEBUG")
    num_warps = 4
    _scale_kernel[(x.shape[0],)](x, y, factor, x.shape[1], BLOCK_SIZE=MAX_BLOCK, num_warps=num_warps)
    return y


class ScaleFunction(torch.autograd.Function):
    """x * factor"""

    @staticmethod
    def forward(ctx, x, factor=2.0):
        ctx.factor = factor
        return scale_forward(x, factor)

    @staticmethod
    def backward(ctx, dy):
        return scale_forward(dy, ctx.factor), None
'''
FASTER = V0.replace("num_warps = 4", "num_warps = 8")

SHAPES = ((4096, 4096), (1024, 1024))
CASES = tuple(
    Case(id=f"{direction}-{rows}", direction=direction, shape=(("rows", rows), ("cols", cols)), dtype="bfloat16")
    for rows, cols in SHAPES
    for direction in ("forward", "backward")
)
CHECKS = tuple(
    Case(id=f"check-{cols}", direction="forward", shape=(("rows", 3), ("cols", cols)), dtype="float32")
    for cols in (1, 100, 128, 257, 1000)
)
SUITE = Suite(name="full", cases=CASES, checks=CHECKS)
NAMES = tuple(case.id for case in CASES)
BIG_FORWARD, BIG_BACKWARD, SMALL_FORWARD, SMALL_BACKWARD = NAMES

H200 = Runner(
    evidence=Evidence.MEASURED,
    arch="sm_90",
    gpu_name="NVIDIA H200",
    gpu_uuid="GPU-1",
    driver="580.1",
    torch="2.13.0",
    triton="3.6.0",
)
BYTES = 96_000_000
"""What each case moves at least: 20 us at the 4800 GB/s of the datasheet."""
BEFORE_US, AFTER_US = 100.0, 90.0
MEMORY = 1000


def text_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def resources(spill: int = 0, arch: str = "sm_90") -> Resources:
    return Resources(arch=arch, registers=32, spill_bytes=spill, shared_bytes=0, load_bits=128, instructions=100)


def launch(text: str, *, spill: int = 0, binary: str = "", **changes: Any) -> Launch:
    plain: dict[str, Any] = {
        "kernel": "_scale_kernel",
        "source_file": PATH,
        "source_digest": text_digest(text),
        "grid": (4096, 1, 1),
        "num_warps": 4,
        "num_stages": 3,
        "constants": (("BLOCK_SIZE", "4096"),),
        "tensor_bytes": BYTES,
        "resources": resources(spill),
        "binary_digest": binary or text_digest(text),
    }
    return Launch(**(plain | changes))


def paired(before: float, after: float, processes: int = 6) -> Paired:
    """Blocks that all agree, so that a time is exactly what a test says."""
    reading = Reading(blocks=((before, before, after, after),) * FEWEST_BLOCKS)
    return Paired(tier="replay", search=reading, confirm=(reading,) * processes)


def result(
    name: str, text: str, us: float | None, memory: int = MEMORY, before: float | None = None, **changes: Any
) -> CaseResult:
    """`before` is what v0 takes in the same blocks; v0's own results have none."""
    timing = Timing(median_us=us, timer="graph") if us is not None else None
    plain: dict[str, Any] = {
        "launches": (launch(text),),
        "minimum_bytes": BYTES,
        "memory_bytes": memory,
        "timing": timing,
        "paired": paired(before, us) if before is not None and us is not None else None,
    }
    return CaseResult(case=name, **(plain | changes))


def check(name: str, passed: bool = True, margin: float | None = 0.4, **more: Any) -> CheckResult:
    return CheckResult(case=name, passed=passed, margin=margin, **({"worst": "y"} | more))


def passport(arch: str, ok: bool = True, spill: int = 0, error: str = "") -> Passport:
    kernels = (("_scale_kernel", resources(spill, arch)),) if ok else ()
    return Passport(arch=arch, ok=ok, kernels=kernels, error=error)


def measurement(
    text: str,
    us: float,
    times: Mapping[str, float] | None = None,
    memory: Mapping[str, int] | None = None,
    against: Measurement | None = None,
) -> Measurement:
    """`against`: v0's own, beside which the blocks of this one were read."""
    times, memory = times or {}, memory or {}
    before = {one.case: one.timing.median_us for one in against.cases if one.timing} if against else {}
    return Measurement(
        runner=H200,
        source=sources_digest(files(text)),
        checks=tuple(check(case.id) for case in CHECKS),
        cases=tuple(
            result(name, text, times.get(name, us), memory.get(name, MEMORY), before.get(name)) for name in NAMES
        ),
    )


def files(text: str, path: str = PATH) -> tuple[SourceFile, ...]:
    return (SourceFile(path=path, text=text),)


def variant(text: str = FASTER) -> Variant:
    idea = Hypothesis(title="more warps", why="it waits", expected="1.1x", technique="num_warps")
    return Variant(number=3, parent=0, files=files(text), hypothesis=idea, proposer="engine")


def hearing(
    times: Mapping[str, float] | None = None,
    memory: Mapping[str, int] | None = None,
    *,
    text: str = FASTER,
    before: str = V0,
    **changes: Any,
) -> Hearing:
    """A variant that is 10 % faster everywhere, except where `times` (in us) or `memory` (in bytes) say otherwise."""
    baseline = changes.get("baseline", measurement(before, BEFORE_US))
    plain: dict[str, Any] = {
        "variant": variant(text),
        "sources": files(before),
        "allowed": (PATH,),
        "earlier": (("v0", sources_digest(files(before))),),
        "baseline": baseline,
        "candidate": measurement(text, AFTER_US, times, memory, baseline),
        "suite": SUITE,
        "goal": Goal.SPEED,
        "scope": Scope.GENERAL,
        "best": 1.0,
    }
    return Hearing(**(plain | changes))


def changed(heard: Hearing, **changes: Any) -> Hearing:
    """The same hearing with the candidate's measurement changed."""
    return heard.model_copy(update={"candidate": heard.candidate.model_copy(update=changes)})


def launching(heard: Hearing, *launches: Launch, names: tuple[str, ...] = NAMES) -> Hearing:
    """The same hearing with other launches in some of the candidate's cases."""
    cases = (
        case.model_copy(update={"launches": launches}) if case.case in names else case for case in heard.candidate.cases
    )
    return changed(heard, cases=tuple(cases))


def modelled(traffic: Mapping[str, float], **changes: Any) -> Hearing:
    """The same world on a machine without a GPU: its times are modelled, and traffic moves them."""
    runner = H200.model_copy(update={"evidence": Evidence.STATIC, "gpu_name": "", "gpu_uuid": "", "driver": ""})

    def compiled(text: str, factors: Mapping[str, float], usual: float) -> Measurement:
        cases = (result(name, text, None, traffic_factor=factors.get(name, usual)) for name in NAMES)
        return measurement(text, 1.0).model_copy(update={"runner": runner, "cases": tuple(cases)})

    return hearing(**({"baseline": compiled(V0, {}, 2.0), "candidate": compiled(FASTER, traffic, 1.8)} | changes))


def with_gradient(heard: Hearing, grad: str, name: str) -> Hearing:
    """The same hearing where this case is of a loss whose gradient is that."""
    cases = (case.model_copy(update={"grad": grad}) if case.id == name else case for case in heard.suite.cases)
    return heard.model_copy(update={"suite": heard.suite.model_copy(update={"cases": tuple(cases)})})


def pairing(heard: Hearing, *names: str, **changes: Any) -> Hearing:
    """The same hearing with other readings in some of its cases, or in all."""
    cases = (
        one.model_copy(update={"paired": one.paired.model_copy(update=changes)})
        if one.paired is not None and one.case in (names or NAMES)
        else one
        for one in heard.candidate.cases
    )
    return changed(heard, cases=tuple(cases))


def on_sizes(heard: Hearing, *times: tuple[float, float], processes: int = 6) -> Hearing:
    """The same hearing where fresh processes read so much of v0 and of the variant on sizes that nobody named, forward
    and backward of one after another."""
    found = []
    for number, (before, after) in enumerate(times):
        direction, rows = ("forward", "backward")[number % 2], 33 + number // 2
        case = Case(
            id=f"unseen-{number // 2 + 1}-{direction}", direction=direction, shape=(("rows", rows), ("cols", 7)),
            dtype="bfloat16", hidden=True,
        )  # fmt: skip
        found.append(Unseen(case=case, confirm=paired(before, after, processes).confirm))
    return changed(heard, unseen=tuple(found))


def weighed(heard: Hearing) -> Weighed:
    return Weighed(hearing=heard, score=score(heard.baseline, heard.candidate, heard.suite, heard.scope, heard.goal))


def on_paper(heard: Hearing) -> Weighed:
    """Exact times as if modelled: no blocks, no interval, and the limits of the source systems alone."""
    bare = changed(heard, cases=tuple(one.model_copy(update={"paired": None}) for one in heard.candidate.cases))
    ready = weighed(bare)
    runner = bare.candidate.runner.model_copy(update={"evidence": Evidence.STATIC})
    score = ready.score.model_copy(update={"evidence": Evidence.STATIC})
    return Weighed(hearing=changed(bare, runner=runner), score=score)


def rejections(verdict: Verdict) -> list[str]:
    """Which guardrails said no."""
    return [finding.guardrail for finding in verdict.findings if finding.severity == "reject"]


def said(findings: list[Finding]) -> str:
    return "\n".join(finding.message for finding in findings)


ACCEPTED = (Decision.ACCEPTED, Decision.ACCEPTED_WITH_NOTE)
