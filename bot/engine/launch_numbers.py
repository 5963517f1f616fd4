"""Writes launch numbers into the source, where a maintainer would have put them.

A variable that only this launch reads gets its new value where it is made; otherwise the argument itself is changed, or
the dictionary that holds it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache

import libcst as cst
import libcst.matchers as m

from bot.engine import by_place, callers, gates, kernels, long_lines, passed_on, source, sure_tensors, unread, widths
from bot.engine.bindings import bound_in
from bot.engine.finding import findall, nodes
from bot.engine.gates import Said
from bot.engine.most_warps import ANYWHERE, MOST_WARPS, SAID, with_most
from bot.engine.passed_on import Place
from bot.engine.source import STAGES, WARPS, LaunchSite, NotUnderstood

USUAL_WARPS = "4"
"""What Triton takes where a launch says nothing."""
MORE = re.compile(rf"min\((?P<factor>\d+) \* (?P<held>\w+), (?:{'|'.join(map(re.escape, SAID))})\)")
FEWER = re.compile(r"max\((?P<held>\w+) // (?P<factor>\d+), 1\)")
DEVICE = m.Attribute(value=m.Name(), attr=m.Name("device"))
LONGEST_BLOCK = 60
"""Characters of an expression for the block that may be repeated in another argument."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """New numbers of one kernel's launch, as expressions in which `{block}` stands for its block and `{most}` for the
    most warps that it may have."""

    kernel: str
    block_name: str = "BLOCK_SIZE"
    warps: str | None = None
    stages: str | None = None
    block: str | None = None
    why: str = ""
    """One line of comment above the first changed statement."""
    up_to: int | None = None
    """Columns; launches for wider rows keep what they have."""
    whole: bool = False
    """Whether rows whose width is no multiple of `kernels.MULTIPLE` keep what they have, too."""
    arch: str = ""
    """Where they hold: on GPUs of other architectures launches keep what they have. Empty for anywhere."""

    @property
    def keeps(self) -> bool:
        return self.up_to is not None or self.whole

    @property
    def is_limited(self) -> bool:
        return self.keeps or bool(self.arch)


def _shared_with_others(module: cst.Module, site: LaunchSite, name: str) -> bool:
    """Whether another kernel's launch in the same function reads the variable."""
    mine = m.Call(func=m.Subscript(value=m.Name(site.kernel)))
    calls = [call for call in findall(site.function, source.LAUNCH) if not m.matches(call, mine)]
    return any(source.loads(call, name) for call in calls)


def _set_variable(site: LaunchSite, name: str, said: Said, why: str) -> cst.FunctionDef | None:
    """The function with the variable's value replaced where it is made, or None when it has no such place."""
    at = source.last_binding(site, name)
    if at is None:
        return None
    body = list(source.statements(site.function))
    plain = source.is_plain(body[at], name)
    plain = plain and (_is_ruled(body[at]) or not (said.where and "\n" in source.code(source.value(body[at]))))
    text = replace(said, old=gates.told(source.value(body[at])) if plain and said.where else name).expression
    if not _is_known(site, source.expression(text), at if plain else at + 1):
        return None
    if plain:
        line = cst.ensure_type(body[at], cst.SimpleStatementLine)
        made = cst.ensure_type(line.body[0], cst.Assign).with_changes(value=source.expression(text))
        body[at] = line.with_changes(body=[made], leading_lines=source.commented(line.leading_lines, why))
    else:
        body.insert(at + 1, source.assignment(f"{name} = {text}", why))
    return source.with_statements(site.function, body)


def _set_argument(site: LaunchSite, name: str, text: str, why: str) -> cst.FunctionDef:
    line, value = source.line_of(site), source.expression(text)
    with_it = source.with_new_argument if site.argument(name) is None else source.with_argument
    call = with_it(site.call, name, value)
    changed = cst.ensure_type(line.deep_replace(site.call, call), cst.SimpleStatementLine)
    lines = source.commented(line.leading_lines, why)
    new = site.function.deep_replace(line, changed.with_changes(leading_lines=lines))
    return cst.ensure_type(new, cst.FunctionDef)


def _is_made_here(site: LaunchSite, name: str) -> bool:
    return any(source.is_plain(line, name) for line in findall(site.function, m.SimpleStatementLine()))


