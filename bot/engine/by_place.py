"""Arguments of a launch that are given by their place and not by name.

A kernel may have `num_warps` among its parameters. Triton takes what is given for it by name for the launch number as
well; what is given by its place is a constant of the kernel and no more, and the launch has four warps.
"""

from __future__ import annotations

from itertools import takewhile

import libcst as cst

from bot.engine import source
from bot.engine.source import NUMBERS, TIGHT, LaunchSite, NotUnderstood


def _is_placed(arg: cst.Arg) -> bool:
    return arg.keyword is None and not arg.star


def argument(site: LaunchSite, name: str) -> cst.Arg | None:
    """The argument that is given for a parameter by its place. Behind a `*` of others nobody knows the places."""
    plain = takewhile(_is_placed, site.call.args)
    return next((arg for parameter, arg in zip(site.parameters, plain, strict=False) if parameter == name), None)


def told(site: LaunchSite, name: str) -> cst.BaseExpression | None:
    """What is given for a parameter, by name or by its place."""
    placed = argument(site, name)
    return placed.value if placed is not None else site.argument(name)


def _call(site: LaunchSite, found: cst.Arg, name: str) -> cst.Call:
    at = site.call.args.index(found)
    behind = site.call.args[at + 1 :]
    if any(arg.star == "*" for arg in behind) or any(argument(site, other) in behind for other in NUMBERS):
        raise NotUnderstood(f"what stands behind {name} of {site.kernel} cannot be given by name")
    names = iter(site.parameters[at:])
    args = [
        arg.with_changes(keyword=cst.Name(next(names)), equal=TIGHT) if _is_placed(arg) else arg
        for arg in site.call.args[at:]
    ]
    return site.call.with_changes(args=[*site.call.args[:at], *args])


def by_name(module: cst.Module, site: LaunchSite, name: str) -> cst.Module:
    """The module with a launch number, and all arguments behind it, given by name where it is given by its place.

    Raises NotUnderstood where another launch number would begin to count with it, and where nobody knows the places.
    """
    found = argument(site, name)
    if found is not None:
        return source.replaced(module, site.call, _call(site, found, name))
    if not site.parameters and any(_is_placed(arg) and source.code(arg.value) in NUMBERS for arg in site.call.args):
        raise NotUnderstood(f"{site.kernel} of another module may be given its {name} by its place")
    return module


def keeps(module: cst.Module, site: LaunchSite, name: str, usual: str) -> None:
    """Raises NotUnderstood where a launch that keeps its number, as it is `usual`, would not keep what the kernel
    itself is given by that name."""
    placed, kernel = argument(site, name), source.kernel_named(module, site.kernel)
    reads = placed is not None and kernel is not None and source.loads(kernel, name)
    if reads and placed is not None and source.code(placed.value) != usual:
        raise NotUnderstood(f"{site.kernel} reads the {name} that it is given by its place")
