"""From a survey to the smallest readable rule for a kernel's launch numbers, and from there into the source.

A rule is preferred over another when it is simpler and no case is more than 2 % from its own best.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from bot.analysis.estimate import Price, price_on, timed
from bot.analysis.stats import geometric_mean
from bot.engine import launch_numbers
from bot.engine.kernels import MULTIPLE
from bot.engine.most_warps import ANYWHERE, MOST_WARPS
from bot.engine.source import ESTIMATED, MEASURED
from bot.engine.space import PER_THREAD, THREADS_PER_WARP, Followed, block_constant, followed, next_power
from bot.model.measurement import CaseResult, Launch, Measurement, Suite, Survey

NEAR_BEST = 1.02
"""A readable rule may cost this much against the best setting of each case."""
KEPT = 0.985
"""What a rule has to leave of each case: one that is more than 2 % slower is refused, whatever the others gain."""
WORTH_IT = 1.01
"""A rule that promises less than 1 % is not written (L-43)."""
THRESHOLDS_PAY = 1.03
"""A table of thresholds knows nothing of other widths, so it has to beat a rule that follows the block by this much. So
has a rule that ends at some width."""
MOST_STEPS = 3
WIDEST = 2048
"""Columns a warp may get at most, 64 a thread: a rule also meets rows that are wider than any that was surveyed."""

Config = tuple[int, int]
"""Block and warps."""


@dataclass(frozen=True, slots=True)
class Row:
    """One case of one kernel: what it launches today, and what each surveyed pair would cost."""

    case: str
    weight: float
    block: int
    now: Config
    us: Mapping[Config, float]
    width: int = 0
    """Columns of its rows, of which the block is made; 0 where nobody knows."""
    held: int = 1
    """Blocks that a program holds at a time."""

    def gain(self, config: Config) -> float | None:
        us = self.us.get(config)
        return self.us[self.now] / us if us else None


@dataclass(frozen=True, slots=True)
class Rule:
    """How the launch numbers follow the block. `cap` is the widest block a step may take, or None to leave it; wider
    rows than `up_to` keep the numbers they have. `{block}` and `{most}` of the text are those of launch_numbers."""

    kernel: str
    block_name: str
    warps_text: str
    warps: Callable[[int], int]
    says: str
    cap: int | None = None
    up_to: int | None = None
    whole: bool = False
    """Whether only rows of whole vectors have them."""

    def of(self, row: Row) -> Config:
        wide = self.up_to is not None and row.width > self.up_to
        return row.now if wide or (self.whole and row.width % MULTIPLE) else self.config(row.block)

    def config(self, block: int) -> Config:
        taken = block if self.cap is None else min(block, self.cap)
        return taken, self.warps(taken)

    @property
    def fits_anywhere(self) -> bool:
        """Whether its widest block gets no more warps than any GPU launches, so that nobody has to tell them apart."""
        ends = [end for end in (self.cap, self.up_to) if end is not None]
        return bool(ends) and self.warps(min(ends)) <= ANYWHERE


@dataclass(frozen=True, slots=True)
class Choice:
    """A rule with what it promises: the geometric mean over the kernel's cases, and the case that gains most."""

    rule: Rule
    gain: float
    best_case: str
    best_gain: float


def _counted(warps: int) -> str:
    return f"{warps} warp" if warps == 1 else f"{warps} warps"