def _set_above(site: LaunchSite, name: str, said: Said, why: str) -> cst.FunctionDef:
    """A variable that branches set and only this launch reads is set right above it: without a reader it would be said
    to be unused."""
    line, module = source.line_of(site), cst.Module(body=[site.function])
    blocks = [tuple(found.body) for found in findall(module, m.IndentedBlock()) if isinstance(found, cst.IndentedBlock)]
    block = next(body for body in blocks if any(one is line for one in body))
    at = next(at for at, one in enumerate(block) if one is line)
    earlier = block[at - 1] if at else line
    if source.is_plain(earlier, name) and _is_ruled(earlier):
        old = cst.ensure_type(earlier, cst.SimpleStatementLine)
        text = replace(said, old=gates.told(source.value(old))).expression
        lines = source.commented(old.leading_lines, why)
        changed = source.spliced(
            module, [(old, [source.assignment(f"{name} = {text}").with_changes(leading_lines=lines)])]
        )
    else:
        text = said.expression
        above = source.launched_after(site, [source.assignment(f"{name} = {text}", why)], site.call)
        useless = () if findall(source.expression(text), m.Name(name)) else unread.before(block[:at], name)
        changed = source.spliced(module, [(line, above), *((one, []) for one in useless)])
    return cst.ensure_type(changed.body[0], cst.FunctionDef)


def _set_passed_on(site: LaunchSite, name: str, text: str, why: str, held: Place) -> cst.FunctionDef:
    """A number in the dictionary that the launch gets. What it is made of has to be there when the dictionary is."""
    value = source.expression(text)
    if not _is_known(site, value, _position(site, held)):
        raise NotUnderstood("what the number is made of is not known where the dictionary is")
    module = cst.Module(body=[site.function])
    if held.variable:
        line = source.assignment(f'{held.variable}["{name}"] = {text}', why)
        new = source.launched_after(site, [line], site.call)
    else:
        changed = held.with_value(name, value)
        new = [changed.with_changes(leading_lines=source.commented(changed.leading_lines, why))]
    return cst.ensure_type(source.spliced(module, [(held.line, new)]).body[0], cst.FunctionDef)


def _position(site: LaunchSite, held: Place) -> int:
    """Index in the function's body of the statement with the dictionary's number."""
    body = source.statements(site.function)
    return next(at for at, line in enumerate(body) if any(one is held.line for one in nodes(line)))


def _is_known(site: LaunchSite, value: cst.BaseExpression, at: int) -> bool:
    """Whether all that an expression reads has the values that the launch sees, from a place in the function on: of a
    tensor its device alone."""
    asked = {source.code(one) for one in findall(value, DEVICE)}
    names = {source.code(name) for name in findall(value, m.Name())} & {*bound_in(site.function)}
    devices = {name for name in names if f"{name}.device" in asked}
    made = [sure_tensors.known_from(site, name) for name in devices]
    made += [source.last_binding(site, name) for name in names - devices]
    return all(last is not None and last < at for last in made)


def _narrowed(text: str, numbers: Numbers, site: LaunchSite, old: str) -> Said:
    """The expression, for the GPUs and the rows that it is meant for."""
    width = widths.of_block(site, numbers.block_name) if numbers.keeps else ""
    asked = [gates.condition(site, numbers.arch)] if numbers.arch else []
    asked += [f"{width} <= {numbers.up_to}"] if numbers.up_to is not None else []
    asked += [f"{width} % {kernels.MULTIPLE} == 0"] if numbers.whole else []
    return Said(text, " and ".join(asked), old, numbers.keeps)


def _given(site: LaunchSite, name: str) -> tuple[Place | None, cst.BaseExpression | None]:
    """Where a dictionary holds the number, and what the launch takes for it."""
    held = passed_on.place(site, name)
    return held, held.value if held is not None else site.argument(name)


def _old(site: LaunchSite, name: str) -> str:
    """What the launch takes for a number today."""
    _, given = _given(site, name)
    if given is None and name != WARPS:
        raise NotUnderstood(f"{name} of {site.kernel} is Triton's own choice")
    return gates.told(given) if given is not None else USUAL_WARPS


def _number(site: LaunchSite, name: str, said: Said, why: str) -> cst.FunctionDef:
    """num_warps or num_stages of one launch. One that some launches keep is still asked for, so it is set anew behind
    the place where it is made."""
    asked = callers.asked(site, _given(site, name)[1])
    return callers.remembering(site, _numbered(site, name, said.for_who_asks_nothing(asked), why), asked)


