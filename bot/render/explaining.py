"""What a page says of one variant: the idea, what came of it, and why it was kept or dropped, in words."""

from __future__ import annotations

from typing import Any

from bot.model.campaign import Campaign, Round, Stage
from bot.model.ids import VariantNumber, variant_name
from bot.model.verdict import Decision, Finding
from bot.render import escape, folded, labels, numbers, story, tables, view
from bot.render.budget import Detail
from bot.render.escape import Trusted, text
from bot.render.view import Differ

MOST_FINDINGS = 12
HEADLINES = {
    Decision.ACCEPTED: "kept",
    Decision.ACCEPTED_WITH_NOTE: "kept, with a note",
    Decision.REJECTED: "dropped",
    Decision.INCONCLUSIVE: "dropped as undecided",
}


def _headline(campaign: Campaign, played: Round | None) -> str:
    if played is None:
        return "the untouched kernel"
    title, number = played.variant.hypothesis.title.rstrip(". "), played.variant.number
    if played.verdict is None:
        return f"{title}; still being judged"
    if number == view.best(campaign) and played.verdict.decision.is_accepted:
        return f"{title}; {tables.leading(campaign)}"
    return f"{title}; {HEADLINES[played.verdict.decision]}"


def _worst(campaign: Campaign, played: Round) -> str:
    """The case that gained least: a mean hides it."""
    score = played.verdict.score if played.verdict else None
    worst = view.worst(score)
    if score is None or worst is None:
        return ""
    names = labels.case_names(campaign.profile.suite if campaign.profile else None)
    shown = numbers.labelled(numbers.ratio(worst.speedup), score.evidence)
    return f"Its worst case is {names.get(worst.case, worst.case)} at {shown}"


def _resources(played: Round) -> str:
    """Registers and spills in a sentence, where something was compiled."""
    used = [r.resources for case in (played.measurement.cases if played.measurement else ()) for r in case.launches]
    known = [found for found in used if found is not None]
    if not known:
        return ""
    spills = max(found.spill_bytes for found in known)
    registers = numbers.many(max(found.registers for found in known), "register")
    spilled = f"and spills {numbers.size(spills)} a thread" if spills else "and spills nothing"
    return f"Its heaviest kernel takes {registers} {spilled}"


def came(campaign: Campaign, played: Round) -> Trusted:
    parts = (story.ran(played), story.speed(campaign, played), _worst(campaign, played), _resources(played))
    return story.sentence(*(text(part) for part in parts if part))


def _why(campaign: Campaign, played: Round) -> tuple[str, str]:
    """The word for the verdict, and the sentence behind it."""
    found = played.verdict
    if found is None:
        return "No verdict yet.", "The page says more once the guardrails have looked at it."
    reason = text(view.reason(campaign, played), story.REASON_LIMIT)
    back = f"The search went on from {variant_name(played.variant.parent)}"
    match found.decision:
        case Decision.ACCEPTED:
            return (
                "Why it was kept:",
                "right on every case, better than the best before it, and no guardrail objects.",
            )
        case Decision.ACCEPTED_WITH_NOTE:
            return "Why it was kept:", story.sentence(f"better than the best before it; mind, though: {reason}")
        case Decision.INCONCLUSIVE:
            return "Why it was dropped:", story.sentence(reason or "the readings allow more than one answer", back)
        case _:
            return "Why it was dropped:", story.sentence(reason or "a guardrail objects", back)


def _finding(finding: Finding, names: dict[str, str]) -> Trusted:
    case = f" ({text(names.get(finding.case, finding.case))})" if finding.case else ""
    return Trusted(f"{text(finding.guardrail)}{case}: {text(labels.in_words(finding.message, names))}")


def _findings(campaign: Campaign, played: Round) -> list[str]:
    """What the guardrails noticed beside the reason, which was just said."""
    reason = played.verdict.reason if played.verdict else ""
    found = [one for one in (played.verdict.findings if played.verdict else ()) if one.message != reason]
    names = labels.case_names(campaign.profile.suite if campaign.profile else None)
    more = len(found) - MOST_FINDINGS
    rest = [f"{numbers.many(more, 'more finding')} in the record"] if more > 0 else []
    return [*(_finding(one, names) for one in found[:MOST_FINDINGS]), *rest]


def _next(campaign: Campaign, number: VariantNumber) -> str:
    """What can be done with this variant now."""
    if campaign.stage is Stage.AWAIT_WINNER and number in campaign.lineage[1:]:
        return f"to take this one, write `/optimize approve {variant_name(number)}`."
    if campaign.stage is Stage.ENDED and number and campaign.pushed is None:
        return "it was not pushed; `/optimize restart` begins a campaign anew on the current head."
    others = [played.variant.number for played in campaign.rounds if played.variant.number != number]
    if others:
        return f"`/optimize explain {variant_name(others[-1])}` tells of another one."
    return "nothing is needed."


def values(campaign: Campaign, number: VariantNumber, detail: Detail, differ: Differ) -> dict[str, Any]:
    played = campaign.round_of(number) if number else None
    shared: dict[str, Any] = {
        "variant_name": variant_name(number),
        "headline": _headline(campaign, played),
        "played": played,
        "sentence": campaign.profile.diagnosis.sentence if campaign.profile else "",
        "baseline": folded.baseline(campaign, detail.cases) if played is None else Trusted(""),
        "cases": folded.cases(campaign, number, detail.cases),
        "resources": folded.resources(campaign, (0, number) if number else (0,)) if campaign.profile else Trusted(""),
        "passports": folded.passports(campaign, (0, number) if number else (0,)),
        "next_line": Trusted(_next(campaign, number)),
        "parent": "",
        "diff": Trusted(""),
        "diff_size": "",
    }
    if played is None:
        return shared
    diff = differ(view.sources_of(campaign, played.variant.parent), played.variant.files)
    word, why = _why(campaign, played)
    idea = played.variant.hypothesis
    return shared | {
        "idea": idea,
        "said": story.sentence(text(idea.why, escape.FENCE_LIMIT), f"Expected: {text(idea.expected)}"),
        "parent": variant_name(played.variant.parent),
        "brought_by": story.brought_by(played),
        "came": came(campaign, played),
        "word": word,
        "why": why,
        "findings": _findings(campaign, played),
        "diff": escape.fence(diff, "diff", lines=detail.lines * 2, limit=16_000) if diff else Trusted(""),
        "diff_size": view.diff_size(diff),
    }
