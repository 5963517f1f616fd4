"""Ask the GPU once what the host wants to know of a tensor, not torch once for each question.

A loss counts the targets that are not to be ignored and makes sure that all are classes: torch compares, multiplies,
reduces and compares again, in a launch each, and the host waits for three numbers, one after the other. In Liger's
cross_entropy eleven launches and copies take 28 us of an H100, whatever the size of the logits: of a forward pass of
2048 x 4096 in bfloat16 that is more than the kernel takes itself. A kernel of one program reads the targets once and
hands out all three numbers, which are one copy.

Looked for are lines one below the other: a mask `x != number`, how many it keeps, and assertions about the largest or
the smallest of `x * mask`. The assertions stay, with their words, about numbers that the host has then. Where the mask
is wanted once more, further down, it is made there, if nothing on the way writes, launches or calls what may do either;
else it stays where it is. Anything but 32 or 64 bit integers without gaps, a number that is none of the host's, nothing
at all and more than 65,536 of them, which are too many for one program, are asked of torch as before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from bot.engine import source
from bot.engine.bindings import bound_in
from bot.engine.finding import findall
from bot.engine.source import LONGEST, NotUnderstood
from bot.engine.transforms import own_kernel
from bot.engine.transforms.rewrite import Rewrite, refuse_long_lines

WHY = "One kernel and one copy for the host, in place of a wait for each number."
NAMES = ("_survey_kernel", "_surveyed")
HELPER = '''@triton.jit
def _survey_kernel(found_ptr, x_ptr, ignored, n_elements, BLOCK_SIZE: tl.constexpr):
    count = tl.zeros((BLOCK_SIZE,), dtype=tl.int64)
    first = tl.load(x_ptr).to(tl.int64)
    largest = tl.zeros((BLOCK_SIZE,), dtype=tl.int64) + tl.where(first != ignored, first, 0)
    smallest = largest
    for start in tl.range(0, n_elements, BLOCK_SIZE, num_stages=3):
        offsets = start + tl.arange(0, BLOCK_SIZE)
        is_there = offsets < n_elements
        x = tl.load(x_ptr + tl.where(is_there, offsets, 0)).to(tl.int64)  # behind the last one the first once more
        is_kept = x != ignored
        x = tl.where(is_kept, x, 0)
        count += (is_there & is_kept).to(tl.int64)
        largest = tl.maximum(largest, x)
        smallest = tl.minimum(smallest, x)
    tl.store(found_ptr, tl.sum(count, axis=0))
    tl.store(found_ptr + 1, tl.max(largest, axis=0))
    tl.store(found_ptr + 2, tl.min(smallest, axis=0))


def _surveyed(x, ignored):
    """How many are not ignored, and the largest and the smallest, where one that is ignored counts as 0."""
    is_whole = x.dtype in (torch.int32, torch.int64) and type(ignored) is int and -(2**31) <= ignored < 2**31
    if not is_whole or x.device.type == "cpu" or not x.is_contiguous() or not 0 < x.numel() <= 65536:
        kept = x != ignored
        return kept.sum().item(), (x * kept).max(), (x * kept).min()
    found = torch.empty(3, dtype=torch.int64, device=x.device)
    _survey_kernel[(1,)](found, x, ignored, x.numel(), BLOCK_SIZE=2048, num_warps=8)
    return found.tolist()
'''
INDENT = 4
BOUNDS = {"max": "largest", "min": "smallest"}
MASK = m.Comparison(left=m.Name(), comparisons=[m.ComparisonTarget(m.NotEqual(), m.Name())])
ORDERS = m.LessThan() | m.LessThanEqual() | m.GreaterThan() | m.GreaterThanEqual()
LOOKS = (
    *("size", "stride", "dim", "numel", "max", "min", "sum", "item"),
    *("is_floating_point", "is_contiguous", "is_tensor"),
)
"""What may be called on the way to where the mask is wanted: of a tensor or of torch, none of them writes."""
BUILTINS = ("isinstance", "len", "min", "max", "int", "float", "bool")
WRITES = (
    m.AugAssign()
    | m.Del()
    | m.NamedExpr()
    | m.AssignTarget(target=m.Subscript() | m.Attribute())
    | (m.For() | m.While() | m.With() | m.Try() | m.Match() | m.FunctionDef() | m.ClassDef() | m.Lambda())
)
STRANGE = m.Yield() | m.Await() | m.Global() | m.Nonlocal() | m.FunctionDef() | m.Lambda() | m.Import() | m.ImportFrom()
"""With these in a function a name may be somebody else's, or be read from elsewhere."""


