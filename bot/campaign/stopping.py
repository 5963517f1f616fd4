"""When a search ends. Each rule is a function with a name; `why_stop` asks them in order."""

from __future__ import annotations

from bot.campaign.lineage import pending_tries, score_of
from bot.model.campaign import Campaign, Round, StopReason
from bot.model.commands import Scope, TargetMetric
from bot.model.measurement import Case
from bot.model.verdict import Decision, Score, Verdict

MIN_IMPROVEMENT = 0.01
"""Less than this over the best so far is not progress (L-43, BC-04)."""
STAGNANT_PAIR = 2
REVIEWS_BEFORE_STOP = 1
"""The first stagnant pair is a review with new directions; the next one ends the search (C-09)."""
FAILURES_IN_A_ROW = 3
"""Variants in a row that did not run or were wrong: the idea source is broken, not the kernel (C-25)."""
EFFICIENT_PERCENT = 90.0
"""A kernel at this share of its roof has nothing left worth a patch (R-23, T2)."""
WEAKEST_PERCENT = 80.0
"""Nor while one of its cases is below this."""


def is_stagnant(verdict: Verdict) -> bool:
    """A variant that passed every guardrail and still gained less than 1 %, or less than this machine's noise lets
    anybody claim (L-44: failures do not count)."""
    gain, decision = verdict.gain_over_best, verdict.decision
    if gain is None or decision is Decision.REJECTED:
        return False
    return gain < MIN_IMPROVEMENT or decision is Decision.INCONCLUSIVE


def did_not_run(played: Round) -> bool:
    """Nothing was timed: it crashed, hung or was wrong."""
    return played.verdict is not None and played.verdict.decision is Decision.REJECTED and played.verdict.score is None


def _cases_of(target: TargetMetric, cases: tuple[Case, ...]) -> set[str]:
    wanted = dict(target.where)
    return {
        case.id
        for case in cases
        if case.direction == target.direction
        and all(dict(case.shape).get(name) == size for name, size in wanted.items())
    }


def meets(target: TargetMetric, score: Score, cases: tuple[Case, ...]) -> bool:
    """Whether every case the target speaks of is inside it. A target that matches no case is never met."""
    ids = _cases_of(target, cases)
    scored = [case for case in score.cases if case.case in ids]
    if not scored:
        return False
    if target.below_us is not None:
        return all(case.after_us < target.below_us for case in scored)
    return target.speedup is not None and all(case.speedup >= target.speedup for case in scored)


def target_met(campaign: Campaign) -> bool:
    target = campaign.command.target if campaign.command else None
    score = score_of(campaign, campaign.incumbent)
    if target is None or score is None or campaign.profile is None:
        return False
    return meets(target, score, campaign.profile.suite.cases)


def _weakest(campaign: Campaign) -> float:
    """Percent of its roof that the case reaches which is farthest from it; 100 where no roof is known."""
    roofs = campaign.profile.diagnosis.roofs if campaign.profile else ()
    score = score_of(campaign, campaign.incumbent) if campaign.incumbent else None
    speedups = {case.case: case.speedup for case in score.cases} if score else {}
    return min((roof.percent * speedups.get(roof.case, 1.0) for roof in roofs if roof.percent), default=100.0)


def _is_outrun(campaign: Campaign) -> bool:
    """Whether a rival shows that there is more to have: stock swiglu, at 96 % on an H200, was left alone where
    torch.compile was 1.035x as fast."""
    rival = campaign.profile.diagnosis.rival if campaign.profile else None
    score = score_of(campaign, campaign.incumbent) if campaign.incumbent else None
    is_whole = campaign.command is not None and campaign.command.scope is Scope.GENERAL
    own = (score.speed or 1.0) if score else 1.0
    return is_whole and rival is not None and rival >= own * (1 + MIN_IMPROVEMENT)


def efficient(campaign: Campaign) -> bool:
    """All together, and no case far from it: of stock softmax, at 92 % on an H100, one was at 65 %."""
    if campaign.incumbent == 0:
        percent = campaign.profile.diagnosis.roof_percent if campaign.profile else None
    else:
        score = score_of(campaign, campaign.incumbent)
        percent = score.roof_percent if score else None
    near = percent is not None and percent >= EFFICIENT_PERCENT and _weakest(campaign) >= WEAKEST_PERCENT
    return near and not _is_outrun(campaign)


def budget(campaign: Campaign) -> int:
    asked = campaign.command.max_variants if campaign.command else 0
    return min(asked, campaign.policy.max_variants)


def budget_spent(campaign: Campaign) -> bool:
    return len(campaign.rounds) >= budget(campaign)


def gpu_seconds(campaign: Campaign) -> float:
    """At least what was used: finished orders as they were charged, or the measurements that are told already."""
    baseline = campaign.profile.baseline.seconds if campaign.profile else 0.0
    others = campaign.replaced_seconds + sum(race.seconds for race in campaign.races)
    told = baseline + others + sum(played.measurement.seconds for played in campaign.rounds if played.measurement)
    return max(campaign.gpu_seconds, told)


def gpu_time_spent(campaign: Campaign) -> bool:
    return gpu_seconds(campaign) >= 60 * campaign.policy.max_gpu_minutes


def stagnated(campaign: Campaign) -> bool:
    return campaign.stagnant >= STAGNANT_PAIR and campaign.reviews >= REVIEWS_BEFORE_STOP


def too_many_failures(campaign: Campaign) -> bool:
    last = campaign.rounds[campaign.raced_after :][-FAILURES_IN_A_ROW:]
    return len(last) == FAILURES_IN_A_ROW and all(did_not_run(played) for played in last)


OUT_OF_IDEAS = (StopReason.STAGNATION, StopReason.TOO_MANY_FAILURES)
"""Where a race may still help: it asks the clock and no source of ideas."""


def why_stop(campaign: Campaign) -> StopReason | None:
    """The first rule that ends the search, or None. A person's own idea is tried before any rule but the budgets."""
    if budget_spent(campaign):
        return StopReason.BUDGET_SPENT
    if gpu_time_spent(campaign):
        return StopReason.GPU_TIME_SPENT
    if pending_tries(campaign):
        return None
    rules = (
        (target_met, StopReason.TARGET_MET),
        (efficient, StopReason.EFFICIENT),
        (stagnated, StopReason.STAGNATION),
        (too_many_failures, StopReason.TOO_MANY_FAILURES),
    )
    if campaign.stopped is not None:
        return campaign.stopped
    return next((reason for rule, reason in rules if rule(campaign)), None)
