"""Launch numbers that reach a launch through a dictionary: `kernel[grid](..., **kernel_args)`.

A number that stands in the dictionary and in the call as well is an error when the kernel is launched. So it is changed
where the dictionary says it, or put in where the dictionary is made: what a branch changes later still counts then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import source
from bot.engine.finding import findall
from bot.engine.source import LaunchSite, NotUnderstood


@dataclass(frozen=True, slots=True)
class Place:
    """Where a dictionary that only this launch gets holds a number, or could hold it."""

    line: cst.SimpleStatementLine
    value: cst.BaseExpression | None
    """What it is today; None where the dictionary does not say it yet."""

    def with_value(self, name: str, value: cst.BaseExpression) -> cst.SimpleStatementLine:
        if self.value is not None:
            return cst.ensure_type(self.line.deep_replace(self.value, value), cst.SimpleStatementLine)
        made = _dictionary(self.line)
        element = cst.DictElement(cst.SimpleString(f'"{name}"'), value)
        new = made.with_changes(elements=[*made.elements, element])
        return cst.ensure_type(self.line.deep_replace(made, new), cst.SimpleStatementLine)


def place(site: LaunchSite, name: str) -> Place | None:
    """None where the call may simply say the number. Raises NotUnderstood where nobody can tell who says it."""
    passed = [arg.value for arg in site.call.args if arg.star == "**"]
    if site.argument(name) is not None or not passed:
        return None
    if len(passed) != 1 or not isinstance(passed[0], cst.Name):
        raise NotUnderstood(f"{name} of {site.kernel} may be said in a dictionary")
    return _Dictionary(site, passed[0].value, name).place()


def _dictionary(line: cst.SimpleStatementLine) -> cst.Dict:
    return cst.ensure_type(cst.ensure_type(line.body[0], cst.Assign).value, cst.Dict)


class _Dictionary:
    """One variable of the host with everything that is said of it before the launch."""

    def __init__(self, site: LaunchSite, variable: str, name: str) -> None:
        self.site, self.variable, self.name = site, variable, name
        self.reached = [line for block in self._blocks() for line in block]

    def place(self) -> Place | None:
        made = [at for at, line in enumerate(self.reached) if self._makes(line)]
        after = self.reached[made[-1] :] if made else []
        read = sum(self._times(line) for line in after)
        splats = findall(self.site.function, m.Arg(star="**", value=m.Name(self.variable)))
        if not made or len(splats) != 1 or self._times(self.site.function) != read + 1:
            raise NotUnderstood(f"{self.name} of {self.site.kernel} may be said in a dictionary that others use")
        said = [found for line in after if (found := self._said(line)) is not None]
        if said:
            return said[-1]
        if self._touched(after):
            return Place(cst.ensure_type(after[0], cst.SimpleStatementLine), None)
        return None

    def _blocks(self) -> list[list[cst.BaseStatement]]:
        """For each block around the launch, outermost first, the statements that come before it."""
        found: list[list[cst.BaseStatement]] = []
        block: Sequence[cst.CSTNode] = source.statements(self.site.function)
        while True:
            at = next((i for i, one in enumerate(block) if self._holds(one)), None)
            if at is None:
                return found
            found.append([one for one in block[:at] if isinstance(one, cst.BaseStatement)])
            inner = self._inside(block[at])
            if inner is None:
                return found
            block = inner

    def _inside(self, statement: cst.CSTNode) -> Sequence[cst.CSTNode] | None:
        """The block of a statement that holds the launch."""
        while isinstance(statement, cst.With | cst.If | cst.Else):
            if self._holds(statement.body):
                return list(statement.body.body)
            statement = getattr(statement, "orelse", None) or statement.body
        return None

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
        others = [line for line in after[1:] if self._times(line)]
        strange = [line for line in others if not m.matches(line, m.SimpleStatementLine(body=[plain]))]
        keys = [e for e in made.elements if isinstance(e, cst.DictElement) and isinstance(e.key, cst.SimpleString)]
        return bool(strange) or len(keys) != len(made.elements)

    def _times(self, node: cst.CSTNode) -> int:
        """How often it is named."""
        return len(findall(node, m.Name(self.variable)))
