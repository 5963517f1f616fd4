"""Launch numbers that reach a launch through a dictionary: `kernel[grid](..., **kernel_args)`.

A number that stands in the dictionary and in the call as well is an error when the kernel is launched. So it is changed
where the dictionary says it, or put in where the dictionary is made: what a branch changes later still counts then.
Branches may have a dictionary each, under one name. Where they share one, each changes it for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import by_place, source
from bot.engine.finding import findall
from bot.engine.source import LaunchSite, NotUnderstood


@dataclass(frozen=True, slots=True)
class Place:
    """Where a dictionary that only this launch gets holds a number, or could hold it."""

    line: cst.SimpleStatementLine
    value: cst.BaseExpression | None
    """What it is today; None where the dictionary does not say it yet."""
    variable: str = ""
    """The dictionary, where branches of the host share it: this launch's own number goes in right above its line."""

    def with_value(self, name: str, value: cst.BaseExpression) -> cst.SimpleStatementLine:
        if self.value is not None:
            return cst.ensure_type(self.line.deep_replace(self.value, value), cst.SimpleStatementLine)
        made = _dictionary(self.line)
        element = cst.DictElement(cst.SimpleString(f'"{name}"'), value)
        new = made.with_changes(elements=[*made.elements, element])
        return cst.ensure_type(self.line.deep_replace(made, new), cst.SimpleStatementLine)


def place(site: LaunchSite, name: str) -> Place | None:
    """None where the call may simply say the number. Raises NotUnderstood where nobody can tell who says it."""
    if site.argument(name) is not None or by_place.argument(site, name) is not None:
        return None
    found = _passed(site, name)
    return found.place() if found is not None else None


def said(site: LaunchSite, name: str) -> cst.BaseExpression | None:
    """What the dictionary says whatever happens, for an argument that the call does not say itself."""
    found = _passed(site, name)
    return found.value() if found is not None else None


def _passed(site: LaunchSite, name: str) -> _Dictionary | None:
    passed = [arg.value for arg in site.call.args if arg.star == "**"]
    if not passed:
        return None
    if len(passed) != 1 or not isinstance(passed[0], cst.Name):
        raise NotUnderstood(f"{name} of {site.kernel} may be said in a dictionary")
    return _Dictionary(site, passed[0].value, name)


def _dictionary(line: cst.SimpleStatementLine) -> cst.Dict:
    return cst.ensure_type(cst.ensure_type(line.body[0], cst.Assign).value, cst.Dict)


@dataclass(frozen=True, slots=True)
class _Block:
    """A block around the launch. One statement of it holds the launch: the line itself, or a block with it inside."""

    before: tuple[cst.BaseStatement, ...]
    holder: cst.CSTNode
    behind: tuple[cst.CSTNode, ...]
    apart: tuple[cst.CSTNode, ...]
    """The branches of the holder that are not taken where this launch is."""
    inner: Sequence[cst.CSTNode] | None
    """The block inside of the holder that holds the launch."""


