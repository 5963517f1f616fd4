"""What an idea should do to the numbers, written down before it is measured."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from bot.analysis.estimate import block_of, estimate_case
from bot.analysis.stats import geometric_mean
from bot.engine.transforms.walk_rows import STEPS, WARPS, WIDEST, WIDEST_STEP
from bot.hardware.catalog import for_runner
from bot.model.measurement import Case, CaseResult, Launch
from bot.proposers.brief import Brief

TILE = 1024
TILE_WARPS = 4
FRESH_REGISTERS = 40
"""An element-wise kernel with eight elements a thread takes 20 to 40 registers on sm_90."""

WALK_REGISTERS = 64
WALKS = 1.5
"""A walking kernel goes over its row twice, and does half of its work each time and its loads both times."""

PROLOGUE = 4
"""Elements' worth of instructions that a program spends before and after its elements."""

FLOAT32 = 4
"""Bytes."""

UNSEEN = "0 to 5 %, and no forecast: nothing changes that the model counts before it is compiled."

Change = Callable[[Launch], Launch]


@dataclass(frozen=True, slots=True)
class Forecast:
    """The model's gain over the incumbent: over all scored cases, and on the one that gains most."""

    gain: float
    case: str
    """Empty where none of them launches what would change."""
    before_us: float
    after_us: float

    def says(self) -> str:
        change = f"{self.case} from {self.before_us:.1f} us to {self.after_us:.1f} us"
        return f"{self.gain:.2f}x over the scored cases; most on {change} (estimated)."


def _factor(facts: CaseResult, case: Case, mine: list[Launch], spared: int, *, least_traffic: bool) -> float:
    """What a pass moves over the least it could, when some of its launches no longer have so much moved for them."""
    if not mine or facts.minimum_bytes <= 0:
        return facts.traffic_factor
    tile = FLOAT32 * math.prod(max(1, size) for _, size in case.shape)
    saved = spared * sum(min(tile, max(0, launch.tensor_bytes)) for launch in mine)
    least = min(1.0, facts.traffic_factor)
    return least if least_traffic else max(least, facts.traffic_factor - saved / facts.minimum_bytes)


def forecast(
    brief: Brief, kernels: tuple[str, ...], change: Change, *, least_traffic: bool = False, spared: int = 0
) -> Forecast | None:
    """The incumbent's facts with some launches changed, through the model. None where the model has nothing to say of
    a case with such a launch; what it says of the others does not change.
    `least_traffic`: cases with one of these launches move no byte more than they have to. `spared`: how often a float32
    for each element of the case, which such a launch was handed, is no longer moved."""
    cases, sheet = {case.id: case for case in brief.suite.cases}, for_runner(brief.facts.runner)
    ratios: list[tuple[float, float]] = []
    changed: list[tuple[float, str, float, float]] = []
    for facts in brief.facts.cases:
        case = cases.get(facts.case)
        if case is None:
            return None
        mine = [one for one in facts.launches if one.kernel in kernels]
        if not mine:
            ratios.append((1.0, case.weight))
            continue
        launches = tuple(change(one) if one.kernel in kernels else one for one in facts.launches)
        factor = _factor(facts, case, mine, spared, least_traffic=least_traffic)
        before = estimate_case(facts, case, sheet)
        after = estimate_case(facts.model_copy(update={"launches": launches, "traffic_factor": factor}), case, sheet)
        if before is None or after is None:
            return None
        ratios.append((before / after, case.weight))
        changed.append((before / after, facts.case, before, after))
    if not ratios:
        return None
    gain = geometric_mean([ratio for ratio, _ in ratios], [weight for _, weight in ratios])
    _, case_id, before, after = max(changed, default=(1.0, "", 0.0, 0.0))
    return Forecast(gain, case_id, before, after)


def twice_the_programs(launch: Launch) -> Launch:
    first, *rest = launch.grid
    return launch.model_copy(update={"grid": (2 * first, *rest)})


def _columns(launch: Launch, block: int) -> int:
    """The width of a row where a constant says it: between half the block and all of it."""
    numbers = [int(value) for _, value in launch.constants if value.isdecimal()]
    return next((number for number in numbers if block // 2 < number < block), block)


def in_tiles(launch: Launch) -> Launch:
    """Fewer elements a thread, so fewer instructions and registers, and a program for each tile."""
    block = block_of(launch)
    if block is None or launch.resources is None:
        return launch
    tile, columns = min(block, TILE), _columns(launch, block)
    per_thread = block / (32 * max(1, launch.num_warps))
    shrunk = (tile / (32 * TILE_WARPS) + PROLOGUE) / (per_thread + PROLOGUE)
    resources = launch.resources.model_copy(
        update={
            "registers": min(launch.resources.registers, FRESH_REGISTERS),
            "spill_bytes": 0,
            "instructions": max(1, round(launch.resources.instructions * min(1.0, shrunk))),
        }
    )
    constants = tuple((n, str(tile) if "BLOCK" in n.upper() and v == str(block) else v) for n, v in launch.constants)
    grid = (launch.grid[0], -(-columns // tile), launch.grid[2])
    return launch.model_copy(
        update={"grid": grid, "num_warps": TILE_WARPS, "constants": constants, "resources": resources}
    )


def walked(launch: Launch) -> Launch:
    """A row that is too wide is walked in blocks; the model knows how many a row has."""
    block = block_of(launch)
    if block is None or block <= WIDEST or launch.resources is None:
        return launch
    per_thread, walk = block / (32 * max(1, launch.num_warps)), min(block // STEPS, WIDEST_STEP)
    shrunk = (walk / (32 * WARPS) + PROLOGUE) / (per_thread + PROLOGUE) * WALKS
    resources = launch.resources.model_copy(
        update={
            "registers": min(launch.resources.registers, WALK_REGISTERS),
            "spill_bytes": 0,
            "instructions": max(1, round(launch.resources.instructions * min(1.0, shrunk))),
        }
    )
    constants = tuple((n, str(walk) if "BLOCK" in n.upper() and v == str(block) else v) for n, v in launch.constants)
    return launch.model_copy(update={"num_warps": WARPS, "constants": constants, "resources": resources})


def as_it_was(launch: Launch) -> Launch:
    return launch
