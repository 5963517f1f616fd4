"""A campaign told as a story: one sentence or two for every turn it took, in the order they came."""

from __future__ import annotations

from bot.model.campaign import Campaign, Checkpoint, Outcome, Round
from bot.model.ids import VariantNumber, variant_name
from bot.model.verdict import Decision
from bot.render import gains, labels, machines, numbers, races, steps, view
from bot.render.escape import Trusted, code, text

REASON_LIMIT = 240
OUTCOMES = {
    Outcome.REVERTED: "Nothing was pushed",
    Outcome.NOTHING_TO_DO: "Nothing changes",
    Outcome.REJECTED: "Nothing was pushed",
    Outcome.CANCELLED: "It was cancelled, and nothing was pushed",
    Outcome.FAILED: "It could not be finished, and nothing was pushed",
}


def sentence(*parts: str) -> Trusted:
    """Joined by blanks, each ended like a sentence."""
    said = [part.rstrip(" .;:") for part in parts if part]
    return Trusted(" ".join(part if part.endswith("…") else f"{part}." for part in said))


def ran(played: Round) -> str:
    """How far it got: the fault that stopped it, or how many cases it was right on."""
    if played.measurement is None:
        return "It is being measured"
    if played.measurement.fault is not None:
        return f"It {labels.fault(played.measurement.fault)}"
    passed, total = view.right(played.measurement)
    if not total:
        return "It was not checked"
    return f"It was right on {passed} of {numbers.many(total, 'correctness case')}"


def speed(campaign: Campaign, played: Round) -> str:
    """What the stopwatch or the model said, and the step from the best before it."""
    score = played.verdict.score if played.verdict else None
    if score is None:
        return ""
    said, more = numbers.over(score, "v0"), gains.step(campaign, played)
    return f"{said}; {more}" if more else said


def verdict(campaign: Campaign, played: Round) -> str:
    """Kept or dropped, and why."""
    found, parent = played.verdict, variant_name(played.variant.parent)
    if found is None:
        return "It is not judged yet"
    why = text(view.reason(campaign, played), REASON_LIMIT)
    match found.decision:
        case Decision.ACCEPTED:
            return "Kept"
        case Decision.ACCEPTED_WITH_NOTE:
            return f"Kept, with a note: {why}" if why else "Kept, with a note"
        case Decision.INCONCLUSIVE:
            return f"Dropped as undecided{f': {why}' if why else ''}. Back to {parent}"
        case _:
            return f"Dropped{f': {why}' if why else ''}. Back to {parent}"


def brought_by(played: Round) -> Trusted:
    """Whose idea it was, where it was not the engine's own."""
    who, references = played.variant.proposer, played.variant.hypothesis.references
    if who == "engine":
        return Trusted("")
    commit = f" as commit {code(references[0][:7])}" if who == "human" and references else ""
    return Trusted(f", brought by {'a person' if who == 'human' else text(who)}{commit}")


def _round(campaign: Campaign, played: Round) -> str:
    idea, name = played.variant.hypothesis, variant_name(played.variant.number)
    head = f"**{name}**, from {variant_name(played.variant.parent)}{brought_by(played)}: {text(idea.title, 90)}"
    return sentence(
        head,
        f"The idea: {text(idea.why, REASON_LIMIT)}",
        ran(played),
        text(speed(campaign, played)),
        verdict(campaign, played),
    )


def _race(campaign: Campaign, of: VariantNumber) -> list[str]:
    """What came of ideas or of other launch numbers at a variant, where they were raced."""
    held = (race for race in campaign.races if race.of == of)
    return [sentence(f"**A race**: {text(races.sentence(race), REASON_LIMIT)}") for race in held]


def _moved(campaign: Campaign, after: VariantNumber) -> list[str]:
    """Where the search went on on another machine: once, after the last variant of the first."""
    is_first = bool(campaign.left) and campaign.left[0].until == after
    return [sentence(f"**Another machine**: {text(machines.sentence(campaign), REASON_LIMIT)}")] if is_first else []


