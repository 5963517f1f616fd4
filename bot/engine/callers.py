"""A number that a caller may ask for, and that the function chooses where nobody does: `num_warps=None`.

What we choose instead is for those who ask for nothing. Whoever asked for four warps gets four.
"""

from __future__ import annotations

import re
from typing import Any

import libcst as cst
import libcst.matchers as m

from bot.engine import source
from bot.engine.finding import findall
from bot.engine.source import LaunchSite, NotUnderstood

GIVEN = "given_"
KEPT = re.compile(rf"(?P<ours>.+) if {GIVEN}(?P<name>\w+) is None else (?P=name)")


def is_none_by_default(function: cst.FunctionDef, name: str) -> bool:
    found = [p for kind in ("params", "kwonly_params") for p in getattr(function.params, kind) if p.name.value == name]
    return len(found) == 1 and found[0].default is not None and m.matches(found[0].default, m.Name("None"))


def asked(site: LaunchSite, given: cst.BaseExpression | None) -> str:
    """The parameter that a launch is given by its own name, where a caller may leave it out."""
    name = str(given.value) if isinstance(given, cst.Name) else ""
    if not name or not is_none_by_default(site.function, name):
        return ""
    if source.last_binding(site, name) is None or findall(site.function, m.Name(GIVEN + name)):
        raise NotUnderstood(f"it is not known where {name} is chosen, or a name is taken")
    return name


def unasked(name: str) -> str:
    return f"{GIVEN}{name} is None"


def kept(text: str, name: str) -> str:
    """The choice, for those who ask for nothing."""
    return f"{text} if {unasked(name)} else {name}" if name else text


def apart(text: str) -> tuple[str, str]:
    """A choice, and what keeps it from those who ask."""
    found = KEPT.fullmatch(text)
    return (found["ours"], text[found.end("ours") :]) if found else (text, "")


def remembering(site: LaunchSite, changed: cst.FunctionDef, name: str) -> cst.FunctionDef:
    """The function of a launch, changed behind that place, with what was asked for under another name."""
    at = source.last_binding(site, name) if name else None
    if at is None:
        return changed
    body = list(source.statements(changed))
    made: Any = body[at]
    empty, said = source.split_above(made)
    before = source.assignment(f"{GIVEN}{name} = {name}").with_changes(leading_lines=empty)
    body[at : at + 1] = [before, made.with_changes(leading_lines=said)]
    return source.with_statements(changed, body)
