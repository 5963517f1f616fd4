"""Which cases a score is made of: the steps that a goal is judged on."""

from __future__ import annotations

from dataclasses import dataclass

from bot.model.commands import Scope
from bot.model.measurement import Case, Suite


@dataclass(frozen=True, slots=True)
class Group:
    """The cases of one shape and type that a goal is judged on, taken together as one step."""

    cases: tuple[Case, ...]

    @property
    def weight(self) -> float:
        return self.cases[0].weight


def _shape(case: Case) -> tuple[object, ...]:
    return (case.shape, case.dtype)


def primary_groups(suite: Suite, scope: Scope) -> tuple[Group, ...]:
    """What is judged (C-06): the one pass of a narrow scope, else `full`, else forward and backward summed."""
    if scope is not Scope.GENERAL:
        return tuple(Group((case,)) for case in suite.cases if case.direction == scope.value)
    full = tuple(Group((case,)) for case in suite.cases if case.direction == "full")
    if full:
        return full
    by_shape: dict[tuple[object, ...], list[Case]] = {}
    for case in suite.cases:
        by_shape.setdefault(_shape(case), []).append(case)
    return tuple(Group(tuple(cases)) for cases in by_shape.values())
