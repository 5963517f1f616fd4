"""A table of times becomes a rule for launch numbers, and the rule a variant that says where the times come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from bot.engine import kernels, settings_table, source, steps, widths
from bot.engine.settings_table import Choice, Row
from bot.engine.source import NotUnderstood
from bot.model.campaign import Round
from bot.model.variant import Hypothesis, Proposal, SourceFile
from bot.proposers.brief import Brief

Tables = Mapping[str, tuple[str, tuple[Row, ...]]]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the times come from."""

    tried: str
    """What the rule was chosen among."""
    says: str
    """What stands before the gains."""
    beside: Callable[[Choice, str], str]
    """The comment beside the rule."""


MODEL = Origin("all launch numbers that were compiled", "Estimated", settings_table.estimated)


def _launching(brief: Brief, kernel: str) -> SourceFile | None:
    for file in brief.sources:
        try:
            if source.sites(source.parse(file.text), kernel):
                return file
        except NotUnderstood:
            continue
    return None


def _file_of(brief: Brief, kernel: str) -> SourceFile | None:
    """A kernel of the library's other files may have other users: its launches here are this op's own."""
    return brief.file_of(kernel) or _launching(brief, kernel)


def _knows_width(brief: Brief, kernel: str, block_name: str) -> bool:
    file = _file_of(brief, kernel)
    return file is not None and bool(block_name) and widths.are_known(file.text, kernel, block_name)


def chosen(brief: Brief, tables: Tables) -> tuple[Choice, ...]:
    """The rule for each kernel that promises something, the largest gain first."""
    found = []
    for kernel, (name, rows) in tables.items():
        file = _file_of(brief, kernel)
        if file is not None:
            blocks = bool(name) and steps.by_block(file.text, kernel, name)
            narrow = _knows_width(brief, kernel, name)
            choice = settings_table.choose(rows, kernel, name, blocks=blocks, narrow=narrow)
            found += [choice] if choice is not None else []
    return tuple(sorted(found, key=lambda choice: -choice.gain))


def _write(brief: Brief, choices: tuple[Choice, ...], of: Origin) -> tuple[tuple[SourceFile, ...], tuple[Choice, ...]]:
    """The sources with every rule that can be written, and those rules."""
    files = {file.path: file.text for file in brief.sources}
    done = []
    for choice in choices:
        for path, text in files.items():
            try:
                files[path] = settings_table.written(text, choice, brief.baseline.runner.arch, of.beside)
            except NotUnderstood:
                continue
            done.append(choice)
            break
    return tuple(SourceFile(path=path, text=text) for path, text in files.items()), tuple(done)


def _gain(choice: Choice) -> str:
    kernel, best = choice.rule.kernel, f"most on {choice.best_case} ({choice.best_gain:.2f}x)"
    return f"{kernel} {choice.gain:.2f}x over its cases, {best}"


def _proposal(
    brief: Brief, choices: tuple[Choice, ...], technique: str, title: str, of: Origin, by: str
) -> Proposal | None:
    files, done = _write(brief, choices, of)
    if not done:
        return None
    rules = "; ".join(f"{choice.rule.kernel} with {choice.rule.says}" for choice in done)
    hypothesis = Hypothesis(
        title=title,
        why=f"Of {of.tried}, the smallest rule near the best of each case is {rules}.",
        expected=f"{of.says}: {'; '.join(map(_gain, done))}.",
        technique=technique,
        references=brief.references,
    )
    return Proposal(files=files, hypothesis=hypothesis, proposer=by)


def _widths(brief: Brief, rows: tuple[Row, ...]) -> set[str]:
    """Which sizes of a case say how wide its rows are."""
    shapes = {case.id: dict(case.shape) for case in brief.suite.cases}
    names = {name for shape in shapes.values() for name in shape}
    return {name for name in names if all(row.width and shapes[row.case].get(name) == row.width for row in rows)}


def _refused_where_odd(played: Round, widths: set[str]) -> bool:
    """Whether nothing is held against it but sizes that nobody named and where rows are no whole vectors."""
    if not played.is_rejected or played.verdict is None or played.measurement is None:
        return False
    cases = [one.case for one in played.measurement.unseen]
    odd = {case.id for case in cases if any(size % kernels.MULTIPLE for name, size in case.shape if name in widths)}
    against = [finding.case for finding in played.verdict.findings if finding.severity == "reject"]
    return bool(against) and odd.issuperset(against)


def _of_whole_rows(brief: Brief, choices: tuple[Choice, ...], tables: Tables) -> tuple[Choice, ...]:
    """What is left of the rules where each that can tell keeps to rows of whole vectors."""
    found = []
    for choice in choices:
        kernel = choice.rule.kernel
        tells = _knows_width(brief, kernel, choice.rule.block_name)
        kept = settings_table.whole(choice, tables[kernel][1]) if tells else choice
        found += [kept] if kept is not None else []
    return tuple(found)


def proposals(
    brief: Brief, tables: Tables, technique: str, title: str, of: Origin, by: str
) -> Iterator[Proposal | None]:
    """All kernels at once; after a rejection for odd rows alone, without those; after any each on its own, so that a
    good rule is not lost with a bad one. Where all of them gained too little, a part gains less."""
    choices, earlier = chosen(brief, tables), brief.rounds_with(technique)
    if choices and not earlier:
        yield _proposal(brief, choices, technique, title, of, by)
    widths = set[str]().union(*(_widths(brief, tables[choice.rule.kernel][1]) for choice in choices))
    if earlier and _refused_where_odd(earlier[0], widths):
        choices, before = _of_whole_rows(brief, choices, tables), choices
        if choices != before:
            yield _proposal(brief, choices, f"{technique}:whole", f"{title}, for rows of whole vectors", of, by)
    if earlier and earlier[0].is_rejected and len(choices) > 1:
        for choice in choices:
            kernel = choice.rule.kernel
            yield _proposal(brief, (choice,), f"{technique}:{kernel}", f"Launch numbers of {kernel} alone", of, by)
