"""Read rows once that are scored first and then added up by the softmax of their scores.

    for i in tl.static_range(0, MAX_BLOCKS):              for i in tl.static_range(0, MAX_BLOCKS):
        if i < n_blocks:                                      if i < n_blocks:
            v = tl.load(...).to(tl.float32)                       v = tl.load(...).to(tl.float32)
            sc = tl.sum(w * v, axis=0)                            sc = tl.sum(w * v, axis=0)
            ...                                                   ...
    alpha = exp_scores / sum_exp                                  now_scaled_to = tl.maximum(scaled_to, sc)
    for i in tl.static_range(0, MAX_BLOCKS):                      h = h * tl.exp(scaled_to - now_scaled_to) + ...
        if i < n_blocks:                                  alpha = exp_scores / sum_exp
            v = tl.load(...).to(tl.float32)               h = h / sum_exp
            h += alpha_i * v

Liger's attn_res reads the rows of all blocks of a token for their scores, and all of them again to add them up: twice
the bytes it has to. What is added up may be scaled by whatever the largest score was so far, and rescaled when a larger
one comes (Milakov and Gimelshein, 2018); at the end it is divided by the sum of the exponentials, which is there for
the shares already. Those are made and stored as before. Only the order and the place of roundings in float32 change.

Looked for is the whole of it: two loops with one head, the second of which makes the same row in the same words, picks
its share of `tl.where(inside, tl.exp(scores - largest), 0.0)` divided by its sum, and adds the product to zeros in
float32; scores and the largest of them are kept by the first loop, which binds row and score once. A first score of
minus infinity would make a number that is none, so the scale begins with the least that float32 has; where there is no
turn at all, the sum is zero and so is the result, as before.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import libcst as cst
import libcst.matchers as m

from bot.engine import kernels, runs, source
from bot.engine.bindings import bound_in, times_bound
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood
from bot.engine.transforms.rewrite import Rewrite, each_kernel, refuse_long_lines

SCALE, NEXT = "scaled_to", "now_scaled_to"
LEAST = "-3.4e38"
WHY_FIRST = "Not -inf: a first score of that would make NaNs."
WHY_HERE = "Added up while the row is here, scaled to the largest score so far."
WHY_LAST = "Each row was added up when it was scored: what is left is to divide."
PLAIN = ("range", "float", "int", "min", "max")
"""What may be called by a name alone: of Python's, and no function of the file."""
UNLIMITED = ("tl.full((), float('-inf'), dtype=tl.float32)", "float('-inf')")
"""What the largest score begins with."""


@dataclass(frozen=True, slots=True)
class _Turns:
    """A loop whose turns are one branch each, written out."""

    loop: cst.For
    head: str
    counter: str
    number: str
    lines: tuple[cst.SimpleStatementLine, ...]

    @property
    def said(self) -> tuple[str, ...]:
        return tuple(_plain(line) for line in self.lines)


@dataclass(frozen=True, slots=True)
class _Weighing:
    first: _Turns
    second: _Turns
    zeros: cst.SimpleStatementLine
    added: str
    row: str
    score: str
    largest: str
    total: str
    kept: cst.SimpleStatementLine
    """The line that keeps the largest score, behind which row and score are there."""
    has_zeros: bool
    """Whether the zeros stand above the first loop already."""


def _plain(node: cst.CSTNode) -> str:
    """What it says, without comments and breaks."""
    if isinstance(node, cst.SimpleStatementLine):
        node = node.with_changes(leading_lines=(), trailing_whitespace=cst.TrailingWhitespace())
    return ast.unparse(ast.parse(source.code(node).strip()))


def _turns(loop: cst.For) -> _Turns:
    call, counter = loop.iter, source.code(loop.target)
    branch = loop.body.body[0] if len(loop.body.body) == 1 else None
    if not isinstance(call, cst.Call) or source.code(call.func) != "tl.static_range" or loop.orelse is not None:
        raise NotUnderstood("it is not written out")
    if not isinstance(branch, cst.If) or branch.orelse is not None or not isinstance(branch.body, cst.IndentedBlock):
        raise NotUnderstood("a turn is not one branch")
    test, head = _plain(branch.test), f"{counter} < "
    number = test.removeprefix(head)
    lines = tuple(line for line in branch.body.body if isinstance(line, cst.SimpleStatementLine))
    if not test.startswith(head) or not number.isidentifier() or len(lines) != len(branch.body.body):
        raise NotUnderstood("a turn asks for more than whether it still counts, or holds more than lines")
    return _Turns(loop, f"{counter}, {_plain(call)}", counter, number, lines)


