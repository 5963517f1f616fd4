"""How a speed-up came about: the shapes it is a mean over, the steps it is made of, the best before a round."""

from __future__ import annotations

from dataclasses import dataclass

from bot.model.campaign import Campaign, Round
from bot.model.commands import Goal, Scope
from bot.model.grouping import Group, primary_groups
from bot.model.ids import VariantNumber, variant_name
from bot.model.measurement import Evidence
from bot.model.verdict import Score
from bot.render import labels, machines, numbers, view
from bot.render.escape import Trusted, code, text

WEIGHED = {Goal.SPEED: "speed", Goal.MEMORY: "memory", Goal.BALANCED: "speed and memory"}


@dataclass(frozen=True, slots=True)
class Shape:
    """One of the numbers that the speed-up is the geometric mean of."""

    name: str
    before_us: float
    after_us: float

    @property
    def speedup(self) -> float:
        return self.before_us / self.after_us


def goal(campaign: Campaign) -> Goal:
    return campaign.command.goal if campaign.command else Goal.BALANCED


def _groups(campaign: Campaign) -> tuple[Group, ...]:
    scope = campaign.command.scope if campaign.command else Scope.GENERAL
    return primary_groups(campaign.profile.suite, scope) if campaign.profile else ()


def _passes(groups: tuple[Group, ...]) -> str:
    """`forward + backward added`, `forward`, or the step run as one."""
    found = dict.fromkeys(case.direction for group in groups for case in group.cases)
    if tuple(found) == ("full",):
        return "forward and backward run as one step"
    return f"{' + '.join(found)}{' added' if len(found) > 1 else ''}"


def mean_of(campaign: Campaign) -> str:
    """What a speed-up is the mean of: `geomean over 3 shapes, forward + backward added`."""
    groups = _groups(campaign)
    if not groups:
        return "geomean"
    types = len({group.cases[0].dtype for group in groups}) > 1
    what = (
        numbers.many(len(groups), "shape and type", "shapes and types") if types else numbers.many(len(groups), "shape")
    )
    return f"geomean over {what}, {_passes(groups)}"


def adds_up(campaign: Campaign) -> bool:
    """Whether a shape's number is a sum over its passes, which no line of a case shows."""
    return any(len(group.cases) > 1 for group in _groups(campaign))


def shapes(campaign: Campaign, number: VariantNumber) -> list[Shape]:
    """The rows of that mean; empty where the variant has no score of every case."""
    score = view.score_of(campaign, number)
    found = {case.case: case for case in score.cases} if score else {}
    rows = []
    for group in _groups(campaign):
        if any(case.id not in found for case in group.cases):
            return []
        first = group.cases[0]
        before = sum(found[case.id].before_us for case in group.cases)
        after = sum(found[case.id].after_us for case in group.cases)
        if not after > 0:
            return []
        rows.append(Shape(f"{labels.sizes(first)} {labels.DTYPES[first.dtype]}", before, after))
    return rows


def explained(campaign: Campaign, number: VariantNumber) -> str:
    """`1.79x = geomean over 3 shapes, forward + backward added: 2.00x at 512x1024 bf16, ...`."""
    score, rows = view.score_of(campaign, number), shapes(campaign, number)
    if score is None or not rows:
        return ""
    told = ", ".join(f"{numbers.ratio(row.speedup)} at {row.name}" for row in rows)
    return f"{numbers.labelled(numbers.ratio(numbers.speed(score)), score.evidence)} = {mean_of(campaign)}: {told}"


# Against the best before


def best_before(campaign: Campaign, number: VariantNumber) -> VariantNumber:
    """The incumbent that this round was held against."""
    played = campaign.round_of(number)
    if played is not None and played.held_against is not None:
        return played.held_against
    return max((n for n in campaign.lineage if n < number), default=0)


def _quotient(now: Score, before: Score | None) -> float:
    return numbers.speed(now) / numbers.speed(before) - 1 if before else numbers.speed(now) - 1


def score_name(campaign: Campaign) -> str:
    wanted = goal(campaign)
    return f"score ({WEIGHED[wanted]}, goal={wanted})"


