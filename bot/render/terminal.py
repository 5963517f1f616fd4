"""What a campaign says on a terminal: plain text, one idea a line."""

from __future__ import annotations

from bot.model.campaign import Campaign, Outcome, Round, Stage
from bot.model.facts import JournalLine, RoundOpened, VariantJudged
from bot.model.ids import variant_name
from bot.render import labels, numbers, view
from bot.render.escape import plain

DOING = {
    Stage.PROFILING: "profiling the untouched kernel",
    Stage.AWAIT_PROFILE: "waiting for your word on the profile",
    Stage.OPTIMIZING: "trying variants",
    Stage.AWAIT_WINNER: "waiting for your word on the winner",
    Stage.FINALIZING: "running tests and style check on the winner",
    Stage.AWAIT_FINAL: "waiting for your final word",
    Stage.PUSHING: "committing the winner",
    Stage.CLOSING: "closing",
}
ENDS = {
    Outcome.PUSHED: "committed",
    Outcome.REVERTED: "not applied",
    Outcome.NOTHING_TO_DO: "nothing to do",
    Outcome.REJECTED: "rejected by you",
    Outcome.CANCELLED: "cancelled",
    Outcome.FAILED: "failed",
}


def stage_text(campaign: Campaign) -> str:
    return f"{view.kernel(campaign)}: {DOING.get(campaign.stage, str(campaign.stage))}"


def _row(played: Round) -> str:
    verdict, name = played.verdict, variant_name(played.variant.number)
    if verdict is None:
        return f"  {name:4} {plain(played.variant.hypothesis.title)}: not judged yet"
    decided = labels.DECISIONS[verdict.decision]
    speed = numbers.score(verdict.score)
    why = "" if verdict.decision.is_accepted else f"\n       {plain(verdict.reason)}"
    return f"  {name:4} {speed:22} {decided:10} {plain(played.variant.hypothesis.title)}{why}"


def _variants(campaign: Campaign) -> list[str]:
    return [_row(played) for played in campaign.rounds] or ["  no variant was tried"]


def checkpoint_text(campaign: Campaign) -> str:
    """The same facts a checkpoint comment shows, before the prompt."""
    lines = [stage_text(campaign)]
    if campaign.profile is not None and campaign.stage is Stage.AWAIT_PROFILE:
        diagnosis = campaign.profile.diagnosis
        lines += [f"  {plain(diagnosis.sentence)}"]
        lines += [
            f"  {plain(clue.evidence)} -> {plain(clue.inference)} -> {plain(clue.action)}" for clue in diagnosis.clues
        ]
    else:
        lines += _variants(campaign)
    if campaign.stage is Stage.AWAIT_FINAL and campaign.finalization is not None:
        runs = (*campaign.finalization.tests, *campaign.finalization.style[-1:])
        lines += [f"  {'ok  ' if run.passed else 'FAIL'} {plain(run.summary)}" for run in runs]
    return "\n".join(lines)


def result_text(campaign: Campaign) -> str:
    ends = ENDS[campaign.outcome] if campaign.outcome else "not over"
    head = f"{view.kernel(campaign)}: {ends} ({campaign.reason or 'no reason recorded'})"
    best = view.best(campaign)
    speed = f"{variant_name(best)} is {view.speedup_of(campaign, best)} over the pinned commit" if best else ""
    commit = f"commit {campaign.pushed}" if campaign.pushed else ""
    detail = plain(campaign.detail)
    return "\n".join([head, *(f"  {line}" for line in (speed, commit, detail) if line)])


def _told(line: JournalLine) -> str:
    match line.fact:
        case RoundOpened(variant=variant):
            return (
                f"{variant_name(variant.number)} from {variant_name(variant.parent)}: {plain(variant.hypothesis.title)}"
            )
        case VariantJudged(number=number, verdict=verdict):
            return f"{variant_name(number)} {labels.DECISIONS[verdict.decision]}: {plain(verdict.reason)}"
        case fact:
            return fact.kind.replace("_", " ")


def story_text(campaign: Campaign, lines: tuple[JournalLine, ...]) -> str:
    """Every fact in order, then how the campaign stands."""
    told = [f"{line.seq:4} {line.at} {line.zone:8} {_told(line)}" for line in lines]
    stand = result_text(campaign) if campaign.outcome else stage_text(campaign)
    return "\n".join([*told, "", *_variants(campaign), "", stand])