class _Dictionary:
    """One variable of the host with everything that is said of it where the launch is reached."""

    def __init__(self, site: LaunchSite, variable: str, name: str) -> None:
        self.site, self.variable, self.name = site, variable, name
        self.blocks = self._blocks()
        self.reached = [(depth, line) for depth, block in enumerate(self.blocks) for line in block.before]
        made = [at for at, (_, line) in enumerate(self.reached) if self._makes(line)]
        self.after = self.reached[made[-1] :] if made else []
        """From its making on. Nothing else that is known under its name meets this launch."""
        if not made or self._others():
            raise NotUnderstood(f"{name} of {site.kernel} may be said in a dictionary that others use")

    def place(self) -> Place | None:
        places = [(depth, found) for depth, line in self.after if (found := self._said(line)) is not None]
        if places and not self._shared(places[-1][0]):
            return places[-1][1]
        touched, shared = self._touched([line for _, line in self.after]), self._shared(self.after[0][0])
        if touched and shared:
            raise NotUnderstood(f"{self.name} of {self.site.kernel} may be said in a dictionary that branches share")
        if places:
            return Place(source.line_of(self.site), places[-1][1].value, self.variable)
        return Place(cst.ensure_type(self.after[0][1], cst.SimpleStatementLine), None) if touched else None

    def value(self) -> cst.BaseExpression | None:
        lines = [line for _, line in self.after]
        said = [found for line in lines if (found := self._said(line)) is not None]
        return said[-1].value if said and not self._touched(lines) else None

    def _others(self) -> bool:
        """Whether something else meets the dictionary on its way to the launch, or behind it."""
        depth = self.after[0][0]
        around = [self._times(block.behind) for block in self.blocks]
        tests = [
            self._times((block.holder,)) - self._times(block.apart) - self._times(block.inner or (block.holder,))
            for block in self.blocks[depth:]
        ]
        splats = [found for _, line in self.after for found in findall(line, m.Arg(star="**"))]
        handed = any(self._times((found,)) for found in splats)
        inside = findall(self.site.function, m.Lambda() | m.FunctionDef())
        kept = self._times([node for node in inside if node is not self.site.function])
        return bool(any(around) or any(tests) or handed or kept) or self._times((source.line_of(self.site),)) != 1

    def _shared(self, depth: int) -> bool:
        """Whether branches beside the launch's meet what is said in a block of this depth."""
        return any(self._times(block.apart) for block in self.blocks[depth:])

    def _blocks(self) -> list[_Block]:
        """From the function's body to the block with the line of the launch."""
        found: list[_Block] = []
        inner: Sequence[cst.CSTNode] | None = source.statements(self.site.function)
        while inner is not None:
            body = inner
            at = next((at for at, one in enumerate(body) if self._holds(one)), None)
            if at is None:
                break
            inner, apart = self._inside(body[at])
            before = tuple(one for one in body[:at] if isinstance(one, cst.BaseStatement))
            found.append(_Block(before, body[at], tuple(body[at + 1 :]), apart, inner))
        return found

    def _inside(self, statement: cst.CSTNode) -> tuple[Sequence[cst.CSTNode] | None, tuple[cst.CSTNode, ...]]:
        """The block of a statement that holds the launch, and its other branches."""
        taken: Sequence[cst.CSTNode] | None = None
        apart: list[cst.CSTNode] = []
        part: cst.CSTNode | None = statement
        while isinstance(part, cst.With | cst.If | cst.Else):
            if self._holds(part.body):
                taken = list(part.body.body)
            else:
                apart.append(part.body)
            part = part.orelse if isinstance(part, cst.If) else None
        return taken, tuple(apart)

    def _holds(self, node: cst.CSTNode) -> bool:
        return any(call is self.site.call for call in findall(node, m.Call()))

    def _makes(self, statement: cst.CSTNode) -> bool:
        return source.is_plain(statement, self.variable) and m.matches(
            statement, m.SimpleStatementLine(body=[m.Assign(value=m.Dict())])
        )

    def _said(self, statement: cst.BaseStatement) -> Place | None:
        """The number in `{"num_warps": 4}` or in `kernel_args["num_warps"] = 4`."""
        if not isinstance(statement, cst.SimpleStatementLine):
            return None
        if self._makes(statement):
            values = [
                e.value for e in _dictionary(statement).elements if isinstance(e, cst.DictElement) and self._is(e)
            ]
            return Place(statement, values[-1]) if values else None
        key = m.SubscriptElement(slice=m.Index(value=m.SimpleString(m.MatchIfTrue(self._quoted))))
        target = m.AssignTarget(target=m.Subscript(value=m.Name(self.variable), slice=[key]))
        if m.matches(statement, m.SimpleStatementLine(body=[m.Assign(targets=[target])])):
            return Place(statement, cst.ensure_type(statement.body[0], cst.Assign).value)
        return None

    def _is(self, element: cst.DictElement) -> bool:
        return isinstance(element.key, cst.SimpleString) and self._quoted(element.key.value)

    def _quoted(self, text: str) -> bool:
        return text in (f'"{self.name}"', f"'{self.name}'")

    def _touched(self, after: Sequence[cst.BaseStatement]) -> bool:
        """Whether something behind its making might put the number in: a branch, a call, a key nobody can read."""
        made = _dictionary(cst.ensure_type(after[0], cst.SimpleStatementLine))
        plain = m.Assign(
            targets=[m.AssignTarget(m.Subscript(m.Name(), [m.SubscriptElement(m.Index(m.SimpleString()))]))]
        )
        others = [line for line in after[1:] if self._times((line,))]
        strange = [line for line in others if not m.matches(line, m.SimpleStatementLine(body=[plain]))]
        keys = [e for e in made.elements if isinstance(e, cst.DictElement) and isinstance(e.key, cst.SimpleString)]
        return bool(strange) or len(keys) != len(made.elements)

    def _times(self, found: Sequence[cst.CSTNode]) -> int:
        """How often it is named."""
        return sum(len(findall(node, m.Name(self.variable))) for node in found)
