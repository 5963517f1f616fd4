"""Reads what a GPU job left behind. All of it is hostile until it was checked here.

A segment may carry only measuring facts of the order that is open, in an order that the machine accepts; what is
measured on is compared with the pinned commit, and verdicts are recomputed from the raw facts.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from bot.analysis.estimate import timed
from bot.analysis.rivals import longest
from bot.analysis.strategies import AIMS, TOGETHER
from bot.campaign.lineage import FEWER_WARPS, MORE_WARPS, TRY_TECHNIQUE
from bot.campaign.machine import advance
from bot.errors import CorruptRecord, UserError
from bot.git.repo import Repo
from bot.hardware.catalog import for_runner, registered
from bot.ledger.journal import Segment
from bot.model.campaign import Campaign, Origin, Profile
from bot.model.facts import (
    MEASURING_FACTS,
    Fact,
    FilePassed,
    Finalized,
    JournalLine,
    MachineChanged,
    NumbersRaced,
    Profiled,
    RoundOpened,
    SearchEnded,
    VariantJudged,
    VariantMeasured,
)
from bot.model.finalization import Finalization, PassedFile
from bot.model.ids import Digest, RepoPath
from bot.model.measurement import Evidence, Measurement, Suite
from bot.model.race import MOST_RACERS, NEARBY_TECHNIQUE, Race
from bot.model.reasons import ReasonCode
from bot.model.rivals import OF_WINNER, Rival
from bot.model.variant import SourceFile, Variant, sources_digest
from bot.targets.contract import CONFIG, TRUSTED, read_config
from bot.targets.judges import judging
from bot.targets.liger import open_target
from bot.zones.judging import no_yardstick_for, verdict_of
from bot.zones.oracle import changed_files

SEGMENT = "segment.jsonl"
MAX_SEGMENT = 64 * 2**20
MAX_FACTS = 1000
"""Five facts a round and at most 119 rounds; more is not ours."""
MAX_SOURCE = 2 * 2**20
MAX_NUMBER = 2**63
OUR_IDEAS = frozenset((*AIMS, *TOGETHER, MORE_WARPS, FEWER_WARPS, NEARBY_TECHNIQUE))
"""By name alone: the engine that has them takes half a second to import, and no job that holds a token needs it."""
UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What Python's parser makes of a source that was written to break it."""


def read_lines(folder: Path) -> tuple[JournalLine, ...]:
    """The lines of a segment that `read_segment` could read."""
    return Segment(folder / SEGMENT).lines()


def read_segment(folder: Path) -> tuple[tuple[Fact, ...], Digest]:
    """The facts of a segment, by schema and within caps, and the digest of its bytes."""
    path = folder / SEGMENT
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise CorruptRecord(f"{SEGMENT} is not a plain file")
    if not path.exists():
        raise CorruptRecord(f"the GPU job left no {SEGMENT}", reason=ReasonCode.ARTIFACT_MISSING)
    if path.stat().st_size > MAX_SEGMENT:
        raise CorruptRecord(f"{SEGMENT} has {path.stat().st_size} bytes; at most {MAX_SEGMENT} are read")
    count = path.read_bytes().count(b"\n")  # counted before any of them is read: a million would take minutes
    if count > MAX_FACTS:
        raise CorruptRecord(f"{SEGMENT} has {count} facts; at most {MAX_FACTS} are read")
    segment = Segment(path)
    facts = segment.facts()
    return facts, segment.digest()


def _check_kind(fact: Fact, campaign: Campaign) -> None:
    if not isinstance(fact, MEASURING_FACTS):
        raise CorruptRecord(f"a GPU job may not say {fact.kind}")
    if campaign.order is None or fact.order != campaign.order.id:
        raise CorruptRecord(f"{fact.kind} speaks of order {fact.order}, which is not the open one")


def _check_files(files: tuple[SourceFile, ...], campaign: Campaign) -> None:
    assert campaign.profile is not None
    allowed = set(campaign.profile.site.files)
    paths = [file.path for file in files]
    if set(paths) - allowed or len(paths) != len(set(paths)):
        raise CorruptRecord(f"a variant may change {sorted(allowed)} and nothing else; this one has {sorted(paths)}")
    if any(len(file.text) > MAX_SOURCE for file in files):
        raise CorruptRecord(f"a source file has more than {MAX_SOURCE} characters")


@dataclass(frozen=True, slots=True)
class Known:
    """What stands at the pinned commit, by the description on the default branch."""

    files: tuple[RepoPath, ...]
    suite: Suite
    oracle_differs: tuple[RepoPath, ...]


def _known(campaign: Campaign, repo: Repo) -> Known:
    assert campaign.pull is not None and campaign.command is not None
    kernel = campaign.command.kernel
    try:
        target = open_target(repo.at(campaign.pull.head_sha), read_config(repo.read("HEAD", CONFIG), of=TRUSTED))
        files, changed = target.files(kernel), changed_files(campaign.pull, repo)
        # Most pull requests touch the kernel alone; telling more would mean reading every source of the repository.
        differs = judging(changed, target.site(kernel)) if set(changed) - set(files) else ()
        return Known(files=files, suite=target.suite(kernel), oracle_differs=differs)
    except UserError as error:
        raise CorruptRecord(f"nothing here could have been profiled: {error}") from error


