"""How wide a row may be for a second program beside the first on one multiprocessor."""

from __future__ import annotations

from bot.analysis.estimate import programs_of
from bot.analysis.occupancy import occupancy
from bot.engine.space import block_constant
from bot.hardware.catalog import for_runner
from bot.model.measurement import Launch
from bot.proposers.brief import Brief
from bot.proposers.forecast import Change


def widest(brief: Brief, kernels: tuple[str, ...]) -> int | None:
    """The largest block with room for twice the programs, if every larger one has none. None where all have room, or
    none has, or where room does not follow the block: there is no rule to write then."""
    sheet = for_runner(brief.facts.runner)
    processors = int(sheet.number("multiprocessors") or 1)
    roomy: set[int] = set()
    full: set[int] = set()
    for launch in (launch for case in brief.facts.cases for launch in case.launches if launch.kernel in kernels):
        found = block_constant(launch)
        if found is None or launch.resources is None:
            return None
        beside = -(-programs_of(launch) // processors)
        (roomy if occupancy(launch, sheet).programs >= 2 * beside else full).add(found[1])
    return max(roomy) if roomy and full and max(roomy) < min(full) else None


def up_to(block: int, change: Change) -> Change:
    """A change of the launches with such a block or a smaller one."""

    def changed(launch: Launch) -> Launch:
        found = block_constant(launch)
        return change(launch) if found is not None and found[1] <= block else launch

    return changed