@dataclass(frozen=True, slots=True)
class Questions:
    """A mask of a function and what the lines below it ask of it."""

    function: cst.FunctionDef
    at: int
    """Where the mask is made."""
    mask: str
    x: str
    ignored: str
    lines: Sequence[cst.SimpleStatementLine]

    @property
    def behind(self) -> Sequence[cst.BaseStatement]:
        """What comes after all of them."""
        return source.statements(self.function)[self.at + 1 + len(self.lines) :]


def _counts(line: cst.BaseStatement, mask: str) -> bool:
    """`name = mask.sum().item()`"""
    added = m.Call(m.Attribute(m.Name(mask), m.Name("sum")), args=[])
    asked = m.Call(m.Attribute(added, m.Name("item")), args=[])
    return len(source.targets(line)) == 1 and m.matches(source.value(line), asked)


def _asserts(line: cst.BaseStatement, mask: str, x: str) -> bool:
    """`assert (x * mask).max() < ...`"""
    product = m.BinaryOperation(m.Name(x), m.Multiply(), m.Name(mask))
    product |= m.BinaryOperation(m.Name(mask), m.Multiply(), m.Name(x))
    bound = m.Call(m.Attribute(product, m.OneOf(*map(m.Name, BOUNDS))), args=[])
    test = m.Comparison(bound, comparisons=[m.ComparisonTarget(ORDERS)])
    return bool(m.matches(line, m.SimpleStatementLine(body=[m.Assert(test)])))


def _bound(line: cst.SimpleStatementLine) -> tuple[cst.Call, str]:
    """What an assertion asks, and what the answer is called."""
    asserted = cst.ensure_type(line.body[0], cst.Assert)
    call = cst.ensure_type(cst.ensure_type(asserted.test, cst.Comparison).left, cst.Call)
    return call, BOUNDS[cst.ensure_type(call.func, cst.Attribute).attr.value]


def _run(lines: Sequence[cst.BaseStatement], mask: str, x: str) -> Iterator[cst.SimpleStatementLine]:
    """The questions that begin here: how many, and then the bounds."""
    for at, line in enumerate(lines):
        if not _asserts(line, mask, x) and (at > 0 or not _counts(line, mask)):
            return
        yield cst.ensure_type(line, cst.SimpleStatementLine)


def _said_inside(line: cst.SimpleStatementLine) -> bool:
    """Whether a comment stands in a line or behind it."""
    above = sum(one.comment is not None for one in line.leading_lines)
    return len(findall(line, m.Comment())) > above


def _is_plain(function: cst.FunctionDef) -> bool:
    """Nobody does anything with it but call it, and it launches a kernel itself: whoever calls it has seen to the
    device."""
    bare = not function.decorators and function.asynchronous is None
    inside = [one for one in findall(function, STRANGE) if one is not function]
    return bare and not inside and bool(findall(function, source.LAUNCH))


def _questions(function: cst.FunctionDef) -> Iterator[Questions]:
    body = source.statements(function) if _is_plain(function) else ()
    for at, line in enumerate(body):
        names = source.targets(line)
        if len(names) != 1 or not source.is_plain(line, names[0]) or not m.matches(source.value(line), MASK):
            continue
        made = cst.ensure_type(source.value(line), cst.Comparison)
        (mask,), x, ignored = names, source.code(made.left), source.code(made.comparisons[0].comparator)
        asked = tuple(_run(body[at + 1 :], mask, x))
        is_new = len({mask, x, ignored}) == 3 and not any(findall(one, m.Name(mask)) for one in body[:at])
        changes = any(bound_in(one)[name] for one in asked for name in (mask, x, ignored))
        lines = (cst.ensure_type(line, cst.SimpleStatementLine), *asked)
        if len(asked) > 1 and is_new and not changes and not any(map(_said_inside, lines)):
            yield Questions(function, at, mask, x, ignored, asked)


def _refuse_taken_names(asked: Questions) -> None:
    """Raises NotUnderstood where the new names are taken."""
    if findall(asked.function, m.Name("largest") | m.Name("smallest") | m.Name("_")):
        raise NotUnderstood("the names are taken")


def _answered(asked: Questions) -> list[cst.SimpleStatementLine]:
    """All numbers in one line, and the assertions about them."""
    first, *others = asked.lines
    counts = _counts(first, asked.mask)
    bounds = others if counts else asked.lines
    wanted = {_bound(line)[1] for line in bounds}
    names = source.targets(first) if counts else ("_",)
    names = (*names, *(name if name in wanted else "_" for name in BOUNDS.values()))
    told = source.assignment(f"{', '.join(names)} = _surveyed({asked.x}, {asked.ignored})", WHY)
    said = first.leading_lines if counts else ()
    return [told.with_changes(leading_lines=(*said, *told.leading_lines)), *map(_about_a_number, bounds)]


