"""Launch numbers that won a race on the GPU, written down as a rule. Where a race was run, no model is asked."""

from __future__ import annotations

from collections.abc import Iterator

from bot.campaign.lineage import NUMBERS_TECHNIQUE
from bot.engine import race_field, settings_table
from bot.engine.settings_table import Choice
from bot.engine.source import MEASURED, NotUnderstood
from bot.model.variant import Hypothesis, Proposal, SourceFile
from bot.proposers.brief import Brief


def _choices(brief: Brief) -> tuple[Choice, ...]:
    """The rule for each kernel that won something, the largest gain first."""
    assert brief.race is not None
    found = []
    for kernel, (name, rows) in race_field.tables(brief.race, brief.facts, brief.suite).items():
        file = brief.file_of(kernel)
        if file is not None:
            blocks = settings_table.steps_by_block(file.text, kernel, name)
            choice = settings_table.choose(rows, kernel, name, blocks=blocks)
            found += [choice] if choice is not None else []
    return tuple(sorted(found, key=lambda choice: -choice.gain))


def _write(brief: Brief, choices: tuple[Choice, ...]) -> tuple[tuple[SourceFile, ...], tuple[Choice, ...]]:
    files = {file.path: file.text for file in brief.sources}
    done = []
    for choice in choices:
        for path, text in files.items():
            try:
                files[path] = settings_table.written(text, choice, brief.baseline.runner.arch, MEASURED)
            except NotUnderstood:
                continue
            done.append(choice)
            break
    return tuple(SourceFile(path=path, text=text) for path, text in files.items()), tuple(done)


def _proposal(brief: Brief, choices: tuple[Choice, ...], technique: str, title: str, by: str) -> Proposal | None:
    files, done = _write(brief, choices)
    if not done or brief.race is None:
        return None
    rules = "; ".join(f"{choice.rule.kernel} with {choice.rule.says}" for choice in done)
    gains = "; ".join(
        f"{choice.rule.kernel} {choice.gain:.2f}x over its cases, most on {choice.best_case} ({choice.best_gain:.2f}x)"
        for choice in done
    )
    hypothesis = Hypothesis(
        title=title,
        why=f"Of {len(brief.race.others)} sets of launch numbers that raced beside v{brief.incumbent} on this GPU, the"
        f" smallest rule near the best of each case is {rules}.",
        expected=f"Measured in the race, over v{brief.incumbent}: {gains}.",
        technique=technique,
        references=(f"v{brief.incumbent}",) if brief.incumbent else (),
    )
    return Proposal(files=files, hypothesis=hypothesis, proposer=by)


def ideas(brief: Brief, by: str) -> Iterator[Proposal | None]:
    """All kernels at once; after a no each on its own, so that a good rule is not lost with a bad one."""
    if brief.race is None:
        return
    technique = f"{NUMBERS_TECHNIQUE}:v{brief.incumbent}" if brief.incumbent else NUMBERS_TECHNIQUE
    earlier = brief.rounds_with(technique)
    choices = _choices(brief)
    if choices and not earlier:
        yield _proposal(brief, choices, technique, "Launch numbers that won a race", by)
    if earlier and not earlier[0].is_accepted and len(choices) > 1:
        for choice in choices:
            kernel = choice.rule.kernel
            yield _proposal(brief, (choice,), f"{technique}:{kernel}", f"Launch numbers of {kernel} alone", by)