def _is_mixed(score: Score) -> bool:
    return numbers.speed(score) != score.value


def step(campaign: Campaign, played: Round) -> str:
    """What it adds to the best before it. A score into which memory is weighed says its name, and the speed beside it.

    Empty where the best before it is v0 and nothing but speed counts: that was said already.
    """
    verdict = played.verdict
    score = verdict.score if verdict else None
    if verdict is None or score is None or verdict.gain_over_best is None:
        return ""
    best = best_before(campaign, played.variant.number)
    if not _is_mixed(score):
        gained = numbers.small_gain(verdict.gain_over_best)
        return _labelled(f"over {variant_name(best)}: speed {gained}", score) if best else ""
    scored = f"{score_name(campaign)} {numbers.small_gain(verdict.gain_over_best)}"
    before = view.score_of(campaign, best) if machines.is_one(campaign, played.variant.number, best) else None
    speed = f"speed {numbers.small_gain(_quotient(score, before))}, " if before else ""
    said = f"over {variant_name(best)}: {speed}{scored}" if best else f"{scored} over v0"
    return _labelled(said, score)


def over_best(campaign: Campaign, played: Round) -> str:
    """The same for a cell, always with what it is a percentage of: `score +8.6 % over v1 (estimated)`."""
    verdict = played.verdict
    score = verdict.score if verdict else None
    if verdict is None or score is None or verdict.gain_over_best is None:
        return ""
    what = "score" if _is_mixed(score) else "speed"
    best = variant_name(best_before(campaign, played.variant.number))
    return numbers.labelled(f"{what} {numbers.small_gain(verdict.gain_over_best)} over {best}", score.evidence)


def _labelled(said: str, score: Score) -> str:
    return f"{said}, estimated" if score.evidence is Evidence.STATIC else said


# The steps of the lineage


@dataclass(frozen=True, slots=True)
class Step:
    """One accepted variant on the way to another, with its own share of the speed-up."""

    number: VariantNumber
    title: str
    share: float | None
    """Speed-up over the variant it was built on."""
    parent: VariantNumber
    is_apart: bool = False
    """Whether that one was measured on another machine, so that no share of the two can be told."""


def steps(campaign: Campaign, number: VariantNumber) -> list[Step]:
    """The variants this one was made of, oldest first; itself is the last."""
    found: list[Step] = []
    while number and number not in [one.number for one in found]:
        played = campaign.round_of(number)
        if played is None:
            break
        parent = played.variant.parent
        now, before = view.score_of(campaign, number), view.score_of(campaign, parent)
        apart = not machines.is_one(campaign, number, parent)
        known = now is not None and (before is not None or parent == 0) and not apart
        share = _quotient(now, before) + 1 if now is not None and known else None
        found.append(Step(number, played.variant.hypothesis.title.rstrip(". "), share, parent, apart))
        number = parent
    return found[::-1]


def share_of(one: Step) -> str:
    """`1.49x over v0`."""
    if one.is_apart:
        return f"on another machine than {variant_name(one.parent)}"
    return f"{numbers.ratio(one.share)} over {variant_name(one.parent)}" if one.share is not None else "not scored"


# The same as Markdown


def gained(campaign: Campaign, number: VariantNumber) -> Trusted:
    """The speed-up over the pinned commit, then the memory."""
    score = view.score_of(campaign, number)
    memory = numbers.with_memory(score) if score else ""
    return Trusted(f"{text(numbers.speed_alone(score))} over {code(view.pinned(campaign) or 'v0')}{memory}")


def way(campaign: Campaign, number: VariantNumber) -> list[Trusted]:
    """Each accepted step on the way to a variant, with its own share, where there was more than one."""
    told = steps(campaign, number)
    evidence = view.evidence(campaign)
    shares = [text(numbers.labelled(share_of(one), evidence)) for one in told]
    lines = [Trusted(f"v{one.number}, {share}: {text(one.title)}") for one, share in zip(told, shares, strict=True)]
    return lines if len(lines) > 1 else []