def _is_suite_of(profile: Profile, whole: Suite) -> bool:
    """All of its cases, but for those that are said to be left out: a clock alone can be short of memory."""
    left = tuple(case for case in whole.cases if case in profile.left_out)
    kept = tuple(case for case in whole.cases if case not in left)
    measured = profile.baseline.runner.evidence is Evidence.MEASURED
    if left and not (measured and kept):
        return False
    return profile.left_out == left and profile.suite == whole.model_copy(update={"cases": kept})


def _check_profile(profile: Profile, campaign: Campaign, repo: Repo) -> None:
    """v0 is what stands at the pinned commit, not what the GPU job says stands there."""
    assert campaign.pull is not None and campaign.command is not None
    if profile.site.kernel != campaign.command.kernel:
        raise CorruptRecord(f"the profile is of {profile.site.kernel}, not of {campaign.command.kernel}")
    known = _known(campaign, repo)
    if profile.site.files != known.files or tuple(file.path for file in profile.sources) != known.files:
        raise CorruptRecord(f"the profile is of other files than those of its target, {', '.join(known.files)}")
    if not {one.op for one in profile.dispatch} <= set(profile.site.dispatches):
        raise CorruptRecord("the profile tells of ops that its kernel does not ask a dispatcher for")
    if not _is_suite_of(profile, known.suite):
        raise CorruptRecord("the profile was made with another suite than its target's")
    for file in profile.sources:
        if repo.read(campaign.pull.head_sha, file.path) != file.text.encode():
            raise CorruptRecord(f"{file.path} differs from the pinned commit {campaign.pull.head_sha[:7]}")
    if profile.baseline.source != sources_digest(profile.sources):
        raise CorruptRecord("the baseline was measured on another source")
    if profile.oracle_differs != known.oracle_differs:
        raise CorruptRecord("the profile names other judging files than those that differ from the target branch")


def _check_try(variant: Variant, campaign: Campaign, repo: Repo) -> None:
    """A sweep runs earlier sources whatever their text is, so they have to be those of the commits it asked for."""
    if campaign.origin is not Origin.SWEEP or variant.hypothesis.technique != TRY_TECHNIQUE:
        return
    commit = next(iter(variant.hypothesis.references), "")
    if commit not in {asked for asked, _ in campaign.tries}:
        raise CorruptRecord(f"v{variant.number} tries a commit that nobody asked for")
    for file in variant.files:
        if repo.read(commit, file.path) != file.text.encode():
            raise CorruptRecord(f"{file.path} is not what stands at the commit it tries, {commit[:7]}")


def _check_scripts(done: Finalization, campaign: Campaign) -> None:
    """On v0 and then on the winner, where a GPU measured it and policy has it run; nobody else's."""
    assert campaign.profile is not None
    measured = campaign.profile.baseline.runner.evidence is Evidence.MEASURED
    told = tuple(one.variant for one in done.scripts)
    if told and not (measured and campaign.policy.benchmark_script):
        raise CorruptRecord("a benchmark script ran that nobody asked for")
    if told not in ((), (0,), (0, done.variant)):
        raise CorruptRecord(f"a benchmark script ran on {list(told)[:4]}, and v{done.variant} was finished")


def _check_finalized(done: Finalization, campaign: Campaign) -> None:
    """The style check may reformat; it may not change what the program is."""
    _check_scripts(done, campaign)
    _check_files(done.files, campaign)
    found = campaign.round_of(done.variant)
    assert found is not None
    judged = {file.path: file.text for file in found.variant.files}
    if {file.path for file in done.files} != set(judged):
        raise CorruptRecord(f"v{done.variant} was judged as {sorted(judged)}; other files were finished")
    for file in done.files:
        if file.text != judged[file.path] and _shape(file.text) != _shape(judged[file.path]):
            raise CorruptRecord(f"{file.path} is not the source that was judged")


def _check_passed(file: PassedFile, campaign: Campaign) -> None:
    assert campaign.profile is not None
    site = campaign.profile.site
    if file.test not in (site.test_file, *site.dependent_tests):
        raise CorruptRecord(f"{file.test[:200]} is no test of {site.kernel}")


def _shape(text: str) -> str:
    try:
        return ast.dump(ast.parse(text))
    except UNREADABLE as error:
        raise CorruptRecord(f"a finished source does not parse: {error}") from error


def _check_verdict(fact: VariantJudged, campaign: Campaign) -> None:
    try:
        verdict = verdict_of(campaign, fact.number)
    except (UserError, ArithmeticError, *UNREADABLE) as error:
        raise CorruptRecord(f"v{fact.number} cannot be judged: {type(error).__name__}: {error}") from error
    if verdict != fact.verdict:
        raise CorruptRecord(f"the verdict on v{fact.number} does not follow from its raw facts")