def _numbered(site: LaunchSite, name: str, said: Said, why: str) -> cst.FunctionDef:
    held, given = _given(site, name)
    text = said.expression
    once = len(findall(site.function, m.Call(func=m.Subscript(value=m.Name(site.kernel))))) == 1
    once = once and (held is None or not held.variable)
    if once and isinstance(given, cst.Name) and _reads(site, given.value) == 1:
        known = not said.keeps and (held is None or _is_known(site, given, _position(site, held)))
        changed = _set_variable(site, given.value, said, why) if known else None
        if changed is not None:
            return changed
        if held is None and _is_made_here(site, given.value):
            return _set_above(site, given.value, said, why)
    if held is not None:
        return _set_passed_on(site, name, text, why, held)
    return _set_argument(site, name, text, why)


def _reads(site: LaunchSite, name: str) -> int:
    """How often a variable is read, but for rules of ours that keep it elsewhere: a later one takes their place."""
    lines = findall(site.function, m.SimpleStatementLine())
    ours = [line for line in lines if source.is_plain(line, name) and _is_ruled(line)]
    return source.loads(site.function, name) - sum(source.loads(line, name) for line in ours)


def _block(module: cst.Module, site: LaunchSite, numbers: Numbers) -> cst.FunctionDef:
    """A new block goes in right after the old one is known: a grid that is computed from it follows."""
    given = by_place.told(site, numbers.block_name)
    assert numbers.block is not None
    if not isinstance(given, cst.Name):
        raise NotUnderstood(f"{numbers.block_name} of {site.kernel} is not a variable")
    name = given.value
    at = source.last_binding(site, name)
    if at is None or _shared_with_others(module, site, name):
        raise NotUnderstood(f"{name} is not made for {site.kernel} alone")
    body = list(source.statements(site.function))
    said = _narrowed(numbers.block.format(block=name), numbers, site, name)
    earlier = source.is_plain(body[at], name) and source.loads(body[at], name) > 0 and _is_ruled(body[at])
    if said.where and not _is_known(site, source.expression(said.where), at if earlier else at + 1):
        raise NotUnderstood(f"whom {name} is meant for is not known where it is made")
    if earlier:
        said = replace(said, old=gates.told(source.value(body[at])))
        lines = source.commented(cst.ensure_type(body[at], cst.SimpleStatementLine).leading_lines, numbers.why)
        body[at] = source.assignment(f"{name} = {said.expression}").with_changes(leading_lines=lines)
    else:
        body.insert(at + 1, source.assignment(f"{name} = {said.expression}", numbers.why))
    return source.with_statements(site.function, body)


def _is_ruled(statement: cst.CSTNode) -> bool:
    """Whether it is a line with a rule of ours."""
    return any(map(source.tells_of_a_rule, cst.ensure_type(statement, cst.SimpleStatementLine).leading_lines))


def _block_text(site: LaunchSite, numbers: Numbers) -> str:
    given = by_place.told(site, numbers.block_name) or passed_on.said(site, numbers.block_name)
    text = source.code(given) if given is not None else ""
    if not text or len(text) > LONGEST_BLOCK or "\n" in text:
        raise NotUnderstood(f"the launch of {site.kernel} does not say its {numbers.block_name}")
    return text


def _with_block(template: str, block: str) -> str:
    """The expression with the block in it: a plain number where nothing but a number is left."""
    text = template.replace("{block}", block)
    if not block.isdecimal():
        return text
    told = {most: text.replace("{most}", str(most)) for most in (ANYWHERE, MOST_WARPS)}
    each = {most: kernels.number(source.expression(said)) for most, said in told.items()}
    if None in each.values():
        return text
    few, many = each.values()
    return str(few) if few == many else "{most}" if (few, many) == tuple(each) else text


def _only_site(module: cst.Module, numbers: Numbers, index: int) -> LaunchSite:
    return source.sites(module, numbers.kernel)[index]


def _write_one(module: cst.Module, numbers: Numbers, index: int, before: cst.Module) -> cst.Module:
    """Each change is looked up anew, since the one before it made new nodes. What the module `before` all of them says
    of most warps, the others say."""
    why = numbers.why
    if numbers.block is not None:
        site = _only_site(module, numbers, index)
        module, why = source.replaced(module, site.function, _block(module, site, numbers)), ""
    for name, template in ((WARPS, numbers.warps), (STAGES, numbers.stages)):
        if template is not None:
            site = _only_site(module, numbers, index)
            text = _with_block(template, _block_text(site, numbers)) if "{block}" in template else template
            text = _with_most(text, numbers.arch, before)
            said = _narrowed(text, numbers, site, _old(site, name) if numbers.is_limited else "")
            if said.where:
                by_place.keeps(module, site, name, USUAL_WARPS)
            module = by_place.by_name(module, site, name)
            site = _only_site(module, numbers, index)
            changed = _number(site, name, said, why)
            module, why = source.replaced(module, site.function, changed), ""
    return module


