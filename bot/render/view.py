"""What a page asks a campaign. Nothing is decided here."""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import unified_diff
from typing import TypeAlias

from bot.model.campaign import Campaign, Round, Stage
from bot.model.finalization import CommandRun
from bot.model.ids import VariantNumber
from bot.model.measurement import CheckResult, Evidence, Measurement, Runner
from bot.model.variant import SourceFile
from bot.model.verdict import CaseScore, Score
from bot.render import labels, numbers

Differ: TypeAlias = Callable[[tuple[SourceFile, ...], tuple[SourceFile, ...]], str]
"""Tells two texts apart. Whoever has git hands its own in: a count beside a commit is then the commit's."""
MOST_NOTES = 5
HEAD = re.compile(r"^--- .*\n\+\+\+ .*\n(?=@@ )", re.MULTILINE)
TRY_STAGES = (Stage.AWAIT_PROFILE, Stage.OPTIMIZING, Stage.AWAIT_WINNER)


def kernel(campaign: Campaign) -> str:
    return campaign.command.kernel if campaign.command else "the kernel"


def pinned(campaign: Campaign) -> str:
    """The commit everything is about, short; a local campaign has none."""
    return campaign.pull.head_sha[:7] if campaign.pull else ""


def is_local(campaign: Campaign) -> bool:
    return campaign.pull is not None and campaign.pull.is_local


def branch(campaign: Campaign) -> str:
    return campaign.pull.head_ref if campaign.pull else ""


def budget(campaign: Campaign) -> int:
    asked = campaign.command.max_variants if campaign.command else 0
    return min(asked, campaign.policy.max_variants)


def runner(campaign: Campaign) -> Runner | None:
    return campaign.profile.baseline.runner if campaign.profile else None


def why_patch(campaign: Campaign) -> str:
    """Why the winner is handed over as a patch rather than pushed; empty where it is pushed."""
    words = {"fork": "Nothing is pushed to a fork", "policy": "This repository takes winners as patches"}
    return words.get(campaign.patch_for, "")


def evidence(campaign: Campaign) -> Evidence:
    """Before anything was found out, the careful word."""
    found = runner(campaign)
    return found.evidence if found else Evidence.STATIC


def is_static(campaign: Campaign) -> bool:
    return evidence(campaign) is Evidence.STATIC


def best(campaign: Campaign) -> VariantNumber:
    """The variant a page is about: the chosen winner, else the best so far."""
    return campaign.incumbent if campaign.winner is None else campaign.winner


def measurement_of(campaign: Campaign, number: VariantNumber) -> Measurement | None:
    if number == 0:
        return campaign.profile.baseline if campaign.profile else None
    found = campaign.round_of(number)
    return found.measurement if found else None


def score_of(campaign: Campaign, number: VariantNumber) -> Score | None:
    found = campaign.round_of(number)
    return found.verdict.score if found and found.verdict else None


def sources_of(campaign: Campaign, number: VariantNumber) -> tuple[SourceFile, ...]:
    if number == 0:
        return campaign.profile.sources if campaign.profile else ()
    found = campaign.round_of(number)
    return found.variant.files if found else ()


def title_of(campaign: Campaign, number: VariantNumber) -> str:
    found = campaign.round_of(number)
    return found.variant.hypothesis.title if found else "the untouched source"


def speedup_of(campaign: Campaign, number: VariantNumber) -> str:
    return numbers.score(score_of(campaign, number))


def worst(score: Score | None) -> CaseScore | None:
    return min(score.cases, key=lambda case: case.speedup) if score and score.cases else None


def _is_excused(check: CheckResult) -> bool:
    """In an old journal: nothing was held against anything."""
    return check.passed and check.margin is None if check.excused is None else check.excused


def asked(found: Measurement | None) -> tuple[CheckResult, ...]:
    """Without the checks that v0 fails too."""
    return tuple(check for check in (found.checks if found else ()) if not _is_excused(check))


def right(found: Measurement | None) -> tuple[int, int]:
    """Correctness cases passed, and how many were asked for."""
    checks = asked(found)
    return sum(check.passed for check in checks), len(checks)


