"""What a campaign says on a terminal: plain lines, one idea each, with colour only where somebody can see it."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass

from bot.model.campaign import Campaign, Outcome, Round, Stage
from bot.model.facts import (
    BudgetRaised,
    EffectDone,
    EffectRequested,
    FilePassed,
    JournalLine,
    MachineChanged,
    NumbersRaced,
    OrderFailed,
    Pushed,
    RoundOpened,
    SearchEnded,
    VariantJudged,
)
from bot.model.ids import VariantNumber, variant_name
from bot.model.measurement import Evidence
from bot.model.rivals import Rivalry
from bot.model.verdict import Decision
from bot.render import labels, machines, mind, numbers, races, rival_rows, script_rows, self_tuned, view
from bot.render.escape import SENTENCE_LIMIT, plain, visible_lines

WIDTH = 100
"""Columns where nobody says how many there are."""
LEAST = 40
SPEED_MOST = 32
MOST_ROWS = 12
"""Rows of the live table: a screen is not scrolled while it changes."""
MOST_DIFF = 400
FIXED = 11
"""Columns of a row that no word stands in: the mark, the name, the gaps."""
LEAST_IDEA = 8
NO_BREAK = "\u00a0"
DOING = {
    Stage.NEW: "beginning",
    Stage.PROFILING: "profiling the untouched kernel",
    Stage.AWAIT_PROFILE: "waiting for your word on the profile",
    Stage.OPTIMIZING: "trying variants",
    Stage.AWAIT_WINNER: "waiting for your word on the winner",
    Stage.FINALIZING: "running tests and style check on the winner",
    Stage.AWAIT_FINAL: "waiting for your final word",
    Stage.PUSHING: "committing the winner",
    Stage.CLOSING: "closing",
    Stage.ENDED: "over",
}
APPROVED = {
    Stage.AWAIT_PROFILE: "the profile",
    Stage.AWAIT_WINNER: "the winner",
    Stage.AWAIT_FINAL: "the commit",
}
"""What is approved at a checkpoint where nobody is asked."""
AT_WORK = (Stage.PROFILING, Stage.OPTIMIZING, Stage.FINALIZING, Stage.PUSHING)
ENDS = {
    Outcome.PUSHED: "committed",
    Outcome.REVERTED: "not applied",
    Outcome.REJECTED: "rejected by you",
    Outcome.CANCELLED: "cancelled",
    Outcome.FAILED: "failed",
}
MARKS = {"passed": ("good", "ok  "), "skipped": ("bad", "NONE"), "failed": ("bad", "FAIL")}
"""How a command of the target went."""
COLOURS = {"bold": "1", "dim": "2", "good": "32", "bad": "31", "best": "1;33"}


Paint = Callable[[str, str], str]
"""How a word is shown: paint("good", "accepted"). What strangers wrote is cleaned before it comes here."""


def no_paint(style: str, words: str) -> str:
    return words


def ansi(style: str, words: str) -> str:
    return f"\x1b[{COLOURS[style]}m{words}\x1b[0m" if words else words


@dataclass(frozen=True, slots=True)
class Meter:
    """What this machine shows at this moment. What is not known is None, and is not shown."""

    elapsed: float = 0.0
    """Seconds since this command began."""
    step: float | None = None
    """Seconds since the latest thing happened."""
    processes: int | None = None
    """Workers of ours: compilers and checkers."""
    cores_busy: float | None = None
    cores: int | None = None
    gpu_percent: int | None = None
    gpu_mib: int | None = None
    left: float | None = None
    """Seconds if the whole budget is used; known once rounds have been seen to last."""


def stage_text(campaign: Campaign) -> str:
    return f"{view.kernel(campaign)}: {DOING.get(campaign.stage, str(campaign.stage))}"


# The table


def _cut(words: str, width: int) -> str:
    if len(words) <= width:
        return words
    return words[: width - 1].rstrip() + "…" if width > 0 else ""


def _decided(campaign: Campaign, played: Round) -> tuple[str, str]:
    """The word and its style."""
    if played.verdict is None:
        return ("judging" if played.measurement else "measuring"), "bold"
    if played.variant.number == view.best(campaign) and view.is_accepted(played):
        return "best", "best"
    styles = {Decision.REJECTED: "bad", Decision.INCONCLUSIVE: "dim"}
    return labels.DECISIONS[played.verdict.decision], styles.get(played.verdict.decision, "good")


def _why(played: Round) -> str:
    """The reason; of a variant that was taken without one, what it does to memory."""
    verdict = played.verdict
    if verdict is None:
        return ""
    if verdict.decision is not Decision.ACCEPTED:
        return plain(verdict.reason)
    memory = numbers.memory(verdict.score) if verdict.score else ""
    return f"with {memory}" if memory else ""


def _shown(campaign: Campaign, most: int) -> tuple[Round, ...]:
    """The lineage and the latest, when there are more than fit."""
    rounds = campaign.rounds
    if len(rounds) <= most:
        return rounds
    kept = [played for played in rounds if played.variant.number in campaign.lineage][-most // 2 :]
    latest = [played for played in rounds if played not in kept][-(most - len(kept)) :]
    return tuple(played for played in rounds if played in kept or played in latest)


def table(
    campaign: Campaign, width: int = WIDTH, paint: Paint = no_paint, *, most: int = 10_000, whole: bool = True
) -> list[str]:
    """Every variant: number, speed-up, verdict, idea. `whole`: the reason too, on lines of its own."""
    rounds = _shown(campaign, most)
    if not rounds:
        return [paint("dim", "  no variant was tried yet")] if campaign.profile else []
    speeds = {r.variant.number: numbers.speed_alone(r.verdict.score) if r.verdict else "" for r in rounds}
    said = max(len("baseline"), *(len(_decided(campaign, played)[0]) for played in rounds))
    wide = min(SPEED_MOST, width - FIXED - said, max(len("speed-up"), *map(len, speeds.values())))
    room = width - FIXED - wide - said
    room = room if room >= LEAST_IDEA else 0
    head = f"  {'#':<4} {'speed-up':<{wide}}  {'verdict':<{said}}  {_cut('idea', room)}".rstrip()
    lines = [paint("dim", head)]
    lines.append(f"  {'v0':<4} {'1.00x':<{wide}}  {'baseline':<{said}}  {_cut('untouched source', room)}".rstrip())
    for played in rounds:
        word, style = _decided(campaign, played)
        title = _cut(plain(played.variant.hypothesis.title), room)
        name = f"v{played.variant.number}"
        speed = _cut(speeds[played.variant.number], wide)
        mark = "*" if word == "best" else " "
        row = f"{mark} {name:<4} {speed:<{wide}}  {paint(style, f'{word:<{said}}')}"
        lines.append(f"{row}  {title}" if title else row)
        why = _why(played)
        if why and whole:
            lines += [paint("dim", f"       {line}") for line in textwrap.wrap(why, max(width - 7, LEAST))]
    left = len(campaign.rounds) - len(rounds)
    return [*lines, paint("dim", f"  and {numbers.many(left, 'more variant')}")] if left else lines


# While it works


def _round(campaign: Campaign) -> str:
    if campaign.stage is not Stage.OPTIMIZING:
        return ""
    now = max(len(campaign.rounds), 1)
    return f"round {now} of at most {view.budget(campaign)}"


def _hypothesis(campaign: Campaign, width: int) -> list[str]:
    last = campaign.rounds[-1] if campaign.rounds else None
    if campaign.stage is not Stage.OPTIMIZING or last is None or last.verdict is not None:
        return []
    idea = last.variant.hypothesis
    head = f"{variant_name(last.variant.number)}: {plain(idea.title)}"
    expected = f"  expected: {plain(idea.expected)}" if idea.expected else ""
    lines = [head, f"  because: {plain(idea.why)}" if idea.why else "", expected]
    return [_cut(line, width) for line in lines if line]


def doing(campaign: Campaign) -> str:
    """What is done at this moment, as far as the facts tell."""
    last = campaign.rounds[-1] if campaign.rounds else None
    if campaign.stage is not Stage.OPTIMIZING:
        return DOING[campaign.stage]
    if any(played.is_awaited for played in campaign.rounds):
        return "judging it"
    if campaign.stranded is not None:
        return f"measuring {variant_name(campaign.stranded)} again, as this is another machine"
    if last is None or last.verdict is not None:
        to_race = view.evidence(campaign) is Evidence.MEASURED and campaign.race_of(campaign.incumbent) is None
        return f"looking for the next idea{' or racing launch numbers' if to_race else ''}"
    return "compiling, checking and comparing it"


def machine(meter: Meter) -> str:
    """One line of what is known of the machine."""
    parts = []
    if meter.processes and meter.cores_busy is not None and meter.cores:
        pool = numbers.many(meter.processes, "worker process", "worker processes")
        parts.append(f"{pool}, {meter.cores_busy:.1f} of {numbers.many(meter.cores, 'core')} busy")
    if meter.gpu_percent is not None:
        memory = f", {numbers.size(meter.gpu_mib * 2**20)}" if meter.gpu_mib is not None else ""
        parts.append(f"GPU {meter.gpu_percent} % busy{memory}")
    if meter.left is not None:
        parts.append(f"up to about {numbers.seconds(float(round(meter.left))).replace('.0 s', ' s')} left")
    return " · ".join(parts)


def _whole_parts(words: str, width: int) -> list[str]:
    """Wrapped between its parts, where that is possible."""
    bound = " · ".join(part.replace(" ", NO_BREAK) for part in words.split(" · "))
    return [line.replace(NO_BREAK, " ") for line in textwrap.wrap(bound, width)]


def screen(campaign: Campaign, meter: Meter, width: int = WIDTH, paint: Paint = no_paint) -> list[str]:
    """The live picture: phase and round, the hypothesis, the table, the machine. No line is longer than the width."""
    width = max(width, LEAST)
    head = " · ".join(part for part in (view.kernel(campaign), str(campaign.stage), _round(campaign)) if part)
    step = f" ({numbers.seconds(meter.step)})" if meter.step is not None else ""
    lines = [paint("bold", _cut(head, width - 12)) + paint("dim", f"  {numbers.seconds(meter.elapsed)}")]
    lines += [_cut(f"{doing(campaign)}{step}", width), *_hypothesis(campaign, width)]
    if campaign.rounds:
        lines += ["", *table(campaign, width, paint, most=MOST_ROWS, whole=False), ""]
    lines += [paint("dim", line) for line in _whole_parts(machine(meter), width)]
    return [*lines, paint("dim", _cut("Ctrl-C stops; the same command goes on from there", width))]


# Questions and answers


def checkpoint_text(campaign: Campaign, width: int = WIDTH, paint: Paint = no_paint, *, approved: bool = False) -> str:
    """The same facts a checkpoint comment shows, before the prompt. `approved`: there is none, as --yes answers."""
    head = (
        f"{view.kernel(campaign)}: {APPROVED[campaign.stage]}, approved by --yes" if approved else stage_text(campaign)
    )
    lines = [paint("bold", head)]
    if campaign.profile is not None and campaign.stage is Stage.AWAIT_PROFILE:
        diagnosis = campaign.profile.diagnosis
        lines += textwrap.wrap(plain(diagnosis.sentence), width, initial_indent="  ", subsequent_indent="  ")
        for clue in diagnosis.clues:
            told = f"{plain(clue.evidence)} -> {plain(clue.inference)} -> {plain(clue.action)}"
            lines += textwrap.wrap(told, width, initial_indent="  - ", subsequent_indent="    ")
        for said in mind.of_profile(campaign.profile):
            lines += textwrap.wrap(f"mind: {said}", width, initial_indent="  ", subsequent_indent="    ")
    else:
        lines += table(campaign, width, paint, whole=campaign.stage is not Stage.AWAIT_FINAL)
    if campaign.stage is Stage.AWAIT_FINAL and campaign.finalization is not None:
        runs = (*campaign.finalization.tests, *campaign.finalization.style[-1:])
        lines += [f"  {paint(*MARKS[run.result])} {plain(run.summary)}" for run in runs]
        lines += textwrap.wrap(script_rows.sentence(campaign), width, initial_indent="  ", subsequent_indent="  ")
    return "\n".join(lines)


def variant_text(campaign: Campaign, number: VariantNumber, width: int = WIDTH, paint: Paint = no_paint) -> str:
    """One variant: its idea, what was found, and the change."""
    played = campaign.round_of(number)
    if played is None:
        return f"there is no {variant_name(number)} here"
    idea, verdict = played.variant.hypothesis, played.verdict
    lines = [paint("bold", f"{variant_name(number)}: {plain(idea.title)}")]
    for head, words in (("because", idea.why), ("expected", idea.expected)):
        if words:
            lines += textwrap.wrap(f"{head}: {plain(words)}", width, initial_indent="  ", subsequent_indent="    ")
    if verdict is not None:
        lines.append(f"  {labels.DECISIONS[verdict.decision]}: {numbers.score(verdict.score)}")
        for finding in verdict.findings:
            told = f"{plain(finding.guardrail)}, {finding.severity}: {plain(finding.message)}"
            lines += textwrap.wrap(told, width, initial_indent="  - ", subsequent_indent="    ")
    diff = view.diff(view.sources_of(campaign, played.variant.parent), played.variant.files)
    for line in visible_lines(diff, MOST_DIFF):
        style = {"+": "good", "-": "bad", "@": "dim"}.get(line[:1], "")
        lines.append(paint(style, line) if style else line)
    return "\n".join(lines)


def ended(campaign: Campaign) -> str:
    if campaign.outcome is Outcome.NOTHING_TO_DO:
        return labels.nothing(campaign)
    if campaign.outcome is Outcome.PUSHED and view.is_local(campaign):
        return f"committed on branch optimize/{campaign.id}"
    return ENDS[campaign.outcome] if campaign.outcome else "not over"


def reason_of(campaign: Campaign) -> str:
    """The code in brackets. That of a winner in a checkout says pushed, and nothing was."""
    if campaign.outcome is Outcome.PUSHED and view.is_local(campaign):
        return ""
    return f" ({campaign.reason or 'no reason recorded'})"


def result_text(campaign: Campaign, paint: Paint = no_paint, rivals: Rivalry | None = None) -> str:
    """Where a rival is faster, the first line says so."""
    good = campaign.outcome in (Outcome.PUSHED, Outcome.NOTHING_TO_DO)
    head = f"{view.kernel(campaign)}: {paint('good' if good else 'bold', ended(campaign))}{reason_of(campaign)}"
    beaten = plain(rival_rows.beaten(rivals, view.case_names(campaign)), 900)
    head = f"{head}; {paint('bold', beaten)}" if beaten else head
    best = view.best(campaign)
    over = numbers.over(view.score_of(campaign, best), "the pinned commit")
    speed = f"{variant_name(best)} is {over}" if best else ""
    commit = f"commit {campaign.pushed}" if campaign.pushed else ""
    tuned = self_tuned.said(campaign.profile) if campaign.profile and campaign.outcome is Outcome.NOTHING_TO_DO else ""
    detail = plain(campaign.detail)
    minded = [f"mind: {said}" for said in mind.of_ending(campaign)]
    said = (speed, commit, detail, plain(tuned, SENTENCE_LIMIT), *minded)
    return "\n".join([head, *(f"  {line}" for line in said if line)])


def interrupted_text(campaign: Campaign, again: str, look: str, by: str = "you") -> str:
    """What is kept and how to go on, when somebody stopped it."""
    last = campaign.rounds[-1] if campaign.rounds else None
    open_round = campaign.stage is Stage.OPTIMIZING and last is not None and last.verdict is None
    lost = f"; {variant_name(last.variant.number)} will be measured again" if open_round and last else ""
    return f"{view.kernel(campaign)}: stopped by {by} while {DOING[campaign.stage]}; all before is kept{lost}\n" + (
        f"  go on:  {again}\n  look:   {look}"
    )


def told(line: JournalLine) -> str:
    """One fact in words."""
    match line.fact:
        case NumbersRaced(race=race):
            return plain(races.sentence(race))
        case MachineChanged(baseline=baseline):
            return machines.told(baseline)
        case BudgetRaised(max_variants=most):
            return f"the search goes on with up to {most} variants in all"
        case RoundOpened(variant=variant):
            return (
                f"{variant_name(variant.number)} from {variant_name(variant.parent)}: {plain(variant.hypothesis.title)}"
            )
        case VariantJudged(number=number, verdict=verdict):
            speed = f", {numbers.score(verdict.score)}" if verdict.score else ""
            reason = f": {plain(verdict.reason)}" if verdict.reason else ""
            return f"{variant_name(number)} {labels.DECISIONS[verdict.decision]}{speed}{reason}"
        case SearchEnded(why=why):
            return f"the search ended: {labels.STOPPED[why]}"
        case Pushed(commit=commit):
            return f"the winner is commit {commit[:7]}"
        case FilePassed(file=file):
            return f"{plain(file.test)} {file.run.result}, {file.run.seconds:.0f} s"
        case OrderFailed(reason=reason, detail=detail):
            return f"failed ({reason}): {plain(detail)}"
        case fact:
            return fact.kind.replace("_", " ")


def story_text(
    campaign: Campaign,
    lines: tuple[JournalLine, ...],
    width: int = WIDTH,
    paint: Paint = no_paint,
    rivals: Rivalry | None = None,
    *,
    whole: bool = False,
) -> str:
    """How the campaign stands and how rivals stand to it, then what happened, in order. `whole`: the effects too, which
    a campaign goes on by and which tell a reader nothing."""
    kept = [line for line in lines if whole or not isinstance(line.fact, EffectRequested | EffectDone)]
    story = [f"{line.seq:4} {line.at} {line.zone:8} {told(line)}" for line in kept]
    story = [paint("bold", "What happened"), *story]
    stand = result_text(campaign, paint, rivals) if campaign.outcome else stage_text(campaign)
    beside = rival_rows.report_lines(rivals, view.case_names(campaign), width)
    beside = [paint("bold", "Rivals"), *beside, ""] if beside else []
    return "\n".join([stand, "", *table(campaign, width, paint), "", *beside, *story])