def _most(turns: _Turns) -> str:
    """The constant that a loop is written out up to."""
    call = cst.ensure_type(turns.loop.iter, cst.Call)
    said = [source.code(arg.value) for arg in call.args if arg.keyword is None and not arg.star]
    if len(said) != len(call.args) or said[:-1] not in ([], ["0"]) or not said[-1].isidentifier():
        raise NotUnderstood("it does not count from zero")
    return said[-1]


def _defined(kernel: cst.FunctionDef, name: str, times: int = 1) -> list[str]:
    """What the kernel's own lines give a name, where nothing else gives it a value."""
    found = [_plain(source.value(line)) for line in source.statements(kernel) if source.is_plain(line, name)]
    if times_bound(kernel, name) != times or not found:
        raise NotUnderstood(f"{name} is given another value elsewhere")
    return found


def _added(second: _Turns) -> tuple[str, str, str, tuple[str, ...]]:
    """(what is added to, the row, the share, the lines that make the row) of the second loop."""
    *made, last = second.lines
    grows = m.AugAssign(
        target=m.Name(), operator=m.AddAssign(), value=m.BinaryOperation(operator=m.Multiply(), right=m.Name())
    )
    if not m.matches(last, m.SimpleStatementLine(body=[grows])):
        raise NotUnderstood("the second loop does not end with what it adds up")
    line = cst.ensure_type(last.body[0], cst.AugAssign)
    product = cst.ensure_type(line.value, cst.BinaryOperation)
    share, row = _plain(product.left), source.code(product.right)
    names = {source.targets(one)[0]: one for one in made if len(source.targets(one)) == 1}
    if len(names) != len(made) or row not in names:
        raise NotUnderstood("the second loop does more than to make a row and its share")
    if share in names:
        share = _plain(source.value(names.pop(share)))
    return source.code(line.target), row, share, tuple(_plain(one) for one in names.values())


def _chain(kernel: cst.FunctionDef, first: _Turns, share: str) -> tuple[str, str, str]:
    """(the scores, the largest of them, the sum of the exponentials) that a share is made of."""
    most, counter = _most(first), first.counter
    head, tail = f"tl.sum(tl.where(tl.arange(0, {most}) == {counter}, ", ", 0.0))"
    shares = share.removeprefix(head).removesuffix(tail)
    if share != f"{head}{shares}{tail}" or not shares.isidentifier():
        raise NotUnderstood("the share is not picked from all of them")
    (quotient,) = _defined(kernel, shares)
    exponentials, _, total = quotient.partition(" / ")
    if not exponentials.isidentifier() or not total.isidentifier():
        raise NotUnderstood("the shares are no quotient")
    if _defined(kernel, total)[0] not in (f"tl.sum({exponentials}, axis=0)", f"tl.sum({exponentials})"):
        raise NotUnderstood("the shares are not of their sum")
    head, tail = f"tl.where(tl.arange(0, {most}) < {first.number}, tl.exp(", "), 0.0)"
    (made,) = _defined(kernel, exponentials)
    scores, _, largest = made.removeprefix(head).removesuffix(tail).partition(" - ")
    if made != f"{head}{scores} - {largest}{tail}" or not scores.isidentifier() or not largest.isidentifier():
        raise NotUnderstood("they are no exponentials of scores")
    return scores, largest, total


