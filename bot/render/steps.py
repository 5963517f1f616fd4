"""The life of a campaign as the living status comment tells it: what was done, what is now, what comes."""

from __future__ import annotations

from bot.model.campaign import Campaign, Checkpoint, Outcome, Stage
from bot.model.commands import Mode
from bot.render import labels, numbers, tables, typed, view
from bot.render.escape import Trusted, code, text

ORDER = (
    Stage.PROFILING,
    Stage.AWAIT_PROFILE,
    Stage.OPTIMIZING,
    Stage.AWAIT_WINNER,
    Stage.FINALIZING,
    Stage.AWAIT_FINAL,
    Stage.PUSHING,
)
NAMES = {
    Stage.PROFILING: "Profile",
    Stage.AWAIT_PROFILE: "Your answer",
    Stage.OPTIMIZING: "Optimize",
    Stage.AWAIT_WINNER: "Your choice",
    Stage.FINALIZING: "Finalize",
    Stage.AWAIT_FINAL: "Your final word",
    Stage.PUSHING: "Push",
}
LATER = {
    Stage.PROFILING: "find out what holds the untouched kernel back",
    Stage.AWAIT_PROFILE: "confirm the profile",
    Stage.OPTIMIZING: "make variants and judge each one",
    Stage.AWAIT_WINNER: "pick a variant",
    Stage.FINALIZING: "tests and style check in a clean worktree",
    Stage.AWAIT_FINAL: "allow the push",
    Stage.PUSHING: "one commit on top of the pinned one",
}
ENDS = {
    Outcome.PUSHED: "done",
    Outcome.REVERTED: "ended, nothing was applied",
    Outcome.NOTHING_TO_DO: "ended, nothing to do",
    Outcome.REJECTED: "ended, rejected",
    Outcome.CANCELLED: "ended, cancelled",
    Outcome.FAILED: "ended, it could not be finished",
}


def roof(campaign: Campaign) -> str:
    """Share of the roof the untouched kernel reaches, or nothing when no ceiling is known."""
    percent = campaign.profile.diagnosis.roof_percent if campaign.profile else None
    if percent is None:
        return ""
    return numbers.labelled(f"{numbers.percent(percent)} of the roof", view.evidence(campaign))


def held_back(campaign: Campaign) -> str:
    if campaign.profile is None:
        return ""
    cause = f"held back by {labels.BOTTLENECKS[campaign.profile.diagnosis.bottleneck]}"
    return f"{cause}; at {roof(campaign)}" if roof(campaign) else cause


def searched(campaign: Campaign) -> str:
    judged = len(view.judged(campaign))
    count = f"{judged} of at most {numbers.many(view.budget(campaign), 'variant')} judged"
    if not campaign.incumbent:
        return (
            f"{count}; nothing better than v0 yet" if campaign.stopped is None else f"{count}; nothing better than v0"
        )
    return f"{count}; best: v{campaign.incumbent}, {view.speedup_of(campaign, campaign.incumbent)}"


def _answer(campaign: Campaign, checkpoint: Checkpoint) -> str:
    found = campaign.answer_to(checkpoint)
    if found is None:
        return ""
    word = "approved" if found.approved else "rejected"
    chosen = f" v{campaign.winner}" if found.approved and checkpoint is Checkpoint.WINNER else ""
    return f"{word}{chosen} by {found.actor.login}"


def finished(campaign: Campaign) -> str:
    done = campaign.finalization
    if done is None:
        return ""
    if not done.tests or not all(run.passed for run in done.tests):
        return "tests failed"
    return "tests and style check passed" if done.passed else "style check failed"


def _done(campaign: Campaign, stage: Stage) -> str:
    match stage:
        case Stage.PROFILING:
            return held_back(campaign)
        case Stage.AWAIT_PROFILE:
            return _answer(campaign, Checkpoint.PROFILE)
        case Stage.OPTIMIZING:
            return searched(campaign) if campaign.rounds or campaign.stopped else ""
        case Stage.AWAIT_WINNER:
            return _answer(campaign, Checkpoint.WINNER)
        case Stage.FINALIZING:
            return finished(campaign)
        case Stage.AWAIT_FINAL:
            return _answer(campaign, Checkpoint.FINAL)
        case _:
            return f"pushed {campaign.pushed[:7]}" if campaign.pushed else ""


def _now(campaign: Campaign, stage: Stage) -> Trusted:
    if stage in typed.WAITING:
        return Trusted(
            f"**waiting for you**: {code(typed.approval(campaign))}, the other answers are in the question below"
        )
    doing = searched(campaign) if stage is Stage.OPTIMIZING and campaign.rounds else LATER[stage]
    return Trusted(f"**now**: {text(doing)}")


def asked(campaign: Campaign) -> tuple[Stage, ...]:
    """The steps of this campaign: an autonomous one asks less."""
    interactive = campaign.command is None or campaign.command.mode is Mode.INTERACTIVE
    final = interactive or campaign.policy.final_approval == "required"
    skipped = {Stage.AWAIT_PROFILE, Stage.AWAIT_WINNER} if not interactive else set()
    return tuple(stage for stage in ORDER if stage not in skipped and (final or stage is not Stage.AWAIT_FINAL))


def table(campaign: Campaign) -> Trusted:
    over = campaign.stage in (Stage.CLOSING, Stage.ENDED)
    now = Stage.PROFILING if campaign.stage is Stage.NEW else campaign.stage
    rows: list[list[object]] = []
    for stage in asked(campaign):
        if stage is now:
            rows.append([tables.strong(NAMES[stage]), _now(campaign, stage)])
        elif over or ORDER.index(stage) < ORDER.index(now):
            rows.append([NAMES[stage], _done(campaign, stage) or "not reached"])
        else:
            rows.append([NAMES[stage], f"later: {LATER[stage]}"])
    return tables.grid(["Step", "State"], rows)


def headline(campaign: Campaign) -> str:
    match campaign.stage:
        case Stage.NEW | Stage.PROFILING:
            return "profiling"
        case Stage.OPTIMIZING:
            return "optimizing"
        case Stage.FINALIZING:
            return f"finishing v{campaign.winner or campaign.incumbent}"
        case Stage.PUSHING:
            return "pushing"
        case Stage.AWAIT_PROFILE | Stage.AWAIT_WINNER | Stage.AWAIT_FINAL:
            return "waiting for you"
        case Stage.CLOSING | Stage.ENDED:
            return ENDS[campaign.outcome] if campaign.outcome else "ended"


def glyph(campaign: Campaign) -> str:
    if campaign.outcome is not None:
        return "✅" if campaign.outcome is Outcome.PUSHED else "⏹️"
    return "✋" if campaign.stage in typed.WAITING else "⏳"