def _type_of(campaign: Campaign, check: CheckResult) -> str:
    """Of those that the judge drew itself, and nobody knew before, the name tells it."""
    known = campaign.profile.suite.checks if campaign.profile else ()
    return next((case.dtype for case in known if case.id == check.case), check.case.rpartition("-")[2])


def tried(campaign: Campaign, number: VariantNumber) -> str:
    """Where it was checked and in which types, and which of those that are scored were not among them."""
    rows, machine = asked(measurement_of(campaign, number)), runner(campaign)
    if not rows or machine is None or campaign.profile is None:
        return ""
    where = "in Triton's interpreter" if is_static(campaign) else f"on {machine.gpu_name}"
    found = {_type_of(campaign, row) for row in rows}
    scored = {case.dtype for case in campaign.profile.suite.cases}
    names = [name for dtype, name in labels.DTYPES.items() if dtype in found]
    missing = [name for dtype, name in labels.DTYPES.items() if dtype in scored - found]
    but = f"; not in {numbers.listed(missing)}, in which it is scored" if missing else ""
    return f"{where}, in {numbers.listed(names)}{but}" if names else where


def is_accepted(played: Round) -> bool:
    return played.verdict is not None and played.verdict.decision.is_accepted


def judged(campaign: Campaign) -> tuple[Round, ...]:
    return tuple(played for played in campaign.rounds if played.verdict is not None)


def case_names(campaign: Campaign) -> dict[str, str]:
    return labels.case_names(campaign.profile.suite if campaign.profile else None)


def reason(campaign: Campaign, played: Round) -> str:
    """Why it was kept or dropped, with the cases as the tables name them."""
    return labels.in_words(played.verdict.reason, case_names(campaign)) if played.verdict else ""


def notes(campaign: Campaign) -> tuple[str, ...]:
    """What a human should know before taking the best variant: one sentence a rule, however many cases it names."""
    played = campaign.round_of(best(campaign))
    found = [one for one in (played.verdict.findings if played and played.verdict else ()) if one.severity == "note"]
    by_rule: dict[str, list[str]] = {}
    for finding in found:
        by_rule.setdefault(finding.guardrail, []).append(labels.in_words(finding.message, case_names(campaign)))
    told = []
    for first, *rest in by_rule.values():
        told.append(f"{first}; {numbers.many(len(rest), 'more case')} alike" if rest else first)
    return tuple(told)[:MOST_NOTES]


def failed_run(campaign: Campaign) -> CommandRun | None:
    """The command that stopped the winner: the first failed test, else the style check's last word, else the script
    that runs on v0."""
    done = campaign.finalization
    scripts = [one.run for one in done.broken_scripts] if done else []
    runs = (*done.tests, *done.style[-1:], *scripts) if done else ()
    return next((run for run in runs if not run.passed), None)


def committed(campaign: Campaign) -> tuple[SourceFile, ...]:
    """The text that is or would be committed."""
    return campaign.finalization.files if campaign.finalization else sources_of(campaign, best(campaign))


def changed_files(campaign: Campaign) -> tuple[str, ...]:
    before = {file.path: file.text for file in sources_of(campaign, 0)}
    return tuple(file.path for file in committed(campaign) if before.get(file.path) != file.text)


def _lines(text: str) -> list[str]:
    """Split as git does: at newlines only, and a missing last one is shown."""
    lines = text.split("\n")
    if lines[-1] == "":
        return lines[:-1]
    return [*lines[:-1], lines[-1] + "  (no newline at the end)"]


def diff(before: tuple[SourceFile, ...], after: tuple[SourceFile, ...]) -> str:
    """A real unified diff, never told from memory. Git pairs some lines otherwise, and so may count others."""
    old = {file.path: file.text for file in before}
    parts = []
    for file in after:
        lines = unified_diff(
            _lines(old.get(file.path, "")), _lines(file.text), f"a/{file.path}", f"b/{file.path}", lineterm=""
        )
        parts.append("\n".join(lines))
    return "\n".join(part for part in parts if part)


def diff_size(shown: str) -> str:
    """As `git diff --numstat` counts. A line that was `-- x` is shown as `--- x` when it goes: no head of a file."""
    lines = HEAD.sub("", shown).split("\n")
    return f"+{sum(line.startswith('+') for line in lines)} -{sum(line.startswith('-') for line in lines)}"