@lru_cache(maxsize=256)
def write(text: str, numbers: Numbers) -> str:
    """The source with the new numbers at every launch of the kernel. Raises NotUnderstood rather than guess."""
    module = before = source.parse(text)
    count = len(source.sites(module, numbers.kernel))
    definition = source.kernel_named(module, numbers.kernel)
    if count == 0:
        raise NotUnderstood(f"{numbers.kernel} is not launched here")
    if definition is not None and not kernels.is_kernel(definition):
        raise NotUnderstood(f"{numbers.kernel} chooses its numbers by itself")
    for index in range(count):
        module = _write_one(module, numbers, index, before)
    return _finished(module, numbers.arch, text)


def _finished(module: cst.Module, arch: str, before: str) -> str:
    module = gates.with_function(module, arch) if arch else module
    return source.written(long_lines.in_lines(module, before))


def _with_most(text: str, arch: str, module: cst.Module) -> str:
    return text.replace("{most}", str(gates.most_warps(arch))) if arch else with_most(text, module)


def with_other_warps(text: str, kernel: str, *, more: bool, why: str, arch: str = "", whole: bool = False) -> str:
    """The source with twice or half as many warps at every launch of a kernel: on GPUs of this architecture alone, and,
    where tiles of a `whole` row of vectors are counted, for such rows alone.

    Raises NotUnderstood where nobody can tell where the number stands: a list of configurations, a `**` of others.
    """
    module = source.parse(text)
    definition = source.kernel_named(module, kernel)
    if definition is None or not kernels.is_kernel(definition):
        raise NotUnderstood(f"{kernel} chooses its warps by itself")
    for index in range(len(source.sites(module, kernel))):
        site = source.sites(module, kernel)[index]
        held, given = _given(site, WARPS)
        today = gates.told(given) if given is not None else USUAL_WARPS
        where = [gates.condition(site, arch)] if arch else []
        where += [f"{width} % {kernels.MULTIPLE} == 0"] if whole and (width := widths.of_tiles(site)) else []
        said = _scaled_where(today, " and ".join(where), module, more=more, arch=arch)
        if said is None:
            continue
        if said.where:
            by_place.keeps(module, site, WARPS, USUAL_WARPS)
        asked = callers.asked(site, given)
        now = said.for_who_asks_nothing(asked).expression
        module = by_place.by_name(module, site, WARPS)
        site = source.sites(module, kernel)[index]
        held, _ = _given(site, WARPS)
        if held is not None:
            changed = _set_passed_on(site, WARPS, now, why, held)
        else:
            changed = _set_argument(site, WARPS, now, why)
        module = source.replaced(module, site.function, callers.remembering(site, changed, asked))
    return _finished(module, arch if source.written(module) != text else "", text)


def _scaled_where(today: str, where: str, module: cst.Module, *, more: bool, arch: str) -> Said | None:
    """Twice or half a number, where that is asked for or it is another already; nothing at the end of its range."""
    ours, gate, elsewhere = gates.parted(today, arch)
    ours, ending = callers.apart(ours)
    scaled = _with_most(_scaled(ours, more=more), arch, module)
    if scaled == ours:
        return None
    text = f"{gates.whole(scaled)}{ending}" if ending else scaled
    is_narrower = where.partition(" and ")[2] not in gate
    return Said(text, where, today, True) if not gate or is_narrower else Said(text, gate, elsewhere, True)


def _scaled(now: str, *, more: bool) -> str:
    """Twice or half the number. What was scaled before is scaled further, and not wrapped once more."""
    if now.isdecimal():
        count = int(now) * 2 if more else max(int(now) // 2, 1)
        return "{most}" if more and count > ANYWHERE else str(count)
    if more and now.removeprefix("(").removesuffix(")") in SAID:
        return now
    before = (MORE if more else FEWER).fullmatch(now)
    factor, held = (int(before["factor"]), before["held"]) if before else (1, now if now.isidentifier() else f"({now})")
    return f"min({2 * factor} * {held}, {{most}})" if more else f"max({held} // {2 * factor}, 1)"
