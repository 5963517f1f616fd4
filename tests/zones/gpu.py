"""What a GPU job would have written, without one: canned raw facts, and the verdicts that follow from them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from bot.analysis.bottleneck import diagnose
from bot.analysis.estimate import timed
from bot.campaign.lineage import TRY_TECHNIQUE, next_number, sources_of
from bot.campaign.machine import fold
from bot.git.repo import Repo
from bot.hardware.catalog import for_arch, registered
from bot.model.campaign import Campaign, Profile, StopReason
from bot.model.facts import (
    Fact,
    FilePassed,
    Finalized,
    Profiled,
    RoundOpened,
    SearchEnded,
    VariantJudged,
    VariantMeasured,
)
from bot.model.finalization import CommandRun, Finalization, PassedFile
from bot.model.measurement import (
    Case,
    CaseResult,
    CheckResult,
    Evidence,
    Fault,
    Launch,
    Measurement,
    Passport,
    Resources,
    Runner,
    Suite,
)
from bot.model.variant import Hypothesis, SourceFile, Variant, sources_digest
from bot.targets.contract import read_config
from bot.targets.liger import open_target
from bot.zones.judging import verdict_of
from bot.zones.oracle import differing

ARCH = "sm_90"
RUNNER = Runner(evidence=Evidence.STATIC, arch=ARCH, triton="3.6.0", torch="2.13.0", sandbox="bubblewrap")
PASSPORTS = (ARCH, "sm_80", "sm_100", "gfx942")


@dataclass(frozen=True)
class Idea:
    """A variant to come: what is added to the source, and the traffic it then causes (v0: 2.0)."""

    title: str
    line: str
    traffic: float = 1.5
    fault: Fault | None = None
    commit: str = ""
    """The commit that somebody asked to try."""


BETTER = Idea("keep the row in registers", "# v1 keeps the row in registers\n", traffic=1.5)
BROKEN = Idea("one warp", "# v2 takes one warp\n", fault=Fault(kind="crashed", detail="signal 11"))
BEST = Idea("wider loads", "# v3 loads wider\n", traffic=1.2)
IDEAS = (BETTER, BROKEN, BEST)


def resources() -> Resources:
    return Resources(arch=ARCH, registers=40, spill_bytes=0, shared_bytes=64, load_bits=128, instructions=200)


def launch(case: Case, file: SourceFile) -> Launch:
    rows, cols = case.size("rows"), case.size("cols")
    digest = hashlib.sha256(file.text.encode()).hexdigest()
    return Launch(
        kernel=f"_rms_norm_{case.direction}_kernel",
        source_file=file.path,
        source_digest=digest,
        grid=(rows, 1, 1),
        num_warps=4,
        num_stages=3,
        constants=(("BLOCK_SIZE", str(cols)),),
        tensor_bytes=4 * rows * cols,
        resources=resources(),
        binary_digest=f"{digest}-{case.direction}",
    )


def case_result(case: Case, file: SourceFile, traffic: float) -> CaseResult:
    return CaseResult(
        case=case.id,
        launches=(launch(case, file),),
        minimum_bytes=4 * case.size("rows") * case.size("cols"),
        traffic_factor=traffic,
    )


def measurement(
    suite: Suite, files: tuple[SourceFile, ...], traffic: float = 2.0, fault: Fault | None = None
) -> Measurement:
    digest = sources_digest(files)
    if fault is not None:
        return Measurement(runner=RUNNER, source=digest, fault=fault)
    passports = [Passport(arch=arch, ok=True, kernels=(("_kernel", resources()),)) for arch in PASSPORTS]
    facts = Measurement(
        runner=RUNNER,
        source=digest,
        checks=tuple(CheckResult(case=case.id, passed=True, worst="Y", margin=0.3) for case in suite.checks),
        cases=tuple(case_result(case, files[0], traffic) for case in suite.cases),
        passports=tuple(passports),
        seconds=1.0,
    )
    return timed(facts, suite)


def profile(campaign: Campaign, repo: Repo) -> Profile:
    """The target as it truly stands at the pinned commit, with invented numbers."""
    assert campaign.pull is not None and campaign.command is not None
    config = read_config(repo.read("refs/heads/main", "kernelwright.toml"))
    target, tree = open_target(repo.at(campaign.pull.head_sha), config), repo.at(campaign.pull.head_sha)
    site, suite = target.site(campaign.command.kernel), target.suite(campaign.command.kernel)
    sources = tuple(SourceFile(path=path, text=(tree.read(path) or b"").decode()) for path in site.files)
    baseline = measurement(suite, sources)
    return Profile(
        site=site,
        suite=suite,
        sources=sources,
        baseline=baseline,
        diagnosis=diagnose(baseline, suite, for_arch(ARCH), ()),
        oracle_differs=differing(campaign.pull, site, repo),
        hardware=registered(for_arch(ARCH)),
    )


def _order(campaign: Campaign) -> str:
    assert campaign.order is not None, f"no order is open in {campaign.stage}"
    return campaign.order.id


def profiled(campaign: Campaign, repo: Repo) -> list[Fact]:
    return [Profiled(order=_order(campaign), profile=profile(campaign, repo))]


def with_line(files: tuple[SourceFile, ...], line: str) -> tuple[SourceFile, ...]:
    first, *rest = files
    return (SourceFile(path=first.path, text=first.text + line), *rest)


def opened(campaign: Campaign, idea: Idea) -> RoundOpened:
    variant = Variant(
        number=next_number(campaign),
        parent=campaign.incumbent,
        files=with_line(sources_of(campaign, campaign.incumbent), idea.line),
        hypothesis=Hypothesis(
            title=idea.title,
            why="it moves bytes twice",
            expected="fewer bytes",
            technique=TRY_TECHNIQUE if idea.commit else idea.title,
            references=(idea.commit,) if idea.commit else (),
        ),
        proposer="human" if idea.commit else "engine",
    )
    return RoundOpened(order=_order(campaign), variant=variant)


def one_round(campaign: Campaign, idea: Idea) -> list[Fact]:
    assert campaign.profile is not None
    facts: list[Fact] = [opened(campaign, idea)]
    after = fold(campaign, facts)
    variant = after.rounds[-1].variant
    facts.append(
        VariantMeasured(
            order=_order(campaign),
            number=variant.number,
            measurement=measurement(campaign.profile.suite, variant.files, idea.traffic, idea.fault),
        )
    )
    verdict = verdict_of(fold(campaign, facts), variant.number)
    return [*facts, VariantJudged(order=_order(campaign), number=variant.number, verdict=verdict)]


def searched(
    campaign: Campaign, ideas: Sequence[Idea] = IDEAS, why: StopReason = StopReason.IDEAS_EXHAUSTED
) -> list[Fact]:
    facts: list[Fact] = []
    for idea in ideas:
        facts += one_round(fold(campaign, facts), idea)
    return [*facts, SearchEnded(order=_order(campaign), why=why)]


def command(passed: bool = True) -> CommandRun:
    summary = "12 passed" if passed else "1 failed, 11 passed"
    return CommandRun(argv=("pytest",), passed=passed, exit_code=0 if passed else 1, seconds=2.0, summary=summary)


def finished(
    campaign: Campaign, *, tests: bool = True, style: bool = True, files: tuple[SourceFile, ...] | None = None
) -> list[Fact]:
    assert campaign.winner is not None and campaign.profile is not None
    done = Finalization(
        variant=campaign.winner,
        tests=(command(tests),),
        style=(command(style),),
        files=sources_of(campaign, campaign.winner) if files is None else files,
    )
    file = PassedFile(
        variant=campaign.winner,
        source=sources_digest(done.files),
        test=campaign.profile.site.test_file,
        run=command(True),
    )
    whole = Finalized(order=_order(campaign), finalization=done)
    return [FilePassed(order=_order(campaign), file=file), whole] if tests else [whole]
