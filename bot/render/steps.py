"""The life of a campaign as the living status comment tells it: what was done, what is now, what comes."""

from __future__ import annotations

from bot.model.campaign import Campaign, Checkpoint, Outcome, Stage
from bot.model.commands import Mode
from bot.model.wait import Wait
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
AT_WORK = (Stage.NEW, Stage.PROFILING, Stage.OPTIMIZING, Stage.FINALIZING)
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
PATCHED = {
    Stage.AWAIT_FINAL: "allow the patch",
    Stage.PUSHING: "one commit to apply, posted as a patch",
}
"""The same where nothing is pushed."""
ENDS = {
    Outcome.PUSHED: "done",
    Outcome.REVERTED: "ended, nothing was applied",
    Outcome.REJECTED: "ended, rejected",
    Outcome.CANCELLED: "cancelled",
    Outcome.FAILED: "ended, it could not be finished",
}


def _later(campaign: Campaign, stage: Stage) -> str:
    patch = stage in (Stage.AWAIT_FINAL, Stage.PUSHING) and view.why_patch(campaign)
    return PATCHED[stage] if patch else LATER[stage]


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


def counted(campaign: Campaign) -> str:
    return f"{len(view.judged(campaign))} of at most {numbers.many(view.budget(campaign), 'variant')} judged"


def searched(campaign: Campaign) -> str:
    count = counted(campaign)
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
        return "tests failed, as they do on the untouched kernel" if done.failed_before else "tests failed"
    style = f"style check {'passed' if done.style and done.style[-1].passed else 'failed'}"
    if not done.script_passed:
        style = f"{style}, the benchmark script fails on v{done.variant} alone"
    if done.untested:
        return f"no test ran ({tests_said(campaign)}), {style}"
    ran = f"tests passed ({tests_said(campaign)})" if tests_said(campaign) else "tests passed"
    return f"{ran}, {style}"


def tests_said(campaign: Campaign) -> str:
    """The last line of the tests' own runner: passed is not all that it counts."""
    done = campaign.finalization
    return "; ".join(run.summary for run in done.tests if run.summary) if done else ""


def checked(campaign: Campaign) -> str:
    """The same as a sentence."""
    said = finished(campaign)
    return f"{said[:1].upper()}{said[1:]}." if said else ""


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


def _now(campaign: Campaign, stage: Stage, queued: bool) -> Trusted:
    if stage in typed.WAITING:
        return Trusted(
            f"**waiting for you**: {code(typed.approval(campaign))}, the other answers are in the question below"
        )
    if queued:
        return Trusted(f"**handed to the runner**: {text(_later(campaign, stage))}")
    doing = searched(campaign) if stage is Stage.OPTIMIZING and campaign.rounds else _later(campaign, stage)
    return Trusted(f"**now**: {text(doing)}")


def asked(campaign: Campaign) -> tuple[Stage, ...]:
    """The steps of this campaign: an autonomous one asks less."""
    interactive = campaign.command is None or campaign.command.mode is Mode.INTERACTIVE
    final = interactive or campaign.policy.final_approval == "required"
    skipped = {Stage.AWAIT_PROFILE, Stage.AWAIT_WINNER} if not interactive else set()
    return tuple(stage for stage in ORDER if stage not in skipped and (final or stage is not Stage.AWAIT_FINAL))


def is_queued(campaign: Campaign, wait: Wait | None) -> bool:
    """Whether its order stood in the queue when this was written: others were before it, or nobody had taken it up for
    long. The words stay when a job begins, so they must not say that it waits."""
    return campaign.stage in AT_WORK and ((wait is not None and wait.ahead > 0) or campaign.late is not None)


def table(campaign: Campaign, wait: Wait | None = None) -> Trusted:
    over = campaign.stage in (Stage.CLOSING, Stage.ENDED)
    now = Stage.PROFILING if campaign.stage is Stage.NEW else campaign.stage
    rows: list[list[object]] = []
    unreached: list[str] = []
    for stage in asked(campaign):
        if stage is now:
            rows.append([tables.strong(NAMES[stage]), _now(campaign, stage, is_queued(campaign, wait))])
        elif over or ORDER.index(stage) < ORDER.index(now):
            done = _done(campaign, stage)
            if not done and over:
                unreached.append(NAMES[stage])
                continue
            rows.append([NAMES[stage], done or "not reached"])
        else:
            rows.append([NAMES[stage], f"later: {_later(campaign, stage)}"])
    if unreached:
        rows.append(["Not reached", ", ".join(unreached)])
    return tables.grid(["Step", "State"], rows)


def ended(campaign: Campaign) -> str:
    if campaign.outcome is Outcome.NOTHING_TO_DO:
        return f"ended, {labels.nothing(campaign)}"
    return ENDS[campaign.outcome] if campaign.outcome else "ended"


def headline(campaign: Campaign, wait: Wait | None = None) -> str:
    if is_queued(campaign, wait):
        return "handed to the runner"
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
            by = f" by {campaign.cancelled_by.login}" if campaign.cancelled_by else ""
            return f"{ended(campaign)}{by}"


def glyph(campaign: Campaign) -> str:
    if campaign.outcome is not None:
        return "✅" if campaign.outcome is Outcome.PUSHED else "⏹️"
    return "✋" if campaign.stage in typed.WAITING else "⏳"