def _about_a_number(line: cst.SimpleStatementLine) -> cst.SimpleStatementLine:
    """The assertion with a number of the host's, and its words beside it where there is room now."""
    call, name = _bound(line)
    asserted = cst.ensure_type(line.body[0], cst.Assert)
    apart = asserted.with_changes(whitespace_after_assert=cst.SimpleWhitespace(" "))
    told = cst.ensure_type(apart.deep_replace(call, cst.Name(name)), cst.Assert)
    if isinstance(told.msg, cst.SimpleString | cst.FormattedString) and not findall(told.msg, m.Comment()):
        beside = told.with_changes(msg=told.msg.with_changes(lpar=(), rpar=()))
        told = beside if len(source.code(beside)) <= LONGEST - INDENT else told
    return line.with_changes(body=[told])


def _leaves_all_as_it_is(node: cst.CSTNode, asked: Questions) -> bool:
    """Whether nothing on the way to the mask can make it another one: whoever shares memory with it writes nothing."""
    calls = [cst.ensure_type(call, cst.Call) for call in findall(node, m.Call())]
    looks = m.Attribute(attr=m.OneOf(*map(m.Name, LOOKS))) | m.OneOf(*map(m.Name, BUILTINS))
    quiet = all(m.matches(call.func, looks) and not findall(call, m.Arg(keyword=m.Name("out"))) for call in calls)
    changes = any(bound_in(node)[name] for name in (asked.x, asked.ignored))
    return quiet and not changes and not findall(node, WRITES)


def _above(block: Sequence[cst.BaseStatement], asked: Questions) -> list[cst.BaseStatement]:
    """Statements with the mask made above the first of them that wants it, inside of a branch where no other does.
    Raises NotUnderstood where it may be another one by then."""
    at = next((at for at, line in enumerate(block) if _wants(line, asked)), None)
    if at is None:
        return list(block)
    first, behind = block[at], block[at + 1 :]
    before = [*block[:at], *([first.test] if isinstance(first, cst.If) else [])]
    if not all(_leaves_all_as_it_is(one, asked) for one in before):
        raise NotUnderstood("the mask may be another one by then")
    if isinstance(first, cst.SimpleStatementLine):
        made = source.assignment(f"{asked.mask} = {asked.x} != {asked.ignored}")
        above = made.with_changes(leading_lines=first.leading_lines)
        return [*block[:at], above, first.with_changes(leading_lines=()), *behind]
    branch = first.body if isinstance(first, cst.If) else None
    if not isinstance(branch, cst.IndentedBlock) or _wants(branch, asked) != sum(_wants(one, asked) for one in block):
        raise NotUnderstood("the mask is wanted in some way that is not looked into")
    lines = [one for one in branch.body if isinstance(one, cst.BaseStatement)]
    return [*block[:at], first.with_changes(body=branch.with_changes(body=_above(lines, asked))), *behind]


def _wants(node: cst.CSTNode, asked: Questions) -> int:
    return len(findall(node, m.Name(asked.mask)))


def _changed(asked: Questions) -> cst.FunctionDef:
    _refuse_taken_names(asked)
    body = list(source.statements(asked.function))
    above = cst.ensure_type(body[asked.at], cst.SimpleStatementLine).leading_lines
    first, *bounds = _answered(asked)
    try:
        behind, mask = _above([*bounds, *asked.behind], asked), []
        first = first.with_changes(leading_lines=(*above, *first.leading_lines))
    except NotUnderstood:
        behind, mask = [*bounds, *asked.behind], [body[asked.at]]
    changed = source.with_statements(asked.function, [*body[: asked.at], *mask, first, *behind])
    refuse_long_lines(asked.function, changed)
    return changed


def rewrite(text: str) -> Rewrite | None:
    """The one function of the file that asks so."""
    if ".sum().item()" not in text and "assert " not in text:
        return None
    module = own_kernel.module_with_room(text, NAMES)
    if module is None:
        return None
    found = [asked for function in source.functions(module) for asked in _questions(function)]
    if len(found) != 1 or not own_kernel.knows_the_device(found[0].function):
        return None
    (asked,) = found
    try:
        inside = _changed(asked)
    except NotUnderstood:
        return None
    return Rewrite(
        text=own_kernel.placed_above(module, asked.function, HELPER, [inside]),
        kernels=(),
        title="Ask the GPU once",
        why=f"The host wants {len(asked.lines)} numbers of {asked.x}, and torch makes each of them in several launches "
        "and copies it alone, while the host waits. A kernel of our own makes them all, for one copy.",
        seen="On an H100 the questions of cross_entropy take 28 us, of a forward pass of 2048 x 4096 that takes 40 us "
        "after launch numbers.",
    )


def applies(text: str) -> bool:
    return rewrite(text) is not None
