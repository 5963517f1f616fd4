"""Which launch numbers race, and what a race says of them in the words of a settings table."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from bot.engine import rewriting, settings_table, steps
from bot.engine.settings_table import Row, Rule, config_of
from bot.engine.source import NotUnderstood
from bot.engine.space import (
    LIKELY_PER_THREAD,
    MOST_PER_THREAD,
    PER_THREAD,
    SCALED,
    SMALLEST_BLOCK,
    THREADS_PER_WARP,
    WARPS,
    Followed,
    block_constant,
    followed,
    next_power,
    plain_counts,
)
from bot.model.measurement import Case, CaseResult, Launch, Measurement, Suite
from bot.model.race import Numbers, Race
from bot.model.variant import SourceFile

Launched = Mapping[str, Sequence[tuple[str, Launch]]]
"""For each kernel the cases that launch it, with how they do."""


MOST_SETS = 24
"""Of launch numbers in one race."""
LARGE_STEPS = 4
"""Steps of this part of a row or more also race with as many elements a thread as it can hold: on an H200 a sketch of
cross_entropy took 152 us in steps of 16,384 columns with 32 elements a thread, and 165 us with 16 (4096 x 32000)."""


@dataclass(frozen=True, slots=True)
class Racing:
    """A source with other numbers at the launches of some kernels, and the cases in which they are launched."""

    numbers: tuple[Numbers, ...]
    files: tuple[SourceFile, ...]
    cases: tuple[str, ...]


def rule_of(numbers: Numbers) -> Rule:
    if numbers.warps is not None:
        return settings_table.always(numbers.kernel, numbers.block_name, numbers.warps)
    each = numbers.each or PER_THREAD[0]
    return settings_table.per_thread(numbers.kernel, numbers.block_name, each, numbers.cap, numbers.held)


def launched(facts: Measurement) -> dict[str, list[tuple[str, Launch]]]:
    found: dict[str, list[tuple[str, Launch]]] = {}
    for case in facts.cases:
        for launch in case.launches:
            found.setdefault(launch.kernel, []).append((case.case, launch))
    return found


def _imaginable(kernel: str, block: Followed, blocks: Sequence[int], *, walks: bool) -> Iterator[Numbers]:
    """The likeliest first. A kernel that walks its row by the block may also take smaller steps."""
    name, held = block.name, block.held
    for each in PER_THREAD:
        yield Numbers(kernel=kernel, block_name=name, each=each, held=held)
    for warps in WARPS:
        threads = warps * THREADS_PER_WARP
        if all(threads <= size * held <= MOST_PER_THREAD * threads for size in blocks):
            yield Numbers(kernel=kernel, block_name=name, warps=warps, held=held)
    for scale in SCALED if walks else ():
        cap = max(blocks) // scale
        likely = PER_THREAD if scale <= LARGE_STEPS else LIKELY_PER_THREAD
        for each in likely if cap >= SMALLEST_BLOCK else ():
            yield Numbers(kernel=kernel, block_name=name, each=each, cap=cap, held=held)


def numbers_of(kernel: str, launches: Sequence[tuple[str, Launch]], text: str) -> tuple[Numbers, ...]:
    """Numbers that change some launch, none of them twice under two names."""
    alone = [launch for _, launch in launches]
    block = followed(alone, text)
    if block is None:
        return tuple(Numbers(kernel=kernel, block_name="", warps=warps) for warps in plain_counts(alone, text))
    now = [config_of(launch, block) for launch in alone]
    blocks = [size for size, _ in now]
    most = MOST_PER_THREAD * THREADS_PER_WARP
    seen, found = {tuple(now)}, []
    for numbers in _imaginable(kernel, block, blocks, walks=steps.by_block(text, kernel, block.name)):
        rule = rule_of(numbers)
        given = tuple(rule.config(size) for size in blocks)
        if given not in seen and all(size * block.held <= most * warps for size, warps in given):
            seen.add(given)
            found.append(numbers)
    return tuple(found)


def _written(files: tuple[SourceFile, ...], numbers: Numbers, arch: str) -> tuple[SourceFile, ...] | None:
    """The files with these numbers in the one that launches the kernel. They race without a gate, where one can be
    written at all: what could never become a rule does not race."""
    for file in files:
        try:
            text = settings_table.write(file.text, rule_of(numbers))
            settings_table.write(file.text, rule_of(numbers), arch=arch)
        except NotUnderstood:
            continue
        if text != file.text:
            return tuple(SourceFile(path=f.path, text=text) if f.path == file.path else f for f in files)
    return None


def _teams(of: Launched, kernels: Sequence[str]) -> list[list[str]]:
    """Kernels that share no case can race at once: each is seen in its own cases alone."""
    teams: list[list[str]] = []
    for kernel in kernels:
        cases = {case for case, _ in of[kernel]}
        for team in teams:
            if all(cases.isdisjoint(case for case, _ in of[other]) for other in team):
                team.append(kernel)
                break
        else:
            teams.append([kernel])
    return teams


def has_room(files: tuple[SourceFile, ...], facts: Measurement) -> bool:
    """Whether other numbers can be written into these files at all."""
    text = "\n".join(file.text for file in files)
    wanted = (numbers for kernel, launches in launched(facts).items() for numbers in numbers_of(kernel, launches, text))
    return any(_written(files, numbers, facts.runner.arch) is not None for numbers in wanted)


def field(
    files: tuple[SourceFile, ...],
    facts: Measurement,
    most: int = MOST_SETS,
    backward_only: frozenset[str] = frozenset(),
) -> tuple[Racing, ...]:
    """What races against these files: each kernel's likeliest numbers first."""
    of, text = launched(facts), "\n".join(file.text for file in files)
    wanted = {kernel: numbers_of(kernel, launches, text) for kernel, launches in of.items()}
    arch = facts.runner.arch
    able = {
        kernel: [numbers for numbers in some if _written(files, numbers, arch) is not None]
        for kernel, some in wanted.items()
    }
    found: list[tuple[int, Racing]] = []
    for team in _teams(of, [kernel for kernel, some in able.items() if some]):
        for rank, together in enumerate(itertools.zip_longest(*(able[kernel] for kernel in team))):
            numbers = tuple(one for one in together if one is not None)
            made: tuple[SourceFile, ...] = files
            for one in numbers:
                made = _written(made, one, arch) or made
            cases = tuple(dict.fromkeys(case for one in numbers for case, _ in of[one.kernel]))
            along = rewriting.in_float32(files, made, backward_only)  # as its rule will bring it along
            found.append((rank, Racing(numbers, along.files, cases)))
    return tuple(racing for _, racing in sorted(found, key=lambda pair: pair[0])[:most])


