"""Read a number to know whether it is one: `x.item() == 1.0` for `torch.equal(x, torch.tensor(1.0, ...))`.

The backward of a loss that made its gradient in the forward pass skips a product where what arrives is 1. To find out
it makes a tensor of the host's 1.0, which is a copy to the GPU, compares both there in two small kernels, and waits for
the answer. The number itself is one copy and one wait. On an H200 the host took 103 us for tvd's backward, which is
little more than the question and a product, and a kernel that made the GPU three times as fast was refused for what its
launch adds to that: `scale_in_kernel` brings this along.

torch.equal says no to another shape before it looks at a value, so the number is read of a tensor without dimensions
alone: one element in a row is no number, and nobody waits for it, as before. Types make no difference: torch compares
two numbers in the wider of their types, and 1 is the same in all of them. Refused where the 1.0 is not made on the
device of what it is compared with, for torch.equal raises there.
"""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from bot.engine import source
from bot.engine.finding import findall
from bot.engine.source import NotUnderstood
from bot.engine.transforms.rewrite import Rewrite

WHY = "One copy for the host: torch.equal makes a tensor and launches two kernels besides."
COMPARED = m.Call(
    func=m.Attribute(value=m.Name("torch"), attr=m.Name("equal")),
    args=[
        m.Arg(value=m.Name()),
        m.Arg(
            value=m.Call(
                func=m.Attribute(value=m.Name("torch"), attr=m.Name("tensor")),
                args=[m.Arg(value=m.Float("1.0")), m.ZeroOrMore()],
            )
        ),
    ],
)


def _asked_of(method: str) -> m.Call:
    return m.Call(func=m.Attribute(value=m.Name(), attr=m.Name(method)), args=[])


READ = m.BooleanOperation(
    left=m.Comparison(
        left=_asked_of("dim"), comparisons=[m.ComparisonTarget(operator=m.Equal(), comparator=m.Integer("0"))]
    ),
    operator=m.And(),
    right=m.Comparison(
        left=_asked_of("item"), comparisons=[m.ComparisonTarget(operator=m.Equal(), comparator=m.Float("1.0"))]
    ),
)


def may_ask(text: str) -> bool:
    """Whether it is worth parsing: both ways to ask say one of these."""
    return "torch.equal(" in text or ".item() == 1.0" in text


def number_of(question: cst.CSTNode) -> str:
    """What is asked whether it is one, in either way; empty where that is not what is asked."""
    if m.matches(question, COMPARED):
        return source.code(cst.ensure_type(question, cst.Call).args[0].value)
    if not m.matches(question, READ):
        return ""
    calls = (cst.ensure_type(call, cst.Call) for call in findall(question, _asked_of("dim") | _asked_of("item")))
    names = {source.code(cst.ensure_type(call.func, cst.Attribute).value) for call in calls}
    return names.pop() if len(names) == 1 else ""


def numbers(function: cst.FunctionDef) -> frozenset[str]:
    """All that a function asks this of."""
    return frozenset(filter(None, map(number_of, findall(function, COMPARED | READ))))


def without_reason(lines: tuple[cst.EmptyLine, ...]) -> tuple[cst.EmptyLine, ...]:
    """What is said above a question, less what is said of how it is asked."""
    return tuple(line for line in lines if line.comment is None or line.comment.value != f"# {WHY}")


def _is_made_there(question: cst.CSTNode) -> bool:
    """Whether the 1.0 is a tensor on the device of what it is compared with."""
    made = cst.ensure_type(cst.ensure_type(question, cst.Call).args[1].value, cst.Call)
    told = {arg.keyword.value if arg.keyword else "": source.code(arg.value) for arg in made.args[1:]}
    return set(told) <= {"device", "dtype"} and told.get("device") == f"{number_of(question)}.device"


def _read(test: cst.BaseExpression) -> cst.BaseExpression | None:
    """The test of an `if` in the other words, where it is this question or the opposite."""
    negated = isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not)
    question = cst.ensure_type(test, cst.UnaryOperation).expression if negated else test
    if not m.matches(question, COMPARED) or not _is_made_there(question) or findall(test, m.Comment()):
        return None
    name = number_of(question)
    asked = f"{name}.dim() == 0 and {name}.item() == 1.0"
    return source.expression(f"not ({asked})" if negated else asked)


class _Reading(cst.CSTTransformer):  # type: ignore[misc]  # libcst is not followed
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def leave_If(self, original_node: cst.If, updated_node: cst.If) -> cst.If:
        test = _read(original_node.test)
        if test is None:
            return updated_node
        self.names += [number_of(found) for found in findall(test, READ)]
        return updated_node.with_changes(
            test=test,
            whitespace_before_test=cst.SimpleWhitespace(" "),
            leading_lines=source.commented(updated_node.leading_lines, WHY),
        )


def rewrite(text: str) -> Rewrite | None:
    """Every such question of the file."""
    if "torch.equal(" not in text:
        return None
    try:
        module = source.parse(text)
    except NotUnderstood:
        return None
    reading = _Reading()
    changed = cst.ensure_type(module.visit(reading), cst.Module)
    if not reading.names:
        return None
    return Rewrite(
        text=source.written(changed),
        kernels=(),
        title="Read the number that arrives, in one copy",
        why=f"The host asks whether {' and '.join(dict.fromkeys(reading.names))} is one. For torch.equal it makes a "
        "tensor, launches two small kernels and copies their answer; the number itself is one copy. What has "
        "dimensions is told apart without a look, as before.",
        seen="On an H200 the host took 103 us for tvd's backward, little more than this question and a product.",
    )


def applies(text: str) -> bool:
    return rewrite(text) is not None
