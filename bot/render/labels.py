"""Short words for what the model names by identifier."""

from __future__ import annotations

from bot.model.campaign import OUT_OF_BUDGET, Campaign, StopReason
from bot.model.commands import Goal, GpuChoice, Scope
from bot.model.diagnosis import Bottleneck
from bot.model.measurement import Case, Fault, Suite
from bot.model.verdict import Decision
from bot.render.escape import plain

PASSES = {"forward": "fwd", "backward": "bwd", "full": "full"}
ONE = "dL=1"
"""A loss that nothing is done to: its own gradient is 1."""
DTYPES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
MODEL_ERROR = "median error 8 %"
"""Of an estimate, on the launches that the model was fitted to."""
ARCHES = {
    "sm_80": "Ampere sm_80",
    "sm_90": "Hopper sm_90",
    "sm_100": "Blackwell sm_100",
    "sm_120": "Blackwell sm_120",
    "gfx942": "CDNA3 gfx942",
    "gfx950": "CDNA4 gfx950",
}
GOALS = {
    Goal.SPEED: "speed",
    Goal.MEMORY: "memory",
    Goal.BALANCED: "balanced (speed and memory)",
}
SCOPES = {Scope.GENERAL: "both passes", Scope.FORWARD: "forward", Scope.BACKWARD: "backward"}
GPUS = {
    GpuChoice.AUTO: "any the runner has",
    GpuChoice.AMPERE: "Ampere",
    GpuChoice.HOPPER: "Hopper",
    GpuChoice.BLACKWELL: "Blackwell",
    GpuChoice.CDNA3: "CDNA3",
}
BOTTLENECKS = {
    Bottleneck.MEMORY: "memory traffic",
    Bottleneck.COMPUTE: "arithmetic",
    Bottleneck.BALANCED: "no single cause",
    Bottleneck.RESOURCE: "registers, shared memory or spills",
    Bottleneck.LATENCY: "latency that nothing hides",
    Bottleneck.LAUNCH: "launches too short or too few to fill the GPU",
    Bottleneck.HOST: "the host: the GPU waits for it",
}
STOPPED = {
    StopReason.TARGET_MET: "the target was met",
    StopReason.EFFICIENT: "the kernel is close enough to its roof",
    StopReason.BUDGET_SPENT: "the budget of variants is spent",
    StopReason.GPU_TIME_SPENT: "its GPU minutes (`max_gpu_minutes`) are spent",
    StopReason.TIME_OVER: "the minutes that the command was given (`--minutes`) are over",
    StopReason.STAGNATION: "passing variants in a row gained less than 1 %",
    StopReason.IDEAS_EXHAUSTED: "every idea that applies was tried",
    StopReason.TOO_MANY_FAILURES: "three variants in a row did not run or were wrong",
}
DECISIONS = {
    Decision.ACCEPTED: "accepted",
    Decision.ACCEPTED_WITH_NOTE: "accepted, with a note",
    Decision.REJECTED: "rejected",
    Decision.INCONCLUSIVE: "inconclusive",
}
FAULTS = {
    "import_failed": "could not be imported",
    "crashed": "crashed",
    "compile_failed": "does not compile",
    "compile_timeout": "took too long to compile",
    "run_timeout": "took too long to run",
    "memory": "ran out of memory",
    "protocol": "answered out of turn",
}


def nothing(campaign: Campaign) -> str:
    """Of a search that found nothing. Where its budget ended first, nobody knows whether there is something to do."""
    return "nothing better within the budget" if campaign.stopped in OUT_OF_BUDGET else "nothing to do"


def sizes(case: Case) -> str:
    return "x".join(str(size) for _, size in case.shape)


def case_name(case: Case) -> str:
    """What sets two kinds of backward pass of a loss apart stands in front, where nobody cuts it off."""
    one = f" {ONE}" if case.grad == "one" else ""
    return f"{PASSES[case.direction]}{one} {sizes(case)} {DTYPES[case.dtype]}"


def case_names(suite: Suite | None) -> dict[str, str]:
    """Case id -> what a table calls it. Two cases that would read alike keep their ids."""
    cases = (*suite.cases, *suite.checks) if suite else ()
    names = {case.id: case_name(case) for case in cases}
    alike = list(names.values())
    return {key: name if alike.count(name) == 1 else key for key, name in names.items()}


def in_words(message: str, names: dict[str, str]) -> str:
    """A sentence of the guardrails, with every case spelled as the tables spell it."""
    for key in sorted(names, key=len, reverse=True):
        message = message.replace(key, names[key])
    return message


def legend(suite: Suite | None) -> str:
    """What the numbers in a case's name are, when all cases agree on it."""
    cases = suite.cases if suite else ()
    shapes = {tuple(name for name, _ in case.shape) for case in cases}
    ones = f" ({ONE}: the gradient of the loss is 1)" if any(case.grad == "one" for case in cases) else ""
    return plain(f"pass{ones}, {' x '.join(shapes.pop())}, type") if len(shapes) == 1 else f"pass{ones}, shape, type"


def arch(name: str) -> str:
    return ARCHES.get(name, name)


def fault(found: Fault) -> str:
    return FAULTS[found.kind]