def per_thread(kernel: str, name: str, each: int, cap: int | None = None, held: int = 1) -> Rule:
    step = max(each * THREADS_PER_WARP // held, 1)
    columns = f"steps of {cap} columns with " if cap is not None else ""
    return Rule(
        kernel=kernel,
        block_name=name,
        warps_text=f"min(max({{block}} // {step}, 1), {{most}})",
        warps=lambda block: min(max(block // step, 1), MOST_WARPS),
        says=f"{columns}{each} elements a thread",
        cap=cap,
    )


def always(kernel: str, name: str, warps: int) -> Rule:
    """The same count at any width: for a race, and for a patch where there is no block that it could follow."""
    return Rule(kernel, name, str(warps) if warps <= ANYWHERE else "{most}", lambda _: warps, _counted(warps))


def _steps(kernel: str, name: str, table: Mapping[int, int], held: int = 1) -> Rule | None:
    """Thresholds on the block, read from the best warps of each recorded block."""
    widest = max(WIDEST // held, 1)
    edges: list[tuple[int, int]] = []
    for block in sorted(table):
        if edges and edges[-1][1] == table[block]:
            edges[-1] = (block, table[block])
        else:
            edges.append((block, table[block]))
    if not 1 <= len(edges) <= MOST_STEPS:
        return None
    last = edges[-1][1]

    def warps_of(block: int) -> int:
        return next((warps for edge, warps in edges[:-1] if block <= edge), max(last, min(block // widest, MOST_WARPS)))

    listed = [f"{_counted(warps)} up to a block of {block}" for block, warps in edges[:-1]]
    says = ", ".join([*listed, f"{last} beyond" if listed else _counted(last)])
    return Rule(kernel, name, _steps_text(edges, widest), warps_of, says)


def _steps_text(edges: Sequence[tuple[int, int]], widest: int) -> str:
    """Each count up to its block, and beyond the last one as many as keep a thread from too much. Never too many."""
    *earlier, (_, last) = edges
    ends = last > ANYWHERE and all(warps <= ANYWHERE for _, warps in earlier)
    text = "{most}" if ends else f"max({last}, {{block}} // {widest})"
    for block, warps in reversed(earlier):
        text = f"{warps} if {{block}} <= {block} else {text}"
    return text if ends else f"min({text}, {{most}})"


def _best_warps(rows: Sequence[Row]) -> dict[int, int]:
    """For each recorded block the warps that suit its cases best together."""
    found: dict[int, int] = {}
    for block in {row.block for row in rows}:
        mine = [row for row in rows if row.block == block]
        options = {warps for row in mine for taken, warps in row.us if taken == block}

        def cost(warps: int, mine: Sequence[Row] = mine, block: int = block) -> float:
            return math.fsum(math.log(row.us.get((block, warps), math.inf)) for row in mine)

        if options:
            found[block] = min(sorted(options), key=cost)
    return found


def _rules(kernel: str, name: str, rows: Sequence[Row], *, blocks: bool) -> list[Rule]:
    """Rules that follow the block at any width, simple ones first. `blocks` tries each surveyed one as a cap. Without a
    block to follow a count is all there is."""
    if not name:
        return [always(kernel, name, warps) for warps in sorted({warps for row in rows for _, warps in row.us})]
    held = rows[0].held
    plain = [per_thread(kernel, name, each, held=held) for each in (16, 8, 32)]
    if not blocks:
        return plain
    widest = max(row.block for row in rows)
    caps = sorted({block for row in rows for block, _ in row.us if block < widest}, reverse=True)
    return plain + [per_thread(kernel, name, each, cap, held) for cap in caps for each in PER_THREAD]


def _edges(rows: Sequence[Row]) -> list[int]:
    """Powers of two that part rows which have gained from wider ones: between two widths nobody knows."""
    widths = sorted({next_power(row.width) for row in rows if row.width})
    return widths[:-1] if all(row.width for row in rows) else []


def _up_to(rule: Rule, edge: int) -> Rule:
    return replace(rule, up_to=edge, says=f"{rule.says}, rows up to {edge}")


def _gains(rule: Rule, rows: Sequence[Row]) -> list[float] | None:
    gains = [row.gain(rule.of(row)) for row in rows]
    known = [gain for gain in gains if gain is not None]
    return known if len(known) == len(rows) else None


def _near_best(gains: Sequence[float], rows: Sequence[Row], *, blocks: bool) -> bool:
    for gain, row in zip(gains, rows, strict=True):
        reachable = [us for (block, _), us in row.us.items() if blocks or block == row.block]
        if not row.us[row.now] / gain <= NEAR_BEST * min(reachable):
            return False
    return True


def _choice(rule: Rule, gains: Sequence[float], rows: Sequence[Row]) -> Choice:
    best = max(range(len(rows)), key=lambda i: gains[i])
    mean = geometric_mean(gains, [row.weight for row in rows])
    return Choice(rule, mean, rows[best].case, gains[best])


def _tried(rule: Rule, rows: Sequence[Row]) -> Choice | None:
    """None where a case is not known, or would pay for the others."""
    gains = _gains(rule, rows)
    return _choice(rule, gains, rows) if gains is not None and min(gains) >= KEPT else None


def whole(choice: Choice, rows: Sequence[Row]) -> Choice | None:
    """The same for rows of whole vectors alone, where that still promises something."""
    found = _tried(replace(choice.rule, whole=True, says=f"{choice.rule.says}, rows of whole vectors"), rows)
    return found if found is not None and found.gain >= WORTH_IT else None


def _best(rows: Sequence[Row], kernel: str, name: str, *, blocks: bool) -> Choice | None:
    """The first rule that is near the best everywhere, else the one that gains most."""
    best: Choice | None = None
    for rule in _rules(kernel, name, rows, blocks=blocks):
        gains, found = _gains(rule, rows), _tried(rule, rows)
        if gains is None or found is None:
            continue
        if _near_best(gains, rows, blocks=blocks):
            return found
        if best is None or found.gain > best.gain:
            best = found
    return best


def _narrow(rows: Sequence[Row], kernel: str, name: str, *, blocks: bool) -> Choice | None:
    """The best of the rules that leave the widest rows alone."""
    rules = [_up_to(rule, edge) for edge in _edges(rows) for rule in _rules(kernel, name, rows, blocks=blocks)]
    found = [choice for rule in rules if (choice := _tried(rule, rows)) is not None]
    return max(found, key=lambda choice: choice.gain, default=None)


def choose(rows: Sequence[Row], kernel: str, name: str, *, blocks: bool, narrow: bool = False) -> Choice | None:
    """The rule for one kernel, or None where it promises less than 1 %. Thresholds are taken when they pay for it;
    `narrow` where the source can tell how wide a row is."""
    best = _best(rows, kernel, name, blocks=blocks)
    steps = None if blocks or not name else _steps(kernel, name, _best_warps(rows), rows[0].held)
    for other in (
        _tried(steps, rows) if steps is not None else None,
        _narrow(rows, kernel, name, blocks=blocks) if narrow else None,
    ):
        if other is not None and (best is None or other.gain > THRESHOLDS_PAY * best.gain):
            best = other
    return best if best is not None and best.gain >= WORTH_IT else None


def _config(survey: Survey, name: str, today: Config) -> Config:
    constants = dict(survey.setting.constants)
    return constants.get(name, today[0]), survey.setting.num_warps or today[1]


def config_of(launch: Launch, block: Followed | None) -> Config:
    """Block and warps of a launch; the block is 0 where there is none to follow."""
    found = block_constant(launch) if block is not None else None
    return (found[1] if found is not None else 0, launch.num_warps)


def _row(
    result: CaseResult, kernel: str, block: Followed | None, surveys: Iterable[Survey], suite: Suite, price: Price
) -> Row | None:
    case = next((case for case in suite.cases if case.id == result.case), None)
    launch = next((launch for launch in result.launches if launch.kernel == kernel), None)
    if case is None or launch is None or result.timing is None:
        return None
    today = config_of(launch, block)
    us = {today: result.timing.median_us}
    for survey in surveys:
        value = price(survey, result, case)
        if value is not None:
            us[_config(survey, block.name if block else "", today)] = value
    return Row(result.case, case.weight, today[0], today, us, held=block.held if block else 1)


def tables(
    baseline: Measurement, suite: Suite, surveys: Sequence[Survey], text: str = ""
) -> dict[str, tuple[str, tuple[Row, ...]]]:
    """For each surveyed kernel the name of the block that it follows, if any, and one row a case that launches it."""
    told, price = timed(baseline, suite), price_on(baseline.runner)
    found: dict[str, tuple[str, tuple[Row, ...]]] = {}
    for kernel in dict.fromkeys(survey.setting.kernel for survey in surveys):
        mine = [survey for survey in surveys if survey.setting.kernel == kernel and survey.setting.num_stages is None]
        launches = [launch for result in told.cases for launch in result.launches if launch.kernel == kernel]
        block = followed(launches, text) if launches else None
        rows = [
            _row(result, kernel, block, [s for s in mine if s.case == result.case], suite, price)
            for result in told.cases
            if any(launch.kernel == kernel for launch in result.launches)
        ]
        complete = tuple(row for row in rows if row is not None)
        if complete and len(complete) == len(rows):
            found[kernel] = (block.name if block else "", complete)
    return found


def estimated(choice: Choice, arch: str) -> str:
    """What stands beside a rule of the model's."""
    return f"{_said(choice)}: {choice.gain:.2f}x over the scored shapes {ESTIMATED}{arch})."


def raced(choice: Choice, arch: str) -> str:
    """And beside one that won a race: no figure, for a dozen blocks of one process are none to publish."""
    over = " over the scored shapes" if choice.rule.up_to is None and not choice.rule.whole else ""
    return f"{_said(choice)}: first in a race{over} {MEASURED}{arch})."


def _said(choice: Choice) -> str:
    return choice.rule.says[0].upper() + choice.rule.says[1:]


def written(text: str, choice: Choice, arch: str, words: Callable[[Choice, str], str] = estimated) -> str:
    """The source with the rule at the kernel's launches. Raises NotUnderstood where it cannot be written."""
    return write(text, choice.rule, words(choice, arch), arch)


def write(text: str, rule: Rule, why: str = "", arch: str = "") -> str:
    """`arch` is the only one that gets the numbers; empty for a source that races alone."""
    plain = rule.warps_text.replace("{most}", str(MOST_WARPS))
    numbers = launch_numbers.Numbers(
        kernel=rule.kernel,
        block_name=rule.block_name,
        warps=plain if rule.fits_anywhere else rule.warps_text,
        block=f"min({{block}}, {rule.cap})" if rule.cap is not None else None,
        why=why,
        up_to=rule.up_to,
        whole=rule.whole,
        arch=arch,
    )
    return launch_numbers.write(text, numbers)