def _check_numbers(value: object) -> None:
    """Integers that no float can hold would stop our arithmetic instead of the segment."""
    if isinstance(value, dict | tuple):
        for inner in value.values() if isinstance(value, dict) else value:
            _check_numbers(inner)
    elif isinstance(value, int) and abs(value) > MAX_NUMBER:
        raise CorruptRecord("a number is larger than any that can be measured")


def _check_times(measurement: Measurement, suite: Suite) -> None:
    """A modelled time is computed again from the facts beside it; only a GPU's own can be taken as given."""
    if measurement.runner.learned:
        raise CorruptRecord("the runner claims numbers of its GPU from a knowledge base, and only a checkout has one")
    try:
        again = timed(measurement, suite)
    except UserError as error:
        raise CorruptRecord(f"nobody can estimate times for that machine: {error}") from error
    if again != measurement:
        raise CorruptRecord("the estimated times do not follow from the raw facts")


def _check_machine(baseline: Measurement, campaign: Campaign) -> None:
    """v0 once more, elsewhere: the same source, and all that it was asked before."""
    profile = campaign.profile
    assert profile is not None
    if baseline.source != sources_digest(profile.sources):
        raise CorruptRecord("the baseline was measured on another source")
    if why := no_yardstick_for(profile, baseline):
        raise CorruptRecord(f"v0 is no yardstick on another machine: {why}")
    _check_times(baseline, profile.suite)


def _check_race(race: Race, campaign: Campaign) -> None:
    """A race decides nothing, but people read of it: it may speak of this kernel's launches, of our own ideas and of
    scored cases alone."""
    assert campaign.profile is not None
    played = campaign.round_of(race.of)
    facts = played.measurement if played is not None and played.measurement is not None else campaign.profile.baseline
    kernels = {launch.kernel for case in facts.cases for launch in case.launches}
    cases = {case.id for case in campaign.profile.suite.cases}
    if len(race.racers) > MOST_RACERS + 1:
        raise CorruptRecord(f"{len(race.racers)} raced, more than {MOST_RACERS + 1}")
    for racer in race.racers:
        strange = {numbers.kernel for numbers in racer.numbers} - kernels | {lap.case for lap in racer.laps} - cases
        if strange:
            raise CorruptRecord(f"the race tells of {sorted(strange)[0][:80]!r}, which was not measured here")
        if racer.idea and racer.idea.partition(":")[0] not in OUR_IDEAS:
            raise CorruptRecord(f"the race tells of {racer.idea[:80]!r}, which is no idea of the engine's")


def _check_rivals(rivals: tuple[Rival, ...], campaign: Campaign) -> None:
    """Played where there is a winner, each once in each of the cases that take v0 longest."""
    assert campaign.profile is not None
    cases = longest(campaign.profile.baseline) if campaign.incumbent else ()
    asked, told = {(name, case) for name in OF_WINNER for case in cases}, [(one.name, one.case) for one in rivals]
    strange = next((pair for place, pair in enumerate(told) if pair not in asked or pair in told[:place]), None)
    if strange is not None:
        raise CorruptRecord(f"nobody asked for {strange[0]} in {strange[1][:80]!r} at the end of the search")


def _check_hardware(profile: Profile) -> None:
    """No number of the hardware is taken from a job: what it registered has to stand in our own registry."""
    try:
        known = registered(for_runner(profile.baseline.runner))
    except UserError as error:
        raise CorruptRecord(f"nobody has described that machine: {error}") from error
    strange = next((number for number in profile.hardware if number not in known), None)
    if strange is not None:
        raise CorruptRecord(f"the profile registers a number that no datasheet of ours has: {strange.metric[:80]}")


def _check(fact: Fact, campaign: Campaign, repo: Repo) -> None:
    """What the machine cannot know. `campaign` is as it was before this fact, which fits it."""
    _check_numbers(fact.model_dump())
    match fact:
        case Profiled():
            _check_profile(fact.profile, campaign, repo)
            _check_times(fact.profile.baseline, fact.profile.suite)
            _check_hardware(fact.profile)
        case MachineChanged():
            _check_machine(fact.baseline, campaign)
        case VariantMeasured() if campaign.profile is not None:
            _check_times(fact.measurement, campaign.profile.suite)
        case NumbersRaced():
            _check_race(fact.race, campaign)
        case SearchEnded():
            _check_rivals(fact.rivals, campaign)
        case RoundOpened():
            _check_files(fact.variant.files, campaign)
            _check_try(fact.variant, campaign, repo)
        case VariantJudged():
            _check_verdict(fact, campaign)
        case FilePassed():
            _check_passed(fact.file, campaign)
        case Finalized():
            _check_finalized(fact.finalization, campaign)
        case _:
            pass


def accept(facts: tuple[Fact, ...], campaign: Campaign, repo: Repo) -> Campaign:
    """The campaign after a segment, or CorruptRecord at the first fact that may not be believed."""
    for fact in facts:
        _check_kind(fact, campaign)
        after, _ = advance(campaign, fact)
        if len(after.ignored) > len(campaign.ignored):
            raise CorruptRecord(f"{fact.kind} does not fit: {after.ignored[-1].why}")
        _check(fact, campaign, repo)
        campaign = after
    return campaign
