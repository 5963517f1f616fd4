"""How plain PyTorch and torch.compile stand to v0 and to the best variant.

A rival is played by one process, so its reading has no interval; how far its blocks lie apart is told beside it. A
variant and a rival were both played against v0 on the same kind of GPU, never against each other: how one stands to the
other is the quotient of both.

How one stands in all is told as a variant's speed-up is: of the passes of a shape added up. By single passes a loss
would seem several times as fast as it is: its gradient is computed in the forward pass, and its backward pass has
nothing to do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median

from bot.analysis.measured import read_case
from bot.analysis.paired import (
    FEWEST_BLOCKS,
    MOST_VOIDED,
    ROUNDING,
    TRIM,
    Estimate,
    log_ratio,
    process_mean,
    voided_share,
)
from bot.analysis.standing import near_roof
from bot.analysis.stats import geometric_mean
from bot.model.campaign import Campaign, Profile
from bot.model.commands import Scope
from bot.model.grouping import Group, primary_groups
from bot.model.ids import VariantNumber
from bot.model.measurement import Block, Evidence, Measurement, Reading, Runner, Suite
from bot.model.rivals import RIVALS, Rival, RivalCase, RivalName, Rivalry, RivalTally

LONGEST = 3


def slowest(took_us: Mapping[str, float]) -> tuple[str, ...]:
    """The cases in which v0 takes longest, what takes as long in the order it has there: what torch takes long to
    compile is played in these."""
    return tuple(sorted(took_us, key=lambda case: -took_us[case])[:LONGEST])


def longest(baseline: Measurement) -> tuple[str, ...]:
    """Of a measurement of v0."""
    return slowest({case.case: case.timing.median_us for case in baseline.cases if case.timing is not None})


def _refused(rival: Rival) -> str:
    """Why it counts nowhere; empty where it counts."""
    reading = rival.reading
    if reading is None:
        return rival.why_not or "no reason was given"
    if len(reading.blocks) < FEWEST_BLOCKS:
        return f"{len(reading.blocks)} blocks were read; fewer than {FEWEST_BLOCKS} say nothing"
    if (share := voided_share([reading])) > MOST_VOIDED:
        return f"{100 * share:.0f} % of its blocks were thrown away; above {100 * MOST_VOIDED:.0f} % nothing is said"
    try:
        process_mean(reading.blocks)
    except ValueError as wrong:
        return str(wrong)
    return ""


def _span(blocks: tuple[Block, ...]) -> tuple[float, float]:
    """The ends of what the trimmed mean keeps."""
    logs = sorted(map(log_ratio, blocks))
    cut = int(TRIM * len(logs))
    return math.exp(logs[cut]), math.exp(logs[-1 - cut])


def _case(case: str, reading: Reading, best: Estimate | None) -> RivalCase:
    low, high = _span(reading.blocks)
    span = tuple(map(math.exp, best.interval())) if best is not None else (math.inf, math.inf)
    return RivalCase(
        case=case,
        v0_us=median(us for block in reading.blocks for us in block[:2]),
        rival_us=median(us for block in reading.blocks for us in block[2:]),
        over_v0=math.exp(process_mean(reading.blocks).mean),
        low=low,
        high=high,
        blocks=len(reading.blocks),
        best_over_v0=best.ratio if best is not None else None,
        best_span=(span[0], span[1]) if math.isfinite(span[1]) else None,
    )


def _mean(groups: Sequence[Group], times: Mapping[str, tuple[float, float]]) -> tuple[float | None, int]:
    """(the geometric mean of the first over the second, of how many shapes) with the passes of a shape added up. It
    counts where each direction was played: of a loss one backward pass is enough. Single passes have no mean."""
    ratios = []
    for group in groups:
        played = [case for case in group.cases if case.id in times]
        if played and {case.direction for case in played} == {case.direction for case in group.cases}:
            one, other = (math.fsum(times[case.id][place] for case in played) for place in (0, 1))
            ratios.append(one / other)
    return (geometric_mean(ratios) if ratios else None), len(ratios)


def _over_v0(one: RivalCase) -> tuple[float, float]:
    return one.v0_us, one.v0_us / one.over_v0


def _against(one: RivalCase, number: VariantNumber) -> tuple[float, float] | None:
    """Microseconds of what it is held against, and its own: v0's, or the best's where there is one. From the ratios,
    which the single slots that a median comes of do not always agree with."""
    if not number:
        return _over_v0(one)
    return (one.v0_us / one.best_over_v0, one.v0_us / one.over_v0) if one.best_over_v0 is not None else None


def _is_faster(ratio: float) -> bool:
    """Exactly as fast is not faster, whatever the last bits of a quotient say."""
    return math.log(ratio) > ROUNDING


def _tally(
    name: RivalName,
    rivals: Sequence[Rival],
    groups: Sequence[Group],
    best: Mapping[str, Estimate],
    number: VariantNumber,
) -> RivalTally:
    """A case that is said twice counts as it was said first."""
    said: dict[str, Rival] = {}
    for rival in rivals:
        if rival.name == name:
            said.setdefault(rival.case, rival)
    why = {case: _refused(rival) for case, rival in said.items()}
    cases = tuple(
        _case(case, rival.reading, best.get(case))
        for case, rival in said.items()
        if not why[case] and rival.reading is not None
    )
    against = {one.case: times for one in cases if (times := _against(one, number)) is not None}
    over, held_shapes = _mean(groups, against)
    over_v0, shapes = _mean(groups, {one.case: _over_v0(one) for one in cases})
    ratios = [(case, theirs / own) for case, (theirs, own) in against.items()]
    return RivalTally(
        name=name,
        cases=cases,
        missing=tuple((case, reason) for case, reason in why.items() if reason),
        over_v0=over_v0,
        shapes=shapes,
        over_best=over if number else None,
        held=len(against),
        held_shapes=held_shapes,
        faster=tuple(sorted(((case, ratio) for case, ratio in ratios if _is_faster(ratio)), key=lambda one: -one[1])),
        leads=over is not None and _is_faster(over),
    )


def confirmed(found: Measurement) -> dict[str, Estimate]:
    """What fresh processes read of a variant, case by case; a time that is no positive number says nothing."""
    read: dict[str, Estimate] = {}
    for result in found.cases if found.runner.evidence is Evidence.MEASURED else ():
        try:
            reading = read_case(result)
        except ValueError:
            continue
        if reading is not None and reading.is_confirmed:
            read[result.case] = reading.estimate
    return read


def _of_best(tallies: tuple[RivalTally, ...], groups: Sequence[Group]) -> tuple[float | None, int]:
    seen = {one.case: one for tally in tallies for one in tally.cases}
    times = {case: (one.v0_us, one.v0_us / one.best_over_v0) for case, one in seen.items() if one.best_over_v0}
    return _mean(groups, times) if times and len(times) == len(seen) else (None, 0)


def _in_order(suite: Suite, rivals: Sequence[Rival]) -> tuple[Rival, ...]:
    """In that of the suite, without those of no case of its own."""
    place = {case.id: at for at, case in enumerate(suite.cases)}
    return tuple(sorted((one for one in rivals if one.case in place), key=lambda one: place[one.case]))


def kind_of(runner: Runner) -> tuple[str, str, int]:
    """Of GPU: times of one kind are held against each other."""
    return runner.arch, runner.gpu_name, runner.gpu_memory_mib


def rivalry(
    profile: Profile,
    number: VariantNumber = 0,
    found: Measurement | None = None,
    later: Sequence[Rival] = (),
    scope: Scope = Scope.GENERAL,
) -> Rivalry | None:
    """Of v0, or of the variant `number` that `found` is of. None where nobody was played, as on no machine without a
    GPU. A variant that was timed on another kind of GPU is held against nobody. `later`: those that were played when
    there was a winner."""
    runner, played = profile.baseline.runner, (*profile.rivals, *later)
    if not played or runner.evidence is not Evidence.MEASURED:
        return None
    best = confirmed(found) if number and found is not None and kind_of(found.runner) == kind_of(runner) else {}
    named = [name for name in RIVALS if any(rival.name == name for rival in played)]
    groups = primary_groups(profile.suite, scope)
    played = _in_order(profile.suite, played)
    tallies = tuple(_tally(name, played, groups, best, number) for name in named)
    over_v0, shapes = _of_best(tallies, groups)
    roof = near_roof(profile, found, best) if best and found is not None else None
    return Rivalry(tallies, number, over_v0, shapes, runner.gpu_name, roof)


def fastest(profile: Profile) -> float | None:
    """How v0 stands to whoever is the fastest over all shapes; None where nobody was played in all of them."""
    found, shapes = rivalry(profile), len(primary_groups(profile.suite, Scope.GENERAL))
    over = [one.over_v0 for one in found.tallies if one.over_v0 and one.shapes == shapes] if found is not None else []
    return round(max(over), 4) if over else None


def of_campaign(campaign: Campaign) -> Rivalry | None:
    """Held against the variant that a page is about: the chosen winner, else the best so far."""
    if campaign.profile is None:
        return None
    number = campaign.incumbent if campaign.winner is None else campaign.winner
    played = campaign.round_of(number) if number else None
    scope = campaign.command.scope if campaign.command else Scope.GENERAL
    return rivalry(campaign.profile, number, played.measurement if played else None, campaign.rivals, scope)
