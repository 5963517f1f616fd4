"""The two append-only logs. Each fact adds its own text and nothing written earlier ever changes (BC-21)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from bot.model.campaign import OUT_OF_BUDGET, Profile, Round, StopReason
from bot.model.facts import (
    Answered,
    CampaignClosed,
    CampaignRequested,
    Cancelled,
    Finalized,
    HeadMoved,
    JournalLine,
    MachineChanged,
    NumbersRaced,
    OrderFailed,
    Profiled,
    Pushed,
    PushRefused,
    Retried,
    RoundOpened,
    SearchEnded,
    TryRequested,
    VariantJudged,
    VariantMeasured,
)
from bot.model.verdict import Decision
from bot.render import labels, machines, numbers, races, times
from bot.render.environment import environment, tidy
from bot.render.escape import text
from bot.render.tables import grid

TREND_COLUMNS = ("Fwd Avg us", "Fwd Max us", "Bwd Avg us", "Bwd Max us", "Step us")
STATUS = {
    Decision.ACCEPTED: "ACCEPTED",
    Decision.ACCEPTED_WITH_NOTE: "ACCEPTED (trade-off)",
    Decision.REJECTED: "ROLLBACK",
    Decision.INCONCLUSIVE: "ROLLBACK",
}
TERMINATION = {
    "T1 target met": {StopReason.TARGET_MET},
    "T2 efficient enough": {StopReason.EFFICIENT},
    "T3 budget spent": set(OUT_OF_BUDGET),
    "T4 stopped otherwise": {StopReason.STAGNATION, StopReason.IDEAS_EXHAUSTED, StopReason.TOO_MANY_FAILURES},
}


@dataclass(frozen=True, slots=True)
class So:
    """What the log knows at one line of the journal. A fact that was heard before adds nothing."""

    kernel: str = ""
    profile: Profile | None = None
    rounds: tuple[Round, ...] = ()
    lineage: tuple[int, ...] = (0,)
    over: bool = False
    asked: CampaignRequested | None = field(default=None)

    @property
    def best(self) -> int:
        return self.lineage[-1]

    def round_of(self, number: int) -> Round | None:
        return next((played for played in self.rounds if played.variant.number == number), None)


def _with(so: So, number: int, **fields: Any) -> So:
    changed = (one.model_copy(update=fields) if one.variant.number == number else one for one in so.rounds)
    return replace(so, rounds=tuple(changed))


def _after(so: So, fact: Any) -> So:
    match fact:
        case CampaignRequested():
            return replace(so, kernel=fact.command.kernel, asked=fact)
        case Profiled():
            return replace(so, profile=fact.profile)
        case RoundOpened():
            return replace(so, rounds=(*so.rounds, Round(variant=fact.variant)))
        case MachineChanged() if so.profile is not None:
            return replace(so, profile=so.profile.model_copy(update={"baseline": fact.baseline}))
        case VariantMeasured():
            left = tuple(one for one in so.lineage if one != fact.number)
            return replace(_with(so, fact.number, measurement=fact.measurement, verdict=None), lineage=left)
        case VariantJudged():
            won = (fact.number,) if fact.verdict.decision.is_accepted else ()
            return replace(_with(so, fact.number, verdict=fact.verdict), lineage=(*so.lineage, *won))
        case CampaignClosed():
            return replace(so, over=True)
        case Retried():
            return replace(so, over=False)
        case _:
            return so


def _moves(so: So, fact: MachineChanged) -> bool:
    return so.profile is not None and bool(fact.baseline.runner.differs_in(so.profile.baseline.runner))


def _measures(so: So, fact: VariantMeasured) -> bool:
    """For the first time, or the best once more where v0 is of another machine."""
    played = so.round_of(fact.number)
    if played is None or so.profile is None or played.measurement is None:
        return played is not None and played.verdict is None
    stranded = played.measurement.runner.differs_in(so.profile.baseline.runner)
    return fact.number == so.best and played.verdict is not None and bool(stranded)


def _heard(so: So, fact: Any) -> bool:
    """Whether the fact fits; a late or doubled one is in the journal but tells nothing."""
    match fact:
        case CampaignRequested():
            return so.asked is None
        case Profiled():
            return so.asked is not None and so.profile is None
        case RoundOpened():
            open_round = any(played.verdict is None for played in so.rounds)
            return so.profile is not None and not open_round and fact.variant.number == len(so.rounds) + 1
        case MachineChanged():
            return _moves(so, fact)
        case VariantMeasured():
            return _measures(so, fact)
        case VariantJudged():
            played = so.round_of(fact.number)
            return played is not None and played.verdict is None
        case _:
            return so.asked is not None


def _termination(why: StopReason) -> list[tuple[str, str]]:
    return [(name, "yes" if why in reasons else "no") for name, reasons in TERMINATION.items()]


def _told(so: So, line: JournalLine) -> dict[str, Any]:
    """What a piece of the log may speak of: the campaign as it stands after this line."""
    fact = line.fact
    number = getattr(fact, "number", fact.variant.number if isinstance(fact, RoundOpened) else 0)
    played = so.round_of(number)
    best = so.round_of(so.best)
    return {
        "so": so,
        "at": line.at,
        "fact": fact,
        "played": played,
        "n": number,
        "status": STATUS[played.verdict.decision] if played and played.verdict else "",
        "gained": numbers.over(played.verdict.score if played and played.verdict else None, "v0"),
        "best_gained": numbers.over(best.verdict.score if best and best.verdict else None, "v0"),
        "best": best,
        "reason": played.verdict.reason if played and played.verdict else "",
        "rolled_back": [r for r in so.rounds if r.verdict and not r.verdict.decision.is_accepted],
        "stopped": labels.STOPPED[fact.why] if isinstance(fact, SearchEnded) else "",
        "termination": _termination(fact.why) if isinstance(fact, SearchEnded) else [],
        "raced": races.sentence(fact.race) if isinstance(fact, NumbersRaced) else "",
        "race_table": races.table(fact.race) if isinstance(fact, NumbersRaced) and fact.race.racers else "",
        "moved": machines.told(fact.baseline) if isinstance(fact, MachineChanged) else "",
        "baseline": _baseline_table(so.profile) if isinstance(fact, Profiled | MachineChanged) and so.profile else "",
    }


def _baseline_table(profile: Profile) -> str:
    mark = times.mark(profile.baseline.runner.evidence)
    names = labels.case_names(profile.suite)
    rows = [
        [names.get(case.case, case.case), numbers.duration(case.timing.median_us if case.timing else None)]
        for case in profile.baseline.cases
    ]
    return grid(["Case", f"Time{mark}"], rows)


PIECES: dict[type[Any], str] = {
    CampaignRequested: "requested",
    Profiled: "profiled",
    NumbersRaced: "raced",
    MachineChanged: "machine_changed",
    RoundOpened: "opened",
    VariantJudged: "judged",
    SearchEnded: "search_ended",
    Answered: "answered",
    TryRequested: "try_requested",
    Finalized: "finalized",
    OrderFailed: "ended",
    Cancelled: "ended",
    Retried: "retried",
    HeadMoved: "ended",
    PushRefused: "ended",
    Pushed: "ended",
    CampaignClosed: "closed",
}
"""The facts the log tells of, each with its template."""


def _log_piece(so: So, line: JournalLine) -> str:
    name = PIECES.get(type(line.fact))
    if name is None:
        return ""
    template = environment().get_template(f"records/log/{name}.md.j2")
    return tidy(template.render(**_told(so, line))) + "\n"


def _trend_cells(profile: Profile, us: dict[str, float]) -> list[str]:
    found = times.step(profile.suite, us)
    values = [
        found.mean["forward"],
        found.worst["forward"],
        found.mean["backward"],
        found.worst["backward"],
        found.whole,
    ]
    return [times.plain_us(value) for value in values]


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |\n"


def _trend_head(so: So, profile: Profile) -> str:
    mark = times.mark(profile.baseline.runner.evidence)
    columns = [f"{name}{mark}" for name in TREND_COLUMNS]
    head = ["Round", "Status", "Description", *columns, f"vs Baseline{mark}", "Key Finding"]
    first = ["round-1", "BASELINE", "v0, untouched", *_trend_cells(profile, times.baseline_us(profile)), "—"]
    found = text(profile.diagnosis.sentence, 160)
    return (
        f"# Performance trend: {so.kernel}\n\n" + _row(head) + "|" + "---|" * len(head) + "\n" + _row([*first, found])
    )


def _trend_row(profile: Profile, played: Round) -> str:
    assert played.verdict is not None
    us = times.variant_us(played)
    base = times.step(profile.suite, times.baseline_us(profile) or times.befores(played))
    now = times.step(profile.suite, us)
    title = f"v{played.variant.number}: {played.variant.hypothesis.title}"
    return _row(
        [
            f"round-{played.variant.number + 1}",
            STATUS[played.verdict.decision],
            text(title, 120),
            *_trend_cells(profile, us),
            times.against(base, now) if us else "not scored",
            text(played.verdict.reason or played.variant.hypothesis.why, 160),
        ]
    )


def _moved_row(profile: Profile, fact: MachineChanged) -> str:
    cells = _trend_cells(profile, times.baseline_us(profile))
    return _row(["round-1", "BASELINE", "v0, on another machine", *cells, "—", text(machines.told(fact.baseline), 160)])


def _trend_piece(so: So, line: JournalLine) -> str:
    if so.profile is None:
        return ""
    if isinstance(line.fact, Profiled):
        return _trend_head(so, so.profile)
    if isinstance(line.fact, VariantJudged):
        played = so.round_of(line.fact.number)
        return _trend_row(so.profile, played) if played is not None else ""
    if isinstance(line.fact, MachineChanged):
        return _moved_row(so.profile, line.fact)
    return ""


def _written(lines: tuple[JournalLine, ...], piece: Callable[[So, JournalLine], str]) -> str:
    so = So()
    pieces = []
    for line in lines:
        if so.over != isinstance(line.fact, Retried) or not _heard(so, line.fact):
            continue
        so = _after(so, line.fact)
        pieces.append(piece(so, line))
    return "".join(pieces)


def optimize_log(lines: tuple[JournalLine, ...]) -> str:
    return _written(lines, _log_piece)


def performance_trend(lines: tuple[JournalLine, ...]) -> str:
    return _written(lines, _trend_piece)