def _score(kernel: cst.FunctionDef, first: _Turns, scores: str, largest: str) -> tuple[str, cst.SimpleStatementLine]:
    """The score of a turn, and the line that keeps the largest."""
    head, said = f"{largest} = tl.maximum({largest}, ", first.said
    kept = [line for line, text in zip(first.lines, said, strict=True) if text.startswith(head)]
    score = _plain(kept[0]).removeprefix(head).removesuffix(")") if len(kept) == 1 else ""
    put = f"{scores} = tl.where(tl.arange(0, {_most(first)}) == {first.counter}, {score}, {scores})"
    if not score.isidentifier() or put not in said or times_bound(kernel, scores) != len((put, "its beginning")):
        raise NotUnderstood("the first loop does not keep its scores and the largest of them")
    if _defined(kernel, largest, times=2) not in [[one] for one in UNLIMITED]:
        raise NotUnderstood("the largest score begins with more than nothing")
    return score, kept[0]


def _weighing(kernel: cst.FunctionDef, first: _Turns, second: _Turns) -> _Weighing:
    if (first.head, first.number) != (second.head, second.number) or times_bound(kernel, first.number):
        raise NotUnderstood("the loops have other turns")
    added, row, share, makes = _added(second)
    scores, largest, total = _chain(kernel, first, share)
    score, kept = _score(kernel, first, scores, largest)
    at = first.lines.index(kept)
    before = [name for line in first.lines[:at] for name in source.targets(line)]
    bound = [count for name, count in bound_in(first.loop.body).items() if name in {row, score, *_names(makes)}]
    if not set(makes) <= set(first.said[:at]) or {row, score} - set(before) or set(bound) != {1}:
        raise NotUnderstood("row and score are not made once, and alike")
    if not next(text for text in makes if text.startswith(f"{row} = ")).endswith(".to(tl.float32)"):
        raise NotUnderstood("the row is not in float32")
    _refuse_others(kernel, first, second, added, makes)
    zeros, lines = _zeros(kernel, second, added), source.statements(kernel)
    above = lines.index(zeros) < lines.index(first.loop)
    return _Weighing(first, second, zeros, added, row, score, largest, total, kept, above)


def _names(makes: Sequence[str]) -> set[str]:
    return {text.partition(" = ")[0] for text in makes}


def _read(text: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}


def _refuse_others(kernel: cst.FunctionDef, first: _Turns, second: _Turns, added: str, makes: Sequence[str]) -> None:
    """Raises NotUnderstood where a row may be another one in the second loop, or what that makes is needed below it."""
    lines = source.statements(kernel)
    between = lines[lines.index(first.loop) : lines.index(second.loop) + 1]
    read = set[str]().union(*map(_read, makes)) - _names(makes) - {first.counter, "tl"}
    if any(bound_in(line)[name] for line in between for name in read):
        raise NotUnderstood("what the row is read through changes")
    _refuse_stores(kernel, between)
    ours = {name for line in second.lines for name in source.targets(line)} - {added}
    for line in lines[lines.index(second.loop) + 1 :]:
        if any(findall(line, m.Name(name)) for name in ours):
            raise NotUnderstood("what the second loop makes is needed below it")
        if not isinstance(line, cst.For) and findall(line, m.Name(first.counter)):
            raise NotUnderstood("its counter is needed below it")


def _refuse_stores(kernel: cst.FunctionDef, between: Sequence[cst.BaseStatement]) -> None:
    """Raises NotUnderstood where something may be stored that is loaded, or is done that nobody can look into."""
    calls = [call for line in between for call in kernels.calls(line)]
    names = [kernels.called_name(call) for call in calls]
    inside = [call for call in calls if isinstance(call.func, cst.Name) and call.func.value not in PLAIN]
    if inside or any(name.startswith("atomic") or "barrier" in name or "asm" in name for name in names):
        raise NotUnderstood("more is done than to load, to work out and to store")
    if runs.bases(kernel, "load", between) & runs.bases(kernel, "store", between):
        raise NotUnderstood("what is loaded is stored as well")


def _zeros(kernel: cst.FunctionDef, second: _Turns, added: str) -> cst.SimpleStatementLine:
    """The line that what is added up begins with: nobody reads that before the second loop."""
    lines = source.statements(kernel)
    (made,) = _defined(kernel, added, times=2)
    line = next(cst.ensure_type(one, cst.SimpleStatementLine) for one in lines if source.is_plain(one, added))
    if not made.startswith("tl.zeros((") or not made.endswith("), dtype=tl.float32)"):
        raise NotUnderstood("it is not added to zeros in float32")
    at, end = lines.index(line), lines.index(second.loop)
    if at > end or any(findall(one, m.Name(added)) for one in lines[at + 1 : end]):
        raise NotUnderstood("what is added up is needed before")
    if any(times_bound(kernel, name) for name in _sizes(made)):
        raise NotUnderstood("how long a row is, is not a constant")
    return line


