"""Writes launch numbers into the source, where a maintainer would have put them.

A variable that only this launch reads gets its new value where it is made; otherwise the argument itself is changed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import libcst as cst
import libcst.matchers as m

from bot.engine import kernels, source
from bot.engine.finding import findall
from bot.engine.source import LaunchSite, NotUnderstood

WARPS, STAGES = "num_warps", "num_stages"
USUAL_WARPS = "4"
"""What Triton takes where a launch says nothing."""
MOST_WARPS = 32
MORE = re.compile(rf"min\((?P<factor>\d+) \* (?P<held>\w+), {MOST_WARPS}\)")
FEWER = re.compile(r"max\((?P<held>\w+) // (?P<factor>\d+), 1\)")
LONGEST_BLOCK = 60
"""Characters of an expression for the block that may be repeated in another argument."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """New numbers of one kernel's launch, as expressions in which `{block}` stands for its block."""

    kernel: str
    block_name: str = "BLOCK_SIZE"
    warps: str | None = None
    stages: str | None = None
    block: str | None = None
    why: str = ""
    """One line of comment above the first changed statement."""


def _shared_with_others(module: cst.Module, site: LaunchSite, name: str) -> bool:
    """Whether another kernel's launch in the same function reads the variable."""
    mine = m.Call(func=m.Subscript(value=m.Name(site.kernel)))
    calls = [call for call in findall(site.function, source.LAUNCH) if not m.matches(call, mine)]
    return any(source.loads(call, name) for call in calls)


def _set_variable(site: LaunchSite, name: str, text: str, why: str) -> cst.FunctionDef | None:
    """The function with the variable's value replaced where it is made, or None when it has no such place."""
    at = source.last_binding(site, name)
    if at is None:
        return None
    body = list(source.statements(site.function))
    if source.is_plain(body[at], name):
        line = cst.ensure_type(body[at], cst.SimpleStatementLine)
        made = cst.ensure_type(line.body[0], cst.Assign).with_changes(value=source.expression(text))
        body[at] = line.with_changes(body=[made], leading_lines=source.commented(line.leading_lines, why))
    else:
        body.insert(at + 1, source.assignment(f"{name} = {text}", why))
    return source.with_statements(site.function, body)


def _set_argument(site: LaunchSite, name: str, text: str, why: str) -> cst.FunctionDef:
    line = source.line_of(site)
    call = source.with_argument(site.call, name, source.expression(text))
    changed = cst.ensure_type(line.deep_replace(site.call, call), cst.SimpleStatementLine)
    lines = source.commented(line.leading_lines, why)
    new = site.function.deep_replace(line, changed.with_changes(leading_lines=lines))
    return cst.ensure_type(new, cst.FunctionDef)


def _number(site: LaunchSite, name: str, text: str, why: str) -> cst.FunctionDef:
    """num_warps or num_stages of one launch."""
    given = site.argument(name)
    once = len(findall(site.function, m.Call(func=m.Subscript(value=m.Name(site.kernel))))) == 1
    if once and isinstance(given, cst.Name) and source.loads(site.function, given.value) == 1:
        changed = _set_variable(site, given.value, text, why)
        if changed is not None:
            return changed
    return _set_argument(site, name, text, why)


def _block(module: cst.Module, site: LaunchSite, numbers: Numbers) -> cst.FunctionDef:
    """A new block goes in right after the old one is known: a grid that is computed from it follows."""
    given = site.argument(numbers.block_name)
    assert numbers.block is not None
    if not isinstance(given, cst.Name):
        raise NotUnderstood(f"{numbers.block_name} of {site.kernel} is not a variable")
    name = given.value
    at = source.last_binding(site, name)
    if at is None or _shared_with_others(module, site, name):
        raise NotUnderstood(f"{name} is not made for {site.kernel} alone")
    body = list(source.statements(site.function))
    text = f"{name} = {numbers.block.format(block=name)}"
    earlier = source.is_plain(body[at], name) and source.loads(body[at], name) > 0
    if earlier and any(source.tells_of_a_rule(line) for line in _lines(body[at])):
        body[at] = source.assignment(text, numbers.why)
    else:
        body.insert(at + 1, source.assignment(text, numbers.why))
    return source.with_statements(site.function, body)


def _lines(statement: cst.BaseStatement) -> tuple[cst.EmptyLine, ...]:
    return tuple(cst.ensure_type(statement, cst.SimpleStatementLine).leading_lines)


def _block_text(site: LaunchSite, numbers: Numbers) -> str:
    given = site.argument(numbers.block_name)
    text = source.code(given) if given is not None else ""
    if not text or len(text) > LONGEST_BLOCK or "\n" in text:
        raise NotUnderstood(f"the launch of {site.kernel} does not say its {numbers.block_name} by name")
    return text


def _only_site(module: cst.Module, numbers: Numbers, index: int) -> LaunchSite:
    return source.sites(module, numbers.kernel)[index]


def _write_one(module: cst.Module, numbers: Numbers, index: int) -> cst.Module:
    """Each change is looked up anew, since the one before it made new nodes."""
    why = numbers.why
    if numbers.block is not None:
        site = _only_site(module, numbers, index)
        module, why = source.replaced(module, site.function, _block(module, site, numbers)), ""
    for name, template in ((WARPS, numbers.warps), (STAGES, numbers.stages)):
        if template is not None:
            site = _only_site(module, numbers, index)
            text = template.format(block=_block_text(site, numbers)) if "{block}" in template else template
            module, why = source.replaced(module, site.function, _number(site, name, text, why)), ""
    return module


@lru_cache(maxsize=32)
def write(text: str, numbers: Numbers) -> str:
    """The source with the new numbers at every launch of the kernel. Raises NotUnderstood rather than guess."""
    module = source.parse(text)
    count = len(source.sites(module, numbers.kernel))
    definition = source.kernel_named(module, numbers.kernel)
    if count == 0:
        raise NotUnderstood(f"{numbers.kernel} is not launched here")
    if definition is not None and not kernels.is_kernel(definition):
        raise NotUnderstood(f"{numbers.kernel} chooses its numbers by itself")
    for index in range(count):
        module = _write_one(module, numbers, index)
    return str(module.code)


def with_other_warps(text: str, kernel: str, *, more: bool, why: str) -> str:
    """The source with twice or half as many warps at every launch of a kernel.

    Raises NotUnderstood where the number does not stand in the launch itself: a list of configurations, a `**`.
    """
    module = source.parse(text)
    definition = source.kernel_named(module, kernel)
    if definition is None or not kernels.is_kernel(definition):
        raise NotUnderstood(f"{kernel} chooses its warps by itself")
    for index in range(len(source.sites(module, kernel))):
        site = source.sites(module, kernel)[index]
        given = site.argument(WARPS)
        if given is None and any(argument.star == "**" for argument in site.call.args):
            raise NotUnderstood(f"how many warps {kernel} gets may be said in a dictionary")
        now = source.code(given) if given is not None else USUAL_WARPS
        module = source.replaced(module, site.function, _set_argument(site, WARPS, _scaled(now, more=more), why))
    return str(module.code)


def _scaled(now: str, *, more: bool) -> str:
    """Twice or half the number. What was scaled before is scaled further, and not wrapped once more."""
    if now.isdecimal():
        return str(int(now) * 2 if more else max(int(now) // 2, 1))
    before = (MORE if more else FEWER).fullmatch(now)
    factor, held = (int(before["factor"]), before["held"]) if before else (1, now if now.isidentifier() else f"({now})")
    return f"min({2 * factor} * {held}, {MOST_WARPS})" if more else f"max({held} // {2 * factor}, 1)"