def _widths(cases: Sequence[tuple[Case, int]]) -> dict[str, int]:
    """Columns of each case's rows: of the one size that the blocks follow, as far as a block may reach."""
    widest = max((block for _, block in cases), default=0)
    shapes = [(case.id, dict(case.shape), block) for case, block in cases]
    names = set.intersection(*(set(shape) for _, shape, _ in shapes)) if shapes else set()
    follows = [
        name
        for name in sorted(names)
        if all(min(next_power(shape[name]), widest) == block for _, shape, block in shapes)
    ]
    if len(follows) != 1:
        return {}
    return {case: shape[follows[0]] for case, shape, _ in shapes}


def _row(
    result: CaseResult,
    kernel: str,
    block: Followed | None,
    weight: float,
    now: float,
    laps: Sequence[tuple[Rule, float]],
) -> Row | None:
    launch = next((launch for launch in result.launches if launch.kernel == kernel), None)
    if launch is None or result.timing is None or (block is not None and block_constant(launch) is None):
        return None
    today = config_of(launch, block)
    us = {today: result.timing.median_us}
    for rule, speedup in laps:
        us.setdefault(rule.config(today[0]), result.timing.median_us * now / speedup)
    return Row(result.case, weight, today[0], today, us, held=block.held if block else 1)


def tables(race: Race, facts: Measurement, suite: Suite) -> dict[str, tuple[str, tuple[Row, ...]]]:
    """For each kernel that raced the name of its block and one row a case, times as the race saw them."""
    itself = race.itself
    if itself is None:
        return {}
    now = {lap.case: lap.speedup for lap in itself.laps}
    weights = {case.id: case.weight for case in suite.cases}
    found: dict[str, tuple[str, tuple[Row, ...]]] = {}
    ran = dict.fromkeys((n.kernel, n.block_name, n.held) for racer in race.others for n in racer.numbers)
    for kernel, name, held in ran:
        block = Followed(name, held) if name else None
        mine = [(rule_of(n), racer) for racer in race.others for n in racer.numbers if n.kernel == kernel]
        rows = []
        for result in facts.cases:
            if any(launch.kernel == kernel for launch in result.launches):
                # What spills where nothing did is refused, however fast it is.
                laps = [
                    (rule, lap.speedup)
                    for rule, racer in mine
                    for lap in racer.laps
                    if lap.case == result.case and not lap.spills
                ]
                known = result.case in now and result.case in weights
                row = _row(result, kernel, block, weights[result.case], now[result.case], laps) if known else None
                rows.append(row)
        complete = tuple(row for row in rows if row is not None)
        if complete and len(complete) == len(rows):
            known_cases = {case.id: case for case in suite.cases}
            widths = _widths([(known_cases[row.case], row.block) for row in complete])
            found[kernel] = (name, tuple(replace(row, width=widths.get(row.case, 0)) for row in complete))
    return found