def _asked(campaign: Campaign) -> str:
    who = text(campaign.requester.login) if campaign.requester else "Somebody"
    command = campaign.command
    wish = f" (goal: {command.goal}, {labels.SCOPES[command.scope]})" if command else ""
    at = f" at {code(view.pinned(campaign))}" if view.pinned(campaign) else ""
    place = f"It took the place of campaign {code(campaign.restarts)}" if campaign.restarts else ""
    return sentence(f"**{who}** asked for a faster {code(view.kernel(campaign))}{wish}{at}", place)


def _answer(campaign: Campaign, checkpoint: Checkpoint, approved: str) -> str:
    """Who said yes at a question. A no ends the story and is told there."""
    found = campaign.answer_to(checkpoint)
    return f"**{text(found.actor.login)}** {approved}" if found is not None and found.approved else ""


def _refusal(campaign: Campaign) -> str:
    found = next((answer for answer in reversed(campaign.answers) if not answer.approved), None)
    if found is None:
        return ""
    return f"**{text(found.actor.login)}** said no{f': {text(found.reason, REASON_LIMIT)}' if found.reason else ''}"


def _profile(campaign: Campaign) -> str:
    if campaign.profile is None:
        return ""
    return sentence(
        f"**The profile**: {text(steps.held_back(campaign))}",
        text(campaign.profile.diagnosis.sentence, REASON_LIMIT),
        _answer(campaign, Checkpoint.PROFILE, "said go on"),
    )


def _search_ended(campaign: Campaign) -> str:
    if campaign.stopped is None:
        return ""
    best = f"best: v{campaign.incumbent}" if campaign.incumbent else "nothing was better than v0"
    many = numbers.many(len(view.judged(campaign)), "variant")
    return sentence(f"**The search ended** because {labels.STOPPED[campaign.stopped]}; {many} judged, {best}")


def _finished(campaign: Campaign) -> str:
    done = campaign.finalization
    if done is None:
        return ""
    return sentence(f"**v{done.variant}** in a clean worktree: {steps.finished(campaign)}")


def _end(campaign: Campaign) -> str:
    if campaign.outcome is None:
        return ""
    if campaign.outcome is Outcome.PUSHED:
        who = _answer(campaign, Checkpoint.FINAL, "approved the push")
        return sentence(who, f"v{campaign.winner} became commit {code((campaign.pushed or '')[:7])}")
    reason = f" ({code(campaign.reason)})" if campaign.reason else ""
    who = _refusal(campaign) if campaign.outcome is Outcome.REJECTED else ""
    return sentence(who, f"{OUTCOMES[campaign.outcome]}{reason}")


def _rounds(campaign: Campaign, most: int) -> list[str]:
    """The rounds, the middle of a long search left to the record."""
    told = [*_race(campaign, 0), *_moved(campaign, 0)]
    for played in campaign.rounds:
        number = played.variant.number
        told += [_round(campaign, played), *_race(campaign, number), *_moved(campaign, number)]
    if len(told) <= most:
        return told
    first, last = most - most // 2, most // 2
    gap = f"_{numbers.many(len(told) - first - last, 'more turn')} in the record._"
    return [*told[:first], gap, *told[len(told) - last :]]


def story(campaign: Campaign, most: int = 119) -> Trusted:
    """A numbered list; empty before anything happened."""
    if campaign.command is None:
        return Trusted("")
    chosen = _answer(campaign, Checkpoint.WINNER, f"chose v{campaign.winner}")
    retries = numbers.many(campaign.retries, "time")
    retried = f"A job that had failed was done again, {retries}" if campaign.retries else ""
    turns = [
        _asked(campaign),
        _profile(campaign),
        *_rounds(campaign, most),
        _search_ended(campaign),
        sentence(chosen),
        _finished(campaign),
        sentence(retried),
        _end(campaign),
    ]
    kept = [turn for turn in turns if turn]
    return Trusted("\n".join(f"{number}. {turn}" for number, turn in enumerate(kept, 1)))
