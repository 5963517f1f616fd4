"""How wide a row is, in the words of the function that launches a kernel for it."""

from __future__ import annotations

import libcst as cst

from bot.engine import kernels, runs, source
from bot.engine.source import LaunchSite, NotUnderstood


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
