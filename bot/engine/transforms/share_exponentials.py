"""Take one exponential for two: of `exp(a - max(a, b))` and `exp(b - max(a, b))` one is always 1.

A mixture of two distributions in logarithms takes both, as they cannot underflow together, and then the exponentials of
`a` and of `b` themselves: four, where the lesser and that of the larger are enough. `exp(a)` is the product of the
shifted one with `exp(max(a, b))`. A GPU makes one exponential while it adds eight times. That is no gain by itself:
jsd's forward, which still wrote the loss of each element, was 0.976x to 1.005x with it on an H200.

The lesser is `exp((a - m) + (b - m))`: one of the two is zero, so nothing is rounded, and what is not a number stays
so. A product has one rounding more than an exponential of its own, which is off by more for all but small arguments.

Refused where one of the names is bound again, where a shifted one has no exponential, and where a name that this needs
is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import source
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood
from bot.engine.transforms.rewrite import Rewrite, each_kernel

WHY = "One of the two differences is zero, and its exponential 1: the other's is enough for both."
LESSER = "lesser"
LARGER = m.Call(func=m.Attribute(m.Name("tl"), m.Name("maximum")), args=[m.Arg(m.Name(), keyword=None)] * 2)


@dataclass(frozen=True, slots=True)
class _Pair:
    """`larger = tl.maximum(a, b)` with `a - larger` and `b - larger` behind it, in one block."""

    body: Sequence[cst.BaseStatement]
    larger: str
    whole: tuple[str, str]
    shifted: tuple[str, str]
    first: int
    """Where the larger is taken."""
    last: int
    """The later of the two differences."""

    @property
    def behind(self) -> Sequence[cst.BaseStatement]:
        return self.body[self.last + 1 :]


def _exponential(name: str) -> m.Call:
    return m.Call(func=m.Attribute(m.Name("tl"), m.Name("exp")), args=[m.Arg(m.Name(name), keyword=None, star="")])


def _differences(body: Sequence[cst.BaseStatement], whole: str, larger: str) -> list[tuple[int, str]]:
    difference = m.BinaryOperation(m.Name(whole), m.Subtract(), m.Name(larger))
    found = [(at, source.targets(line)) for at, line in enumerate(body) if m.matches(source.value(line), difference)]
    return [(at, names[0]) for at, names in found if len(names) == 1]


def _pair_at(body: Sequence[cst.BaseStatement], at: int) -> _Pair | None:
    names, value = source.targets(body[at]), source.value(body[at])
    if len(names) != 1 or not m.matches(value, LARGER):
        return None
    whole = [cst.ensure_type(arg.value, cst.Name).value for arg in cst.ensure_type(value, cst.Call).args]
    each = [_differences(body[at:], one, names[0]) for one in whole]
    if whole[0] == whole[1] or any(len(found) != 1 for found in each):
        return None
    (first, one), (second, other) = each[0][0], each[1][0]
    return _Pair(body, names[0], (whole[0], whole[1]), (one, other), at, at + max(first, second))


def _pair(kernel: cst.FunctionDef) -> _Pair:
    blocks = [cst.ensure_type(block, cst.IndentedBlock).body for block in findall(kernel, m.IndentedBlock())]
    found = [pair for body in blocks for at in range(len(body)) if (pair := _pair_at(body, at)) is not None]
    if len(found) != 1:
        raise NotUnderstood("there is no pair of differences to the larger of two, or more than one")
    return found[0]


def _bound(lines: Sequence[cst.BaseStatement], name: str) -> int:
    targets = m.AssignTarget(m.Name(name)) | m.AugAssign(target=m.Name(name)) | m.For(target=m.Name(name))
    return sum(len(findall(line, targets)) for line in lines)


def _check(kernel: cst.FunctionDef, pair: _Pair) -> None:
    """What is bound to these names in other branches is theirs."""
    lines = pair.body[pair.first :]
    known = {pair.larger: 1, **dict.fromkeys(pair.shifted, 1), **dict.fromkeys(pair.whole, 0)}
    for name, times in known.items():
        if _bound(lines, name) != times:
            raise NotUnderstood(f"{name} is bound again")
    if not all(any(findall(line, _exponential(name)) for line in pair.behind) for name in pair.shifted):
        raise NotUnderstood("a difference has no exponential")
    for name in (_named(name) for name in (pair.larger, *pair.shifted, LESSER)):
        if findall(kernel, m.Name(name)):
            raise NotUnderstood(f"{name} is a name already")


def _named(name: str) -> str:
    return f"exp_{name}"


def _new_lines(pair: _Pair, *, wholes: bool) -> list[cst.SimpleStatementLine]:
    one, other = pair.shifted
    lesser = _named(LESSER)
    lines = [source.assignment(f"{lesser} = tl.exp({one} + {other})", WHY)]
    lines += [source.assignment(f"{_named(name)} = tl.where({name} == 0.0, 1.0, {lesser})") for name in pair.shifted]
    return [*lines, source.assignment(f"{_named(pair.larger)} = tl.exp({pair.larger})")] if wholes else lines


def _exchanged(line: cst.BaseStatement, pair: _Pair) -> cst.BaseStatement:
    new: dict[cst.CSTNode, cst.CSTNode] = {}
    for whole, shifted in zip(pair.whole, pair.shifted, strict=True):
        new |= {call: cst.Name(_named(shifted)) for call in findall(line, _exponential(shifted))}
        product = source.expression(f"{_named(shifted)} * {_named(pair.larger)}")
        in_parts = product.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        for call in findall(line, _exponential(whole)):
            new[call] = product if source.value(line) is call else in_parts
    return cst.ensure_type(source.exchanged(line, new), cst.BaseStatement) if new else line


def _change(module: cst.Module, name: str) -> cst.Module:
    kernel = source.kernel_named(module, name)
    assert kernel is not None
    pair = _pair(kernel)
    _check(kernel, pair)
    behind = pair.behind
    wholes = any(findall(line, _exponential(whole)) for line in behind for whole in pair.whole)
    last = pair.body[pair.last]
    changes: list[tuple[cst.CSTNode, Sequence[cst.BaseStatement]]] = [(last, (last, *_new_lines(pair, wholes=wholes)))]
    for line in behind:
        if (new := _exchanged(line, pair)) is not line:
            changes.append((line, (new,)))
    return source.spliced(module, changes)


def rewrite(text: str, only: str = "") -> Rewrite | None:
    """Every kernel of the file that takes exponentials of two numbers and of their differences to the larger."""
    return each_kernel(
        text,
        _change,
        title="Take one exponential for two",
        why="Of two differences to the larger of two numbers one is zero and its exponential 1, and the exponential of "
        "a number is that of its difference times that of the larger.",
        seen="On an H200 nothing for jsd's forward as it is (0.976x to 1.005x in two races), and 1.026x for jsd once "
        "its loss is added up in the kernel.",
        only=only,
    )


def applies(text: str) -> bool:
    return rewrite(text) is not None