def _sizes(zeros: str) -> list[str]:
    return [node.id for node in ast.walk(ast.parse(zeros)) if isinstance(node, ast.Name) and node.id != "tl"]


def _grown(found: _Weighing) -> list[cst.SimpleStatementLine]:
    added, score = found.added, found.score
    return [
        source.assignment(f"{NEXT} = tl.maximum({SCALE}, {score})", WHY_HERE),
        source.assignment(
            f"{added} = {added} * tl.exp({SCALE} - {NEXT}) + tl.exp({score} - {NEXT}) * {found.row}",
        ),
        source.assignment(f"{SCALE} = {NEXT}"),
    ]


def _begun(found: _Weighing) -> list[cst.BaseStatement]:
    """What the first loop adds to, and the loop with what it adds."""
    empty, said = source.split_above(found.first.loop)
    scale = source.assignment(f"{SCALE} = tl.full((), {LEAST}, dtype=tl.float32)", WHY_FIRST)
    begun = [found.zeros.with_changes(leading_lines=empty), scale]
    if found.has_zeros:
        begun = [scale.with_changes(leading_lines=(*empty, *scale.leading_lines))]
    branch = cst.ensure_type(found.first.loop.body.body[0], cst.If)
    block = cst.ensure_type(branch.body, cst.IndentedBlock)
    lines = [new for line in block.body for new in ([line, *_grown(found)] if line is found.kept else [line])]
    inner = branch.with_changes(body=block.with_changes(body=lines))
    loop = found.first.loop.with_deep_changes(found.first.loop.body, body=[inner])
    return [*begun, cst.ensure_type(loop, cst.For).with_changes(leading_lines=said)]


def _ended(found: _Weighing) -> list[cst.BaseStatement]:
    """What stands where the second loop stood, below what was said of it and of the zeros."""
    above = () if found.has_zeros else found.zeros.leading_lines
    said = (*above, *(line for line in found.second.loop.leading_lines if found.has_zeros or line.comment))
    divided = f"{found.added} = {found.added} / tl.where({found.total} == 0.0, 1.0, {found.total})"
    line = source.assignment(divided, WHY_LAST)
    return [line.with_changes(leading_lines=(*said, *line.leading_lines))]


def _found(kernel: cst.FunctionDef) -> _Weighing:
    """The first two loops of it that are one."""
    loops = [line for line in source.statements(kernel) if isinstance(line, cst.For)]
    for first, second in combinations(loops, 2):
        try:
            return _weighing(kernel, _turns(first), _turns(second))
        except NotUnderstood:
            continue
    raise NotUnderstood("no rows are read for their scores and again to be added up")


def _change(module: cst.Module, name: str) -> cst.Module:
    kernel = source.kernel_named(module, name)
    assert kernel is not None
    if findall(kernel, m.Name(SCALE) | m.Name(NEXT)):
        raise NotUnderstood("a name is taken")
    found = _found(kernel)
    if findall(found.second.loop.body, m.Comment()):
        raise NotUnderstood("somebody said something of a line that goes")
    changes = [(found.first.loop, _begun(found)), (found.second.loop, _ended(found))]
    changed = source.spliced(module, [*changes, *([] if found.has_zeros else [(found.zeros, [])])])
    after = source.kernel_named(changed, name)
    assert after is not None
    refuse_long_lines(kernel, after)
    return changed


def rewrite(text: str) -> Rewrite | None:
    """Every kernel of the file with two such loops."""
    if "tl.static_range(" not in text:
        return None
    return each_kernel(
        text,
        _change,
        title="Add rows up as they are scored",
        why="The rows of a program are read for their scores, and again to be added up by the softmax of those. What "
        "is added up while a row is there is scaled to the largest score so far, and divided by the sum at the end.",
    )


def applies(text: str) -> bool:
    return rewrite(text) is not None
