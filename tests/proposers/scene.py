"""The sample's rms_norm as a profile shows it: a forward and a backward kernel with too few warps."""

from __future__ import annotations

from typing import Any

from bot.analysis.bottleneck import diagnose
from bot.campaign.lineage import TRY_TECHNIQUE
from bot.engine.space import settings
from bot.hardware.catalog import for_arch
from bot.model.campaign import Round
from bot.model.commands import Goal, Scope
from bot.model.measurement import Launch, Measurement, Setting, Survey
from bot.model.people import Actor
from bot.model.site import KernelSite
from bot.model.variant import Proposal, SourceFile, Variant
from bot.model.verdict import Decision, Score, Verdict
from bot.proposers.brief import Brief, Tried
from tests.analysis import made
from tests.engine.library import sample

FWD, BWD = made.case("forward"), made.case("backward")
SUITE = made.suite(FWD, BWD)
SHEET = for_arch("sm_90")
PATH = "src/sample_kernels/ops/{}.py"


def kernel_launch(name: str, warps: int, block: int, programs: int) -> Launch:
    """What the compiler says of such kernels, roughly: cost grows with the elements of a thread."""
    per_thread = max(1, block // (32 * warps))
    needs = made.resources(
        registers=min(255, 16 + 3 * per_thread), instructions=100 + 12 * per_thread, barriers=1, shared_bytes=4096
    )
    return made.launch(name, grid=(programs, 1, 1), block=block, warps=warps, resources=needs)


def launches_of(kernel: str, warps: int) -> tuple[Launch, Launch]:
    """A row a program forward; a run of rows on each multiprocessor backward, where the op works that way."""
    programs = 132 if kernel == "rms_norm" else 4096
    return (
        kernel_launch(f"_{kernel}_forward_kernel", warps, 4096, 4096),
        kernel_launch(f"_{kernel}_backward_kernel", warps, 4096, programs),
    )


def baseline(kernel: str, warps: int = 2) -> Measurement:
    forward, backward = launches_of(kernel, warps)
    return made.measurement(made.result(FWD, forward), made.result(BWD, backward, minimum_bytes=96 * 2**20))


def survey(setting: Setting, of: Measurement) -> list[Survey]:
    found = []
    for result in of.cases:
        for launch in result.launches:
            if launch.kernel == setting.kernel:
                block = dict(setting.constants).get("BLOCK_SIZE", 4096)
                tried = kernel_launch(launch.kernel, setting.num_warps or 4, block, launch.grid[0])
                found.append(Survey(setting=setting, case=result.case, launches=(tried,)))
    return found


def brief(kernel: str = "rms_norm", warps: int = 2, **fields: Any) -> Brief:
    first = baseline(kernel, warps)
    launches = [launch for result in first.cases for launch in result.launches]
    surveys = tuple(found for setting in settings(launches) for found in survey(setting, first))
    sources = (SourceFile(path=PATH.format(kernel), text=sample(kernel)),)
    site = KernelSite(
        kernel=kernel,
        preset="liger",
        source_root="src",
        module=f"sample_kernels.ops.{kernel}",
        files=(sources[0].path,),
        test_file=f"test/transformers/test_{kernel}.py",
        benchmark_file=f"benchmark/scripts/benchmark_{kernel}.py",
        test_command=("pytest", "{test}"),
        style_command=("true",),
    )
    plain: dict[str, Any] = {
        "site": site,
        "suite": SUITE,
        "original": sources,
        "sources": sources,
        "incumbent": 0,
        "best": 1.0,
        "baseline": first,
        "facts": first,
        "surveys": surveys,
        "diagnosis": diagnose(first, SUITE, SHEET, surveys),
        "rounds": (),
        "race": None,
        "goal": Goal.BALANCED,
        "scope": Scope.GENERAL,
        "budget": 8,
    }
    return Brief(**{**plain, **fields})


def after(told: Brief, proposal: Proposal, decision: Decision, facts: Measurement | None = None) -> Brief:
    """The brief of the next round, when this proposal was judged so."""
    variant = Variant(
        number=len(told.rounds) + 1,
        parent=told.incumbent,
        files=proposal.files,
        hypothesis=proposal.hypothesis,
        proposer=proposal.proposer,
    )
    score = Score(evidence="static", value=1.2)
    played = Round(variant=variant, verdict=Verdict(decision=decision, score=score))
    fields: dict[str, Any] = {name: getattr(told, name) for name in Brief.__slots__}
    fields |= {"rounds": (*told.rounds, played), "budget": told.budget - 1}
    if decision.is_accepted:
        fields |= {"sources": proposal.files, "incumbent": variant.number, "best": 1.2, "facts": facts or told.facts}
    return Brief(**fields)


def tried(sha: str, text: str, kernel: str = "rms_norm") -> Tried:
    files = (SourceFile(path=PATH.format(kernel), text=text),)
    return Tried(commit=sha * 40, actor=Actor(id=7, login="alice"), files=files)


__all__ = ["TRY_TECHNIQUE", "after", "brief", "launches_of", "tried"]
