"""Reads a list of launch numbers that is written as a comprehension with a hook, and writes another behind it.

[triton.Config({...}, num_warps=w, num_stages=s, pre_hook=hook) for ... in [...]]"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import libcst as cst
import libcst.matchers as m

from bot.engine import kernels, source, tuned_lists
from bot.engine.bindings import bound_in
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood

SAID = ["kwargs", "num_warps", "num_stages", "pre_hook"]
"""What a configuration says, and nothing else."""
NO_MORE = frozenset(("configs", "key"))


@dataclass(frozen=True, slots=True)
class Listed:
    """A list of configurations, one for each number of several clauses."""

    whole: cst.ListComp
    config: cst.Call
    hook: cst.FunctionDef
    numbers: dict[str, tuple[int, ...]]
    """What it gives each constant, and how many warps and steps under way there are."""

    @property
    def constants(self) -> frozenset[str]:
        return frozenset(self.numbers) - {source.WARPS, source.STAGES}

    @property
    def many(self) -> int:
        return prod(map(len, self.numbers.values()))


@dataclass(frozen=True, slots=True)
class More:
    """What is offered besides: these numbers, each once, with so many steps under way, and all else as it was."""

    numbers: Mapping[str, int]
    stages: Sequence[int]

    def many(self, listed: Listed) -> int:
        kept = (len(said) for name, said in listed.numbers.items() if name not in (*self.numbers, source.STAGES))
        return len(self.stages) * prod(kept)


def _given(config: cst.Call) -> dict[str, cst.BaseExpression]:
    """By their names, the constants of a configuration, its warps and its steps under way."""
    told = tuned_lists.entries(kernels.argument(config, 0, "kwargs"))
    found = {name: kernels.argument(config, place, name) for place, name in enumerate(source.NUMBERS, 1)}
    given = dict(told) | {name: value for name, value in found.items() if value is not None}
    if len(given) != len(told) + len(found):
        raise NotUnderstood("it does not say how many warps, or how many steps are under way")
    return given


def read(module: cst.Module, kernel: cst.FunctionDef) -> Listed:
    whole, config = tuned_lists.comprehended(tuned_lists.offered(kernel))
    decorator = cst.ensure_type(kernel.decorators[0].decorator, cst.Call)
    if not {arg.keyword.value for arg in decorator.args if arg.keyword is not None} <= NO_MORE:
        raise NotUnderstood("something is put back between two configurations")
    words = [arg.keyword.value if arg.keyword is not None else "kwargs" for arg in config.args]
    if sorted(words) != sorted(SAID) or any(arg.star for arg in config.args):
        raise NotUnderstood("a configuration says more, or has no hook")
    hook = source.kernel_named(module, source.code(kernels.argument(config, 5, "pre_hook") or cst.Ellipsis()))
    named = m.FunctionDef(name=m.Name(hook.name.value)) if hook is not None else m.DoNotCare()
    if hook is None or len(findall(module, named)) != 1 or bound_in(module)[str(hook.name.value)]:
        raise NotUnderstood("nobody can tell what its hook does")
    given = _given(config)
    numbers = {
        name: tuple(int(one.value, 0) for one in tuned_lists.numbers(whole, said)) for name, said in given.items()
    }
    listed = Listed(whole, config, hook, numbers)
    if not listed.constants <= kernels.constants(kernel):
        raise NotUnderstood("it gives more than constants of the kernel")
    if not set(source.NUMBERS).isdisjoint(source.parameters(kernel)):
        raise NotUnderstood("the kernel reads how many warps it has, or how many steps are under way")
    if listed.many == 1:  # run once a launch, where a choice runs it many times
        raise NotUnderstood("there is no choice, so nothing is tuned")
    return listed


def _margin(space: cst.BaseParenthesizableWhitespace) -> cst.ParenthesizedWhitespace:
    """A new line, as far in as another, without what is said there."""
    if not isinstance(space, cst.ParenthesizedWhitespace):
        raise NotUnderstood("the list is not written in lines")
    return cst.ParenthesizedWhitespace(indent=space.indent, last_line=space.last_line)


def _clauses(listed: Listed, more: More) -> cst.CompFor:
    """Those of what is not one number now, with other steps under way."""
    given = _given(listed.config)
    gone = {source.code(value) for name, value in given.items() if name in more.numbers}
    stages, named = given[source.STAGES], {source.code(value) for value in given.values()}
    if not isinstance(stages, cst.Name):
        raise NotUnderstood("how many steps are under way is one number for all")
    if not named >= {source.code(one.target) for one in tuned_lists.clauses(listed.whole)}:
        raise NotUnderstood("a clause gives nothing")
    ahead = cst.List([cst.Element(cst.Integer(str(many))) for many in more.stages])
    made: cst.CompFor | None = None
    for one in reversed(list(tuned_lists.clauses(listed.whole))):
        if source.code(one.target) in gone:
            continue
        numbers = ahead if m.matches(one.target, m.Name(stages.value)) else one.iter
        made = one.with_changes(whitespace_before=_margin(one.whitespace_before), inner_for_in=made, iter=numbers)
    assert made is not None
    return made


def _another(listed: Listed, more: More) -> cst.ListComp:
    whole, given = listed.whole, _given(listed.config)
    numbers = {given[name]: cst.Integer(str(number)) for name, number in more.numbers.items()}
    if findall(listed.config, m.Comment()):
        raise NotUnderstood("something is said of the numbers")
    return whole.with_changes(
        elt=source.exchanged(listed.config, numbers),
        for_in=_clauses(listed, more),
        lbracket=cst.LeftSquareBracket(whitespace_after=_margin(whole.lbracket.whitespace_after)),
        rbracket=cst.RightSquareBracket(whitespace_before=_margin(whole.rbracket.whitespace_before)),
    )


def both(kernel: cst.FunctionDef, listed: Listed, more: More, comment: str) -> cst.FunctionDef:
    """The kernel with both lists, the second below the first and a line between that says why."""
    decorator = cst.ensure_type(kernel.decorators[0].decorator, cst.Call)
    end = _margin(listed.whole.rbracket.whitespace_before)
    first, begin = decorator.args[0].value, _margin(decorator.whitespace_before_args)
    if first is not listed.whole or begin.last_line.value != end.last_line.value:
        raise NotUnderstood("the list does not begin in a line of its own")
    said = cst.EmptyLine(indent=end.indent, whitespace=end.last_line, comment=cst.Comment(f"# {comment}"))
    plus = cst.Add(whitespace_before=end.with_changes(empty_lines=[said]))
    sum_of = cst.BinaryOperation(left=listed.whole, operator=plus, right=_another(listed, more))
    return cst.ensure_type(source.exchanged(kernel, {listed.whole: sum_of}), cst.FunctionDef)
