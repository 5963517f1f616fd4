"""How wide a row is, in the words of the function that launches a kernel for it."""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from bot.engine import by_place, kernels, runs, source
from bot.engine.finding import findall
from bot.engine.source import LaunchSite, NotUnderstood

POWER = m.Call(
    func=m.OneOf(m.Name("next_power_of_2"), m.Attribute(attr=m.Name("next_power_of_2"))), args=[m.Arg(value=m.Name())]
)


def counted(size: str) -> tuple[str, str]:
    """Of `cdiv(width, block)`, which counts tiles, what is counted and by which block; nothing of anything else."""
    node = source.expression(size)
    if isinstance(node, cst.Call) and kernels.called_name(node) == "cdiv" and len(node.args) == 2:
        width, block = (arg.value for arg in node.args)
        if isinstance(block, cst.Name):
            return source.code(width), str(block.value)
    return "", ""


def of_tiles(site: LaunchSite) -> str:
    """What the last axis of a grid counts tiles of, where that has a name."""
    try:
        found = [width for size in runs.grid_of(site) if (width := counted(size)[0])]
    except NotUnderstood:
        return ""
    return found[-1] if found and found[-1].isidentifier() else ""


def of_block(site: LaunchSite, block_name: str) -> str:
    """The variable that the launch's block is the next power of two of."""
    given = by_place.told(site, block_name)
    made = findall(site.function, m.Assign(targets=[m.AssignTarget(m.Name(source.code(given)))])) if given else ()
    calls = [call for line in made for call in findall(line, POWER)]
    found = {source.code(cst.ensure_type(call, cst.Call).args[0].value) for call in calls}
    if len(found) != 1:
        raise NotUnderstood(f"nobody says how wide a row of {site.kernel} is")
    return found.pop()


def are_known(text: str, kernel: str, block_name: str) -> bool:
    """Whether every launch of the kernel makes its block of a width that has a name."""
    try:
        return all([of_block(site, block_name) for site in source.sites(source.parse(text), kernel)] or [False])
    except NotUnderstood:
        return False
